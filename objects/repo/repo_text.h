// SPDX-License-Identifier: Apache-2.0
/*
 * The texts by which a repository of a registry keeps objects: the tag of a name, and the
 * manifest of an object.  No I/O.  docs/formats/object-manifest.md has both.
 */
#ifndef BOOTSEER_OBJECTS_REPO_TEXT_H
#define BOOTSEER_OBJECTS_REPO_TEXT_H

#include <stdbool.h>

#include "common/buf.h"
#include "common/digest.h"
#include "objects/store.h"

#define REPO_TAG_MAX 129 /* bytes, NUL included (distribution-spec 1.1) */
#define REPO_EMPTY_TYPE "application/vnd.oci.empty.v1+json"
#define REPO_MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"
#define REPO_MANIFEST_MAX 16384 /* bytes; ours have less */

/* The name in the characters that a tag may have, and back.  -ENOMEM; decoding: -EINVAL
 * for what repo_name_encode() does not make. */
int repo_name_encode(const char *name, struct buf *ret) MUST_CHECK;
int repo_name_decode(const char *text, struct buf *ret) MUST_CHECK;

/* The tag of an object's name. */
int repo_tag(const char *name, char ret[REPO_TAG_MAX],
	     struct error *err) MUST_CHECK;
/* May an object of this tag be in the folder ("": the root), of which `encoded` is the
 * encoded name with its slash?  Where the tag has the whole name, *ret_name gets it,
 * which is the caller's; else NULL, and its manifest has it. */
bool repo_tag_is_in(const char *tag, const char *encoded, char **ret_name);

/* An object by its manifest. */
struct repo_manifest {
	char name[OBJECT_NAME_MAX + 1];
	struct digest blob; /* of its bytes, unless it has none */
	uint64_t size;
	int64_t modified_ms; /* the writer's wall clock */
};

/* `put` is a word that no other put has, so that each version has another digest. */
int repo_manifest_format(const struct repo_manifest *m, const char *put,
			 struct buf *ret, struct error *err) MUST_CHECK;
/* -EPROTO: it is no object's manifest. */
int repo_manifest_parse(const void *json, size_t len, struct repo_manifest *ret,
			struct error *err) MUST_CHECK;

#endif
