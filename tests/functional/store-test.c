// SPDX-License-Identifier: Apache-2.0
/*
 * Stores of objects for shell scripts: store-test URL COMMAND...
 *
 *   put NAME FILE [new | TAG]   prints the tag
 *   get NAME FILE
 *   whole NAME FILE MAX         at once, when it has no more bytes
 *   stat NAME                   size and tag
 *   ls [FOLDER]                 all names below it
 *   rm NAME [TAG]
 *   mv FROM TO
 *   sweep [MS]                  prints how many were left behind, and are that old
 *   probe                       prints the capabilities
 *   speed MIB                   MiB/s of one put and one get, by one request at a
 *                               time and by many
 *
 * STORE_RETRY_MS, STORE_STALL_MS and STORE_PARALLEL change the limits; with STORE_PROBE
 * the store is probed first; STORE_AHEAD_S is by how much our time of day is wrong.  The
 * last line on stderr counts requests, retries and hedges.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "common/fs.h"
#include "objects/object_get.h"
#include "objects/store.h"

#define FILE_LIMIT ((size_t)GIB)
#define STEP (4 * MIB)

static uint32_t number(const char *name, uint32_t def)
{
	const char *value = getenv(name);

	return value ? (uint32_t)strtoul(value, NULL, 10) : def;
}

/* The store's code calls this one. */
int clock_gettime(clockid_t clock, struct timespec *ret)
{
	const char *ahead = getenv("STORE_AHEAD_S");
	int rc = (int)syscall(SYS_clock_gettime, clock, ret);

	if (rc == 0 && ahead && clock == CLOCK_REALTIME)
		ret->tv_sec += strtol(ahead, NULL, 10);
	return rc;
}

static int put(struct object_store *s, const char *name, const char *data,
	       size_t len, const struct object_put_options *opts,
	       struct error *err)
{
	struct object_stat st = { .size = 0 };
	AUTO(object_put) p = NULL;
	int rc = object_put_open(s, name, opts, &p, err);

	for (size_t at = 0; rc == 0 && at < len; at += STEP)
		rc = object_put_write(p, data + at,
				      len - at < STEP ? len - at : STEP, err);
	if (rc == 0)
		rc = object_put_commit(p, &st, err);
	if (rc == 0)
		printf("%s\n", st.tag);
	return rc;
}

static int run_put(struct object_store *s, char **args, struct error *err)
{
	struct object_put_options opts = { .size = 0 };
	AUTO_BUF data = BUF_INIT;
	int rc = fs_read_file(args[1], FILE_LIMIT, &data, err);

	if (args[2] && strcmp(args[2], "new") == 0) {
		opts.condition = OBJECT_NEW;
	} else if (args[2]) {
		opts.condition = OBJECT_MATCH;
		opts.tag = args[2];
	}
	return rc < 0 ? rc : put(s, args[0], data.data, data.len, &opts, err);
}

static int get(struct object_store *s, const char *name, char **ret,
	       size_t *ret_len, struct error *err)
{
	struct object_range r;
	struct object *o;
	int rc = object_open(s, name, &o, err);

	if (rc < 0)
		return rc;
	*ret_len = (size_t)object_opened_stat(o)->size;
	*ret = malloc(*ret_len + 1);
	r = (struct object_range){ .len = *ret_len, .buf = *ret };
	rc = *ret ? object_read(o, &r, 1, 0, err) : error_nomem(err);
	object_close(o);
	return rc;
}

static int run_get(struct object_store *s, char **args, struct error *err)
{
	AUTO_FREE char *data = NULL;
	size_t len;
	int rc = get(s, args[0], &data, &len, err);

	return rc < 0 ? rc : fs_replace_file(args[1], data, len, 0600, err);
}

static int run_whole(struct object_store *s, char **args, struct error *err)
{
	AUTO_BUF data = BUF_INIT;
	struct object_stat st;
	int rc = object_get(s, args[0], strtoul(args[2], NULL, 10), &data, &st,
			    err);

	if (rc == 0 && st.size != data.len)
		rc = error_set(err, EIO, "other bytes than it says");
	return rc < 0 ? rc
		      : fs_replace_file(args[1], data.data, data.len, 0600,
					err);
}

static int run_stat(struct object_store *s, char **args, struct error *err)
{
	struct object_stat st;
	int rc = object_stat(s, args[0], &st, err);

	if (rc == 0)
		printf("%" PRIu64 " %s\n", st.size, st.tag);
	return rc;
}

static int print_name(void *arg, const struct object_entry *e,
		      struct error *err)
{
	(void)arg;
	(void)err;
	printf("%s\n", e->name);
	return 0;
}

static int run_ls(struct object_store *s, char **args, struct error *err)
{
	return object_list(s, args[0] ? args[0] : "", true, print_name, NULL,
			   err);
}

static int run_rm(struct object_store *s, char **args, struct error *err)
{
	return object_delete(s, args[0], args[1], err);
}

static int run_mv(struct object_store *s, char **args, struct error *err)
{
	return object_rename(s, args[0], args[1], OBJECT_ANY, err);
}

static int run_sweep(struct object_store *s, char **args, struct error *err)
{
	size_t n;
	int rc = object_store_sweep(s, args[0] ? strtoul(args[0], NULL, 10) : 0,
				    &n, err);

	if (rc == 0)
		printf("%zu\n", n);
	return rc;
}

static int run_probe(struct object_store *s, char **args, struct error *err)
{
	struct object_caps c;
	int rc = object_store_probe(s, err);

	(void)args;
	c = object_store_caps(s);
	if (rc == 0)
		printf("new=%d match=%d match_delete=%d rename=%d replace=%d "
		       "checksum=%d direct=%d uring=%d parallel=%u\n",
		       c.has_new, c.has_match, c.has_match_delete, c.has_rename,
		       c.has_replace, c.has_checksum, c.is_direct, c.is_uring,
		       c.parallel);
	return rc;
}

static double rate(size_t len, int64_t begun)
{
	return (double)len / (double)MIB /
	       ((double)(clock_now_ns() - begun) / NS_PER_S);
}

static int run_speed(struct object_store *s, char **args, struct error *err)
{
	size_t len = (size_t)strtoul(args[0], NULL, 10) * MIB, n;
	AUTO_FREE char *data = malloc(len);
	AUTO_FREE char *got = NULL;
	int64_t begun = clock_now_ns();
	int rc;

	if (!data)
		return error_nomem(err);
	for (size_t i = 0; i < len; i += 8)
		put_le64(data + i, i * 0x9E3779B97F4A7C15u);
	begun = clock_now_ns();
	rc = put(s, "speed", data, len, NULL, err);
	if (rc < 0)
		return rc;
	fprintf(stderr, "put %.0f MiB/s\n", rate(len, begun));
	begun = clock_now_ns();
	rc = get(s, "speed", &got, &n, err);
	if (rc < 0)
		return rc;
	fprintf(stderr, "get %.0f MiB/s\n", rate(len, begun));
	if (n != len || memcmp(data, got, len) != 0)
		return error_set(err, EBADMSG, "other bytes came back");
	return object_delete(s, "speed", NULL, err);
}

static const struct {
	const char *name;
	int n_args;
	int (*run)(struct object_store *s, char **args, struct error *err);
} commands[] = {
	{ "put", 2, run_put },     { "get", 2, run_get },
	{ "whole", 3, run_whole }, { "stat", 1, run_stat },
	{ "ls", 0, run_ls },       { "rm", 1, run_rm },
	{ "mv", 2, run_mv },       { "sweep", 0, run_sweep },
	{ "probe", 0, run_probe }, { "speed", 1, run_speed },
};

static int run_command(struct object_store *s, char **args, int n,
		       struct error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(commands[i].name, args[0]) == 0 &&
		    n > commands[i].n_args)
			return commands[i].run(s, args + 1, err);
	return error_set(err, EINVAL, "no command '%s'", args[0]);
}

int main(int argc, char **argv)
{
	struct object_store_config cfg = OBJECT_STORE_CONFIG_INIT;
	struct error err = ERROR_INIT;
	AUTO(object_store) s = NULL;
	struct object_store_stats n;
	int rc;

	if (argc < 3) {
		fprintf(stderr, "usage: store-test URL COMMAND...\n");
		return 2;
	}
	cfg.retry_ms = number("STORE_RETRY_MS", cfg.retry_ms);
	cfg.stall_timeout_ms = number("STORE_STALL_MS", cfg.stall_timeout_ms);
	cfg.parallel = number("STORE_PARALLEL", 0);
	rc = object_store_open(argv[1], &cfg, &s, &err);
	if (rc == 0 && getenv("STORE_PROBE"))
		rc = object_store_probe(s, &err);
	if (rc == 0)
		rc = run_command(s, argv + 2, argc - 2, &err);
	if (rc < 0)
		fprintf(stderr, "store-test: %s\n", err.msg);
	if (s) {
		n = object_store_stats(s);
		fprintf(stderr,
			"requests=%" PRIu64 " retries=%" PRIu64
			" hedges=%" PRIu64 " won=%" PRIu64 "\n",
			n.n_requests, n.n_retries, n.n_hedges, n.n_hedges_won);
	}
	return rc < 0;
}
