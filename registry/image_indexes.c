// SPDX-License-Identifier: Apache-2.0
/*
 * /v1/indexes: docs/formats/registry-api.md. An index reveals an image's file names, so a call is
 * answered only if the image's registry lets the caller's credentials pull the image. The service
 * cannot tell whether an index is right: nodes check its signature.
 */
#include <errno.h>
#include <jansson.h>
#include <time.h>

#include "common/base64.h"
#include "registry/call.h"
#include "registry/capabilities.h"
#include "registry/index_db.h"
#include "registry/routes.h"

static struct index_name name_of(const struct call *c, const char *node)
{
	return (struct index_name){
		.image = call_param(c, "digest"),
		.repo = call_param(c, "repo"),
		.owner = call_owner(c),
		.node = node,
		.now = time(NULL),
	};
}

/* Check that the caller may pull the image, and that the caller's token covers the repository. */
static int check_pull(struct call *c, struct error *err)
{
	const struct issuer_pull p = {
		.image = call_param(c, "digest"),
		.repo = call_param(c, "repo"),
		.authorization = call_param(c, "Bootseer-Pull"),
	};
	int rc = call_check_repo(c, p.repo, err);

	if (rc == 0 && !c->service->cfg->index_bytes)
		rc = call_fail(c, HTTPD_NOT_IMPLEMENTED, NULL, err,
			       "this service keeps no indexes: --index-bytes "
			       "is 0");
	return rc == 0 ? issuer_check_pull(c, &p, err) : rc;
}

static int check_offerer(struct call *c, struct error *err)
{
	int rc = call_check_node(c, call_param(c, "Bootseer-Node"), err);

	return rc == 0 ? check_pull(c, err) : rc;
}

/* Turn -ECANCELED, which means that the node has no claim or has lost it, into an HTTP error. */
static int answer_lost_claim(struct call *c, int rc, struct error *err)
{
	struct error why = err ? *err : (struct error)ERROR_INIT;

	return rc == -ECANCELED
		       ? call_fail(c, HTTPD_FORBIDDEN, NULL, err, "%s", why.msg)
		       : rc;
}

int image_indexes_claim(struct call *c, struct error *err)
{
	static const char *const names[] = {
		[INDEX_COMING] = "held",
		[INDEX_WHOLE] = "made",
		[INDEX_WITHDRAWN] = "withdrawn",
	};
	const struct index_name n = name_of(c, call_param(c, "Bootseer-Node"));
	enum index_state state = INDEX_COMING;
	int rc = check_offerer(c, err);

	if (rc == 0)
		rc = index_db_claim(c->service->db, &n, &state, err);
	if (rc < 0)
		return rc;
	return call_send_json(c,
			      json_pack("{s:s}", "state",
					rc ? "yours" : names[state]),
			      err);
}

int image_indexes_put_part(struct call *c, struct error *err)
{
	const struct index_name n = name_of(c, call_param(c, "Bootseer-Node"));
	int64_t part = atoll(call_param(c, "part"));
	int rc = check_offerer(c, err);

	if (rc == 0 && part >= INDEX_PARTS_MAX)
		rc = error_set(err, EFBIG, "an index has %d parts at most",
			       INDEX_PARTS_MAX);
	if (rc == 0 && c->req->head.content_length == 0)
		rc = error_set(err, EINVAL, "there is no body");
	if (rc == 0)
		rc = index_db_put_part(c->service->db, &n, part, c->req->body,
				       c->req->head.content_length,
				       c->service->cfg->index_bytes, err);
	return rc < 0 ? answer_lost_claim(c, rc, err)
		      : call_send_json(c, json_pack("{s:i}", "stored", 1), err);
}

int image_indexes_publish(struct call *c, struct error *err)
{
	const struct index_name n = name_of(c, call_param(c, "Bootseer-Node"));
	AUTO_BUF signature = BUF_INIT;
	struct index_published p = {
		.artifact = call_param(c, "artifact"),
		.parts = atoll(call_param(c, "parts")),
	};
	int rc = check_offerer(c, err);

	if (rc == 0 && c->req->head.content_length == 0)
		rc = error_set(err, EINVAL,
			       "there is no signature: no node would take it");
	if (rc < 0)
		return rc;
	if (base64_encode(c->req->body, c->req->head.content_length,
			  &signature) < 0)
		return error_nomem(err);
	p.signature = signature.data;
	rc = index_db_publish(c->service->db, &n, &p, err);
	return rc < 0 ? answer_lost_claim(c, rc, err)
		      : call_send_json(c, json_pack("{s:i}", "published", 1),
				       err);
}

static int add_offer(void *arg, const struct index_offer *o)
{
	json_t *one =
		json_pack("{s:I,s:s,s:s,s:I,s:I,s:I}", "offer",
			  (json_int_t)o->id, "artifact", o->artifact,
			  "signature", o->signature, "bytes",
			  (json_int_t)o->bytes, "parts", (json_int_t)o->parts,
			  "made_at", (json_int_t)o->made);

	return json_array_append_new(arg, one) < 0 ? -ENOMEM : 0;
}

int image_indexes_list(struct call *c, struct error *err)
{
	const struct index_name n = name_of(c, "");
	json_t *all;
	int rc = check_pull(c, err);

	if (rc < 0)
		return rc;
	all = json_array();
	if (!all)
		return error_nomem(err);
	rc = index_db_list(c->service->db, &n, add_offer, all, err);
	if (rc < 0) {
		json_decref(all);
		return rc;
	}
	return call_send_json(c, json_pack("{s:o}", "indexes", all), err);
}

int image_indexes_get_part(struct call *c, struct error *err)
{
	const struct index_name n = name_of(c, "");
	int rc = check_pull(c, err);

	c->reply.type = "application/octet-stream";
	return rc < 0 ? rc
		      : index_db_part(c->service->db, &n,
				      atoll(call_param(c, "offer")),
				      call_param(c, "artifact"),
				      atoll(call_param(c, "part")),
				      &c->reply.body, err);
}

int image_indexes_withdraw(struct call *c, struct error *err)
{
	const struct index_name n = name_of(c, call_param(c, "Bootseer-Node"));
	int rc = check_offerer(c, err);

	if (rc == 0)
		rc = index_db_withdraw(c->service->db, &n,
				       call_param(c, "artifact"), err);
	return rc < 0 ? rc
		      : call_send_json(c, json_pack("{s:i}", "withdrawn", rc),
				       err);
}

int image_indexes_forget(struct call *c, struct error *err)
{
	const struct index_name n = name_of(c, "");
	int rc = call_check_repo(c, n.repo, err);

	if (rc == 0)
		rc = index_db_forget(c->service->db, &n, err);
	return rc < 0 ? rc
		      : call_send_json(c, json_pack("{s:i}", "removed", rc),
				       err);
}
