// SPDX-License-Identifier: Apache-2.0
#include "cli/ckpt.h"

#include <errno.h>
#include <string.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/progress.h"

int ckpt_open_first(void *config, char **args, struct error *err)
{
	struct object_store_config cfg = OBJECT_STORE_CONFIG_INIT;
	struct ckpt_access *a = config;
	int rc = store_access_check(args[0], err);

	if (rc < 0)
		return rc;
	cfg.memory = a->memory;
	/* Manifests are replaced under the same name, so names are not write-once here. */
	cfg.is_write_once = false;
	return store_access_open(&a->base, args[0], &cfg, &a->store, err);
}

int ckpt_check_url(const char *url, struct error *err)
{
	const struct object_store_config cfg = OBJECT_STORE_CONFIG_INIT;
	AUTO(object_store) s = NULL;
	int rc = store_access_check(url, err);

	/* Opening it validates the options.  Errors of the store itself do not count yet. */
	if (rc == 0 && object_store_open(url, &cfg, &s, err) == -EINVAL)
		rc = -EINVAL;
	return rc;
}

const char *ckpt_store_path(char *arg)
{
	arg += *arg == ':';
	while (*arg == '/')
		arg++;
	for (size_t len = strlen(arg); len && arg[len - 1] == '/'; len--)
		arg[len - 1] = '\0';
	return arg;
}

void ckpt_bar_step(void *bar, uint64_t done, uint64_t total)
{
	struct ckpt_bar *b = bar;

	progress_step(b->bar, b->what, b->before + done,
		      b->total ? b->total : total, clock_now_ns());
}

#define DEPTH_MAX 64u

struct ckpt_walk {
	struct object_store *store;
	ckpt_walk_fn *fn;
	void *arg;
	const char *folder;
	unsigned int depth;
};

static int walk_folder(struct ckpt_walk *w, const char *folder,
		       struct error *err);

static int walk_entry(void *arg, const struct ckpt_entry *e, struct error *err)
{
	struct ckpt_walk *w = arg;
	AUTO_BUF path = BUF_INIT;

	if (buf_printf(&path, "%s%s%s", w->folder, *w->folder ? "/" : "",
		       e->name) < 0)
		return error_nomem(err);
	return e->is_folder ? walk_folder(w, path.data, err)
			    : w->fn(w->arg, path.data, err);
}

static int walk_folder(struct ckpt_walk *w, const char *folder,
		       struct error *err)
{
	struct ckpt_walk below = *w;

	below.folder = folder;
	if (++below.depth > DEPTH_MAX)
		return error_set(err, ELOOP,
				 "'%.200s' lies in more than %u folders",
				 folder, DEPTH_MAX);
	return ckpt_list(w->store, folder, walk_entry, &below, err);
}

int ckpt_walk(struct object_store *s, const char *path, ckpt_walk_fn *fn,
	      void *arg, struct error *err)
{
	struct ckpt_walk w = { .store = s, .fn = fn, .arg = arg };
	struct ckpt_stat st;
	int rc = *path ? ckpt_stat(s, path, &st, err) : -EISDIR;

	if (rc == -EISDIR)
		return walk_folder(&w, path, err);
	return rc == 0 ? fn(arg, path, err) : rc;
}
