// SPDX-License-Identifier: Apache-2.0
/*
 * A pod's request: its volume's attributes, each known, of its type and
 * bounded, and the capability that the kubelet sends beside them. No I/O.
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

/* The texts are borrowed from the message. */
struct volume_request {
	enum volume_kind kind;
	const char *namespace; /* of the pod, as the kubelet says */
	const char *pod_uid, *pod_name;
	const char *tokens; /* JSON, of the service account; NULL: none */
	const char *image, *workload; /* NULL: not said */
	const char *store;
	uint64_t most, memory, uid, gid; /* where `has_` them */
	bool has_most, has_memory, has_uid, has_gid;
	bool is_group; /* `gid` is the pod's fsGroup */
	bool is_ephemeral, is_read_only;
	uint64_t mount_attributes; /* MOUNT_ATTR_ for mount_setattr(2) */
	char selinux_context[MOUNT_CONTEXT_MAX]; /* "": none is said */
};

/* -EINVAL names the attribute, or the option, and the cure. */
int volume_request_read(const struct csi_publish *p, struct volume_request *ret,
			struct error *err) MUST_CHECK;

/* "image" */
const char *volume_kind_name(enum volume_kind kind);
int volume_kind_parse(const char *text, enum volume_kind *ret) MUST_CHECK;

/* "512Mi" as Kubernetes writes it, or "512M" as we do: powers of 1024 both. */
int volume_size_parse(const char *text, uint64_t *ret) MUST_CHECK;

/* Decimal digits alone, at most `max`. */
int volume_number_parse(const char *text, uint64_t max,
			uint64_t *ret) MUST_CHECK;

#endif
