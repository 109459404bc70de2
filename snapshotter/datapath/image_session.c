// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/datapath/image_session.h"

#include <stdlib.h>
#include <sys/mount.h>

#include "common/fs.h"
#include "common/log.h"
#include "snapshotter/datapath/serve.h"

struct image_session *image_session_of(struct fuse_req *req)
{
	return session_owner(session_of(req));
}

bool image_session_is_early(void *owner, uint64_t node, const char *name)
{
	struct image_session *s = owner;
	struct image_entry *e;
	uint64_t index;

	if (node_is_image(node))
		index = node_index(node);
	else if (!name || image_index_parse(name, &index) < 0)
		return false;
	e = image_get(s->images, index);
	if (e)
		image_put(s->images, e);
	return !e;
}

void image_session_free(void *owner)
{
	struct image_session *s = owner;

	read_pool_unref(s->pool);
	image_table_free(s->images);
	free(s);
}

static int set_pool(struct image_session *s, struct read_pool *shared,
		    struct error *err)
{
	if (!shared)
		return read_pool_new(&s->pool, err);
	read_pool_ref(shared);
	s->pool = shared;
	return 0;
}

static int image_session_new(const struct image_session_config *cfg,
			     struct image_session **ret, struct error *err)
{
	struct image_session *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return error_nomem(err);
	s->priv = cfg->priv;
	s->images = image_table_new();
	rc = s->images ? set_pool(s, cfg->pool, err) : error_nomem(err);
	if (rc < 0) {
		image_session_free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

int image_session_ensure(struct image_session *s, struct error *err)
{
	int rc = session_ensure(s->session, err);

	if (rc > 0)
		log_warning("datapath",
			    "mounted again path=\"%s\" reason=\"somebody "
			    "unmounted it\" effect=\"none: images that are "
			    "mounted went on\"",
			    session_path(s->session));
	return rc < 0 ? rc : 0;
}

int image_session_start(const struct image_session_config *cfg,
			struct image_session **ret, struct error *err)
{
	AUTO_FREE char *path = fs_join(cfg->datapath->run_dir, cfg->name);
	struct session_config sc = {
		.name = cfg->name,
		.path = path,
		.run_dir = cfg->datapath->run_dir,
		.threads = cfg->datapath->threads,
		.keeper = cfg->datapath->keeper,
		.handler = cfg->handler,
		.fstype = cfg->fstype,
		.mount_data = "default_permissions,allow_other",
		.mount_flags = MS_RDONLY | MS_NOATIME | cfg->mount_flags,
		.log = "datapath",
	};
	struct image_session *s = NULL;
	struct session *session;
	int rc;

	if (!path)
		return error_nomem(err);
	rc = image_session_new(cfg, &s, err);
	if (rc < 0)
		return error_wrap(err, rc, "FUSE mount '%s'", cfg->name);
	sc.owner = s;
	rc = session_start(&sc, &session, err);
	if (rc < 0)
		return rc;
	s->session = session;
	/* Also check a kept session's mount, which may have been unmounted meanwhile. */
	rc = image_session_ensure(s, err);
	if (rc < 0) {
		session_stop(session, true);
		return error_wrap(err, rc, "FUSE mount '%s'", cfg->name);
	}
	*ret = s;
	return 0;
}

void image_session_stop(struct image_session *s, bool keep)
{
	if (s)
		session_stop(s->session, keep);
}
