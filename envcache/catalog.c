// SPDX-License-Identifier: Apache-2.0
/* The functions of catalog.h that are common to both kinds of catalogs. */
#include <errno.h>

#include "common/clock.h"
#include "envcache/catalog_priv.h"

void env_catalog_free(struct env_catalog *c)
{
	if (c)
		c->ops->free(c);
}

struct object_store *env_catalog_store(const struct env_catalog *c)
{
	return c->store;
}

int env_catalog_get(struct env_catalog *c, const struct digest *key,
		    struct env_snapshot *ret, struct error *err)
{
	return c->ops->get(c, key, ret, err);
}

int env_catalog_list(struct env_catalog *c, env_list_fn *fn, void *arg,
		     struct error *err)
{
	return c->ops->list(c, fn, arg, err);
}

int env_catalog_find(struct env_catalog *c, const char *text,
		     struct digest *ret, struct error *err)
{
	return c->ops->find(c, text, ret, err);
}

int env_catalog_pass_over(struct env_catalog *c,
			  const struct env_snapshot *snap, struct error *err)
{
	c->has_passed_over = snap->is_shared;
	env_base_of(snap, &c->passed_over);
	return c->ops->pass_over(c, snap, err);
}

int env_catalog_marks(struct env_catalog *c, const struct env_snapshot *snap,
		      struct env_marks *ret, struct error *err)
{
	return c->ops->marks(c, snap, false, ret, err);
}

bool env_catalog_is_over_age(struct env_catalog *c,
			     const struct env_snapshot *snap, int64_t ttl_ns)
{
	struct env_marks m;

	return ttl_ns && clock_wall_ms() - snap->made_ms > ttl_ns / NS_PER_MS &&
	       env_catalog_marks(c, snap, &m, NULL) == 0 && !m.is_pinned;
}

int env_catalog_get_fresh(struct env_catalog *c, const struct digest *key,
			  int64_t ttl_ns, struct env_snapshot *ret,
			  struct error *err)
{
	struct env_snapshot snap;
	int rc = env_catalog_get(c, key, &snap, err);

	if (rc < 0)
		return rc == -ENOENT ? 0 : rc;
	if (!env_catalog_is_over_age(c, &snap, ttl_ns)) {
		*ret = snap;
		return 1;
	}
	rc = env_catalog_pass_over(c, &snap, err);
	env_snapshot_fini(&snap);
	return rc;
}

int env_catalog_check_bad(struct env_catalog *c,
			  const struct env_snapshot *snap, struct error *err)
{
	struct env_marks m = { .is_bad = false };
	int rc = c->ops->marks(c, snap, true, &m, err);

	return rc < 0 ? rc : env_marks_check_bad(&m, err);
}

int env_catalog_mark_bad(struct env_catalog *c, const struct env_snapshot *snap,
			 const char *host, const char *why, struct error *err)
{
	return c->ops->mark_bad(c, snap, host, why, err);
}

void env_catalog_touch(struct env_catalog *c, const struct env_snapshot *snap,
		       int64_t now_ms)
{
	c->ops->touch(c, snap, now_ms);
}

int env_catalog_pin(struct env_catalog *c, const struct digest *key,
		    bool is_pinned, struct error *err)
{
	return c->ops->pin(c, key, is_pinned, err);
}

int env_catalog_remove(struct env_catalog *c, const struct digest *key,
		       struct error *err)
{
	return c->ops->remove(c, key, err);
}

int env_catalog_commit(struct env_catalog *c, const struct env_snapshot *snap,
		       struct error *err)
{
	return c->ops->commit(c, snap, err);
}
