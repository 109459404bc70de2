// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "p2p/capability.h"

TestSuite(capability, .timeout = 30);

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
	cr_expect_eq(d.not_after, 2000);
}

Test(capability, is_believed_for_its_image_node_and_time_only)
{
	AUTO(capability_keys) k = keys(public_pem);
	struct capability c = example(), d;
	struct digest other = c.image;
	uint8_t data[CAPABILITY_MAX];
	struct error err = ERROR_INIT;
	size_t len = sign(data, &c);

	cr_expect_eq(capability_check(k, data, len, &c.image, "node-7", 1000,
				      &d, &err),
		     0, "%s", err.msg);
	cr_expect_eq(d.rights, CAPABILITY_PULL);
	cr_expect_eq(capability_check(k, data, len, &c.image, "node-7", 999, &d,
				      &err),
		     -EACCES);
	cr_expect_eq(capability_check(k, data, len, &c.image, "node-7", 2000,
				      &d, &err),
		     -EACCES);
	cr_expect_eq(capability_check(k, data, len, &c.image, "node-8", 1500,
				      &d, &err),
		     -EACCES);
	other.b[0] ^= 1;
	cr_expect_eq(capability_check(k, data, len, &other, "node-7", 1500, &d,
				      &err),
		     -EACCES);
	c.rights = 2;
	len = sign(data, &c);
	cr_expect_eq(capability_check(k, data, len, &c.image, "node-7", 1500,
				      &d, &err),
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
		cr_expect_lt(capability_check(k, data, len, &c.image, "node-7",
					      1500, &d, NULL),
			     0, "bit %zu", i);
		data[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	for (size_t i = 0; i < len; i++)
		cr_expect_eq(capability_check(k, data, i, &c.image, "node-7",
					      1500, &d, NULL),
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

		cr_expect_eq(capability_check(k, data, len, &c.image, "node-7",
					      1500, &d, NULL),
			     -EACCES);
	}
	(void)snprintf(both, sizeof(both), "%s%s", other_pem, public_pem);
	{
		AUTO(capability_keys) k = keys(both);

		cr_expect_eq(capability_check(k, data, len, &c.image, "node-7",
					      1500, &d, NULL),
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
