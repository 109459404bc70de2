// SPDX-License-Identifier: Apache-2.0
/* The kinds of stores, and what opening them has in common. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "common/clock.h"
#include "objects/store/backend.h"
#include "objects/store/store_watch.h"

#define TIDY_MS 5000

static const struct object_store_kind *const kinds[] = {
	&file_store_kind,
	&s3_store_kind,
	&hdfs_store_kind,
	&repo_store_kind,
};

static const struct object_store_kind *find_kind(const char *scheme)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		for (size_t k = 0; kinds[i]->schemes[k]; k++)
			if (strcmp(kinds[i]->schemes[k], scheme) == 0)
				return kinds[i];
	return NULL;
}

/* Is each segment of the path a plain name, not "." or ".." or empty? */
static bool is_plain_path(const char *path)
{
	while (*path) {
		size_t len = strcspn(path, "/");

		if (len == 0 || (len <= 2 && strncmp(path, "..", len) == 0))
			return false;
		path += len + (path[len] == '/');
	}
	return true;
}

/* Take the URL options that all kinds of stores have. */
static int take_common(struct store_url *u, struct object_store_config *cfg,
		       struct error *err)
{
	const char *text = store_url_take(u, "parallel");
	size_t len = text ? strspn(text, "0123456789") : 0;
	unsigned long n;

	if (!text)
		return 0;
	/* Few enough digits that the number cannot overflow. */
	n = len && !text[len] && len < 9 ? strtoul(text, NULL, 10) : 0;
	if (n < 1 || n > OBJECT_PARALLEL_MAX)
		return error_set(err, EINVAL,
				 "parallel=%.40s: want 1 to %u requests at a "
				 "time",
				 text, OBJECT_PARALLEL_MAX);
	cfg->parallel = (unsigned int)n;
	return 0;
}

int object_store_open(const char *url, const struct object_store_config *given,
		      struct object_store **ret, struct error *err)
{
	struct object_store_config cfg = *given;
	const struct object_store_kind *kind;
	struct object_store *s;
	struct store_url u;
	int rc = store_url_parse(url, &u, err);

	if (rc < 0)
		return rc;
	kind = find_kind(u.scheme);
	if (!kind)
		rc = error_set(err, EINVAL,
			       "'%.40s:' is no kind of store: want file:, s3:, "
			       "hdfs: or docker:",
			       u.scheme);
	else if (!is_plain_path(u.path))
		rc = error_set(err, EINVAL,
			       "'%.200s': no part of the path can be empty, "
			       "'.' or '..'",
			       url);
	else
		rc = take_common(&u, &cfg, err);
	if (rc == 0)
		rc = kind->open(&u, &cfg, &s, err);
	if (rc == 0) {
		rc = store_url_check(&u, err);
		if (rc < 0)
			object_store_free(s);
		else
			*ret = s;
	}
	store_url_fini(&u);
	return rc;
}

int store_init(struct object_store *s, const struct object_store_ops *ops,
	       const struct store_url *url,
	       const struct object_store_config *cfg, unsigned int n_workers,
	       struct error *err)
{
	int rc;

	s->ops = ops;
	s->cfg = *cfg;
	(void)pthread_mutex_init(&s->silence.lock, NULL);
	s->cfg.ca_file = NULL;
	atomic_store(&s->is_shared, cfg->shares_files);
	s->cfg.life = NULL; /* a kind that needs it keeps its own copy */
	if (cfg->ca_file) {
		s->cfg.ca_file = strdup(cfg->ca_file);
		if (!s->cfg.ca_file)
			return error_nomem(err);
	}
	if (asprintf(&s->url, "%s://%s%s%s", url->scheme, url->authority,
		     *url->path ? "/" : "", url->path) < 0) {
		s->url = NULL;
		return error_nomem(err);
	}
	rc = store_memory_new(cfg->memory, &s->memory, err);
	if (rc == 0 && n_workers)
		rc = pool_new_lazy(n_workers, &s->pool, err);
	return rc;
}

void store_fini(struct object_store *s)
{
	pool_free(s->pool);
	store_memory_free(s->memory);
	(void)pthread_mutex_destroy(&s->silence.lock);
	free((char *)(uintptr_t)s->cfg.ca_file);
	free(s->url);
}

int store_submit(struct object_store *s, struct work *w, bool is_first,
		 struct error *err)
{
	int rc = is_first ? pool_submit_first(s->pool, w)
			  : pool_submit(s->pool, w);

	return rc < 0 ? error_errno(err, -rc, "start a thread") : 0;
}

void object_store_free(struct object_store *s)
{
	if (!s)
		return;
	store_watch_stop(s->watch);
	s->ops->free(s);
}

void store_random(char *ret, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char c = 0;

	for (size_t i = 0; i < n; i++) {
		(void)getrandom(&c, 1, 0);
		ret[i] = digits[c & 15];
	}
	ret[n] = '\0';
}

char *store_temporary(void)
{
	char random[25], *name;

	store_random(random, sizeof(random) - 1);
	return asprintf(&name, "%s/%s", STORE_TMP, random) < 0 ? NULL : name;
}

bool store_is_below(const char *name, const char *folder)
{
	size_t len = strlen(folder);

	return strncmp(name, folder, len) == 0 &&
	       (name[len] == '\0' || name[len] == '/');
}

bool store_is_own(const char *name)
{
	return store_is_below(name, STORE_TMP) ||
	       store_is_below(name, STORE_LOCKS);
}

int64_t store_deadline(const struct object_store *s)
{
	return clock_now_ns() + (int64_t)s->cfg.retry_ms * 1000000;
}

int64_t store_tidy_deadline(const struct object_store *s)
{
	int64_t ms = s->cfg.retry_ms < TIDY_MS ? s->cfg.retry_ms : TIDY_MS;

	return clock_now_ns() + ms * 1000000;
}
