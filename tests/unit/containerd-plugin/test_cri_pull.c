// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/buf.h"
#include "containerd-plugin/cri_pull.h"

TestSuite(cri_pull, .timeout = 30);

/* Append field `number` with these bytes. */
static void put(struct buf *b, int number, const void *data, size_t len)
{
	cr_assert_lt(len, 128u);
	cr_assert_eq(buf_append(b,
				(uint8_t[]){ (uint8_t)(number << 3 | 2),
					     (uint8_t)len },
				2),
		     0);
	cr_assert_eq(buf_append(b, data, len), 0);
}

static void put_text(struct buf *b, int number, const char *text)
{
	put(b, number, text, strlen(text));
}

/* Fields of AuthConfig from 1 on; NULL is none. */
struct auth_fields {
	const char *user, *password, *auth, *server, *token, *registry_token;
};

static int parse(const char *image, struct auth_fields a, struct cri_pull *p,
		 struct error *err)
{
	const char *const fields[] = { a.user,   a.password, a.auth,
				       a.server, a.token,    a.registry_token };
	AUTO_BUF message = BUF_INIT;
	AUTO_BUF spec = BUF_INIT;
	AUTO_BUF auth = BUF_INIT;
	AUTO_BUF metadata = BUF_INIT;
	AUTO_BUF sandbox = BUF_INIT;

	put_text(&spec, 1, image);
	for (int k = 0; k < 6; k++)
		if (fields[k])
			put_text(&auth, k + 1, fields[k]);
	put_text(&metadata, 1, "pod");
	put_text(&metadata, 3, "team");
	put(&sandbox, 1, metadata.data, metadata.len);
	put(&message, 1, spec.data, spec.len);
	/* A number, which a newer kubelet may send. */
	cr_assert_eq(buf_append(&message, (uint8_t[]){ 0x78, 0x80, 1 }, 3), 0);
	put(&message, 2, auth.data ? auth.data : "", auth.len);
	put(&message, 3, sandbox.data, sandbox.len);
	*p = (struct cri_pull){ .image = NULL };
	return cri_pull_parse(message.data, message.len, p, err);
}

Test(cri_pull, names_the_image_as_containerd_completes_it)
{
	static const char *const names[][2] = {
		{ "nginx", "docker.io/library/nginx" },
		{ "nginx:1", "docker.io/library/nginx:1" },
		{ "team/app", "docker.io/team/app" },
		{ "docker.io/nginx", "docker.io/library/nginx" },
		{ "index.docker.io/nginx", "docker.io/library/nginx" },
		{ "docker.io/team/app", "docker.io/team/app" },
		{ "localhost/app", "localhost/app" },
		{ "localhostx/app", "docker.io/localhostx/app" },
		{ "host:5000/app:2", "host:5000/app:2" },
		{ "r.example/a/b@sha256:0", "r.example/a/b@sha256:0" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct cri_pull p;

		cr_assert_eq(parse(names[i][0],
				   (struct auth_fields){ .user = NULL }, &p,
				   NULL),
			     0);
		cr_expect_str_eq(p.image, names[i][1]);
		cr_expect_str_eq(p.namespace_, "team");
		cr_expect(!cri_pull_has_login(&p));
		cri_pull_fini(&p);
	}
}

Test(cri_pull, takes_the_field_that_containerd_takes)
{
	static const struct {
		struct auth_fields fields;
		const char *user, *password, *token;
	} want[] = {
		{ { .user = "u", .password = "p" }, "u", "p", NULL },
		{ { .user = "u" }, "u", "", NULL },
		{ { .auth = "dTpwOnE=" }, "u", "p:q", NULL },
		{ { .token = "t" }, NULL, NULL, "t" },
		{ { .user = "u",
		    .password = "p",
		    .auth = "eDp5",
		    .token = "t" },
		  "u",
		  "p",
		  NULL },
		{ { .auth = "eDp5", .token = "t" }, NULL, NULL, "t" },
		{ { .registry_token = "t" }, NULL, NULL, NULL },
		{ { .user = "u", .password = "p", .server = "https://h:1/v1/" },
		  "u",
		  "p",
		  NULL },
		{ { .user = "u", .password = "p", .server = "https://h:2" },
		  NULL,
		  NULL,
		  NULL },
		{ { .user = "u", .password = "p", .server = "https://h:11" },
		  NULL,
		  NULL,
		  NULL },
		{ { .user = "u", .password = "p", .server = "h:1" },
		  NULL,
		  NULL,
		  NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		struct error err = ERROR_INIT;
		struct cri_pull p;

		cr_assert_eq(parse("h:1/a", want[i].fields, &p, &err), 0, "%s",
			     err.msg);
		cr_expect(want[i].user
				  ? p.user && strcmp(p.user, want[i].user) == 0
				  : !p.user,
			  "%zu", i);
		cr_expect(want[i].password
				  ? p.password && strcmp(p.password,
							 want[i].password) == 0
				  : !p.password,
			  "%zu", i);
		cr_expect(want[i].token ? p.identity_token &&
						  strcmp(p.identity_token,
							 want[i].token) == 0
					: !p.identity_token,
			  "%zu", i);
		cri_pull_fini(&p);
	}
}

Test(cri_pull, refuses_what_is_none_and_quotes_no_login)
{
	static const struct auth_fields bad[] = { { .auth = "hunter2!" },
						  { .auth = "aHVudGVyMg==" } };
	static const uint8_t cut[] = { 0x0a, 0x05, 0x0a, 0x03, 'a' };
	static const uint8_t endless[] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
					   0xff, 0xff, 0xff, 0xff, 0xff };
	static const uint8_t huge[] = {
		0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f
	};
	static const uint8_t zero[] = { 0x0a, 0x04, 0x0a, 0x02, 'a', 0 };
	struct cri_pull p;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct error err = ERROR_INIT;

		cr_expect_eq(parse("h:1/a", bad[i], &p, &err), -EINVAL);
		cr_expect_null(strstr(err.msg, "hunter2"));
		cr_expect_null(strstr(err.msg, "aHVudGVyMg"));
	}
	cr_expect_eq(cri_pull_parse(cut, sizeof(cut), &p, NULL), -EINVAL);
	cr_expect_eq(cri_pull_parse(endless, sizeof(endless), &p, NULL),
		     -EINVAL);
	cr_expect_eq(cri_pull_parse(huge, sizeof(huge), &p, NULL), -EINVAL);
	cr_expect_eq(cri_pull_parse(zero, sizeof(zero), &p, NULL), -EINVAL);
	cr_expect_eq(cri_pull_parse("", 0, &p, NULL), -EINVAL, "no image");
}
