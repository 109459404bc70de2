// SPDX-License-Identifier: Apache-2.0
/* Helpers that the files of the control socket's methods share. */
#ifndef BOOTSEER_NODE_METHODS_H
#define BOOTSEER_NODE_METHODS_H

#include "net/control.h"
#include "snapshotter/node/control/node.h"
#include "snapshotter/node/images/images.h"
#include "snapshotter/node/remote_call.h"

/* A method of the control socket; the result is the caller's, NULL with `err`. */
typedef json_t *method_fn(struct node *n, json_t *params, struct error *err);
/* A method that may wait.  `call` NULL: it must not wait; -EINPROGRESS if it would have to, or
 * if it would wait for a registry and `call` is_local. */
typedef json_t *remote_method_fn(struct node *n, json_t *params,
				 struct remote_call *call, struct error *err);

/* Read the parameters by `fmt`; -EINVAL, with the reason, if they do not fit. */
int params_unpack(json_t *params, struct error *err, const char *fmt,
		  ...) MUST_CHECK;
/* Take a use of the image with this id; NULL with -ENOENT. */
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

/* Check that the method runs on a thread that may wait: -EINPROGRESS on another thread. */
int method_waits(const struct remote_call *call, struct error *err) MUST_CHECK;

#endif
