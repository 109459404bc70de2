// SPDX-License-Identifier: Apache-2.0
/*
 * Starts of containers on lazy images. bootseerd is told before the container runs, so that it
 * can fetch the blocks that the start needs, and learn which ones it reads.
 */
#include <inttypes.h>
#include <string.h>

#include "common/log.h"
#include "containerd-plugin/snapshots_priv.h"

#define LABEL_WORKLOAD "containerd.io/snapshot/bootseer.workload"
#define LABEL_WAIT "containerd.io/snapshot/bootseer.wait"
#define LABEL_READY_FILE "containerd.io/snapshot/bootseer.ready-file"

/* Is it a container's snapshot? Those have the container's id as name; snapshots for
 * unpacking a layer or chowning an image have not. */
static bool is_container(const struct snapshot *snap)
{
	return snap->kind == SNAPSHOT_KIND_ACTIVE &&
	       !snapshots_is_layer(snap) && !snapshots_is_remap_key(snap->name);
}

/* Path that the container's bundle will have; NULL: unknown. */
static char *bundle_path(const struct snapshots *s, const char *name)
{
	const char *key = snapshots_client_key(name),
		   *state = s->config.containerd_state;
	int ns_len = (int)strcspn(name, "/");
	char *path;

	/* The client chose the id, so check that it is a single component of a path. */
	if (!*state || !key || !*key || strchr(key, '/') || key[0] == '.')
		return NULL;
	return asprintf(&path, "%s/io.containerd.runtime.v2.task/%.*s/%s",
			state, ns_len, name, key) < 0
		       ? NULL
		       : path;
}

static void note_started(struct snapshots *s, uint64_t id)
{
	pthread_mutex_lock(&s->lock);
	s->started[s->next_started++ % STARTED_MAX] = id;
	pthread_mutex_unlock(&s->lock);
}

const struct snapshot *snapshots_start_on(const struct snapshot *snap,
					  const struct snapshot *chain,
					  size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (chain[i].has_tree)
			return is_container(snap) ? &chain[i] : NULL;
	return NULL;
}

void snapshots_start(struct snapshots *s, const struct snapshot *snap,
		     const struct snapshot *top)
{
	AUTO_FREE char *upper = snapshots_path(s, snap->id, "fs");
	AUTO_FREE char *bundle = bundle_path(s, snap->name);
	struct image_start start = {
		.workload = labels_get(&snap->labels, LABEL_WORKLOAD),
		.wait = labels_get(&snap->labels, LABEL_WAIT),
		.ready_file = labels_get(&snap->labels, LABEL_READY_FILE),
		.upper = upper,
		.bundle = bundle,
	};
	struct error err = ERROR_INIT;

	if (!upper)
		return;
	/* Noted before the call, as the start also counts if the answer comes too late. */
	note_started(s, snap->id);
	if (images_start(s->images, &top->tree, snap->id, &start, &err) < 0)
		log_warning("snapshots",
			    "started without prefetch: snapshot=\"%s\" "
			    "reason=\"%s\"",
			    snap->name, err.msg);
}

void snapshots_start_end(struct snapshots *s, uint64_t id)
{
	struct error err = ERROR_INIT;
	bool was = false;
	size_t i;

	pthread_mutex_lock(&s->lock);
	for (i = 0; i < STARTED_MAX && !was; i++) {
		was = s->started[i] == id;
		if (was)
			s->started[i] = 0;
	}
	pthread_mutex_unlock(&s->lock);
	if (!was || images_start_end(s->images, id, &err) == 0)
		return;
	/* bootseerd ends unannounced starts with their window; so when it does not answer,
	 * do not wait for it again for the other starts. */
	pthread_mutex_lock(&s->lock);
	memset(s->started, 0, sizeof(s->started));
	pthread_mutex_unlock(&s->lock);
	log_info("snapshots",
		 "start not ended: snapshot=%" PRIu64 " reason=\"%s\"", id,
		 err.msg);
}
