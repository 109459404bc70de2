// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "p2p/rights/capability.h"

TestSuite(capability, .timeout = 120);

/* RFC 8032, 7.1, TEST 1: the secret key, and its public half. */
static const char private_pem[] =
	"-----BEGIN PRIVATE KEY-----\n"
	"MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
	"-----END PRIVATE KEY-----\n";
static const char public_pem[] =
	"-----BEGIN PUBLIC KEY-----\n"
	"MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
	"-----END PUBLIC KEY-----\n";
/* Another one: TEST 2. */
static const char other_pem[] =
	"-----BEGIN PUBLIC KEY-----\n"
	"MCowBQYDK2VwAyEAPUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=\n"
	"-----END PUBLIC KEY-----\n";

static struct capability example(void)
{
	struct capability c = { .not_before = 1000,
				.not_after = 2000,
				.rights = CAPABILITY_PULL,
				.repo = "h.example/a/x",
				.node = "node-7" };

	memset(c.image.b, 0xab, sizeof(c.image.b));
	return c;
}

static struct capability_signer *signer(void)
{
	char path[] = "/tmp/test_capability.XXXXXX";
	struct error err = ERROR_INIT;
	struct capability_signer *s;
	int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	cr_assert_eq(fs_write_full(fd, private_pem, strlen(private_pem)), 0);
	cr_assert_eq(fchmod(fd, 0640), 0);
	cr_expect_eq(capability_signer_load(path, &s, &err), -EACCES,
		     "others read it");
	cr_assert_eq(fchmod(fd, 0600), 0);
	cr_assert_eq(capability_signer_load(path, &s, &err), 0, "%s", err.msg);
	close(fd);
	(void)unlink(path);
	return s;
}

static struct capability_keys *keys(const char *pem)
{
	struct error err = ERROR_INIT;
	struct capability_keys *k;

	cr_assert_eq(capability_keys_parse(pem, strlen(pem), &k, &err), 0, "%s",
		     err.msg);
	return k;
}

static size_t sign(uint8_t data[CAPABILITY_MAX], const struct capability *c)
{
	AUTO(capability_signer) s = signer();
	struct error err = ERROR_INIT;
	size_t len;

	cr_assert_eq(capability_sign(s, c, data, &len, &err), 0, "%s", err.msg);
	return len;
}

Test(capability, is_written_as_it_always_was)
{
	struct capability c = example(), d;
	uint8_t data[CAPABILITY_MAX], golden[CAPABILITY_MAX + 1];
	size_t len = sign(data, &c);
	FILE *f = fopen(GOLDEN, "re");

	cr_assert_not_null(f, "%s", GOLDEN);
	cr_expect_eq(fread(golden, 1, sizeof(golden), f), len);
	fclose(f);
	cr_expect_arr_eq(data, golden, len);
	cr_assert_eq(capability_decode(golden, len, &d, NULL), 0);
	cr_expect_str_eq(d.node, "node-7");
	cr_expect_str_eq(d.repo, "h.example/a/x");
	cr_expect_eq(d.not_after, 2000);
}

Test(capability, of_a_version_before_names_what_to_upgrade)
{
	struct capability c = example(), d;
	uint8_t data[CAPABILITY_MAX];
	struct error err = ERROR_INIT;
	size_t len = sign(data, &c);

	data[4] = 1;
	cr_expect_eq(capability_decode(data, len, &d, &err), -EBADMSG);
	cr_expect(strstr(err.msg, "upgrade the bootseer-registry"), "%s",
		  err.msg);
	data[4] = 3;
	cr_expect_eq(capability_decode(data, len, &d, &err), -EBADMSG);
	cr_expect(strstr(err.msg, "upgrade bootseerd"), "%s", err.msg);
}

Test(capability, is_of_one_repository_and_of_none_beside_or_below)
{
	static const char *const others[] = {
		"h.example/b/y", "h.example/a",    "h.example/a/x/y",
		"i.example/a/x", "h.example/a/xx", ""
	};
	AUTO(capability_keys) k = keys(public_pem);
	struct capability c = example(), d;
	uint8_t data[CAPABILITY_MAX];
	struct error err = ERROR_INIT;
	size_t len = sign(data, &c);

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		cr_expect_eq(capability_check(k, data, len, &c.image, others[i],
					      "node-7", 1500, &d, &err),
			     -EACCES, "%s", others[i]);
		cr_expect(strstr(err.msg, "'h.example/a/x'"), "%s", err.msg);
	}
}

/* The two names are told apart by their lengths: neither takes from the other. */
Test(capability, has_a_repository_that_cannot_pass_for_the_nodes_name)
{
	AUTO(capability_keys) k = keys(public_pem);
	struct capability c = example(), d;
	uint8_t data[CAPABILITY_MAX];
	size_t len;

	strcpy(c.node, "node-7h");
	strcpy(c.repo, ".example/a/x");
	len = sign(data, &c);
	cr_expect_eq(capability_check(k, data, len, &c.image, "h.example/a/x",
				      "node-7", 1500, &d, NULL),
		     -EACCES);
	data[6]--;
	data[12]++;
	cr_expect_eq(capability_check(k, data, len, &c.image, "h.example/a/x",
				      "node-7", 1500, &d, NULL),
		     -EBADMSG);
}

Test(capability, repositories_that_are_none_are_refused)
{
	static const char *const bad[] = { "",        "h",        "h/",
					   "/a",      "h/A",      "h/a/",
					   "h//a",    "h/a/../b", "h/a b",
					   "h/a?b=c", "h /a",     "u@h/a",
					   "h/a\nb",  "h#/a",     "h/a%2fb" };
	static const char *const good[] = { "h/a", "h:5000/a/b.c-d_e",
					    "[::1]:5000/a", "H.example/a" };
	char text[CAPABILITY_REPO_MAX + 2];
	struct capability c = example();
	AUTO(capability_signer) s = signer();
	uint8_t data[CAPABILITY_MAX];
	size_t len;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_expect_not(capability_is_repo(bad[i]), "%s", bad[i]);
		strcpy(c.repo, bad[i]);
		cr_expect_eq(capability_sign(s, &c, data, &len, NULL), -EINVAL);
	}
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		cr_expect(capability_is_repo(good[i]), "%s", good[i]);
	memset(text, 'a', sizeof(text));
	text[1] = '/';
	text[CAPABILITY_REPO_MAX + 1] = '\0';
	cr_expect_not(capability_is_repo(text));
	text[CAPABILITY_REPO_MAX] = '\0';
	cr_expect(capability_is_repo(text));
	/* With the longest names it fits. */
	strcpy(c.repo, text);
	memset(c.node, 'n', CAPABILITY_NODE_MAX);
	c.node[CAPABILITY_NODE_MAX] = '\0';
	cr_assert_eq(capability_sign(s, &c, data, &len, NULL), 0);
	cr_assert_leq(len, CAPABILITY_MAX);
	cr_expect_eq(capability_decode(data, len, &c, NULL), 0);
}

Test(capability, may_be_of_a_store_and_of_that_store_only)
{
	static const char *const others[] = { "s3://bkt/envs", "s3://bkt",
					      "s3://bkt/env/x", "bkt/env",
					      "docker://bkt/env" };
	AUTO(capability_keys) k = keys(public_pem);
	struct capability c = example(), d;
	uint8_t data[CAPABILITY_MAX];
	size_t len;

	strcpy(c.repo, "s3://bkt/env");
	len = sign(data, &c);
	cr_expect_eq(capability_check(k, data, len, &c.image, c.repo, "node-7",
				      1500, &d, NULL),
		     0);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		cr_expect_eq(capability_check(k, data, len, &c.image, others[i],
					      "node-7", 1500, &d, NULL),
			     -EACCES, "%s", others[i]);
}

Test(capability, stores_are_urls_without_options)
{
	static const char *const bad[] = { "",
					   "h/a",
					   "://a",
					   "s3:/a",
					   "s3://",
					   "s3://a/",
					   "S3://a",
					   "s3://a?region=x",
					   "s3://a#b",
					   "s3://a b",
					   "s3://a\nb",
					   "s3://a\"b",
					   "file:///\xc3\xa4",
					   "docker://h",
					   "docker://h/A",
					   "docker://h/a/../b" };
	static const char *const good[] = { "s3://bkt/env", "file:///mnt/env",
					    "hdfs://nn:8020/user/e",
					    "docker://h:5000/a/b" };
	struct capability c = example();
	AUTO(capability_signer) s = signer();
	uint8_t data[CAPABILITY_MAX];
	size_t len;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_not(capability_is_store(bad[i]), "%s", bad[i]);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		cr_expect(capability_is_store(good[i]), "%s", good[i]);
		strcpy(c.repo, good[i]);
		cr_assert_eq(capability_sign(s, &c, data, &len, NULL), 0);
		cr_expect_eq(capability_decode(data, len, &c, NULL), 0);
	}
	/* Of these two a registry says who may read there. */
	cr_expect_str_eq(capability_repo_of("docker://h:5000/a/b"),
			 "h:5000/a/b");
	cr_expect_str_eq(capability_repo_of("h:5000/a/b"), "h:5000/a/b");
	cr_expect_eq(capability_repo_of("s3://bkt/env"), NULL);
	cr_expect_eq(capability_repo_of("docker://h/A"), NULL);
}

Test(capability, is_believed_for_its_image_node_and_time_only)
{
	AUTO(capability_keys) k = keys(public_pem);
	struct capability c = example(), d;
	struct digest other = c.image;
	uint8_t data[CAPABILITY_MAX];
	struct error err = ERROR_INIT;
	size_t len = sign(data, &c);

	cr_expect_eq(capability_check(k, data, len, &c.image, "h.example/a/x",
				      "node-7", 1000, &d, &err),
		     0, "%s", err.msg);
	cr_expect_eq(d.rights, CAPABILITY_PULL);
	cr_expect_eq(capability_check(k, data, len, &c.image, "h.example/a/x",
				      "node-7", 999, &d, &err),
		     -EACCES);
	cr_expect_eq(capability_check(k, data, len, &c.image, "h.example/a/x",
				      "node-7", 2000, &d, &err),
		     -EACCES);
	cr_expect_eq(capability_check(k, data, len, &c.image, "h.example/a/x",
				      "node-8", 1500, &d, &err),
		     -EACCES);
	other.b[0] ^= 1;
	cr_expect_eq(capability_check(k, data, len, &other, "h.example/a/x",
				      "node-7", 1500, &d, &err),
		     -EACCES);
	c.rights = 2;
	len = sign(data, &c);
	cr_expect_eq(capability_check(k, data, len, &c.image, "h.example/a/x",
				      "node-7", 1500, &d, &err),
		     -EACCES);
}

Test(capability, is_refused_after_any_change_of_a_bit)
{
	AUTO(capability_keys) k = keys(public_pem);
	struct capability c = example(), d;
	uint8_t data[CAPABILITY_MAX];
	size_t len = sign(data, &c);

	for (size_t i = 0; i < len * 8; i++) {
		data[i / 8] ^= (uint8_t)(1 << i % 8);
		cr_expect_lt(capability_check(k, data, len, &c.image,
					      "h.example/a/x", "node-7", 1500,
					      &d, NULL),
			     0, "bit %zu", i);
		data[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	for (size_t i = 0; i < len; i++)
		cr_expect_eq(capability_check(k, data, i, &c.image,
					      "h.example/a/x", "node-7", 1500,
					      &d, NULL),
			     -EBADMSG);
}

Test(capability, needs_a_known_key_which_may_be_one_of_several)
{
	struct capability c = example(), d;
	uint8_t data[CAPABILITY_MAX];
	size_t len = sign(data, &c);
	char both[512];

	{
		AUTO(capability_keys) k = keys(other_pem);

		cr_expect_eq(capability_check(k, data, len, &c.image,
					      "h.example/a/x", "node-7", 1500,
					      &d, NULL),
			     -EACCES);
	}
	(void)snprintf(both, sizeof(both), "%s%s", other_pem, public_pem);
	{
		AUTO(capability_keys) k = keys(both);

		cr_expect_eq(capability_check(k, data, len, &c.image,
					      "h.example/a/x", "node-7", 1500,
					      &d, NULL),
			     0);
	}
}

Test(capability, keys_that_are_none_are_refused)
{
	struct capability_keys *k;
	char cut[256];

	cr_expect_eq(capability_keys_parse("", 0, &k, NULL), -EINVAL);
	cr_expect_eq(capability_keys_parse("words", 5, &k, NULL), -EINVAL);
	(void)snprintf(cut, sizeof(cut), "%s%.60s", public_pem, other_pem);
	cr_expect_eq(capability_keys_parse(cut, strlen(cut), &k, NULL),
		     -EINVAL);
	{
		AUTO(capability_signer) s = signer();
		AUTO_BUF text = BUF_INIT;

		cr_assert_eq(capability_signer_public(s, &text, NULL), 0);
		cr_expect_str_eq(text.data, public_pem);
	}
}

Test(capability, that_none_is_shown_is_told_from_one_that_is_not_good)
{
	struct error err = ERROR_INIT;
	struct capability c;

	cr_expect_eq(capability_decode("", 0, &c, &err), -EBADMSG);
	cr_expect(strstr(err.msg, "it showed no capability"), "%s", err.msg);
	cr_expect_eq(capability_decode("BSCP", 4, &c, &err), -EBADMSG);
	cr_expect_str_eq(err.msg, "it is no capability");
}
