// SPDX-License-Identifier: Apache-2.0
/* Helpers to read the parameters of the control socket's methods. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "snapshotter/node/control/methods.h"
#include "snapshotter/node/control/node.h"
#include "snapshotter/node/images/images.h"

int params_unpack(json_t *params, struct error *err, const char *fmt, ...)
{
	json_error_t why;
	va_list ap;
	int rc;

	va_start(ap, fmt);
	rc = json_vunpack_ex(params, &why, JSON_STRICT, fmt, ap);
	va_end(ap);
	return rc < 0 ? error_set(err, EINVAL, "parameters: %s", why.text) : 0;
}

struct image *params_image(struct node *n, const char *id, struct error *err)
{
	struct digest d;
	struct image *i;

	if (digest_parse(id, &d, err) < 0)
		return NULL;
	i = images_get(n->images, &d);
	if (!i)
		error_set(err, ENOENT, "no image %s on this node: prepare it",
			  id);
	return i;
}

int method_waits(const struct remote_call *call, struct error *err)
{
	return call ? 0 : error_set(err, EINPROGRESS, "it may wait");
}

int params_user(const char *user, struct error *err)
{
	if (!user[0] || strlen(user) > STATE_STRING_MAX)
		return error_set(err, EINVAL,
				 "parameters: user of 1 to %d bytes wanted",
				 STATE_STRING_MAX);
	return 0;
}
