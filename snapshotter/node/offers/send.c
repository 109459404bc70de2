// SPDX-License-Identifier: Apache-2.0
/*
 * Sends an index to the service.  The process that made it may have been taken over by
 * malicious layers, so its folder is untrusted: only regular files below it are opened, each
 * blob is hashed before a byte of it leaves the node, and the artifact must be of the wanted
 * image.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/fs.h"
#include "common/log.h"
#include "snapshotter/node/images/origin.h"
#include "snapshotter/node/offers/offers_priv.h"
#include "snapshotter/trust.h"

#define PIECE_BYTES (256 * KIB)
#define CLOCKS_APART_S 60 /* difference of clocks between nodes */

/* ------------------------------------------------------------------------ files --- */

static int hash_file(int fd, const struct digest *want, struct error *err)
{
	AUTO_FREE char *piece = malloc(PIECE_BYTES);
	AUTO(hasher) h = hasher_new();
	struct digest is;
	off_t at = 0;
	ssize_t n;

	if (!piece || !h)
		return error_nomem(err);
	while ((n = pread(fd, piece, PIECE_BYTES, at)) > 0) {
		if (hasher_update(h, piece, (size_t)n) < 0)
			return error_nomem(err);
		at += n;
	}
	if (n < 0)
		return error_set(err, errno, "read a blob of the index: %s",
				 strerror(errno));
	if (hasher_final(h, &is) < 0)
		return error_nomem(err);
	return digest_equal(&is, want)
		       ? 0
		       : error_set(err, EBADMSG,
				   "a blob of the index is not what it says");
}

/* Open a blob by its digest; `size` UINT64_MAX: of any size. */
static int open_blob(int dir, const struct digest *d, uint64_t size,
		     int *ret_fd, uint64_t *ret_size, struct error *err)
{
	char text[DIGEST_STR_MAX], path[DIGEST_STR_MAX + 16];
	AUTO_CLOSE int fd = -1;
	struct stat st;
	int rc;

	digest_format(d, text);
	(void)snprintf(path, sizeof(path), "blobs/sha256/%s",
		       text + strlen("sha256:"));
	fd = fs_openat2(dir, path, O_RDONLY | O_NONBLOCK,
			RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, errno, "blob %s of the index: %s", text,
				 strerror(errno));
	if (!S_ISREG(st.st_mode) ||
	    (size != UINT64_MAX && (uint64_t)st.st_size != size))
		return error_set(err, EBADMSG, "blob %s of the index is none",
				 text);
	rc = hash_file(fd, d, err);
	if (rc < 0)
		return rc;
	*ret_size = (uint64_t)st.st_size;
	*ret_fd = steal_fd(&fd);
	return 0;
}

static int read_blob(int dir, const struct digest *d, size_t max,
		     struct buf *ret, struct error *err)
{
	AUTO_CLOSE int fd = -1;
	uint64_t size = 0;
	int rc = open_blob(dir, d, UINT64_MAX, &fd, &size, err);

	if (rc == 0 && size > max)
		rc = error_set(err, EFBIG, "a text of the index is too long");
	if (rc == 0 && buf_reserve(ret, size + 1) < 0)
		rc = error_nomem(err);
	if (rc == 0) {
		rc = fs_pread_full(fd, ret->data, size, 0);
		ret->len = rc < 0 ? 0 : size;
	}
	return rc < 0 ? error_wrap(err, rc, "read the index") : 0;
}

/* ---------------------------------------------------------------------- sending --- */

struct index_sending {
	struct offers *o;
	const struct offer_image *i;
	const char *repo, *authorization;
	struct buf part;
	unsigned int n;
};

static int send_part(struct index_sending *s, struct error *err)
{
	char below[32];
	const struct offer_call c = {
		.method = "PUT",
		.below = below,
		.image = &s->i->digest,
		.repo = s->repo,
		.authorization = s->authorization,
		.body = s->part.data,
		.body_len = s->part.len,
	};
	AUTO_BUF answer = { .limit = 4096 };
	int rc;

	if (s->part.len == 0)
		return 0;
	if (s->n == OFFERS_PARTS_MAX)
		return error_set(err, EFBIG, "the index is too large to offer");
	if (atomic_load(s->o->of.is_ending))
		return error_set(err, ECANCELED, "bootseerd ends");
	(void)snprintf(below, sizeof(below), "/parts/%u", s->n++);
	rc = offers_call(s->o, &c, &answer, err);
	buf_reset(&s->part);
	return rc;
}

static int send_bytes(struct index_sending *s, const void *data, size_t len,
		      struct error *err)
{
	const char *p = data;
	int rc = 0;

	while (rc == 0 && len > 0) {
		size_t room = OFFERS_PART - s->part.len;
		size_t n = len < room ? len : room;

		if (buf_append(&s->part, p, n) < 0)
			return error_nomem(err);
		p += n;
		len -= n;
		if (s->part.len == OFFERS_PART)
			rc = send_part(s, err);
	}
	return rc;
}

static int send_file(struct index_sending *s, int fd, uint64_t size,
		     struct error *err)
{
	AUTO_FREE char *piece = malloc(PIECE_BYTES);
	int rc = piece ? 0 : error_nomem(err);

	for (uint64_t at = 0; rc == 0 && at < size;) {
		size_t n = size - at < PIECE_BYTES ? size - at : PIECE_BYTES;

		rc = fs_pread_full(fd, piece, n, at);
		rc = rc < 0 ? error_set(err, -rc, "read the index")
			    : send_bytes(s, piece, n, err);
		at += n;
	}
	return rc;
}

/* ------------------------------------------------------------------ the signature --- */

static int sign_index(const struct offers *o, const struct offer_image *i,
		      const struct artifact *a,
		      uint8_t ret[TRUST_SIGNATURE_MAX], size_t *ret_len,
		      struct error *err)
{
	const struct oci_ref ref = {
		.transport = OCI_TRANSPORT_REGISTRY,
		.host = i->host,
		.repo = i->repo,
	};
	struct trust_statement s = {
		.artifact = a->digest,
		.subject = i->digest,
		.claim = TRUST_CLAIM_SIGNED,
		.not_before_s = time(NULL) - CLOCKS_APART_S,
	};
	int rc = trust_repository(&ref, s.repository, err);

	return rc < 0 ? rc : trust_sign(o->key, &s, ret, ret_len, err);
}

static int publish_index(struct index_sending *s, const struct artifact *a,
			 struct error *err)
{
	uint8_t signature[TRUST_SIGNATURE_MAX];
	char parts[16];
	struct offer_call c = {
		.method = "PUT",
		.below = "",
		.image = &s->i->digest,
		.artifact = &a->digest,
		.repo = s->repo,
		.authorization = s->authorization,
		.parts = parts,
		.body = signature,
	};
	AUTO_BUF answer = { .limit = 4096 };
	int rc = sign_index(s->o, s->i, a, signature, &c.body_len, err);

	(void)snprintf(parts, sizeof(parts), "%u", s->n);
	return rc < 0 ? rc : offers_call(s->o, &c, &answer, err);
}

/* -------------------------------------------------------- --- the whole sending --- */

static int open_artifact(int dir, const struct offer_image *i,
			 const struct digest *artifact, struct artifact *ret,
			 struct error *err)
{
	AUTO_BUF manifest = BUF_INIT;
	AUTO_BUF config = BUF_INIT;
	struct oci_image parsed;
	int rc = read_blob(dir, artifact, OCI_MANIFEST_MAX, &manifest, err);

	if (rc == 0)
		rc = oci_image_parse(manifest.data, manifest.len, &parsed, err);
	if (rc < 0)
		return rc;
	rc = read_blob(dir, &parsed.config.digest, ARTIFACT_CONFIG_MAX, &config,
		       err);
	oci_image_fini(&parsed);
	if (rc == 0)
		rc = artifact_parse(manifest.data, manifest.len, config.data,
				    config.len, ret, err);
	if (rc < 0)
		return rc;
	if (ret->format == ARTIFACT_FORMAT_INDEX &&
	    digest_equal(&ret->image, &i->digest) &&
	    digest_equal(&ret->digest, artifact))
		return 0;
	artifact_fini(ret);
	return error_set(err, EBADMSG, "it is no index of the image");
}

static int send_all(struct index_sending *s, int dir, const struct artifact *a,
		    struct error *err)
{
	const struct oci_descriptor none = { .size = 0 };
	const struct oci_descriptor *last =
		a->n_packs ? &a->packs[a->n_packs - 1] : &none;
	const struct oci_descriptor *windows =
		strcmp(last->media_type, ARTIFACT_WINDOWS_TYPE) == 0 ? last
								     : &none;
	const struct oci_descriptor *blobs[] = { &a->meta, &a->map, windows };
	const struct offer head = {
		.size = { a->manifest_json.len, a->config_json.len,
			  a->meta.size, a->map.size, windows->size },
	};
	AUTO_BUF text = BUF_INIT;
	int rc = offer_format_head(&head, &text) < 0 ? error_nomem(err) : 0;

	if (rc == 0)
		rc = send_bytes(s, text.data, text.len, err);
	if (rc == 0)
		rc = send_bytes(s, a->manifest_json.data, a->manifest_json.len,
				err);
	if (rc == 0)
		rc = send_bytes(s, a->config_json.data, a->config_json.len,
				err);
	for (size_t k = 0; rc == 0 && k < ARRAY_SIZE(blobs); k++) {
		AUTO_CLOSE int fd = -1;
		uint64_t size = 0;

		if (blobs[k]->size == 0)
			continue;
		rc = open_blob(dir, &blobs[k]->digest, blobs[k]->size, &fd,
			       &size, err);
		if (rc == 0)
			rc = send_file(s, fd, size, err);
	}
	if (rc == 0)
		rc = send_part(s, err);
	return rc == 0 ? publish_index(s, a, err) : rc;
}

int offers_send(struct offers *o, const struct offer_image *i, int dir,
		const struct digest *artifact, const char *authorization,
		struct error *err)
{
	AUTO_FREE char *repo = origin_place(i->host, i->repo);
	struct index_sending s = { .o = o,
				   .i = i,
				   .repo = repo,
				   .authorization = authorization,
				   .part = BUF_INIT };
	struct artifact a;
	int rc;

	if (!repo)
		return error_nomem(err);
	rc = open_artifact(dir, i, artifact, &a, err);
	if (rc < 0)
		return rc;
	rc = send_all(&s, dir, &a, err);
	artifact_fini(&a);
	buf_fini(&s.part);
	if (rc == 0)
		log_info("index", "offered image=\"%s\" parts=%u", repo, s.n);
	return rc;
}
