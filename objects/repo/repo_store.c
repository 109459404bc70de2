// SPDX-License-Identifier: Apache-2.0
/*
 * The docker: back end: an object is a manifest with one blob in a repository of a
 * registry, under a tag that its name gives.  A registry writes nothing on a condition:
 * conditions are compared under a lock of objects, as a list of tags has each that was
 * put.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "net/http.h"
#include "objects/repo/repo_store_priv.h"

#define PARALLEL 8u
#define HEDGES 2u /* threads beside those of `parallel` */
#define READ_SIZE (8u << 20)

static const struct http_cures cures = {
	.plain = "add ?plain-http=yes to the URL of the store",
	.tls = "leave plain-http=yes out of the URL of the store",
	.ca = "name the authority's file",
	.ca_file = "the file of authorities",
	.proxy = HTTP_CURE_PROXY,
};

/* ------------------------------------------------------------------- names --- */

static int repo_stat(struct object_store *s, const char *name,
		     struct object_stat *ret, struct error *err)
{
	struct repo_manifest m;
	struct object_stat st;
	int rc = repo_store_find(repo_store_of(s), name, &m, st.tag, err);

	if (rc < 0)
		return rc;
	st.size = m.size;
	st.modified_ms = m.modified_ms;
	*ret = st;
	return 0;
}

static int remove_version(struct repo_store *s, const char *version,
			  struct error *err)
{
	struct digest d;
	int rc = digest_parse(version, &d, err);

	if (rc == 0)
		rc = oci_remove_manifest(s->oci, &d, err);
	if (rc == -ENOTSUP)
		return error_wrap(
			err, rc,
			"the registry removes nothing, which an "
			"operator can allow "
			"(storage.delete.enabled of docker-registry)");
	/* Another removed it at the same time. */
	return rc == -ENOENT ? 0 : rc;
}

static int repo_remove(struct object_store *base, const char *name,
		       const char *tag, struct error *err)
{
	struct repo_store *s = repo_store_of(base);
	struct store_lock lock = { .name = NULL };
	char version[OBJECT_TAG_MAX];
	struct repo_manifest m;
	int rc = tag ? store_lock(base, name, &lock, err) : 0;

	if (rc < 0)
		return rc;
	rc = repo_store_find(s, name, &m, version, err);
	if (rc == 0 && tag && strcmp(version, tag) != 0)
		rc = error_set(err, ESTALE, "another has replaced it");
	if (rc == 0 && tag)
		rc = store_lock_check(&lock, err);
	if (rc == 0)
		rc = remove_version(s, version, err);
	store_unlock(base, &lock);
	return rc;
}

/* The same blob under another name: none of its bytes moves. */
static int copy_to(struct repo_store *s, const char *from, const char *to,
		   char version[OBJECT_TAG_MAX], struct error *err)
{
	struct repo_manifest m;
	struct object_stat st;
	int rc = repo_store_find(s, from, &m, version, err);

	if (rc < 0)
		return rc;
	(void)snprintf(m.name, sizeof(m.name), "%s", to);
	return repo_store_publish(s, &m, &st, err);
}

static int repo_rename(struct object_store *base, const char *from,
		       const char *to, enum object_condition condition,
		       struct error *err)
{
	struct repo_store *s = repo_store_of(base);
	struct store_lock lock = { .name = NULL };
	struct object_put put = { .name = (char *)(uintptr_t)to,
				  .condition = condition };
	char version[OBJECT_TAG_MAX];
	int rc = 0;

	if (condition == OBJECT_NEW)
		rc = store_lock(base, to, &lock, err);
	if (rc < 0)
		return rc;
	rc = store_condition(base, &put, err);
	if (rc == 0 && lock.name)
		rc = store_lock_check(&lock, err);
	if (rc == 0)
		rc = copy_to(s, from, to, version, err);
	store_unlock(base, &lock);
	return rc < 0 || strcmp(from, to) == 0
		       ? rc
		       : remove_version(s, version, err);
}

struct repo_sweep {
	struct object_store *store;
	int64_t before_ms;
	size_t n;
};

static int sweep_version_if_old(void *arg, const struct object_entry *e,
				struct error *err)
{
	struct repo_sweep *w = arg;
	int rc;

	if (e->is_folder || !object_is_old(e->stat.modified_ms, w->before_ms))
		return 0;
	rc = remove_version(repo_store_of(w->store), e->stat.tag, err);
	w->n += rc == 0;
	return rc;
}

/* Objects of probes.  Uploads that were cut off are the registry's, which purges them. */
static int repo_sweep(struct object_store *s, const char *folder,
		      int64_t before_ms, size_t *ret_n, struct error *err)
{
	struct repo_sweep w = { .store = s, .before_ms = before_ms };
	int rc = repo_store_list(s, STORE_TMP, true, sweep_version_if_old, &w,
				 err);

	(void)folder;
	*ret_n = w.n;
	return rc;
}

static int repo_authorization(struct object_store *base, const char *name,
			      struct pace *pace, char **ret, struct error *err)
{
	struct repo_store *s = repo_store_of(base);
	char version[OBJECT_TAG_MAX];
	struct repo_manifest m;
	struct digest d;
	int rc = repo_store_find(s, name, &m, version, err);

	if (rc == 0)
		rc = digest_parse(version, &d, err);
	return rc < 0 ? rc : oci_authorization(s->oci, &d, pace, ret, err);
}

/* ------------------------------------------------------------------- probe --- */

static int note_seen_object(void *arg, const struct object_entry *e,
			    struct error *err)
{
	(void)err;
	if (!e->is_folder)
		*(bool *)arg = true;
	return 0;
}

/* Locks rely on it. */
static int try_list(struct object_store *base, const char *name,
		    struct error *err)
{
	AUTO_FREE char *folder =
		strndup(name, (size_t)(strrchr(name, '/') - name));
	bool is_there = false;
	int rc = folder ? repo_store_list(base, folder, false, note_seen_object,
					  &is_there, err)
			: error_nomem(err);

	if (rc < 0)
		return rc;
	return is_there ? 0
			: error_set(err, ENOTSUP,
				    "its list of tags has not what was put "
				    "just now: two writers would not see each "
				    "other");
}

static int repo_probe(struct object_store *base, struct error *err)
{
	struct repo_store *s = repo_store_of(base);
	struct repo_manifest m = { .modified_ms = clock_wall_ms() };
	AUTO_FREE char *folder = store_temporary();
	struct object_stat st;
	int rc, removed;

	if (!folder)
		return error_nomem(err);
	(void)snprintf(m.name, sizeof(m.name), "%s/probe", folder);
	rc = repo_store_publish(s, &m, &st, err);
	if (rc < 0)
		return rc;
	rc = try_list(base, m.name, err);
	removed = remove_version(s, st.tag, rc == 0 ? err : NULL);
	return rc < 0 ? rc : removed;
}

static void repo_free(struct object_store *base)
{
	struct repo_store *s = repo_store_of(base);

	store_fini(base);
	oci_store_free(s->oci);
	fetch_history_free(s->history);
	free(s);
}

static const struct object_store_ops repo_ops = {
	.probe = repo_probe,
	.stat = repo_stat,
	.list = repo_store_list,
	.open = repo_store_open_object,
	.read = repo_store_read,
	.close = repo_store_close,
	.put_open = repo_store_put_open,
	.put_write = repo_store_put_write,
	.put_commit = repo_store_put_commit,
	.put_free = repo_store_put_free,
	.remove = repo_remove,
	.rename = repo_rename,
	.sweep = repo_sweep,
	.authorization = repo_authorization,
	.free = repo_free,
	.is_remote = true,
};

/* -------------------------------------------------------------------- open --- */

static int open_repository(struct repo_store *s, struct store_url *url,
			   const struct object_store_config *cfg,
			   struct error *err)
{
	struct oci_config oci = OCI_CONFIG_INIT;
	AUTO_FINI(oci_ref) ref = { .host = NULL };
	AUTO_BUF text = BUF_INIT;
	int rc = store_url_take_either(url, "plain-http", "yes", "no",
				       &oci.plain_http, err);

	if (rc < 0)
		return rc;
	if (buf_printf(&text, "docker://%s/%s", url->authority, url->path) < 0)
		return error_nomem(err);
	rc = oci_ref_parse(text.data, &ref, err);
	if (rc == 0 && (ref.has_digest || strcmp(ref.repo, url->path) != 0))
		rc = error_set(
			err, EINVAL,
			"'%.200s': want docker://HOST[:PORT]/REPOSITORY, "
			"with no tag",
			text.data);
	oci.ca_file = cfg->ca_file;
	oci.connect_timeout_ms = cfg->connect_timeout_ms;
	oci.stall_timeout_ms = cfg->stall_timeout_ms;
	oci.cures = &cures;
	oci.auth_file = store_url_take(url, "auth-file");
	if (rc == 0)
		rc = oci_store_open(&ref, &oci, false, &s->oci, err);
	return rc;
}

static int repo_open(struct store_url *url,
		     const struct object_store_config *cfg,
		     struct object_store **ret, struct error *err)
{
	struct repo_store *s = calloc(1, sizeof(*s));
	unsigned int parallel = cfg->parallel ? cfg->parallel : PARALLEL;
	int rc;

	if (!s)
		return error_nomem(err);
	if (parallel > OBJECT_PARALLEL_MAX)
		parallel = OBJECT_PARALLEL_MAX;
	rc = store_init(&s->base, &repo_ops, url, cfg, parallel + HEDGES, err);
	if (rc == 0)
		rc = fetch_history_new(&s->history, err);
	if (rc == 0)
		rc = open_repository(s, url, cfg, err);
	if (rc < 0) {
		repo_free(&s->base);
		return rc;
	}
	s->base.caps = (struct object_caps){
		.has_replace = true,
		.has_checksum = true,
		.parallel = parallel,
		.read_size = READ_SIZE,
		.part_size = READ_SIZE,
		.put_memory = UINT64_MAX, /* they lie in files */
	};
	*ret = &s->base;
	return 0;
}

static const char *const schemes[] = { "docker", NULL };

const struct object_store_kind repo_store_kind = {
	.schemes = schemes,
	.open = repo_open,
};
