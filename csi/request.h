// SPDX-License-Identifier: Apache-2.0
/*
 * A pod's request for a volume: its attributes, checked for name, type and limits, and the
 * capability that the kubelet sends with them. No I/O.
 */
#ifndef BOOTSEER_CSI_REQUEST_H
#define BOOTSEER_CSI_REQUEST_H

#include "common/mount.h"
#include "csi/messages.h"

enum volume_kind {
	VOLUME_KIND_IMAGE,
	VOLUME_KIND_ENV,
	VOLUME_KIND_CKPT,
};

/* A checked request; the texts are borrowed from the message. */
struct volume_request {
	enum volume_kind kind;
	const char *namespace; /* namespace of the pod, set by the kubelet */
	const char *pod_uid, *pod_name;
	/* tokens of the service account as JSON; NULL: none */
	const char *tokens;
	const char *image, *workload; /* NULL: not given */
	const char *store;
	uint64_t most, memory, uid, gid; /* valid if `has_...` is true */
	bool has_most, has_memory, has_uid, has_gid;
	bool is_group; /* `gid` is the pod's fsGroup */
	bool is_ephemeral, is_read_only;
	uint64_t mount_attributes; /* MOUNT_ATTR_ for mount_setattr(2) */
	char selinux_context[MOUNT_CONTEXT_MAX]; /* "": none */
};

/* Check a request.  -EINVAL names the wrong attribute or option, and the cure. */
int volume_request_read(const struct csi_publish *p, struct volume_request *ret,
			struct error *err) MUST_CHECK;

/* The kind's name, such as "image". */
const char *volume_kind_name(enum volume_kind kind);
int volume_kind_parse(const char *text, enum volume_kind *ret) MUST_CHECK;

/* Parse a size such as "512Mi", as in Kubernetes, or "512M", as in bootseer: both are powers of
 * 1024. */
int volume_size_parse(const char *text, uint64_t *ret) MUST_CHECK;

/* Parse a number of decimal digits only, at most `max`. */
int volume_number_parse(const char *text, uint64_t max,
			uint64_t *ret) MUST_CHECK;

#endif
