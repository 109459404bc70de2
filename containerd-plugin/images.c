// SPDX-License-Identifier: Apache-2.0
#include "containerd-plugin/images.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "common/cond.h"
#include "common/log.h"
#include "common/text.h"
#include "containerd-plugin/absence.h"
#include "snapshotter/client.h"

/* How long answers are reused: a pull asks for all its layers in a row. */
#define LAZY_TTL_NS (60 * NS_PER_S)
#define ORDINARY_TTL_NS (10 * NS_PER_S)
#define UNKNOWN_TTL_NS (3 * NS_PER_S)
/* so that not each layer waits so long */
#define TIMEOUT_TTL_NS (60 * NS_PER_S)
/* longest extra time for a layer, by its size */
#define UNPACK_MORE_S 86400u
#define ANSWERS_MAX 256 /* images that are remembered */

#define LABEL_CRI_REF "containerd.io/snapshot/cri.image-ref"
#define LABEL_CRI_MANIFEST "containerd.io/snapshot/cri.manifest-digest"
#define LABEL_STARGZ_REF "containerd.io/snapshot/remote/stargz.reference"

struct image_reply {
	char *key;   /* NULL: the place is free */
	bool asking; /* a thread waits for bootseerd */
	int64_t expires;
	enum images_answer kind;
	struct node_image image; /* of IMAGES_LAZY */
	struct error err;        /* of IMAGES_UNKNOWN */
};

struct image_lookup {
	struct images_config config;
	struct absence absence;
	pthread_mutex_t lock; /* protects the rest */
	pthread_cond_t changed;
	struct image_reply answers[ANSWERS_MAX];
};

/* The image and layer that the labels of a Prepare name. */
struct question {
	const char *image; /* borrowed from the labels */
	struct digest manifest;
	bool has_manifest;
	struct digest chain_id;
	const char *parent_chain;
};

int images_new(const struct images_config *config, struct image_lookup **ret,
	       struct error *err)
{
	struct image_lookup *im = calloc(1, sizeof(*im));

	if (!im)
		return error_nomem(err);
	im->config = *config;
	if (!im->config.scope)
		im->config.scope = "";
	absence_init(&im->absence, config->timeout_ns);
	pthread_mutex_init(&im->lock, NULL);
	cond_init(&im->changed);
	*ret = im;
	return 0;
}

static void forget_reply(struct image_reply *a)
{
	free(a->key);
	node_image_fini(&a->image);
	*a = (struct image_reply){ .key = NULL };
}

void images_free(struct image_lookup *im)
{
	if (!im)
		return;
	for (size_t i = 0; i < ANSWERS_MAX; i++)
		forget_reply(&im->answers[i]);
	pthread_cond_destroy(&im->changed);
	pthread_mutex_destroy(&im->lock);
	absence_fini(&im->absence);
	free(im);
}

/* May bootseerd have received the call, though no answer came? */
static bool may_call_have_arrived(int rc)
{
	return rc == -ETIMEDOUT || rc == -ECONNRESET || rc == -ENOMEM;
}

/* Replace the code, and keep the message. */
static int error_code(struct error *err, int code)
{
	if (err)
		err->code = code;
	return -code;
}

/* Report that containerd should try again, whatever bootseerd's reason is. */
static int set_unavailable(struct error *err, const char *what)
{
	struct error why = ERROR_INIT;

	if (err)
		why = *err;
	return error_set(err, EHOSTDOWN, "%s: %s", what, why.msg);
}

static int connect_with(struct image_lookup *im,
			struct control_patience *patience, int64_t timeout_ns,
			struct node_client **ret, struct error *err)
{
	/* Rounded up, as 0 would mean no limit. */
	int rc = node_client_open(im->config.socket,
				  (uint32_t)((timeout_ns + 999999) / 1000000),
				  patience, ret, err);

	return rc < 0 ? set_unavailable(err, "bootseerd is needed") : 0;
}

/* Connect to bootseerd, and wait for it if it is restarting. */
static int connect_node(struct image_lookup *im, int64_t timeout_ns,
			struct node_client **ret, struct error *err)
{
	return connect_with(im, &im->absence.patience, timeout_ns, ret, err);
}

/* ---- sharing of trees between images ---- */

/*
 * May a tree be used that is trusted only for repositories below the prefix `scope`? containerd
 * finds snapshots by chain id alone, and would use one for any image with the same layers. So
 * the tree must not become a snapshot in a snapshotter that also runs images from outside of
 * `scope`.
 */
static bool may_scope_share_tree(const struct image_lookup *im,
				 const char *scope)
{
	return !*scope ||
	       (*im->config.scope && text_path_holds(scope, im->config.scope));
}

/* Is "host/repo:tag@digest" below this snapshotter's own scope? */
static bool is_ours(const struct image_lookup *im, const char *image)
{
	size_t len = strcspn(image, "@");
	AUTO_FREE char *repo = strndup(image, len);
	char *slash = repo ? strrchr(repo, '/') : NULL;
	char *colon = slash ? strchr(slash, ':') : NULL;

	if (colon)
		*colon = '\0';
	return repo && text_path_holds(im->config.scope, repo);
}

/* ---- the image of a layer ---- */

/*
 * Find the image and layer that the labels name. Labels come from the image's manifest, by way
 * of containerd, and the client that pulls overwrites those it knows. So if two labels name an
 * image, one may come from the manifest, which could make this node fetch another image with the
 * node's credentials: then neither is used.
 */
static bool read_question_labels(const struct labels *labels,
				 const char *parent_chain, struct question *q)
{
	const char *chain = labels_get(labels, LABEL_SNAPSHOT_REF);
	const char *manifest = labels_get(labels, LABEL_CRI_MANIFEST);
	const char *stargz = labels_get(labels, LABEL_STARGZ_REF);

	*q = (struct question){ .parent_chain = parent_chain };
	q->image = labels_get(labels, LABEL_CRI_REF);
	if (q->image && stargz && strcmp(q->image, stargz) != 0)
		return false;
	if (!q->image)
		q->image = stargz;
	q->has_manifest =
		manifest && digest_parse(manifest, &q->manifest, NULL) == 0;
	return q->image && chain &&
	       digest_parse(chain, &q->chain_id, NULL) == 0;
}

bool images_named(const struct labels *labels, struct digest *manifest,
		  struct layer_source *ret)
{
	struct question q;

	if (!read_question_labels(labels, "", &q))
		return false;
	*manifest = q.manifest;
	*ret = (struct layer_source){ .image = q.image,
				      .manifest = q.has_manifest ? manifest
								 : NULL };
	return true;
}

static char *question_key(const struct question *q)
{
	char digest[DIGEST_STR_MAX] = "";
	AUTO_BUF b = BUF_INIT;

	if (q->has_manifest)
		digest_format(&q->manifest, digest);
	if (buf_printf(&b, "%s %s", q->image, digest) < 0)
		return NULL;
	return buf_steal(&b);
}

/* Ask bootseerd about the image. Without the lock. */
static enum images_answer ask_node(struct image_lookup *im,
				   const struct question *q,
				   struct node_image *ret, struct error *err)
{
	struct node_image_query query = {
		.ref = q->image,
		.manifest = q->has_manifest ? &q->manifest : NULL,
	};
	struct node_client *c = NULL;
	int rc = connect_node(im, im->config.timeout_ns, &c, err);

	if (rc < 0)
		return IMAGES_UNKNOWN;
	rc = node_image_prepare(c, &query, ret, err);
	node_client_close(c);
	if (rc == 0 && !may_scope_share_tree(im, ret->scope)) {
		log_info("images",
			 "an image is ordinary here image=\"%s\" "
			 "reason=\"trusted below '%s' only\" cure=\"a "
			 "snapshotter of its own for that prefix, --scope\"",
			 q->image, ret->scope);
		return IMAGES_ORDINARY;
	}
	return rc == 0                                ? IMAGES_LAZY
	       : rc == -ENOENT || rc == -EKEYREJECTED ? IMAGES_ORDINARY
						      : IMAGES_UNKNOWN;
}

static struct image_reply *find_answer(struct image_lookup *im, const char *key)
{
	for (size_t i = 0; i < ANSWERS_MAX; i++)
		if (im->answers[i].key && strcmp(im->answers[i].key, key) == 0)
			return &im->answers[i];
	return NULL;
}

/* A free place, or the place of the oldest answer; NULL when all places wait for answers. */
static struct image_reply *new_answer(struct image_lookup *im)
{
	struct image_reply *oldest = NULL;

	for (size_t i = 0; i < ANSWERS_MAX; i++) {
		struct image_reply *a = &im->answers[i];

		if (!a->key)
			return a;
		if (!a->asking && (!oldest || a->expires < oldest->expires))
			oldest = a;
	}
	if (oldest)
		forget_reply(oldest);
	return oldest;
}

static int64_t answer_ttl(enum images_answer kind, const struct error *err)
{
	if (kind == IMAGES_LAZY)
		return LAZY_TTL_NS;
	if (kind == IMAGES_ORDINARY)
		return ORDINARY_TTL_NS;
	return err->code == ETIMEDOUT ? TIMEOUT_TTL_NS : UNKNOWN_TTL_NS;
}

/* Fetch the answer into `a`, whose place stays reserved. With the lock, which is released
 * during the request. */
static void fill_answer(struct image_lookup *im, struct image_reply *a,
			const struct question *q)
{
	struct node_image image = { .chain_ids = NULL };
	struct error err = ERROR_INIT;
	enum images_answer kind;

	a->asking = true;
	pthread_mutex_unlock(&im->lock);
	kind = ask_node(im, q, &image, &err);
	pthread_mutex_lock(&im->lock);
	node_image_fini(&a->image);
	a->asking = false;
	a->kind = kind;
	a->image = image;
	a->err = err;
	a->expires = clock_now_ns() + answer_ttl(kind, &err);
	pthread_cond_broadcast(&im->changed);
}

/*
 * The answer for the image, requested now if there is none or with `fresh`. NULL with `err`:
 * none came in time; `*ret_rc` is the result of turn_need(). With the lock; valid until it is
 * released.
 */
static struct image_reply *
get_answer(struct image_lookup *im, const struct question *q, struct turn *turn,
	   bool fresh, bool *ret_old, int *ret_rc, struct error *err)
{
	int64_t deadline = clock_now_ns() + 2 * im->config.timeout_ns;
	AUTO_FREE char *key = question_key(q);
	struct image_reply *a;

	*ret_old = false;
	while (key) {
		a = find_answer(im, key);
		if (a && !a->asking && !fresh && clock_now_ns() < a->expires) {
			*ret_old = true;
			return a;
		}
		*ret_rc = turn_need(turn, TURN_ASK, q->image, err);
		if (*ret_rc < 0)
			return NULL;
		if (!a) {
			a = new_answer(im);
			if (a)
				a->key = steal_ptr(&key);
		}
		if (a && !a->asking) {
			fill_answer(im, a, q);
			return a;
		}
		fresh = false;
		if (!cond_wait_until(&im->changed, &im->lock, deadline)) {
			error_set(err, ETIMEDOUT,
				  "bootseerd did not answer in time");
			return NULL;
		}
	}
	error_nomem(err);
	return NULL;
}

/* The index of the layer if it is where the question says, else -1. */
static int64_t find_layer(const struct node_image *image,
			  const struct question *q)
{
	char parent[DIGEST_STR_MAX] = "";

	for (size_t i = 0; i < image->n_chain_ids; i++) {
		if (!digest_equal(&image->chain_ids[i], &q->chain_id))
			continue;
		if (i > 0)
			digest_format(&image->chain_ids[i - 1], parent);
		return strcmp(parent, q->parent_chain) == 0 ? (int64_t)i : -1;
	}
	return -1;
}

static enum images_answer find_layer_in_answer(const struct image_reply *a,
					       const struct question *q,
					       struct image_layer *ret,
					       struct error *err)
{
	int64_t i;

	if (a->kind != IMAGES_LAZY) {
		if (err)
			*err = a->err;
		return a->kind;
	}
	i = find_layer(&a->image, q);
	if (i < 0) {
		error_set(err, ESTALE,
			  "image '%s' has no such layer at this "
			  "place: its tag may have moved",
			  q->image);
		return IMAGES_UNKNOWN;
	}
	ret->image = strdup(q->image);
	if (!ret->image) {
		error_nomem(err);
		return IMAGES_UNKNOWN;
	}
	ret->manifest = a->image.manifest;
	ret->tree = a->image.id;
	ret->layer = (uint32_t)i;
	ret->is_top = (size_t)i + 1 == a->image.n_chain_ids;
	return IMAGES_LAZY;
}

enum images_answer images_find(struct image_lookup *im,
			       const struct labels *labels,
			       const char *parent_chain, struct turn *turn,
			       struct image_layer *ret, struct error *err)
{
	int rc = 0;
	enum images_answer kind = IMAGES_UNKNOWN;
	bool old = false;
	struct question q;
	struct image_reply *a;

	if (!read_question_labels(labels, parent_chain, &q))
		return IMAGES_ORDINARY;
	if (!is_ours(im, q.image)) {
		error_set(err, EPERM,
			  "image '%s' is none of '%s', which this snapshotter "
			  "is for (--scope): pull it with another one",
			  q.image, im->config.scope);
		return IMAGES_FOREIGN;
	}
	pthread_mutex_lock(&im->lock);
	a = get_answer(im, &q, turn, false, &old, &rc, err);
	if (a)
		kind = find_layer_in_answer(a, &q, ret, err);
	/* The tag may have moved to a new image since: ask again. */
	if (a && old && a->kind == IMAGES_LAZY && kind == IMAGES_UNKNOWN &&
	    !q.has_manifest) {
		a = get_answer(im, &q, turn, true, &old, &rc, err);
		if (a)
			kind = find_layer_in_answer(a, &q, ret, err);
	}
	pthread_mutex_unlock(&im->lock);
	return rc == -ERESTART ? IMAGES_LATER : kind;
}

/* ---- mounts and layers ---- */

/* bootseerd no longer has the tree: drop the answers with it. */
static void forget_answers_with_tree(struct image_lookup *im,
				     const struct digest *tree)
{
	pthread_mutex_lock(&im->lock);
	for (size_t i = 0; i < ANSWERS_MAX; i++) {
		struct image_reply *a = &im->answers[i];

		if (a->key && !a->asking && a->kind == IMAGES_LAZY &&
		    digest_equal(&a->image.id, tree))
			forget_reply(a);
	}
	pthread_mutex_unlock(&im->lock);
}

static void user_name(struct image_lookup *im, uint64_t id, char out[80])
{
	snprintf(out, 80, "snapshotter/%.40s/%" PRIu64, im->config.instance,
		 id);
}

int images_mount(struct image_lookup *im, const struct digest *tree,
		 uint64_t id, int64_t timeout_ns, char **ret_path,
		 struct error *err)
{
	AUTO_FREE char *path = NULL, *scope = NULL;
	struct node_client *c = NULL;
	/* No timeout given: the call may wait for bootseerd. At the plugin's start it may
	 * not, as trees not mounted then are mounted on use. */
	bool is_patient = timeout_ns == 0;
	bool open_question = false;
	char user[80];
	int rc;

	user_name(im, id, user);
	if (timeout_ns == 0 || timeout_ns > im->config.timeout_ns)
		timeout_ns = im->config.timeout_ns;
	rc = connect_with(im, is_patient ? &im->absence.patience : NULL,
			  timeout_ns, &c, err);
	if (rc == 0) {
		rc = node_image_mount(c, tree, user, true, &path, &scope, err);
		open_question = may_call_have_arrived(rc);
	}
	node_client_close(c);
	if (rc == 0 && !may_scope_share_tree(im, scope))
		rc = error_set(err, EKEYREJECTED,
			       "it is trusted below '%s' only", scope);
	if (rc == 0)
		*ret_path = steal_ptr(&path);
	if (rc == 0 || rc == -EKEYREJECTED)
		return rc;
	if (rc == -ENOENT) {
		forget_answers_with_tree(im, tree);
		return error_wrap(err, error_code(err, ESTALE),
				  "cannot mount the lazy image");
	}
	rc = set_unavailable(err, "cannot mount the lazy image");
	return open_question ? error_code(err, EINPROGRESS) : rc;
}

/* Is this layer the image's uppermost one, so that the tree is exactly its content? */
static bool is_top_layer(const struct node_image *image, const char *chain)
{
	struct digest d;

	return image->n_chain_ids > 0 && digest_parse(chain, &d, NULL) == 0 &&
	       digest_equal(&d, &image->chain_ids[image->n_chain_ids - 1]);
}

int images_bring(struct image_lookup *im, const char *image,
		 const struct digest *manifest, const char *chain,
		 struct digest *ret, struct error *err)
{
	const struct question q = { .image = image,
				    .manifest = *manifest,
				    .has_manifest = true };
	struct node_image found = { .chain_ids = NULL };
	enum images_answer kind = ask_node(im, &q, &found, err);
	bool is_other = kind == IMAGES_LAZY && !is_top_layer(&found, chain);

	if (kind == IMAGES_LAZY)
		*ret = found.id;
	node_image_fini(&found);
	/* The image now has further layers, so its tree would show more than the snapshot
	 * should. */
	if (is_other)
		return error_set(err, EKEYREJECTED,
				 "image '%s' has other layers on this one",
				 image);
	switch (kind) {
	case IMAGES_LAZY:
		return 0;
	case IMAGES_UNKNOWN:
		return set_unavailable(err, "cannot mount the lazy image");
	default:
		return error_set(err, EKEYREJECTED,
				 "image '%s' has no artifact that may be used "
				 "here any more",
				 image);
	}
}

int images_umount(struct image_lookup *im, const struct digest *tree,
		  uint64_t id, struct error *err)
{
	struct node_client *c = NULL;
	char user[80];
	int rc;

	user_name(im, id, user);
	rc = connect_node(im, im->config.timeout_ns, &c, err);
	if (rc == 0)
		rc = node_image_umount(c, tree, user, err);
	node_client_close(c);
	return rc;
}

static bool parse_id(const char *text, uint64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(text, &end, 10);
	return text[0] >= '1' && text[0] <= '9' && !*end && errno == 0;
}

int images_users(struct image_lookup *im, int64_t timeout_ns, uint64_t **ret,
		 size_t *ret_n, struct error *err)
{
	struct node_users users = { .names = NULL };
	AUTO_FREE uint64_t *ids = NULL;
	struct node_client *c = NULL;
	char prefix[80];
	size_t n = 0;
	int rc;

	snprintf(prefix, sizeof(prefix), "snapshotter/%.40s/",
		 im->config.instance);
	if (timeout_ns > im->config.timeout_ns)
		timeout_ns = im->config.timeout_ns;
	rc = connect_with(im, NULL, timeout_ns, &c, err);
	if (rc == 0)
		rc = node_image_users(c, prefix, &users, err);
	node_client_close(c);
	if (rc < 0)
		return rc;
	ids = calloc(users.n + 1, sizeof(*ids));
	if (!ids)
		rc = error_nomem(err);
	for (size_t i = 0; rc == 0 && i < users.n; i++)
		n += parse_id(users.names[i] + strlen(prefix), &ids[n]);
	node_users_fini(&users);
	if (rc < 0)
		return rc;
	*ret = steal_ptr(&ids);
	*ret_n = n;
	return 0;
}

int images_start(struct image_lookup *im, const struct digest *tree,
		 uint64_t id, const struct image_start *start,
		 struct error *err)
{
	struct node_start s = { .workload = start->workload,
				.wait = start->wait,
				.ready_file = start->ready_file,
				.ready_root = start->upper,
				.bundle = start->bundle };
	struct node_client *c = NULL;
	char user[80];
	int rc;

	user_name(im, id, user);
	s.user = user;
	rc = connect_node(im, im->config.start_timeout_ns, &c, err);
	if (rc == 0)
		rc = node_start_begin(c, tree, &s, NULL, err);
	node_client_close(c);
	return rc;
}

int images_start_end(struct image_lookup *im, uint64_t id, struct error *err)
{
	struct node_client *c = NULL;
	char user[80];
	int rc;

	user_name(im, id, user);
	rc = connect_node(im, im->config.timeout_ns, &c, err);
	if (rc == 0)
		rc = node_start_end(c, user, err);
	node_client_close(c);
	return rc;
}

int images_apply(struct image_lookup *im, const struct layer_source *source,
		 const char *dir, const char *lower, const struct turn *turn,
		 struct error *err)
{
	struct node_image_query query = { .ref = source->image,
					  .manifest = source->manifest };
	struct node_client *c = NULL;
	int rc = connect_node(im, im->config.layer_timeout_ns, &c, err);

	if (rc == 0 && turn)
		node_client_heed(c, &turn->is_cut);
	if (rc == 0)
		rc = node_layer_apply(c, &query, source->layer,
				      source->chain_id, dir, lower, err);
	node_client_close(c);
	if (rc == -ECONNRESET || rc == -ECANCELED)
		return rc;
	return rc < 0 ? set_unavailable(err,
					"cannot fetch a layer that was left "
					"out for a lazy image")
		      : 0;
}

int images_unpack(struct image_lookup *im, const struct node_layer *l,
		  const struct turn *turn, struct node_layer_content *ret,
		  struct error *err)
{
	struct node_client *c = NULL;
	/* A large layer takes long: add a second for each MiB. */
	uint64_t more_s = l->size / MIB;
	int rc;

	if (more_s > UNPACK_MORE_S)
		more_s = UNPACK_MORE_S;
	rc = connect_node(im,
			  im->config.layer_timeout_ns +
				  (int64_t)more_s * NS_PER_S,
			  &c, err);
	if (rc < 0)
		return rc;
	node_client_heed(c, &turn->is_cut);
	rc = node_layer_unpack(c, l, ret, err);
	node_client_close(c);
	return rc;
}
