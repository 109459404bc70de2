// SPDX-License-Identifier: Apache-2.0
/*
 * From a reference to an image on the node.
 *
 * The registry decides what a tag means now.  Only when it cannot be reached
 * at all does the node fall back to what the tag meant when it was last asked,
 * and says so; a registry that answers "no" (404, 401, 403) is obeyed.  An image
 * named by digest that the node has needs no registry.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "blockstore/span_map.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/side_by_side.h"
#include "image/erofs/erofs.h"
#include "snapshotter/node/control/content.h"
#include "snapshotter/node/control/disk.h"
#include "snapshotter/node/control/gc.h"
#include "snapshotter/node/control/prepare.h"
#include "snapshotter/node/images/image_index.h"
#include "snapshotter/node/images/map_file.h"
#include "snapshotter/node/node.h"
#include "snapshotter/node/offers/offers.h"
#include "snapshotter/node/parser/parser.h"
#include "snapshotter/node/peers/image_swarm.h"
#include "snapshotter/node/peers/metadata_swarm.h"
#include "snapshotter/node/starts/starts.h"
#include "snapshotter/node/traces/trace_lookup.h"
#include "snapshotter/node/trust/admission.h"

/* One reference being resolved. */
struct asked {
	struct oci_ref ref;
	char *name; /* "host/repo:tag" or "host/repo@digest": for messages */
	struct remote_call *call;
	char *alias; /* the name that leads to the image; NULL when a digest
	              * was given */
	bool pinned;
	bool of_image;        /* the digest is an image's, not an index's */
	struct digest digest; /* when pinned */
	bool plain_http;
};

static void asked_fini(struct asked *a)
{
	oci_ref_fini(&a->ref);
	free(a->name);
	free(a->alias);
}

static int asked_init(struct asked *a, const struct image_query *q,
		      struct error *err)
{
	char text[DIGEST_STR_MAX];
	int rc;

	*a = (struct asked){ .call = q->call, .plain_http = q->plain_http };
	rc = oci_ref_parse(q->ref, &a->ref, err);
	if (rc < 0)
		return rc;
	if (a->ref.transport != OCI_TRANSPORT_REGISTRY)
		return error_set(err, EINVAL,
				 "'%s': a node mounts images of registries "
				 "only; wanted: host[:port]/repo[:tag]",
				 q->ref);
	if (q->manifest)
		a->digest = *q->manifest;
	else if (a->ref.has_digest)
		a->digest = a->ref.digest;
	a->pinned = q->manifest || a->ref.has_digest;
	a->of_image = q->manifest;
	if (a->pinned) {
		digest_format(&a->digest, text);
		rc = asprintf(&a->name, "%s/%s@%s", a->ref.host, a->ref.repo,
			      text);
	} else {
		rc = asprintf(&a->name, "%s/%s:%s", a->ref.host, a->ref.repo,
			      a->ref.tag);
		a->alias = rc < 0 ? NULL : strdup(a->name);
	}
	if (rc < 0) {
		a->name = NULL;
		return error_nomem(err);
	}
	return 0;
}

/*
 * "host/repo@digest", the caller's.  The digest alone would not do: it does not
 * say which artifact belongs to the image, the repository does, so one that
 * somebody put into another repository must not be found here.
 */
static char *digest_name(const struct asked *a, const struct digest *d)
{
	char text[DIGEST_STR_MAX], *name;

	digest_format(d, text);
	return asprintf(&name, "%s/%s@%s", a->ref.host, a->ref.repo, text) < 0
		       ? NULL
		       : name;
}

static struct image *find_digest(struct node *n, const struct asked *a,
				 const struct digest *d)
{
	AUTO_FREE char *name = digest_name(a, d);

	return name ? images_by_name(n->images, name) : NULL;
}

static int add_digest_name(struct image *i, const struct asked *a,
			   const struct digest *d, struct error *err)
{
	AUTO_FREE char *name = digest_name(a, d);

	return name ? image_set_name(i, name, err) : error_nomem(err);
}

static bool is_unreachable(int rc)
{
	switch (-rc) {
	case EIO:
	case ETIMEDOUT:
	case EBUSY:
	case ECONNREFUSED:
	case ECONNRESET:
	case EHOSTUNREACH:
	case ENETUNREACH:
		return true;
	default:
		return false;
	}
}

/* ------------------------------------------------------------- manifests --- */

static int get_by_digest(struct oci_store *store, const struct digest *d,
			 struct oci_manifest *ret, struct error *err)
{
	char text[DIGEST_STR_MAX];

	digest_format(d, text);
	return oci_get_manifest(store, text, ret, err);
}

/* What the reference names: a manifest or an index. */
static int get_top(struct oci_store *store, const struct asked *a,
		   struct oci_manifest *ret, struct error *err)
{
	if (a->pinned)
		return get_by_digest(store, &a->digest, ret, err);
	return oci_get_manifest(store, a->ref.tag, ret, err);
}

/* Replace an index by the manifest of this machine's platform. */
static int descend(struct oci_store *store, struct oci_manifest *m,
		   struct error *err)
{
	struct oci_manifest below = { .body = BUF_INIT };
	struct digest d;
	int rc;

	if (!oci_media_type_is_index(m->media_type))
		return 0;
	rc = oci_index_find(store, m, NULL, &d, err);
	if (rc == 0)
		rc = get_by_digest(store, &d, &below, err);
	if (rc < 0)
		return rc;
	oci_manifest_fini(m);
	*m = below;
	if (oci_media_type_is_index(m->media_type)) {
		oci_manifest_fini(m);
		return error_set(err, EINVAL,
				 "an index that another index calls an image");
	}
	return 0;
}

int node_manifest(struct node *n, const struct image_query *q,
		  struct origin **ret_origin, struct oci_manifest *ret,
		  struct error *err)
{
	struct oci_manifest m = { .body = BUF_INIT };
	struct store_lease *lease = NULL;
	struct origin *origin = NULL;
	struct asked a;
	int rc;

	rc = asked_init(&a, q, err);
	if (rc == 0)
		rc = origin_get(n->origins, a.ref.host, a.ref.repo,
				q->plain_http, &origin, err);
	if (rc == 0)
		rc = origin_lease_paced(origin, &q->call->pace, &lease, err);
	if (rc == 0)
		rc = get_top(lease->store, &a, &m, err);
	if (rc == 0)
		rc = descend(lease->store, &m, err);
	if (rc < 0) {
		rc = remote_call_why(q->call, a.ref.host ? a.ref.host : "", rc,
				     err);
		error_wrap(err, rc, "image %s", a.name ? a.name : q->ref);
		oci_manifest_fini(&m);
		origin_put(origin);
	} else {
		*ret = m;
		*ret_origin = origin;
	}
	store_lease_end(lease);
	asked_fini(&a);
	return rc;
}

/* -------------------------------------------------------------- artifacts --- */

/* Do metadata image, block map and artifact agree? */
static int check_files(const struct artifact *a, const char *meta_path,
		       const char *map_path, struct error *err)
{
	struct map_file meta = MAP_FILE_INIT, map = MAP_FILE_INIT;
	struct erofs_image image;
	struct blockmap blocks;
	struct pack p;
	size_t i;
	int rc;

	rc = map_file_open(meta_path, &meta, err);
	if (rc == 0)
		rc = erofs_open(meta.data, meta.len, &image, err);
	if (rc == 0 &&
	    (image.n_devices != 1 || image.device_size != a->device_size))
		rc = error_set(err, EBADMSG,
			       "metadata image: its device is not the "
			       "artifact's");
	if (rc == 0 && image.n_inodes != a->n_inodes)
		rc = error_set(err, EBADMSG,
			       "metadata image: %llu inodes, the artifact "
			       "says %llu",
			       (unsigned long long)image.n_inodes,
			       (unsigned long long)a->n_inodes);
	if (rc == 0)
		rc = map_file_open(map_path, &map, err);
	if (rc == 0)
		rc = blockmap_open(map.data, map.len, &blocks, err);
	if (rc == 0 && (blocks.device_size != a->device_size ||
			blocks.n_packs != a->n_packs ||
			blockmap_is_index(&blocks) !=
				(a->format == ARTIFACT_FORMAT_INDEX)))
		rc = error_set(err, EBADMSG,
			       "block map: its form, size or number of packs "
			       "is not the artifact's");
	for (i = 0; rc == 0 && i < a->n_packs; i++) {
		blockmap_pack(&blocks, i, &p);
		if (!digest_equal(&p.digest, &a->packs[i].digest) ||
		    p.size != a->packs[i].size)
			rc = error_set(err, EBADMSG,
				       "block map: pack %zu is not the "
				       "artifact's",
				       i);
	}
	map_file_close(&meta);
	map_file_close(&map);
	return rc;
}

/* NULL: without. */
static struct metadata_swarm *join_metadata(struct node *n,
					    const struct metadata_swarm_of *of)
{
	struct error err = ERROR_INIT;
	struct metadata_swarm *m;

	if (metadata_swarm_open(n, of, &m, &err) < 0) {
		log_warning("p2p",
			    "image=\"%s\" metadata without peers "
			    "reason=\"%s\"",
			    of->label, err.msg);
		return NULL;
	}
	return m;
}

/* By peers, where there are any; without them if that fails, whatever the reason, but
 * that the node ends. */
static int fetch_files(struct parser *parser, struct metadata_swarm *m,
		       struct oci_store *store, const struct artifact *a,
		       struct pace *pace, const char *meta, const char *map,
		       struct error *err)
{
	const struct artifact_sources from = {
		.parser = parser_of_artifacts(parser),
	};
	struct error why = ERROR_INIT;
	int rc = m ? metadata_swarm_fetch(m, store, a, pace, meta, map, &why)
		   : 0;

	if (rc == -ECANCELED)
		return error_set(err, ECANCELED, "%s", why.msg);
	if (m && rc == 0)
		return 0;
	if (m)
		log_warning("prepare",
			    "metadata came from no peer reason=\"%s\" "
			    "action=\"read from the registry\"",
			    why.msg);
	return artifact_fetch(store, a, &from, meta, map, err);
}

/* What is put into a new image's folder. */
struct folder_filling {
	struct parser *parser;
	struct metadata_swarm *m; /* or NULL */
	struct oci_store *store;
	const struct artifact *artifact;
	struct pace *pace;
	const char *dir;
	char *meta, *map;
};

/* The texts wait for the disk while the files wait for the registry. */
static int prepare_fill(void *arg, unsigned int index, struct error *err)
{
	const struct folder_filling *f = arg;

	return index == 0 ? fetch_files(f->parser, f->m, f->store, f->artifact,
					f->pace, f->meta, f->map, err)
			  : images_stage_texts(f->dir, f->artifact, err);
}

int prepare_fetch(struct node *n, const struct metadata_swarm_of *of,
		  struct oci_store *store, struct pace *pace, const char *dir,
		  struct metadata_swarm **ret, struct error *err)
{
	AUTO_FREE char *meta = fs_join(dir, "meta.erofs");
	AUTO_FREE char *map = fs_join(dir, "blockmap");
	struct metadata_swarm *m;
	int rc;

	if (!meta || !map)
		return error_nomem(err);
	m = join_metadata(n, of);
	rc = side_by_side(2, prepare_fill,
			  &(struct folder_filling){ .parser = n->parser,
						    .m = m,
						    .store = store,
						    .artifact = of->artifact,
						    .pace = pace,
						    .dir = dir,
						    .meta = meta,
						    .map = map },
			  err);
	if (rc == 0)
		rc = check_files(of->artifact, meta, map, err);
	if (rc < 0)
		metadata_swarm_close(m);
	else
		*ret = m;
	return rc;
}

/* The same of an index that the service had: all of it is here. */
static int fetch_offer(struct node *n, const struct metadata_swarm_of *of,
		       struct oci_store *store, const struct offer_found *offer,
		       const char *dir, struct error *err)
{
	AUTO_FREE char *meta = fs_join(dir, "meta.erofs");
	AUTO_FREE char *map = fs_join(dir, "blockmap");
	AUTO(source) meta_source = NULL;
	AUTO(source) map_source = NULL;
	struct artifact_sources from = {
		.parser = parser_of_artifacts(n->parser),
	};
	int rc;

	if (!meta || !map)
		return error_nomem(err);
	rc = offer_found_keep(offer, dir, err);
	if (rc == 0)
		rc = offer_file_members(dir, &meta_source, &map_source, err);
	from.meta = meta_source;
	from.map = map_source;
	if (rc == 0)
		rc = artifact_fetch(store, of->artifact, &from, meta, map, err);
	if (rc == 0)
		rc = images_stage_texts(dir, of->artifact, err);
	return rc == 0 ? check_files(of->artifact, meta, map, err) : rc;
}

/* What was recorded of it is looked for while its files come. */
static struct trace_early *begin_search(struct node *n, const struct asked *q,
					const struct artifact *a,
					const struct digest *image)
{
	AUTO_FREE char *name = NULL;
	struct lookup_place place = { .host = q->ref.host,
				      .repo = q->ref.repo,
				      .plain_http = q->plain_http,
				      .image = *image };

	if (asprintf(&name, "%s/%s", q->ref.host, q->ref.repo) < 0) {
		name = NULL;
		return NULL;
	}
	place.name = name;
	return trace_early_begin(n->traces, &place, &a->image_config);
}

/* Take the folder into the table, with the names that lead to it: its manifest, `top`,
 * which may be the index that led there, and what was asked for. */
static int add_image(struct node *n, const struct asked *q,
		     const struct digest *top, const char *staged,
		     struct artifact *a, struct prepared *ret,
		     struct error *err)
{
	AUTO_FREE char *name = digest_name(q, &ret->manifest);
	AUTO_FREE char *top_name = digest_name(q, top);
	const char *const names[] = { name, top_name, q->alias };
	const struct image_place place = {
		.host = q->ref.host,
		.repo = q->ref.repo,
		.plain_http = q->plain_http,
		.names = names,
		.n_names = ARRAY_SIZE(names) - !q->alias,
	};

	if (!name || !top_name)
		return error_nomem(err);
	return images_add(n->images, staged, a, &place, &ret->image, err);
}

/* Have the artifact's files on the node.  Takes what `a` owns on success. `offer` NULL: they are
 * in the registry. */
static int fetch_image(struct node *n, struct oci_store *store,
		       const struct asked *q, const struct digest *top,
		       struct artifact *a, const struct offer_found *offer,
		       struct prepared *ret, struct error *err)
{
	const struct metadata_swarm_of of = {
		.artifact = a,
		.host = q->ref.host,
		.repo = q->ref.repo,
		.label = q->name,
		.plain_http = q->plain_http,
	};
	AUTO_FREE char *staged = NULL;
	struct metadata_swarm *m = NULL;
	struct error ignored;
	uint64_t room = 0;
	struct digest id;
	int rc;

	if (image_id_of(&a->digest, q->ref.host, q->ref.repo, &id) < 0)
		return error_nomem(err);
	rc = keyed_lock_enter_paced(n->gate, &id, NODE_GATE_TIMEOUT_NS,
				    &q->call->pace, err);
	if (rc < 0)
		return rc;
	ret->image = images_get(n->images, &id);
	if (ret->image && offer)
		rc = offer_found_renew(offer, ret->image, err);
	if (rc == 0 && ret->image && offer)
		image_forget_errors(ret->image);
	if (rc == 0 && ret->image && a->evidence.len > 0)
		rc = image_set_evidence(ret->image, &a->evidence, err);
	if (!ret->image) {
		room = artifact_disk_bytes(a);
		rc = node_collect_for_place(n, err);
		if (rc == 0)
			rc = disk_reserve(n->disk, room, err);
		if (rc < 0) {
			keyed_lock_leave(n->gate, &id);
			return rc;
		}
		ret->early = begin_search(n, q, a, &ret->manifest);
		rc = images_stage(n->images, &id, &staged, err);
		if (rc == 0)
			rc = offer ? fetch_offer(n, &of, store, offer, staged,
						 err)
				   : prepare_fetch(n, &of, store,
						   &q->call->pace, staged, &m,
						   err);
		if (rc == 0)
			rc = add_image(n, q, top, staged, a, ret, err);
		if (rc < 0 && staged && fs_remove_tree(staged, &ignored) < 0)
			log_warning("prepare", "leftover path=\"%s\"", staged);
		ret->source = PREPARE_REGISTRY;
		if (rc == 0)
			ret->image->is_checked = true;
		if (rc == 0)
			atomic_fetch_add(&n->events.prepares_fetched, 1);
		if (rc == 0)
			image_swarm_keep_metadata(ret->image, steal_ptr(&m));
		metadata_swarm_close(m);
		disk_settle(n->disk, room, rc == 0 ? ret->image->dir : NULL);
	}
	keyed_lock_leave(n->gate, &id);
	return rc;
}

/* ------------------------------------------------------------------- trust --- */

/* Asks admission.c of each artifact that the registry has for the image. */
struct prepare_judge {
	struct artifact_judge judge;
	struct node *node;
	const struct asked *asked;
	enum admission_reason *why;
};

static int prepare_judge_accept(struct artifact_judge *judge,
				struct oci_store *store,
				const struct digest *artifact,
				const struct digest *subject,
				struct buf *evidence, struct error *err)
{
	const struct prepare_judge *j =
		container_of(judge, struct prepare_judge, judge);
	const struct admission_query q = { .host = j->asked->ref.host,
					   .repo = j->asked->ref.repo,
					   .artifact = artifact,
					   .subject = subject,
					   .why = j->why };

	return admission_judge(j->node->admission, &q, store, evidence, err);
}

/* Of an image that is here: what allowed it may be over or revoked by now. */
static int recheck(struct node *n, struct prepared *p, struct error *err)
{
	int rc = admission_recheck(n->admission, p->image, &p->untrusted, err);

	if (rc < 0) {
		images_put(p->image);
		p->image = NULL;
	}
	return rc;
}

/* --------------------------------------------------------------- together --- */

/* Does `rc` say that the registry has no artifact that may be used here? */
static bool is_ordinary(int rc)
{
	return rc == -ENOENT || rc == -ADMISSION_REFUSED;
}

/*
 * The image has none in its registry, for `rc` and `err`: ask the service for an index.  Where
 * there is none either the image is ordinary for the same reason, and its index may be made.
 */
static int ask_service(struct node *n, const struct asked *q,
		       struct oci_store *store, const struct oci_manifest *m,
		       const struct digest *top, int rc, struct prepared *ret,
		       struct error *err)
{
	const struct offer_query query = {
		.host = q->ref.host,
		.repo = q->ref.repo,
		.plain_http = q->plain_http,
		.image = m,
		.store = store,
		.pace = &q->call->pace,
	};
	struct offer_found found = { .size = 0 };
	struct error why = ERROR_INIT;
	int taken;

	if (!n->offers || !is_ordinary(rc))
		return rc;
	taken = offers_find(n->offers, &query, &found, &why);
	if (taken < 0) {
		offers_note(n->offers, &query, taken);
		return rc;
	}
	taken = fetch_image(n, store, q, top, &found.artifact, &found, ret,
			    &why);
	if (taken == -EBADMSG) {
		log_warning("index",
			    "not used image=\"%s\" reason=\"%s\" "
			    "action=\"it starts the ordinary way\"",
			    q->name, why.msg);
		images_put(steal_ptr(&ret->image));
	} else {
		rc = taken;
		*err = why;
	}
	offer_found_fini(&found);
	return rc;
}

/* Ask the registry.  `ret->image` is set on success. */
static int ask(struct node *n, const struct asked *q, struct oci_store *store,
	       struct prepared *ret, struct error *err)
{
	struct oci_manifest m = { .body = BUF_INIT };
	struct artifact_early *early = NULL;
	struct artifact a = { .format = 0 };
	struct prepare_judge judge = {
		.judge = { .accept = prepare_judge_accept },
		.node = n,
		.asked = q,
		.why = &ret->untrusted,
	};
	struct error ignored = ERROR_INIT;
	struct digest top;
	bool is_here;
	int rc = 0;

	/* The digest that containerd's CRI names is an image's, whose manifest it has just pulled.
	 * Registries that have a quota count manifests.  Where it is not to be read,
	 * the artifacts are asked for beside it, a round trip earlier. */
	is_here = q->of_image &&
		  content_get_manifest(n->cfg->containerd_root, &q->digest, &m);
	if (q->of_image)
		early = artifact_early_begin(store, &q->digest, !is_here);
	if (!is_here)
		rc = get_top(store, q, &m, err);
	if (rc < 0) {
		artifact_early_free(early);
		return rc;
	}
	ret->answered = true;
	top = m.digest;
	ret->image = find_digest(n, q, &top);
	/* A newer signature may be there for one that is over: look for it. */
	if (ret->image)
		(void)!recheck(n, ret, &ignored);
	if (!ret->image)
		rc = descend(store, &m, err);
	ret->manifest = m.digest;
	if (rc == 0 && !ret->image && !digest_equal(&m.digest, &top)) {
		ret->image = find_digest(n, q, &m.digest);
		if (ret->image)
			(void)!recheck(n, ret, &ignored);
	}
	if (rc == 0 && !ret->image) {
		ret->untrusted = ADMISSION_UNKNOWN;
		rc = artifact_find_of(store, &m, &judge.judge, early, &a, err);
		ret->resolved_ns = clock_now_ns();
		if (rc == 0)
			rc = fetch_image(n, store, q, &top, &a, NULL, ret, err);
		else
			rc = ask_service(n, q, store, &m, &top, rc, ret, err);
		artifact_fini(&a);
		if (rc == 0)
			rc = add_digest_name(ret->image, q, &m.digest, err);
		if (rc == 0)
			rc = add_digest_name(ret->image, q, &top, err);
	}
	if (rc == 0 && q->alias)
		rc = image_set_name(ret->image, q->alias, err);
	artifact_early_free(early);
	oci_manifest_fini(&m);
	return rc;
}

static int ask_registry(struct node *n, const struct asked *q,
			struct prepared *ret, struct error *err)
{
	struct origin *origin = NULL;
	struct store_lease *lease = NULL;
	int rc;

	rc = origin_get(n->origins, q->ref.host, q->ref.repo, q->plain_http,
			&origin, err);
	if (rc == 0)
		rc = origin_lease_paced(origin, &q->call->pace, &lease, err);
	if (rc == 0)
		rc = ask(n, q, lease->store, ret, err);
	store_lease_end(lease);
	origin_put(origin);
	return remote_call_why(q->call, q->ref.host, rc, err);
}

/* The registry is out of reach for `rc`: what did the tag name last? */
static int take_stale(struct node *n, const struct asked *a, int rc,
		      struct prepared *ret, const struct error *why)
{
	struct error untrusted = ERROR_INIT;

	ret->image = images_by_name(n->images, a->alias);
	if (!ret->image)
		return rc;
	if (recheck(n, ret, &untrusted) < 0)
		return rc;
	ret->warning = *why;
	ret->manifest = image_manifest(ret->image);
	ret->source = PREPARE_STALE;
	atomic_fetch_add(&n->events.prepares_stale, 1);
	log_warning("prepare",
		    "stale image=\"%s\" reason=\"%s\" action=\"took what the "
		    "tag named when the registry was last asked\"",
		    a->name, why->msg);
	return 0;
}

/* That an image was never converted, or its name is wrong, is an answer. */
static bool is_fault(int rc)
{
	return rc < 0 && rc != -ENOENT && rc != -EINVAL &&
	       rc != -ADMISSION_REFUSED;
}

int node_prepare(struct node *n, const struct image_query *q,
		 struct prepared *ret, struct error *err)
{
	struct prepared p = { .source = PREPARE_NODE };
	const struct policy_rule *rule = NULL;
	struct error ignored = ERROR_INIT;
	int64_t begin_ns = clock_now_ns();
	struct asked a;
	int rc;

	rc = asked_init(&a, q, err);
	if (rc == 0)
		rule = admission_rule(n->admission, a.ref.host, a.ref.repo,
				      &p.untrusted, err);
	if (rc == 0 && !rule)
		rc = -ADMISSION_REFUSED;
	if (rc == 0 && a.pinned) {
		p.image = find_digest(n, &a, &a.digest);
		p.manifest = a.digest;
		if (p.image)
			(void)!recheck(n, &p, &ignored);
	}
	if (rc == 0 && !p.image && !q->call) {
		asked_fini(&a);
		return error_set(err, EINPROGRESS, "the registry is needed");
	}
	atomic_fetch_add(&n->events.prepares, 1);
	if (rc == 0 && !p.image) {
		rc = ask_registry(n, &a, &p, err);
		if (rc < 0) {
			trace_early_drop(steal_ptr(&p.early));
			images_put(p.image);
			p.image = NULL;
		}
	}
	if (is_unreachable(rc) && a.alias && !p.answered)
		rc = take_stale(n, &a, rc, &p, err);
	if (is_fault(rc))
		atomic_fetch_add(&n->events.prepares_failed, 1);
	if (rc == -ADMISSION_REFUSED) {
		atomic_fetch_add(&n->events.prepares_untrusted, 1);
		admission_note(n->admission, q->ref, p.untrusted, err);
	} else if (rc == -EACCES) {
		admission_note(n->admission, q->ref, ADMISSION_NO_LOGIN, err);
	} else if (is_unreachable(rc)) {
		admission_note(n->admission, q->ref, ADMISSION_NO_ANSWER, err);
	}
	if (rc < 0) {
		error_wrap(err, rc, "image %s", a.name ? a.name : q->ref);
	} else {
		admission_settle(n->admission, q->ref);
		p.scope = rule->prefix;
		if (p.answered && !p.resolved_ns)
			p.resolved_ns = clock_now_ns();
		starts_note_asked(n, p.image, begin_ns, p.resolved_ns);
		*ret = p;
		image_touch(p.image);
	}
	asked_fini(&a);
	return rc;
}
