// SPDX-License-Identifier: Apache-2.0
/* The table of images and their folders. */
#include "snapshotter/node/images/images.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/fs.h"
#include "common/log.h"
#include "snapshotter/node/images/indexes.h"

/* Prefix that keeps image ids apart from other digests; its NUL is hashed with it. */
#define ID_DOMAIN "bootseer-image-id-v1"

struct images {
	/* Lets one name be set at a time, so that on disk each name leads to at most one image;
	 * held while the states are written, locked before the other locks. */
	pthread_mutex_t naming;
	struct indexes *indexes;
	/* protects the list and the members that images.h names */
	pthread_mutex_t lock;
	struct image *first;
	size_t n;
	char *dir;     /* ROOT/images */
	char *run_dir; /* RUN/images */
};

void digest_hex(const struct digest *d, char out[IMAGE_HEX_MAX])
{
	char text[DIGEST_STR_MAX];

	digest_format(d, text);
	memcpy(out, strchr(text, ':') + 1, IMAGE_HEX_MAX);
}

void images_lock(struct images *t)
{
	pthread_mutex_lock(&t->lock);
}

void images_unlock(struct images *t)
{
	pthread_mutex_unlock(&t->lock);
}

char *image_path(const struct image *i, const char *name)
{
	return fs_join(i->dir, name);
}

static void image_destroy(struct image *i)
{
	if (!i)
		return;
	artifact_fini(&i->artifact);
	image_state_fini(&i->state);
	if (i->workloads)
		i->workloads_free(i->workloads);
	free(i->dir);
	free(i->mountpoint);
	pthread_mutex_destroy(&i->saving);
	free(i);
}

int image_id_of(const struct digest *artifact, const char *host,
		const char *repo, struct digest *ret)
{
	AUTO(hasher) h = hasher_new();

	if (!h || hasher_update(h, ID_DOMAIN, sizeof(ID_DOMAIN)) < 0 ||
	    hasher_update(h, artifact->b, DIGEST_SIZE) < 0 ||
	    hasher_update(h, host, strlen(host)) < 0 ||
	    hasher_update(h, "/", 1) < 0 ||
	    hasher_update(h, repo, strlen(repo)) < 0)
		return -ENOMEM;
	return hasher_final(h, ret);
}

static struct image *image_new(struct images *t, const struct digest *id)
{
	struct image *i = calloc(1, sizeof(*i));

	if (!i)
		return NULL;
	pthread_mutex_init(&i->saving, NULL);
	i->all = t;
	i->id = *id;
	digest_hex(id, i->hex);
	i->dir = fs_join(t->dir, i->hex);
	if (asprintf(&i->mountpoint, "%s/%s/fs", t->run_dir, i->hex) < 0)
		i->mountpoint = NULL;
	if (!i->dir || !i->mountpoint) {
		image_destroy(i);
		return NULL;
	}
	return i;
}

/* ---------------------------------------------------------------- loading --- */

static int read_image_file(const char *dir, const char *name, size_t max,
			   struct buf *ret, struct error *err)
{
	AUTO_FREE char *path = fs_join(dir, name);

	if (!path)
		return error_nomem(err);
	return fs_read_file(path, max, ret, err);
}

static int load_files(struct image *i, struct error *err)
{
	AUTO_BUF manifest = BUF_INIT;
	AUTO_BUF config = BUF_INIT;
	AUTO_BUF state = BUF_INIT;
	struct digest d, id;
	int rc = read_image_file(i->dir, "artifact.json", OCI_MANIFEST_MAX,
				 &manifest, err);

	if (rc == 0)
		rc = read_image_file(i->dir, "config.json", OCI_CONFIG_MAX,
				     &config, err);
	if (rc == 0)
		rc = read_image_file(i->dir, "state.json", STATE_BYTES_MAX,
				     &state, err);
	if (rc < 0)
		return rc;
	rc = image_state_parse(state.data, state.len, &i->state, err);
	if (rc < 0)
		return rc;
	if (digest_of(manifest.data, manifest.len, &d) < 0 ||
	    image_id_of(&d, i->state.host, i->state.repo, &id) < 0 ||
	    !digest_equal(&id, &i->id))
		return error_set(err, EBADMSG,
				 "artifact.json and the repository in "
				 "state.json do not name its folder");
	rc = artifact_parse(manifest.data, manifest.len, config.data,
			    config.len, &i->artifact, err);
	/* Free the texts: they are on disk, and memory should not hold those of a hundred
	 * images. */
	buf_fini(&i->artifact.manifest_json);
	buf_fini(&i->artifact.config_json);
	i->artifact.digest = d;
	return rc;
}

static void load_used_at(struct image *i)
{
	AUTO_FREE char *path = image_path(i, "state.json");
	struct stat st;

	i->used_at = path && stat(path, &st) == 0 ? st.st_mtime : time(NULL);
}

static void insert_locked(struct images *t, struct image *i)
{
	i->next = t->first;
	t->first = i;
	t->n++;
}

static void load_one(struct images *t, const char *name)
{
	char text[DIGEST_STR_MAX + 8];
	struct error err = ERROR_INIT;
	struct digest id;
	struct image *i;
	int rc;

	snprintf(text, sizeof(text), "sha256:%s", name);
	if (strlen(name) != IMAGE_HEX_MAX - 1 ||
	    digest_parse(text, &id, NULL) < 0)
		return;
	i = image_new(t, &id);
	rc = i ? load_files(i, &err) : error_nomem(&err);
	if (rc < 0) {
		log_error("images",
			  "damaged image=%s reason=\"%s\" cure=\"it "
			  "is fetched again at its next prepare\"",
			  name, err.msg);
		image_destroy(i);
		return;
	}
	load_used_at(i);
	insert_locked(t, i);
}

/* ---------------------------------------------------------------- indexes --- */

/* Give each image an index of its own. Two images with the same index mean that a state file is
 * damaged; the image that is mounted with it keeps it. */
static int claim_indexes(struct images *t, struct error *err)
{
	struct image *i;
	uint64_t was;
	int rc = 0;

	for (i = t->first; i; i = i->next)
		indexes_reserve(t->indexes, i->state.index);
	for (i = t->first; i && rc == 0; i = i->next) {
		was = i->state.index;
		rc = indexes_claim(t->indexes, i->hex, was, &i->state.index,
				   err);
		if (rc == 0 && i->state.index != was)
			log_warning("images",
				    "damaged image=%.12s index=%llu "
				    "action=\"it is %llu\"",
				    i->hex, (unsigned long long)was,
				    (unsigned long long)i->state.index);
	}
	return rc;
}

static int open_indexes(struct images *t, const char *run, struct error *err)
{
	AUTO_FREE char *dir = fs_join(run, "indexes");
	int rc;

	if (!dir)
		return error_nomem(err);
	rc = indexes_open(t->dir, dir, &t->indexes, err);
	return rc < 0 ? rc : claim_indexes(t, err);
}

/* Remove a staged folder that a crash left half made. */
static void remove_stage(struct images *t, const char *name)
{
	AUTO_FREE char *path = fs_join(t->dir, name);
	struct error err = ERROR_INIT;

	if (path && fs_remove_tree(path, &err) < 0)
		log_warning("images", "leftover path=\"%s\" reason=\"%s\"",
			    path, err.msg);
}

static int load_all(struct images *t, struct error *err)
{
	DIR *dir = opendir(t->dir);
	struct dirent *e;

	if (!dir)
		return error_errno(err, errno, "open '%s'", t->dir);
	while ((e = readdir(dir))) {
		if (strncmp(e->d_name, IMAGES_STAGE_PREFIX,
			    strlen(IMAGES_STAGE_PREFIX)) == 0)
			remove_stage(t, e->d_name);
		else
			load_one(t, e->d_name);
	}
	closedir(dir);
	return 0;
}

int images_open(const char *root, const char *run, struct images **ret,
		struct error *err)
{
	struct images *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return error_nomem(err);
	pthread_mutex_init(&t->lock, NULL);
	pthread_mutex_init(&t->naming, NULL);
	t->dir = fs_join(root, "images");
	t->run_dir = fs_join(run, "images");
	if (!t->dir || !t->run_dir)
		rc = error_nomem(err);
	else
		rc = fs_mkdir_private(t->dir, NULL, err);
	if (rc == 0)
		rc = fs_mkdir_private(t->run_dir, NULL, err);
	if (rc == 0)
		rc = load_all(t, err);
	if (rc == 0)
		rc = open_indexes(t, run, err);
	if (rc < 0) {
		images_close(t);
		return rc;
	}
	*ret = t;
	return 0;
}

void images_close(struct images *t)
{
	struct image *i;

	if (!t)
		return;
	while ((i = t->first)) {
		t->first = i->next;
		image_destroy(i);
	}
	pthread_mutex_destroy(&t->lock);
	pthread_mutex_destroy(&t->naming);
	indexes_close(t->indexes);
	free(t->dir);
	free(t->run_dir);
	free(t);
}

/* ---------------------------------------------------------------- looking --- */

struct image *images_get(struct images *t, const struct digest *id)
{
	struct image *i;

	images_lock(t);
	for (i = t->first; i && !digest_equal(&i->id, id); i = i->next)
		;
	if (i)
		i->refs++;
	images_unlock(t);
	return i;
}

static struct image *find_locked(struct images *t, const char *name)
{
	struct image *i;

	for (i = t->first; i && !names_has(&i->state.names, name); i = i->next)
		;
	return i;
}

struct image *images_by_name(struct images *t, const char *name)
{
	struct image *i;

	images_lock(t);
	i = find_locked(t, name);
	if (i)
		i->refs++;
	images_unlock(t);
	return i;
}

void images_ref(struct image *i)
{
	images_lock(i->all);
	i->refs++;
	images_unlock(i->all);
}

void images_put(struct image *i)
{
	bool dead;

	if (!i)
		return;
	images_lock(i->all);
	dead = --i->refs == 0 && i->removed;
	images_unlock(i->all);
	if (dead)
		image_destroy(i);
}

size_t images_count(struct images *t)
{
	size_t n;

	images_lock(t);
	n = t->n;
	images_unlock(t);
	return n;
}

static bool is_needed(const struct image *i)
{
	return i->mounted || i->state.users.n > 0 || i->recordings > 0;
}

struct image *images_oldest_unused(struct images *t, int64_t after,
				   int64_t before)
{
	struct image *i, *oldest = NULL;

	images_lock(t);
	for (i = t->first; i; i = i->next) {
		if (!is_needed(i) && i->used_at > after &&
		    i->used_at < before &&
		    (!oldest || i->used_at < oldest->used_at))
			oldest = i;
	}
	if (oldest)
		oldest->refs++;
	images_unlock(t);
	return oldest;
}

int images_list(struct images *t, struct image ***ret, size_t *ret_n,
		struct error *err)
{
	struct image **list = calloc(IMAGES_MAX, sizeof(struct image *));
	struct image *i;
	size_t n = 0;

	if (!list)
		return error_nomem(err);
	images_lock(t);
	for (i = t->first; i && n < IMAGES_MAX; i = i->next) {
		i->refs++;
		list[n++] = i;
	}
	images_unlock(t);
	*ret = list;
	*ret_n = n;
	return 0;
}

void images_list_free(struct image **list, size_t n)
{
	while (n > 0)
		images_put(list[--n]);
	free(list);
}

char *image_label(const struct image *i)
{
	const struct names *names = &i->state.names;
	char text[DIGEST_STR_MAX], *label = NULL;
	size_t k;

	images_lock(i->all);
	for (k = 0; k < names->n && !label; k++) {
		if (!strchr(names->v[k], '@'))
			label = strdup(names->v[k]);
	}
	images_unlock(i->all);
	if (label)
		return label;
	digest_format(&i->id, text);
	return strdup(text);
}

/* Set the time of last use on disk too: after a restart of bootseerd, an image that is about to
 * be mounted must not look old. */
void image_touch(struct image *i)
{
	AUTO_FREE char *path = image_path(i, "state.json");

	images_lock(i->all);
	i->used_at = time(NULL);
	images_unlock(i->all);
	/* If the time cannot be written, the image may be removed a little too early, no more. */
	if (path)
		(void)!utimensat(AT_FDCWD, path, NULL, 0);
}

void image_note_error(struct image *i, const struct error *why)
{
	images_lock(i->all);
	i->last_error = *why;
	i->last_error_at = time(NULL);
	images_unlock(i->all);
}

/* --------------------------------------------------------------- changing --- */

static int save_state(struct image *i, struct error *err)
{
	AUTO_FREE char *path = image_path(i, "state.json");
	AUTO_BUF text = BUF_INIT;
	int rc;

	if (!path)
		return error_nomem(err);
	/* Only one thread writes at a time, so that the file ends with the latest state. */
	pthread_mutex_lock(&i->saving);
	images_lock(i->all);
	rc = image_state_format(&i->state, &text, err);
	images_unlock(i->all);
	if (rc == 0)
		rc = fs_replace_file(path, text.data, text.len, 0600, err);
	pthread_mutex_unlock(&i->saving);
	images_lock(i->all);
	i->used_at = time(NULL);
	images_unlock(i->all);
	return error_wrap(err, rc, "state of image %.12s", i->hex);
}

bool image_has_user(struct image *i, const char *user)
{
	bool has;

	images_lock(i->all);
	has = names_has(&i->state.users, user);
	images_unlock(i->all);
	return has;
}

int image_add_user(struct image *i, const char *user, struct error *err)
{
	bool was;
	int rc;

	images_lock(i->all);
	was = names_has(&i->state.users, user);
	rc = names_add(&i->state.users, user, STATE_USERS_MAX, false);
	images_unlock(i->all);
	if (rc < 0)
		return error_errno(err, -rc, "user '%s' of image %.12s", user,
				   i->hex);
	if (was)
		return 0;
	rc = save_state(i, err);
	if (rc < 0) {
		images_lock(i->all);
		names_remove(&i->state.users, user);
		images_unlock(i->all);
	}
	return rc;
}

int image_remove_user(struct image *i, const char *user, bool *ret_was,
		      struct error *err)
{
	int rc;

	images_lock(i->all);
	*ret_was = names_remove(&i->state.users, user);
	images_unlock(i->all);
	if (!*ret_was)
		return 0;
	rc = save_state(i, err);
	if (rc < 0 && rc != -ENOSPC && rc != -EDQUOT) {
		/* The disk still lists the user, so memory has to as well, for the next try; if
		 * memory is short, the user is forgotten as on a full disk. */
		*ret_was = false;
		images_lock(i->all);
		(void)!names_add(&i->state.users, user, STATE_USERS_MAX, false);
		images_unlock(i->all);
	}
	if (rc != -ENOSPC && rc != -EDQUOT)
		return rc;
	/* Removing a user must be possible on a full disk.  After a restart the user is there
	 * again and costs a mount, until it is removed again. */
	log_warning("images",
		    "user=\"%s\" of image=%.12s is forgotten until the next "
		    "start only reason=\"%s\"",
		    user, i->hex, err ? err->msg : "disk full");
	return 0;
}

int image_set_complete(struct image *i, bool complete, struct error *err)
{
	bool changed;
	int rc;

	images_lock(i->all);
	changed = i->state.complete != complete;
	i->state.complete = complete;
	images_unlock(i->all);
	if (!changed)
		return 0;
	rc = save_state(i, err);
	if (rc < 0) {
		images_lock(i->all);
		i->state.complete = !complete;
		images_unlock(i->all);
	}
	return rc;
}

int image_set_prefetch(struct image *i, enum state_prefetch prefetch,
		       struct error *err)
{
	enum state_prefetch was;
	bool changed;
	int rc;

	images_lock(i->all);
	was = i->state.prefetch;
	changed = was != prefetch && !i->removed;
	i->state.prefetch = prefetch;
	images_unlock(i->all);
	if (!changed)
		return 0;
	rc = save_state(i, err);
	if (rc < 0) {
		images_lock(i->all);
		i->state.prefetch = was;
		images_unlock(i->all);
	}
	return rc;
}

/* Save the state of the image that just lost `name`.  If the image was removed meanwhile, it
 * has no state to save. */
static int save_without_name(struct image *other, const char *name,
			     struct error *err)
{
	int rc = save_state(other, err);

	if (rc == 0)
		return 0;
	images_lock(other->all);
	if (other->removed)
		rc = 0;
	else /* without memory the name leads nowhere: the registry is asked */
		(void)!names_add(&other->state.names, name, STATE_NAMES_MAX,
				 true);
	images_unlock(other->all);
	return rc;
}

int image_set_name(struct image *i, const char *name, struct error *err)
{
	struct image *other;
	bool was;
	int rc = 0;

	pthread_mutex_lock(&i->all->naming);
	images_lock(i->all);
	was = names_has(&i->state.names, name);
	other = was ? NULL : find_locked(i->all, name);
	if (!was)
		rc = names_add(&i->state.names, name, STATE_NAMES_MAX, true);
	if (rc < 0)
		other = NULL;
	if (other) {
		names_remove(&other->state.names, name);
		other->refs++;
	}
	images_unlock(i->all);
	if (rc < 0)
		rc = error_errno(err, -rc, "name '%s'", name);
	/* Save the old image first.  A crash between the two writes, or a disk that takes only
	 * the first, leaves a name that leads nowhere, so the registry is asked; never one that
	 * leads to two images. */
	if (rc == 0 && other)
		rc = save_without_name(other, name, err);
	if (rc == 0 && !was)
		rc = save_state(i, err);
	if (rc < 0 && !was) {
		images_lock(i->all);
		names_remove(&i->state.names, name);
		images_unlock(i->all);
	}
	pthread_mutex_unlock(&i->all->naming);
	images_put(other);
	return rc;
}

int images_stage(struct images *t, const struct digest *id, char **ret,
		 struct error *err)
{
	char hex[IMAGE_HEX_MAX];
	AUTO_FREE char *path = NULL;
	int rc;

	digest_hex(id, hex);
	if (asprintf(&path, "%s/" IMAGES_STAGE_PREFIX "%s", t->dir, hex) < 0) {
		path = NULL;
		return error_nomem(err);
	}
	rc = fs_remove_tree(path, err);
	if (rc < 0 && rc != -ENOENT)
		return rc;
	if (mkdir(path, 0700) < 0)
		return error_errno(err, errno, "create '%s'", path);
	*ret = steal_ptr(&path);
	return 0;
}

static int write_image_file(const char *dir, const char *name,
			    const struct buf *b, struct error *err)
{
	AUTO_FREE char *path = fs_join(dir, name);

	if (!path)
		return error_nomem(err);
	return fs_replace_file(path, b->data, b->len, 0600, err);
}

int image_set_evidence(struct image *i, const struct buf *evidence,
		       struct error *err)
{
	int rc;

	pthread_mutex_lock(&i->saving);
	rc = write_image_file(i->dir, EVIDENCE_FILE, evidence, err);
	pthread_mutex_unlock(&i->saving);
	return error_wrap(err, rc, "evidence of image %.12s", i->hex);
}

void image_forget_errors(struct image *i)
{
	images_lock(i->all);
	i->judged_error_at = time(NULL);
	images_unlock(i->all);
}

/* Write a file of a staged folder. A crash loses the whole folder, so the file needs no rename,
 * and images_add() makes all files durable at once. */
static int write_staged(const char *dir, const char *name, const struct buf *b,
			struct error *err)
{
	AUTO_FREE char *path = fs_join(dir, name);
	AUTO_CLOSE int fd = -1;
	int rc;

	if (!path)
		return error_nomem(err);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_errno(err, errno, "create '%s'", path);
	rc = fs_write_full(fd, b->data, b->len);
	if (rc == 0 && fsync(fd) < 0)
		rc = -errno;
	return rc < 0 ? fs_refuse_write(fd, rc, b->len, "", err) : 0;
}

int images_stage_texts(const char *staged, const struct artifact *a,
		       struct error *err)
{
	int rc = write_staged(staged, "artifact.json", &a->manifest_json, err);

	if (rc == 0)
		rc = write_staged(staged, "config.json", &a->config_json, err);
	if (rc == 0)
		rc = write_staged(staged, "image.json", &a->image_config, err);
	if (rc == 0 && a->evidence.len > 0)
		rc = write_staged(staged, EVIDENCE_FILE, &a->evidence, err);
	return rc;
}

/* Write the state file; the image is not in the table yet, so no lock is needed. */
static int stage_state(struct image *i, const char *staged, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	int rc = image_state_format(&i->state, &text, err);

	if (rc == 0)
		rc = write_staged(staged, "state.json", &text, err);
	i->used_at = time(NULL);
	return error_wrap(err, rc, "state of image %.12s", i->hex);
}

/* Write the missing files of the staged folder and rename it to its final name. */
static int publish_folder(struct images *t, struct image *i, const char *staged,
			  struct error *err)
{
	int rc = stage_state(i, staged, err);

	if (rc == 0)
		rc = fs_sync_dir(staged, err);
	if (rc < 0)
		return rc;
	/* A folder of that name can only be one that was too damaged to load. */
	rc = fs_remove_tree(i->dir, err);
	if (rc < 0 && rc != -ENOENT)
		return rc;
	if (rename(staged, i->dir) < 0)
		return error_errno(err, errno, "rename '%s'", staged);
	rc = fs_sync_dir(t->dir, err);
	/* Move the folder back: at the next start it would be loaded, with its names. */
	if (rc < 0)
		(void)rename(i->dir, staged);
	return rc;
}

/* Add the names of `place` that lead to no other image.  `naming` is held. */
static int take_free_names(struct image *i, const struct image_place *place,
			   struct error *err)
{
	int rc = 0;

	images_lock(i->all);
	for (size_t k = 0; k < place->n_names && rc == 0; k++) {
		const char *name = place->names[k];

		if (!names_has(&i->state.names, name) &&
		    !find_locked(i->all, name))
			rc = names_add(&i->state.names, name, STATE_NAMES_MAX,
				       true);
	}
	images_unlock(i->all);
	return rc < 0 ? error_errno(err, -rc, "names of image %.12s", i->hex)
		      : 0;
}

/* Make the image of `place`, without adding it to the table; free it with image_destroy(). */
static int make_image(struct images *t, const struct artifact *a,
		      const struct image_place *place, struct image **ret,
		      struct error *err)
{
	struct image *i = NULL;
	struct digest id;
	int rc;

	if (image_id_of(&a->digest, place->host, place->repo, &id) == 0)
		i = image_new(t, &id);
	if (!i)
		return error_nomem(err);
	i->state.host = strdup(place->host);
	i->state.repo = strdup(place->repo);
	i->state.plain_http = place->plain_http;
	rc = indexes_claim(t->indexes, i->hex, INDEX_NONE, &i->state.index,
			   err);
	images_lock(t);
	if (rc == 0 && t->n >= IMAGES_MAX)
		rc = error_set(err, ENOSPC,
			       "the node has %u images, and all are in use: "
			       "unmount some",
			       IMAGES_MAX);
	images_unlock(t);
	if (rc == 0 && (!i->state.host || !i->state.repo))
		rc = error_nomem(err);
	if (rc < 0)
		image_destroy(i);
	else
		*ret = i;
	return rc;
}

int images_add(struct images *t, const char *staged, struct artifact *a,
	       const struct image_place *place, struct image **ret,
	       struct error *err)
{
	struct image *i = NULL;
	int rc = make_image(t, a, place, &i, err);

	if (rc < 0)
		return rc;
	pthread_mutex_lock(&t->naming);
	rc = take_free_names(i, place, err);
	if (rc == 0)
		rc = publish_folder(t, i, staged, err);
	if (rc == 0) {
		/* The texts have been written to disk, so free them. */
		buf_fini(&a->manifest_json);
		buf_fini(&a->config_json);
		buf_fini(&a->image_config);
		buf_fini(&a->evidence);
		i->artifact = *a;
		*a = (struct artifact){ .format = 0 };
		i->refs = 1;
		images_lock(t);
		insert_locked(t, i);
		images_unlock(t);
		*ret = i;
	}
	pthread_mutex_unlock(&t->naming);
	if (rc < 0)
		image_destroy(i);
	return rc;
}

int images_remove(struct image *i, struct error *err)
{
	struct images *t = i->all;
	AUTO_FREE char *grave = NULL;
	struct image **p;
	bool busy;

	images_lock(t);
	/* Another call may have removed the image: its folder may belong to a newer image then. */
	busy = i->removed || is_needed(i);
	if (!busy) {
		for (p = &t->first; *p != i; p = &(*p)->next)
			;
		*p = i->next;
		t->n--;
		i->removed = true;
	}
	images_unlock(t);
	if (busy)
		return error_set(err, EBUSY, "image %.12s has users or is gone",
				 i->hex);
	(void)rmdir(i->mountpoint);
	/* Rename the folder first, so that it goes at once: a half-deleted folder would look
	 * damaged. */
	if (asprintf(&grave, "%s/" IMAGES_STAGE_PREFIX "%s", t->dir, i->hex) <
	    0) {
		grave = NULL;
		return error_nomem(err);
	}
	if (rename(i->dir, grave) < 0)
		return error_errno(err, errno, "rename '%s'", i->dir);
	return fs_remove_tree(grave, err);
}
