// SPDX-License-Identifier: Apache-2.0
/* image_check(): metadata, block map and parts, then every byte of every pack. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "blockstore/blockstore.h"
#include "common/buf.h"
#include "common/bytes.h"
#include "common/fs.h"
#include "image/artifact/artifact.h"
#include "image/artifact/packs.h"
#include "common/temp_file.h"
#include "snapshotter/convert/convert_priv.h"
#include "snapshotter/convert/covered.h"

/* A file mapped for reading. */
struct mapped {
	void *data;
	size_t len;
};

struct check {
	struct packs_sink sink;
	const struct check_options *opt;
	const struct check_target *target;
	struct oci_store *store;
	const struct artifact *artifact;
	struct mapped meta, map_file;
	struct blockmap map;
	int data_fd; /* file of the data device; -1: none */
	/* bytes of the device that are in blocks */
	uint64_t n_covered;
	/* the files that the options name were made */
	bool wrote_meta, wrote_data;
};

static void unmap_folder(struct mapped *m)
{
	if (m->data)
		(void)munmap(m->data, m->len);
	m->data = NULL;
}

static int map_file(const char *path, struct mapped *ret, struct error *err)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, errno, "open '%s'", path);
	if (st.st_size == 0)
		return error_set(err, EBADMSG, "'%s' is empty", path);
	ret->data =
		mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (ret->data == MAP_FAILED) {
		ret->data = NULL;
		return error_errno(err, errno, "map '%s'", path);
	}
	ret->len = (size_t)st.st_size;
	return 0;
}

/* ------------------------------------------------------------------ blocks --- */

/* Write a block into the file of the device, where zeros stay a hole. */
static int check_put(struct packs_sink *sink, const struct block *b,
		     const void *data, struct error *err)
{
	const struct check *c = container_of(sink, struct check, sink);
	int rc;

	if (c->data_fd < 0 || !data)
		return 0;
	rc = fs_pwrite_full(c->data_fd, data, b->usize, b->voff);
	return rc < 0 ? fs_refuse_write(c->data_fd, rc, b->usize, "", err) : 0;
}

static void check_step(struct packs_sink *sink, uint64_t done, uint64_t total)
{
	const struct check *c = container_of(sink, struct check, sink);

	if (c->opt->progress)
		c->opt->progress->step(c->opt->progress, "checking blocks",
				       done, total);
}

/* ---------------------------------------------------------------- metadata --- */

static int check_metadata(struct check *c, struct error *err)
{
	int rc = covered_check(&c->map, c->meta.data, c->meta.len,
			       &c->n_covered, err);

	return rc < 0 ? error_wrap(err, rc, "metadata image") : 0;
}

static int check_map(struct check *c, struct error *err)
{
	int rc = blockmap_open(c->map_file.data, c->map_file.len, &c->map, err);

	if (rc == 0)
		rc = packs_check_map(c->artifact, &c->map, err);
	return rc < 0 ? error_wrap(err, rc, "block map") : 0;
}

/* ------------------------------------------------------------------- parts --- */

static int drop_bytes(struct block_sink *sink, size_t index, const void *data,
		      struct error *err)
{
	return 0;
}

/* Do the blob's parts have the digests that the manifest says? */
static int check_parts(const struct check *c, const struct oci_descriptor *blob,
		       const struct parts *parts, struct error *err)
{
	const struct parts_blob one = { .blob = blob, .parts = parts };
	struct block_sink sink = { .put = drop_bytes };
	struct block_req req = { .n_blocks = parts->n };
	AUTO_FREE struct block *blocks = NULL;
	AUTO_FREE void *bytes = NULL;
	AUTO(block_source) checked = NULL;
	struct source *stored;
	struct blockmap map;
	size_t len = 0;
	int rc;

	if (!parts->n)
		return 0;
	rc = parts_map(&one, 1, &bytes, &len, err);
	if (rc == 0)
		rc = blockmap_open(bytes, len, &map, err);
	if (rc == 0)
		rc = oci_open_blob(c->store, &blob->digest, blob->size, &stored,
				   err);
	if (rc == 0)
		rc = verify_source_new(stored, &checked, err);
	if (rc < 0)
		return rc;
	req.blocks = blocks = calloc(parts->n, sizeof(*blocks));
	if (!blocks)
		return error_nomem(err);
	for (size_t k = 0; k < parts->n; k++)
		blockmap_block(&map, k, &blocks[k]);
	return block_source_read(checked, &req, &sink, err);
}

static int check_all_parts(const struct check *c, struct error *err)
{
	const struct artifact *a = c->artifact;
	int rc = check_parts(c, &a->meta, &a->meta_parts, err);

	if (rc < 0)
		return error_wrap(err, rc, "metadata image: its parts");
	rc = check_parts(c, &a->map, &a->map_parts, err);
	return rc < 0 ? error_wrap(err, rc, "block map: its parts") : 0;
}

/* --------------------------------------------------------------- interface --- */

static const char *data_file_name(const struct check *c)
{
	return c->opt->data_to ? c->opt->data_to : "a temporary file";
}

/* Refuse to fill the disk, which others need too: fail early if the device cannot fit. */
static int check_room(const struct check *c, int fd, struct error *err)
{
	struct statvfs fs;

	if (fstatvfs(fd, &fs) < 0 ||
	    c->n_covered <= (uint64_t)fs.f_bavail * fs.f_frsize)
		return 0;
	return error_set(err, ENOSPC,
			 "%s: its files take %" PRIu64
			 " MiB, more than there is: choose another place "
			 "(TMPDIR)",
			 data_file_name(c), c->n_covered / MIB);
}

/* Make the file of the device, if the options want it. */
static int open_data(struct check *c, int *ret_fd, struct error *err)
{
	int rc = 0;

	if (c->opt->data_to)
		*ret_fd = open(c->opt->data_to,
			       O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	else if (c->opt->against_layers)
		rc = temp_file(c->opt->temp_dir, ret_fd, err);
	else
		return 0;
	if (rc < 0)
		return rc;
	if (*ret_fd < 0 || ftruncate(*ret_fd, (off_t)c->map.device_size) < 0)
		return error_errno(err, errno, "create '%s'",
				   data_file_name(c));
	c->wrote_data = c->opt->data_to;
	return check_room(c, *ret_fd, err);
}

static int check_sizes(struct check *c, struct against **ret, bool *ret_differs,
		       struct error *err)
{
	const struct unpacked u = { c->meta.data, c->meta.len, -1 };
	int rc = against_open(c->target, c->opt, ret, err);

	return rc < 0 ? rc
		      : against_sizes(*ret, &u, c->n_covered, ret_differs, err);
}

static int check_files(struct check *c, const char *meta_path,
		       const char *map_path, struct error *err)
{
	AUTO(against) against = NULL;
	AUTO_CLOSE int fd = -1;
	bool differs = false;
	int rc = artifact_fetch(c->store, c->artifact, NULL, meta_path,
				map_path, err);

	c->wrote_meta = rc == 0 && c->opt->metadata_to;
	if (rc == 0)
		rc = check_all_parts(c, err);
	if (rc == 0)
		rc = map_file(meta_path, &c->meta, err);
	if (rc == 0)
		rc = map_file(map_path, &c->map_file, err);
	if (rc == 0)
		rc = check_map(c, err);
	if (rc == 0)
		rc = check_metadata(c, err);
	if (rc == 0 && c->opt->against_layers)
		rc = check_sizes(c, &against, &differs, err);
	if (rc < 0 || differs)
		return rc;
	rc = open_data(c, &fd, err);
	if (rc < 0)
		return rc;
	c->data_fd = fd;
	rc = packs_read(c->store, c->artifact, &c->map, &c->sink, err);
	if (rc == 0 && against) {
		const struct unpacked u = { c->meta.data, c->meta.len, fd };

		rc = against_compare(against, &u, err);
	}
	return rc;
}

static int check_in_folder(struct check *c, struct error *err)
{
	const char *dir = c->opt->temp_dir;
	AUTO_BUF folder = BUF_INIT;
	AUTO_BUF meta = BUF_INIT;
	AUTO_BUF map = BUF_INIT;
	int rc;

	if (!dir)
		dir = secure_getenv("TMPDIR");
	if (!dir || !*dir)
		dir = "/var/tmp";
	if (buf_printf(&folder, "%s/bootseer-check.XXXXXX", dir) < 0)
		return error_nomem(err);
	if (!mkdtemp(folder.data))
		return error_errno(err, errno, "make a folder in '%s'", dir);
	rc = buf_printf(&map, "%s/map", folder.data);
	if (rc == 0 && c->opt->metadata_to)
		rc = buf_puts(&meta, c->opt->metadata_to);
	else if (rc == 0)
		rc = buf_printf(&meta, "%s/meta", folder.data);
	rc = rc < 0 ? error_nomem(err)
		    : check_files(c, meta.data, map.data, err);
	unmap_folder(&c->meta);
	unmap_folder(&c->map_file);
	/* Remove the result files of a failed check, so that nobody uses them. */
	if (rc < 0 && c->wrote_meta)
		(void)unlink(c->opt->metadata_to);
	if (rc < 0 && c->wrote_data)
		(void)unlink(c->opt->data_to);
	/* The first failure is reported. */
	if (fs_remove_tree(folder.data, rc < 0 ? NULL : err) < 0 && rc == 0)
		rc = -EIO;
	return rc;
}

int check_artifact(const struct check_target *t,
		   const struct check_options *opt, struct error *err)
{
	struct check c = { .sink = { check_put, check_step },
			   .opt = opt,
			   .target = t,
			   .store = t->store,
			   .artifact = t->artifact,
			   .data_fd = -1 };

	return check_in_folder(&c, err);
}

int check_open(const struct oci_ref *ref, const struct check_options *opt,
	       struct check_opened *ret, struct error *err)
{
	AUTO(oci_store) store = NULL;
	int rc = oci_store_open(ref, &opt->config, false, &store, err);

	*ret = (struct check_opened){ .store = NULL };
	if (rc == 0)
		rc = oci_resolve(store, ref, opt->platform, &ret->image, err);
	if (rc < 0)
		return rc;
	ret->store = steal_ptr(&store);
	ret->target = (struct check_target){
		.store = ret->store,
		.artifact = &ret->artifact,
		.image = &ret->image,
		.layers = ret->store,
		.spool = ref->transport == OCI_TRANSPORT_REGISTRY,
	};
	return 0;
}

int check_find(struct check_opened *o, const struct check_options *opt,
	       struct artifact_judge *judge, struct error *err)
{
	o->all = (struct artifact_usable){ .n = 0 };
	return artifact_find_among(o->store, &o->image, opt->artifact, judge,
				   &o->all, &o->artifact, err);
}

void check_close(struct check_opened *o)
{
	artifact_fini(&o->artifact);
	oci_store_free(o->store);
}

int image_check(const struct oci_ref *ref, const struct check_options *opt,
		struct check_result *ret, struct error *err)
{
	AUTO_FREE char *name = oci_ref_format(ref);
	struct check_opened o;
	int rc;

	if (!name)
		return error_nomem(err);
	rc = check_open(ref, opt, &o, err);
	if (rc == 0)
		rc = check_find(&o, opt, NULL, err);
	if (rc == 0)
		rc = check_artifact(&o.target, opt, err);
	*ret = (struct check_result){
		.n_others = rc == 0 && o.all.n ? o.all.n - 1 : 0,
		.is_by_tag = o.all.is_by_tag,
	};
	check_close(&o);
	return rc < 0 ? error_wrap(err, rc, "check %s", name) : 0;
}
