// SPDX-License-Identifier: Apache-2.0
/* Lists of public keys: docs/formats/signature.md, Lists of keys. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/fs.h"
#include "common/text.h"
#include "snapshotter/trust/trust_priv.h"

#define BEGIN "-----BEGIN "
#define BEGIN_PUBLIC "-----BEGIN PUBLIC KEY-----"
#define END_PUBLIC "-----END PUBLIC KEY-----"

/* Reads a list line by line. */
struct list_reader {
	struct trust_keys *keys;
	/* what the lines so far say about the next key */
	struct trust_key next;
	bool has_line; /* such a line was read */
	const char *at, *end;
	unsigned int line;
};

void trust_short(const struct digest *d, char ret[TRUST_SHORT_MAX])
{
	char text[DIGEST_STR_MAX];

	digest_format(d, text);
	(void)snprintf(ret, TRUST_SHORT_MAX, "%.19s", text);
}

void trust_time_format(int64_t at_s, char ret[TRUST_TIME_MAX])
{
	time_t at = (time_t)at_s;
	struct tm tm;

	if (!gmtime_r(&at, &tm) ||
	    strftime(ret, TRUST_TIME_MAX, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		(void)snprintf(ret, TRUST_TIME_MAX, "the end of time");
}

void trust_key_who(const struct trust_key *k, char ret[TRUST_WHO_MAX])
{
	char id[TRUST_SHORT_MAX];

	trust_short(verify_key_id(k->key), id);
	if (k->name[0])
		(void)snprintf(ret, TRUST_WHO_MAX, "'%s' (%s)", k->name, id);
	else
		(void)snprintf(ret, TRUST_WHO_MAX, "key %s", id);
}

/* ---------------------------------------------------------------------- lines --- */

int trust_key_check(const struct trust_key *k, enum trust_claim claim,
		    int64_t now_s, const struct trust_revoked *revoked,
		    struct error *err)
{
	unsigned int use = claim == TRUST_CLAIM_VERIFIED ? TRUST_USE_VERIFY
							 : TRUST_USE_SIGN;
	char who[TRUST_WHO_MAX], at[TRUST_TIME_MAX];

	trust_key_who(k, who);
	if (revoked && revoked->has(revoked->arg, verify_key_id(k->key)))
		return error_set(err, EKEYREVOKED,
				 "it was signed with a key that was revoked, "
				 "%s: sign it with another one",
				 who);
	if (k->not_after_s && now_s >= k->not_after_s) {
		trust_time_format(k->not_after_s, at);
		return error_set(err, EKEYEXPIRED,
				 "it was signed with a key that ended at %s, "
				 "%s: sign it with another one",
				 at, who);
	}
	if (!(k->uses & use))
		return error_set(
			err, EPERM,
			"it was signed with a key whose 'uses' have no "
			"'%s', %s",
			claim == TRUST_CLAIM_VERIFIED ? "verify" : "sign", who);
	return 0;
}

/* Copy a value without the space around it; false: it is too long. */
static bool copy_value(const char *from, size_t len, char *to, size_t size)
{
	while (len && (*from == ' ' || *from == '\t')) {
		from++;
		len--;
	}
	while (len && strchr(" \t\r", from[len - 1]))
		len--;
	if (len == 0 || len >= size || memchr(from, 0, len))
		return false;
	memcpy(to, from, len);
	to[len] = '\0';
	return true;
}

int trust_key_name_check(const char *name, struct error *err)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < len; i++)
		if (name[i] < ' ' || name[i] > '~')
			return error_set(err, EINVAL,
					 "a key's name is of printable ASCII: "
					 "write its byte %zu another way",
					 i + 1);
	if (len > TRUST_NAME_MAX)
		return error_set(err, EINVAL,
				 "a key's name has %d bytes at most, not %zu",
				 TRUST_NAME_MAX, len);
	if (len && (name[0] == ' ' || name[len - 1] == ' '))
		return error_set(err, EINVAL,
				 "a key's name neither begins nor ends with a "
				 "space");
	return 0;
}

static int take_name(const char *value, struct trust_key *k, struct error *err)
{
	int rc = trust_key_name_check(value, err);

	if (rc == 0)
		strcpy(k->name, value);
	return rc;
}

static int take_uses(const char *value, struct trust_key *k, struct error *err)
{
	k->uses = 0;
	while (*value) {
		size_t n = strcspn(value, " ");

		if (n == 4 && strncmp(value, "sign", n) == 0)
			k->uses |= TRUST_USE_SIGN;
		else if (n == 6 && strncmp(value, "verify", n) == 0)
			k->uses |= TRUST_USE_VERIFY;
		else if (n)
			return error_set(err, EINVAL,
					 "'uses' are 'sign', 'verify' or both "
					 "with a space between, not '%.40s'",
					 value);
		value += n;
		value += strspn(value, " ");
	}
	return 0;
}

static int take_end(const char *value, struct trust_key *k, struct error *err)
{
	struct tm tm = { .tm_mday = 0 };
	const char *rest = strptime(value, "%Y-%m-%d", &tm);

	if (rest && *rest)
		rest = strptime(rest, "T%H:%M:%SZ", &tm);
	k->not_after_s = rest && !*rest ? (int64_t)timegm(&tm) : 0;
	if (k->not_after_s <= 0)
		return error_set(err, EINVAL,
				 "'not-after' is YYYY-MM-DD or "
				 "YYYY-MM-DDTHH:MM:SSZ, not '%.40s'",
				 value);
	return 0;
}

static const struct list_word {
	const char *word;
	int (*take)(const char *value, struct trust_key *k, struct error *err);
} list_words[] = {
	{ "name:", take_name },
	{ "uses:", take_uses },
	{ "not-after:", take_end },
};

static int take_line(struct list_reader *r, const char *line, size_t len,
		     struct error *err)
{
	char value[256];

	if (len == 0 || *line == '#' || strspn(line, " \t\r") >= len)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(list_words); i++) {
		size_t n = strlen(list_words[i].word);

		if (len < n || strncmp(line, list_words[i].word, n) != 0)
			continue;
		if (!copy_value(line + n, len - n, value, sizeof(value)))
			return error_set(err, EINVAL,
					 "'%s' has no value, or a long one",
					 list_words[i].word);
		r->has_line = true;
		return list_words[i].take(value, &r->next, err);
	}
	return error_set(err, EINVAL,
			 "want a public key (PEM), or 'name:', 'uses:' or "
			 "'not-after:' before it, or a comment ('#')");
}

/* ----------------------------------------------------------------------- keys --- */

static void forget_next(struct list_reader *r)
{
	r->next = (struct trust_key){ .uses = TRUST_USE_SIGN };
	r->has_line = false;
}

/* A key that is in the list already: the same entry again, as when a file was appended twice,
 * changes nothing; a different one is an error, since it is not clear which counts. */
static int check_repeated_entry(struct list_reader *r,
				const struct trust_key *before,
				struct error *err)
{
	const struct trust_key *k = &r->next;
	bool same = k->uses == before->uses &&
		    k->not_after_s == before->not_after_s &&
		    strcmp(k->name, before->name) == 0;

	verify_key_free(r->next.key);
	if (!same)
		return error_set(err, EEXIST,
				 "this key is in the list twice, with other "
				 "lines: keep one entry");
	forget_next(r);
	return 0;
}

static int take_key(struct list_reader *r, const char *pem, size_t len,
		    struct error *err)
{
	struct trust_keys *keys = r->keys;
	const struct digest *id;
	int rc;

	if (keys->n == TRUST_KEYS_MAX)
		return error_set(err, E2BIG, "more than %d keys",
				 TRUST_KEYS_MAX);
	rc = verify_key_parse(pem, len, &r->next.key, err);
	if (rc < 0)
		return rc;
	id = verify_key_id(r->next.key);
	for (size_t i = 0; i < keys->n; i++)
		if (digest_equal(verify_key_id(keys->v[i].key), id))
			return check_repeated_entry(r, &keys->v[i], err);
	keys->v[keys->n++] = r->next;
	forget_next(r);
	return 0;
}

/* Read a key block, from the line after `BEGIN_PUBLIC` on. */
static int take_block(struct list_reader *r, const char *begin,
		      struct error *err)
{
	size_t left = (size_t)(r->end - r->at);
	const char *end = memmem(r->at, left, END_PUBLIC, strlen(END_PUBLIC));
	int rc;

	if (!end)
		return error_set(err, EINVAL, "the key has no end");
	end += strlen(END_PUBLIC);
	rc = take_key(r, begin, (size_t)(end - begin), err);
	for (; rc == 0 && r->at < end; r->at++)
		r->line += *r->at == '\n';
	return rc;
}

static int take_next_line(struct list_reader *r, struct error *err)
{
	const char *line = r->at;
	const char *nl = memchr(line, '\n', (size_t)(r->end - line));
	size_t len = (size_t)((nl ? nl : r->end) - line);

	r->at = nl ? nl + 1 : r->end;
	r->line++;
	if (len >= strlen(BEGIN_PUBLIC) &&
	    strncmp(line, BEGIN_PUBLIC, strlen(BEGIN_PUBLIC)) == 0)
		return take_block(r, line, err);
	if (len >= strlen(BEGIN) && strncmp(line, BEGIN, strlen(BEGIN)) == 0)
		return error_set(err, EINVAL,
				 "it is no public key: the list must not hold "
				 "others, least of all private ones");
	return take_line(r, line, len, err);
}

static int read_list(struct trust_keys *keys, const char *text, size_t len,
		     struct error *err)
{
	struct list_reader r = { .keys = keys, .at = text, .end = text + len };
	int rc = 0;

	if (len > SIGN_KEY_FILE_MAX)
		return error_set(err, EFBIG, "a list of keys of %zu bytes",
				 len);
	forget_next(&r);
	while (rc == 0 && r.at < r.end)
		rc = take_next_line(&r, err);
	if (rc == 0 && r.has_line)
		rc = error_set(err, EINVAL, "these words have no key behind");
	return rc < 0 ? error_wrap(err, rc, "line %u", r.line) : 0;
}

static int check_any(const struct trust_keys *k, struct error *err)
{
	if (k->n)
		return 0;
	return error_set(err, EINVAL,
			 "no public key is in it: 'bootseer key new' makes one "
			 "to sign with, and the entry for here");
}

int trust_keys_parse(const char *text, size_t len, struct trust_keys **ret,
		     struct error *err)
{
	AUTO(trust_keys) k = calloc(1, sizeof(*k));
	int rc = k ? read_list(k, text, len, err) : error_nomem(err);

	if (rc == 0)
		rc = check_any(k, err);
	if (rc == 0)
		*ret = steal_ptr(&k);
	return rc;
}

void trust_keys_free(struct trust_keys *k)
{
	if (!k)
		return;
	for (size_t i = 0; i < k->n; i++)
		verify_key_free(k->v[i].key);
	free(k);
}

/* ---------------------------------------------------------------------- files --- */

/* Refuse a file that everybody can write to: its writers decide what the node runs. */
static int check_writers(const char *path, struct stat *st, struct error *err)
{
	if (stat(path, st) < 0)
		return error_errno(err, errno, "'%s'", path);
	if (st->st_mode & 02 && !(st->st_mode & S_ISVTX))
		return error_set(err, EACCES,
				 "'%s' can be written to by everybody: "
				 "chmod o-w",
				 path);
	return 0;
}

static int load_file(struct trust_keys *keys, const char *path,
		     struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	struct stat st;
	int rc = check_writers(path, &st, err);

	if (rc < 0)
		return rc;
	rc = fs_read_file(path, SIGN_KEY_FILE_MAX, &text, err);
	if (rc == 0)
		rc = read_list(keys, text.data ? text.data : "", text.len, err);
	return rc < 0 ? error_wrap(err, rc, "'%s'", path) : 0;
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n > m && strcmp(text + n - m, end) == 0;
}

static int is_key_file(const struct dirent *e)
{
	return e->d_name[0] != '.' &&
	       (ends_with(e->d_name, ".pem") || ends_with(e->d_name, ".pub"));
}

static int load_folder(struct trust_keys *keys, const char *path,
		       struct error *err)
{
	struct dirent **list;
	int n = scandir(path, &list, is_key_file, alphasort), rc = 0;

	if (n < 0)
		return error_errno(err, errno, "'%s'", path);
	for (int i = 0; i < n; i++) {
		AUTO_BUF name = BUF_INIT;

		if (rc == 0 &&
		    buf_printf(&name, "%s/%s", path, list[i]->d_name) < 0)
			rc = error_nomem(err);
		if (rc == 0)
			rc = load_file(keys, name.data, err);
		free(list[i]);
	}
	free(list);
	return rc;
}

int trust_keys_load(const char *path, struct trust_keys **ret,
		    struct error *err)
{
	AUTO(trust_keys) k = calloc(1, sizeof(*k));
	struct stat st;
	int rc = k ? check_writers(path, &st, err) : error_nomem(err);

	if (rc < 0)
		return rc;
	rc = S_ISDIR(st.st_mode) ? load_folder(k, path, err)
				 : load_file(k, path, err);
	if (rc < 0)
		return rc;
	rc = check_any(k, err);
	if (rc < 0)
		return error_wrap(err, rc, "'%s'", path);
	*ret = steal_ptr(&k);
	return 0;
}

int trust_key_format(const struct sign_key *key, const char *name,
		     unsigned int uses, int64_t not_after_s, struct buf *ret,
		     struct error *err)
{
	char at[TRUST_TIME_MAX];
	int rc = name ? trust_key_name_check(name, err) : 0;

	if (rc < 0)
		return rc;
	if (name && *name)
		rc = buf_printf(ret, "name: %s\n", name);
	if (rc == 0)
		rc = buf_printf(ret, "uses:%s%s\n",
				uses & TRUST_USE_SIGN ? " sign" : "",
				uses & TRUST_USE_VERIFY ? " verify" : "");
	trust_time_format(not_after_s, at);
	if (rc == 0 && not_after_s)
		rc = buf_printf(ret, "not-after: %s\n", at);
	return rc < 0 ? error_nomem(err)
		      : sign_key_format_public(key, ret, err);
}
