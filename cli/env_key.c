// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <string.h>

#include "cli/env.h"
#include "common/text.h"

struct env_key_config {
	struct store_access access;
	struct env_parts parts;
	char *store, *against;
	bool explain;
};

static const struct option_spec options[] = {
	{ .key = "explain",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct env_key_config, explain),
	  .help = "Show what went into the key." },
	{ .key = "against",
	  .type = OPTION_STRING,
	  .offset = offsetof(struct env_key_config, against),
	  .arg = "KEY",
	  .help = "Show what differs from the key of this snapshot in the "
		  "store." },
	{ .key = "store",
	  .type = OPTION_STRING,
	  .offset = offsetof(struct env_key_config, store),
	  .arg = "URL",
	  .help = "Where snapshots are kept: for --against, and for files "
		  "that the command makes itself, which are in no key." },
	ENV_PARTS_OPTIONS(struct env_key_config),
	ENV_ACCESS_OPTIONS(struct env_key_config),
	{ .key = NULL },
};

static void print_item(const struct env_item *it)
{
	char hex[ENV_KEY_HEX];

	env_key_hex(&it->value, hex);
	text_make_printable(it->name);
	if (it->shown)
		text_make_printable(it->shown);
	printf("%-12s  %s%s%s\n", it->kind, it->name,
	       *it->name && (it->shown ? *it->shown : 1) ? "  " : "",
	       it->shown ? it->shown : hex);
}

/* Print "file requirements.txt", or just "image", as there is only one. */
static void print_item_name(const struct env_item *it)
{
	printf("%s%s%s: ", it->kind, *it->name ? " " : "", it->name);
}

static void print_difference(void *arg, const struct env_item *a,
			     const struct env_item *b)
{
	bool *differs = arg;

	*differs = true;
	for (size_t i = 0; i < 2; i++) {
		const struct env_item *it = i ? b : a;

		if (it)
			text_make_printable(it->name);
		if (it && it->shown)
			text_make_printable(it->shown);
	}
	print_item_name(a ? a : b);
	if (!b)
		puts("not in the snapshot's key");
	else if (!a)
		puts("only in the snapshot's key");
	else if (strcmp(a->kind, "base") == 0)
		/* Digests would mean nothing to a reader, and the snapshot only keeps the digest
		 * of its base. */
		puts("in the targets is not what was there before the "
		     "snapshot's command ran; in which paths, is not kept");
	else if (a->shown && b->shown)
		printf("%s; the snapshot's: %s\n", a->shown, b->shown);
	else
		printf("differs%s%s\n", a->shown ? ", here it is " : "",
		       a->shown ? a->shown : "");
}

static int compare(const struct env_key_config *c, const struct env_key *key,
		   struct error *err)
{
	AUTO(object_store) s = NULL;
	struct env_snapshot snap;
	bool differs = false;
	struct digest d;
	int rc = env_store_open(&c->access, c->store, &s, err);

	if (rc == 0)
		rc = env_key_find(s, c->against, &d, err);
	if (rc == 0)
		rc = env_snapshot_get(s, &d, &snap, err);
	if (rc < 0)
		return rc;
	env_key_compare(key, &snap.key, print_difference, &differs);
	if (!differs)
		puts("it is the snapshot's key");
	env_snapshot_fini(&snap);
	return 0;
}

static int show_key(const struct env_key_config *c, const struct env_key *key,
		    const struct env_inputs *in, struct error *err)
{
	char hex[ENV_KEY_HEX];

	env_key_hex(&key->digest, hex);
	puts(hex);
	for (size_t i = 0; c->explain && i < key->n; i++)
		print_item(&key->items[i]);
	for (size_t i = 0; c->explain && i < in->n_left_out; i++) {
		text_make_printable(in->left_out[i].name);
		printf("not in it     '%s', which the command makes\n",
		       in->left_out[i].name);
	}
	for (size_t i = 0; c->explain && i < in->n_unknown; i++) {
		text_make_printable(in->unknown[i]);
		printf("not in it     %s\n", in->unknown[i]);
	}
	return c->against ? compare(c, key, err) : 0;
}

/* Gather the inputs, without the files that the store lists as made by the command itself. */
static int find_inputs(const struct env_key_config *c, struct env_work *w,
		       struct error *err)
{
	AUTO(object_store) s = NULL;
	int rc = c->store && !c->parts.no_auto
			 ? env_store_open(&c->access, c->store, &s, err)
			 : 0;

	if (rc == 0 && s)
		rc = env_work_find_made(w, s, err);
	return rc < 0 ? rc : env_work_find_inputs(w, err);
}

static int run_env_key(const void *config, char **args, struct error *err)
{
	const struct env_key_config *c = config;
	AUTO_FINI(env_work) w = { .parts = &c->parts, .command = args };
	AUTO_FINI(env_key) key = { .n = 0 };
	int rc = env_work_find_targets(&w, err);

	if (rc < 0)
		return rc;
	rc = env_scan_new(&w.targets, &w.scan, err);
	if (rc == 0)
		rc = find_inputs(c, &w, err);
	if (rc == 0)
		rc = env_work_key(&w, &key, err);
	if (rc == 0)
		rc = show_key(c, &key, &w.inputs, err);
	return rc;
}

static int check_env_key(const void *config, char **args, struct error *err)
{
	const struct env_key_config *c = config;
	int rc = c->against ? env_check_store(c->store, err) : 0;

	if (rc == 0 && c->store)
		rc = env_check_store(c->store, err);
	return rc < 0 ? rc : env_check_parts(&c->parts, err);
}

const struct command env_key_command = {
	.brief = "Print the key of an environment, and what is in it",
	.program = {
		.name = "bootseer env key",
		.usage = "[OPTIONS] -- COMMAND [ARGUMENTS]",
		.summary = "Print the key that 'bootseer env run' has with the "
			   "same options and command, as things are now.",
		.options = options,
		.see_also = "bootseer(1)",
		.min_args = 1,
		.max_args = -1,
	},
	.config_size = sizeof(struct env_key_config),
	.check = check_env_key,
	.run = run_env_key,
};
