// SPDX-License-Identifier: Apache-2.0
/*
 * Recording without a node, for benchmarks:
 *
 *	record-tool record REF DIR TRACE	mount the image at DIR/mnt, say
 *						"ready", record until stdin ends
 *	record-tool compare DIR TRACE WANT	map TRACE to the image in DIR, and
 *						hold that against WANT, which was
 *						recorded on it
 *	record-tool predict DIR WANT TRACE...	the same of what starts of other images
 *						predict, whose traces these are
 *	record-tool closure REF DIR WANT WORD...
 *						the same of what the image says itself of
 *						a start of WORD...
 *	record-tool cost			nanoseconds of an observed read, its
 *						pages new and seen: 4 KiB, 128 KiB
 *
 * "compare" prints stored bytes: of WANT's blocks, of those that TRACE leads to,
 * of those by content alone, and of what TRACE leads to beside them.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/bytes.h"
#include "common/fs.h"
#include "fuse/fuse.h"
#include "image/artifact/artifact.h"
#include "image/closure/closure.h"
#include "image/erofs/file_map.h"
#include "recorder/recorder.h"
#include "snapshotter/datapath.h"

#define PACKS_MAX 4096

/* The files of an image in DIR. */
struct image {
	struct buf meta, map_data;
	struct erofs_image erofs;
	struct blockmap map;
	struct file_map *files;
};

static char *path_in(const char *dir, const char *name)
{
	char *p;

	if (asprintf(&p, "%s/%s", dir, name) < 0)
		abort();
	return p;
}

static int image_load(const char *dir, struct image *ret, struct error *err)
{
	AUTO_FREE char *meta = path_in(dir, "meta");
	AUTO_FREE char *map = path_in(dir, "map");
	int rc = fs_read_file(meta, ARTIFACT_META_MAX, &ret->meta, err);

	if (rc == 0)
		rc = fs_read_file(map, BLOCKMAP_BYTES_MAX, &ret->map_data, err);
	if (rc == 0)
		rc = erofs_open(ret->meta.data, ret->meta.len, &ret->erofs,
				err);
	if (rc == 0)
		rc = blockmap_open(ret->map_data.data, ret->map_data.len,
				   &ret->map, err);
	return rc < 0 ? rc : erofs_file_map_new(&ret->erofs, &ret->files, err);
}

static void image_fini(struct image *i)
{
	erofs_file_map_free(i->files);
	buf_fini(&i->meta);
	buf_fini(&i->map_data);
}

static int load_trace(const char *path, struct trace **ret, struct error *err)
{
	AUTO_BUF b = BUF_INIT;
	int rc = fs_read_file(path, TRACE_BYTES_MAX, &b, err);

	return rc < 0 ? rc : trace_decode(b.data, b.len, ret, err);
}

/* ------------------------------------------------------------------ record --- */

struct node {
	struct oci_store *store;
	struct artifact artifact;
	struct image image;
	struct cache *cache;
	struct fetcher *fetcher;
	struct device *device;
	struct recorder *recorder;
	struct fd_keeper *keeper;
	struct datapath *path;
	struct datapath_image mount;
	char *dirs[3]; /* run, state, mnt */
};

static int open_image(struct node *n, const char *ref_text, const char *dir,
		      struct error *err)
{
	const struct oci_config cfg = OCI_CONFIG_INIT;
	AUTO_FREE char *meta = path_in(dir, "meta");
	AUTO_FREE char *map = path_in(dir, "map");
	struct oci_ref ref = { .repo = NULL };
	struct digest d;
	int rc = oci_ref_parse(ref_text, &ref, err);

	if (rc == 0)
		rc = oci_store_open(&ref, &cfg, false, &n->store, err);
	if (rc == 0)
		rc = oci_resolve(n->store, &ref, NULL, &d, err);
	if (rc == 0)
		rc = artifact_find(n->store, &d, &n->artifact, err);
	if (rc == 0)
		rc = artifact_fetch(n->store, &n->artifact, NULL, meta, map,
				    err);
	if (rc == 0)
		rc = image_load(dir, &n->image, err);
	oci_ref_fini(&ref);
	return rc;
}

static int open_device(struct node *n, const char *dir, struct error *err)
{
	AUTO_FREE char *cache_dir = path_in(dir, "cache");
	const struct cache_config cache = { .dir = cache_dir,
					    .quota = 64 * GIB };
	struct fetcher_config fetch = { .threads = 8,
					.window = 1 << 20,
					.window_max = 4 << 20,
					.demand_timeout_ns = 60000000000 };
	AUTO_FREE struct block_source **checked = NULL;
	struct source *packs[PACKS_MAX];
	int rc = cache_open(&cache, &n->cache, err);

	if (n->artifact.n_packs > PACKS_MAX)
		return error_set(err, EFBIG, "too many packs");
	fetch.cache = n->cache;
	if (rc == 0)
		rc = fetcher_new(&fetch, &n->fetcher, err);
	for (size_t i = 0; rc == 0 && i < n->artifact.n_packs; i++)
		rc = oci_open_blob(n->store, &n->artifact.packs[i].digest,
				   n->artifact.packs[i].size, &packs[i], err);
	if (rc == 0)
		rc = verify_sources_new(packs, n->artifact.n_packs, &checked,
					err);
	return rc < 0 ? rc
		      : device_new(n->fetcher, &n->image.map, "image",
				   "localhost", checked, &n->device, err);
}

static int mount_image(struct node *n, const char *dir, struct error *err)
{
	const struct datapath_ops *ops = datapath_kind("erofs-fuse");
	struct datapath_config cfg = { .threads = 4 };
	AUTO_FREE char *meta = path_in(dir, "meta");
	int rc = fd_keeper_open(&n->keeper, err);

	n->dirs[0] = path_in(dir, "run");
	n->dirs[1] = path_in(dir, "state");
	n->dirs[2] = path_in(dir, "mnt");
	for (size_t i = 0; rc == 0 && i < ARRAY_SIZE(n->dirs); i++)
		rc = fs_mkdir_p(n->dirs[i], 0755, err);
	cfg.run_dir = n->dirs[0];
	cfg.state_dir = n->dirs[1];
	cfg.keeper = n->keeper;
	n->mount = (struct datapath_image){
		.index = 1,
		.name = "image",
		.meta_path = meta,
		.mountpoint = n->dirs[2],
		.device = n->device,
		.device_size = n->image.map.device_size,
	};
	if (rc == 0)
		rc = ops->start(&cfg, &n->path, err);
	if (rc == 0)
		rc = ops->mount(n->path, &n->mount, err);
	return rc < 0 ? rc : ops->resume(n->path, err);
}

static int save_trace(struct node *n, const char *path, struct error *err)
{
	char repo[] = "", workload[] = "bench";
	const struct trace_info info = {
		.image = n->artifact.image,
		.repo = repo,
		.workload = workload,
		.created_at = (uint64_t)time(NULL),
		.runs = 1,
	};
	AUTO(trace) t = NULL;
	AUTO_BUF b = BUF_INIT;
	struct recorder_stats st;
	int rc = recorder_trace(n->recorder, &info, &n->image.map,
				n->image.files, UINT32_MAX, &t, err);

	if (rc == 0)
		rc = trace_encode(t, &b, err);
	if (rc == 0)
		rc = fs_replace_file(path, b.data, b.len, 0644, err);
	recorder_get_stats(n->recorder, &st);
	if (rc == 0)
		printf("reads %" PRIu64 " bytes %" PRIu64 " ranges %" PRIu64
		       " misses %" PRIu64 " entries %zu encoded %zu\n",
		       st.reads, st.read_bytes, st.ranges, st.misses, t->n,
		       b.len);
	return rc;
}

static int record(char **argv, struct error *err)
{
	struct node n = { .store = NULL };
	int rc = open_image(&n, argv[0], argv[1], err);
	struct recorder_config cfg;

	if (rc == 0)
		rc = open_device(&n, argv[1], err);
	if (rc < 0)
		return rc;
	cfg = (struct recorder_config){ .device_size =
						n.image.map.device_size };
	rc = recorder_new(&cfg, &n.recorder, err);
	if (rc < 0)
		return rc;
	device_observe(n.device, recorder_observer(n.recorder));
	rc = mount_image(&n, argv[1], err);
	if (rc < 0)
		return rc;
	printf("ready\n");
	(void)fflush(stdout);
	while (getchar() != EOF)
		;
	rc = save_trace(&n, argv[2], err);
	if (rc == 0)
		rc = n.path->ops->umount(n.path, &n.mount, err);
	n.path->ops->stop(n.path, false);
	device_unobserve(n.device, recorder_observer(n.recorder));
	recorder_free(n.recorder);
	device_free(n.device);
	fetcher_free(n.fetcher);
	cache_close(n.cache);
	fd_keeper_close(n.keeper);
	image_fini(&n.image);
	artifact_fini(&n.artifact);
	oci_store_free(n.store);
	for (size_t i = 0; i < ARRAY_SIZE(n.dirs); i++)
		free(n.dirs[i]);
	return rc;
}

/* ----------------------------------------------------------------- compare --- */

/* Stored bytes that both lists have. */
static uint64_t common_bytes(const struct blockmap *map,
			     const struct hot_list *list,
			     const struct hot_list *other)
{
	AUTO_FREE uint8_t *has = calloc(map->n_blocks + 1, 1);
	uint64_t bytes = 0;

	if (!has)
		abort();
	for (size_t i = 0; i < other->n; i++)
		has[other->blocks[i].index] = 1;
	for (size_t i = 0; i < list->n; i++) {
		struct block b;

		blockmap_block(map, list->blocks[i].index, &b);
		if (has[list->blocks[i].index])
			bytes += b.csize;
	}
	return bytes;
}

static int compare_with(const char *dir, const struct trace *trace,
			const char *recorded_path, struct error *err)
{
	struct image image = { .files = NULL };
	struct hot_list got = { .n = 0 }, content = { .n = 0 },
			want = { .n = 0 };
	AUTO(trace) recorded = NULL;
	int rc = image_load(dir, &image, err);

	if (rc == 0)
		rc = load_trace(recorded_path, &recorded, err);
	if (rc == 0)
		rc = hot_list_make(trace, &image.map, image.files, &got, err);
	if (rc == 0)
		rc = hot_list_make(trace, &image.map, NULL, &content, err);
	if (rc == 0)
		rc = hot_list_make(recorded, &image.map, image.files, &want,
				   err);
	if (rc == 0) {
		uint64_t covered = common_bytes(&image.map, &want, &got);

		printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
		       " %zu %zu %zu\n",
		       want.bytes, covered,
		       common_bytes(&image.map, &want, &content),
		       got.bytes - covered, got.by_digest, got.by_path,
		       got.lost);
	}
	hot_list_fini(&got);
	hot_list_fini(&content);
	hot_list_fini(&want);
	image_fini(&image);
	return rc;
}

static int compare(char **argv, struct error *err)
{
	AUTO(trace) trace = NULL;
	int rc = load_trace(argv[1], &trace, err);

	return rc < 0 ? rc : compare_with(argv[0], trace, argv[2], err);
}

static int predict_start(char **argv, struct error *err)
{
	struct trace *traces[PREDICTION_DONORS_MAX];
	struct trace_donor donors[PREDICTION_DONORS_MAX];
	AUTO(trace) t = NULL;
	size_t n = 0;
	int rc = 0;

	for (char **path = argv + 2;
	     rc == 0 && *path && n < PREDICTION_DONORS_MAX; path++) {
		rc = load_trace(*path, &traces[n], err);
		if (rc == 0) {
			donors[n] = (struct trace_donor){ .trace = traces[n],
							  .is_own = true };
			n++;
		}
	}
	if (rc == 0)
		rc = trace_predict(donors, n, 1, &t, err);
	if (rc == 0)
		rc = compare_with(argv[0], t, argv[1], err);
	while (n > 0)
		trace_free(traces[--n]);
	return rc;
}

/* ----------------------------------------------------------------- closure --- */

static int read_device(void *arg, uint64_t voff, void *buf, size_t len,
		       struct error *err)
{
	struct node *n = arg;

	return device_read_sync(n->device, voff, buf, len, err);
}

static int fetch_nothing(void *arg, const struct device_span *spans, size_t n,
			 struct error *err)
{
	(void)arg;
	(void)spans;
	(void)n;
	(void)err;
	return 0;
}

static int find_closure(char **argv, struct error *err)
{
	static const struct closure_ops ops = { fetch_nothing, read_device };
	struct closure_start start = { .words = (const char *const *)argv + 3 };
	struct node n = { .store = NULL };
	struct hot_list got = { .n = 0 }, want = { .n = 0 };
	AUTO_FREE struct device_span *spans = NULL;
	AUTO(trace) recorded = NULL;
	size_t n_spans = 0;
	uint64_t covered;
	int rc = open_image(&n, argv[0], argv[1], err);

	while (argv[3 + start.n_words])
		start.n_words++;
	if (rc == 0)
		rc = open_device(&n, argv[1], err);
	if (rc == 0)
		rc = load_trace(argv[2], &recorded, err);
	if (rc == 0)
		rc = closure_find(&n.image.erofs, &start, &ops, &n, &spans,
				  &n_spans, err);
	if (rc == 0)
		rc = hot_list_add(&got, &n.image.map, spans, n_spans, err);
	if (rc == 0)
		rc = hot_list_make(recorded, &n.image.map, n.image.files, &want,
				   err);
	if (rc < 0)
		return rc;
	covered = common_bytes(&n.image.map, &want, &got);
	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", want.bytes, covered,
	       got.bytes - covered);
	hot_list_fini(&got);
	hot_list_fini(&want);
	device_free(n.device);
	fetcher_free(n.fetcher);
	cache_close(n.cache);
	image_fini(&n.image);
	artifact_fini(&n.artifact);
	oci_store_free(n.store);
	return 0;
}

/* -------------------------------------------------------------------- cost --- */

#define COST_PAGES (1u << 20) /* a device of 4 GiB */

static double seconds(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Read the whole device, `n` pages at a time; returns the nanoseconds of one read. */
static double pass(struct recorder *r, uint64_t n)
{
	struct device_observer *o = recorder_observer(r);
	double t = seconds();

	for (uint64_t p = 0; p < COST_PAGES; p += n)
		o->read(o, p * BLOCK_ALIGN, (size_t)(n * BLOCK_ALIGN));
	return (seconds() - t) * 1e9 * (double)n / COST_PAGES;
}

static int cost_of(uint64_t n, struct error *err)
{
	const struct recorder_config cfg = {
		.device_size = (uint64_t)COST_PAGES * BLOCK_ALIGN,
		.ranges_max = COST_PAGES,
	};
	double first, again = 0;
	struct recorder *r;
	int rc = recorder_new(&cfg, &r, err);

	if (rc < 0)
		return rc;
	first = pass(r, n);
	for (int i = 0; i < 10; i++)
		again += pass(r, n) / 10;
	printf("%.0f %.0f ", first, again);
	recorder_free(r);
	return 0;
}

/* Measure reads of one page, and of the size of the kernel's readahead. */
static int cost(struct error *err)
{
	int rc = cost_of(1, err);

	if (rc == 0)
		rc = cost_of(32, err);
	printf("\n");
	return rc;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	struct error err = ERROR_INIT;
	int rc;

	if (strcmp(what, "record") == 0 && argc == 5)
		rc = record(argv + 2, &err);
	else if (strcmp(what, "compare") == 0 && argc == 5)
		rc = compare(argv + 2, &err);
	else if (strcmp(what, "predict") == 0 && argc >= 5)
		rc = predict_start(argv + 2, &err);
	else if (strcmp(what, "closure") == 0 && argc >= 6)
		rc = find_closure(argv + 2, &err);
	else if (strcmp(what, "cost") == 0 && argc == 2)
		rc = cost(&err);
	else
		rc = error_set(&err, EINVAL, "usage: see bench/tools/record.c");
	if (rc < 0)
		fprintf(stderr, "record-tool: %s\n", err.msg);
	return rc < 0;
}
