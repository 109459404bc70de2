// SPDX-License-Identifier: Apache-2.0
/* A file is NUMBER.report: the path at the service, a newline, and the body in JSON. */
#include "snapshotter/node/starts/report_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/fs.h"
#include "common/json.h"
#include "common/log.h"

#define SUFFIX ".report"
#define NAME_MAX_BYTES (16 + sizeof(SUFFIX))
#define PATH_MAX_BYTES 4096

struct report_files {
	char *dir;
	int fd; /* of the folder `dir` */
	uint64_t next;
};

static void name_of(uint64_t number, char name[NAME_MAX_BYTES])
{
	(void)snprintf(name, NAME_MAX_BYTES, "%016" PRIx64 SUFFIX, number);
}

/* False: the file is not a report. */
static bool parse_name(const char *name, uint64_t *ret)
{
	char again[NAME_MAX_BYTES];

	*ret = strtoull(name, NULL, 16);
	name_of(*ret, again);
	return *ret && strcmp(name, again) == 0;
}

int report_files_open(const char *dir, struct report_files **ret,
		      struct error *err)
{
	struct report_files *f = calloc(1, sizeof(*f));
	int rc;

	if (!f)
		return error_nomem(err);
	f->fd = -1;
	f->next = 1;
	f->dir = strdup(dir);
	rc = f->dir ? fs_mkdir_p(dir, 0700, err) : error_nomem(err);
	if (rc == 0) {
		f->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (f->fd < 0)
			rc = error_errno(err, errno, "open '%s'", dir);
	}
	if (rc < 0) {
		report_files_close(f);
		return rc;
	}
	*ret = f;
	return 0;
}

void report_files_close(struct report_files *f)
{
	if (!f)
		return;
	fd_close(f->fd);
	free(f->dir);
	free(f);
}

/* --------------------------------------------------------------------- load --- */

static int compare_numbers(const void *x, const void *y)
{
	uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;

	return (a > b) - (a < b);
}

/* List the numbers of the files, the oldest first; the caller frees the list. */
static int list_numbers(struct report_files *f, uint64_t **ret, size_t *ret_n,
			struct error *err)
{
	DIR *dir = opendir(f->dir);
	AUTO_FREE uint64_t *v = NULL;
	const struct dirent *d;
	size_t n = 0, cap = 0;
	uint64_t number;
	int rc = 0;

	if (!dir)
		return error_errno(err, errno, "open '%s'", f->dir);
	while (rc == 0 && (d = readdir(dir))) {
		if (!parse_name(d->d_name, &number))
			continue;
		rc = array_grow(&v, n, &cap, 64);
		if (rc == 0)
			v[n++] = number;
	}
	(void)closedir(dir);
	if (rc < 0)
		return error_nomem(err);
	if (n)
		qsort(v, n, sizeof(*v), compare_numbers);
	*ret = steal_ptr(&v);
	*ret_n = n;
	return 0;
}

/* Read a file into `text`, and cut it into path and body; -EBADMSG: it is no report. */
static int read_report(struct report_files *f, uint64_t number, size_t body_max,
		       struct buf *text, const char **ret_body,
		       struct error *err)
{
	char name[NAME_MAX_BYTES], *nl;
	AUTO_FREE char *path = NULL;
	AUTO_JSON *body = NULL;
	int rc;

	name_of(number, name);
	path = fs_join(f->dir, name);
	if (!path)
		return error_nomem(err);
	rc = fs_read_file(path, PATH_MAX_BYTES + body_max, text, err);
	if (rc < 0)
		return rc;
	nl = text->data ? strchr(text->data, '\n') : NULL;
	if (nl)
		body = json_loads(nl + 1, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(body) || text->data[0] != '/' ||
	    strlen(text->data) != text->len || strlen(nl + 1) > body_max)
		return error_set(err, EBADMSG, "'%s' is no report", path);
	*nl = '\0';
	*ret_body = nl + 1;
	return 0;
}

int report_files_load(struct report_files *f, size_t max, size_t body_max,
		      int (*each)(void *arg, uint64_t number, const char *path,
				  const char *body),
		      void *arg, uint64_t *ret_dropped, struct error *err)
{
	AUTO_FREE uint64_t *v = NULL;
	const char *body = NULL;
	size_t n = 0, left_out;
	int rc = list_numbers(f, &v, &n, err);

	*ret_dropped = 0;
	if (rc < 0)
		return rc;
	if (n)
		f->next = v[n - 1] + 1;
	left_out = n > max ? n - max : 0;
	if (left_out)
		log_warning("starts",
			    "figures dropped n=%zu reason=\"%zu wait\"",
			    left_out, n);
	for (size_t i = 0; i < left_out; i++)
		report_files_drop(f, v[i]);
	*ret_dropped = left_out;
	for (size_t i = left_out; i < n; i++) {
		struct error why = ERROR_INIT;
		AUTO_BUF text = BUF_INIT;

		rc = read_report(f, v[i], body_max, &text, &body, &why);
		if (rc == 0) {
			rc = each(arg, v[i], text.data, body);
			if (rc < 0)
				return error_nomem(err);
			continue;
		}
		log_warning("starts", "figures dropped reason=\"%s\"", why.msg);
		report_files_drop(f, v[i]);
		++*ret_dropped;
	}
	return 0;
}

/* -------------------------------------------------------------- put and drop --- */

int report_files_put(struct report_files *f, const char *path, const char *body,
		     uint64_t *ret_number, struct error *err)
{
	char name[NAME_MAX_BYTES];
	AUTO_CLOSE int fd = -1;
	AUTO_BUF text = BUF_INIT;
	int rc;

	if (buf_printf(&text, "%s\n%s", path, body) < 0)
		return error_nomem(err);
	name_of(f->next, name);
	fd = openat(f->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_errno(err, errno, "open '%s/%s'", f->dir, name);
	rc = fs_write_full(fd, text.data, text.len);
	if (rc < 0) {
		(void)unlinkat(f->fd, name, 0);
		return error_errno(err, -rc, "write '%s/%s'", f->dir, name);
	}
	*ret_number = f->next++;
	return 0;
}

void report_files_drop(struct report_files *f, uint64_t number)
{
	char name[NAME_MAX_BYTES];

	name_of(number, name);
	if (unlinkat(f->fd, name, 0) < 0 && errno != ENOENT)
		log_warning("starts", "unlink path=\"%s/%s\": %s", f->dir, name,
			    strerror(errno));
}
