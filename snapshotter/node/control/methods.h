// SPDX-License-Identifier: Apache-2.0
/* Helpers that the files of the control socket's methods share. */
#ifndef BOOTSEER_NODE_METHODS_H
#define BOOTSEER_NODE_METHODS_H

#include "net/control.h"
#include "snapshotter/node/control/node.h"
#include "snapshotter/node/images/images.h"
#include "snapshotter/node/remote_call.h"

/* Does what one method of the control socket says; the result is the caller's,
 * NULL with `err`. */
typedef json_t *method_fn(struct node *n, json_t *params, struct error *err);
/* The same of a method that may wait.  `call` NULL: it must not; -EINPROGRESS when it
 * would have to, or for a registry with a call that is_local. */
typedef json_t *remote_method_fn(struct node *n, json_t *params,
				 struct remote_call *call, struct error *err);

/* Parameters that do not fit are -EINVAL, with what is wrong. */
int params_unpack(json_t *params, struct error *err, const char *fmt,
		  ...) MUST_CHECK;
/* An image of the node by id; NULL with -ENOENT. */
struct image *params_image(struct node *n, const char *id,
			   struct error *err) MUST_CHECK;
int params_user(const char *user, struct error *err) MUST_CHECK;

/* methods_start.c */
method_fn method_ready, method_end, method_explain;
remote_method_fn method_begin, method_record;

/* methods_login.c */
method_fn method_login, method_secrets;

/* methods_doctor.c */
remote_method_fn method_doctor_report;

/* methods_environment.c */
remote_method_fn method_env_mount, method_env_open, method_env_read,
	method_env_umount;

/* For a method that always needs a thread that may wait: -EINPROGRESS on
 * another one. */
int method_waits(const struct remote_call *call, struct error *err) MUST_CHECK;

#endif
