// SPDX-License-Identifier: Apache-2.0
#include "envcache/key.h"

#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/buf.h"
#include "envcache/inputs.h"
#include "envcache/scan.h"
#include "envcache/words.h"

#define FILE_PIECE (256u << 10)

/* Kinds of items whose values are never secret. */
static const char *const public_kinds[] = {
	"architecture", "base",  "criu",   "environment", "folder",
	"gpu",          "image", "kernel", "processor",   "snapshot",
	"libc",         "merge", "tool",   "user",
};

bool env_kind_is_public(const char *kind)
{
	for (size_t i = 0; i < ARRAY_SIZE(public_kinds); i++)
		if (strcmp(public_kinds[i], kind) == 0)
			return true;
	return false;
}

void env_key_fini(struct env_key *k)
{
	for (size_t i = 0; i < k->n; i++) {
		free(k->items[i].kind);
		free(k->items[i].name);
		free(k->items[i].shown);
	}
	free(k->items);
	*k = (struct env_key){ .n = 0 };
}

void env_key_hex(const struct digest *key, char ret[ENV_KEY_HEX])
{
	char text[DIGEST_STR_MAX];

	digest_format(key, text);
	memcpy(ret, text + strlen("sha256:"), ENV_KEY_HEX);
}

static int env_item_compare(const struct env_item *a, const struct env_item *b)
{
	int n = strcmp(a->kind, b->kind);

	return n ? n : strcmp(a->name, b->name);
}

static int compare_key_items(const void *a, const void *b)
{
	return env_item_compare(a, b);
}

int env_key_finish(struct env_key *k, struct error *err)
{
	AUTO(hasher) h = hasher_new();
	AUTO_BUF line = BUF_INIT;
	int rc = h ? 0 : -ENOMEM;

	if (k->form == 0)
		k->form = ENV_KEY_FORM;
	if (rc == 0)
		rc = buf_printf(&line, "bootseer-env %u\n", k->form);
	if (rc == 0)
		rc = hasher_update(h, line.data, line.len);
	qsort(k->items, k->n, sizeof(*k->items), compare_key_items);
	for (size_t i = 0; rc == 0 && i < k->n; i++) {
		const struct env_item *it = &k->items[i];
		char hex[ENV_KEY_HEX];

		if (i && env_item_compare(&k->items[i - 1], it) == 0)
			return error_set(err, EINVAL,
					 "%s '%.200s' is said "
					 "twice",
					 it->kind, it->name);
		buf_reset(&line);
		env_key_hex(&it->value, hex);
		rc = buf_printf(&line, "%s %zu %s\n%s\n", it->kind,
				strlen(it->name), hex, it->name);
		if (rc == 0)
			rc = hasher_update(h, line.data, line.len);
	}
	if (rc == 0)
		rc = hasher_final(h, &k->digest);
	return rc < 0 ? error_nomem(err) : 0;
}

/* ----------------------------------------------------------------------- items --- */

/* Add an item; the caller has allocated room for it. */
static int add_digest(struct env_key *k, const char *kind, const char *name,
		      const struct digest *value, const char *shown,
		      struct error *err)
{
	struct env_item *it = &k->items[k->n];

	if (strlen(name) > ENV_NAME_MAX)
		return error_set(err, EINVAL, "%s '%.100s...' is too long",
				 kind, name);
	*it = (struct env_item){ .kind = strdup(kind),
				 .name = strdup(name),
				 .value = *value };
	k->n++;
	if (shown)
		it->shown = strdup(shown);
	return it->kind && it->name && (it->shown || !shown) ? 0
							     : error_nomem(err);
}

int env_key_add_text(struct env_key *k, const char *kind, const char *name,
		     const char *value, struct error *err)
{
	struct digest d;

	if (digest_of(value, strlen(value), &d) < 0)
		return error_nomem(err);
	return add_digest(k, kind, name, &d, value, err);
}

/* Add the command's arguments without logins, as a token that changes daily does not change the
 * environment. */
static int add_arguments(struct env_key *k, char *const *command,
			 struct error *err)
{
	const char *before = "";
	int rc = 0;

	for (unsigned int i = 0; rc == 0 && command[i]; i++) {
		bool is_secret = before[0] == '-' &&
				 name_is_secret(before, strlen(before));
		AUTO_FREE char *plain =
			text_without_logins(is_secret ? "*" : command[i]);
		char name[16];

		(void)snprintf(name, sizeof(name), "%06u", i);
		rc = plain ? env_key_add_text(k, "argument", name, plain, err)
			   : error_nomem(err);
		before = command[i];
	}
	return rc;
}

/* Remove a login from the text shown for the item; the key contains the whole value. */
static int hide_login(struct env_item *it, struct error *err)
{
	char *plain = text_without_logins(
		name_is_secret(it->name, strlen(it->name)) ? "*" : it->shown);

	if (!plain)
		return error_nomem(err);
	free(it->shown);
	it->shown = plain;
	return 0;
}

static int add_values(struct env_key *k, char *const *values, struct error *err)
{
	int rc = 0;

	for (; rc == 0 && values && *values; values++) {
		const char *is = strchr(*values, '=');
		AUTO_FREE char *name = NULL;

		if (!is || is == *values)
			return error_set(err, EINVAL,
					 "--key '%.100s' is no NAME=VALUE",
					 *values);
		name = strndup(*values, (size_t)(is - *values));
		rc = name ? env_key_add_text(k, "value", name, is + 1, err)
			  : error_nomem(err);
		if (rc == 0)
			rc = hide_login(&k->items[k->n - 1], err);
	}
	return rc;
}

static int hash_file(const char *path, struct digest *ret, struct error *err)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	AUTO_FREE char *piece = malloc(FILE_PIECE);
	AUTO(hasher) h = hasher_new();
	struct stat st;
	ssize_t n = 1;

	if (!h || !piece)
		return error_nomem(err);
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, errno, "--key-file '%.200s'", path);
	if (!S_ISREG(st.st_mode))
		return error_set(err, EINVAL, "--key-file '%.200s' is no file",
				 path);
	while (n > 0) {
		n = read(fd, piece, FILE_PIECE);
		if (n < 0 && errno != EINTR)
			return error_errno(err, errno, "--key-file '%.200s'",
					   path);
		if (n > 0 && hasher_update(h, piece, (size_t)n) < 0)
			return error_nomem(err);
		n = n < 0 ? 1 : n;
	}
	return hasher_final(h, ret) < 0 ? error_nomem(err) : 0;
}

static int add_files(struct env_key *k, char *const *files, struct error *err)
{
	int rc = 0;

	for (; rc == 0 && files && *files; files++) {
		struct digest d;

		rc = hash_file(*files, &d, err);
		if (rc == 0)
			rc = add_digest(k, "file", *files, &d, NULL, err);
	}
	return rc;
}

/* Add the system and the user of this process.  A merged cache is independent of both. */
static int add_system(struct env_key *k, bool merges, struct error *err)
{
	char user[32], libc[32], folder[PATH_MAX];
	struct utsname u;
	int rc;

	if (uname(&u) < 0 || !getcwd(folder, sizeof(folder)))
		return error_set(err, errno, "%s", strerror(errno));
	(void)snprintf(user, sizeof(user), "%u:%u", geteuid(), getegid());
	(void)snprintf(libc, sizeof(libc), "glibc %s", gnu_get_libc_version());
	rc = env_key_add_text(k, "architecture", "", u.machine, err);
	if (rc == 0)
		rc = merges ? env_key_add_text(k, "merge", "", "by path", err)
			    : env_key_add_text(k, "folder", "", folder, err);
	if (rc == 0)
		rc = env_key_add_text(k, "libc", "", libc, err);
	if (rc == 0)
		rc = env_key_add_text(k, "tool", "", BOOTSEER_VERSION, err);
	return rc < 0 ? rc : env_key_add_text(k, "user", "", user, err);
}

static int add_image(struct env_key *k, const char *image, struct error *err)
{
	struct digest d;
	int rc = image ? digest_parse(image, &d, err) : 0;

	if (rc < 0)
		return error_wrap(err, rc, "--image");
	return image ? env_key_add_text(k, "image", "", image, err) : 0;
}

static int add_base(struct env_key *k, const struct env_targets *t,
		    const struct env_scan *before, struct error *err)
{
	char text[DIGEST_STR_MAX];
	struct digest d;
	int rc = env_scan_digest(before, t, &d, err);

	if (rc < 0)
		return rc;
	digest_format(&d, text);
	return env_key_add_text(k, "base", "", text, err);
}

/* Add the inputs, except files that --key-file has added already. */
static int add_inputs(struct env_key *k, const struct env_inputs *in,
		      struct error *err)
{
	size_t n = k->n;
	int rc = 0;

	for (size_t i = 0; rc == 0 && in && i < in->n; i++) {
		const struct env_item *it = &in->items[i];
		bool is_there = false;

		for (size_t f = 0; f < n && !is_there; f++)
			is_there = env_item_compare(it, &k->items[f]) == 0;
		if (!is_there)
			rc = add_digest(k, it->kind, it->name, &it->value,
					it->shown, err);
	}
	return rc;
}

static size_t count_texts(char *const *list)
{
	size_t n = 0;

	while (list && list[n])
		n++;
	return n;
}

int env_key_make(const struct env_spec *spec, const struct env_targets *t,
		 const struct env_scan *before, struct env_key *ret,
		 struct error *err)
{
	size_t n = count_texts(spec->command) + count_texts(spec->values) +
		   count_texts(spec->files) + t->n + 16 +
		   (spec->inputs ? spec->inputs->n : 0);
	struct env_key k = { .n = 0 };
	int rc;

	if (n > ENV_ITEMS_MAX)
		return error_set(err, E2BIG, "%zu things in one key", n);
	k.items = calloc(n, sizeof(*k.items));
	if (!k.items)
		return error_nomem(err);
	rc = spec->merges ? 0 : add_arguments(&k, spec->command, err);
	if (rc == 0)
		rc = add_values(&k, spec->values, err);
	if (rc == 0)
		rc = add_files(&k, spec->files, err);
	if (rc == 0)
		rc = add_inputs(&k, spec->inputs, err);
	for (size_t i = 0; rc == 0 && i < t->n; i++)
		rc = env_key_add_text(&k, "target", t->paths[i], "", err);
	if (rc == 0)
		rc = add_system(&k, spec->merges, err);
	if (rc == 0)
		rc = add_image(&k, spec->image, err);
	if (rc == 0 && before && !spec->merges)
		rc = add_base(&k, t, before, err);
	if (rc == 0)
		rc = env_key_finish(&k, err);
	if (rc < 0)
		env_key_fini(&k);
	else
		*ret = k;
	return rc;
}

void env_key_compare(const struct env_key *a, const struct env_key *b,
		     env_differs_fn *fn, void *arg)
{
	size_t i = 0, k = 0;

	while (i < a->n || k < b->n) {
		int order = i == a->n   ? 1
			    : k == b->n ? -1
					: env_item_compare(&a->items[i],
							   &b->items[k]);

		if (order < 0)
			fn(arg, &a->items[i++], NULL);
		else if (order > 0)
			fn(arg, NULL, &b->items[k++]);
		else if (digest_equal(&a->items[i++].value,
				      &b->items[k++].value))
			continue;
		else
			fn(arg, &a->items[i - 1], &b->items[k - 1]);
	}
}
