// SPDX-License-Identifier: Apache-2.0
/*
 * OCI image stores: a registry, a layout folder, a docker archive, behind one vtable.
 */
#ifndef BOOTSEER_OBJECTS_OCI_H
#define BOOTSEER_OBJECTS_OCI_H

#include "common/buf.h"
#include "common/digest.h"
#include "objects/oci_referrers.h"
#include "objects/oci_watch.h"
#include "objects/source.h"
struct http_cures;
struct oci_hosts;
struct oci_logins;
#define OCI_MANIFEST_MAX (4u << 20) /* bytes; larger ones are refused */
#define OCI_CONFIG_MAX (8u << 20)

enum oci_transport {
	OCI_TRANSPORT_REGISTRY, /* docker://host[:port]/repo[:tag][@digest] */
	OCI_TRANSPORT_LAYOUT,   /* oci:DIR[:TAG] */
	OCI_TRANSPORT_ARCHIVE,  /* docker-archive:FILE[:repo:tag] (read only) */
};

/* A parsed reference, in skopeo's notation (containers-transports(5)). */
struct oci_ref {
	enum oci_transport transport;
	char *host; /* registry: "host[:port]"; NULL otherwise */
	char *repo; /* registry: repository; layout, archive: the path */
	char *tag;  /* registry: "latest" by default; NULL: a digest, or none */
	bool has_digest;
	struct digest digest;
};

/* -EINVAL names the text and the wanted form.  Without a transport the text is
 * a registry reference with a host. */
int oci_ref_parse(const char *text, struct oci_ref *ret,
		  struct error *err) MUST_CHECK;
void oci_ref_fini(struct oci_ref *r);
/* Its text, the caller's; NULL when memory is short. */
char *oci_ref_format(const struct oci_ref *r) MUST_CHECK;

struct oci_config {
	const char *auth_file;  /* docker config.json; NULL: the usual places */
	const char *hosts_dirs; /* of hosts.toml; NULL: no mirrors */
	const char *ca_file;    /* PEM; NULL: the system's */
	bool plain_http;        /* only when the user asked for it */
	uint32_t connect_timeout_ms;
	uint32_t stall_timeout_ms; /* no byte for so long: -ETIMEDOUT */
	uint64_t least_rate;       /* bytes a second; a slower transfer, over
	                            * stall_timeout_ms, is -ETIMEDOUT; 0: none */
	unsigned int attempts;     /* of each request; of a transfer without a
	                        * deadline, those that got nowhere */
	/* Pace of every request that brings none of its own; NULL: nothing stops those.
	 * The four outlive the store and its blobs. */
	struct pace *pace;
	struct oci_watch *watch;
	struct oci_hosts *hosts;
	struct oci_logins *logins; /* beside those of auth_file */
	/* How people mend what fails; NULL: by options (net/http.h). */
	const struct http_cures *cures;
};
#define OCI_CONFIG_INIT \
	{ \
		.connect_timeout_ms = 10000, .stall_timeout_ms = 30000, \
		.attempts = 5 \
	}

/* A manifest or index as stored, and its descriptor. */
struct oci_manifest {
	struct buf body;
	struct digest digest; /* of body, checked */
	char media_type[128];
};
void oci_manifest_fini(struct oci_manifest *m);

/* Progress of a blob upload: bytes so far; return non-zero to stop. */
struct oci_progress {
	int (*step)(struct oci_progress *p, uint64_t done, uint64_t total);
};
struct oci_store;
/* Contracts are those of the functions below. */
struct oci_store_ops {
	const char *name;
	int (*get_manifest)(struct oci_store *s, const char *ref,
			    struct oci_manifest *ret, struct error *err);
	int (*open_blob)(struct oci_store *s, const struct digest *d,
			 uint64_t size, struct source **ret, struct error *err);
	/* All of a small one into `ret`, which is empty; NULL: it is opened and read. */
	int (*get_blob)(struct oci_store *s, const struct digest *d,
			uint64_t size, struct buf *ret, struct error *err);
	int (*find_blob)(struct oci_store *s, const struct digest *d, bool *ret,
			 uint64_t *ret_size, struct error *err);
	int (*put_blob)(struct oci_store *s, const struct digest *d,
			uint64_t size, int fd, struct oci_progress *p,
			struct error *err);
	int (*put_manifest)(struct oci_store *s, const char *ref,
			    const char *media_type, const void *body,
			    size_t len, struct error *err);
	int (*remove_manifest)(struct oci_store *s, const struct digest *d,
			       struct error *err);
	int (*list_tags)(struct oci_store *s, size_t max, char ***ret,
			 size_t *ret_n, struct error *err);
	int (*list_referrers)(struct oci_store *s, const struct digest *d,
			      const char *artifact_type, struct digest **ret,
			      size_t *ret_n, struct error *err);
	/* NULL: lists of this store say no more than digests. */
	int (*list_noted)(struct oci_store *s,
			  const struct oci_referrers_query *q,
			  struct oci_referrers *ret, struct error *err);
	/* NULL: the store does not wait for others. */
	int (*with_pace)(struct oci_store *s, struct pace *pace,
			 struct oci_store **ret, struct error *err);
	/* NULL: the store knows no credentials. */
	int (*authorization)(struct oci_store *s, const struct digest *d,
			     struct pace *pace, char **ret, struct error *err);
	void (*free)(struct oci_store *s);
};

/* The store a reference points into.  Nothing is contacted yet.  `create`: a
 * layout folder that does not exist is made. */
int oci_store_open(const struct oci_ref *ref, const struct oci_config *cfg,
		   bool create, struct oci_store **ret,
		   struct error *err) MUST_CHECK;
void oci_store_free(struct oci_store *s);
/* The same store, connections and login, for requests that `pace` (not NULL) may
 * end instead of oci_config.pace, which it outlives with its blobs.  Either may be
 * freed first.  -ENOTSUP: nothing of this store needs to be ended. */
int oci_store_with_pace(struct oci_store *s, struct pace *pace,
			struct oci_store **ret, struct error *err) MUST_CHECK;
DEFINE_AUTO(oci_store)

/* Blobs and manifests as objects, by digest in hex below `folder`; blobs that are not there
 * are read in `shared` (may be NULL).  No tags, no referrers: -ENOTSUP.  Errors are those
 * of objects/store.h.  The first borrows `o`, the second opens a store of its own. */
struct object_store;
int oci_objects_new(struct object_store *o, const char *folder,
		    const char *shared, struct oci_store **ret,
		    struct error *err) MUST_CHECK;
struct object_store_config;
int oci_objects_open(const char *url, const struct object_store_config *cfg,
		     const char *folder, const char *shared,
		     struct oci_store **ret, struct error *err) MUST_CHECK;

/* All block and are safe from several threads. -ENOENT, -EACCES (401/403 after
 * a fresh token), -EBADMSG (content is not what its digest says), -EBUSY (429
 * beyond the budget), -EPROTO (TLS, or a registry that does not keep to the
 * specification), -ENOTSUP, -EFBIG, -EIO, -ETIMEDOUT, -EROFS (archive). */

/* `ref` is a tag or a digest; NULL is the only image of a layout or archive. */
int oci_get_manifest(struct oci_store *s, const char *ref,
		     struct oci_manifest *ret, struct error *err) MUST_CHECK;
/* The name for oci_get_manifest() in a reference: tag, digest (written to
 * `text`), or NULL. */
const char *oci_ref_name(const struct oci_ref *r, char text[DIGEST_STR_MAX]);
/* Manifest digest of the image that `ref` names, through an index by `platform`
 * ("linux/amd64", NULL: this machine's).  A single image may be of any platform,
 * but not of another one than is named: -ENOENT. */
int oci_resolve(struct oci_store *s, const struct oci_ref *ref,
		const char *platform, struct digest *ret,
		struct error *err) MUST_CHECK;
/* Stored bytes of a blob, with retries inside; range reads resume.  A whole
 * sequential read is NOT checked here: users check digests. */
int oci_open_blob(struct oci_store *s, const struct digest *d, uint64_t size,
		  struct source **ret, struct error *err) MUST_CHECK;
/* A small blob, whole and checked. */
int oci_get_blob(struct oci_store *s, const struct digest *d, uint64_t size,
		 size_t max, struct buf *ret, struct error *err) MUST_CHECK;
int oci_has_blob(struct oci_store *s, const struct digest *d, bool *ret,
		 struct error *err) MUST_CHECK;
/* The same, and its bytes as stored: UINT64_MAX when the registry does not
 * say; not set when it is not there. */
int oci_find_blob(struct oci_store *s, const struct digest *d, bool *ret,
		  uint64_t *ret_size, struct error *err) MUST_CHECK;
/* Upload `size` bytes of `fd` from offset 0, in chunks that resume after a cut;
 * nothing is sent when the repository has the blob.  A nameless file may become
 * the stored one: it must not be changed afterwards.  `p` may be NULL. */
int oci_put_blob(struct oci_store *s, const struct digest *d, uint64_t size,
		 int fd, struct oci_progress *p, struct error *err) MUST_CHECK;
/* The same of bytes in memory; `ret` is their digest. */
int oci_put_bytes(struct oci_store *s, const void *data, size_t len,
		  struct digest *ret, struct error *err) MUST_CHECK;
/* `ref` NULL: by digest only. */
int oci_put_manifest(struct oci_store *s, const char *ref,
		     const char *media_type, const void *body, size_t len,
		     struct error *err) MUST_CHECK;
int oci_remove_manifest(struct oci_store *s, const struct digest *d,
			struct error *err) MUST_CHECK;
/* At most `max` tags; the array and its strings are the caller's. */
int oci_list_tags(struct oci_store *s, size_t max, char ***ret, size_t *ret_n,
		  struct error *err) MUST_CHECK;
/* The value of the Authorization header with which manifest `d` was read just
 * now, the caller's; NULL when it needs none, or no registry is behind the
 * store.  `pace` may be NULL. */
int oci_authorization(struct oci_store *s, const struct digest *d,
		      struct pace *pace, char **ret,
		      struct error *err) MUST_CHECK;
/* Manifests whose subject is `d`: referrers API, else the tag fallback
 * sha256-<hex> (distribution-spec 1.1).  The array is the caller's. */
int oci_list_referrers(struct oci_store *s, const struct digest *d,
		       const char *artifact_type, struct digest **ret,
		       size_t *ret_n, struct error *err) MUST_CHECK;

/* ------------------------------------------------------------- manifests --- */

struct oci_descriptor {
	char media_type[128];
	struct digest digest;
	uint64_t size;
	char *annotations; /* JSON object text, or NULL; owned */
};

/* The parts of a manifest, index or config that this project looks at. */
struct oci_image {
	char artifact_type[128]; /* "" when absent */
	struct oci_descriptor config;
	/* The config itself, where the manifest carries it ("data" of its
	 * descriptor) and it is what the digest says; else empty. */
	struct buf config_data;
	struct oci_descriptor *layers;
	size_t n_layers;
	bool has_subject;
	struct digest subject;
	char *annotations; /* JSON object text, or NULL; owned */
};

/* Parse an OCI or Docker v2 schema 2 manifest; bounds depth, counts, sizes. */
int oci_image_parse(const void *json, size_t len, struct oci_image *ret,
		    struct error *err) MUST_CHECK;
void oci_image_fini(struct oci_image *m);
/* The config of an image, from its manifest where that has it; as oci_get_blob(). */
int oci_get_config(struct oci_store *s, const struct oci_image *m, size_t max,
		   struct buf *ret, struct error *err) MUST_CHECK;

bool oci_media_type_is_index(const char *media_type);

#define OCI_PLATFORM_MAX 64
#define OCI_CHOICES_MAX 32    /* entries of an index that are looked at */
#define OCI_INDEX_DEPTH_MAX 4 /* indexes in each other */

/* This machine's, as "linux/amd64". */
const char *oci_own_platform(char out[OCI_PLATFORM_MAX]);

/* Entries of an index that may be, or lead to, the image of a platform, best first. */
struct oci_choices {
	struct oci_index_choice {
		struct digest digest;
		bool matches; /* the index says so; else it names no platform */
		bool is_index; /* as its media type says */
	} list[OCI_CHOICES_MAX];
	size_t n;
};

/* Adds the platforms of other entries to `others`, for a message. */
int oci_index_choices(const void *json, size_t len, const char *platform,
		      struct oci_choices *ret, struct buf *others,
		      struct error *err) MUST_CHECK;

/*
 * Digest of the manifest for `platform` ("linux/amd64", NULL: this machine's) in
 * an index, or in an index that this lists.  Entries that name no platform are
 * asked for their config, as containerd does.
 *   -ENOENT  there is none; lists what there is
 *   -ELOOP   more than OCI_INDEX_DEPTH_MAX indexes in each other
 */
int oci_index_find(struct oci_store *s, const struct oci_manifest *index,
		   const char *platform, struct digest *ret,
		   struct error *err) MUST_CHECK;

/* Is the image of this manifest one for `platform`?  Reads its config. */
int oci_check_platform(struct oci_store *s, const struct oci_manifest *m,
		       const char *platform, struct error *err) MUST_CHECK;

/* Is it OS/ARCH or OS/ARCH/VARIANT?  -EINVAL. */
int oci_platform_check(const char *platform, struct error *err) MUST_CHECK;
/* Is the image of this config one for Linux?  A config that names no system is. */
int oci_config_check_linux(const void *json, size_t len,
			   struct error *err) MUST_CHECK;

/* Is the image of this config one for `platform` ("linux/arm64/v8")?  A config
 * without a variant fits any.  -ENOENT names both. */
int oci_config_check_platform(const void *json, size_t len,
			      const char *platform,
			      struct error *err) MUST_CHECK;

/* The diff ids of an image config (image-spec, config.md), caller owns. */
int oci_config_diff_ids(const void *json, size_t len, struct digest **ret,
			size_t *ret_n, struct error *err) MUST_CHECK;

/* The value of a key in an annotations object, caller owns; NULL if none. */
char *oci_annotation(const char *annotations, const char *key) MUST_CHECK;

/* Into `ret` the ChainID of the first, the first two, ... all `n` diff ids. */
int oci_chain_ids(const struct digest *diff_ids, size_t n,
		  struct digest *ret) MUST_CHECK;
/* ChainID of the first `n` >= 1 diff ids. */
int oci_chain_id(const struct digest *diff_ids, size_t n,
		 struct digest *ret) MUST_CHECK;

#endif
