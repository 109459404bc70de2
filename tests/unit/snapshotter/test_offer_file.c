// SPDX-License-Identifier: Apache-2.0
/* The offer in an image's folder, damaged by a disk or forged by another node. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "snapshotter/node/images/offer_file.h"

#define META "metadata"
#define MAP "block map"
#define WINDOWS "windows, which are read long after they came"

static char dir[] = "/tmp/offer_file.XXXXXX";
static char path[64];
static struct oci_descriptor windows;
static struct artifact a;
static struct offer head;
static struct error err;

static void describe(struct oci_descriptor *d, const char *text)
{
	d->size = strlen(text);
	cr_assert_eq(digest_of(text, d->size, &d->digest), 0);
}

/* Write an offer whose two texts are empty: no test here reads them. */
static void write_offer(void)
{
	AUTO_BUF b = BUF_INIT;

	cr_assert_eq(offer_format_head(&head, &b), 0);
	cr_assert_eq(buf_printf(&b, META MAP WINDOWS), 0);
	cr_assert_eq(fs_replace_file(path, b.data, b.len, 0600, &err), 0, "%s",
		     err.msg);
}

static void make_folder(void)
{
	cr_assert(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/" OFFER_FILE, dir);
	describe(&a.meta, META);
	describe(&a.map, MAP);
	describe(&windows, WINDOWS);
	(void)snprintf(windows.media_type, sizeof(windows.media_type), "%s",
		       ARTIFACT_WINDOWS_TYPE);
	a.format = ARTIFACT_FORMAT_INDEX;
	a.packs = &windows;
	a.n_packs = 1;
	head.size[OFFER_META] = strlen(META);
	head.size[OFFER_MAP] = strlen(MAP);
	head.size[OFFER_WINDOWS] = strlen(WINDOWS);
	write_offer();
}

static void remove_folder(void)
{
	cr_assert_eq(fs_remove_tree(dir, &err), 0, "%s", err.msg);
}

TestSuite(offer_file, .init = make_folder, .fini = remove_folder,
	  .timeout = 60);

static void flip(off_t at)
{
	AUTO_CLOSE int fd = open(path, O_RDWR | O_CLOEXEC);
	char c;

	cr_assert_eq(pread(fd, &c, 1, at), 1);
	c ^= 1;
	cr_assert_eq(pwrite(fd, &c, 1, at), 1);
}

Test(offer_file, has_each_byte_of_its_blobs_count)
{
	size_t size = OFFER_HEAD + strlen(META MAP WINDOWS);

	cr_expect_eq(offer_file_check(dir, &a, &err), 0, "%s", err.msg);
	for (size_t at = 0; at < size; at++) {
		flip((off_t)at);
		cr_expect_eq(offer_file_check(dir, &a, &err), -EBADMSG,
			     "byte %zu", at);
		flip((off_t)at);
	}
	for (size_t len = 0; len < size; len++) {
		cr_assert_eq(truncate(path, (off_t)len), 0);
		cr_expect_eq(offer_file_check(dir, &a, &err), -EBADMSG,
			     "%zu bytes", len);
		write_offer();
	}
	cr_assert_eq(unlink(path), 0);
	cr_expect_eq(offer_file_check(dir, &a, &err), -ENOENT);
}

Test(offer_file, has_no_windows_that_the_artifact_does_not_name)
{
	a.n_packs = 0;
	cr_expect_eq(offer_file_check(dir, &a, &err), -EBADMSG);
	head.size[OFFER_WINDOWS] = 0;
	write_offer();
	cr_expect_eq(offer_file_check(dir, &a, &err), -EBADMSG, "bytes follow");
	cr_assert_eq(truncate(path, (off_t)(OFFER_HEAD + strlen(META MAP))), 0);
	cr_expect_eq(offer_file_check(dir, &a, &err), 0, "%s", err.msg);
	a.format = ARTIFACT_FORMAT_INDEX + 1;
	cr_expect_eq(offer_file_check(dir, &a, &err), -EBADMSG);
}

Test(offer_file, is_mended_for_those_who_have_it_open)
{
	AUTO_CLOSE int good = open(path, O_RDONLY | O_CLOEXEC);
	AUTO_CLOSE int reader = -1;
	uint64_t size = OFFER_HEAD + strlen(META MAP WINDOWS);

	write_offer();
	reader = open(path, O_RDONLY | O_CLOEXEC);
	flip((off_t)size - 1);
	cr_assert_eq(truncate(path, (off_t)size - 1), 0);
	cr_assert_eq(offer_check_blobs(good, &head, &a, &err), 0);
	cr_assert_neq(offer_check_blobs(reader, &head, &a, &err), 0);
	cr_assert_eq(offer_file_mend(dir, good, size, &err), 0, "%s", err.msg);
	cr_expect_eq(offer_file_check(dir, &a, &err), 0, "%s", err.msg);
	cr_expect_eq(offer_check_blobs(reader, &head, &a, &err), 0, "%s",
		     err.msg);
}
