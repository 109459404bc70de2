// SPDX-License-Identifier: Apache-2.0
/* Pods' logins, sealed on disk.  The key is read or made when a login is first kept, so a node
 * without such logins has no key. */
#include "snapshotter/node/images/kept_logins.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "common/fs.h"
#include "common/log.h"
#include "common/seal.h"
#include "snapshotter/node/images/images.h"

#define FILE_MAX (16u << 20)
#define ENTRY_MAX 256u /* bytes of a login's JSON without its texts */
/* seconds that an unused login is kept: a pull may take long before its image is here */
#define UNUSED_S 86400

_Static_assert(OCI_LOGINS_MAX *(OCI_LOGIN_TEXT_MAX + ENTRY_MAX) < FILE_MAX,
	       "a full table is read again");

struct kept_logins {
	struct oci_logins *table;
	const char *key_path; /* "": logins are kept in memory alone */
	char *path;
	pthread_mutex_t lock; /* protects the rest, and the file */
	struct seal_key key;
	bool has_key;
	bool is_told; /* it was logged that nothing can be kept */
};

/* Load the key, unless it is loaded.  The lock is held. */
static int need_key(struct kept_logins *k, struct error *err)
{
	int rc = k->has_key ? 0 : seal_key_load(k->key_path, &k->key, err);

	k->has_key = rc == 0;
	return rc < 0 ? error_wrap(err, rc, "--login-key") : 0;
}

static int load_logins(struct kept_logins *k, struct error *err)
{
	AUTO_BUF text = BUF_SECRET_INIT;
	int rc = need_key(k, err);

	if (rc == 0)
		rc = seal_read_file(&k->key, k->path, FILE_MAX, &text, err);
	if (rc == 0)
		rc = oci_logins_decode(k->table, text.data, text.len, err);
	return rc;
}

static int save_logins(struct kept_logins *k, struct error *err)
{
	AUTO_BUF text = BUF_SECRET_INIT;
	int rc = need_key(k, err);

	if (rc == 0)
		rc = oci_logins_encode(k->table, &text, err);
	if (rc == 0)
		rc = seal_write_file(&k->key, k->path, text.data, text.len,
				     err);
	return rc;
}

static void save_or_tell(struct kept_logins *k)
{
	struct error why = ERROR_INIT;
	int rc;

	if (!*k->key_path)
		return;
	(void)pthread_mutex_lock(&k->lock);
	rc = save_logins(k, &why);
	if (rc < 0 && !k->is_told)
		log_warning("logins",
			    "logins of pods are kept in memory alone: "
			    "reason=\"%s\"",
			    why.msg);
	k->is_told = rc < 0;
	(void)pthread_mutex_unlock(&k->lock);
}

static int open_table(const struct node_config *cfg, struct oci_logins **ret,
		      struct error *err)
{
	int rc = oci_logins_new(cfg->credential_providers, ret, err);

	return rc < 0 ? error_wrap(err, rc, "--credential-providers") : 0;
}

int kept_logins_check(const struct node_config *cfg, struct error *err)
{
	struct oci_logins *table = NULL;
	int rc = open_table(cfg, &table, err);

	oci_logins_free(table);
	return rc;
}

int kept_logins_open(const struct node_config *cfg, struct kept_logins **ret,
		     struct error *err)
{
	struct kept_logins *k = calloc(1, sizeof(*k));
	struct error why = ERROR_INIT;
	int rc;

	if (!k)
		return error_nomem(err);
	(void)pthread_mutex_init(&k->lock, NULL);
	k->key_path = cfg->login_key ? cfg->login_key : "";
	k->path = fs_join(cfg->root, "logins");
	rc = k->path ? open_table(cfg, &k->table, err) : error_nomem(err);
	if (rc < 0) {
		kept_logins_close(k);
		return rc;
	}
	if (*k->key_path && access(k->path, F_OK) == 0 &&
	    load_logins(k, &why) < 0)
		log_warning("logins",
			    "logins that pods showed are lost: reason=\"%s\" "
			    "cure=\"the next pull of each image shows them "
			    "again\"",
			    why.msg);
	*ret = k;
	return 0;
}

void kept_logins_close(struct kept_logins *k)
{
	if (!k)
		return;
	oci_logins_free(k->table);
	explicit_bzero(&k->key, sizeof(k->key));
	(void)pthread_mutex_destroy(&k->lock);
	free(k->path);
	free(k);
}

struct oci_logins *kept_logins_table(struct kept_logins *k)
{
	return k->table;
}

int kept_logins_show(struct kept_logins *k, const struct oci_login *login,
		     struct error *err)
{
	int rc = oci_logins_show(k->table, login, time(NULL), err);

	if (rc == 1)
		save_or_tell(k);
	return rc < 0 ? rc : 0;
}

void kept_logins_collect(struct kept_logins *k, struct images *images)
{
	AUTO_FREE struct oci_logins_wanted *wanted = NULL;
	struct image **list;
	size_t n;

	if (images_list(images, &list, &n, NULL) < 0)
		return;
	wanted = calloc(n + 1, sizeof(*wanted));
	/* No lock: an image's host and repository never change. */
	for (size_t i = 0; wanted && i < n; i++)
		wanted[i] = (struct oci_logins_wanted){
			.host = list[i]->state.host,
			.repo = list[i]->state.repo,
		};
	if (wanted &&
	    oci_logins_forget(k->table, time(NULL) - UNUSED_S, wanted, n) > 0)
		save_or_tell(k);
	images_list_free(list, n);
}
