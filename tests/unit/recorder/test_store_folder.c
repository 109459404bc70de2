// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/fs.h"
#include "recorder/recorder.h"
#include "tests/unit/recorder/make.h"

#define MIB_8 ((uint64_t)8 << 20)

static char dir[] = "/tmp/bootseer-folder.XXXXXX";

static void start(void)
{
	cr_assert_not_null(mkdtemp(dir));
}

static void stop(void)
{
	struct error err = ERROR_INIT;

	cr_expect_eq(fs_remove_tree(dir, &err), 0, "%s", err.msg);
}

TestSuite(store_folder, .init = start, .fini = stop, .timeout = 120);

static struct trace_store *open_folder(uint64_t bytes_max)
{
	struct trace_store *s;
	struct error err = ERROR_INIT;

	cr_assert_eq(trace_folder_new(dir, bytes_max, &s, &err), 0, "%s",
		     err.msg);
	return s;
}

/* A recording of image 0xII.., made at `at`. */
static struct trace *recording(uint8_t image, const char *repo,
			       const char *workload, uint64_t at)
{
	struct trace *t = make_trace(image, 40);

	memset(t->info.image.b, image, DIGEST_SIZE);
	free(t->info.repo);
	free(t->info.workload);
	t->info.repo = strdup(repo);
	t->info.workload = strdup(workload);
	t->info.created_at = at;
	for (size_t i = 0; i < t->n; i++)
		t->entries[i].confidence = TRACE_CERTAIN;
	return t;
}

static void put(struct trace_store *s, uint8_t image, const char *repo,
		const char *workload, uint64_t at)
{
	AUTO(trace) t = recording(image, repo, workload, at);
	struct error err = ERROR_INIT;

	cr_assert_eq(trace_store_put(s, t, &err), 0, "%s", err.msg);
}

static struct trace_query query(uint8_t image, const char *repo,
				const char *workload)
{
	struct trace_query q = { .repo = repo, .workload = workload };

	memset(q.image.b, image, DIGEST_SIZE);
	return q;
}

/* Get what must be there: how near it is, and its first image byte. */
static enum trace_match get(struct trace_store *s, struct trace_query q,
			    uint8_t *ret_image)
{
	struct trace_found f;
	struct error err = ERROR_INIT;

	cr_assert_eq(trace_store_get(s, &q, &f, &err), 0, "%s", err.msg);
	*ret_image = f.trace->info.image.b[0];
	trace_free(f.trace);
	return f.match;
}

static int get_rc(struct trace_store *s, struct trace_query q)
{
	struct trace_found f;
	int rc = trace_store_get(s, &q, &f, NULL);

	if (rc == 0)
		trace_free(f.trace);
	return rc;
}

/* The only file of an image's folder. */
static void file_of(uint8_t image, char out[PATH_MAX])
{
	char text[DIGEST_STR_MAX], folder[PATH_MAX];
	struct digest d;
	struct dirent *e;
	DIR *handle;

	memset(d.b, image, DIGEST_SIZE);
	digest_format(&d, text);
	(void)snprintf(folder, sizeof(folder), "%s/%s", dir, text + 7);
	handle = opendir(folder);
	cr_assert_not_null(handle);
	while ((e = readdir(handle)))
		if (e->d_name[0] != '.')
			(void)snprintf(out, PATH_MAX, "%.200s/%s", folder,
				       e->d_name);
	(void)closedir(handle);
}

Test(store_folder, what_was_put_comes_back)
{
	AUTO(trace_store) s = open_folder(MIB_8);
	AUTO(trace) t = recording(1, "h/app", "train", 1000);
	struct trace_query q = query(1, "h/app", "train");
	struct error err = ERROR_INIT;
	struct trace_found f;

	cr_assert_eq(trace_store_put(s, t, &err), 0, "%s", err.msg);
	cr_assert_eq(trace_store_get(s, &q, &f, &err), 0, "%s", err.msg);
	expect_same(t, f.trace);
	cr_expect_eq(f.match, TRACE_MATCH_OWN);
	cr_expect(f.wanted);
	trace_free(f.trace);
}

Test(store_folder, another_instance_and_a_later_one_see_it)
{
	struct trace_store *s = open_folder(MIB_8);
	uint8_t image;

	put(s, 1, "h/app", "train", 1000);
	trace_store_free(s);
	s = open_folder(MIB_8);
	cr_expect_eq(get(s, query(1, "h/app", "train"), &image),
		     TRACE_MATCH_OWN);
	trace_store_free(s);
}

Test(store_folder, recordings_of_one_start_become_one_trace)
{
	AUTO(trace_store) s = open_folder(MIB_8);
	struct trace_query q = query(1, NULL, "train");
	struct error err = ERROR_INIT;
	struct trace_found f;

	for (uint64_t i = 0; i < 3; i++)
		put(s, 1, "h/app", "train", 1000 + i);
	cr_assert_eq(trace_store_get(s, &q, &f, &err), 0, "%s", err.msg);
	cr_expect_eq(f.trace->info.runs, 3);
	cr_expect_eq(f.trace->info.created_at, 1002);
	for (size_t i = 0; i < f.trace->n; i++)
		cr_expect_eq(f.trace->entries[i].confidence, TRACE_CERTAIN);
	trace_free(f.trace);
}

Test(store_folder, enough_fresh_recordings_are_not_wanted_any_more)
{
	AUTO(trace_store) s = open_folder(MIB_8);
	struct trace_query q = query(1, NULL, "train");
	uint64_t now = (uint64_t)time(NULL);
	struct error err = ERROR_INIT;
	struct trace_found f;

	for (uint64_t i = 0; i < 8; i++)
		put(s, 1, "h/app", "train", now - 10 + i);
	cr_assert_eq(trace_store_get(s, &q, &f, &err), 0, "%s", err.msg);
	cr_expect_not(f.wanted);
	trace_free(f.trace);
	/* The same many, but of last month. */
	for (uint64_t i = 0; i < 8; i++)
		put(s, 2, "h/app", "train", now - 30 * 86400 + i);
	q = query(2, NULL, "train");
	cr_assert_eq(trace_store_get(s, &q, &f, &err), 0, "%s", err.msg);
	cr_expect(f.wanted);
	trace_free(f.trace);
}

Test(store_folder, the_nearest_trace_is_found)
{
	AUTO(trace_store) s = open_folder(MIB_8);
	uint8_t image;

	put(s, 1, "h/app", "train", 1000);
	put(s, 2, "h/app", "train", 3000);
	put(s, 3, "h/app", "train", 2000);
	put(s, 4, "h/app", "serve", 4000);
	put(s, 5, "h/other", "train", 5000);
	cr_expect_eq(get(s, query(1, "h/app", "train"), &image),
		     TRACE_MATCH_OWN);
	cr_expect_eq(image, 1);
	/* The newest of the same repository and workload. */
	cr_expect_eq(get(s, query(9, "h/app", "train"), &image),
		     TRACE_MATCH_RELATIVE);
	cr_expect_eq(image, 2);
	/* A relative is nearer than another workload of the image. */
	cr_expect_eq(get(s, query(4, "h/app", "train"), &image),
		     TRACE_MATCH_RELATIVE);
	cr_expect_eq(get(s, query(4, NULL, "train"), &image),
		     TRACE_MATCH_WORKLOAD);
	cr_expect_eq(image, 4);
	cr_expect_eq(get(s, query(9, "h/app", "eval"), &image),
		     TRACE_MATCH_FAR);
	cr_expect_eq(image, 4);
	cr_expect_eq(get_rc(s, query(9, "h/none", "train")), -ENOENT);
	cr_expect_eq(get_rc(s, query(9, NULL, "train")), -ENOENT);
}

Test(store_folder, an_exact_query_takes_no_other)
{
	AUTO(trace_store) s = open_folder(MIB_8);
	struct trace_query q = query(2, "h/app", "train");

	put(s, 1, "h/app", "train", 1000);
	put(s, 2, "h/app", "serve", 1000);
	q.exact = true;
	cr_expect_eq(get_rc(s, q), -ENOENT);
	cr_expect_eq(get_rc(s, query(0, "h/app", "train")), -EINVAL);
	cr_expect_eq(get_rc(s, query(1, "h/app", NULL)), -EINVAL);
}

static void cut_file(const char *path, off_t len)
{
	cr_assert_eq(truncate(path, len), 0);
}

static void flip_byte(const char *path, off_t at)
{
	AUTO_FCLOSE FILE *f = fopen(path, "r+e");
	int c;

	cr_assert_not_null(f);
	cr_assert_eq(fseek(f, at, SEEK_SET), 0);
	c = getc(f);
	cr_assert_eq(fseek(f, at, SEEK_SET), 0);
	cr_assert(putc(c ^ 1, f) != EOF);
}

Test(store_folder, a_damaged_file_is_a_miss_and_is_gone_then)
{
	static const off_t cuts[] = { 0, 5, 60, 130, 300 };
	AUTO(trace_store) s = open_folder(MIB_8);
	char path[PATH_MAX] = "";

	for (size_t i = 0; i < 2 * ARRAY_SIZE(cuts); i++) {
		put(s, 1, "h/app", "train", 1000);
		file_of(1, path);
		if (i < ARRAY_SIZE(cuts))
			cut_file(path, cuts[i]);
		else
			flip_byte(path, cuts[i - ARRAY_SIZE(cuts)]);
		/* A version that is not known is not damage. */
		cr_expect_eq(get_rc(s, query(1, "h/app", "train")), -ENOENT);
		cr_expect_eq(access(path, F_OK), -1, "%zu: %s is still there",
			     i, path);
	}
	put(s, 1, "h/app", "train", 1000);
	cr_expect_eq(get_rc(s, query(1, "h/app", "train")), 0);
}

Test(store_folder, a_file_of_a_later_version_is_a_miss_and_stays)
{
	AUTO(trace_store) s = open_folder(MIB_8);
	char path[PATH_MAX] = "";

	put(s, 1, "h/app", "train", 1000);
	file_of(1, path);
	flip_byte(path, 9);
	cr_expect_eq(get_rc(s, query(1, "h/app", "train")), -ENOENT);
	cr_expect_eq(access(path, F_OK), 0);
}

Test(store_folder, damage_does_not_hide_what_is_farther)
{
	AUTO(trace_store) s = open_folder(MIB_8);
	char path[PATH_MAX] = "";
	uint8_t image;

	put(s, 1, "h/app", "train", 1000);
	put(s, 2, "h/app", "train", 2000);
	file_of(2, path);
	cut_file(path, 400);
	cr_expect_eq(get(s, query(9, "h/app", "train"), &image),
		     TRACE_MATCH_RELATIVE);
	cr_expect_eq(image, 1);
	cr_expect_eq(access(path, F_OK), -1);
}

Test(store_folder, a_write_that_was_cut_off_leaves_nothing_behind)
{
	AUTO(trace_store) s = open_folder(MIB_8);
	char path[PATH_MAX] = "", torn[PATH_MAX + 8];
	struct error err = ERROR_INIT;

	put(s, 1, "h/app", "train", 1000);
	file_of(1, path);
	(void)snprintf(torn, sizeof(torn), "%s.abcdef", path);
	cr_assert_eq(fs_replace_file(torn, "x", 1, 0600, &err), 0);
	put(s, 2, "h/app", "train", 1000);
	cr_expect_eq(access(torn, F_OK), -1);
	cr_expect_eq(get_rc(s, query(1, "h/app", "train")), 0);
}

Test(store_folder, the_least_recently_used_goes_first)
{
	struct trace_store *s = open_folder(MIB_8);
	struct timespec times[2] = { { .tv_sec = 100 }, { .tv_sec = 100 } };
	char path[PATH_MAX] = "";
	struct stat st;

	put(s, 1, "h/app", "train", 1000);
	put(s, 2, "h/app", "train", 1000);
	put(s, 3, "h/app", "train", 1000);
	for (uint8_t i = 1; i <= 3; i++) {
		file_of(i, path);
		times[1].tv_sec = 100 + i;
		cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
	}
	cr_assert_eq(stat(path, &st), 0);
	cr_expect_eq(get_rc(s, query(1, NULL, "train")), 0); /* is used */
	trace_store_free(s);
	s = open_folder((uint64_t)st.st_size * 7 / 2);
	put(s, 4, "h/app", "train", 1000);
	cr_expect_eq(get_rc(s, query(2, NULL, "train")), -ENOENT);
	cr_expect_eq(get_rc(s, query(1, NULL, "train")), 0);
	cr_expect_eq(get_rc(s, query(3, NULL, "train")), 0);
	cr_expect_eq(get_rc(s, query(4, NULL, "train")), 0);
	trace_store_free(s);
}

Test(store_folder, a_trace_larger_than_the_folder_is_refused)
{
	AUTO(trace_store) s = open_folder(100);
	AUTO(trace) t = recording(1, "h/app", "train", 1000);
	struct error err = ERROR_INIT;

	cr_expect_eq(trace_store_put(s, t, &err), -EFBIG);
	cr_expect(strstr(err.msg, dir), "%s", err.msg);
}

static size_t count(struct trace_store *s, struct trace_query q)
{
	struct trace_info *infos;
	struct error err = ERROR_INIT;
	uint64_t before = UINT64_MAX;
	size_t n;

	cr_assert_eq(trace_store_list(s, &q, &infos, &n, &err), 0, "%s",
		     err.msg);
	for (size_t i = 0; i < n; i++) {
		cr_expect(infos[i].created_at <= before);
		before = infos[i].created_at;
		trace_info_fini(&infos[i]);
	}
	free(infos);
	return n;
}

Test(store_folder, lists_are_of_an_image_a_repository_or_all)
{
	AUTO(trace_store) s = open_folder(MIB_8);

	cr_expect_eq(count(s, query(0, NULL, NULL)), 0);
	put(s, 1, "h/app", "train", 1000);
	put(s, 1, "h/app", "serve", 3000);
	put(s, 2, "h/other", "train", 2000);
	cr_expect_eq(count(s, query(1, NULL, NULL)), 2);
	cr_expect_eq(count(s, query(1, NULL, "serve")), 1);
	cr_expect_eq(count(s, query(0, "h/app", NULL)), 2);
	cr_expect_eq(count(s, query(0, NULL, NULL)), 3);
	cr_expect_eq(count(s, query(7, NULL, NULL)), 0);
}

Test(store_folder, removal_takes_one_workload_or_all)
{
	AUTO(trace_store) s = open_folder(MIB_8);
	struct trace_query q = query(1, NULL, "train");

	put(s, 1, "h/app", "train", 1000);
	put(s, 1, "h/app", "serve", 1000);
	put(s, 1, "h/app", "eval", 1000);
	cr_expect_eq(trace_store_remove(s, &q, NULL), 0);
	cr_expect_eq(trace_store_remove(s, &q, NULL), -ENOENT);
	cr_expect_eq(count(s, query(1, NULL, NULL)), 2);
	q.workload = NULL;
	cr_expect_eq(trace_store_remove(s, &q, NULL), 0);
	cr_expect_eq(count(s, query(0, NULL, NULL)), 0);
	q.image = (struct digest){ .b = { 0 } };
	cr_expect_eq(trace_store_remove(s, &q, NULL), -EINVAL);
}

static void *put_many(void *arg)
{
	struct trace_store *s = arg;

	for (int i = 0; i < 10; i++)
		put(s, 1, "h/app", "train", 1000);
	return NULL;
}

Test(store_folder, writers_at_once_lose_no_recording)
{
	AUTO(trace_store) s = open_folder(MIB_8);
	AUTO(trace_store) other = open_folder(MIB_8);
	struct trace_query q = query(1, NULL, "train");
	struct error err = ERROR_INIT;
	struct trace_found f;
	pthread_t threads[4];

	for (size_t i = 0; i < 4; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, put_many,
					    i % 2 ? s : other),
			     0);
	for (size_t i = 0; i < 4; i++)
		cr_assert_eq(pthread_join(threads[i], NULL), 0);
	cr_assert_eq(trace_store_get(s, &q, &f, &err), 0, "%s", err.msg);
	cr_expect_eq(f.trace->info.runs, 40);
	trace_free(f.trace);
}

Test(store_folder, a_trace_that_claims_many_runs_is_one_vote)
{
	AUTO(trace_store) s = open_folder(MIB_8);
	AUTO(trace) t = recording(1, "h/app", "train", 2000);
	struct trace_query q = query(1, "h/app", "train");
	struct error err = ERROR_INIT;
	struct trace_found f;

	put(s, 1, "h/app", "train", 1000);
	t->info.runs = TRACE_RUNS_MAX;
	cr_assert_eq(trace_store_put(s, t, &err), 0, "%s", err.msg);
	cr_assert_eq(trace_store_get(s, &q, &f, &err), 0, "%s", err.msg);
	cr_expect_eq(f.trace->info.runs, 2);
	cr_expect(f.wanted);
	trace_free(f.trace);
}

Test(store_folder, old_recordings_fade)
{
	AUTO(trace) always = recording(1, "", "w", 1);
	AUTO(trace) merged = NULL;
	struct error err = ERROR_INIT;

	/* What one old run alone has seen goes below what is kept. */
	for (uint64_t i = 0; i < 40; i++) {
		AUTO(trace) next = recording(1, "", "w", 2 + i);
		const struct trace *both[] = { merged ? merged : always, next };
		struct trace *out;

		for (size_t k = 0; k < next->n; k++)
			next->entries[k].block = make_digest(77);
		cr_assert_eq(trace_merge_recent(both, 2, &out, &err), 0, "%s",
			     err.msg);
		trace_free(merged);
		merged = out;
		if (i == 0)
			cr_expect(merged->n > next->n / 2);
	}
	cr_expect_eq(merged->info.runs, 41);
	for (size_t k = 0; k < merged->n; k++) {
		struct digest d = make_digest(77);

		cr_expect(digest_equal(&merged->entries[k].block, &d));
		cr_expect_geq(merged->entries[k].confidence, 980);
	}
}

Test(store_folder, merging_does_not_look_at_the_order_of_what_it_gets)
{
	AUTO(trace) a = recording(1, "", "w", 1);
	AUTO(trace) b = recording(1, "", "w", 2);
	AUTO(trace) c = recording(1, "", "w", 2);
	AUTO(trace) x = NULL;
	AUTO(trace) y = NULL;
	struct error err = ERROR_INIT;

	for (size_t k = 0; k < b->n; k += 2)
		b->entries[k].block = make_digest(1000);
	for (size_t k = 0; k < c->n; k += 3)
		c->entries[k].block = make_digest(1001);
	cr_assert_eq(trace_merge_recent((const struct trace *[]){ a, b, c }, 3,
					&x, &err),
		     0, "%s", err.msg);
	cr_assert_eq(trace_merge_recent((const struct trace *[]){ c, a, b }, 3,
					&y, &err),
		     0, "%s", err.msg);
	expect_same(x, y);
}
