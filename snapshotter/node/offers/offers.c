// SPDX-License-Identifier: Apache-2.0
/* Which indexes are to be made, and the thread that makes them. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "net/url.h"
#include "snapshotter/node/images/content.h"
#include "snapshotter/node/offers/offers_priv.h"

#define TIMEOUT_MS 10000
#define LIST_TIMEOUT_MS 2000
#define LOOK_NS (2 * NS_PER_S) /* period of checks what was pulled */

void offer_image_fini(struct offer_image *i)
{
	free(i->host);
	free(i->repo);
	buf_fini(&i->manifest);
	*i = (struct offer_image){ .host = NULL };
}

static bool is_image_queued(const struct offers *o, const struct offer_image *i)
{
	for (size_t k = 0; k < o->n; k++)
		if (digest_equal(&o->v[k].digest, &i->digest) &&
		    strcmp(o->v[k].repo, i->repo) == 0 &&
		    strcmp(o->v[k].host, i->host) == 0)
			return true;
	return false;
}

/* Add an image to the list; takes it.  If the list is full, this image is dropped: another node
 * will make its index. */
static void add_image(struct offers *o, struct offer_image *i)
{
	bool is_taken = false;

	i->until_ns = clock_now_ns() + OFFERS_PULL_NS;
	(void)pthread_mutex_lock(&o->lock);
	if (i->host && i->repo && o->n < OFFERS_AT_ONCE &&
	    !is_image_queued(o, i)) {
		o->v[o->n++] = *i;
		is_taken = true;
	}
	(void)pthread_mutex_unlock(&o->lock);
	if (!is_taken)
		offer_image_fini(i);
	else
		periodic_wake(o->thread);
}

/* Is an index to be made?  Not when the service was away, or only has signatures that no rule
 * here allows. */
static bool is_wanted(const struct offers *o, const struct offer_query *q,
		      int rc)
{
	const struct policy_rule *r;

	if (rc != -ADMISSION_REFUSED)
		return rc == -ENOENT || rc == -EBADMSG;
	r = admission_rule(o->of.admission, q->host, q->repo, NULL, NULL);
	return r && r->mode == POLICY_SIGN;
}

void offers_note(struct offers *o, const struct offer_query *q, int rc)
{
	struct offer_image i = { .plain_http = q->plain_http,
				 .was_none = rc == -ENOENT };

	if (offers_mode(o, q->host, q->repo) != POLICY_BUILD || !o->key ||
	    !is_wanted(o, q, rc))
		return;
	i.host = strdup(q->host);
	i.repo = strdup(q->repo);
	i.digest = q->image->digest;
	if (buf_append(&i.manifest, q->image->body.data, q->image->body.len) <
	    0) {
		offer_image_fini(&i);
		return;
	}
	add_image(o, &i);
}

/* Has containerd pulled all blobs?  A blob gets its name in the store when it is whole and
 * checked. */
static bool is_pulled(const struct offers *o, const struct offer_image *i)
{
	struct oci_image image;
	bool is_there = true;

	if (oci_image_parse(i->manifest.data, i->manifest.len, &image, NULL) <
	    0)
		return false;
	for (size_t k = 0; is_there && k <= image.n_layers; k++) {
		const struct oci_descriptor *d =
			k < image.n_layers ? &image.layers[k] : &image.config;
		AUTO_FREE char *path =
			content_path(o->of.cfg->containerd_root, &d->digest);
		struct stat st;

		is_there = path && stat(path, &st) == 0 &&
			   (uint64_t)st.st_size == d->size;
	}
	oci_image_fini(&image);
	return is_there;
}

/* Remove the first image of the list; false: the list is empty. */
static bool pop_image(struct offers *o, struct offer_image *ret, size_t *ret_n)
{
	bool has_one;

	(void)pthread_mutex_lock(&o->lock);
	has_one = o->n > 0;
	if (has_one) {
		*ret = o->v[0];
		memmove(o->v, o->v + 1, --o->n * sizeof(o->v[0]));
	}
	*ret_n = o->n;
	(void)pthread_mutex_unlock(&o->lock);
	return has_one;
}

/* Put the image back at the end of the list. */
static void push_image(struct offers *o, struct offer_image *i)
{
	bool has_room;

	(void)pthread_mutex_lock(&o->lock);
	has_room = o->n < OFFERS_AT_ONCE;
	if (has_room)
		o->v[o->n++] = *i;
	(void)pthread_mutex_unlock(&o->lock);
	if (!has_room)
		offer_image_fini(i);
}

static void build_image(struct offers *o, const struct offer_image *i)
{
	struct error err = ERROR_INIT;

	if (offers_build(o, i, &err) < 0)
		log_warning("index", "not made image=\"%s/%s\" reason=\"%s\"",
			    i->host, i->repo, err.msg);
}

static int64_t offers_round(void *arg)
{
	struct offers *o = arg;
	struct offer_image i;
	size_t left = 0, n = OFFERS_AT_ONCE;
	static const struct offer_image none;

	offers_readings_drop(o, &none);
	while (n-- > 0 && !atomic_load(o->of.is_ending) &&
	       pop_image(o, &i, &left)) {
		if (clock_now_ns() <= i.until_ns &&
		    (offers_is_unpacking(o) || !is_pulled(o, &i))) {
			push_image(o, &i);
			if (n > left)
				n = left;
			continue;
		}
		if (clock_now_ns() <= i.until_ns)
			build_image(o, &i);
		offers_readings_drop(o, &i);
		offer_image_fini(&i);
	}
	(void)pthread_mutex_lock(&o->lock);
	left = o->n;
	(void)pthread_mutex_unlock(&o->lock);
	return clock_now_ns() + (left ? LOOK_NS : OFFERS_PULL_NS);
}

/* ------------------------------------------------------------ open and close --- */

int offers_open(const struct offers_of *of, struct offers **ret,
		struct error *err)
{
	const struct node_config *cfg = of->cfg;
	const struct service_client_config client =
		node_config_service(cfg, TIMEOUT_MS);
	const struct service_client_config list =
		node_config_service(cfg, LIST_TIMEOUT_MS);
	struct offers *o;
	int rc;

	*ret = NULL;
	if (!cfg->index || !cfg->index[0] || !cfg->service)
		return 0;
	o = calloc(1, sizeof(*o));
	if (!o)
		return error_nomem(err);
	o->of = *of;
	(void)pthread_mutex_init(&o->lock, NULL);
	if (cfg->node_name)
		(void)snprintf(o->name, sizeof(o->name), "%s", cfg->node_name);
	else
		(void)!gethostname(o->name, sizeof(o->name) - 1);
	o->is_private = url_is_secret(cfg->service) ||
			url_is_loopback(cfg->service) || client.plain_token;
	rc = policy_parse_index(cfg->index, &o->policy, err);
	if (rc == 0 && policy_index_key(&o->policy))
		rc = sign_key_load(policy_index_key(&o->policy), &o->key, err);
	if (rc == 0)
		rc = service_client_new(&client, &o->client, err);
	if (rc == 0)
		rc = service_client_new(&list, &o->asked, err);
	if (rc == 0)
		rc = periodic_start(offers_round, o, 0, &o->thread, err);
	if (rc < 0) {
		offers_close(o);
		return error_wrap(err, rc, "index");
	}
	*ret = o;
	return 0;
}

void offers_close(struct offers *o)
{
	if (!o)
		return;
	periodic_stop(o->thread);
	for (size_t k = 0; k < o->n; k++)
		offer_image_fini(&o->v[k]);
	offers_readings_drop(o, NULL);
	service_client_free(o->client);
	service_client_free(o->asked);
	sign_key_free(o->key);
	policy_fini(&o->policy);
	(void)pthread_mutex_destroy(&o->lock);
	free(o);
}
