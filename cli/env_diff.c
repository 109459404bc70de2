// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/env.h"
#include "common/json.h"
#include "common/progress.h"
#include "envcache/diff.h"

/* Exit statuses, as diff(1) has them. */
#define EXIT_DIFFERS 1
#define EXIT_TROUBLE 2

struct env_diff_config {
	struct store_access access;
	bool json, no_times;
};

static const struct option_spec options[] = {
	{ .key = "json",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct env_diff_config, json),
	  .help = "Print JSON." },
	{ .key = "no-times",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct env_diff_config, no_times),
	  .help = "Times of modification do not count: two runs of one "
		  "install differ in most of them." },
	ENV_ACCESS_OPTIONS(struct env_diff_config),
	{ .key = NULL },
};

static const struct {
	unsigned int bit;
	const char *name;
} members[] = {
	{ ENV_DIFFERS_TYPE, "type" },      { ENV_DIFFERS_CONTENT, "content" },
	{ ENV_DIFFERS_MODE, "mode" },      { ENV_DIFFERS_OWNER, "owner" },
	{ ENV_DIFFERS_TIME, "time" },      { ENV_DIFFERS_TARGET, "target" },
	{ ENV_DIFFERS_XATTR, "xattr" },    { ENV_DIFFERS_DEVICE, "device" },
	{ ENV_DIFFERS_LINKS, "hardlink" },
};

static const char *type_of(const struct env_thing *t)
{
	switch (t->mode & S_IFMT) {
	case 0:
		return "deletion";
	case S_IFDIR:
		return "folder";
	case S_IFLNK:
		return "symlink";
	case S_IFREG:
		return "file";
	case S_IFIFO:
		return "fifo";
	default:
		return "device";
	}
}

/* ------------------------------------------------------------------------ for people --- */

/* Print a file's size ("12 B"), or else the type. */
static void print_thing(const struct env_thing *t)
{
	char bytes[PROGRESS_BYTES_MAX];

	progress_format_bytes(t->size, bytes);
	fputs(S_ISREG(t->mode) ? bytes : type_of(t), stdout);
}

static void print_time(const struct env_thing *t)
{
	printf("%" PRId64 ".%09" PRIu32, t->mtime, t->mtime_nsec);
}

/* Print a text from strangers on one line, with control characters escaped. */
static void print_escaped(const char *p)
{
	for (; *p; p++)
		if (*p >= ' ' && *p <= '~' && *p != '\\')
			putchar(*p);
		else
			printf("\\x%02x", (unsigned char)*p);
}

static void print_member(const struct env_thing *t, unsigned int bit)
{
	switch (bit) {
	case ENV_DIFFERS_TYPE:
	case ENV_DIFFERS_CONTENT:
		print_thing(t);
		break;
	case ENV_DIFFERS_MODE:
		printf("%04o", t->mode & 07777);
		break;
	case ENV_DIFFERS_OWNER:
		printf("%" PRIu32 ":%" PRIu32, t->uid, t->gid);
		break;
	case ENV_DIFFERS_TIME:
		print_time(t);
		break;
	case ENV_DIFFERS_TARGET:
		print_escaped(t->target);
		break;
	case ENV_DIFFERS_DEVICE:
		printf("%" PRIu32 ":%" PRIu32, t->major, t->minor);
		break;
	default:
		break;
	}
}

static void print_change(const struct env_difference *d)
{
	const char *between = "  ";

	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		unsigned int bit = members[i].bit;

		if (!(d->in & bit))
			continue;
		printf("%s%s", between, members[i].name);
		between = ", ";
		if (bit == ENV_DIFFERS_XATTR)
			for (const char *const *x = d->xattrs; *x; x++) {
				putchar(' ');
				print_escaped(*x);
			}
		else if (bit != ENV_DIFFERS_LINKS) {
			putchar(' ');
			print_member(d->a, bit);
			fputs(" -> ", stdout);
			print_member(d->b, bit);
		}
	}
}

static int print_text(void *arg, const struct env_difference *d,
		      struct error *err)
{
	printf("%c %s", d->a && d->b ? '~' : d->a ? '-' : '+', d->path);
	if (d->a && d->b) {
		print_change(d);
	} else {
		fputs("  ", stdout);
		print_thing(d->a ? d->a : d->b);
	}
	putchar('\n');
	return 0;
}

static void print_sum(const struct env_diff *d)
{
	char removed[PROGRESS_BYTES_MAX], added[PROGRESS_BYTES_MAX];

	progress_format_bytes(d->removed_bytes, removed);
	progress_format_bytes(d->added_bytes, added);
	printf("%" PRIu64 " added (%s), %" PRIu64 " removed (%s), %" PRIu64
	       " changed\n",
	       d->n_added, added, d->n_removed, removed, d->n_changed);
}

/* ------------------------------------------------------------------------------- JSON --- */

struct env_diff_printer {
	struct env_diff diff;
	bool is_second; /* a comma is needed before the next element */
};

static json_t *json_thing(const struct env_thing *t)
{
	char mode[8];
	json_t *o;

	if (!t)
		return json_null();
	(void)snprintf(mode, sizeof(mode), "%04o", t->mode & 07777);
	o = json_pack("{s:s}", "type", type_of(t));
	if (t->mode) {
		(void)json_object_set_new(o, "mode", json_string(mode));
		(void)json_object_set_new(o, "uid", json_integer(t->uid));
		(void)json_object_set_new(o, "gid", json_integer(t->gid));
		(void)json_object_set_new(o, "mtime",
					  json_pack("[I,i]",
						    (json_int_t)t->mtime,
						    (int)t->mtime_nsec));
	}
	if (S_ISREG(t->mode))
		(void)json_object_set_new(o, "size",
					  json_integer((json_int_t)t->size));
	if (t->target)
		(void)json_object_set_new(o, "target", json_bytes(t->target));
	if (S_ISCHR(t->mode) || S_ISBLK(t->mode))
		(void)json_object_set_new(o, "device",
					  json_pack("[I,I]",
						    (json_int_t)t->major,
						    (json_int_t)t->minor));
	return o;
}

static json_t *json_members(const struct env_difference *d)
{
	json_t *list = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		if (d->in & members[i].bit)
			(void)json_array_append_new(list,
						    json_string(
							    members[i].name));
	return list;
}

/* Print one difference at a time: there may be millions, too many for one JSON tree. */
static int print_json(void *arg, const struct env_difference *d,
		      struct error *err)
{
	struct env_diff_printer *p = arg;
	AUTO_JSON *o = json_pack("{s:s, s:o, s:o, s:o}", "path", d->path, "a",
				 json_thing(d->a), "b", json_thing(d->b), "in",
				 json_members(d));
	AUTO_FREE char *text = NULL;
	json_t *names = json_array();

	for (const char *const *x = d->xattrs; *x; x++)
		(void)json_array_append_new(names, json_bytes(*x));
	(void)json_object_set_new(o, "xattrs", names);
	text = json_dumps(o, 0);
	if (!text)
		return error_nomem(err);
	printf("%s\n  %s", p->is_second ? "," : "", text);
	p->is_second = true;
	return 0;
}

/* ------------------------------------------------------------------------------- both --- */

struct env_by_artifact {
	const char *wanted;
	struct digest key;
	bool is_found;
};

static int match_artifact(void *arg, const struct digest *key,
			  const struct env_snapshot *s, const struct error *why,
			  struct error *err)
{
	struct env_by_artifact *f = arg;
	char text[DIGEST_STR_MAX];

	if (!s)
		return 0;
	digest_format(&s->manifest, text);
	if (strcmp(text, f->wanted) == 0) {
		f->key = *key;
		f->is_found = true;
	}
	return 0;
}

/* Find a snapshot by its key, or by the digest of its artifact. */
static int get_snapshot(struct object_store *s, const char *text,
			struct env_snapshot *ret, struct error *err)
{
	struct env_by_artifact f = { .wanted = text };
	struct digest key;
	int rc = env_key_find(s, text, &key, err);

	if (rc == -ENOENT && strlen(text) == strlen("sha256:") + 64) {
		struct error own = ERROR_INIT;
		int listed = env_snapshot_list(s, match_artifact, &f, &own);

		if (listed < 0) {
			*err = own;
			return listed;
		}
		key = f.key;
		rc = f.is_found ? 0 : rc;
	}
	return rc < 0 ? rc : env_snapshot_get(s, &key, ret, err);
}

static int compare(const struct env_diff_config *c, struct object_store *s,
		   const struct env_snapshot *a, const struct env_snapshot *b,
		   struct error *err)
{
	struct env_diff_printer p = { .diff.no_times = c->no_times,
				      .diff.fn = c->json ? print_json
							 : print_text };
	struct env_diff *d = &p.diff;
	bool same;
	int rc;

	d->arg = &p;
	if (c->json)
		fputs("{\"differences\": [", stdout);
	rc = env_diff(s, a, b, d, err);
	if (rc < 0)
		return rc;
	same = d->n_added + d->n_removed + d->n_changed == 0;
	if (c->json)
		printf("],\n\"added\": %" PRIu64 ", \"added_bytes\": %" PRIu64
		       ", \"removed\": %" PRIu64 ", \"removed_bytes\": %" PRIu64
		       ", \"changed\": %" PRIu64 ", \"fetched_bytes\": %" PRIu64
		       "}\n",
		       d->n_added, d->added_bytes, d->n_removed,
		       d->removed_bytes, d->n_changed, d->fetched);
	else if (!same)
		print_sum(d);
	if (fflush(stdout) != 0 || ferror(stdout))
		return error_set(err, EIO, "standard output: write failed");
	return same ? 0 : EXIT_DIFFERS;
}

static int run_env_diff(const void *config, char **args, struct error *err)
{
	const struct env_diff_config *c = config;
	AUTO(object_store) s = NULL;
	struct env_snapshot a, b;
	int rc = env_store_open(&c->access, args[0], &s, err);

	if (rc == 0)
		rc = get_snapshot(s, args[1], &a, err);
	if (rc < 0)
		return rc;
	rc = get_snapshot(s, args[2], &b, err);
	if (rc == 0) {
		rc = compare(c, s, &a, &b, err);
		env_snapshot_fini(&b);
	}
	env_snapshot_fini(&a);
	return rc;
}

const struct command env_diff_command = {
	.brief = "Show in what two environments differ",
	.program = {
		.name = "bootseer env diff",
		.usage = "[OPTIONS] STORE A B",
		.summary = "Show what snapshot B has that A has not (+), what "
			   "A has only (-), and what differs (~): type, "
			   "content, mode, owner, time, target, xattr, device, "
			   "hardlink. A and B are keys, as 'bootseer env ls' "
			   "lists them, or digests of artifacts. Of contents "
			   "only what digests of blocks do not answer is "
			   "fetched. Exit status: 0 same, 1 they differ, 2 "
			   "trouble.",
		.options = options,
		.examples = "bootseer env diff --no-times "
			    "s3://bucket/env 3f2a9c 81b04d\n",
		.min_args = 3,
	},
	.config_size = sizeof(struct env_diff_config),
	.is_status = true,
	.failed = EXIT_TROUBLE,
	.check = env_check_first,
	.run = run_env_diff,
};
