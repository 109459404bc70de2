// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base64.h"
#include "common/fs.h"
#include "csi/login.h"
#include "tests/unit/csi/csi_request.h"

TestSuite(csi_login, .timeout = 120);

/* Make a JWT with these claims; its signature is not checked here. */
static char *make_token(const char *claims)
{
	AUTO_BUF b = BUF_INIT;

	cr_assert_eq(buf_puts(&b, "e30."), 0);
	cr_assert_eq(base64_encode(claims, strlen(claims), &b), 0);
	while (b.data[b.len - 1] == '=')
		b.data[--b.len] = '\0';
	for (char *c = b.data; *c; c++)
		*c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
	cr_assert_eq(buf_puts(&b, ".c2ln"), 0);
	return buf_steal(&b);
}

static const char fine[] =
	"{\"aud\":[\"x\",\"sts\"],\"kubernetes.io\":{\"namespace\":\"a\","
	"\"pod\":{\"uid\":\"uid-p\"}},\"~\":\">>>?~?\"}";

Test(csi_login, believes_a_token_of_this_pod_for_this_audience_only)
{
	static const char *const wrong[] = {
		"{\"aud\":\"x\",\"kubernetes.io\":{\"namespace\":\"a\",\"pod\":{"
		"\"uid\":\"uid-p\"}}}",
		"{\"aud\":\"sts\",\"kubernetes.io\":{\"namespace\":\"b\",\"pod\":{"
		"\"uid\":\"uid-p\"}}}",
		"{\"aud\":\"sts\",\"kubernetes.io\":{\"namespace\":\"a\",\"pod\":{"
		"\"uid\":\"uid-q\"}}}",
		"{\"aud\":\"sts\"}",
		"[]",
		"{",
	};
	const struct volume_request r = { .namespace = "a",
					  .pod_uid = "uid-p" };
	AUTO_FREE char *good = make_token(fine);

	cr_expect_eq(login_check_token(good, "sts", &r, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		AUTO_FREE char *token = make_token(wrong[i]);

		cr_expect_eq(login_check_token(token, "sts", &r, NULL), -EACCES,
			     "%s", wrong[i]);
	}
	cr_expect_eq(login_check_token("", "sts", &r, NULL), -EACCES);
	cr_expect_eq(login_check_token("a.b", "sts", &r, NULL), -EACCES);
	cr_expect_eq(login_check_token("a.!!.c", "sts", &r, NULL), -EACCES);
}

static bool has_entry(char **env, const char *start)
{
	for (; *env; env++)
		if (strncmp(*env, start, strlen(start)) == 0)
			return true;
	return false;
}

Test(csi_login, hands_no_login_of_the_node_to_a_pod)
{
	struct volume_grant g = { .login = VOLUME_LOGIN_SECRET };
	char **env = NULL;
	char name[32];

	cr_assert_eq(setenv("AWS_ACCESS_KEY_ID", "node", 1), 0);
	cr_assert_eq(setenv("AWS_REGION", "eu", 1), 0);
	cr_assert_eq(login_env("/d", &g, &env, NULL), 0);
	cr_expect_not(has_entry(env, "AWS_ACCESS_KEY_ID="));
	cr_expect_not(has_entry(env, "HOME="));
	cr_expect(has_entry(env, "AWS_REGION=eu"));
	cr_expect(has_entry(env, "AWS_EC2_METADATA_DISABLED=true"));
	cr_expect(has_entry(env, "AWS_SHARED_CREDENTIALS_FILE=/d/credentials"));
	login_env_free(env);
	g.login = VOLUME_LOGIN_NONE;
	cr_assert_eq(login_env("/d", &g, &env, NULL), 0);
	cr_expect_not(has_entry(env, "AWS_SHARED_CREDENTIALS_FILE="));
	cr_expect(has_entry(env, "AWS_EC2_METADATA_DISABLED=true"));
	login_env_free(env);
	g.login = VOLUME_LOGIN_NODE;
	for (int i = 0; i < 200; i++) {
		(void)snprintf(name, sizeof(name), "SERVICE_%d_PORT", i);
		cr_assert_eq(setenv(name, "tcp://10.0.0.1:80", 1), 0);
	}
	cr_assert_eq(login_env("/d", &g, &env, NULL), 0);
	cr_expect(has_entry(env, "AWS_ACCESS_KEY_ID=node"));
	login_env_free(env);
}

Test(csi_login, writes_secrets_for_root_alone_and_no_other_lines)
{
	static const char *const bad[] = { "", "a b", "a\n[other]", "\x7f" };
	char dir[] = "/tmp/csi-login.XXXXXX";
	struct csi_pair secrets[] = { { "AWS_ACCESS_KEY_ID", "id" },
				      { "AWS_SECRET_ACCESS_KEY", "word" } };
	struct csi_publish p = { .secrets = secrets, .n_secrets = 2 };
	const struct volume_request r = { .kind = VOLUME_KIND_CKPT };
	const struct volume_grant g = { .login = VOLUME_LOGIN_SECRET };
	AUTO_FREE char *path = NULL;
	AUTO_BUF text = BUF_INIT;
	struct error err = ERROR_INIT;
	struct stat st;

	cr_assert_not_null(mkdtemp(dir));
	path = fs_join(dir, "credentials");
	cr_assert_eq(login_write(dir, "sts", &p, &r, &g, &err), 0);
	cr_assert_eq(stat(path, &st), 0);
	cr_expect_eq(st.st_mode & 0777, 0600);
	cr_assert_eq(fs_read_file(path, 4096, &text, NULL), 0);
	cr_expect_str_eq(text.data, "[default]\naws_access_key_id = id\n"
				    "aws_secret_access_key = word\n");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		secrets[1].value = bad[i];
		cr_expect_eq(login_write(dir, "sts", &p, &r, &g, &err),
			     -EACCES);
		cr_expect_null(strstr(err.msg, "other"));
	}
	p.n_secrets = 1;
	cr_expect_eq(login_write(dir, "sts", &p, &r, &g, &err), -EACCES);
	cr_expect_not_null(strstr(err.msg, "nodePublishSecretRef"));
	cr_expect_eq(fs_remove_tree(dir, NULL), 0);
}
