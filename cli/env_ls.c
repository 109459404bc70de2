// SPDX-License-Identifier: Apache-2.0
#include "cli/env.h"
#include "common/json.h"
#include "common/progress.h"
#include "common/text.h"

struct env_ls_config {
	struct store_access access;
	struct env_service_access service;
	bool json;
};

static const struct option_spec options[] = {
	{ .key = "json",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct env_ls_config, json),
	  .help = "Print JSON." },
	ENV_SERVICE_OPTIONS(struct env_ls_config),
	ENV_ACCESS_OPTIONS(struct env_ls_config),
	{ .key = NULL },
};

struct env_ls {
	struct env_catalog *catalog;
	json_t *list; /* NULL: print lines instead */
};

static json_t *json_snapshot(const struct env_snapshot *s,
			     const struct env_marks *m)
{
	AUTO_JSON *targets = json_array();
	char hex[ENV_KEY_HEX], manifest[DIGEST_STR_MAX];

	env_key_hex(&s->key.digest, hex);
	digest_format(&s->manifest, manifest);
	for (size_t i = 0; i < s->targets.n; i++)
		if (json_array_append_new(targets,
					  json_string(s->targets.paths[i])) < 0)
			return NULL;
	return json_pack("{s:s, s:s, s:O, s:s, s:s, s:I, s:I, s:I, s:I, s:I, "
			 "s:I, s:b, s:s*}",
			 "key", hex, "manifest", manifest, "targets", targets,
			 "program", s->program, "by", s->by, "made_ms",
			 (json_int_t)s->made_ms, "used_ms",
			 (json_int_t)m->used_ms, "changed",
			 (json_int_t)s->n_changed, "deleted",
			 (json_int_t)s->n_deleted, "bytes",
			 (json_int_t)s->bytes, "stored", (json_int_t)s->stored,
			 "pinned", (int)m->is_pinned, "bad",
			 m->is_bad ? m->bad_why : NULL);
}

/* Make the message UTF-8 first: a server may have put other bytes into it. */
static json_t *json_unreadable(const char *hex, struct error why)
{
	json_t *text = json_string(why.msg);

	for (char *p = why.msg; !text && *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
	if (!text)
		text = json_string(why.msg);
	return json_pack("{s:s, s:o}", "key", hex, "error", text);
}

static int note_snapshot(void *arg, const struct digest *key,
			 const struct env_snapshot *s, const struct error *why,
			 struct error *err)
{
	const struct env_ls *l = arg;
	char hex[ENV_KEY_HEX];
	struct env_marks m;
	json_t *one;

	env_key_hex(key, hex);
	if (s && env_catalog_marks(l->catalog, s, &m, err) < 0)
		return -err->code;
	one = s ? json_snapshot(s, &m) : json_unreadable(hex, *why);
	return json_array_append_new(l->list, one) < 0 ? error_nomem(err) : 0;
}

static int print_json(const json_t *list, struct error *err)
{
	AUTO_FREE char *text =
		json_dumps(list, JSON_INDENT(2) | JSON_PRESERVE_ORDER);

	if (!text)
		return error_nomem(err);
	puts(text);
	return 0;
}

static int show_snapshot(void *arg, const struct digest *key,
			 const struct env_snapshot *s, const struct error *why,
			 struct error *err)
{
	char hex[ENV_KEY_HEX], when[ENV_TIME_ROOM], bytes[PROGRESS_BYTES_MAX];
	char names[PROGRESS_COUNT_MAX];
	const struct env_ls *l = arg;
	struct env_marks m;
	struct error e;

	env_key_hex(key, hex);
	if (!s) {
		e = *why;
		text_make_printable(e.msg);
		printf("%.12s  cannot be read: %s\n", hex, e.msg);
		return 0;
	}
	env_format_time(s->made_ms, when);
	progress_format_bytes(s->stored, bytes);
	progress_format_count(s->n_changed, "name", names);
	if (env_catalog_marks(l->catalog, s, &m, err) < 0)
		return -err->code;
	text_make_printable(s->program);
	text_make_printable(s->by);
	text_make_printable(m.bad_why);
	printf("%.12s  %s  %10s  %12s  %s on %s%s%s%s\n", hex, when, bytes,
	       names, s->program, s->by, m.is_pinned ? "  pinned" : "",
	       m.is_bad ? "  bad" : "", m.is_bad ? m.bad_why : "");
	return 0;
}

static int run_env_ls(const void *config, char **args, struct error *err)
{
	const struct env_ls_config *c = config;
	AUTO_FINI(env_opened) o = { .store = NULL };
	int rc = env_open(&c->access, &c->service, args[0], "bootseer env ls",
			  0, &o, err);
	AUTO_JSON *list = c->json ? json_array() : NULL;
	struct env_ls l = { .catalog = o.catalog, .list = list };

	if (rc == 0 && c->json && !list)
		rc = error_nomem(err);
	if (rc == 0)
		rc = env_catalog_list(o.catalog,
				      list ? note_snapshot : show_snapshot, &l,
				      err);
	if (rc == 0 && list)
		rc = print_json(list, err);
	return rc;
}

const struct command env_ls_command = {
	.brief = "List the environments in a store",
	.program = {
		.name = "bootseer env ls",
		.usage = "[OPTIONS] STORE",
		.summary = "List the snapshots in the store: key, time, size "
			   "as stored, names, and what made it where.",
		.options = options,
		.min_args = 1,
	},
	.config_size = sizeof(struct env_ls_config),
	.check = env_check_first,
	.run = run_env_ls,
};
