// SPDX-License-Identifier: Apache-2.0
/* Lists of revoked keys. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "snapshotter/node/trust/key_revocations.h"

TestSuite(key_revocations, .timeout = 60);

#define HEX_A "aa00000000000000000000000000000000000000000000000000000000000001"
#define HEX_B "bb00000000000000000000000000000000000000000000000000000000000002"

static struct digest id_of(const char *hex)
{
	char text[DIGEST_STR_MAX];
	struct digest d;

	(void)snprintf(text, sizeof(text), "sha256:%s", hex);
	cr_assert_eq(digest_parse(text, &d, NULL), 0);
	return d;
}

static int parse(const char *text, struct key_ids *ret, struct error *err)
{
	return key_ids_parse(text, strlen(text), TRUST_REVOKED_MAX, ret, err);
}

Test(key_revocations, reads_both_forms_of_an_id_and_comments)
{
	struct digest a = id_of(HEX_A), b = id_of(HEX_B);
	struct error err = ERROR_INIT;
	struct key_ids k;

	cr_assert_eq(parse("# mine\n\n" HEX_B " # lost\n\tsha256:" HEX_A "\r\n",
			   &k, &err),
		     0, "%s", err.msg);
	cr_expect_eq(k.n, 2);
	cr_expect(key_ids_has(&k, &a));
	cr_expect(key_ids_has(&k, &b));
	a.b[0] ^= 1;
	cr_expect_not(key_ids_has(&k, &a));
	key_ids_fini(&k);
	cr_expect_not(key_ids_has(&k, &b));
}

Test(key_revocations, names_the_line_that_is_no_id)
{
	static const char *const bad[] = {
		"aa", HEX_A "0", ("sha512:" HEX_A),
		"zz00000000000000000000000000000000000000000000000000000000000001"
	};
	struct error err = ERROR_INIT;
	struct key_ids k;
	char text[256];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		(void)snprintf(text, sizeof(text), HEX_B "\n%s\n", bad[i]);
		cr_expect_eq(parse(text, &k, &err), -EINVAL, "%s", bad[i]);
		cr_expect(strstr(err.msg, "line 2"), "%s", err.msg);
	}
	cr_expect_eq(key_ids_parse("a\0b", 3, 5, &k, &err), -EINVAL);
}

Test(key_revocations, takes_no_more_than_its_bound)
{
	struct error err = ERROR_INIT;
	AUTO_BUF text = BUF_INIT;
	struct key_ids k;

	for (unsigned int i = 0; i < TRUST_REVOKED_MAX; i++)
		cr_assert_eq(buf_printf(&text, "%064x\n", i), 0);
	cr_assert_eq(key_ids_parse(text.data, text.len, TRUST_REVOKED_MAX, &k,
				   &err),
		     0, "%s", err.msg);
	cr_expect_eq(k.n, TRUST_REVOKED_MAX);
	key_ids_fini(&k);
	cr_assert_eq(buf_printf(&text, HEX_A "\n"), 0);
	cr_expect_eq(key_ids_parse(text.data, text.len, TRUST_REVOKED_MAX, &k,
				   &err),
		     -E2BIG);
}

Test(key_revocations, merged_lists_have_each_key_once)
{
	struct digest a = id_of(HEX_A), b = id_of(HEX_B);
	struct key_ids one, two, none = { .n = 0 };

	cr_assert_eq(parse(HEX_B "\n", &one, NULL), 0);
	cr_assert_eq(parse(HEX_B "\n" HEX_A "\n", &two, NULL), 0);
	cr_assert_eq(key_ids_merge(&one, &two, NULL), 0);
	cr_assert_eq(key_ids_merge(&one, &none, NULL), 0);
	cr_expect_eq(one.n, 2);
	cr_expect(key_ids_has(&one, &a));
	cr_expect(key_ids_has(&one, &b));
	key_ids_fini(&one);
	key_ids_fini(&two);
}

Test(key_revocations, reads_the_answer_of_the_service)
{
	static const char *const bad[] = { "",
					   "[]",
					   "{}",
					   "{\"revoked\":{}}",
					   "{\"revoked\":[1]}",
					   "{\"revoked\":[{\"key\":\"aa\"}]}" };
	static const char good[] =
		"{\"revoked\":[{\"key\":\"" HEX_A "\",\"since\":5}]}";
	struct digest a = id_of(HEX_A);
	struct error err = ERROR_INIT;
	struct key_ids k;

	cr_assert_eq(key_ids_from_json(good, strlen(good), &k, &err), 0, "%s",
		     err.msg);
	cr_expect(key_ids_has(&k, &a));
	key_ids_fini(&k);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_eq(key_ids_from_json(bad[i], strlen(bad[i]), &k,
					       &err),
			     -EINVAL, "%s", bad[i]);
}

/* -------------------------------------------------------- with files of a node --- */

static char dir[40], told[64], own[64];

static void make_dir(void)
{
	strcpy(dir, "/tmp/trust-revoked.XXXXXX");
	cr_assert(mkdtemp(dir));
	(void)snprintf(told, sizeof(told), "%s/" TRUST_REVOKED_NAME, dir);
	(void)snprintf(own, sizeof(own), "%s/own", dir);
}

static void put(const char *path, const char *text)
{
	cr_assert_eq(fs_replace_file(path, text, strlen(text), 0600, NULL), 0);
}

/* Write a list with its seal, as the node does. */
static void put_sealed(const char *path, const char *text)
{
	AUTO_BUF b = BUF_INIT;

	cr_assert_eq(buf_puts(&b, text), 0);
	cr_assert_eq(key_ids_seal(&b, NULL), 0);
	put(path, b.data);
}

static struct key_revocations *open_lists(void)
{
	const struct key_revocations_config cfg = { .root = dir, .file = own };
	struct error err = ERROR_INIT;
	struct key_revocations *t;

	cr_assert_eq(key_revocations_open(&cfg, &t, &err), 0, "%s", err.msg);
	return t;
}

static void end(struct key_revocations *t)
{
	key_revocations_close(t);
	cr_assert_eq(fs_remove_tree(dir, NULL), 0);
}

Test(key_revocations, holds_what_was_told_before_the_restart_and_the_own_file)
{
	struct digest a = id_of(HEX_A), b = id_of(HEX_B);
	struct key_revocations_stats s;
	struct key_revocations *t;

	make_dir();
	put_sealed(told, HEX_A "\n");
	put(own, "");
	t = open_lists();
	cr_expect(key_revocations_has(t, &a));
	cr_expect_not(key_revocations_has(t, &b));
	put(own, HEX_B "\n");
	cr_assert_eq(key_revocations_reload(t, NULL), 0);
	cr_expect(key_revocations_has(t, &a));
	cr_expect(key_revocations_has(t, &b));
	key_revocations_get_stats(t, &s);
	cr_expect_eq(s.keys, 2);
	cr_expect_not(s.is_damaged);
	end(t);
}

/* A service with a list of the largest size does not push out keys of other services. */
Test(key_revocations, holds_what_all_services_told)
{
	struct digest a = id_of(HEX_A);
	struct key_revocations_stats s;
	struct key_revocations *t;
	AUTO_BUF text = BUF_INIT;

	make_dir();
	for (unsigned int i = 0; i < TRUST_REVOKED_KEPT_MAX - 1; i++)
		cr_assert_eq(buf_printf(&text, "sha256:%064x\n", i), 0);
	cr_assert_eq(buf_puts(&text, "sha256:" HEX_A "\n"), 0);
	put_sealed(told, text.data);
	put(own, "");
	t = open_lists();
	cr_expect(key_revocations_has(t, &a));
	a.b[0] ^= 1;
	cr_expect_not(key_revocations_has(t, &a));
	key_revocations_get_stats(t, &s);
	cr_expect_not(s.is_damaged);
	cr_expect_eq(s.keys, TRUST_REVOKED_KEPT_MAX);
	end(t);
}

Test(key_revocations, keeps_the_old_list_when_the_file_is_wrong)
{
	struct digest b = id_of(HEX_B);
	struct error err = ERROR_INIT;
	struct key_revocations *t;

	make_dir();
	put(own, HEX_B "\n");
	t = open_lists();
	put(own, "nonsense\n");
	cr_expect_eq(key_revocations_reload(t, &err), -EINVAL);
	cr_expect(strstr(err.msg, "--trust-revoked-file"), "%s", err.msg);
	cr_expect(key_revocations_has(t, &b));
	cr_assert_eq(unlink(own), 0);
	cr_expect_eq(key_revocations_reload(t, &err), -ENOENT);
	cr_expect(key_revocations_has(t, &b));
	end(t);
}

Test(key_revocations, believes_no_key_when_the_kept_list_is_damaged)
{
	struct digest a = id_of(HEX_A);
	struct key_revocations_stats s;
	struct key_revocations *t;

	make_dir();
	put(told, HEX_B "\nhalf a li");
	put(own, "");
	t = open_lists();
	cr_expect(key_revocations_has(t, &a));
	key_revocations_get_stats(t, &s);
	cr_expect(s.is_damaged);
	end(t);
}

Test(key_revocations, does_not_start_without_the_file_that_was_named)
{
	const struct key_revocations_config cfg = { .root = dir, .file = own };
	struct error err = ERROR_INIT;
	struct key_revocations *t;

	make_dir();
	cr_expect_eq(key_revocations_open(&cfg, &t, &err), -ENOENT);
	cr_expect_eq(key_revocations_check(own, &err), -ENOENT);
	cr_expect_eq(key_revocations_check(NULL, &err), 0);
	end(NULL);
}

/* With any flipped bit, or cut anywhere, the list counts as damaged: every key is revoked. */
Test(key_revocations, a_kept_list_with_a_flipped_bit_is_damaged)
{
	struct digest b = id_of(HEX_B);
	struct key_revocations *t;
	AUTO_BUF good = BUF_INIT;

	cr_assert_eq(buf_puts(&good, HEX_A "\n" HEX_B "\n"), 0);
	cr_assert_eq(key_ids_seal(&good, NULL), 0);
	cr_assert_eq(key_ids_check_seal(good.data, good.len, NULL), 0);
	for (size_t i = 0; i < good.len; i++) {
		good.data[i] ^= 1;
		cr_expect_eq(key_ids_check_seal(good.data, good.len, NULL),
			     -EBADMSG, "byte %zu", i);
		good.data[i] ^= 1;
		cr_expect_eq(key_ids_check_seal(good.data, i, NULL), -EBADMSG,
			     "%zu bytes", i);
	}
	make_dir();
	good.data[3] ^= 1;
	put(told, good.data);
	put(own, "");
	t = open_lists();
	cr_expect(key_revocations_has(t, &b));
	end(t);
}
