// SPDX-License-Identifier: Apache-2.0
#include "envcache/index.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "env_fixture.h"
#include "envcache/key.h"

TestSuite(env_index, .init = env_setup, .fini = env_teardown, .timeout = 60);

static struct env_snapshot make_indexed_snapshot(void)
{
	char *given[] = { env_dir, NULL };
	struct env_snapshot s = { .key = env_some_key(),
				  .by = strdup("node-a"),
				  .program = strdup("pip"),
				  .n_changed = 12,
				  .n_deleted = 3,
				  .bytes = 4567,
				  .stored = 89 };

	memcpy(s.folder, "0123456789abcdef0123456789abcdef", 33);
	cr_assert_eq(digest_of("x", 1, &s.manifest), 0);
	cr_assert_eq(env_targets_make(given, &s.targets, NULL), 0);
	return s;
}

static struct buf encode_index_text(const struct env_snapshot *s)
{
	struct error err = ERROR_INIT;
	struct buf text = BUF_INIT;

	cr_assert_eq(env_index_encode(s, &text, &err), 0, "%s", err.msg);
	return text;
}

Test(env_index, is_read_as_it_was_written)
{
	struct env_snapshot s = make_indexed_snapshot(), back;
	AUTO_BUF text = encode_index_text(&s);
	struct error err = ERROR_INIT;

	cr_assert_eq(env_index_decode(text.data, text.len, &back, &err), 0,
		     "%s", err.msg);
	cr_expect(digest_equal(&back.key.digest, &s.key.digest));
	cr_expect(digest_equal(&back.manifest, &s.manifest));
	cr_expect_eq(back.key.n, s.key.n);
	cr_expect_str_eq(back.folder, s.folder);
	cr_expect_str_eq(back.by, "node-a");
	cr_expect_str_eq(back.program, "pip");
	cr_expect_eq(back.targets.n, 1);
	cr_expect_str_eq(back.targets.paths[0], s.targets.paths[0]);
	cr_expect_eq(back.n_changed, 12);
	cr_expect_eq(back.n_deleted, 3);
	cr_expect_eq(back.bytes, 4567);
	cr_expect_eq(back.stored, 89);
	env_snapshot_fini(&back);
	env_snapshot_fini(&s);
}

Test(env_index, says_whether_packs_are_others_too)
{
	struct env_snapshot s = make_indexed_snapshot(), back;
	struct error err = ERROR_INIT;

	for (unsigned int i = 0; i < 4; i++) {
		AUTO_BUF text = BUF_INIT;
		char version[20];

		s.is_shared = i % 2;
		s.key.form = 1 + i / 2;
		cr_assert_eq(env_key_finish(&s.key, NULL), 0);
		text = encode_index_text(&s);
		/* The version differs, so that a program that does not know shared packs refuses
		 * the index. */
		(void)snprintf(version, sizeof(version), "\"version\":%u",
			       i + 1);
		cr_expect_not_null(strstr(text.data, version));
		cr_assert_eq(env_index_decode(text.data, text.len, &back, &err),
			     0, "%s", err.msg);
		cr_expect_eq(back.is_shared, s.is_shared);
		cr_expect(digest_equal(&back.key.digest, &s.key.digest));
		env_snapshot_fini(&back);
	}
	env_snapshot_fini(&s);
}

Test(env_index, has_no_value_that_may_be_secret)
{
	struct env_snapshot s = make_indexed_snapshot();
	AUTO_BUF text = encode_index_text(&s);

	cr_expect_null(strstr(text.data, "secret"));
	cr_expect_null(strstr(text.data, "\"12\""));
	cr_expect_not_null(strstr(text.data, "CUDA"));
	env_snapshot_fini(&s);
}

Test(env_index, with_any_part_changed_is_refused)
{
	static const char *const changes[][2] = {
		{ "\"version\":3", "\"version\":5" },
		{ "\"version\":3", "\"version\":\"3\"" },
		{ "\"version\":3", "\"version\":1" },
		{ "\"name\":\"CUDA\"", "\"name\":\"CUDB\"" },
		{ "\"kind\":\"libc\"", "\"kind\":\"LIBC\"" },
		{ "\"folder\":\"0123", "\"folder\":\"/123" },
		{ "\"folder\":\"0123", "\"folder\":\"" },
		{ "\"targets\":[\"/", "\"targets\":[\"/../" },
		{ "\"targets\":[\"/", "\"targets\":[\"" },
		{ "\"targets\":[\"/", "\"targets\":[\"/x/\",\"/" },
		{ "\"changed\":12", "\"changed\":-1" },
		{ "\"manifest\":\"sha256:", "\"manifest\":\"sha512:" },
		{ "\"by\":\"node-a\"", "\"by\":7" },
		{ "\"program\":\"pip\"", "\"program\":\"p\\u0000p\"" },
		{ "\"items\":[", "\"items\":[7," },
		{ "{", "[" },
	};
	struct env_snapshot s = make_indexed_snapshot(), back;
	AUTO_BUF text = encode_index_text(&s);

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		const char *at = strstr(text.data, changes[i][0]);
		AUTO_BUF other = BUF_INIT;
		int rc;

		cr_assert_not_null(at, "%s", changes[i][0]);
		cr_assert_eq(buf_append(&other, text.data,
					(size_t)(at - text.data)),
			     0);
		cr_assert_eq(buf_puts(&other, changes[i][1]), 0);
		cr_assert_eq(buf_puts(&other, at + strlen(changes[i][0])), 0);
		rc = env_index_decode(other.data, other.len, &back, NULL);
		cr_expect_eq(rc, i == 0 ? -ENOTSUP : -EBADMSG, "%s: %d",
			     changes[i][1], rc);
	}
	for (size_t len = 0; len < text.len; len += 7)
		cr_expect_eq(env_index_decode(text.data, len, &back, NULL),
			     -EBADMSG);
	env_snapshot_fini(&s);
}
