// SPDX-License-Identifier: Apache-2.0
/*
 * The image stores by hand, for tests and measurements:
 *
 *   oci-test [OPTIONS] copy SRC DST        an image, blob by blob
 *   oci-test [OPTIONS] attach REF TYPE     put an artifact whose subject is REF
 *   oci-test [OPTIONS] referrers REF TYPE  print their digests
 *   oci-test [OPTIONS] rm REF
 *   oci-test [OPTIONS] bench REF           of the largest layer of REF
 *
 * Options: --plain-http --ca-file F --auth-file F.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <string.h>
#include <sys/mman.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "common/fs.h"
#include "net/http.h"
#include "objects/oci.h"

#define IMAGE_TYPE "application/vnd.oci.image.manifest.v1+json"

static struct oci_config cfg = OCI_CONFIG_INIT;

struct place {
	struct oci_ref ref;
	struct oci_store *store;
	char name[DIGEST_STR_MAX]; /* tag or digest; "" is none */
};

static int open_place(const char *text, bool create, struct place *p,
		      struct error *err)
{
	int rc = oci_ref_parse(text, &p->ref, err);

	if (rc < 0)
		return rc;
	if (p->ref.has_digest)
		digest_format(&p->ref.digest, p->name);
	return oci_store_open(&p->ref, &cfg, create, &p->store, err);
}

static const char *ref_of(const struct place *p)
{
	return p->ref.has_digest ? p->name : p->ref.tag;
}

static void close_place(struct place *p)
{
	oci_store_free(p->store);
	oci_ref_fini(&p->ref);
}

/* ------------------------------------------------------------------- copy --- */

struct to_file {
	struct source_sink sink;
	int fd;
};

static int put_file(struct source_sink *sink, uint64_t pos, const void *data,
		    size_t len, struct error *err)
{
	int fd = container_of(sink, struct to_file, sink)->fd;
	int rc = fs_pwrite_full(fd, data, len, pos);

	return rc < 0 ? error_set(err, -rc, "write: %s", strerror(-rc)) : 0;
}

static int copy_blob(struct place *from, struct place *to,
		     const struct oci_descriptor *d, struct error *err)
{
	AUTO_CLOSE int fd = memfd_create("blob", MFD_CLOEXEC);
	struct to_file out = { .sink.put = put_file, .fd = fd };
	struct source_req req = { .len = d->size };
	AUTO(source) src = NULL;
	int rc = oci_open_blob(from->store, &d->digest, d->size, &src, err);

	if (rc == 0 && d->size)
		rc = source_read(src, &req, &out.sink, err);
	if (rc == 0)
		rc = oci_put_blob(to->store, &d->digest, d->size, fd, NULL,
				  err);
	return rc;
}

static int copy(char **args, struct error *err)
{
	struct place from = { .store = NULL }, to = { .store = NULL };
	struct oci_manifest m = { .body = BUF_INIT };
	struct oci_image image = { .n_layers = 0 };
	int rc = open_place(args[0], false, &from, err);

	if (rc == 0)
		rc = open_place(args[1], true, &to, err);
	if (rc == 0)
		rc = oci_get_manifest(from.store, ref_of(&from), &m, err);
	if (rc == 0)
		rc = oci_image_parse(m.body.data, m.body.len, &image, err);
	for (size_t i = 0; i < image.n_layers && rc == 0; i++)
		rc = copy_blob(&from, &to, &image.layers[i], err);
	if (rc == 0)
		rc = copy_blob(&from, &to, &image.config, err);
	if (rc == 0)
		rc = oci_put_manifest(to.store, ref_of(&to), m.media_type,
				      m.body.data, m.body.len, err);
	oci_image_fini(&image);
	oci_manifest_fini(&m);
	close_place(&from);
	close_place(&to);
	return rc;
}

/* -------------------------------------------------------------- artifacts --- */

static int put_empty(struct place *p, struct digest *ret, struct error *err)
{
	AUTO_CLOSE int fd = memfd_create("config", MFD_CLOEXEC);

	if (fs_write_full(fd, "{}", 2) < 0 || digest_of("{}", 2, ret) < 0)
		return error_nomem(err);
	return oci_put_blob(p->store, ret, 2, fd, NULL, err);
}

static int attach(char **args, struct error *err)
{
	struct oci_manifest m = { .body = BUF_INIT };
	struct place p = { .store = NULL };
	char config[DIGEST_STR_MAX], subject[DIGEST_STR_MAX];
	AUTO_BUF text = BUF_INIT;
	struct digest d;
	int rc = open_place(args[0], false, &p, err);

	if (rc == 0)
		rc = oci_get_manifest(p.store, ref_of(&p), &m, err);
	if (rc == 0)
		rc = put_empty(&p, &d, err);
	if (rc == 0) {
		digest_format(&d, config);
		digest_format(&m.digest, subject);
		rc = buf_printf(&text,
				"{\"schemaVersion\":2,\"mediaType\":\"%s\","
				"\"artifactType\":\"%s\",\"config\":{"
				"\"mediaType\":\"application/vnd.oci.empty.v1+"
				"json\",\"digest\":\"%s\",\"size\":2},"
				"\"layers\":[],\"subject\":{\"mediaType\":"
				"\"%s\",\"digest\":\"%s\",\"size\":%zu}}",
				IMAGE_TYPE, args[1], config, m.media_type,
				subject, m.body.len);
	}
	if (rc == 0)
		rc = oci_put_manifest(p.store, NULL, IMAGE_TYPE, text.data,
				      text.len, err);
	oci_manifest_fini(&m);
	close_place(&p);
	return rc;
}

static int referrers(char **args, struct error *err)
{
	struct oci_manifest m = { .body = BUF_INIT };
	struct place p = { .store = NULL };
	struct digest *found = NULL;
	char name[DIGEST_STR_MAX];
	size_t n = 0;
	int rc = open_place(args[0], false, &p, err);

	if (rc == 0)
		rc = oci_get_manifest(p.store, ref_of(&p), &m, err);
	if (rc == 0)
		rc = oci_list_referrers(p.store, &m.digest, args[1], &found, &n,
					err);
	for (size_t i = 0; i < n; i++) {
		digest_format(&found[i], name);
		puts(name);
	}
	free(found);
	oci_manifest_fini(&m);
	close_place(&p);
	return rc;
}

static int rm(char **args, struct error *err)
{
	struct oci_manifest m = { .body = BUF_INIT };
	struct place p = { .store = NULL };
	int rc = open_place(args[0], false, &p, err);

	if (rc == 0)
		rc = oci_get_manifest(p.store, ref_of(&p), &m, err);
	if (rc == 0)
		rc = oci_remove_manifest(p.store, &m.digest, err);
	oci_manifest_fini(&m);
	close_place(&p);
	return rc;
}

/* ------------------------------------------------------------------ bench --- */

static int drop_bytes(struct source_sink *sink, uint64_t pos, const void *data,
		      size_t len, struct error *err)
{
	return 0;
}

static int by_value(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static int bench_ranges(struct source *src, uint64_t len, struct error *err)
{
	enum { N = 2000 };
	struct source_sink sink = { .put = drop_bytes };
	static int64_t took[N];

	for (size_t i = 0; i < N; i++) {
		struct source_req req = { .len = len };
		int64_t start = clock_now_ns();
		int rc;

		req.off = i * 104729 % (src->size - len);
		rc = source_read(src, &req, &sink, err);
		if (rc < 0)
			return rc;
		took[i] = clock_now_ns() - start;
	}
	qsort(took, N, sizeof(took[0]), by_value);
	printf("range of %llu bytes: median %lld us, p99 %lld us\n",
	       (unsigned long long)len, (long long)took[N / 2] / 1000,
	       (long long)took[N * 99 / 100] / 1000);
	return 0;
}

static int bench_blob(struct source *src, struct error *err)
{
	struct source_req req = { .len = src->size };
	struct source_sink sink = { .put = drop_bytes };
	int rc = 0;

	for (int i = 0; i < 5 && rc == 0; i++) {
		int64_t start = clock_now_ns();

		rc = source_read(src, &req, &sink, err);
		printf("whole blob: %.2f GB/s\n",
		       (double)src->size / (double)(clock_now_ns() - start));
	}
	if (rc == 0)
		rc = bench_ranges(src, 4096, err);
	if (rc == 0)
		rc = bench_ranges(src, MIB, err);
	return rc;
}

static int bench(char **args, struct error *err)
{
	struct oci_manifest m = { .body = BUF_INIT };
	struct oci_image image = { .n_layers = 0 };
	const struct oci_descriptor *best = NULL;
	struct place p = { .store = NULL };
	AUTO(source) src = NULL;
	int rc = open_place(args[0], false, &p, err);

	if (rc == 0)
		rc = oci_get_manifest(p.store, ref_of(&p), &m, err);
	if (rc == 0)
		rc = oci_image_parse(m.body.data, m.body.len, &image, err);
	for (size_t i = 0; i < image.n_layers; i++)
		if (!best || image.layers[i].size > best->size)
			best = &image.layers[i];
	if (rc == 0 && (!best || best->size <= 2 * MIB))
		rc = error_set(err, EINVAL, "no layer is large enough");
	if (rc == 0)
		rc = oci_open_blob(p.store, &best->digest, best->size, &src,
				   err);
	if (rc == 0)
		rc = bench_blob(src, err);
	oci_image_fini(&image);
	oci_manifest_fini(&m);
	close_place(&p);
	return rc;
}

/* ------------------------------------------------------------------- main --- */

static const struct {
	const char *name;
	int n_args;
	int (*run)(char **args, struct error *err);
} commands[] = {
	{ "copy", 2, copy },           { "attach", 2, attach },
	{ "referrers", 2, referrers }, { "rm", 1, rm },
	{ "bench", 1, bench },
};

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "plain-http", no_argument, NULL, 'p' },
		{ "ca-file", required_argument, NULL, 'c' },
		{ "auth-file", required_argument, NULL, 'a' },
		{ NULL, 0, NULL, 0 },
	};
	struct error err = ERROR_INIT;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'p')
			cfg.plain_http = true;
		else if (c == 'c')
			cfg.ca_file = optarg;
		else if (c == 'a')
			cfg.auth_file = optarg;
		else
			return 2;
	}
	for (size_t i = 0; i < ARRAY_SIZE(commands) && optind < argc; i++) {
		if (strcmp(commands[i].name, argv[optind]) != 0 ||
		    argc - optind - 1 != commands[i].n_args)
			continue;
		if (commands[i].run(argv + optind + 1, &err) == 0)
			return 0;
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	fprintf(stderr, "usage: %s [OPTIONS] COMMAND ...\n", argv[0]);
	return 2;
}
