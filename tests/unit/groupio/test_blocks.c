// SPDX-License-Identifier: Apache-2.0
/* Names, seals and memory of blocks, and a member that does not send what it says. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "common/clock.h"
#include "common/thread.h"
#include "groupio/blocks_priv.h"
#include "groupio/group_priv.h"
#include "groupio/identity.h"

TestSuite(blocks, .timeout = 60);

static const struct digest secret = { { 7 } }, other_secret = { { 8 } };

static void name_of(const struct digest *s, const char *cache, const char *key,
		    char ret[BLOCK_NAME_LEN + 1])
{
	cr_assert_eq(block_name(s, cache, key, strlen(key), ret), 0);
	cr_expect(block_name_is_valid(ret));
}

Test(blocks, have_names_that_secret_cache_and_key_make)
{
	char name[BLOCK_NAME_LEN + 1], same[BLOCK_NAME_LEN + 1];
	char others[3][BLOCK_NAME_LEN + 1];

	name_of(&secret, "ab", "c", name);
	name_of(&secret, "ab", "c", same);
	name_of(&secret, "a", "bc", others[0]);
	name_of(&secret, "ab", "d", others[1]);
	name_of(&other_secret, "ab", "c", others[2]);
	cr_expect_str_eq(name, same);
	for (size_t i = 0; i < 3; i++)
		cr_expect_str_neq(name, others[i]);
	cr_expect_not(block_name_is_valid("../../etc/passwd"));
	name[3] = 'X';
	cr_expect_not(block_name_is_valid(name));
}

Test(blocks, have_a_seal_that_members_alone_can_make)
{
	char name[BLOCK_NAME_LEN + 1], other[BLOCK_NAME_LEN + 1];
	char text[BLOCK_SEAL_TEXT_MAX];
	uint8_t stored[BLOCK_SEAL_SIZE];
	struct block_seal s, back;

	name_of(&secret, "m", "1", name);
	name_of(&secret, "m", "2", other);
	cr_assert_eq(block_seal_make(&secret, name, "bytes", 5, &s), 0);
	cr_expect(block_seal_is_ours(&secret, name, &s));
	cr_expect_not(block_seal_is_ours(&secret, other, &s));
	cr_expect_not(block_seal_is_ours(&other_secret, name, &s));
	block_seal_encode(&s, stored);
	cr_assert_eq(block_seal_decode(stored, &back), 0);
	cr_expect(block_seal_is_ours(&secret, name, &back));
	block_seal_format(&s, text);
	cr_assert_eq(block_seal_parse(text, &back), 0);
	cr_expect(block_seal_is_ours(&secret, name, &back));
	back.len++;
	cr_expect_not(block_seal_is_ours(&secret, name, &back));
	stored[0] ^= 1;
	cr_expect_eq(block_seal_decode(stored, &back), -EBADMSG);
	cr_expect_eq(block_seal_parse("5 sha256:00 x", &back), -EBADMSG);
	cr_expect_eq(block_seal_parse("", &back), -EBADMSG);
	(void)strcat(text, "!");
	cr_expect_eq(block_seal_parse(text, &back), -EBADMSG);
}

/* ------------------------------------------------------------------------- memory --- */

static struct blocks *make_blocks(uint64_t memory)
{
	const struct blocks_config cfg = { .memory = memory,
					   .wait_ns = NS_PER_S };
	struct blocks *b = NULL;

	cr_assert_eq(blocks_new(&cfg, &b, NULL), 0);
	b->secret = secret;
	return b;
}

static int sealed_memory(size_t len)
{
	const int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	cr_assert_geq(fd, 0);
	cr_assert_eq(ftruncate(fd, (off_t)len), 0);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS,
			   F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE),
		     0);
	return fd;
}

static int try_block(struct blocks *b, const char *key, bool is_owned,
		     struct kept_block **ret)
{
	char name[BLOCK_NAME_LEN + 1];
	struct error err = ERROR_INIT;
	struct kept_block *k;
	bool is_new;
	int fd, rc;

	name_of(&secret, "m", key, name);
	k = block_join(b, name, &is_new);
	cr_assert(k && is_new);
	if (is_owned)
		block_set_owned(k);
	fd = sealed_memory(1000);
	rc = block_take_memory(k, fd, 1000, &err);
	if (rc < 0)
		(void)close(fd);
	block_end(k, rc, &err);
	*ret = k;
	return rc;
}

static void add_block(struct blocks *b, const char *key, bool is_owned)
{
	struct kept_block *k;

	cr_assert_eq(try_block(b, key, is_owned, &k), 0);
	block_unref(k);
}

static bool has_block(struct blocks *b, const char *key)
{
	char name[BLOCK_NAME_LEN + 1];

	name_of(&secret, "m", key, name);
	return block_is_here(b, name);
}

Test(blocks, leave_memory_in_the_order_of_their_last_use_copies_first)
{
	struct blocks *b = make_blocks(4000);
	char name[BLOCK_NAME_LEN + 1];

	add_block(b, "own 1", true);
	add_block(b, "own 2", true);
	add_block(b, "copy 1", false);
	add_block(b, "copy 2", false);
	/* Two copies are more than a fourth. */
	add_block(b, "own 3", true);
	cr_expect_not(has_block(b, "copy 1"));
	cr_expect(has_block(b, "own 1"));
	/* The last copy is within it, so that the blocks of this node go by their use. */
	name_of(&secret, "m", "own 1", name);
	block_unref(block_find(b, name));
	add_block(b, "own 4", true);
	cr_expect(has_block(b, "copy 2"));
	cr_expect(has_block(b, "own 1"));
	cr_expect_not(has_block(b, "own 2"));
	cr_expect_eq(b->stats.evicted_total, 2);
	cr_expect_eq(b->used, 4000);
	cr_expect_eq(b->used_by_guests, 1000);
	blocks_free(b);
}

Test(blocks, that_are_in_use_stay_in_memory)
{
	struct blocks *b = make_blocks(2000);
	struct kept_block *first, *second, *third;

	cr_assert_eq(try_block(b, "1", true, &first), 0);
	cr_assert_eq(try_block(b, "2", false, &second), 0);
	cr_expect_eq(try_block(b, "3", true, &third), -ENOBUFS);
	block_unref(third);
	cr_expect_not(has_block(b, "3"));
	block_unref(first);
	cr_expect_eq(try_block(b, "3", true, &third), 0);
	cr_expect_not(has_block(b, "1"));
	block_unref(second);
	block_unref(third);
	cr_expect_eq(b->used, 2000);
	blocks_free(b);
}

struct putting {
	struct blocks *all;
	const char *name;
	atomic_bool is_over;
	int rc;
};

static void *put_main(void *arg)
{
	struct putting *p = arg;

	p->rc = blocks_put(p->all, p->name, sealed_memory(1000), NULL);
	atomic_store(&p->is_over, true);
	return NULL;
}

static unsigned int count_refs(struct kept_block *k)
{
	unsigned int n;

	(void)pthread_mutex_lock(&k->all->lock);
	n = k->refs;
	(void)pthread_mutex_unlock(&k->all->lock);
	return n;
}

Test(blocks, that_are_put_while_a_read_finds_nothing_are_kept)
{
	struct blocks *b = make_blocks(4000);
	struct error none = ERROR_INIT;
	char name[BLOCK_NAME_LEN + 1];
	struct putting p = { .all = b, .name = name };
	struct group group = { .name = "here" };
	struct thread thread = { .is_started = false };
	struct kept_block *k;
	bool is_new;

	(void)pthread_mutex_init(&group.lock, NULL);
	b->cfg.group = &group;
	name_of(&secret, "m", "1", name);
	k = block_join(b, name, &is_new);
	cr_assert(k && is_new);
	cr_assert_eq(thread_start(&thread, put_main, &p, NULL), 0);
	while (count_refs(k) < 2 && !atomic_load(&p.is_over))
		(void)sched_yield();
	(void)error_set(&none, ENOENT, "no node has it");
	block_end(k, -ENOENT, &none);
	block_unref(k);
	thread_join(&thread);
	cr_expect_eq(p.rc, 0);
	cr_expect(has_block(b, "1"));
	blocks_free(b);
	(void)pthread_mutex_destroy(&group.lock);
}

/* -------------------------------------------------------------- a member that lies --- */

enum lie { LIE_NONE, LIE_BYTES, LIE_CODE, LIE_LENGTH, LIE_LONGER, LIE_SEAL };

static const char good[] = "what was put";

/* A node of the group, which has its secret. */
struct liar {
	struct loop *loop;
	struct httpd *httpd;
	struct httpd_tls *tls;
	struct identity_files files;
	char *cas[2];
	struct thread thread;
	struct loop_call stop, stopped;
	enum lie lie; /* before it is asked */
	struct blocks *b;
	struct block_member self;
};

static void liar_request(void *arg, struct httpd_request *r)
{
	struct liar *l = arg;
	struct httpd_reply reply = HTTPD_REPLY_INIT;
	char name[BLOCK_NAME_LEN + 1];
	char text[BLOCK_SEAL_TEXT_MAX];
	size_t len = sizeof(good);
	char bytes[sizeof(good) + 9];
	struct block_seal s;

	(void)snprintf(name, sizeof(name), "%s",
		       r->head.path + strlen("/v1/blocks/"));
	memset(bytes, 0, sizeof(bytes));
	memcpy(bytes, good, sizeof(good));
	cr_assert_eq(block_seal_make(&secret, name, good, sizeof(good), &s), 0);
	if (l->lie == LIE_BYTES)
		bytes[3] ^= 1;
	if (l->lie == LIE_CODE)
		s.code.b[0] ^= 1;
	if (l->lie == LIE_LENGTH)
		len--;
	if (l->lie == LIE_LONGER)
		len += 9;
	block_seal_format(&s, text);
	if (l->lie != LIE_SEAL)
		cr_assert_eq(buf_printf(&reply.headers,
					"Bootseer-Block: %s\r\n", text),
			     0);
	cr_assert_eq(buf_append(&reply.body, bytes, len), 0);
	reply.type = "application/octet-stream";
	httpd_answer(r, &reply);
}

static uint64_t liar_head(void *arg, struct httpd_request *r)
{
	(void)arg;
	(void)r;
	return 0;
}

static void liar_drop(void *arg, struct httpd_request *r)
{
	(void)arg;
	(void)r;
}

static int liar_error(void *arg, int status, const char *message,
		      struct buf *ret)
{
	(void)arg;
	(void)status;
	return buf_puts(ret, message);
}

static const struct httpd_handler liar_handler = {
	.head = liar_head,
	.request = liar_request,
	.drop = liar_drop,
	.error_type = "text/plain",
	.error = liar_error,
};

static void *liar_main(void *arg)
{
	cr_assert_eq(loop_run(((struct liar *)arg)->loop, NULL), 0);
	return NULL;
}

static void liar_begin(struct liar *l)
{
	const struct httpd_config server = { .name = "liar",
					     .option = "none",
					     .listen = "127.0.0.1:0",
					     .connections_max = 8,
					     .answer_memory = 1 << 20,
					     .idle_ns = 60 * NS_PER_S,
					     .request_ns = 60 * NS_PER_S,
					     .handler = &liar_handler };
	struct httpd_config cfg = server;
	struct http_config client = { .stays = true,
				      .is_direct = true,
				      .connect_timeout_ms = 60000,
				      .stall_timeout_ms = 60000 };

	memset(l, 0, sizeof(*l));
	cr_assert_eq(identity_make(&secret, "liar", "127.0.0.1", &l->files,
				   NULL),
		     0);
	l->cas[0] = l->files.ca;
	cr_assert_eq(httpd_tls_new(l->files.cert, l->files.key, l->cas, &l->tls,
				   NULL),
		     0);
	cr_assert_eq(loop_new(&l->loop, NULL), 0);
	cfg.loop = l->loop;
	cfg.tls = l->tls;
	cfg.arg = l;
	cr_assert_eq(httpd_new(&cfg, &l->httpd, NULL), 0);
	l->b = make_blocks(4000);
	client.ca_file = l->files.ca;
	client.cert_file = l->files.cert;
	client.key_file = l->files.key;
	cr_assert_eq(http_new(&client, &l->b->http, NULL), 0);
	(void)snprintf(l->self.addr, sizeof(l->self.addr), "127.0.0.1:%u",
		       httpd_port(l->httpd));
	cr_assert_eq(thread_start(&l->thread, liar_main, l, NULL), 0);
}

static void liar_stopped(struct loop_call *c)
{
	loop_stop(container_of(c, struct liar, stopped)->loop);
}

static void liar_stop(struct loop_call *c)
{
	struct liar *l = container_of(c, struct liar, stop);

	httpd_abort(l->httpd);
	l->stopped.fn = liar_stopped;
	loop_post(l->loop, &l->stopped);
}

static void liar_end(struct liar *l)
{
	http_free(l->b->http);
	l->stop.fn = liar_stop;
	loop_post(l->loop, &l->stop);
	thread_join(&l->thread);
	httpd_free(l->httpd);
	loop_free(l->loop);
	httpd_tls_free(l->tls);
	identity_close(&l->files);
	blocks_free(l->b);
}

static int ask_liar(struct liar *l, const char *key, enum lie lie)
{
	char name[BLOCK_NAME_LEN + 1];
	struct error err = ERROR_INIT;
	struct kept_block *k;
	bool is_new;
	int rc;

	l->lie = lie;
	name_of(&secret, "m", key, name);
	k = block_join(l->b, name, &is_new);
	cr_assert(k && is_new);
	rc = block_peer_fetch(k, &l->self, "", &err);
	block_end(k, rc, &err);
	block_unref(k);
	cr_expect_eq(has_block(l->b, key), rc == 0, "%s", key);
	return rc;
}

/* The owner looks into the store, for a reader, at the moment at which the block is put. */
Test(blocks, that_are_offered_while_their_owner_looks_for_them_come)
{
	struct kept_block *k;
	char name[BLOCK_NAME_LEN + 1];
	struct liar l;
	bool is_new;

	liar_begin(&l);
	name_of(&secret, "m", "1", name);
	k = block_join(l.b, name, &is_new);
	cr_assert(k && is_new);
	blocks_pull(l.b, name, &l.self);
	cr_expect_not(has_block(l.b, "1"));
	/* Nobody is to wait here for a block that is waited for there. */
	cr_expect_null(block_find_here(l.b, name));
	blocks_fetch(k, true);
	cr_expect(has_block(l.b, "1"));
	cr_expect(k->is_owned);
	block_unref(k);
	/* An offer of a block that is not there any more leaves nothing behind. */
	l.lie = LIE_BYTES;
	blocks_pull(l.b, name, &l.self);
	cr_expect(has_block(l.b, "1"));
	cr_expect_eq(l.b->used, sizeof(good));
	liar_end(&l);
}

Test(blocks, of_a_member_that_sends_something_else_are_refused)
{
	struct rlimit before, none = { .rlim_cur = 0 };
	struct liar l;
	int rc;

	liar_begin(&l);
	cr_expect_eq(ask_liar(&l, "truth", LIE_NONE), 0);
	cr_expect_eq(ask_liar(&l, "bytes", LIE_BYTES), -EBADMSG);
	cr_expect_eq(ask_liar(&l, "code", LIE_CODE), -EBADMSG);
	cr_expect_eq(ask_liar(&l, "length", LIE_LENGTH), -EBADMSG);
	cr_expect_eq(ask_liar(&l, "longer", LIE_LONGER), -EBADMSG);
	cr_expect_eq(ask_liar(&l, "seal", LIE_SEAL), -EBADMSG);
	cr_expect_eq(l.b->stats.wrong_total, 5);
	/* Nothing of it takes memory. */
	cr_expect_eq(l.b->used, sizeof(good));
	/* Files may be short here, which is no fault of the member. */
	cr_assert_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
	none.rlim_max = before.rlim_max;
	(void)signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
	rc = ask_liar(&l, "short", LIE_NONE);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
	cr_expect_eq(rc, -ENOBUFS);
	liar_end(&l);
}
