// SPDX-License-Identifier: Apache-2.0
/*
 * `bootseer node fetch`: containerd lacks the layers of images that were pulled lazily, or whose
 * layers were deleted once unpacked.  Such images cannot be unpacked for another snapshotter.
 * This command fetches the layers into containerd's store by `ctr`, which every containerd has.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/ctr.h"
#include "cli/image.h"
#include "cli/node_ask.h"
#include "cli/plain_output.h"
#include "common/array.h"
#include "common/bounded_json.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/json.h"
#include "common/progress.h"
#include "common/text.h"
#include "objects/oci.h"

/* timeout to import a layer from a local file */
#define INGEST_TIMEOUT_MS (30 * 60 * 1000)
#define READ_SIZE (1u << 20)
#define NODE_TIMEOUT_NS (10 * INT64_C(1000000000))
/* default, if bootseerd does not report the folder */
#define HOSTS_DIRS "/etc/containerd/certs.d"

struct fetch_config {
	struct image_access access;
	char *address, *tmp;
	bool dry_run;
};

static const struct option_spec options[] = {
	{ .key = "dry-run",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct fetch_config, dry_run),
	  .help = "Only list what is missing." },
	{ .key = "containerd",
	  .type = OPTION_STRING,
	  .arg = "SOCKET",
	  .offset = offsetof(struct fetch_config, address),
	  .help = "Where containerd listens; default is ctr's, "
		  "$CONTAINERD_ADDRESS or /run/containerd/containerd.sock." },
	{ .key = "tmp",
	  .type = OPTION_STRING,
	  .arg = "DIR",
	  .offset = offsetof(struct fetch_config, tmp),
	  .def = "/var/tmp",
	  .help = "A folder with room for the largest layer." },
	IMAGE_ACCESS_OPTIONS(struct fetch_config),
	{ .key = NULL },
};

enum blob_state {
	BLOB_THERE,
	BLOB_UNPACKED, /* config of an image that is unpacked on this node */
	BLOB_FAILED,   /* a layer; another name of its image may still work */
};

struct blob_known {
	struct digest digest;
	enum blob_state state;
};

struct layer_fetch {
	const struct fetch_config *config;
	const char *namespace;    /* borrowed */
	struct blob_known *blobs; /* known blobs of this namespace */
	size_t n_blobs, cap_blobs;
	struct progress *bar;
	json_t *node; /* member "access" of bootseerd's status; NULL: not
	               * fetched yet */
	uint64_t n_missing, n_fetched, n_failed, n_unread, bytes;
	struct error why; /* the last failure */
};

static int call_ctr(const struct layer_fetch *f, const char *const words[],
		    int in, int64_t timeout_ms, struct buf *ret,
		    struct error *err)
{
	const struct ctr_target at = { f->config->address, f->namespace };

	return ctr_run(&at, words, in, timeout_ms, ret, err);
}

/* ----------------------------------------------------------------- content --- */

/* Look a blob up; NULL: containerd does not have it. */
static struct blob_known *blob_find(const struct layer_fetch *f,
				    const struct digest *d)
{
	for (size_t i = 0; i < f->n_blobs; i++)
		if (digest_equal(&f->blobs[i].digest, d))
			return &f->blobs[i];
	return NULL;
}

static int set_blob_state(struct layer_fetch *f, const struct digest *d,
			  enum blob_state state, struct error *err)
{
	struct blob_known *c = blob_find(f, d);

	if (!c) {
		if (array_grow(&f->blobs, f->n_blobs, &f->cap_blobs, 64) < 0)
			return error_nomem(err);
		c = &f->blobs[f->n_blobs++];
		c->digest = *d;
	}
	c->state = state;
	return 0;
}

/* List containerd's blobs, in lines of "DIGEST SIZE AGE LABELS". */
static int list_blobs(struct layer_fetch *f, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	int rc = call_ctr(f, (const char *const[]){ "content", "ls", NULL }, -1,
			  CTR_TIMEOUT_MS, &text, err);
	char *line, *rest = text.data;

	f->n_blobs = 0;
	while (rc == 0 && rest && (line = strsep(&rest, "\n"))) {
		bool unpacked =
			strstr(line, "containerd.io/gc.ref.snapshot.") != NULL;
		struct digest d;

		line[strcspn(line, " \t")] = '\0';
		if (digest_parse(line, &d, NULL) == 0)
			rc = set_blob_state(f, &d,
					    unpacked ? BLOB_UNPACKED
						     : BLOB_THERE,
					    err);
	}
	return rc;
}

/* Read a manifest or index that containerd has. */
static int read_json(struct layer_fetch *f, const struct digest *d,
		     json_t **ret, struct error *err)
{
	char text[DIGEST_STR_MAX];
	AUTO_BUF data = { .limit = OCI_MANIFEST_MAX };
	int rc;

	digest_format(d, text);
	rc = call_ctr(f, (const char *const[]){ "content", "get", text, NULL },
		      -1, CTR_TIMEOUT_MS, &data, err);
	if (rc == 0)
		rc = bounded_json_load(data.len ? data.data : "", data.len,
				       text, ret, err);
	return rc == -EFBIG || rc == -EINVAL
		       ? error_set(err, EBADMSG, "%s is no manifest", text)
		       : rc;
}

/* ------------------------------------------------------------------ layers --- */

struct missing_layer {
	const char *image; /* the image's name in containerd; borrowed */
	struct digest manifest, digest;
	size_t index;
	uint64_t size;
};

static int copy_blob(struct layer_fetch *f, const struct missing_layer *m,
		     struct source *blob, int to, struct error *err)
{
	AUTO_FREE char *data = malloc(READ_SIZE);
	int rc = data ? 0 : error_nomem(err);

	for (uint64_t at = 0; rc == 0 && at < m->size;) {
		size_t len = m->size - at < READ_SIZE ? (size_t)(m->size - at)
						      : READ_SIZE;

		rc = source_read_buf(blob, at, data, len, err);
		if (rc == 0 && pwrite(to, data, len, (off_t)at) != (ssize_t)len)
			rc = error_set(err, ENOSPC, "write to '%s' (--tmp)",
				       f->config->tmp);
		at += len;
		progress_step(f->bar, m->image, at, m->size, clock_now_ns());
	}
	return rc;
}

/* Import a layer.  The label comes first, as containerd removes layers without references.
 * containerd checks the digest of the content. */
static int import_layer(struct layer_fetch *f, const struct missing_layer *m,
			int fd, struct error *err)
{
	char manifest[DIGEST_STR_MAX], layer[DIGEST_STR_MAX];
	char label[64 + DIGEST_STR_MAX], size[24];
	int rc;

	digest_format(&m->manifest, manifest);
	digest_format(&m->digest, layer);
	snprintf(label, sizeof(label), "containerd.io/gc.ref.content.l.%zu=%s",
		 m->index, layer);
	snprintf(size, sizeof(size), "%" PRIu64, m->size);
	rc = call_ctr(f,
		      (const char *const[]){ "content", "label", manifest,
					     label, NULL },
		      -1, CTR_TIMEOUT_MS, NULL, err);
	if (rc == 0)
		rc = call_ctr(f,
			      (const char *const[]){ "content", "ingest",
						     "--expected-size", size,
						     "--expected-digest", layer,
						     layer, NULL },
			      fd, INGEST_TIMEOUT_MS, NULL, err);
	return rc;
}

/* Check for disk space before: the size comes from a manifest, and so from strangers. */
static int check_room(const struct layer_fetch *f,
		      const struct missing_layer *m, int fd, struct error *err)
{
	struct statvfs st;

	if (fstatvfs(fd, &st) < 0)
		return error_errno(err, errno, "look at '%s' (--tmp)",
				   f->config->tmp);
	if (m->size <= (uint64_t)st.f_bavail * st.f_frsize)
		return 0;
	return error_set(err, ENOSPC,
			 "a layer of %" PRIu64 " bytes has no room in '%s': "
			 "--tmp names another folder",
			 m->size, f->config->tmp);
}

/* ---------------------------------------------------------------- registries --- */

/* Get bootseerd's settings for registries, since containerd pulled through the same mirrors.  If
 * bootseerd does not answer, only the options are used. */
static int ask_node(struct layer_fetch *f, struct error *err)
{
	const struct node_options node = { .timeout = NODE_TIMEOUT_NS };
	AUTO_JSON *status = NULL;
	struct error why = ERROR_INIT;
	int rc = f->node ? 0
			 : node_ask(&node, "node.status", json_object(),
				    &status, &why);

	if (f->node)
		return 0;
	if (rc < 0)
		fprintf(stderr,
			"registries are asked without bootseerd's options: "
			"%s\n",
			why.msg);
	f->node = json_incref(json_object_get(status, "access"));
	if (!f->node)
		f->node = json_pack("{s:s}", "hosts_dirs", HOSTS_DIRS);
	return f->node ? 0 : error_nomem(err);
}

static const char *node_string(const struct layer_fetch *f, const char *key)
{
	return json_string_value(json_object_get(f->node, key));
}

/* Options of the command line take precedence over bootseerd's settings. */
static int open_registry(struct layer_fetch *f, struct image_target *t,
			 struct oci_store **ret, struct error *err)
{
	struct oci_config *c = &t->config;
	const json_t *host;
	size_t i;
	int rc = ask_node(f, err);

	if (rc < 0)
		return rc;
	if (!c->auth_file)
		c->auth_file = node_string(f, "auth_file");
	if (!c->ca_file)
		c->ca_file = node_string(f, "ca_file");
	c->hosts_dirs = node_string(f, "hosts_dirs");
	json_array_foreach(json_object_get(f->node, "plain_http"), i,
			   host) if (t->ref.host && json_is_string(host) &&
				     strcmp(json_string_value(host),
					    t->ref.host) == 0) c->plain_http =
		true;
	return oci_store_open(&t->ref, c, false, ret, err);
}

static int fetch_layer(struct layer_fetch *f, const struct missing_layer *m,
		       struct error *err)
{
	AUTO_CLOSE int fd =
		open(f->config->tmp, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	AUTO(image_target) t = NULL;
	AUTO(oci_store) store = NULL;
	AUTO(source) blob = NULL;
	int rc;

	if (fd < 0)
		return error_errno(err, errno, "a file in '%s' (--tmp)",
				   f->config->tmp);
	rc = check_room(f, m, fd, err);
	if (rc == 0)
		rc = image_target_new(m->image, &f->config->access, &t, err);
	if (rc == 0)
		rc = open_registry(f, t, &store, err);
	if (rc == 0)
		rc = oci_open_blob(store, &m->digest, m->size, &blob, err);
	if (rc == 0)
		rc = copy_blob(f, m, blob, fd, err);
	return rc < 0 ? rc : import_layer(f, m, fd, err);
}

static int fetch_and_note_layer(struct layer_fetch *f,
				const struct missing_layer *m,
				struct error *err)
{
	const struct blob_known *before = blob_find(f, &m->digest);
	char text[DIGEST_STR_MAX], size[PROGRESS_BYTES_MAX];
	struct error why = ERROR_INIT;
	int rc = f->config->dry_run ? 0 : fetch_layer(f, m, &why);

	if (!before)
		f->n_missing++;
	else
		f->n_failed--;
	if (rc < 0) {
		f->n_failed++;
		f->why = why;
		return set_blob_state(f, &m->digest, BLOB_FAILED, err);
	}
	f->n_fetched += !f->config->dry_run;
	f->bytes += m->size;
	digest_format(&m->digest, text);
	progress_format_bytes(m->size, size);
	printf("%s %s %s %s\n", f->namespace, m->image, text, size);
	return set_blob_state(f, &m->digest, BLOB_THERE, err);
}

/* ------------------------------------------------------------------ images --- */

static bool digest_of_json(const json_t *descriptor, struct digest *ret)
{
	const char *text =
		json_string_value(json_object_get(descriptor, "digest"));

	return text && digest_parse(text, ret, NULL) == 0;
}

/* Is this manifest's image unpacked here?  An index also has manifests for other platforms. */
static bool is_unpacked(const struct layer_fetch *f, const json_t *manifest)
{
	const struct blob_known *c;
	struct digest config;

	if (!digest_of_json(json_object_get(manifest, "config"), &config))
		return false;
	c = blob_find(f, &config);
	return c && c->state == BLOB_UNPACKED;
}

static int visit_layers(struct layer_fetch *f, const char *image,
			const struct digest *id, const json_t *manifest,
			struct error *err)
{
	const json_t *layer;
	size_t i;

	json_array_foreach(json_object_get(manifest, "layers"), i, layer)
	{
		struct missing_layer m = { .image = image,
					   .manifest = *id,
					   .index = i };
		json_int_t size =
			json_integer_value(json_object_get(layer, "size"));
		const struct blob_known *c;
		int rc;

		if (!digest_of_json(layer, &m.digest) || size < 0)
			continue;
		c = blob_find(f, &m.digest);
		if (c && c->state != BLOB_FAILED)
			continue;
		m.size = (uint64_t)size;
		rc = fetch_and_note_layer(f, &m, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int visit_image(struct layer_fetch *f, const char *image,
		       const struct digest *id, bool is_top, struct error *err)
{
	AUTO_JSON *json = NULL;
	const json_t *child;
	struct digest d;
	int rc = read_json(f, id, &json, err);
	size_t i;

	if (rc == 0 && is_unpacked(f, json))
		rc = visit_layers(f, image, id, json, err);
	if (!is_top)
		return rc;
	json_array_foreach(json_object_get(json, "manifests"), i, child)
	{
		if (rc == 0 && digest_of_json(child, &d) && blob_find(f, &d))
			rc = visit_image(f, image, &d, false, err);
	}
	return rc;
}

/* Visit all images, in lines of "REF TYPE DIGEST ...".  Names given by CRI ("sha256:...") have no
 * registry; such an image has another name too. */
static int visit_namespace(struct layer_fetch *f, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	int rc = list_blobs(f, err);
	char *line, *rest;

	if (rc == 0)
		rc = call_ctr(f, (const char *const[]){ "images", "ls", NULL },
			      -1, CTR_TIMEOUT_MS, &text, err);
	rest = text.data;
	while (rc == 0 && rest && (line = strsep(&rest, "\n"))) {
		char *save = NULL, *name = strtok_r(line, " \t", &save);
		char *type = strtok_r(NULL, " \t", &save);
		char *digest = strtok_r(NULL, " \t", &save);
		struct digest d;

		if (!type || !digest || digest_parse(digest, &d, NULL) < 0 ||
		    strncmp(name, "sha256:", 7) == 0 || !blob_find(f, &d))
			continue;
		text_make_printable(name);
		rc = visit_image(f, name, &d, true, err);
		/* A broken image must not keep the other images from being fetched. */
		if (rc == -EBADMSG) {
			error_wrap(err, rc, "image %.100s", name);
			f->n_unread++;
			f->why = *err;
			rc = 0;
		}
	}
	return rc;
}

static int visit_all(struct layer_fetch *f, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	char *name, *rest;
	int rc = call_ctr(f,
			  (const char *const[]){ "namespaces", "ls", "-q",
						 NULL },
			  -1, CTR_TIMEOUT_MS, &text, err);

	rest = text.data;
	while (rc == 0 && rest && (name = strsep(&rest, "\n"))) {
		f->namespace = name;
		if (*name)
			rc = visit_namespace(f, err);
	}
	f->namespace = NULL;
	return rc;
}

static int run_node_fetch(const void *config, char **args, struct error *err)
{
	struct layer_fetch f = { .config = config,
				 .bar = progress_new(plain_output_bar()) };
	char count[PROGRESS_COUNT_MAX], bytes[PROGRESS_BYTES_MAX];
	int rc = visit_all(&f, err);

	(void)args;
	progress_free(f.bar);
	free(f.blobs);
	json_decref(f.node);
	if (rc < 0)
		return rc;
	progress_format_count(f.n_missing, "layer", count);
	progress_format_bytes(f.bytes, bytes);
	if (f.config->dry_run)
		printf("%s missing, %s\n", count, bytes);
	else
		printf("%s missing, %" PRIu64 " fetched, %s\n", count,
		       f.n_fetched, bytes);
	if (!f.n_failed && !f.n_unread)
		return 0;
	progress_format_count(f.n_failed, "layer", count);
	if (!f.n_failed)
		progress_format_count(f.n_unread, "image", count);
	return error_set(err, f.why.code, "%s %s: %s", count,
			 f.n_failed ? "still missing" : "not read", f.why.msg);
}

const struct command node_fetch_command = {
	.brief = "Fetch the layers that containerd lacks of its images",
	.program = {
		.name = "bootseer node fetch",
		.usage = "[OPTIONS]",
		.summary =
			"Fetch into containerd's store the layers that it lacks "
			"of images that were unpacked on this node: those that "
			"were pulled lazily, and those whose layers were "
			"deleted once they were unpacked.  Then another "
			"snapshotter can unpack them.  Asks containerd by "
			"ctr, and the registries as bootseerd does: by its "
			"mirrors, logins, certificates and plain-http, where "
			"no option here says otherwise.",
		.options = options,
		.examples = "  bootseer node fetch --dry-run",
		.see_also = "bootseerd(8)",
	},
	.config_size = sizeof(struct fetch_config),
	.run = run_node_fetch,
};
