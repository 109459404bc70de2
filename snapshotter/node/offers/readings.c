// SPDX-License-Identifier: Apache-2.0
/* Readings of layers that were unpacked, kept until the index of their image is made. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "common/log.h"
#include "snapshotter/convert/layer_reading.h"
#include "snapshotter/node/offers/offers_priv.h"

/* Time within which containerd begins to unpack an image's next layer. */
#define NEXT_NS (5 * NS_PER_S)

static bool is_layer_of(const struct offer_image *i, const struct digest *d)
{
	char name[DIGEST_STR_MAX];

	digest_format(d, name);
	return memmem(i->manifest.data, i->manifest.len, name, strlen(name)) !=
	       NULL;
}

/* Count the layer as one that is being unpacked, if its reading is wanted. */
static bool begin_unpacking(struct offers *o, const struct oci_descriptor *d)
{
	bool is = false;

	/* Only gzip needs a reading: spans of other layers are found at once, or never. */
	if (!strstr(d->media_type, "gzip"))
		return false;
	(void)pthread_mutex_lock(&o->lock);
	for (size_t k = 0; k < o->n && o->n_readings < OFFERS_READINGS; k++)
		is |= is_layer_of(&o->v[k], &d->digest);
	for (size_t k = 0; k < o->n_readings; k++)
		is &= !digest_equal(&o->readings[k].layer, &d->digest);
	o->n_unpacking += is;
	(void)pthread_mutex_unlock(&o->lock);
	return is;
}

/* Keep the reading `fd`, unless it is -1 or the list is full. */
static void end_unpacking(struct offers *o, const struct digest *layer,
			  uint64_t bytes, int fd)
{
	bool is_kept = false;

	(void)pthread_mutex_lock(&o->lock);
	o->n_unpacking--;
	o->unpacked_ns = clock_now_ns();
	if (fd >= 0 && o->n_readings < OFFERS_READINGS) {
		o->readings[o->n_readings++] = (struct kept_reading){
			.layer = *layer,
			.fd = fd,
			.bytes = bytes,
			.until_ns = o->unpacked_ns + OFFERS_PULL_NS,
		};
		is_kept = true;
	}
	(void)pthread_mutex_unlock(&o->lock);
	if (is_kept)
		return;
	if (fd >= 0)
		(void)close(fd);
	o->of.room->settle(o->of.room->disk, bytes, NULL);
}

struct layer_reading *offers_reading_begin(struct offers *o,
					   const struct oci_descriptor *d)
{
	struct layer_reading *r;
	struct error why = ERROR_INIT;
	uint64_t most = d->size / 8 + MIB;
	int rc;

	if (!o || !begin_unpacking(o, d))
		return NULL;
	rc = o->of.room->reserve(o->of.room->disk, most, &why);
	if (rc < 0)
		most = 0;
	if (rc == 0)
		rc = layer_reading_new(o->of.cfg->root, d, most, &r, &why);
	if (rc == 0)
		return r;
	log_debug("index", "a layer will be read again reason=\"%s\"", why.msg);
	end_unpacking(o, &d->digest, most, -1);
	return NULL;
}

void offers_reading_end(struct offers *o, struct layer_reading *r,
			const struct digest *diff_id, uint64_t plain)
{
	struct error why = ERROR_INIT;
	int fd = -1;

	if (!r)
		return;
	if (diff_id && layer_reading_end(r, diff_id, plain, &fd, &why) < 0)
		log_debug("index", "a layer will be read again reason=\"%s\"",
			  why.msg);
	end_unpacking(o, &r->layer, r->most, fd);
	layer_reading_free(r);
}

bool offers_is_unpacking(struct offers *o)
{
	bool is;

	(void)pthread_mutex_lock(&o->lock);
	is = o->n_unpacking ||
	     (o->unpacked_ns && clock_now_ns() < o->unpacked_ns + NEXT_NS);
	(void)pthread_mutex_unlock(&o->lock);
	return is;
}

int offers_reading_dup(struct offers *o, const struct digest *layer)
{
	int fd = -1;

	(void)pthread_mutex_lock(&o->lock);
	for (size_t k = 0; k < o->n_readings && fd < 0; k++)
		if (digest_equal(&o->readings[k].layer, layer))
			fd = fcntl(o->readings[k].fd, F_DUPFD_CLOEXEC, 3);
	(void)pthread_mutex_unlock(&o->lock);
	return fd;
}

/* Remove one reading that is not to be kept any longer. */
static bool pop_reading(struct offers *o, const struct offer_image *i,
			struct kept_reading *ret)
{
	int64_t now = clock_now_ns();
	bool found = false;

	(void)pthread_mutex_lock(&o->lock);
	for (size_t k = 0; k < o->n_readings && !found; k++) {
		*ret = o->readings[k];
		found = !i || now > ret->until_ns ||
			is_layer_of(i, &ret->layer);
		if (found)
			o->readings[k] = o->readings[--o->n_readings];
	}
	(void)pthread_mutex_unlock(&o->lock);
	return found;
}

void offers_readings_drop(struct offers *o, const struct offer_image *i)
{
	struct kept_reading r;

	while (pop_reading(o, i, &r)) {
		(void)close(r.fd);
		o->of.room->settle(o->of.room->disk, r.bytes, NULL);
	}
}
