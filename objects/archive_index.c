// SPDX-License-Identifier: Apache-2.0
#include "objects/archive_index.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "common/buf.h"

#define ENTRIES_MAX 16384
#define LINKS_MAX 8
#define NAME_MAX_LEN 4096
#define READ_BYTES 65536

/* Skip the "./" that some tools put before names. */
static const char *skip_dot_slash(const char *name)
{
	while (name[0] == '.' && name[1] == '/')
		name += 2;
	return name;
}

/* The path that the symbolic link `from` points to; it may not lead out of the archive. */
static char *resolve_link(const char *from, const char *to)
{
	const char *slash = strrchr(from, '/');
	size_t dir = slash ? (size_t)(slash - from) : 0;
	AUTO_BUF b = BUF_INIT;

	while (strncmp(to, "../", 3) == 0) {
		if (!dir)
			return strdup("");
		while (dir && from[dir - 1] != '/')
			dir--;
		dir -= dir ? 1 : 0;
		to += 3;
	}
	if (buf_append(&b, from, dir) < 0 || (dir && buf_puts(&b, "/") < 0) ||
	    buf_puts(&b, skip_dot_slash(to)) < 0)
		return NULL;
	return buf_steal(&b);
}

static int take_target(struct archive_entry *e, struct archive_entry_place *p)
{
	const char *hard = archive_entry_hardlink(e);
	const char *soft = archive_entry_symlink(e);

	if (hard)
		p->target = strdup(skip_dot_slash(hard));
	else if (soft)
		p->target = resolve_link(p->name, soft);
	else
		return 0;
	return p->target ? 0 : -ENOMEM;
}

/* Can the entry be read in place? Only plain files and links to them can. */
static bool entry_is_wanted(struct archive_entry *e)
{
	const char *name = archive_entry_pathname(e);

	if (!name || strlen(name) > NAME_MAX_LEN ||
	    archive_entry_sparse_count(e) > 0)
		return false;
	return archive_entry_hardlink(e) ||
	       archive_entry_filetype(e) == AE_IFREG ||
	       archive_entry_filetype(e) == AE_IFLNK;
}

static int add_entry(struct archive_index *x, struct archive *a,
		     struct archive_entry *e, uint64_t file_size,
		     struct error *err)
{
	struct archive_entry_place *p;

	if (x->n == ENTRIES_MAX)
		return error_set(err, EINVAL, "it has more than %d entries",
				 ENTRIES_MAX);
	if ((x->n & (x->n - 1)) == 0) {
		size_t room = x->n ? x->n * 2 : 1;

		p = realloc(x->entries, room * sizeof(*p));
		if (!p)
			return error_nomem(err);
		x->entries = p;
	}
	p = &x->entries[x->n];
	*p = (struct archive_entry_place){
		.name = strdup(skip_dot_slash(archive_entry_pathname(e))),
		/* The reader has consumed exactly the headers. */
		.off = (uint64_t)archive_filter_bytes(a, 0),
		.size = (uint64_t)archive_entry_size(e),
	};
	if (!p->name)
		return error_nomem(err);
	x->n++;
	if (take_target(e, p) < 0)
		return error_nomem(err);
	if (!p->target && (p->off > file_size || p->size > file_size - p->off))
		return error_set(err, EBADMSG,
				 "it is cut off inside of '%.200s'", p->name);
	return 0;
}

static int walk_entries(struct archive *a, struct archive_index *x,
			uint64_t file_size, struct error *err)
{
	struct archive_entry *e;
	int rc;

	while ((rc = archive_read_next_header(a, &e)) == ARCHIVE_OK) {
		int added = entry_is_wanted(e)
				    ? add_entry(x, a, e, file_size, err)
				    : 0;

		if (added < 0)
			return added;
	}
	if (rc == ARCHIVE_EOF)
		return 0;
	return error_set(err, EINVAL, "it is no readable tar: %.200s",
			 archive_error_string(a));
}

static int refuse_compressed(int fd, struct error *err)
{
	static const struct {
		const char magic[7];
		size_t len;
		const char *tool;
	} known[] = {
		{ "\x1f\x8b", 2, "gunzip" },
		{ "\x28\xb5\x2f\xfd", 4, "unzstd" },
		{ "\xfd"
		  "7zXZ",
		  6, "unxz" },
		{ "BZh", 3, "bunzip2" },
	};
	char head[8] = "";

	if (pread(fd, head, sizeof(head), 0) < 0)
		return error_set(err, errno, "%s", strerror(errno));
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (memcmp(head, known[i].magic, known[i].len) == 0)
			return error_set(err, ENOTSUP,
					 "it is compressed, and layers are "
					 "read in place: run %s on it first",
					 known[i].tool);
	return 0;
}

int archive_index_load(int fd, const char *path, struct archive_index *ret,
		       struct error *err)
{
	struct archive_index x = ARCHIVE_INDEX_INIT;
	struct archive *a = NULL;
	struct stat st;
	int rc;

	if (fstat(fd, &st) < 0)
		return error_errno(err, errno, "archive '%s'", path);
	rc = S_ISDIR(st.st_mode)
		     ? error_set(err, EISDIR,
				 "it is a folder: oci:DIR[:TAG] reads an OCI "
				 "layout, docker-archive: a file")
		     : refuse_compressed(fd, err);
	if (rc == 0) {
		a = archive_read_new();
		rc = a ? 0 : error_nomem(err);
	}
	if (rc == 0) {
		(void)archive_read_support_format_tar(a);
		if (lseek(fd, 0, SEEK_SET) < 0 ||
		    archive_read_open_fd(a, fd, READ_BYTES) != ARCHIVE_OK)
			rc = error_set(err, EIO,
				       "it is no tar archive: 'docker save' "
				       "and 'skopeo copy' write such");
	}
	if (rc == 0)
		rc = walk_entries(a, &x, (uint64_t)st.st_size, err);
	if (a)
		(void)archive_read_free(a);
	if (rc < 0) {
		archive_index_fini(&x);
		return error_wrap(err, rc, "archive '%s'", path);
	}
	*ret = x;
	return 0;
}

void archive_index_fini(struct archive_index *x)
{
	for (size_t i = 0; i < x->n; i++) {
		free(x->entries[i].name);
		free(x->entries[i].target);
	}
	free(x->entries);
	*x = (struct archive_index)ARCHIVE_INDEX_INIT;
}

static const struct archive_entry_place *
find_entry_by_name(const struct archive_index *x, const char *name)
{
	for (size_t i = x->n; i-- > 0;)
		if (strcmp(x->entries[i].name, name) == 0)
			return &x->entries[i];
	return NULL;
}

const struct archive_entry_place *
archive_index_find(const struct archive_index *x, const char *name)
{
	const struct archive_entry_place *p =
		find_entry_by_name(x, skip_dot_slash(name));

	for (int i = 0; p && p->target; i++)
		p = i < LINKS_MAX ? find_entry_by_name(x, p->target) : NULL;
	return p;
}
