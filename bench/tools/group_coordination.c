// SPDX-License-Identifier: Apache-2.0
/*
 * bench-group-coordination NODES RANKS TENSORS ROUNDS: what a save costs beside its bytes.  The
 * mounts' parts of so many nodes are in one process, over TLS and loopback, with a directory in
 * memory as the store; each node has RANKS ranks, of which each saves TENSORS tensors of 4 KiB,
 * alike on all.  Prints medians of ROUNDS saves after the first: milliseconds until the last rank
 * heard "buffered", then "durable", then of processors for one save, for all nodes together.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/array.h"
#include "common/buf.h"
#include "common/bytes.h"
#include "common/clock.h"
#include "common/log.h"
#include "groupio/groupio.h"
#include "groupio/save.h"
#include "objects/store.h"

#define NODES_MAX 64u
#define TENSOR 4096u
#define ROUNDS_MAX 1000u

struct bench_node {
	struct group *group;
	struct saves *saves;
	char socket[100], addr[64];
};

struct bench_rank {
	unsigned int rank, node;
	int sock, memory;
	struct buf request;
	bool is_buffered, is_durable;
};

static struct bench_node nodes[NODES_MAX];
static struct bench_rank *ranks;
static unsigned int n_nodes, n_each, n_tensors, n_rounds;
/* In memory, so that no disk is measured. */
static char folder[] = "/dev/shm/bootseer-coordination.XXXXXX";

static _Noreturn void fail(const char *what, const struct error *err)
{
	fprintf(stderr, "bench-group-coordination: %s: %s\n", what,
		err && err->code ? err->msg : strerror(errno));
	exit(1);
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

/* --------------------------------------------------------------------- the nodes --- */

static unsigned int free_port(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (bind(fd, (struct sockaddr *)&a, len) < 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &len) < 0)
		fail("a port", NULL);
	(void)close(fd);
	return ntohs(a.sin_port);
}

static void write_key(const char *path)
{
	static const char secret[] = "a secret of thirty-two bytes or more";
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, secret, sizeof(secret)) != sizeof(secret))
		fail("the key", NULL);
	(void)close(fd);
}

static void begin_nodes(void)
{
	const struct object_store_config open = { .memory = 256 * MIB };
	char key[96], place[64], url[128], store_path[96];
	struct object_store *store;
	struct error err = ERROR_INIT;

	(void)snprintf(key, sizeof(key), "%s/key", folder);
	(void)snprintf(store_path, sizeof(store_path), "%s/store", folder);
	(void)snprintf(url, sizeof(url), "file://%s", store_path);
	(void)snprintf(place, sizeof(place), "127.0.0.1:%u", free_port());
	write_key(key);
	if (mkdir(store_path, 0700) < 0 ||
	    object_store_open(url, &open, &store, &err) < 0)
		fail("the store", &err);
	for (unsigned int i = 0; i < n_nodes; i++) {
		struct bench_node *n = &nodes[i];
		const struct group_config g = { .key_file = key,
						.places = place,
						.memory = 32 * MIB,
						.fetches = 4,
						.wait_ns = 30 * NS_PER_S };
		struct saves_config c = { .socket = n->socket,
					  .store = store,
					  .mount = folder,
					  .owner = geteuid(),
					  .memory = 256 * MIB,
					  .wait_ns = 30 * NS_PER_S };

		(void)snprintf(n->socket, sizeof(n->socket), "%s/ranks%u",
			       folder, i);
		if (group_new(&g, &n->group, &err) < 0)
			fail("a group", &err);
		c.group = n->group;
		if (saves_new(&c, &n->saves, &err) < 0)
			fail("a node", &err);
	}
}

static void end_nodes(void)
{
	for (unsigned int i = 0; i < n_nodes; i++)
		saves_free(nodes[i].saves);
	for (unsigned int i = 0; i < n_nodes; i++)
		group_free(nodes[i].group);
}

/* --------------------------------------------------------------------- the ranks --- */

static int call_node(const struct bench_node *n, const struct buf *request,
		     int memory)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint32_t len = (uint32_t)request->len;
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { .space = { 0 } };
	struct iovec io[] = { { &len, sizeof(len) },
			      { request->data, request->len } };
	struct msghdr m = { .msg_iov = io, .msg_iovlen = 2 };
	struct cmsghdr *c;

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", n->socket);
	if (memory >= 0) {
		m.msg_control = &control;
		m.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&m);
		*c = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
				       .cmsg_type = SCM_RIGHTS,
				       .cmsg_len = CMSG_LEN(sizeof(int)) };
		memcpy(CMSG_DATA(c), &memory, sizeof(int));
	}
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    sendmsg(fd, &m, MSG_NOSIGNAL) != (ssize_t)(sizeof(len) + len))
		fail(n->socket, NULL);
	return fd;
}

static void ask_addresses(void)
{
	char hello[] = "{\"op\":\"hello\"}", said[256];
	const struct buf request = { .data = hello, .len = strlen(hello) };

	for (unsigned int i = 0; i < n_nodes; i++) {
		int fd = call_node(&nodes[i], &request, -1);
		ssize_t n = recv(fd, said, sizeof(said) - 1, 0);

		said[n > 0 ? n : 0] = '\0';
		if (sscanf(said, "{\"address\":\"%63[^\"]", nodes[i].addr) != 1)
			fail(said, NULL);
		(void)close(fd);
	}
}

static int make_memory(void)
{
	int fd = memfd_create("bench", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	for (unsigned int k = 0; k < n_tensors; k++) {
		char data[TENSOR];

		memset(data, (int)(k % 255) + 1, sizeof(data));
		if (write(fd, data, sizeof(data)) != sizeof(data))
			fail("memory", NULL);
	}
	if (fcntl(fd, F_ADD_SEALS,
		  F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		fail("seals", NULL);
	return fd;
}

static void make_request(struct bench_rank *r, unsigned int number)
{
	struct buf *b = &r->request;
	int rc = 0;

	buf_reset(b);
	rc |= buf_printf(b,
			 "{\"op\":\"put\",\"job\":\"%032x\",\"number\":%u,"
			 "\"path\":\"step%u\",\"rank\":%u,\"stage_ms\":60000,"
			 "\"store_ms\":60000,\"members\":[",
			 1u, number, number, r->rank);
	for (unsigned int i = 0; i < n_nodes; i++)
		rc |= buf_printf(b, "%s\"%s\"", i ? "," : "", nodes[i].addr);
	rc |= buf_puts(b, "],\"nodes\":[");
	for (unsigned int i = 0; i < n_nodes * n_each; i++)
		rc |= buf_printf(b, "%s%u", i ? "," : "", i / n_each);
	rc |= buf_puts(b, "],\"tensors\":[");
	for (unsigned int k = 0; k < n_tensors; k++)
		rc |= buf_printf(b, "%s[\"t%u\",\"U8\",[%u],%u,%u]",
				 k ? "," : "", k, TENSOR, k * TENSOR, TENSOR);
	rc |= buf_puts(b, "]}");
	if (rc < 0)
		fail("memory", NULL);
}

static void hear_rank(struct bench_rank *r)
{
	char said[65536];
	const ssize_t n = recv(r->sock, said, sizeof(said) - 1, 0);

	said[n > 0 ? n : 0] = '\0';
	if (n <= 0 || strstr(said, "\"failed\""))
		fail(n > 0 ? said : "a node has gone", NULL);
	/* A rank that is late gets only "durable", which includes "buffered". */
	r->is_durable |= strstr(said, "\"durable\"") != NULL;
	r->is_buffered |= r->is_durable || strstr(said, "\"buffered\"");
}

/* Wait until all ranks have got the message; returns the time of the last. */
static int64_t hear_all(bool is_durable)
{
	const unsigned int n = n_nodes * n_each;
	struct pollfd *p = calloc(n, sizeof(*p));
	unsigned int left = 1;

	while (left) {
		left = 0;
		for (unsigned int i = 0; i < n; i++) {
			const bool is_done = is_durable ? ranks[i].is_durable
							: ranks[i].is_buffered;

			p[i] = (struct pollfd){ .fd = is_done ? -1
							      : ranks[i].sock,
						.events = POLLIN };
			left += !is_done;
		}
		if (left && poll(p, n, 60000) <= 0)
			fail(is_durable ? "not durable in a minute"
					: "not buffered in a minute",
			     NULL);
		for (unsigned int i = 0; i < n && left; i++)
			if (p[i].revents)
				hear_rank(&ranks[i]);
	}
	free(p);
	return clock_now_ns();
}

static int64_t cpu_ns(void)
{
	struct rusage u;

	(void)getrusage(RUSAGE_SELF, &u);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * NS_PER_S +
	       (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
}

static int compare_ns(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static void save_once(unsigned int number, int64_t ret[3])
{
	const unsigned int n = n_nodes * n_each;
	int64_t begun_ns, begun_cpu_ns;

	for (unsigned int i = 0; i < n; i++) {
		make_request(&ranks[i], number);
		ranks[i].is_buffered = ranks[i].is_durable = false;
	}
	begun_cpu_ns = cpu_ns();
	begun_ns = clock_now_ns();
	for (unsigned int i = 0; i < n; i++)
		ranks[i].sock = call_node(&nodes[ranks[i].node],
					  &ranks[i].request, ranks[i].memory);
	ret[0] = hear_all(false) - begun_ns;
	ret[1] = hear_all(true) - begun_ns;
	ret[2] = cpu_ns() - begun_cpu_ns;
	for (unsigned int i = 0; i < n; i++)
		(void)close(ranks[i].sock);
}

static void save_all(void)
{
	static int64_t took_ns[3][ROUNDS_MAX];
	int64_t one[3];

	for (unsigned int i = 0; i <= n_rounds; i++) {
		save_once(i + 1, one);
		for (unsigned int k = 0; k < 3 && i; k++)
			took_ns[k][i - 1] = one[k];
	}
	for (unsigned int k = 0; k < 3; k++) {
		qsort(took_ns[k], n_rounds, sizeof(int64_t), compare_ns);
		printf("%s%.2f", k ? " " : "",
		       (double)took_ns[k][n_rounds / 2] / 1e6);
	}
	printf("\n");
}

int main(int argc, char **argv)
{
	unsigned int *const args[] = { &n_nodes, &n_each, &n_tensors,
				       &n_rounds };
	struct rlimit files;

	for (int i = 1; i < argc && i <= 4; i++)
		*args[i - 1] = (unsigned int)strtoul(argv[i], NULL, 10);
	if (argc != 5 || !n_nodes || n_nodes > NODES_MAX || !n_each ||
	    !n_rounds || n_rounds > ROUNDS_MAX) {
		fputs("bench-group-coordination NODES RANKS TENSORS ROUNDS\n",
		      stderr);
		return 2;
	}
	/* Both ends of all links are in this process. */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	(void)signal(SIGPIPE, SIG_IGN);
	log_set_level(LOG_LEVEL_WARNING);
	ranks = calloc((size_t)n_nodes * n_each, sizeof(*ranks));
	if (!ranks || !mkdtemp(folder))
		fail(folder, NULL);
	begin_nodes();
	ask_addresses();
	for (unsigned int i = 0; i < n_nodes * n_each; i++)
		ranks[i] = (struct bench_rank){ .rank = i,
						.node = i / n_each,
						.memory = make_memory() };
	save_all();
	end_nodes();
	(void)nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return 0;
}
