// SPDX-License-Identifier: Apache-2.0
/* The client of bootseerd against a server that sends scripted replies. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/control.h"
#include "snapshotter/client.h"

TestSuite(client, .timeout = 120);

#define HEX64 "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

/* A server that listens at `path`, takes one call and answers `reply`. */
struct peer {
	char dir[32];
	char path[64];
	int fd;
	/* NULL: closes the connection instead; "": never answers */
	const char *reply;
	/* so many earlier connections are closed without a reply */
	unsigned int closes;
	char got[4096];
	pthread_t thread;
};

/* Accept a connection and read its request. */
static int next_request(struct peer *p)
{
	int c = accept(p->fd, NULL, NULL);
	size_t n = 0;
	ssize_t k;

	memset(p->got, 0, sizeof(p->got));
	while (!strstr(p->got, "\r\n\r\n{") || p->got[n - 1] != '\n') {
		k = read(c, p->got + n, sizeof(p->got) - 1 - n);
		if (k <= 0)
			break;
		n += (size_t)k;
	}
	return c;
}

static void *serve(void *arg)
{
	struct peer *p = arg;
	int c;

	for (unsigned int i = 0; i < p->closes; i++)
		close(next_request(p));
	c = next_request(p);
	if (p->reply && *p->reply) {
		/* In two pieces, as a stream may deliver it. */
		dprintf(c, "HTTP/1.1 200 OK\r\ncontent-length: %zu\r\n\r\n",
			strlen(p->reply));
		(void)!write(c, p->reply, 5);
		(void)!write(c, p->reply + 5, strlen(p->reply) - 5);
	} else if (p->reply) {
		(void)!read(c, p->got, 1); /* until the client has left */
	}
	close(c);
	return NULL;
}

static void peer_name(struct peer *p)
{
	memset(p, 0, sizeof(*p));
	strcpy(p->dir, "/tmp/client.XXXXXX");
	cr_assert(mkdtemp(p->dir));
	snprintf(p->path, sizeof(p->path), "%s/sock", p->dir);
}

static void peer_listen(struct peer *p)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	strcpy(addr.sun_path, p->path);
	p->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(p->fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	cr_assert_eq(listen(p->fd, 1), 0);
	cr_assert_eq(pthread_create(&p->thread, NULL, serve, p), 0);
}

static void peer_start(struct peer *p, const char *reply)
{
	peer_name(p);
	p->reply = reply;
	peer_listen(p);
}

static void peer_stop(struct peer *p)
{
	pthread_join(p->thread, NULL);
	close(p->fd);
	unlink(p->path);
	rmdir(p->dir);
}

static struct node_client *connected(const struct peer *p, uint32_t timeout_ms)
{
	struct node_client *c = NULL;

	cr_assert_eq(node_client_open(p->path, timeout_ms, NULL, &c, NULL), 0);
	return c;
}

Test(client, says_that_nobody_listens)
{
	struct node_client *c = NULL;
	struct error err = ERROR_INIT;

	cr_assert_eq(node_client_open("/nonexistent/sock", 0, NULL, &c, &err),
		     -ENOENT);
	cr_expect(strstr(err.msg, "bootseerd does not answer"));
}

/* Lets the server listen after the client has waited `listens_after` times. */
struct waiting {
	struct control_patience patience;
	struct peer *peer;
	unsigned int n_asked, listens_after, n_there;
};

static uint32_t still_waiting(struct control_patience *p,
			      const struct error *why)
{
	struct waiting *w = container_of(p, struct waiting, patience);

	cr_expect(strstr(why->msg, "bootseerd does not answer"), "%s",
		  why->msg);
	if (++w->n_asked == w->listens_after)
		peer_listen(w->peer);
	return w->listens_after ? 60000 : 0;
}

static void there(struct control_patience *p)
{
	container_of(p, struct waiting, patience)->n_there++;
}

static struct waiting waiting_for(struct peer *p, unsigned int listens_after)
{
	return (struct waiting){
		.patience = { .left_ms = still_waiting, .is_there = there },
		.peer = p,
		.listens_after = listens_after,
	};
}

static const char empty_reply[] = "{\"bootseer\":1,\"result\":{}}\n";

static int ask_status(struct node_client *c, struct error *err)
{
	char *reply = NULL;
	int rc = node_call(c, "node.status", NULL, &reply, err);

	free(reply);
	return rc;
}

Test(client, waits_for_one_that_is_being_started)
{
	struct node_client *c = NULL;
	struct error err = ERROR_INIT;
	struct waiting w;
	struct peer p;

	peer_name(&p);
	p.reply = empty_reply;
	w = waiting_for(&p, 3);
	cr_assert_eq(node_client_open(p.path, 0, &w.patience, &c, &err), 0,
		     "%s", err.msg);
	cr_expect_eq(ask_status(c, &err), 0, "%s", err.msg);
	cr_expect_eq(w.n_asked, 3);
	cr_expect_eq(w.n_there, 1);
	node_client_close(c);
	peer_stop(&p);
}

Test(client, waits_no_longer_than_its_patience)
{
	struct node_client *c = NULL;
	struct error err = ERROR_INIT;
	struct waiting w = waiting_for(NULL, 0);

	cr_expect_eq(node_client_open("/nonexistent/sock", 0, &w.patience, &c,
				      &err),
		     -ENOENT);
	cr_expect_eq(w.n_asked, 1);
	cr_expect_eq(w.n_there, 0);
	cr_expect(strstr(err.msg, "bootseerd does not answer"));
	cr_expect_eq(node_client_open_within("/nonexistent/sock", 0, 30, &c,
					     &err),
		     -ENOENT);
}

Test(client, makes_a_call_again_that_was_cut_when_it_may)
{
	struct node_client *c = NULL;
	struct error err = ERROR_INIT;
	struct digest id = { .b = { 1 } };
	struct waiting w;
	struct peer p;

	peer_name(&p);
	p.closes = 2;
	p.reply = empty_reply;
	peer_listen(&p);
	w = waiting_for(&p, 1);
	cr_assert_eq(node_client_open(p.path, 0, &w.patience, &c, &err), 0);
	cr_expect_eq(node_image_umount(c, &id, "u", &err), 0, "%s", err.msg);
	cr_expect(strstr(p.got, "image.umount"), "%s", p.got);
	cr_expect_eq(w.n_there, 3);
	node_client_close(c);
	peer_stop(&p);
}

Test(client, makes_no_call_twice_that_leaves_something_behind)
{
	const struct node_image_query q = { .ref = "host/repo:tag" };
	struct node_client *c = NULL;
	struct error err = ERROR_INIT;
	struct waiting w;
	struct peer p;

	peer_start(&p, NULL);
	w = waiting_for(&p, 0);
	cr_assert_eq(node_client_open(p.path, 0, &w.patience, &c, &err), 0);
	cr_expect_eq(node_layer_apply(c, &q, 0, NULL, "/dir", "", &err),
		     -ECONNRESET);
	cr_expect_eq(w.n_there, 1);
	node_client_close(c);
	peer_stop(&p);
}

Test(client, refuses_a_path_that_no_socket_can_have)
{
	struct node_client *c = NULL;
	char path[200];

	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	cr_expect_eq(node_client_open(path, 0, NULL, &c, NULL), -ENAMETOOLONG);
}

Test(client, prepares_an_image)
{
	struct peer p;
	struct node_client *c;
	struct node_image image;
	struct digest want;
	struct node_image_query q = { .ref = "h/r:t", .plain_http = true };

	cr_assert_eq(digest_parse("sha256:" HEX64, &want, NULL), 0);
	q.manifest = &want;
	peer_start(&p, "{\"bootseer\":1,\"result\":{\"id\":\"sha256:" HEX64
		       "\",\"manifest\":\"sha256:" HEX64
		       "\",\"chain_ids\":[\"sha256:" HEX64
		       "\"],\"scope\":\"h/r\",\"new_key\":1}}\n");
	c = connected(&p, 5000);
	cr_assert_eq(node_image_prepare(c, &q, &image, NULL), 0);
	cr_expect(digest_equal(&image.id, &want));
	cr_expect_str_eq(image.scope, "h/r");
	cr_expect_eq(image.n_chain_ids, 1);
	cr_expect(digest_equal(&image.chain_ids[0], &want));
	node_image_fini(&image);
	node_client_close(c);
	peer_stop(&p);
	cr_expect(strstr(p.got, "\"plain_http\":true"));
	cr_expect(strstr(p.got, "\"manifest\":\"sha256:" HEX64 "\""));
}

Test(client, passes_on_the_error_of_the_other_side)
{
	struct peer p;
	struct node_client *c;
	struct node_image image;
	struct error err = ERROR_INIT;
	struct node_image_query q = { .ref = "h/r:t" };

	peer_start(&p, "{\"bootseer\":1,\"error\":{\"errno\":2,\"message\":"
		       "\"no artifact\"}}\n");
	c = connected(&p, 5000);
	cr_expect_eq(node_image_prepare(c, &q, &image, &err), -ENOENT);
	cr_expect_str_eq(err.msg, "no artifact");
	node_client_close(c);
	peer_stop(&p);
}

Test(client, gives_up_after_its_timeout)
{
	struct peer p;
	struct node_client *c;
	struct error err = ERROR_INIT;
	char *out = NULL;

	peer_start(&p, "");
	c = connected(&p, 50);
	cr_expect_eq(node_call(c, "node.status", NULL, &out, &err), -ETIMEDOUT);
	cr_expect_eq(node_call(c, "node.status", NULL, &out, &err), -ENOTCONN,
		     "a late reply must not answer another call");
	node_client_close(c);
	peer_stop(&p);
}

Test(client, says_that_the_daemon_went_away)
{
	struct peer p;
	struct node_client *c;
	struct error err = ERROR_INIT;
	struct digest id = { .b = { 1 } };

	peer_start(&p, NULL);
	c = connected(&p, 5000);
	cr_expect_eq(node_image_umount(c, &id, "u", &err), -ECONNRESET);
	node_client_close(c);
	peer_stop(&p);
}

Test(client, refuses_a_reply_without_what_it_needs)
{
	struct peer p;
	struct node_client *c;
	struct digest id = { .b = { 1 } };
	char *path = NULL;

	peer_start(&p, "{\"bootseer\":1,\"result\":{\"path\":3}}\n");
	c = connected(&p, 5000);
	cr_expect_eq(node_image_mount(c, &id, "u", false, &path, NULL, NULL),
		     -EPROTO);
	cr_expect_null(path);
	node_client_close(c);
	peer_stop(&p);
}
