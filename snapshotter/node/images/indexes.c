// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/images/indexes.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mutex.h"
#include "snapshotter/datapath/images.h"
#include "snapshotter/node/images/images.h"

#define INDEX_FILE "next-index"
#define INDEX_STEP 256 /* indexes reserved by one write of the file */
#define INDEX_TEXT_MAX 32
/* Images have indexes below this limit, recordings those above (record.c). */
#define INDEX_LIMIT (IMAGE_INDEX_MAX / 2)

struct index_record {
	char hex[IMAGE_HEX_MAX];
	uint64_t index;
};

struct indexes {
	char *file; /* ROOT/images/next-index */
	char *dir;  /* RUN/indexes */
	/* protects the rest; held while the file is written, so that the file never lags behind
	 * an index in use */
	pthread_mutex_t lock;
	uint64_t next;
	uint64_t limit; /* as in the file: every index in use is below it */
	struct index_record *records;
	size_t n;
};

static bool parse_index(const char *text, uint64_t *ret)
{
	unsigned long long n;
	char end;

	if (sscanf(text, "%llu%c", &n, &end) != 1 || n >= INDEX_LIMIT)
		return false;
	*ret = n;
	return true;
}

/* ---------------------------------------------------------------- records --- */

static int remember_index(struct indexes *x, const char *hex, uint64_t index,
			  struct error *err)
{
	struct index_record *more =
		realloc(x->records, (x->n + 1) * sizeof(*more));

	if (!more)
		return error_nomem(err);
	x->records = more;
	more[x->n] = (struct index_record){ .index = index };
	memcpy(more[x->n++].hex, hex, IMAGE_HEX_MAX);
	if (index >= x->next)
		x->next = index + 1;
	return 0;
}

static int read_record(struct indexes *x, const char *hex, struct error *err)
{
	AUTO_FREE char *path = fs_join(x->dir, hex);
	char text[INDEX_TEXT_MAX];
	uint64_t index;
	ssize_t n;

	if (!path)
		return error_nomem(err);
	n = readlink(path, text, sizeof(text) - 1);
	if (n < 0)
		return 0; /* no symbolic link: not a record of ours */
	text[n] = '\0';
	return parse_index(text, &index) ? remember_index(x, hex, index, err)
					 : 0;
}

static int read_records(struct indexes *x, struct error *err)
{
	DIR *dir = opendir(x->dir);
	struct dirent *e;
	int rc = 0;

	if (!dir)
		return error_errno(err, errno, "open '%s'", x->dir);
	while (rc == 0 && (e = readdir(dir)))
		if (strlen(e->d_name) == IMAGE_HEX_MAX - 1)
			rc = read_record(x, e->d_name, err);
	(void)closedir(dir);
	return rc;
}

/* Write the record before the kernel learns the index.  A record with another index was
 * unreadable when this process began, so replace it. */
static int write_record(struct indexes *x, const char *hex, uint64_t index,
			struct error *err)
{
	AUTO_FREE char *path = fs_join(x->dir, hex);
	char text[INDEX_TEXT_MAX];

	if (!path)
		return error_nomem(err);
	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)index);
	if (symlink(text, path) < 0 &&
	    (errno != EEXIST || unlink(path) < 0 || symlink(text, path) < 0))
		return error_errno(err, errno, "write '%s'", path);
	return remember_index(x, hex, index, err);
}

/* ----------------------------------------------------------- open and close --- */

static int read_file(struct indexes *x, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	int rc = fs_read_file(x->file, INDEX_TEXT_MAX, &text, err);

	if (rc < 0 && rc != -ENOENT && rc != -EFBIG)
		return rc;
	if (rc < 0 || buf_append(&text, "", 1) < 0)
		return 0;
	text.data[strcspn(text.data, "\n")] = '\0';
	/* A damaged file counts as missing: the indexes of the images on disk count instead. */
	(void)parse_index(text.data, &x->next);
	return 0;
}

int indexes_open(const char *images_dir, const char *run_dir,
		 struct indexes **ret, struct error *err)
{
	struct indexes *x = calloc(1, sizeof(*x));
	int rc;

	if (!x)
		return error_nomem(err);
	pthread_mutex_init(&x->lock, NULL);
	x->file = fs_join(images_dir, INDEX_FILE);
	x->dir = strdup(run_dir);
	rc = x->file && x->dir ? fs_mkdir_p(x->dir, 0700, err)
			       : error_nomem(err);
	if (rc == 0)
		rc = read_file(x, err);
	if (rc == 0)
		rc = read_records(x, err);
	if (rc < 0) {
		indexes_close(x);
		return rc;
	}
	x->limit = x->next;
	*ret = x;
	return 0;
}

void indexes_close(struct indexes *x)
{
	if (!x)
		return;
	pthread_mutex_destroy(&x->lock);
	free(x->records);
	free(x->file);
	free(x->dir);
	free(x);
}

/* ---------------------------------------------- --- reserving and claiming --- */

void indexes_reserve(struct indexes *x, uint64_t index)
{
	pthread_mutex_lock(&x->lock);
	if (index < INDEX_LIMIT && index >= x->next)
		x->next = x->limit = index + 1;
	pthread_mutex_unlock(&x->lock);
}

static int take_new(struct indexes *x, uint64_t *ret, struct error *err)
{
	char text[INDEX_TEXT_MAX];
	int rc;

	if (x->next >= x->limit) {
		(void)snprintf(text, sizeof(text), "%llu\n",
			       (unsigned long long)x->next + INDEX_STEP);
		rc = fs_replace_file(x->file, text, strlen(text), 0600, err);
		if (rc < 0)
			return rc;
		x->limit = x->next + INDEX_STEP;
	}
	*ret = x->next++;
	return 0;
}

static bool is_anothers(const struct indexes *x, uint64_t index)
{
	for (size_t i = 0; i < x->n; i++)
		if (x->records[i].index == index)
			return true;
	return false;
}

static int claim_locked(struct indexes *x, const char *hex, uint64_t wanted,
			uint64_t *ret, struct error *err)
{
	int rc = 0;

	for (size_t i = 0; i < x->n; i++) {
		if (strcmp(x->records[i].hex, hex) != 0)
			continue;
		*ret = x->records[i].index;
		return 0;
	}
	if (wanted >= INDEX_LIMIT || is_anothers(x, wanted))
		rc = take_new(x, &wanted, err);
	if (rc == 0)
		rc = write_record(x, hex, wanted, err);
	if (rc == 0)
		*ret = wanted;
	return rc;
}

int indexes_claim(struct indexes *x, const char *hex, uint64_t wanted,
		  uint64_t *ret, struct error *err)
{
	AUTO_UNLOCK held = mutex_hold(&x->lock);

	return claim_locked(x, hex, wanted, ret, err);
}
