// SPDX-License-Identifier: Apache-2.0
/* Volumes of kind image: bootseerd mounts the image, and keeps it mounted. */
#include <errno.h>
#include <string.h>

#include "common/log.h"
#include "common/text.h"
#include "csi/volumes_priv.h"

#define NODE_WAIT_MS 5000

static int format_volume_user(const char *name, char **ret, struct error *err)
{
	if (asprintf(ret, VOLUME_USER_PREFIX "%s", name) < 0) {
		*ret = NULL;
		return error_nomem(err);
	}
	return 0;
}

/* Begin a start; if that fails, the volume is only slower. */
static void begin_start(struct node_client *c, const struct digest *id,
			const struct volume_request *r, const char *user)
{
	const struct node_start s = { .user = user,
				      .workload = r->workload,
				      .wait = "none" };
	struct error err = ERROR_INIT;

	if (node_start_begin(c, id, &s, NULL, &err) < 0)
		log_warning("csi",
			    "nothing is prefetched: volume=%s "
			    "reason=\"%s\"",
			    user, err.msg);
}

static void warn_stale(struct node_image *image, const char *name)
{
	if (!image->warning)
		return;
	text_make_printable(image->warning);
	log_warning("csi",
		    "may be another image by now: volume=%s "
		    "reason=\"%s\"",
		    name, image->warning);
}

static int explain_mount_failure(const char *image, int rc, struct error *err)
{
	if (rc == -ENOENT)
		return error_wrap(err, rc,
				  "'%.120s' is no volume as it is: 'bootseer "
				  "image convert' makes it one",
				  image);
	if (rc == -EKEYREJECTED)
		return error_wrap(err, -EACCES,
				  "'%.120s': the node's bootseerd does not "
				  "trust it (--trust)",
				  image);
	return error_wrap(err, rc, "image '%.120s'", image);
}

int volume_image_open(const struct volume_job *j, char **ret, struct error *err)
{
	const struct node_image_query q = { .ref = j->request->image };
	struct node_image image = { .chain_ids = NULL };
	struct node_client *c = NULL;
	AUTO_FREE char *user = NULL;
	int rc = format_volume_user(j->target->name, &user, err);

	if (rc < 0)
		return rc;
	/* -ECONNREFUSED, since -ENOENT of the missing socket would look like a missing image. */
	if (volume_node_open(j->volumes, NODE_WAIT_MS, &c, err) < 0)
		return -ECONNREFUSED;
	rc = node_image_prepare(c, &q, &image, err);
	if (rc == 0)
		warn_stale(&image, j->target->name);
	if (rc == 0)
		rc = node_image_mount(c, &image.id, user, true, ret, NULL, err);
	if (rc == 0)
		begin_start(c, &image.id, j->request, user);
	else
		rc = explain_mount_failure(j->request->image, rc, err);
	node_image_fini(&image);
	node_client_close(c);
	return rc;
}

int volume_image_close(const struct volumes *v, const char *name,
		       struct error *err)
{
	struct node_client *c = NULL;
	AUTO_FREE char *user = NULL;
	int rc = format_volume_user(name, &user, err);

	if (rc == 0)
		rc = volume_node_open(v, 0, &c, err);
	if (rc < 0)
		return rc;
	rc = node_start_end(c, user, err);
	if (rc == 0)
		rc = node_image_umount(c, NULL, user, err);
	node_client_close(c);
	return rc;
}
