// SPDX-License-Identifier: Apache-2.0
/* Images that containerd asked for, and their layers, which are fetched and then kept for peers. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/temp_file.h"
#include "snapshotter/node/mirror/mirror_priv.h"

#define IMAGES_MAX 64u /* images that are noted, open or closing */
/* Manifests of a repository that are opened to find one layer: the image's own, and those of a
 * few pulls at the same time. */
#define OPENING_MAX 8u
#define OPEN_NS \
	(10 * NS_PER_S) /* a registry that takes longer is containerd's */
/* Time that layers are kept: other nodes begin the same image within minutes; later nodes read
 * the registry. */
#define KEEP_NS (600 * NS_PER_S)
/* longest time between containerd's requests for a manifest and for its layers */
#define NOTED_NS (60 * NS_PER_S)
#define QUOTA_SHARE 2u /* layers may take a half of --cache-quota */

static void image_close(struct mirror_image *i);

/* --------------------------------------------------------------- images --- */

static bool is_image_of_repo(const struct mirror_image *i, const char *host,
			     const char *repo)
{
	return strcmp(i->p.host, host) == 0 && strcmp(i->p.repo, repo) == 0;
}

static struct mirror_image *find_image(struct mirror *m, const char *host,
				       const char *repo,
				       const struct digest *manifest)
{
	struct mirror_image *i;

	TAILQ_FOREACH(i, &m->images, link)
	{
		if (i->stage != IMAGE_CLOSING &&
		    is_image_of_repo(i, host, repo) &&
		    digest_equal(&i->p.manifest, manifest))
			return i;
	}
	return NULL;
}

static void image_free(struct mirror_image *i)
{
	struct mirror *m = i->m;

	TAILQ_REMOVE(&m->images, i, link);
	m->n_images--;
	pulled_close(&i->p);
	free(i->layers);
	free(i);
}

/* The unused image whose last use is the oldest; NULL: all are in use. */
static struct mirror_image *find_idle(struct mirror *m)
{
	struct mirror_image *i;

	TAILQ_FOREACH(i, &m->images, link)
	{
		if (i->refs == 0 &&
		    (i->stage == IMAGE_NOTED || i->stage == IMAGE_OPEN))
			return i;
	}
	return NULL;
}

static bool make_image_room(struct mirror *m)
{
	struct mirror_image *i;

	while (m->n_images >= IMAGES_MAX) {
		i = find_idle(m);
		if (!i || i->stage == IMAGE_OPEN) {
			if (i)
				image_close(i);
			/* a place is free once that image is closed */
			return false;
		}
		image_free(i);
	}
	return true;
}

void mirror_note(struct mirror *m, const char *host, const char *repo,
		 const struct digest *manifest)
{
	struct mirror_image *i = find_image(m, host, repo, manifest);

	if (i) {
		mirror_image_touch(i);
		return;
	}
	i = make_image_room(m) ? calloc(1, sizeof(*i)) : NULL;
	if (!i)
		return;
	i->m = m;
	i->p = (struct pulled){ .origins = m->of.origins,
				.peers = m->of.peers,
				.most = m->of.cfg->cache_quota,
				.liars = &m->liars,
				.host = strdup(host),
				.repo = strdup(repo),
				.manifest = *manifest };
	i->used_ns = clock_now_ns();
	TAILQ_INSERT_TAIL(&m->images, i, link);
	m->n_images++;
	if (!i->p.host || !i->p.repo)
		image_free(i);
}

/* ---------------------------------------------------------------- layers --- */

static void on_layer_bytes(struct loop_call *c)
{
	struct mirror_layer *l =
		container_of(c, struct mirror_layer, moved_call);

	atomic_store(&l->has_moved, false);
	mirror_streams_go_on(l);
}

/* Tell the loop that bytes came.  Any thread. */
static void tell_loop_of_layer_bytes(void *arg)
{
	struct mirror_layer *l = arg;

	if (!atomic_exchange(&l->has_moved, true))
		loop_post(l->i->m->loop, &l->moved_call);
}

static void on_wrong_layer_bytes(void *arg, const char *node)
{
	struct mirror_layer *l = arg;

	liars_add(&l->i->m->liars, l->i->p.host, node);
	atomic_fetch_add(&l->i->m->counts.wrong, 1);
	log_warning("mirror",
		    "wrong bytes of a layer node=\"%s\" image=\"%s/%s\": "
		    "nothing is taken from it for a while",
		    node, l->i->p.host, l->i->p.repo);
}

static enum pace_level layer_level(struct pace *p)
{
	const struct mirror_layer *l =
		container_of(p, struct mirror_layer, pace);

	return __atomic_load_n(&l->cancel, __ATOMIC_RELAXED) ? PACE_STOP
							     : PACE_GO;
}

static void ignore_pace_progress(struct pace *p)
{
	(void)p;
}

static void layer_run(struct work *w)
{
	struct mirror_layer *l = container_of(w, struct mirror_layer, work);
	struct mirror *m = l->i->m;
	int fd;

	l->rc = m->of.room->reserve(m->of.room->disk, l->p->size, &l->err);
	if (l->rc < 0)
		return;
	l->is_reserved = true;
	l->rc = temp_file(m->dir, &fd, &l->err);
	if (l->rc < 0)
		return;
	layer_file_begin(l->p->file, fd, &l->cancel);
	l->rc = layer_transfer_run(&l->fetch, &l->err);
}

static void count_layer(struct mirror_layer *l)
{
	struct mirror_counts *c = &l->i->m->counts;
	char name[DIGEST_STR_MAX];
	struct layer_counts n;

	layer_file_count(l->p->file, &n);
	atomic_fetch_add(&c->registry_bytes, n.registry_bytes);
	atomic_fetch_add(&c->peers_bytes, n.peers_bytes);
	digest_format(&l->p->digest, name);
	if (l->rc == 0) {
		atomic_fetch_add(&c->layers, 1);
		atomic_fetch_add(&c->layers_bytes, l->p->size);
		log_info("mirror",
			 "layer whole image=\"%s/%s\" digest=%.19s "
			 "registry=%" PRIu64 " peers=%" PRIu64 " ms=%" PRId64,
			 l->i->p.host, l->i->p.repo, name, n.registry_bytes,
			 n.peers_bytes,
			 (clock_now_ns() - l->begun_ns) / NS_PER_MS);
		return;
	}
	atomic_fetch_add(&c->failed, 1);
	if (!l->i->m->is_ending)
		log_warning("mirror",
			    "containerd gets a layer itself image=\"%s/%s\" "
			    "digest=%.19s reason=\"%s\"",
			    l->i->p.host, l->i->p.repo, name, l->err.msg);
}

/* Connections to the registry that the layer's fetch uses; a swarm counts its own. */
static unsigned int layer_streams(const struct mirror_layer *l)
{
	return l->fetch.p2p ? 0 : l->fetch.streams;
}

static void layer_done(struct work *w)
{
	struct mirror_layer *l = container_of(w, struct mirror_layer, work);

	l->i->m->n_fetches--;
	l->i->m->n_streams -= layer_streams(l);
	l->state = l->rc == 0 ? LAYER_WHOLE : LAYER_FAILED;
	count_layer(l);
	mirror_streams_go_on(l);
	mirror_image_put(l->i);
}

/* -------------------------------------------------------- --- disk space --- */

/* Drop a layer that no stream uses. */
static void layer_give_back(struct mirror_layer *l)
{
	struct mirror *m = l->i->m;

	if (l->state == LAYER_IDLE)
		return;
	if (l->state == LAYER_WHOLE) {
		atomic_fetch_sub(&m->counts.layers, 1);
		atomic_fetch_sub(&m->counts.layers_bytes, l->p->size);
	}
	if (l->is_reserved)
		m->of.room->settle(m->of.room->disk, l->p->size, NULL);
	m->bytes -= l->p->size;
	l->state = LAYER_IDLE;
}

/* Does the layer fit into the mirror's share of the disk?  If not, close unused images, which
 * frees space a moment later. */
static bool layer_has_room(struct mirror_layer *l)
{
	struct mirror *m = l->i->m;
	struct mirror_image *i;

	if (m->bytes + l->p->size <= m->of.cfg->cache_quota / QUOTA_SHARE)
		return true;
	i = find_idle(m);
	if (i && i != l->i && i->stage == IMAGE_OPEN)
		image_close(i);
	return false;
}

/* How many connections fetch the layer: one for each range, as far as some are left.  A large
 * layer is most of its image, so few others run beside it. */
static unsigned int choose_streams(const struct mirror *m, uint64_t size)
{
	uint32_t ranges = layer_pieces(size) / LAYER_RANGE_PIECES + 1;
	unsigned int left = m->n_streams < MIRROR_STREAMS
				    ? MIRROR_STREAMS - m->n_streams
				    : 0;
	unsigned int n = left < LAYER_STREAMS_MAX ? left : LAYER_STREAMS_MAX;

	n = n < 2 ? 2 : n;
	return ranges < n ? ranges : n;
}

static bool layer_begin(struct mirror_layer *l)
{
	struct mirror *m = l->i->m;

	/* Do not queue a fetch: its pull would wait for other registries, which may hang. */
	if (m->n_fetches >= MIRROR_FETCHES || !layer_has_room(l))
		return false;
	l->begun_ns = clock_now_ns();
	l->fetch = (struct layer_transfer){
		.file = l->p->file,
		.size = l->p->size,
		.registry = l->p->registry,
		.p2p = l->i->p.p2p,
		.first = l->p->first,
		.pace = &l->pace,
		.streams = choose_streams(m, l->p->size),
		.cancel = &l->cancel,
		.moved = tell_loop_of_layer_bytes,
		.liar = on_wrong_layer_bytes,
		.arg = l,
	};
	l->work.run = layer_run;
	l->work.done = layer_done;
	if (pool_submit(m->fetching, &l->work) < 0)
		return false;
	m->bytes += l->p->size;
	m->n_fetches++;
	m->n_streams += layer_streams(l);
	l->state = LAYER_COMING;
	l->i->refs++;
	log_debug("mirror", "layer begins image=\"%s/%s\" bytes=%" PRIu64,
		  l->i->p.host, l->i->p.repo, l->p->size);
	return true;
}

/* ------------------------------------------------------------- requests --- */

static void serve_layer(struct mirror_layer *l, struct httpd_request *r)
{
	mirror_image_touch(l->i);
	if (l->state == LAYER_FAILED ||
	    (l->state == LAYER_IDLE && !layer_begin(l))) {
		atomic_fetch_add(&l->i->m->counts.passed, 1);
		mirror_refuse(r);
		return;
	}
	mirror_send_layer(l, r);
}

/* Find the layer; NULL: no open image of that repository has it. */
static struct mirror_layer *find_layer(struct mirror *m, const char *host,
				       const char *repo, const struct digest *d)
{
	struct mirror_image *i;

	TAILQ_FOREACH(i, &m->images, link)
	{
		if (i->stage != IMAGE_OPEN || !is_image_of_repo(i, host, repo))
			continue;
		for (size_t k = 0; k < i->p.n_layers; k++)
			if (digest_equal(&i->p.layers[k].digest, d))
				return &i->layers[k];
	}
	return NULL;
}

static bool is_opening(struct mirror *m, const char *host, const char *repo)
{
	struct mirror_image *i;

	TAILQ_FOREACH(i, &m->images, link)
	{
		if (i->stage == IMAGE_OPENING &&
		    is_image_of_repo(i, host, repo))
			return true;
	}
	return false;
}

static void parked_free(struct parked_request *q)
{
	free(q->host);
	free(q->repo);
	free(q);
}

/* Answer waiting requests of this repository if their layer was found, or if all manifests are
 * known. */
static void unpark_requests(struct mirror *m, const char *host,
			    const char *repo)
{
	bool is_over = !is_opening(m, host, repo);
	struct parked_request *q = TAILQ_FIRST(&m->parked), *next;

	for (; q; q = next) {
		struct mirror_layer *l;

		next = TAILQ_NEXT(q, link);
		if (strcmp(q->host, host) != 0 || strcmp(q->repo, repo) != 0)
			continue;
		l = find_layer(m, host, repo, &q->digest);
		if (!l && !is_over)
			continue;
		TAILQ_REMOVE(&m->parked, q, link);
		if (l)
			serve_layer(l, q->request);
		else
			mirror_refuse(q->request);
		parked_free(q);
	}
}

static bool park_request(struct mirror *m, const char *host, const char *repo,
			 const struct digest *layer, struct httpd_request *r)
{
	struct parked_request *q = calloc(1, sizeof(*q));

	if (!q)
		return false;
	q->request = r;
	q->host = strdup(host);
	q->repo = strdup(repo);
	q->digest = *layer;
	if (!q->host || !q->repo) {
		parked_free(q);
		return false;
	}
	TAILQ_INSERT_TAIL(&m->parked, q, link);
	return true;
}

static void open_run(struct work *w)
{
	struct mirror_image *i = container_of(w, struct mirror_image, work);

	i->rc = pulled_open(&i->p, &i->call.pace, &i->err);
}

static int make_layers(struct mirror_image *i)
{
	i->layers = calloc(i->p.n_layers, sizeof(*i->layers));
	if (!i->layers)
		return -ENOMEM;
	for (size_t k = 0; k < i->p.n_layers; k++) {
		struct mirror_layer *l = &i->layers[k];

		l->i = i;
		l->p = &i->p.layers[k];
		l->pace = (struct pace){ .level = layer_level,
					 .moves = ignore_pace_progress };
		l->moved_call.fn = on_layer_bytes;
		TAILQ_INIT(&l->streams);
	}
	return 0;
}

static void open_done(struct work *w)
{
	struct mirror_image *i = container_of(w, struct mirror_image, work);
	AUTO_FREE char *host = strdup(i->p.host), *repo = strdup(i->p.repo);
	struct mirror *m = i->m;

	if (i->rc == 0)
		i->rc = make_layers(i);
	if (m->is_ending)
		return;
	if (i->rc < 0) {
		log_debug("mirror", "no image for layers reason=\"%s\"",
			  i->err.msg);
		/* No layer was fetched yet, so closing only has to leave a swarm. */
		image_close(i);
	} else {
		i->stage = IMAGE_OPEN;
	}
	if (host && repo)
		unpark_requests(m, host, repo);
}

static void image_open(struct mirror_image *i)
{
	struct mirror *m = i->m;

	remote_call_init(&i->call, m->of.is_ending, NULL, clock_now_ns(),
			 OPEN_NS);
	i->work.run = open_run;
	i->work.done = open_done;
	if (pool_submit(m->opening, &i->work) == 0)
		i->stage = IMAGE_OPENING;
}

/* Open the images whose manifests containerd asked for lately, newest first. */
static void open_noted_images(struct mirror *m, const char *host,
			      const char *repo)
{
	int64_t since = clock_now_ns() - NOTED_NS;
	struct mirror_image *i;
	unsigned int n = 0;

	TAILQ_FOREACH_REVERSE(i, &m->images, mirror_image_list, link)
	{
		if (i->stage == IMAGE_NOTED && i->used_ns >= since &&
		    n < OPENING_MAX && is_image_of_repo(i, host, repo)) {
			image_open(i);
			n++;
		}
	}
}

void mirror_want(struct mirror *m, const char *host, const char *repo,
		 const struct digest *layer, struct httpd_request *r)
{
	struct mirror_layer *l = find_layer(m, host, repo, layer);

	if (l) {
		serve_layer(l, r);
		return;
	}
	open_noted_images(m, host, repo);
	if (is_opening(m, host, repo) && park_request(m, host, repo, layer, r))
		return;
	atomic_fetch_add(&m->counts.passed, 1);
	mirror_refuse(r);
}

/* ------------------------------------------------------------ --- closing --- */

static void close_run(struct work *w)
{
	pulled_close(&container_of(w, struct mirror_image, work)->p);
}

static void close_done(struct work *w)
{
	image_free(container_of(w, struct mirror_image, work));
}

static void give_back_all(struct mirror_image *i)
{
	for (size_t k = 0; i->layers && k < i->p.n_layers; k++)
		layer_give_back(&i->layers[k]);
}

/* Close an image that is not in use. */
static void image_close(struct mirror_image *i)
{
	give_back_all(i);
	i->stage = IMAGE_CLOSING;
	i->work.run = close_run;
	i->work.done = close_done;
	(void)!pool_submit(i->m->opening,
			   /* cannot fail: that queue is not limited */
			   &i->work);
}

void mirror_tidy(struct mirror *m)
{
	int64_t now = clock_now_ns();
	struct mirror_image *i = TAILQ_FIRST(&m->images), *next;

	for (; i; i = next) {
		next = TAILQ_NEXT(i, link);
		if (i->refs)
			continue;
		if (i->stage == IMAGE_NOTED && now - i->used_ns > NOTED_NS)
			image_free(i);
		else if (i->stage == IMAGE_OPEN && now - i->used_ns > KEEP_NS)
			image_close(i);
	}
}

void mirror_give_up(struct mirror *m)
{
	struct parked_request *q;
	struct mirror_image *i;

	m->is_ending = true;
	while ((q = TAILQ_FIRST(&m->parked))) {
		TAILQ_REMOVE(&m->parked, q, link);
		mirror_refuse(q->request);
		parked_free(q);
	}
	TAILQ_FOREACH(i, &m->images, link)
	{
		/* Leave a closing image alone: another thread has its layers. */
		for (size_t k = 0; i->stage == IMAGE_OPEN && k < i->p.n_layers;
		     k++)
			__atomic_store_n(&i->layers[k].cancel, true,
					 __ATOMIC_RELAXED);
	}
}

void mirror_images_free(struct mirror *m)
{
	struct mirror_image *i;

	while ((i = TAILQ_FIRST(&m->images))) {
		give_back_all(i);
		image_free(i);
	}
}
