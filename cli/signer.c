// SPDX-License-Identifier: Apache-2.0
#include "cli/signer.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"

int signer_default_path(char **ret, struct error *err)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	AUTO_BUF path = BUF_INIT;
	int rc;

	if (config && *config == '/')
		rc = buf_printf(&path, "%s/bootseer/sign.key", config);
	else if (home && *home == '/')
		rc = buf_printf(&path, "%s/.config/bootseer/sign.key", home);
	else
		return error_set(err, ENOENT,
				 "there is no place for a key to sign with, as "
				 "$HOME is not set: name one ('bootseer key "
				 "new FILE' makes it)");
	*ret = rc == 0 ? buf_steal(&path) : NULL;
	return *ret ? 0 : error_nomem(err);
}

/* "user@host", the default name of the person answerable for a key. */
static void default_name(char ret[TRUST_NAME_MAX + 1])
{
	const struct passwd *p = getpwuid(geteuid());
	char host[65] = "";

	if (gethostname(host, sizeof(host) - 1) < 0)
		host[0] = '\0';
	(void)snprintf(ret, TRUST_NAME_MAX + 1, "%.24s@%.39s",
		       p ? p->pw_name : "somebody", host);
}

/* Create a new file, completely or not at all. */
static int put_new_file(const char *path, const struct buf *text,
			unsigned int mode, struct error *err)
{
	AUTO_CLOSE int fd =
		open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	int rc;

	if (fd < 0 && errno == EEXIST)
		return error_set(err, EEXIST,
				 "'%s' is there, and a key is never "
				 "overwritten: name another file, or move it "
				 "away first",
				 path);
	if (fd < 0)
		return error_errno(err, errno, "create '%s'", path);
	rc = fs_write_full(fd, text->data, text->len);
	if (rc == 0 && fsync(fd) < 0)
		rc = -errno;
	if (rc == 0)
		return 0;
	(void)unlink(path);
	return error_errno(err, -rc, "write '%s'", path);
}

/* Write the key to the new file `path`, and its entry for nodes to PATH.pub. */
static int store_new_key(const struct sign_key *key, const char *path,
			 const char *name, unsigned int uses,
			 int64_t not_after_s, struct error *err)
{
	AUTO_BUF private = BUF_SECRET_INIT;
	AUTO_BUF public = BUF_INIT;
	AUTO_BUF public_path = BUF_INIT;
	char own_name[TRUST_NAME_MAX + 1];
	int rc = sign_key_format(key, &private, err);

	default_name(own_name);
	if (rc == 0)
		rc = trust_key_format(key, name ? name : own_name, uses,
				      not_after_s, &public, err);
	if (rc == 0 && buf_printf(&public_path, "%s.pub", path) < 0)
		rc = error_nomem(err);
	/* The private half is written last, so that its existence means that both are complete. */
	if (rc == 0 && access(path, F_OK) == 0)
		rc = error_set(err, EEXIST,
			       "'%s' is there, and a key is never overwritten: "
			       "name another file, or move it away first",
			       path);
	if (rc == 0)
		rc = put_new_file(public_path.data, &public, 0644, err);
	if (rc < 0)
		return rc;
	rc = put_new_file(path, &private, 0600, err);
	if (rc < 0)
		(void)unlink(public_path.data);
	return rc;
}

int signer_make(const char *path, const char *name, unsigned int uses,
		int64_t not_after_s, struct error *err)
{
	AUTO(sign_key) key = NULL;
	int rc = sign_key_new(&key, err);

	return rc < 0 ? rc
		      : store_new_key(key, path, name, uses, not_after_s, err);
}

/* Does the file have a public key but no private one? */
static bool is_public_half(const char *path)
{
	AUTO_BUF text = BUF_INIT;

	return fs_read_file(path, SIGN_KEY_FILE_MAX, &text, NULL) == 0 &&
	       text.len && strstr(text.data, "-----BEGIN PUBLIC KEY-----") &&
	       !strstr(text.data, " PRIVATE KEY-----");
}

/* Check in PATH.pub, the entry that nodes have, that the key is for this use.  No error without
 * that file. */
static int check_use(const char *path, unsigned int use,
		     const struct sign_key *key, struct error *err)
{
	const char *word = use == TRUST_USE_VERIFY ? "verify" : "sign";
	AUTO(trust_keys) list = NULL;
	AUTO_BUF public = BUF_INIT;

	if (buf_printf(&public, "%s.pub", path) < 0)
		return error_nomem(err);
	if (trust_keys_load(public.data, &list, NULL) < 0)
		return 0;
	for (size_t i = 0; i < list->n; i++)
		if (digest_equal(verify_key_id(list->v[i].key),
				 sign_key_id(key)) &&
		    !(list->v[i].uses & use))
			return error_set(
				err, EINVAL,
				"the 'uses' in '%s' have no '%s', so that "
				"nodes would not believe it: 'bootseer key new "
				"--uses %s FILE' makes a key for that",
				public.data, word, word);
	return 0;
}

static int load_key_for_use(const char *path, unsigned int use,
			    struct sign_key **ret, struct error *err)
{
	const char *end = strrchr(path, '.');
	bool is_named = end && strcmp(end, ".pub") == 0;
	int rc;

	if (is_public_half(path))
		return error_set(
			err, EINVAL,
			"'%s' is the public half of a key, which is "
			"for nodes; to sign name the private one%s%.*s%s",
			path, is_named ? ", '" : "",
			is_named ? (int)(end - path) : 0, path,
			is_named ? "'" : "");
	rc = sign_key_load(path, ret, err);
	return rc < 0 ? rc : check_use(path, use, *ret, err);
}

int signer_load(const char *path, unsigned int use, struct sign_key **ret,
		struct error *err)
{
	AUTO_FREE char *own = NULL;
	int rc = path ? 0 : signer_default_path(&own, err);

	if (rc == 0)
		rc = load_key_for_use(path ? path : own, use, ret, err);
	if (rc == -ENOENT && own)
		return error_set(err, ENOENT,
				 "there is no key at '%s': 'bootseer key new' "
				 "makes one, --key names another",
				 own);
	return rc;
}

void signer_print_entry(const char *path)
{
	printf("a node believes it with its public half among the node's "
	       "trust-keys:\n"
	       "  cat %s.pub >>" SIGNER_TRUST_KEYS "\n",
	       path);
}

int signer_load_or_new(struct signer_new *ret, struct error *err)
{
	AUTO_FREE char *path = NULL;
	AUTO_FREE char *folder = NULL;
	int rc = signer_default_path(&path, err);

	if (rc < 0)
		return rc;
	rc = load_key_for_use(path, TRUST_USE_SIGN, &ret->key, err);
	if (rc != -ENOENT)
		return rc;
	if (err)
		*err = (struct error)ERROR_INIT;
	folder = strdup(path);
	rc = folder ? fs_mkdir_p(dirname(folder), 0700, err) : error_nomem(err);
	if (rc == 0 && access(folder, W_OK) < 0)
		rc = error_errno(err, errno, "'%s'", folder);
	if (rc == 0)
		rc = sign_key_new(&ret->key, err);
	if (rc < 0)
		return error_wrap(err, rc,
				  "a key to sign with (--no-sign does "
				  "without)");
	ret->path = steal_ptr(&path);
	return 0;
}

int signer_keep_new(void *arg, struct error *err)
{
	struct signer_new *s = arg;
	int rc;

	if (!s->path)
		return 0;
	rc = store_new_key(s->key, s->path, NULL, TRUST_USE_SIGN, 0, err);
	if (rc == -EEXIST)
		return error_set(err, EAGAIN,
				 "'%s' was made meanwhile: do it once more, to "
				 "sign with that key",
				 s->path);
	if (rc < 0)
		return error_wrap(err, rc, "a key to sign with");
	printf("made a key to sign images with: %s\n", s->path);
	signer_print_entry(s->path);
	free(s->path);
	s->path = NULL;
	return 0;
}

void signer_new_fini(struct signer_new *s)
{
	sign_key_free(s->key);
	free(s->path);
}

int signer_pattern(const char *option, const struct oci_ref *ref,
		   char ret[TRUST_PATTERN_MAX + 1], struct error *err)
{
	int rc;

	if (!option)
		return trust_repository(ref, ret, err);
	rc = trust_pattern_check(option, err);
	if (rc == 0)
		strcpy(ret, option);
	return rc;
}
