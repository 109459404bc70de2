// SPDX-License-Identifier: Apache-2.0
#include "cli/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/fs.h"

#define SERVICE_TIMEOUT_MS 30000
#define INPUT_MAX ((size_t)128 << 20) /* bytes; JSON is large */

/* ---------------------------------------------------------------- places --- */

int trace_open_local(const struct trace_where *w, struct trace_store **ret,
		     struct error *err)
{
	AUTO_BUF dir = BUF_INIT;

	if (buf_printf(&dir, "%s/traces/store", w->root) < 0)
		return error_nomem(err);
	if (access(w->root, F_OK) < 0)
		return error_set(err, errno,
				 "'%s': %s; is bootseerd's folder elsewhere? "
				 "Then say --root",
				 w->root, strerror(errno));
	/* No limit here: bootseerd limits their number. */
	return trace_folder_new(dir.data, UINT64_MAX, ret, err);
}

static int open_service(const struct trace_where *w, struct trace_store **ret,
			struct error *err)
{
	char node[256] = "";
	const struct trace_service_config cfg = {
		.url = w->service,
		.token_file = w->token_file,
		.ca_file = w->access.ca_file,
		.node = node,
		.timeout_ms = SERVICE_TIMEOUT_MS,
	};

	if (gethostname(node, sizeof(node) - 1) < 0)
		return error_errno(err, errno, "name of this machine");
	return trace_service_new(&cfg, ret, err);
}

int trace_where_check(const struct trace_where *w, const char *ref,
		      struct error *err)
{
	if (w->service && w->local)
		return error_set(err, EINVAL,
				 "--service and --local are two places: "
				 "choose one");
	if (!ref && !w->local)
		return error_set(err, EINVAL, "name an image, or say --local");
	return ref ? image_ref_check(ref, err) : 0;
}

int trace_check_first(const void *config, char **args, struct error *err)
{
	return trace_where_check(config, args[0], err);
}

static int open_store(struct trace_place *p, const struct trace_where *w,
		      struct error *err)
{
	if (w->service) {
		p->where = "at the trace service";
		return open_service(w, &p->store, err);
	}
	if (w->local) {
		p->where = "on this node";
		return trace_open_local(w, &p->store, err);
	}
	p->where = "in its repository";
	return trace_oci_new(p->oci, &p->store, err);
}

/* Find the image's digest.  A reference with a digest is not looked up, unless its registry is
 * needed for something else. */
static int find_image(struct trace_place *p, const struct trace_where *w,
		      struct error *err)
{
	const struct oci_ref *ref = &p->target->ref;
	int rc = oci_store_open(ref, &p->target->config, false, &p->oci, err);

	if (rc == 0 && ref->has_digest && (w->service || w->local))
		p->query.image = ref->digest;
	else if (rc == 0)
		rc = oci_resolve(p->oci, ref, w->platform, &p->query.image,
				 err);
	if (rc < 0 || ref->transport != OCI_TRANSPORT_REGISTRY)
		return rc;
	if (asprintf(&p->repo, "%s/%s", ref->host, ref->repo) < 0) {
		p->repo = NULL;
		return error_nomem(err);
	}
	p->query.repo = p->repo;
	return 0;
}

int trace_place_new(const struct trace_where *w, const char *ref,
		    struct trace_place **ret, struct error *err)
{
	AUTO(trace_place) p = calloc(1, sizeof(*p));
	int rc = 0;

	if (!p)
		return error_nomem(err);
	p->ref = ref;
	p->query.workload = w->workload;
	if (ref)
		rc = image_target_new(ref, &w->access, &p->target, err);
	if (rc == 0 && ref)
		rc = find_image(p, w, err);
	if (rc == 0)
		rc = open_store(p, w, err);
	if (rc < 0)
		return rc;
	*ret = steal_ptr(&p);
	return 0;
}

void trace_place_free(struct trace_place *p)
{
	if (!p)
		return;
	trace_store_free(p->store);
	oci_store_free(p->oci);
	image_target_free(p->target);
	free(p->repo);
	free(p);
}

/* ------------------------------------------------------------------- get --- */

/* The key of the image's only trace; if there are several, the message names them. */
static int get_only_workload(const struct trace_place *p,
			     const struct trace_info *infos, size_t n,
			     char **ret, struct error *err)
{
	AUTO_BUF keys = BUF_INIT;

	if (n == 1) {
		*ret = strdup(infos[0].workload);
		return *ret ? 0 : error_nomem(err);
	}
	for (size_t i = 0; i < n; i++)
		if (buf_printf(&keys, "%s%s", i ? ", " : "",
			       infos[i].workload) < 0)
			return error_nomem(err);
	if (n)
		return error_set(err, EINVAL,
				 "'%s' has traces of several starts, choose "
				 "one with --workload: %s",
				 p->ref, keys.data);
	return error_set(err, ENOENT,
			 "'%s' has no trace %s: 'bootseer image record' makes "
			 "one",
			 p->ref, p->where);
}

static int find_workload(const struct trace_place *p, struct trace_store *s,
			 char **ret, struct error *err)
{
	AUTO_FREE struct trace_info *infos = NULL;
	size_t n = 0;
	int rc = trace_store_list(s, &p->query, &infos, &n, err);

	if (rc == 0)
		rc = get_only_workload(p, infos, n, ret, err);
	while (n)
		trace_info_fini(&infos[--n]);
	return rc;
}

int trace_get_for(struct trace_place *p, struct trace_store *s,
		  struct trace_found *ret, struct error *err)
{
	struct trace_query q = p->query;
	AUTO_FREE char *only = NULL;
	int rc;

	if (!q.workload) {
		rc = find_workload(p, s, &only, err);
		if (rc < 0)
			return rc;
		q.workload = only;
		q.exact = true;
	}
	rc = trace_store_get(s, &q, ret, err);
	return rc < 0 ? error_wrap(err, rc, "'%s', workload '%s'", p->ref,
				   q.workload)
		      : 0;
}

void trace_tell(const struct trace_found *f, const char *ref)
{
	static const char *const of[] = {
		[TRACE_MATCH_OWN] = "of this image",
		[TRACE_MATCH_RELATIVE] = "of another image of the repository",
		[TRACE_MATCH_WORKLOAD] = "of another workload of this image",
		[TRACE_MATCH_FAR] = "of another image and workload",
		[TRACE_MATCH_PREDICTED] = "of other images",
	};

	fprintf(stderr, "%s: trace %s, runs: %" PRIu32 ", entries: %zu\n", ref,
		of[f->match], f->trace->info.runs, f->trace->n);
}

/* ----------------------------------------------------------------- files --- */

int trace_read(const char *path, struct trace **ret, struct error *err)
{
	bool in = strcmp(path, "-") == 0;
	AUTO_BUF data = BUF_INIT;
	int rc = fs_read_file(in ? "/dev/stdin" : path, INPUT_MAX, &data, err);

	if (rc == -ENOENT)
		return error_set(err, ENOENT,
				 "there is no trace at '%s': mend the path, or "
				 "make one with 'bootseer image record "
				 "--output'; of an image name docker://REF",
				 path);
	if (rc < 0)
		return rc;
	if (data.len == 0)
		rc = error_set(err, EINVAL,
			       "it is empty: 'bootseer image record --output' "
			       "makes a trace");
	else if (data.data[0] == '{')
		rc = trace_from_json(data.data, data.len, ret, err);
	else
		rc = trace_decode(data.data, data.len, ret, err);
	return rc < 0 ? error_wrap(err, rc, "%s", in ? "standard input" : path)
		      : 0;
}

static int write_trace_bytes(int fd, const char *name, const struct buf *data,
			     struct error *err)
{
	int rc = fs_write_full(fd, data->data, data->len);

	return rc < 0 ? error_errno(err, -rc, "write %s", name) : 0;
}

int trace_write(const char *path, const struct trace *t, struct error *err)
{
	AUTO_BUF data = BUF_INIT;
	AUTO_CLOSE int fd = -1;
	struct stat st;
	int rc = trace_encode(t, &data, err);

	if (rc < 0)
		return rc;
	if (strcmp(path, "-") == 0) {
		if (isatty(STDOUT_FILENO))
			return error_set(err, EINVAL,
					 "a trace is no text for a terminal: "
					 "name a file with --output, or see "
					 "'bootseer trace show'");
		return write_trace_bytes(STDOUT_FILENO, "standard output",
					 &data, err);
	}
	/* A pipe or device is written to, not replaced. */
	if (lstat(path, &st) < 0 || S_ISREG(st.st_mode))
		return fs_replace_file(path, data.data, data.len, 0644, err);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "open '%s'", path);
	return write_trace_bytes(fd, path, &data, err);
}

int trace_rename(struct trace *t, const char *workload, struct error *err)
{
	char *copy = strdup(workload);

	if (!copy)
		return error_nomem(err);
	free(t->info.workload);
	t->info.workload = copy;
	return 0;
}

void trace_format_time(uint64_t s, char out[TRACE_TIME_MAX])
{
	time_t at = (time_t)s;
	struct tm tm;

	if (!gmtime_r(&at, &tm) ||
	    !strftime(out, TRACE_TIME_MAX, "%Y-%m-%d %H:%M:%SZ", &tm))
		strcpy(out, "-");
}
