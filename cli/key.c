// SPDX-License-Identifier: Apache-2.0
/* key new, key show. */
#include <errno.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/signer.h"
#include "common/clock.h"
#include "common/fs.h"

/* ------------------------------------------------------------------------ new --- */

struct new_config {
	char *name, *uses;
	int64_t expires;
};

static const char *const uses_words[] = { "sign", "verify", "both", NULL };

static const struct option_spec new_options[] = {
	{ .key = "name",
	  .type = OPTION_STRING,
	  .offset = offsetof(struct new_config, name),
	  .help = "Who it is, for messages of nodes; default is USER@HOST." },
	{ .key = "uses",
	  .type = OPTION_ENUM,
	  .values = uses_words,
	  .offset = offsetof(struct new_config, uses),
	  .def = "sign",
	  .help = "What nodes believe of it: sign: what 'image convert' and "
		  "'image sign' say; verify: what 'image verify' says." },
	{ .key = "expires",
	  .type = OPTION_DURATION,
	  .offset = offsetof(struct new_config, expires),
	  .min = "1m",
	  .help = "How long nodes believe it, as in 365d; default is without "
		  "end." },
	{ .key = NULL },
};

static unsigned int key_uses_of_config(const struct new_config *c)
{
	if (strcmp(c->uses, "verify") == 0)
		return TRUST_USE_VERIFY;
	if (strcmp(c->uses, "both") == 0)
		return TRUST_USE_SIGN | TRUST_USE_VERIFY;
	return TRUST_USE_SIGN;
}

static int default_file(char **ret, struct error *err)
{
	AUTO_FREE char *path = NULL;
	AUTO_FREE char *folder = NULL;
	int rc = signer_default_path(&path, err);

	if (rc < 0)
		return rc;
	folder = strdup(path);
	rc = folder ? fs_mkdir_p(dirname(folder), 0700, err) : error_nomem(err);
	if (rc == 0)
		*ret = steal_ptr(&path);
	return rc;
}

static int check_new(const void *config, char **args, struct error *err)
{
	const struct new_config *c = config;
	int rc = c->name ? trust_key_name_check(c->name, err) : 0;

	return rc < 0 ? error_wrap(err, rc, "option '--name'") : 0;
}

static int run_new(const void *config, char **args, struct error *err)
{
	const struct new_config *c = config;
	AUTO_FREE char *own = NULL;
	int64_t end = 0;
	const char *path = args[0];
	int rc = path ? 0 : default_file(&own, err);

	if (rc < 0)
		return rc;
	if (own)
		path = own;
	if (c->expires)
		end = (int64_t)time(NULL) + c->expires / NS_PER_S;
	rc = signer_make(path, c->name, key_uses_of_config(c), end, err);
	if (rc < 0)
		return rc;
	printf("made a key: %s\n", path);
	signer_print_entry(path);
	return 0;
}

const struct command key_new_command = {
	.brief = "Make a key to sign images with",
	.program = {
		.name = "bootseer key new",
		.usage = "[OPTIONS] [FILE]",
		.summary =
			"Make an Ed25519 key in the new file FILE, by default "
			"~/.config/bootseer/sign.key, and in FILE.pub what a "
			"node's trust-keys need of it.",
		.options = new_options,
		.see_also = "bootseer(1), bootseerd(8)",
		.max_args = 1,
	},
	.config_size = sizeof(struct new_config),
	.check = check_new,
	.run = run_new,
};

/* ----------------------------------------------------------------------- show --- */

static const struct option_spec show_options[] = {
	{ .key = NULL },
};

static void print_key(const struct trust_key *k)
{
	char id[DIGEST_STR_MAX], end[TRUST_TIME_MAX];

	digest_format(verify_key_id(k->key), id);
	trust_time_format(k->not_after_s, end);
	printf("%s  %s  uses:%s%s  not-after: %s  %s\n", id,
	       verify_key_kind(k->key) == VERIFY_KEY_P256 ? "ecdsa-p256"
							  : "ed25519",
	       k->uses & TRUST_USE_SIGN ? " sign" : "",
	       k->uses & TRUST_USE_VERIFY ? " verify" : "",
	       k->not_after_s ? end : "none", k->name);
}

static bool is_private(const char *path)
{
	AUTO_BUF text = BUF_INIT;

	return fs_read_file(path, SIGN_KEY_FILE_MAX, &text, NULL) == 0 &&
	       text.len && strstr(text.data, " PRIVATE KEY-----");
}

static int show_keys(const char *path, struct error *err)
{
	AUTO(trust_keys) list = NULL;
	AUTO(sign_key) key = NULL;
	char id[DIGEST_STR_MAX];
	struct stat st;
	int rc;

	if (access(path, F_OK) < 0 && errno == ENOENT)
		return error_set(err, ENOENT,
				 "there is no key at '%s': mend the path, or "
				 "make one with 'bootseer key new'",
				 path);
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return error_set(err, EISDIR,
				 "'%s' is a folder: name a key file in it",
				 path);
	if (is_private(path)) {
		rc = sign_key_load(path, &key, err);
		if (rc < 0)
			return rc;
		digest_format(sign_key_id(key), id);
		printf("%s  ed25519  private\n", id);
		return 0;
	}
	rc = trust_keys_load(path, &list, err);
	for (size_t i = 0; rc == 0 && i < list->n; i++)
		print_key(&list->v[i]);
	return rc;
}

static int run_show(const void *config, char **args, struct error *err)
{
	int rc = 0;

	for (; rc == 0 && *args; args++)
		rc = show_keys(*args, err);
	return rc;
}

const struct command key_show_command = {
	.brief = "Tell of keys: id, what for, until when, who",
	.program = {
		.name = "bootseer key show",
		.usage = "FILE...",
		.summary = "Tell of the keys in each FILE, private or public; "
			   "a folder is a list of keys too, as for nodes.",
		.options = show_options,
		.examples = "bootseer key show /etc/bootseer/trust.pem\n",
		.min_args = 1,
		.max_args = -1,
	},
	.config_size = 1,
	.run = run_show,
};
