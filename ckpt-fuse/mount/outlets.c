// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/outlets.h"

#include <stdlib.h>
#include <string.h>

#include "ckpt-fuse/mount/control.h"
#include "ckpt-fuse/mount/exporter.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"

#define RETRY_MS 2000

enum outlet_kind { OUTLET_STATUS, OUTLET_METRICS, OUTLET_HTTP, OUTLET_KINDS };

struct outlets {
	struct outlets_config cfg;
	char *at[OUTLET_KINDS]; /* NULL: it is not wanted */
	struct control *sockets[OUTLET_HTTP];
	struct exporter *exporter;
	bool was_told[OUTLET_KINDS]; /* the log has that it is not open */
	int64_t tried_ms;
};

static bool is_missing(const struct outlets *o, enum outlet_kind kind)
{
	return o->at[kind] && !(kind == OUTLET_HTTP ? o->exporter != NULL
						    : o->sockets[kind] != NULL);
}

static int open_outlet(struct outlets *o, enum outlet_kind kind,
		       struct error *err)
{
	if (kind == OUTLET_HTTP)
		return exporter_new(o->at[kind], o->cfg.mount, &o->exporter,
				    err);
	return control_new(o->at[kind], o->cfg.mount, o->cfg.path,
			   o->cfg.is_adopted, kind == OUTLET_METRICS,
			   &o->sockets[kind], err);
}

static void tell(struct outlets *o, enum outlet_kind kind, int rc,
		 const struct error *why)
{
	if (rc == 0 && o->was_told[kind])
		log_info("ckpt", "figures are told again at=\"%s\"",
			 o->at[kind]);
	if (rc < 0 && !o->was_told[kind])
		log_warning("ckpt",
			    "figures are not told, and the mount goes on: this "
			    "is tried again at=\"%s\" reason=\"%s\"",
			    o->at[kind], why->msg);
	o->was_told[kind] = rc < 0;
}

/* The first that fails ends a mount that nobody uses yet. */
static int open_missing(struct outlets *o, struct error *err)
{
	o->tried_ms = clock_now_ms();
	for (enum outlet_kind k = 0; k < OUTLET_KINDS; k++) {
		struct error why = ERROR_INIT;
		int rc;

		if (!is_missing(o, k))
			continue;
		rc = open_outlet(o, k, &why);
		if (rc < 0 && !o->cfg.is_adopted)
			return error_set(err, -rc, "%s", why.msg);
		tell(o, k, rc, &why);
	}
	return 0;
}

int outlets_new(const struct outlets_config *cfg, struct outlets **ret,
		struct error *err)
{
	const struct ckpt_mount_config *c = cfg->mount->cfg;
	struct outlets *o = calloc(1, sizeof(*o));
	int rc;

	if (!o)
		return error_nomem(err);
	o->cfg = *cfg;
	o->at[OUTLET_STATUS] = fs_join(c->run_dir, "status.sock");
	o->at[OUTLET_METRICS] = fs_join(c->run_dir, "metrics.sock");
	o->at[OUTLET_HTTP] = c->metrics ? strdup(c->metrics) : NULL;
	rc = !o->at[OUTLET_STATUS] || !o->at[OUTLET_METRICS] ||
			     (c->metrics && !o->at[OUTLET_HTTP])
		     ? error_nomem(err)
		     : open_missing(o, err);
	if (rc < 0)
		outlets_free(o);
	else
		*ret = o;
	return rc;
}

void outlets_free(struct outlets *o)
{
	if (!o)
		return;
	exporter_free(o->exporter);
	control_free(o->sockets[OUTLET_METRICS]);
	control_free(o->sockets[OUTLET_STATUS]);
	for (size_t i = 0; i < OUTLET_KINDS; i++)
		free(o->at[i]);
	free(o);
}

int outlets_interval(const struct outlets *o)
{
	int64_t left = o->tried_ms + RETRY_MS - clock_now_ms();

	for (enum outlet_kind k = 0; k < OUTLET_KINDS; k++)
		if (is_missing(o, k))
			return left > 0 ? (int)left : 0;
	return -1;
}

void outlets_retry(struct outlets *o)
{
	if (outlets_interval(o) == 0)
		(void)!open_missing(o, NULL);
}
