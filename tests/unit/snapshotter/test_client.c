// SPDX-License-Identifier: Apache-2.0
/* The client against a peer that answers one line from a script. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "snapshotter/client.h"
#include "snapshotter/control.h"

TestSuite(client, .timeout = 20);

#define HEX64 "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

/* One that listens at `path`, takes one line and answers `reply`. */
struct peer {
	char dir[32];
	char path[64];
	int fd;
	const char *reply; /* NULL: closes instead; "": never answers */
	char got[4096];
	pthread_t thread;
};

static void *serve(void *arg)
{
	struct peer *p = arg;
	int c = accept(p->fd, NULL, NULL);
	size_t n = 0;
	ssize_t k;

	while (n == 0 || p->got[n - 1] != '\n') {
		k = read(c, p->got + n, sizeof(p->got) - 1 - n);
		if (k <= 0)
			break;
		n += (size_t)k;
	}
	if (p->reply && *p->reply) {
		/* In two pieces, as a stream may deliver it. */
		k = write(c, p->reply, 5);
		k = write(c, p->reply + 5, strlen(p->reply) - 5);
	} else if (p->reply) {
		k = read(c, p->got, 1); /* until the client has left */
	}
	close(c);
	return NULL;
}

static void peer_start(struct peer *p, const char *reply)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	memset(p, 0, sizeof(*p));
	strcpy(p->dir, "/tmp/client.XXXXXX");
	cr_assert(mkdtemp(p->dir));
	snprintf(p->path, sizeof(p->path), "%s/sock", p->dir);
	strcpy(addr.sun_path, p->path);
	p->reply = reply;
	p->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(p->fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	cr_assert_eq(listen(p->fd, 1), 0);
	cr_assert_eq(pthread_create(&p->thread, NULL, serve, p), 0);
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

	cr_assert_eq(node_client_open(p->path, timeout_ms, &c, NULL), 0);
	return c;
}

Test(client, says_that_nobody_listens)
{
	struct node_client *c = NULL;
	struct error err = ERROR_INIT;

	cr_assert_eq(node_client_open("/nonexistent/sock", 0, &c, &err),
		     -ENOENT);
	cr_expect(strstr(err.msg, "bootseerd does not answer"));
}

Test(client, refuses_a_path_that_no_socket_can_have)
{
	struct node_client *c = NULL;
	char path[200];

	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	cr_expect_eq(node_client_open(path, 0, &c, NULL), -ENAMETOOLONG);
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
	peer_start(&p,
		   "{\"bootseer\":1,\"result\":{\"id\":\"sha256:" HEX64
		   "\",\"manifest\":\"sha256:" HEX64
		   "\",\"chain_ids\":[\"sha256:" HEX64 "\"],\"new_key\":1}}\n");
	c = connected(&p, 5000);
	cr_assert_eq(node_image_prepare(c, &q, &image, NULL), 0);
	cr_expect(digest_equal(&image.id, &want));
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
	cr_expect_eq(node_image_mount(c, &id, "u", false, &path, NULL),
		     -EPROTO);
	cr_expect_null(path);
	node_client_close(c);
	peer_stop(&p);
}
