// SPDX-License-Identifier: Apache-2.0
/*
 * From a reference to an image on the node, by the steps of prepare.h.
 *
 * The registry decides what a tag means now.  Only when it cannot be reached
 * at all does the node fall back to what the tag meant when it was last asked,
 * and says so; a registry that answers "no" (404, 401, 403) is obeyed.  An image
 * named by digest that the node has needs no registry.
 */
#include "snapshotter/node/control/prepare.h"

#include <errno.h>

#include "common/clock.h"
#include "common/log.h"
#include "snapshotter/node/constants.h"
#include "snapshotter/node/control/admit.h"
#include "snapshotter/node/control/fetch.h"
#include "snapshotter/node/control/gc.h"
#include "snapshotter/node/images/image_index.h"
#include "snapshotter/node/starts/starts.h"
#include "snapshotter/node/traces/trace_lookup.h"

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

/* Give `ret` the image `i` (a use, which is taken; NULL: none), if it is admitted. */
static void use_admitted_image(struct node *n, struct image *i,
			       struct prepared *ret)
{
	struct error ignored = ERROR_INIT;

	if (i && admission_recheck(n->admission, i, &ret->untrusted,
				   &ret->scope, &ignored) == 0)
		ret->image = i;
	else
		images_put(i);
}

static void use_image_on_node(struct node *n, const struct image_name *name,
			      const struct digest *d, struct prepared *ret)
{
	use_admitted_image(n, image_name_find(name, n->images, d), ret);
}

static int add_digest_name(struct image *i, const struct image_name *n,
			   const struct digest *d, struct error *err)
{
	AUTO_FREE char *name = image_name_of_digest(n, d);

	return name ? image_set_name(i, name, err) : error_nomem(err);
}

/* --------------------------------------------------------- --- with the registry --- */

/* The state of one preparation: each step reads the results of the steps before. */
struct preparation {
	struct node *n;
	const struct image_name *name;
	struct oci_store *store; /* the image's repository */
	struct resolved resolved;
	struct admitted admitted;
	/* once `ret->image` is set, no more steps are needed */
	struct prepared *ret;
};

static int preparation_resolve(struct preparation *p, struct error *err)
{
	struct resolved *r = &p->resolved;
	int rc = resolve_top(p->name, p->store, p->n->cfg->containerd_root, r,
			     err);

	if (rc < 0)
		return rc;
	p->ret->answered = true;
	/* If the image's signature has expired, use_image_on_node() leaves it out: the registry may
	 * have a newer signature. */
	use_image_on_node(p->n, p->name, &r->top, p->ret);
	if (!p->ret->image)
		rc = resolve_platform(r, p->store, err);
	p->ret->manifest = r->manifest.digest;
	if (rc == 0 && !p->ret->image &&
	    !digest_equal(&p->ret->manifest, &r->top))
		use_image_on_node(p->n, p->name, &p->ret->manifest, p->ret);
	return rc;
}

/* Find an artifact, as the node has no usable image of this manifest. */
static int preparation_admit(struct preparation *p, struct error *err)
{
	const struct admit_request request = {
		.name = p->name,
		.resolved = &p->resolved,
		.store = p->store,
		.admission = p->n->admission,
		.offers = p->n->offers,
	};
	int rc =
		admit_artifact(&request, &p->admitted, &p->ret->untrusted, err);

	p->ret->resolved_ns = p->admitted.decided_ns;
	return rc;
}

/* Begin to look for the image's traces while its files are fetched. */
static struct trace_early *begin_search(struct preparation *p)
{
	const struct image_name *n = p->name;
	AUTO_FREE char *name = NULL;
	struct lookup_place place = { .host = n->ref.host,
				      .repo = n->ref.repo,
				      .plain_http = n->plain_http,
				      .image = p->ret->manifest };

	if (asprintf(&name, "%s/%s", n->ref.host, n->ref.repo) < 0) {
		name = NULL;
		return NULL;
	}
	place.name = name;
	return trace_early_begin(p->n->traces, &place,
				 &admitted_artifact(&p->admitted)
					  ->image_config);
}

/* The node has the artifact's image already, under another name or with an older signature: add
 * the new name and signature. */
static int renew_image(struct image *i, struct admitted *a, struct error *err)
{
	const struct buf *evidence = &admitted_artifact(a)->evidence;
	int rc = a->is_offer ? offer_found_renew(&a->offer, i, err) : 0;

	if (rc == 0 && a->is_offer)
		image_forget_errors(i);
	if (rc == 0 && evidence->len > 0)
		rc = image_set_evidence(i, evidence, err);
	return rc;
}

/* Fetch the image `id`; its gate is held. */
static int fetch_new(struct preparation *p, const struct digest *id,
		     struct error *err)
{
	const struct image_name *name = p->name;
	struct node *n = p->n;
	AUTO_FREE char *own = image_name_of_digest(name, &p->ret->manifest);
	AUTO_FREE char *top = image_name_of_digest(name, &p->resolved.top);
	const char *const names[] = { own, top, name->alias };
	const struct image_place place = {
		.host = name->ref.host,
		.repo = name->ref.repo,
		.plain_http = name->plain_http,
		.names = names,
		.n_names = ARRAY_SIZE(names) - !name->alias,
	};
	const struct fetch_request request = {
		.artifact = admitted_artifact(&p->admitted),
		.id = id,
		.store = p->store,
		.place = &place,
		.label = name->text,
		.offer = p->admitted.is_offer ? &p->admitted.offer : NULL,
		.pace = &name->call->pace,
		.disk = n->disk,
		.images = n->images,
		.parser = n->parser,
		.peers = n->peers,
	};
	int rc;

	if (!own || !top)
		return error_nomem(err);
	p->ret->early = begin_search(p);
	p->ret->source = PREPARE_REGISTRY;
	rc = gc_make_place(&n->gc, err);
	if (rc == 0)
		rc = fetch_image(&request, &p->ret->image, err);
	if (rc == 0)
		atomic_fetch_add(&n->events.prepares_fetched, 1);
	return rc;
}

static int find_or_fetch_image(struct preparation *p, struct error *err)
{
	const struct image_name *name = p->name;
	struct node *n = p->n;
	struct digest id;
	int rc;

	if (image_id_of(&admitted_artifact(&p->admitted)->digest,
			name->ref.host, name->ref.repo, &id) < 0)
		return error_nomem(err);
	rc = keyed_lock_enter_paced(n->gate, &id, NODE_GATE_TIMEOUT_NS,
				    &name->call->pace, err);
	if (rc < 0)
		return rc;
	p->ret->image = images_get(n->images, &id);
	rc = p->ret->image ? renew_image(p->ret->image, &p->admitted, err)
			   : fetch_new(p, &id, err);
	keyed_lock_leave(n->gate, &id);
	return rc;
}

/* An index of the service turned out to be wrong: that is no failure, the image starts the
 * ordinary way, as if the service had no index. */
static int drop_wrong_offer(struct preparation *p, struct error *err)
{
	log_warning("index",
		    "not used image=\"%s\" reason=\"%s\" "
		    "action=\"it starts the ordinary way\"",
		    p->name->text, err->msg);
	images_put(steal_ptr(&p->ret->image));
	*err = p->admitted.registry_err;
	return p->admitted.registry_rc;
}

static int preparation_fetch(struct preparation *p, struct error *err)
{
	const struct digest *manifest = &p->resolved.manifest.digest;
	int rc = find_or_fetch_image(p, err);

	if (rc == -EBADMSG && p->admitted.is_offer)
		rc = drop_wrong_offer(p, err);
	if (rc == 0)
		rc = add_digest_name(p->ret->image, p->name, manifest, err);
	return rc < 0 ? rc
		      : add_digest_name(p->ret->image, p->name,
					&p->resolved.top, err);
}

/* Prepare the image with its repository; `ret->image` is set on success. */
static int prepare_by_store(struct node *n, const struct image_name *name,
			    struct oci_store *store, struct prepared *ret,
			    struct error *err)
{
	struct preparation p = { .n = n,
				 .name = name,
				 .store = store,
				 .resolved = RESOLVED_INIT,
				 .ret = ret };
	int rc = preparation_resolve(&p, err);

	if (rc == 0 && !ret->image)
		rc = preparation_admit(&p, err);
	if (rc == 0 && !ret->image)
		rc = preparation_fetch(&p, err);
	if (rc == 0 && name->alias)
		rc = image_set_name(ret->image, name->alias, err);
	admitted_fini(&p.admitted);
	resolved_fini(&p.resolved);
	return rc;
}

static int ask_registry(struct node *n, const struct image_name *name,
			struct prepared *ret, struct error *err)
{
	struct origin *origin = NULL;
	struct store_lease *lease = NULL;
	int rc = origin_get(n->origins, name->ref.host, name->ref.repo,
			    name->plain_http, &origin, err);

	if (rc == 0)
		rc = origin_lease_paced(origin, &name->call->pace, &lease, err);
	if (rc == 0)
		rc = prepare_by_store(n, name, lease->store, ret, err);
	store_lease_end(lease);
	origin_put(origin);
	return remote_call_why(name->call, name->ref.host, rc, err);
}

/* ----------------------------------------------------------- --- all cases --- */

/* The registry cannot be reached, for the reason `rc`: take the image that the tag named last. */
static int use_stale_image(struct node *n, const struct image_name *name,
			   int rc, struct prepared *ret,
			   const struct error *why)
{
	use_admitted_image(n, images_by_name(n->images, name->alias), ret);
	if (!ret->image)
		return rc;
	ret->warning = *why;
	ret->manifest = image_manifest(ret->image);
	ret->source = PREPARE_STALE;
	atomic_fetch_add(&n->events.prepares_stale, 1);
	log_warning("prepare",
		    "stale image=\"%s\" reason=\"%s\" action=\"took what the "
		    "tag named when the registry was last asked\"",
		    name->text, why->msg);
	return 0;
}

/* Is `rc` a failure?  An image that was never converted or whose name is invalid is an answer. */
static bool is_preparation_failure(int rc)
{
	return rc < 0 && rc != -ENOENT && rc != -EINVAL &&
	       rc != -ADMISSION_REFUSED;
}

/* Count a failure, and remember why the image starts the ordinary way. */
static void note_failure(struct node *n, const char *ref, int rc,
			 enum admission_reason untrusted,
			 const struct error *err)
{
	if (is_preparation_failure(rc))
		atomic_fetch_add(&n->events.prepares_failed, 1);
	if (rc == -ADMISSION_REFUSED) {
		atomic_fetch_add(&n->events.prepares_untrusted, 1);
		admission_note(n->admission, ref, untrusted, err);
	} else if (rc == -EACCES) {
		admission_note(n->admission, ref, ADMISSION_NO_LOGIN, err);
	} else if (is_unreachable(rc)) {
		admission_note(n->admission, ref, ADMISSION_NO_ANSWER, err);
	}
}

int node_prepare(struct node *n, const struct image_query *q,
		 struct prepared *ret, struct error *err)
{
	struct prepared p = { .source = PREPARE_NODE };
	const struct policy_rule *rule = NULL;
	int64_t begin_ns = clock_now_ns();
	struct image_name name;
	int rc = image_name_init(&name, q, err);

	if (rc == 0)
		rule = admission_rule(n->admission, name.ref.host,
				      name.ref.repo, &p.untrusted, err);
	if (rc == 0 && !rule)
		rc = -ADMISSION_REFUSED;
	if (rc == 0 && name.pinned) {
		p.manifest = name.digest;
		use_image_on_node(n, &name, &name.digest, &p);
	}
	if (rc == 0 && !p.image && !q->call) {
		image_name_fini(&name);
		return error_set(err, EINPROGRESS, "the registry is needed");
	}
	atomic_fetch_add(&n->events.prepares, 1);
	if (rc == 0 && !p.image) {
		rc = ask_registry(n, &name, &p, err);
		if (rc < 0) {
			trace_early_drop(steal_ptr(&p.early));
			images_put(p.image);
			p.image = NULL;
		}
	}
	if (is_unreachable(rc) && name.alias && !p.answered)
		rc = use_stale_image(n, &name, rc, &p, err);
	if (rc < 0) {
		note_failure(n, q->ref, rc, p.untrusted, err);
		error_wrap(err, rc, "image %s", name.text ? name.text : q->ref);
	} else {
		admission_settle(n->admission, q->ref);
		p.scope = rule->prefix;
		if (p.answered && !p.resolved_ns)
			p.resolved_ns = clock_now_ns();
		starts_note_asked(n->starts, p.image, begin_ns, p.resolved_ns);
		*ret = p;
		image_touch(p.image);
	}
	image_name_fini(&name);
	return rc;
}
