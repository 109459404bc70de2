// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/p2p/fake_tracker.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "common/base64.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/fs.h"
#include "p2p/rights/capability.h"
#include "p2p/tracker/tracker_json.h"
#include "tests/unit/p2p/crowd.h"

#define REQUEST_MAX (64u << 10)
#define PATIENCE_S 5

/* RFC 8032, 7.1, TEST 1. */
static const char private_pem[] =
	"-----BEGIN PRIVATE KEY-----\n"
	"MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
	"-----END PRIVATE KEY-----\n";
const char fake_tracker_pem[] =
	"-----BEGIN PUBLIC KEY-----\n"
	"MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
	"-----END PUBLIC KEY-----\n";

struct fake_tracker {
	struct digest image; /* the only one that capabilities are for */
	struct tracker *core;
	int fd;
	bool is_dead;
	char url[64];
	pthread_t thread;
	pthread_mutex_t lock; /* the core, and all below */
	pthread_cond_t changed;
	enum { HOLDS_NOTHING, HOLDS_NEXT, HOLDS } holds;
	const char *other_node, *other_repo; /* fake_tracker_sign_other() */
	struct capability_signer *signer;    /* NULL: it gives no capability */
	unsigned int life_s;
	int64_t interval_ns; /* 0: the core's */
	bool is_full;
	bool leaves_late; /* until another call came */
	unsigned int n_left;
	struct digest late_swarm;
	struct tracker_call_text late; /* with a node: it waits for that */
	char revoked[64];
	struct tracker_call_text call;
	struct tracker_answer answer, answer_late;
	char request[REQUEST_MAX + 1];
};

/* The body of a whole request, or NULL.  Of GET it is empty. */
static const char *read_request(struct fake_tracker *t, int fd, size_t *ret_len)
{
	size_t have = 0, want = 0;
	const char *body = NULL, *field;

	for (;;) {
		ssize_t n = read(fd, t->request + have, REQUEST_MAX - have);

		if (n <= 0)
			return NULL;
		have += (size_t)n;
		t->request[have] = '\0';
		if (!body) {
			body = strstr(t->request, "\r\n\r\n");
			field = strcasestr(t->request, "content-length:");
			if (body && strncmp(t->request, "GET", 3) == 0)
				return body;
			if (!body || !field)
				continue;
			body += 4;
			want = strtoul(field + 15, NULL, 10);
		}
		if ((size_t)(t->request + have - body) >= want) {
			*ret_len = want;
			return body;
		}
	}
}

/* With the lock. */
static int sign(struct fake_tracker *t, const char *body, struct buf *ret,
		struct error *err)
{
	struct capability c = { .image = t->image,
				.not_before = time(NULL) - 60,
				.not_after = time(NULL) + t->life_s,
				.rights = CAPABILITY_PULL };
	const char *node = strstr(body, "\"node\":\"");
	const char *repo = strstr(body, "\"repo\":\"");
	uint8_t data[CAPABILITY_MAX];
	AUTO_BUF text = BUF_INIT;
	size_t len;
	int rc;

	if (!node || !t->signer || !t->life_s)
		return error_set(err, EACCES, "no");
	node += strlen("\"node\":\"");
	(void)snprintf(c.node, sizeof(c.node), "%.*s", (int)strcspn(node, "\""),
		       node);
	if (!repo)
		return error_set(err, EACCES, "no");
	repo += strlen("\"repo\":\"");
	(void)snprintf(c.repo, sizeof(c.repo), "%.*s", (int)strcspn(repo, "\""),
		       repo);
	if (t->other_node && strcmp(c.node, t->other_node) == 0)
		(void)snprintf(c.repo, sizeof(c.repo), "%s", t->other_repo);
	rc = capability_sign(t->signer, &c, data, &len, err);
	if (rc == 0)
		rc = base64_encode(data, len, &text);
	return rc < 0 ? rc
		      : buf_printf(ret,
				   "{\"capability\":\"%s\",\"not_after\":%lld}",
				   text.data, (long long)c.not_after);
}

/* With the lock. */
static void hold(struct fake_tracker *t)
{
	if (t->holds != HOLDS_NEXT ||
	    t->call.call.n_done + t->call.call.n_failed == 0)
		return;
	t->holds = HOLDS;
	(void)pthread_cond_broadcast(&t->changed);
	while (t->holds == HOLDS)
		(void)pthread_cond_wait(&t->changed, &t->lock);
}

/* With the lock, as the next one.  Who leaves reads no answer. */
static int put_off(struct fake_tracker *t, const char *body, size_t len,
		   struct error *err)
{
	t->leaves_late = false;
	t->late_swarm = t->call.call.image;
	return tracker_call_from_json(body, len, &t->late, err);
}

static int hear(struct fake_tracker *t, struct error *err)
{
	int64_t now = clock_now_ns();
	int rc;

	rc = tracker_hear(t->core, &t->call.call, now, &t->answer, err);
	if (rc == 0 && t->is_full && t->call.call.n_want > 0)
		rc = error_set(err, ENOSPC, "it has no room");
	/* A node that asks whether we are there has not opened anything. */
	if (!t->call.call.run)
		return rc;
	t->leaves_late = false;
	t->n_left += t->call.call.leaving;
	if (rc < 0 || !t->late.node[0])
		return rc;
	t->n_left++;
	t->late.call.image = t->late_swarm;
	rc = tracker_hear(t->core, &t->late.call, now, &t->answer_late, err);
	t->late.node[0] = '\0';
	return rc;
}

/* Blocks and metadata of an image are two swarms. */
static int called_swarm(const struct fake_tracker *t, struct digest *ret,
			struct error *err)
{
	static const char path[] = " /v1/swarms/";
	const char *at = strstr(t->request, path);
	char name[DIGEST_STR_MAX];

	if (!at)
		return error_set(err, ENOENT, "no swarm is named");
	(void)snprintf(name, sizeof(name), "%s", at + strlen(path));
	return digest_parse(name, ret, err);
}

static int think(struct fake_tracker *t, const char *body, size_t len,
		 struct buf *ret, struct error *err)
{
	struct digest swarm;
	int rc;

	if (strstr(t->request, " /v1/capabilit")) {
		(void)pthread_mutex_lock(&t->lock);
		if (len > 0)
			rc = sign(t, body, ret, err);
		else
			rc = buf_printf(ret, "{\"revoked\":[%s]}", t->revoked);
		(void)pthread_mutex_unlock(&t->lock);
		return rc;
	}
	rc = called_swarm(t, &swarm, err);
	if (rc == 0)
		rc = tracker_call_from_json(body, len, &t->call, err);
	if (rc < 0)
		return rc;
	t->call.call.image = swarm;
	(void)pthread_mutex_lock(&t->lock);
	if (t->leaves_late && t->call.call.leaving && t->call.call.run)
		rc = put_off(t, body, len, err);
	else
		rc = hear(t, err);
	if (rc == 0 && t->interval_ns)
		t->answer.interval_ns = t->interval_ns;
	hold(t);
	(void)pthread_mutex_unlock(&t->lock);
	return rc < 0 ? rc : tracker_answer_to_json(&t->answer, ret, err);
}

static void answer(struct fake_tracker *t, int fd)
{
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	AUTO_BUF json = BUF_INIT, text = BUF_INIT;
	struct error err = ERROR_INIT;
	const char *body;
	size_t len = 0;
	int rc;

	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience,
			 sizeof(patience));
	body = read_request(t, fd, &len);
	if (!body)
		return;
	rc = think(t, body, len, &json, &err);
	if (rc < 0)
		rc = buf_printf(&text,
				"HTTP/1.1 %s\r\nConnection: close\r\n"
				"Content-Length: 0\r\n\r\n",
				rc == -ENOSPC ? "429 Too Many Requests"
					      : "400 Bad Request");
	else
		rc = buf_printf(&text,
				"HTTP/1.1 200 OK\r\nConnection: close\r\n"
				"Content-Length: %zu\r\n\r\n%s",
				json.len, json.data);
	for (size_t at = 0; rc == 0 && at < text.len;) {
		ssize_t n =
			send(fd, text.data + at, text.len - at, MSG_NOSIGNAL);

		if (n <= 0)
			return;
		at += (size_t)n;
	}
}

static void *serve(void *arg)
{
	struct fake_tracker *t = arg;
	int fd;

	while ((fd = accept(t->fd, NULL, NULL)) >= 0) {
		answer(t, fd);
		(void)close(fd);
	}
	return NULL;
}

struct fake_tracker *fake_tracker_start(void)
{
	struct fake_tracker *t = calloc(1, sizeof(*t));
	struct tracker_config cfg = tracker_config_default;
	struct sockaddr_in a = { .sin_family = AF_INET };
	struct error err = ERROR_INIT;
	socklen_t len = sizeof(a);

	cr_assert(t);
	crowd_image(&t->image);
	cfg.interval_ns = 200000000;
	cr_assert_eq(tracker_new(&cfg, &t->core, &err), 0, "%s", err.msg);
	(void)pthread_mutex_init(&t->lock, NULL);
	(void)pthread_cond_init(&t->changed, NULL);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	t->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_geq(t->fd, 0);
	cr_assert_eq(bind(t->fd, (struct sockaddr *)&a, len), 0);
	cr_assert_eq(listen(t->fd, 64), 0);
	cr_assert_eq(getsockname(t->fd, (struct sockaddr *)&a, &len), 0);
	(void)snprintf(t->url, sizeof(t->url), "http://127.0.0.1:%u",
		       ntohs(a.sin_port));
	cr_assert_eq(pthread_create(&t->thread, NULL, serve, t), 0);
	return t;
}

void fake_tracker_interval(struct fake_tracker *t, int64_t ns)
{
	(void)pthread_mutex_lock(&t->lock);
	t->interval_ns = ns;
	(void)pthread_mutex_unlock(&t->lock);
}

void fake_tracker_fill(struct fake_tracker *t)
{
	(void)pthread_mutex_lock(&t->lock);
	t->is_full = true;
	(void)pthread_mutex_unlock(&t->lock);
}

void fake_tracker_hold(struct fake_tracker *t)
{
	(void)pthread_mutex_lock(&t->lock);
	t->holds = HOLDS_NEXT;
	(void)pthread_mutex_unlock(&t->lock);
}

void fake_tracker_leave_late(struct fake_tracker *t)
{
	(void)pthread_mutex_lock(&t->lock);
	t->leaves_late = true;
	(void)pthread_mutex_unlock(&t->lock);
}

unsigned int fake_tracker_n_left(struct fake_tracker *t)
{
	unsigned int n;

	(void)pthread_mutex_lock(&t->lock);
	n = t->n_left;
	(void)pthread_mutex_unlock(&t->lock);
	return n;
}

bool fake_tracker_holds(struct fake_tracker *t)
{
	bool holds;

	(void)pthread_mutex_lock(&t->lock);
	holds = t->holds == HOLDS;
	(void)pthread_mutex_unlock(&t->lock);
	return holds;
}

void fake_tracker_release(struct fake_tracker *t)
{
	(void)pthread_mutex_lock(&t->lock);
	t->holds = HOLDS_NOTHING;
	(void)pthread_cond_broadcast(&t->changed);
	(void)pthread_mutex_unlock(&t->lock);
}

void fake_tracker_kill(struct fake_tracker *t)
{
	if (t->is_dead)
		return;
	t->is_dead = true;
	fake_tracker_release(t);
	(void)shutdown(t->fd, SHUT_RDWR);
	(void)pthread_join(t->thread, NULL);
	(void)close(t->fd);
}

void fake_tracker_free(struct fake_tracker *t)
{
	fake_tracker_kill(t);
	tracker_free(t->core);
	capability_signer_free(t->signer);
	(void)pthread_cond_destroy(&t->changed);
	(void)pthread_mutex_destroy(&t->lock);
	free(t);
}

const char *fake_tracker_url(const struct fake_tracker *t)
{
	return t->url;
}

void fake_tracker_stats(struct fake_tracker *t, struct tracker_stats *ret)
{
	(void)pthread_mutex_lock(&t->lock);
	tracker_get_stats(t->core, ret);
	(void)pthread_mutex_unlock(&t->lock);
}

void fake_tracker_sign_other(struct fake_tracker *t, const char *node,
			     const char *repo)
{
	(void)pthread_mutex_lock(&t->lock);
	t->other_node = node;
	t->other_repo = repo;
	(void)pthread_mutex_unlock(&t->lock);
}

void fake_tracker_sign(struct fake_tracker *t, unsigned int life_s)
{
	char path[] = "/tmp/fake_tracker.XXXXXX";
	int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	(void)pthread_mutex_lock(&t->lock);
	t->life_s = life_s;
	if (!t->signer) {
		cr_assert_eq(fs_write_full(fd, private_pem,
					   strlen(private_pem)),
			     0);
		cr_assert_eq(capability_signer_load(path, &t->signer, NULL), 0);
	}
	(void)pthread_mutex_unlock(&t->lock);
	(void)close(fd);
	(void)unlink(path);
}

void fake_tracker_revoke(struct fake_tracker *t, const char *node)
{
	(void)pthread_mutex_lock(&t->lock);
	(void)snprintf(t->revoked, sizeof(t->revoked),
		       "{\"image\":\"\",\"node\":\"%s\"}", node);
	(void)pthread_mutex_unlock(&t->lock);
}
