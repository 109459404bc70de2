// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/convert/layer_type.h"

#include <errno.h>
#include <string.h>

#include "common/buf.h"
#include "common/bytes.h"
#include "common/json.h"
#include "snapshotter/convert/tar.h"

#define MAGIC_MAX 6u

/* Media types of layers that are read; their first bytes tell the compression. */
static const char *const layer_types[] = {
	"application/vnd.oci.image.layer.v1.tar",
	"application/vnd.oci.image.layer.v1.tar+gzip",
	"application/vnd.oci.image.layer.v1.tar+zstd",
	"application/vnd.oci.image.layer.nondistributable.v1.tar",
	"application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
	"application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
	"application/vnd.docker.image.rootfs.diff.tar",
	"application/vnd.docker.image.rootfs.diff.tar.gzip",
	"application/vnd.docker.image.rootfs.diff.tar.zstd",
	"application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
};

/* Compressions that neither this program nor containerd reads. */
static const struct {
	const char *name;
	size_t len;
	uint8_t magic[MAGIC_MAX];
} compressions[] = {
	{ "bzip2", 3, "BZh" },
	{ "xz", 6, { 0xfd, '7', 'z', 'X', 'Z', 0 } },
	{ "lz4", 4, { 0x04, 0x22, 0x4d, 0x18 } },
};

#define ANEW \
	"store the image with gzip or zstd (skopeo copy " \
	"--dest-compress-format gzip)"

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), len = strlen(end);

	return n >= len && strcmp(text + n - len, end) == 0;
}

/* List the kinds of keys for which the layer's own key is encrypted: "jwe, pgp". */
static void list_key_kinds(const struct oci_descriptor *layer, struct buf *ret)
{
	static const char prefix[] = "org.opencontainers.image.enc.keys.";
	AUTO_JSON *all = layer->annotations
				 ? json_loads(layer->annotations, 0, NULL)
				 : NULL;
	const json_t *value;
	const char *name;

	json_object_foreach((json_t *)all, name, value)
	{
		char kind[TAR_NAME_MAX];

		if (strncmp(name, prefix, sizeof(prefix) - 1) != 0)
			continue;
		tar_format_name(name + sizeof(prefix) - 1, kind);
		(void)!buf_printf(ret, "%s%.32s", ret->len ? ", " : "", kind);
	}
}

/* Refuse encrypted layers, even if the key were known: their blocks would be stored unencrypted
 * in the registry, for all who may pull there. */
static int refuse_encrypted(const struct oci_descriptor *layer,
			    struct error *err)
{
	AUTO_BUF kinds = { .limit = 128 };

	list_key_kinds(layer, &kinds);
	return error_set(
		err, ENOTSUP,
		"it is encrypted (%.100s) for a key of the kind %s: "
		"nodes start the image the ordinary way, or decrypt it "
		"first (skopeo copy --decryption-key)",
		layer->media_type, kinds.len ? kinds.data : "unknown");
}

/* Media types of EROFS layers, by containerd 2.1 to 2.3 and by the format's specification. */
static const char *const erofs_types[] = {
	"application/vnd.erofs",
	"application/vnd.erofs+zstd",
	"application/vnd.erofs.layer.v1",
	"application/vnd.erofs.layer.v1+zstd",
};

bool layer_type_is_erofs(const char *media_type)
{
	for (size_t i = 0; i < ARRAY_SIZE(erofs_types); i++)
		if (strcmp(erofs_types[i], media_type) == 0)
			return true;
	return ends_with(media_type, ".erofs") ||
	       ends_with(media_type, ".erofs+zstd");
}

int layer_type_check(const struct oci_descriptor *layer, struct error *err)
{
	const char *media_type = layer->media_type;

	for (size_t i = 0; i < ARRAY_SIZE(layer_types); i++)
		if (strcmp(layer_types[i], media_type) == 0)
			return 0;
	if (ends_with(media_type, "+encrypted"))
		return refuse_encrypted(layer, err);
	if (layer_type_is_erofs(media_type))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(compressions); i++)
		if (ends_with(media_type, compressions[i].name))
			return error_set(
				err, ENOTSUP,
				"its media type '%.100s' is not read: " ANEW,
				media_type);
	return error_set(err, ENOTSUP,
			 "its media type '%.100s' is not known: a layer is a "
			 "tar, plain or with gzip or zstd",
			 media_type);
}

static const char *compression_of(struct source *source)
{
	uint8_t magic[MAGIC_MAX];

	if (source_read_buf(source, 0, magic, sizeof(magic), NULL) < 0)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(compressions); i++)
		if (memcmp(magic, compressions[i].magic, compressions[i].len) ==
		    0)
			return compressions[i].name;
	return NULL;
}

int layer_type_explain(const char *media_type, struct source *source, int rc,
		       struct error *err)
{
	const char *name;

	if (rc == -ENOENT && (strstr(media_type, ".nondistributable.") ||
			      strstr(media_type, ".foreign.")))
		return error_set(err, ENOENT,
				 "it is non-distributable (%.100s) and not "
				 "there: push the image with such layers, or "
				 "build one without",
				 media_type);
	/* A layer that is neither gzip nor zstd was read as a plain tar. */
	name = rc == -EBADMSG && source ? compression_of(source) : NULL;
	if (name)
		return error_set(err, ENOTSUP,
				 "it is compressed by %s (%.80s): " ANEW, name,
				 media_type);
	return rc;
}
