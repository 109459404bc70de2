// SPDX-License-Identifier: Apache-2.0
/* Reads ranges of a file. The data node to which a block's first request was redirected serves
 * all later ranges of the block, which saves a request to the name node. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "objects/hdfs/hdfs_store_priv.h"

/* Blocks of a file whose data nodes are remembered, at most. */
#define BLOCKS_MAX 65536u

struct hdfs_object {
	struct object base;
	uint64_t block_size;
	size_t n_blocks;
	pthread_mutex_t lock; /* protects places */
	char **places; /* URL of the redirect for each block; NULL: unknown */
};

static struct hdfs_object *hdfs_object_of(struct object *o)
{
	return container_of(o, struct hdfs_object, base);
}

int hdfs_store_open_object(struct object_store *s, const char *name,
			   struct object **ret, struct error *err)
{
	struct hdfs_object *o = calloc(1, sizeof(*o));
	struct hdfs_status st;
	int rc;

	if (!o)
		return error_nomem(err);
	(void)pthread_mutex_init(&o->lock, NULL);
	rc = store_object_init(&o->base, s, name, err);
	if (rc == 0)
		rc = hdfs_look(hdfs_store_of(s), name, &st, err);
	if (rc == 0 && !st.is_file)
		rc = error_set(err, ENOENT, "it is a folder");
	if (rc == 0) {
		hdfs_stat_fill(&st, &o->base.stat);
		o->block_size = st.block_size ? st.block_size : 128 * MIB;
		o->n_blocks = (size_t)(st.size / o->block_size) + 1;
		if (o->n_blocks > BLOCKS_MAX)
			o->n_blocks = BLOCKS_MAX;
		o->places = calloc(o->n_blocks, sizeof(*o->places));
		rc = o->places ? 0 : error_nomem(err);
	}
	if (rc == 0)
		*ret = &o->base;
	else
		hdfs_store_close(&o->base);
	return rc;
}

void hdfs_store_close(struct object *base)
{
	struct hdfs_object *o = hdfs_object_of(base);

	for (size_t i = 0; o->places && i < o->n_blocks; i++)
		free(o->places[i]);
	free(o->places);
	(void)pthread_mutex_destroy(&o->lock);
	store_object_fini(base);
	free(o);
}

static size_t block_index_at(const struct hdfs_object *o, uint64_t off)
{
	return (size_t)(off / o->block_size) % o->n_blocks;
}

static char *copy_block_location(struct hdfs_object *o, uint64_t off)
{
	char *place;

	(void)pthread_mutex_lock(&o->lock);
	place = o->places[block_index_at(o, off)];
	if (place)
		place = strdup(place);
	(void)pthread_mutex_unlock(&o->lock);
	return place;
}

/* Set the block's data node; takes `place`; NULL: unknown. */
static void set_block_location(struct hdfs_object *o, uint64_t off, char *place)
{
	char **at = &o->places[block_index_at(o, off)];
	char *old;

	(void)pthread_mutex_lock(&o->lock);
	old = *at;
	*at = place;
	(void)pthread_mutex_unlock(&o->lock);
	free(old);
}

struct hdfs_range_sink {
	struct http_sink base;
	struct fetch_try *try;
};

static int take_body(struct http_sink *base, const struct http_response *resp,
		     const void *data, size_t len, struct error *err)
{
	struct hdfs_range_sink *s =
		container_of(base, struct hdfs_range_sink, base);

	(void)resp;
	return fetch_put(s->try, data, len, err);
}

/* Fetch by way of the name node, which names a data node. */
static int fetch_anew(struct hdfs_object *o, struct fetch_try *t,
		      struct hdfs_request *r, const char *not_here,
		      struct http_response *resp, struct retry_verdict *v,
		      struct error *err)
{
	AUTO_BUF params = BUF_INIT;
	char *moved = NULL;
	uint64_t from = t->pos;
	int rc = buf_printf(&params, "&offset=%" PRIu64 "&length=%" PRIu64,
			    t->pos, t->end - t->pos);

	if (rc < 0)
		return error_nomem(err);
	r->params = params.data;
	r->moved = &moved;
	r->not_at = not_here;
	rc = hdfs_try(hdfs_store_of(t->object->store), r, resp, v, err);
	if (rc == 0 && moved && !t->is_hedge)
		set_block_location(o, from, moved);
	else
		free(moved);
	return rc;
}

static int fetch_again(struct fetch_try *t, const struct hdfs_request *r,
		       const char *place, struct http_response *resp,
		       struct retry_verdict *v, struct error *err)
{
	AUTO_BUF url = BUF_INIT;

	if (hdfs_url_range(place, t->pos, t->end - t->pos, &url) < 0)
		return error_nomem(err);
	return hdfs_try_url(hdfs_store_of(t->object->store), url.data, r, resp,
			    v, err);
}

static int fetch_range(struct fetch_try *t, struct retry_verdict *v,
		       struct error *err)
{
	struct hdfs_object *o = hdfs_object_of(t->object);
	struct hdfs_range_sink sink = { .base.put = take_body, .try = t };
	AUTO_FINI(http_response) resp = HTTP_RESPONSE_INIT;
	struct hdfs_request r = {
		.method = "GET",
		.op = "OPEN",
		.name = t->object->name,
		.sink = &sink.base,
		.pace = &t->pace,
		.deadline_ns = t->until_ns,
	};
	uint64_t from = t->pos;
	AUTO_FREE char *place = copy_block_location(o, from);
	int rc;

	if (place && !t->is_hedge) {
		rc = fetch_again(t, &r, place, &resp, v, err);
		/* Its token or the node itself may be gone: ask the name node. */
		if (rc < 0 && rc != -ECANCELED) {
			set_block_location(o, from, NULL);
			v->can_retry = v->at_once = true;
		}
	} else {
		rc = fetch_anew(o, t, &r, place, &resp, v, err);
	}
	if (rc == -ENOENT)
		rc = error_set(err, ESTALE,
			       "it was replaced or removed while it was read");
	if (rc == 0 && t->pos < t->end) {
		v->can_retry = true;
		rc = error_set(err, EIO, "the answer ends at byte %" PRIu64,
			       t->pos);
	}
	return rc;
}

/* Check that the file is still the one opened: HDFS reads by name, so another file may have got
 * the name meanwhile. */
static int check_version(struct object *o, struct error *err)
{
	struct object_stat now;
	int rc = hdfs_store_stat(o->store, o->name, &now, err);

	if (rc < 0 && rc != -ENOENT)
		return rc;
	if (rc < 0 || strcmp(now.tag, o->stat.tag) != 0)
		return error_set(err, ESTALE,
				 "it was replaced or removed while it was "
				 "read");
	return 0;
}

int hdfs_store_read(struct object *o, const struct object_range *ranges,
		    size_t n, int64_t deadline_ns, struct error *err)
{
	int rc = fetch_ranges(o, hdfs_store_of(o->store)->history, fetch_range,
			      ranges, n, deadline_ns, err);

	/* A range beyond the end may also mean that the file was replaced. */
	if (rc < 0 && rc != -EIO && rc != -ENOENT)
		return rc;
	if (rc < 0)
		return check_version(o, NULL) == -ESTALE ? check_version(o, err)
							 : rc;
	return o->store->cfg.is_write_once ? 0 : check_version(o, err);
}
