// SPDX-License-Identifier: Apache-2.0
/* Asking the service for the index of an image. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base64.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/json.h"
#include "common/log.h"
#include "common/temp_file.h"
#include "snapshotter/node/images/origin.h"
#include "snapshotter/node/offers/offers_priv.h"

/* A start gives up an index whose bytes, after SLOW_NS, come slower than this. */
#define SLOW_BPS (1 << 20)
#define SLOW_NS (10 * NS_PER_S)
#define LIST_MAX (512u << 10) /* bytes of the list: eight signatures */
#define OFFERS_LOOKED_AT 8
#define SILENT_NS (30 * NS_PER_S)

/* ----------------------------------------------------------------------- calls --- */

static int format_path(const struct offer_call *c, struct buf *ret)
{
	char text[DIGEST_STR_MAX];
	int rc;

	digest_format(c->image, text);
	rc = buf_printf(ret, "/v1/indexes/%s%s", text, c->below);
	if (rc == 0)
		rc = service_client_param(ret, "repo", c->repo);
	if (rc == 0 && c->artifact) {
		digest_format(c->artifact, text);
		rc = service_client_param(ret, "artifact", text);
	}
	if (rc == 0)
		rc = service_client_param(ret, "offer", c->offer);
	return rc == 0 ? service_client_param(ret, "parts", c->parts) : rc;
}

static int do_call(struct offers *o, const struct offer_call *c,
		   struct service_request *r, struct service_answer *a,
		   struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	AUTO_BUF pull = BUF_INIT;
	AUTO_BUF node = BUF_INIT;
	size_t n = 0;

	if (format_path(c, &path) < 0 ||
	    buf_printf(&pull, "Bootseer-Pull: %s",
		       c->authorization ? c->authorization : "") < 0 ||
	    buf_printf(&node, "Bootseer-Node: %s", o->name) < 0)
		return error_nomem(err);
	if (strcmp(c->method, "GET") != 0)
		r->headers[n++] = node.data;
	if (c->authorization)
		r->headers[n++] = pull.data;
	if (c->body)
		r->headers[n++] = "Content-Type: application/octet-stream";
	r->path = path.data;
	return service_client_do(c->is_list ? o->asked : o->client, r, a, err);
}

static bool is_silent(struct offers *o)
{
	bool silent;

	(void)pthread_mutex_lock(&o->lock);
	silent = clock_now_ns() < o->silent_until_ns;
	(void)pthread_mutex_unlock(&o->lock);
	return silent;
}

/* Note whether the service answers: while it is away, starts do not wait for it one after the
 * other. */
static void note_answer(struct offers *o, int rc)
{
	bool is_away = rc == -ETIMEDOUT || rc == -ECONNREFUSED || rc == -EIO ||
		       rc == -EHOSTUNREACH || rc == -ENETUNREACH;

	if (!is_away)
		return;
	(void)pthread_mutex_lock(&o->lock);
	o->silent_until_ns = clock_now_ns() + SILENT_NS;
	(void)pthread_mutex_unlock(&o->lock);
}

int offers_call(struct offers *o, const struct offer_call *c, struct buf *ret,
		struct error *err)
{
	struct service_request r = {
		.method = c->method,
		.body = c->body,
		.body_len = c->body_len,
	};
	struct service_answer a = { .head = HTTP_RESPONSE_INIT,
				    .body = { .limit = ret->limit } };
	int rc;

	/* Only GET is refused: parts to be sent took up to an hour to make, and no start waits
	 * for them. */
	if (strcmp(c->method, "GET") == 0 && is_silent(o))
		return error_set(err, EBUSY,
				 "the service did not answer a moment ago");
	rc = do_call(o, c, &r, &a, err);
	note_answer(o, rc);
	if (rc == 0) {
		*ret = a.body;
		a.body = (struct buf)BUF_INIT;
	}
	service_answer_fini(&a);
	return rc;
}

int offers_authorization(const struct offers *o, struct oci_store *store,
			 const struct digest *image, struct pace *pace,
			 char **ret, struct error *err)
{
	AUTO_FREE char *header = NULL;
	int rc = oci_authorization(store, image, pace, &header, err);

	if (rc == 0 && header && !o->is_private)
		return error_set(err, EACCES,
				 "credentials are not told to the service: it "
				 "is no https://");
	if (rc == 0)
		*ret = steal_ptr(&header);
	return rc;
}

/* ----------------------------------------------------- --- asking for an index --- */

enum policy_mode offers_mode(const struct offers *o, const char *host,
			     const char *repo)
{
	AUTO_FREE char *name = origin_place(host, repo);
	const struct policy_rule *r =
		o && name ? policy_find(&o->policy, name) : NULL;

	return r ? r->mode : POLICY_OFF;
}

void offer_found_fini(struct offer_found *f)
{
	artifact_fini(&f->artifact);
	if (f->size) {
		(void)close(f->fd);
		f->room->settle(f->room->disk, f->size, NULL);
	}
	*f = (struct offer_found){ .size = 0 };
}

/* The search for an index for one start, and the offer that is checked now. */
struct offer_look {
	struct offers *o;
	const struct offer_query *q;
	const char *repo, *authorization;
	struct digest artifact;
	struct buf signature;
	uint64_t bytes;
	int64_t begin_ns;
	uint64_t got; /* bytes fetched since begin_ns */
	unsigned int parts;
	char offer[24]; /* the offer's number */
	/* The next part to fetch, and the bytes of the offer that are here. */
	unsigned int part;
	uint64_t at;
};

static int read_entry(struct offer_look *l, const json_t *one,
		      struct error *err)
{
	const char *artifact =
		json_string_value(json_object_get(one, "artifact"));
	const char *signature =
		json_string_value(json_object_get(one, "signature"));
	json_int_t bytes = json_integer_value(json_object_get(one, "bytes"));
	json_int_t parts = json_integer_value(json_object_get(one, "parts"));
	json_int_t offer = json_integer_value(json_object_get(one, "offer"));

	buf_reset(&l->signature);
	if (!artifact || !signature || bytes < OFFER_HEAD ||
	    (uint64_t)bytes > OFFER_MAX || parts < 1 ||
	    parts > OFFERS_PARTS_MAX ||
	    base64_decode(signature, strlen(signature), &l->signature) < 0 ||
	    l->signature.len > EVIDENCE_MAX)
		return error_set(
			err, EBADMSG,
			"an entry of the service's list has no digest, "
			"signature or size of an index: is it another "
			"version's?");
	l->bytes = (uint64_t)bytes;
	l->parts = (unsigned int)parts;
	(void)snprintf(l->offer, sizeof(l->offer), "%lld", (long long)offer);
	return digest_parse(artifact, &l->artifact, err);
}

static int judge_entry(const struct offer_look *l, struct error *err)
{
	const struct admission_query q = { .host = l->q->host,
					   .repo = l->q->repo,
					   .artifact = &l->artifact,
					   .subject = &l->q->image->digest };

	return admission_judge_offer(l->o->of.admission, &q, &l->signature,
				     err);
}

static int fetch_part(struct offer_look *l, int fd, struct error *err)
{
	const unsigned int part = l->part++;
	char below[32];
	const struct offer_call c = {
		.method = "GET",
		.below = below,
		.image = &l->q->image->digest,
		.artifact = &l->artifact,
		.repo = l->repo,
		.authorization = l->authorization,
		.offer = l->offer,
	};
	AUTO_BUF data = { .limit = OFFERS_PART };
	int rc;

	(void)snprintf(below, sizeof(below), "/parts/%u", part);
	if (l->q->pace && pace_level(l->q->pace) == PACE_STOP)
		return error_set(err, ECANCELED, "not wanted any more");
	if (clock_now_ns() - l->begin_ns >
	    SLOW_NS + (int64_t)(l->got / SLOW_BPS) * NS_PER_S)
		return error_set(err, ETIMEDOUT,
				 "the service sends less than 1 MiB in a "
				 "second");
	rc = offers_call(l->o, &c, &data, err);
	if (rc < 0)
		return rc;
	l->got += data.len;
	if (data.len == 0 || data.len > l->bytes - l->at)
		return error_set(err, EBADMSG,
				 "part %u is not what was offered", part);
	rc = fs_pwrite_full(fd, data.data, data.len, l->at);
	l->at += data.len;
	return rc < 0 ? error_set(err, -rc, "write the offer: %s",
				  strerror(-rc))
		      : 0;
}

/* Fetch parts until `want` bytes of the offer are here. */
static int fetch_bytes(struct offer_look *l, int fd, uint64_t want,
		       struct error *err)
{
	int rc = 0;

	while (rc == 0 && l->at < want && l->part < l->parts)
		rc = fetch_part(l, fd, err);
	return rc == 0 && l->at < want
		       ? error_set(err, EBADMSG, "the offer is cut off")
		       : rc;
}

static int read_head(const struct offer_look *l, struct offer_found *f,
		     struct error *err)
{
	uint8_t head[OFFER_HEAD];
	int rc = fs_pread_full(f->fd, head, sizeof(head), 0);

	return rc < 0 ? error_set(err, -rc, "read the offer")
		      : offer_parse_head(head, sizeof(head), l->bytes,
					 &f->offer, err);
}

/* Read the artifact's texts, and check that they are the signed ones. */
static int read_texts(const struct offer_look *l, struct offer_found *f,
		      struct error *err)
{
	AUTO_BUF texts = BUF_INIT;
	const size_t manifest = f->offer.size[OFFER_MANIFEST];
	const size_t config = f->offer.size[OFFER_CONFIG];
	struct digest is;
	int rc;

	if (buf_reserve(&texts, manifest + config + 1) < 0)
		return error_nomem(err);
	rc = fs_pread_full(f->fd, texts.data, manifest + config, OFFER_HEAD);
	if (rc < 0)
		return error_set(err, -rc, "read the offer");
	if (digest_of(texts.data, manifest, &is) < 0)
		return error_nomem(err);
	if (!digest_equal(&is, &l->artifact))
		return error_set(err, EBADMSG,
				 "the offer is not the index that was signed");
	return artifact_parse(texts.data, manifest, texts.data + manifest,
			      config, &f->artifact, err);
}

/* Fetch the image's config, and check that the artifact is of this image and of its layers
 * (chain IDs). */
static int check_image(const struct offer_look *l, struct artifact *a,
		       struct error *err)
{
	struct oci_image image;
	int rc = oci_image_parse(l->q->image->body.data, l->q->image->body.len,
				 &image, err);

	if (rc < 0)
		return rc;
	rc = oci_get_config(l->q->store, &image, OCI_CONFIG_MAX,
			    &a->image_config, err);
	oci_image_fini(&image);
	return rc < 0 ? rc : artifact_check_image(a, &l->q->image->digest, err);
}

/* Check each piece against the signed digests before more is fetched: anybody who may write to
 * the service can put the signature of another node's index on other bytes. */
static int fetch_checked(struct offer_look *l, struct offer_found *f,
			 struct error *err)
{
	int rc = fetch_bytes(l, f->fd, OFFER_HEAD, err);

	if (rc == 0)
		rc = read_head(l, f, err);
	if (rc == 0)
		rc = fetch_bytes(l, f->fd, offer_begin(&f->offer, OFFER_META),
				 err);
	if (rc == 0)
		rc = read_texts(l, f, err);
	if (rc == 0)
		rc = offer_check_sizes(&f->offer, &f->artifact, err);
	if (rc == 0)
		rc = fetch_bytes(l, f->fd, l->bytes, err);
	return rc < 0 ? rc
		      : offer_check_blobs(f->fd, &f->offer, &f->artifact, err);
}

static int fetch_offer(struct offer_look *l, struct offer_found *ret,
		       struct error *err)
{
	const struct disk_room *room = l->o->of.room;
	struct offer_found f = { .fd = -1, .room = room };
	int rc = room->reserve(room->disk, l->bytes, err);

	if (rc < 0)
		return rc;
	rc = temp_file(l->o->of.cfg->root, &f.fd, err);
	if (rc < 0) {
		room->settle(room->disk, l->bytes, NULL);
		return rc;
	}
	f.size = l->bytes;
	l->part = 0;
	l->at = 0;
	rc = fetch_checked(l, &f, err);
	if (rc == 0)
		rc = check_image(l, &f.artifact, err);
	if (rc == 0 && buf_append(&f.artifact.evidence, l->signature.data,
				  l->signature.len) < 0)
		rc = error_nomem(err);
	if (rc < 0)
		offer_found_fini(&f);
	else
		*ret = f;
	return rc;
}

/* Take the first offer that is trusted; if none is, return why the first was refused. */
static int choose_offer(struct offer_look *l, const json_t *all,
			struct offer_found *ret, struct error *err)
{
	struct error why = ERROR_INIT;
	const json_t *one;
	int first = -ENOENT;
	size_t i;

	error_set(err, ENOENT, "the service has no index of it");
	json_array_foreach(all, i, one)
	{
		int rc = i < OFFERS_LOOKED_AT ? read_entry(l, one, &why)
					      : -E2BIG;

		if (rc == 0)
			rc = judge_entry(l, &why);
		if (rc == 0)
			rc = fetch_offer(l, ret, &why);
		if (rc == 0)
			return 0;
		if (first == -ENOENT && rc != -E2BIG) {
			first = rc;
			if (err)
				*err = why;
		}
	}
	return first;
}

static int fetch_list(const struct offer_look *l, json_t **ret,
		      struct error *err)
{
	const struct offer_call c = {
		.method = "GET",
		.is_list = true,
		.below = "",
		.image = &l->q->image->digest,
		.repo = l->repo,
		.authorization = l->authorization,
	};
	AUTO_BUF text = { .limit = LIST_MAX };
	int rc = offers_call(l->o, &c, &text, err);

	if (rc == 0)
		*ret = json_loadb(text.data ? text.data : "", text.len, 0,
				  NULL);
	return rc;
}

static int ask_service(struct offer_look *l, struct offer_found *ret,
		       struct error *err)
{
	AUTO_JSON *all = NULL;
	int rc = fetch_list(l, &all, err);

	l->begin_ns = clock_now_ns();
	return rc < 0 ? rc
		      : choose_offer(l, json_object_get(all, "indexes"), ret,
				     err);
}

bool offers_is_made(struct offers *o, const struct offer_image *i,
		    const char *repo, const char *authorization)
{
	const struct oci_manifest m = { .digest = i->digest };
	const struct offer_query q = { .host = i->host,
				       .repo = i->repo,
				       .image = &m };
	struct offer_look l = { .o = o,
				.q = &q,
				.repo = repo,
				.authorization = authorization,
				.signature = BUF_INIT };
	AUTO_JSON *all = NULL;
	bool is_made = false;
	const json_t *one;
	size_t k;

	if (fetch_list(&l, &all, NULL) < 0)
		return false;
	json_array_foreach(json_object_get(all, "indexes"), k, one) is_made =
		is_made ||
		(read_entry(&l, one, NULL) == 0 && judge_entry(&l, NULL) == 0);
	buf_fini(&l.signature);
	return is_made;
}

int offers_find(struct offers *o, const struct offer_query *q,
		struct offer_found *ret, struct error *err)
{
	AUTO_FREE char *repo = NULL;
	AUTO_FREE char *authorization = NULL;
	struct offer_look l = { .o = o, .q = q, .signature = BUF_INIT };
	int rc;

	if (offers_mode(o, q->host, q->repo) == POLICY_OFF)
		return error_set(err, ENOENT, "no rule of --index is for it");
	repo = origin_place(q->host, q->repo);
	if (!repo)
		return error_nomem(err);
	rc = offers_authorization(o, q->store, &q->image->digest, q->pace,
				  &authorization, err);
	l.repo = repo;
	l.authorization = authorization;
	if (rc == 0)
		rc = ask_service(&l, ret, err);
	buf_fini(&l.signature);
	if (rc == 0)
		log_info("index", "found image=\"%s\" bytes=%llu", repo,
			 (unsigned long long)ret->size);
	else if (rc != -ENOENT)
		log_warning("index",
			    "none from the service image=\"%s\" reason=\"%s\"",
			    repo, err->msg);
	return rc;
}

int offer_found_keep(const struct offer_found *f, const char *dir,
		     struct error *err)
{
	AUTO_FREE char *path = fs_join(dir, OFFER_FILE);
	char from[64];

	if (!path)
		return error_nomem(err);
	(void)snprintf(from, sizeof(from), "/proc/self/fd/%d", f->fd);
	if (fsync(f->fd) < 0 ||
	    linkat(AT_FDCWD, from, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0)
		return error_set(err, errno, "keep '%s': %s", path,
				 strerror(errno));
	return 0;
}

int offer_found_renew(const struct offer_found *f, const struct image *i,
		      struct error *err)
{
	AUTO_FREE char *wrong = image_path(i, WRONG_FILE);
	int rc;

	if (!wrong)
		return error_nomem(err);
	if (access(wrong, F_OK) == 0)
		return error_set(err, EBADMSG,
				 "this node found that index wrong, and could "
				 "not withdraw it yet");
	rc = offer_file_check(i->dir, &i->artifact, err);
	if (rc == -EBADMSG)
		return offer_file_mend(i->dir, f->fd, f->size, err);
	return rc == -ENOENT ? 0 : rc;
}

int offers_withdraw(struct offers *o, const struct image *i, struct error *err)
{
	AUTO_FREE char *repo = origin_place(i->state.host, i->state.repo);
	AUTO_FREE char *authorization = NULL;
	struct offer_call c = {
		.method = "PUT",
		.below = "/wrong",
		.image = &i->artifact.image,
		.artifact = &i->artifact.digest,
		.repo = repo,
	};
	AUTO_BUF answer = { .limit = LIST_MAX };
	struct store_lease *lease = NULL;
	struct origin *origin = NULL;
	int rc;

	if (!repo)
		return error_nomem(err);
	rc = origin_get(o->of.origins, i->state.host, i->state.repo,
			i->state.plain_http, &origin, err);
	if (rc == 0)
		rc = origin_lease(origin, &lease, err);
	if (rc == 0)
		rc = offers_authorization(o, lease->store, &i->artifact.image,
					  NULL, &authorization, err);
	c.authorization = authorization;
	if (rc == 0)
		rc = offers_call(o, &c, &answer, err);
	store_lease_end(lease);
	origin_put(origin);
	return rc;
}
