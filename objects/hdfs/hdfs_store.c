// SPDX-License-Identifier: Apache-2.0
/* The hdfs: back end: an object is a file, its name the path below the folder of the
 * URL. */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "net/url.h"
#include "objects/hdfs/hdfs_store_priv.h"
#include "objects/store/parts.h"

#define PARALLEL 24u
#define HEDGES 4u /* threads for hedges, beside those of `parallel` */
#define NODES_MAX 8u

static const struct http_cures cures = {
	.plain = "write hdfs:// without tls=yes",
	.tls = "add ?tls=yes to the URL",
	.ca = "name the authority's file",
	.ca_file = "the file of authorities",
	.proxy = HTTP_CURE_PROXY,
};

/* ------------------------------------------------------------------- names --- */

static int hdfs_remove(struct object_store *base, const char *name,
		       const char *tag, struct error *err)
{
	struct hdfs_store *s = hdfs_store_of(base);
	struct store_lock lock = { .name = NULL };
	struct object_stat now;
	int rc = tag ? store_lock(base, name, &lock, err) : 0;

	if (rc < 0)
		return rc;
	rc = hdfs_store_stat(base, name, &now, err);
	if (rc == 0 && tag && strcmp(now.tag, tag) != 0)
		rc = error_set(err, ESTALE, "another has replaced it");
	if (rc == 0)
		rc = hdfs_remove_all(s, name, 0, err);
	store_unlock(base, &lock);
	return rc;
}

/* Without "recursive" the server refuses to remove a folder that is not empty. */
static int hdfs_remove_folder(struct object_store *base, const char *folder,
			      struct error *err)
{
	struct hdfs_request r = { .method = "DELETE",
				  .op = "DELETE",
				  .name = folder,
				  .params = "&recursive=false" };
	AUTO_FINI(http_response) resp = HTTP_RESPONSE_INIT;

	return hdfs_call(hdfs_store_of(base), &r, &resp, err);
}

static int hdfs_rename(struct object_store *base, const char *from,
		       const char *to, enum object_condition condition,
		       struct error *err)
{
	struct hdfs_store *s = hdfs_store_of(base);
	struct hdfs_status st;
	int rc = hdfs_look(s, from, &st, err);

	if (rc == 0 && !st.is_file)
		rc = error_set(err, ENOENT, "it is a folder");
	if (rc == 0 && strchr(to, ':'))
		rc = error_set(err, EINVAL,
			       "names in HDFS cannot have a colon");
	return rc < 0 ? rc : hdfs_move(s, from, st.id, to, condition, err);
}

static void hdfs_free(struct object_store *base)
{
	struct hdfs_store *s = hdfs_store_of(base);

	store_fini(base);
	http_free(s->http);
	fetch_history_free(s->history);
	hdfs_spread_fini(&s->spread);
	for (unsigned int i = 0; i < s->n_nodes; i++)
		free(s->nodes[i]);
	free(s->nodes);
	free(s->root);
	free(s->user);
	free(s->doas);
	free(s->token_file);
	free(s->life);
	free(s->token);
	(void)pthread_mutex_destroy(&s->lock);
	free(s);
}

static const struct object_store_ops hdfs_ops = {
	.probe = hdfs_store_probe,
	.stat = hdfs_store_stat,
	.list = hdfs_store_list,
	.open = hdfs_store_open_object,
	.read = hdfs_store_read,
	.close = hdfs_store_close,
	.put_open = hdfs_store_put_open,
	.put_write = put_parts_write,
	.put_room = put_parts_room,
	.put_commit = hdfs_store_put_commit,
	.put_free = hdfs_store_put_free,
	.remove = hdfs_remove,
	.remove_folder = hdfs_remove_folder,
	.rename = hdfs_rename,
	.fence = hdfs_store_fence,
	.sweep = hdfs_store_sweep,
	.free = hdfs_free,
	.tells_waits = true,
	.is_remote = true,
};

/* ------------------------------------------------------------------- probe --- */

static int put_file(struct object_store *base, const char *name,
		    struct error *err)
{
	static const struct object_put_options opts = { .size = 1 };
	struct object_stat st;
	AUTO(object_put) p = NULL;
	int rc = hdfs_store_put_open(base, name, &opts, &p, err);

	if (rc == 0)
		rc = put_parts_write(p, "probe", 5, err);
	if (rc < 0)
		return rc;
	p->size = 5;
	return hdfs_store_put_commit(p, &st, err);
}

/* Test whether a rename replaces an existing file. */
static int try_replace(struct hdfs_store *s, const char *a, const char *b,
		       struct error *err)
{
	bool done = false;
	int rc = hdfs_rename_once(s, a, b, true, &done, err);

	s->base.caps.has_replace = rc == 0 && done;
	return rc;
}

/* Test whether the server can join files. It cannot if they are encrypted, for example. */
static void try_join(struct hdfs_store *s, const char *a, const char *b)
{
	AUTO_BUF params = BUF_INIT;
	struct http_response resp = HTTP_RESPONSE_INIT;
	struct hdfs_request r = { .method = "POST", .op = "CONCAT", .name = a };

	if (hdfs_add_path(s, &params, "sources", b, NULL) < 0)
		return;
	r.params = params.data;
	s->by_append = hdfs_call(s, &r, &resp, NULL) < 0;
	http_response_fini(&resp);
}

int hdfs_store_probe(struct object_store *base, struct error *err)
{
	struct hdfs_store *s = hdfs_store_of(base);
	AUTO_FREE char *folder = hdfs_temporary(s);
	AUTO_BUF a = BUF_INIT, b = BUF_INIT;
	int rc;

	if (!folder || buf_printf(&a, "%s/a", folder) < 0 ||
	    buf_printf(&b, "%s/b", folder) < 0)
		return error_nomem(err);
	rc = put_file(base, a.data, err);
	if (rc == 0)
		rc = put_file(base, b.data, err);
	if (rc == 0)
		rc = try_replace(s, a.data, b.data, err);
	if (rc == 0 && s->base.caps.has_replace)
		rc = put_file(base, a.data, err);
	if (rc == 0)
		try_join(s, a.data, b.data);
	if (hdfs_remove_all(s, folder, store_tidy_deadline(base),
			    rc == 0 ? err : NULL) < 0 &&
	    rc == 0)
		rc = -EIO;
	return rc;
}

/* -------------------------------------------------------------------- open --- */

static int copy_text(char **to, const char *text, struct error *err)
{
	if (!text)
		return 0;
	*to = strdup(text);
	return *to ? 0 : error_nomem(err);
}

static int add_node(struct hdfs_store *s, const char *scheme, const char *host,
		    size_t len, struct error *err)
{
	char *node;

	if (s->n_nodes == NODES_MAX)
		return error_set(err, EINVAL, "no more than %u name nodes",
				 NODES_MAX);
	if (asprintf(&node, "%s://%.*s", scheme, (int)len, host) < 0)
		return error_nomem(err);
	s->nodes[s->n_nodes++] = node;
	if (!memchr(host, ':', len) || !url_is_origin(node))
		return error_set(err, EINVAL,
				 "'%.*s' is not a name node: want HOST:PORT of "
				 "its HTTP server, as hdfs://HOST:9870/DIR; "
				 "several with commas between them",
				 (int)len, host);
	return 0;
}

static int set_nodes(struct hdfs_store *s, const struct store_url *url,
		     bool tls, struct error *err)
{
	const char *at = url->authority;
	int rc = 0;

	s->nodes = calloc(NODES_MAX, sizeof(*s->nodes));
	if (!s->nodes ||
	    asprintf(&s->root, "%s%s", *url->path ? "/" : "", url->path) < 0)
		return error_nomem(err);
	while (rc == 0) {
		size_t len = strcspn(at, ",");

		rc = add_node(s, tls ? "https" : "http", at, len, err);
		at += len;
		if (!*at)
			return rc;
		at++;
	}
	return rc;
}

/* The user of this process, as Hadoop's own clients name it. */
static int set_own_user(struct hdfs_store *s, struct error *err)
{
	const struct passwd *pw;

	if (store_variable("HADOOP_USER_NAME"))
		return copy_text(&s->user, store_variable("HADOOP_USER_NAME"),
				 err);
	pw = getpwuid(geteuid());
	if (!pw)
		return error_set(err, EINVAL,
				 "user %u has no name: add ?user=NAME to the "
				 "URL",
				 (unsigned int)geteuid());
	return copy_text(&s->user, pw->pw_name, err);
}

static int set_user(struct hdfs_store *s, struct store_url *url,
		    struct error *err)
{
	bool is_simple = true;
	int rc = store_url_take_either(url, "auth", "simple", "kerberos",
				       &is_simple, err);

	s->by_kerberos = !is_simple;
	if (rc == 0)
		rc = copy_text(&s->user, store_url_take(url, "user"), err);
	if (rc == 0)
		rc = copy_text(&s->doas, store_url_take(url, "doas"), err);
	if (rc == 0)
		rc = copy_text(&s->token_file,
			       store_url_take(url, "token-file"), err);
	if (rc == 0 && s->user && (s->by_kerberos || s->token_file))
		return error_set(
			err, EINVAL,
			"option 'user' of the URL: a ticket or a token "
			"says who the user is; 'doas' acts for "
			"another");
	if (rc == 0 && !s->user && !s->by_kerberos && !s->token_file)
		rc = set_own_user(s, err);
	return rc;
}

static int set_up_hdfs_store(struct hdfs_store *s, struct store_url *url,
			     const struct object_store_config *cfg,
			     unsigned int parallel, struct error *err)
{
	struct http_config http = {
		.cures = &cures,
		.ca_file = cfg->ca_file,
		.stays = true,
		.connect_timeout_ms = cfg->connect_timeout_ms,
		.stall_timeout_ms = cfg->stall_timeout_ms,
		.max_idle = parallel + HEDGES,
		.heard_ns = &s->base.silence.heard_ns,
	};
	bool tls = false;
	int rc = store_url_take_either(url, "tls", "yes", "no", &tls, err);

	if (rc == 0)
		rc = set_nodes(s, url, tls, err);
	if (rc == 0)
		rc = set_user(s, url, err);
	if (rc == 0)
		rc = copy_text(&s->life, cfg->life, err);
	http.allow_plain = !tls;
	if (rc == 0)
		rc = http_new(&http, &s->http, err);
	return rc == 0 ? fetch_history_new(&s->history, err) : rc;
}

static uint64_t part_size(uint64_t memory)
{
	uint64_t size = memory / HDFS_PARTS / HDFS_PART_MIN * HDFS_PART_MIN;

	if (size < HDFS_PART_MIN)
		return HDFS_PART_MIN;
	return size < HDFS_PART ? size : HDFS_PART;
}

static int hdfs_open(struct store_url *url,
		     const struct object_store_config *cfg,
		     struct object_store **ret, struct error *err)
{
	unsigned int parallel = cfg->parallel ? cfg->parallel : PARALLEL;
	struct hdfs_store *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return error_nomem(err);
	(void)pthread_mutex_init(&s->lock, NULL);
	hdfs_spread_init(&s->spread);
	if (parallel > OBJECT_PARALLEL_MAX)
		parallel = OBJECT_PARALLEL_MAX;
	rc = store_init(&s->base, &hdfs_ops, url, cfg, parallel + HEDGES, err);
	if (rc == 0)
		rc = set_up_hdfs_store(s, url, cfg, parallel, err);
	if (rc < 0) {
		hdfs_free(&s->base);
		return rc;
	}
	s->base.caps = (struct object_caps){
		.has_new = true,
		.has_rename = true,
		.has_replace = true,
		.parallel = parallel,
		.read_size = HDFS_READ,
		.part_size = part_size(cfg->memory),
	};
	*ret = &s->base;
	return 0;
}

static const char *const schemes[] = { "hdfs", "webhdfs", NULL };

const struct object_store_kind hdfs_store_kind = {
	.schemes = schemes,
	.open = hdfs_open,
};
