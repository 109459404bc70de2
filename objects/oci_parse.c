// SPDX-License-Identifier: Apache-2.0
/*
 * Manifests, indexes and configs (image-spec 1.1).  Bytes in, values out: all
 * input is hostile.
 */
#include "objects/oci.h"
#include "objects/oci_json.h"
#include "objects/oci_platform.h"

#include <errno.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/base64.h"

#define LAYERS_MAX 65536
#define BLOB_SIZE_MAX ((uint64_t)1 << 50)
#define DATA_MAX (64u << 10) /* bytes of a blob that a manifest carries */

static int get_annotations(const json_t *obj, char **ret, struct error *err)
{
	const json_t *v = json_object_get(obj, "annotations");

	*ret = NULL;
	if (!v || json_is_null(v))
		return 0;
	if (!json_is_object(v))
		return error_set(err, EINVAL, "'annotations' is no object");
	*ret = json_dumps(v, JSON_COMPACT | JSON_SORT_KEYS);
	return *ret ? 0 : error_nomem(err);
}

static int get_descriptor(const json_t *obj, struct oci_descriptor *ret,
			  struct error *err)
{
	const json_t *size;
	int rc;

	if (!json_is_object(obj))
		return error_set(err, EINVAL, "a descriptor is no object");
	rc = oci_json_text(obj, "mediaType", ret->media_type,
			   sizeof(ret->media_type), err);
	if (rc == 0)
		rc = oci_json_digest(obj, "digest", &ret->digest, err);
	if (rc < 0)
		return rc;
	size = json_object_get(obj, "size");
	if (!json_is_integer(size) || json_integer_value(size) < 0 ||
	    (uint64_t)json_integer_value(size) > BLOB_SIZE_MAX)
		return error_set(err, EINVAL, "'size' is no size of a blob");
	ret->size = (uint64_t)json_integer_value(size);
	return get_annotations(obj, &ret->annotations, err);
}

/* Decode the blob that a descriptor carries itself (image-spec, "data"). Data that are
 * not the blob are passed over: the blob can be fetched all the same. */
static int get_data(const json_t *obj, const struct oci_descriptor *d,
		    struct buf *ret, struct error *err)
{
	const char *text = json_string_value(json_object_get(obj, "data"));
	AUTO_BUF data = BUF_INIT;
	struct digest have;
	int rc;

	if (!text || d->size > DATA_MAX || strlen(text) > 2 * DATA_MAX)
		return 0;
	rc = base64_decode(text, strlen(text), &data);
	if (rc == -ENOMEM)
		return error_nomem(err);
	if (rc < 0 || data.len != d->size)
		return 0;
	if (digest_of(data.data, data.len, &have) < 0)
		return error_nomem(err);
	if (!digest_equal(&have, &d->digest))
		return 0;
	*ret = data;
	data = (struct buf)BUF_INIT;
	return 0;
}

static int get_layers(const json_t *obj, struct oci_image *m, struct error *err)
{
	const json_t *layers = json_object_get(obj, "layers");
	size_t n = json_array_size(layers);
	int rc = 0;

	if (!json_is_array(layers) || n > LAYERS_MAX)
		return error_set(err, EINVAL,
				 "'layers' is no list of at most %d layers",
				 LAYERS_MAX);
	m->layers = calloc(n ? n : 1, sizeof(*m->layers));
	if (!m->layers)
		return error_nomem(err);
	for (; m->n_layers < n && rc == 0; m->n_layers++) {
		size_t i = m->n_layers;

		rc = get_descriptor(json_array_get(layers, i), &m->layers[i],
				    err);
		if (rc < 0)
			rc = error_wrap(err, rc, "layer %zu", i);
	}
	return rc;
}

static int get_image(const json_t *j, struct oci_image *m, struct error *err)
{
	const json_t *version = json_object_get(j, "schemaVersion");
	struct oci_descriptor subject = { .size = 0 };
	int rc;

	if (!json_is_integer(version) || json_integer_value(version) != 2)
		return error_set(err, ENOTSUP,
				 "schemaVersion is not 2: push the image again "
				 "with a current tool");
	/* A document that can be read as two things is an attack (CVE-2021-41190). */
	if (json_object_get(j, "manifests"))
		return error_set(err, EINVAL,
				 "it has 'manifests': it is an index, or wants "
				 "to be taken for one");
	rc = oci_json_text(j, "artifactType", m->artifact_type,
			   sizeof(m->artifact_type), err);
	if (rc == 0)
		rc = get_descriptor(json_object_get(j, "config"), &m->config,
				    err);
	if (rc == 0)
		rc = get_data(json_object_get(j, "config"), &m->config,
			      &m->config_data, err);
	if (rc < 0)
		return error_wrap(err, rc, "config");
	rc = get_layers(j, m, err);
	if (rc == 0)
		rc = get_annotations(j, &m->annotations, err);
	if (rc < 0 || !json_object_get(j, "subject"))
		return rc;
	rc = get_descriptor(json_object_get(j, "subject"), &subject, err);
	free(subject.annotations);
	if (rc < 0)
		return error_wrap(err, rc, "subject");
	m->has_subject = true;
	m->subject = subject.digest;
	return 0;
}

int oci_image_parse(const void *json, size_t len, struct oci_image *ret,
		    struct error *err)
{
	struct oci_image m = { .n_layers = 0 };
	AUTO_JSON *j = NULL;
	int rc = bounded_json_load(json, len, "manifest", &j, err);

	if (rc < 0)
		return rc;
	rc = get_image(j, &m, err);
	if (rc < 0) {
		oci_image_fini(&m);
		return error_wrap(err, rc, "manifest");
	}
	*ret = m;
	return 0;
}

void oci_image_fini(struct oci_image *m)
{
	for (size_t i = 0; i < m->n_layers; i++)
		free(m->layers[i].annotations);
	free(m->layers);
	free(m->config.annotations);
	buf_fini(&m->config_data);
	free(m->annotations);
	*m = (struct oci_image){ .n_layers = 0 };
}

void oci_manifest_fini(struct oci_manifest *m)
{
	buf_fini(&m->body);
}

bool oci_media_type_is_index(const char *media_type)
{
	return strcmp(media_type, "application/vnd.oci.image.index.v1+json") ==
		       0 ||
	       strcmp(media_type, "application/vnd.docker.distribution."
				  "manifest.list.v2+json") == 0;
}

/* The name of this machine's platform, as Go programs write it. */
static void own_platform(char *out, size_t size)
{
	static const char *const names[][2] = {
		{ "x86_64", "amd64" },    { "aarch64", "arm64" },
		{ "armv7l", "arm" },      { "riscv64", "riscv64" },
		{ "ppc64le", "ppc64le" }, { "s390x", "s390x" },
	};
	struct utsname u;

	(void)uname(&u);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(u.machine, names[i][0]) == 0) {
			(void)snprintf(out, size, "linux/%s", names[i][1]);
			return;
		}
	(void)snprintf(out, size, "linux/%.32s", u.machine);
}

bool oci_platform_has_erofs(const json_t *platform)
{
	const json_t *list = json_object_get(platform, "os.features");
	const char *text;

	for (size_t i = 0; i < json_array_size(list); i++) {
		text = json_string_value(json_array_get(list, i));
		if (text && strcmp(text, "erofs") == 0)
			return true;
	}
	return false;
}

/* Format the platform of an index entry, or of an image's config.  An image whose layers are EROFS
 * images has the platform that containerd writes "linux(+erofs)/amd64": nothing that
 * wants "linux/amd64" takes it, since the same image with ordinary layers is beside it. */
static int format_platform(const json_t *p, struct buf *ret)
{
	const char *os = json_string_value(json_object_get(p, "os"));
	const char *arch =
		json_string_value(json_object_get(p, "architecture"));
	const char *variant = json_string_value(json_object_get(p, "variant"));

	return buf_printf(ret, "%.32s%s/%.32s%s%.32s", os ? os : "?",
			  oci_platform_has_erofs(p) ? "(+erofs)" : "",
			  arch ? arch : "?", variant ? "/" : "",
			  variant ? variant : "");
}

/* "linux/arm64" matches "linux/arm64/v8" too. */
static bool platform_matches(const char *have, const char *want)
{
	size_t len = strlen(want);

	return strncmp(have, want, len) == 0 &&
	       (have[len] == '\0' || have[len] == '/');
}

int oci_platform_check(const char *platform, struct error *err)
{
	size_t slashes = 0, len = strlen(platform);

	for (const char *p = platform; *p; p++)
		slashes += *p == '/';
	if (slashes > 0 && slashes < 3 && *platform != '/' &&
	    platform[len - 1] != '/' && !strstr(platform, "//"))
		return 0;
	return error_set(err, EINVAL,
			 "platform '%.64s' is not OS/ARCH, as in linux/amd64",
			 platform);
}

/* Does the entry say nothing of a platform?  `{"os": "unknown"}` is what
 * attestations have. */
static bool is_nameless(const json_t *entry)
{
	return !json_object_get(entry, "platform") &&
	       !json_object_get(entry, "artifactType");
}

static int get_choice(const json_t *entry, bool matches,
		      struct oci_index_choice *ret, struct error *err)
{
	const char *type =
		json_string_value(json_object_get(entry, "mediaType"));

	ret->matches = matches;
	ret->is_index = type && oci_media_type_is_index(type);
	return oci_json_digest(entry, "digest", &ret->digest, err);
}

/* Those that say `platform` (`matches`), or those that say none; the others'
 * platforms go to `others`. */
static int get_choices(const json_t *list, const char *platform, bool matches,
		       struct oci_choices *ret, struct buf *others,
		       struct error *err)
{
	json_t *entry;
	size_t i;

	json_array_foreach(list, i, entry)
	{
		AUTO_BUF have = BUF_INIT;
		bool nameless = is_nameless(entry), fits;
		int rc;

		if (format_platform(json_object_get(entry, "platform"), &have) <
		    0)
			return error_nomem(err);
		fits = !nameless && platform_matches(have.data, platform);
		/* The list is for the message; what does not fit is left out. */
		if (matches && !nameless && !fits &&
		    buf_printf(others, "%s%s", others->len ? ", " : "",
			       have.data) < 0)
			continue;
		if (!(matches ? fits : nameless))
			continue;
		if (ret->n == OCI_CHOICES_MAX)
			return 0;
		rc = get_choice(entry, matches, &ret->list[ret->n++], err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int oci_index_choices(const void *json, size_t len, const char *platform,
		      struct oci_choices *ret, struct buf *others,
		      struct error *err)
{
	AUTO_JSON *j = NULL;
	const json_t *list;
	int rc = oci_platform_check(platform, err);

	ret->n = 0;
	if (rc == 0)
		rc = bounded_json_load(json, len, "index", &j, err);
	if (rc < 0)
		return rc;
	list = json_object_get(j, "manifests");
	if (json_object_get(j, "layers") || json_object_get(j, "config"))
		rc = error_set(err, EINVAL,
			       "the index has layers: it wants to be taken "
			       "for a manifest too");
	if (rc == 0)
		rc = get_choices(list, platform, true, ret, others, err);
	if (rc == 0)
		rc = get_choices(list, platform, false, ret, others, err);
	return rc;
}

const char *oci_own_platform(char out[OCI_PLATFORM_MAX])
{
	own_platform(out, OCI_PLATFORM_MAX);
	return out;
}

int oci_config_check_platform(const void *json, size_t len,
			      const char *platform, struct error *err)
{
	AUTO_BUF have = BUF_INIT;
	AUTO_JSON *j = NULL;
	int rc = oci_platform_check(platform, err);

	if (rc == 0)
		rc = bounded_json_load(json, len, "image config", &j, err);
	if (rc < 0)
		return rc;
	rc = format_platform(j, &have);
	if (rc < 0)
		return error_nomem(err);
	if (platform_matches(have.data, platform) ||
	    platform_matches(platform, have.data))
		return 0;
	return error_set(err, ENOENT, "it is an image for %s, not for %s",
			 have.data, platform);
}

int oci_config_check_linux(const void *json, size_t len, struct error *err)
{
	const char *os;
	AUTO_JSON *j = NULL;
	int rc = bounded_json_load(json, len, "image config", &j, err);

	if (rc < 0)
		return rc;
	os = json_string_value(json_object_get(j, "os"));
	if (os && *os && strcmp(os, "linux") != 0)
		rc = error_set(err, ENOTSUP,
			       "it is an image for %.32s, which nodes cannot "
			       "run: name one for Linux (of an index: "
			       "--platform linux/ARCH)",
			       os);
	return rc;
}

int oci_config_diff_ids(const void *json, size_t len, struct digest **ret,
			size_t *ret_n, struct error *err)
{
	AUTO_FREE struct digest *ids = NULL;
	const json_t *list;
	AUTO_JSON *j = NULL;
	size_t n;
	int rc = bounded_json_load(json, len, "image config", &j, err);

	if (rc < 0)
		return rc;
	list = json_object_get(json_object_get(j, "rootfs"), "diff_ids");
	n = json_array_size(list);
	if (!json_is_array(list) || n > LAYERS_MAX)
		rc = error_set(err, EINVAL,
			       "image config: no rootfs.diff_ids: not an "
			       "ordinary image");
	if (rc == 0) {
		ids = calloc(n ? n : 1, sizeof(*ids));
		rc = ids ? 0 : error_nomem(err);
	}
	for (size_t i = 0; i < n && rc == 0; i++) {
		const char *text = json_string_value(json_array_get(list, i));

		rc = digest_parse(text ? text : "", &ids[i], err);
		if (rc < 0)
			rc = error_wrap(err, rc, "image config: diff_id %zu",
					i);
	}
	if (rc < 0)
		return rc;
	*ret = steal_ptr(&ids);
	*ret_n = n;
	return 0;
}

char *oci_annotation(const char *annotations, const char *key)
{
	AUTO_JSON *j = annotations ? json_loads(annotations, 0, NULL) : NULL;
	const char *v = json_string_value(json_object_get(j, key));

	return v ? strdup(v) : NULL;
}

/* Compute the chain id of one more layer on top (image-spec, "ChainID"). */
static int chain_next(const struct digest *chain, const struct digest *diff_id,
		      struct digest *ret)
{
	char text[2 * DIGEST_STR_MAX];
	size_t len;

	digest_format(chain, text);
	len = strlen(text);
	text[len++] = ' ';
	digest_format(diff_id, text + len);
	return digest_of(text, strlen(text), ret);
}

int oci_chain_ids(const struct digest *diff_ids, size_t n, struct digest *ret)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		if (i == 0)
			ret[i] = diff_ids[i];
		else
			rc = chain_next(&ret[i - 1], &diff_ids[i], &ret[i]);
	}
	return rc;
}

int oci_chain_id(const struct digest *diff_ids, size_t n, struct digest *ret)
{
	int rc = 0;

	*ret = diff_ids[0];
	for (size_t i = 1; i < n && rc == 0; i++) {
		struct digest chain = *ret;

		rc = chain_next(&chain, &diff_ids[i], ret);
	}
	return rc;
}
