// SPDX-License-Identifier: Apache-2.0
/* Signatures, XML, credentials and pages. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fs.h"
#include "objects/object_get.h"
#include "objects/s3/s3_credentials.h"
#include "objects/s3/s3_list_priv.h"
#include "objects/s3/s3_sign.h"
#include "objects/s3/s3_xml.h"
#include "objects/store.h"

TestSuite(s3, .timeout = 60);

/* "GET Object" and "PUT Object" of the S3 API reference, Signature Calculations for
 * the Authorization Header. */
static const struct s3_signing example = {
	.key_id = "AKIAIOSFODNN7EXAMPLE",
	.secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
	.region = "us-east-1",
	.service = "s3",
	.time = "20130524T000000Z",
};

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static void expect_signature(const struct s3_signing *s, const char *want)
{
	AUTO_BUF got = BUF_INIT;

	cr_assert_eq(s3_sign(s, &got), 0);
	cr_expect(strstr(got.data, want), "%s", got.data);
}

Test(s3, signs_as_the_reference_does)
{
	const struct s3_header get[] = {
		{ "host", "examplebucket.s3.amazonaws.com" },
		{ "range", "bytes=0-9" },
		{ "x-amz-content-sha256", EMPTY },
		{ "x-amz-date", "20130524T000000Z" },
	};
	const struct s3_header list[] = {
		{ "host", "examplebucket.s3.amazonaws.com" },
		{ "x-amz-content-sha256", EMPTY },
		{ "x-amz-date", "20130524T000000Z" },
	};
	struct s3_signing s = example;

	s.method = "GET";
	s.path = "/test.txt";
	s.query = "";
	s.headers = get;
	s.n_headers = 4;
	s.payload = EMPTY;
	expect_signature(&s, "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f"
			     "0170aba48dd91039c6036bdb41");
	s.path = "/";
	s.query = "max-keys=2&prefix=J";
	s.headers = list;
	s.n_headers = 3;
	expect_signature(&s, "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a53"
			     "4bc59db6670ed5711ef69dc6f7");
}

/* ---------------------------------------------------------------------- XML --- */

static int write_element(void *arg, const char *path, const char *text)
{
	struct buf *b = arg;

	return buf_printf(b, "%s=%s;", path, text);
}

static void expect_xml(const char *xml, const char *want)
{
	AUTO_BUF got = BUF_INIT;
	int rc = s3_xml_parse(xml, strlen(xml), write_element, &got);

	if (!want) {
		cr_expect_lt(rc, 0, "'%s' was taken", xml);
		return;
	}
	cr_expect_eq(rc, 0, "'%s' was refused", xml);
	cr_expect_str_eq(got.data ? got.data : "", want);
}

Test(s3, reads_elements_and_their_text)
{
	expect_xml("<a>x</a>", "a=x;");
	expect_xml("<?xml version=\"1.0\"?>\n<n:a xmlns=\"u>v\"><b/> "
		   "<c d='>'>1&amp;2&lt;&#65;&#x20ac;</c><!-- <z> --></n:a>\n",
		   "a/b=;a/c=1&2<A€;a=;");
	expect_xml("<a><![CDATA[<&>]]></a>", "a=<&>;");
}

Test(s3, refuses_what_is_no_xml)
{
	static const char *const bad[] = {
		"",
		"x",
		"<a>",
		"</a>",
		"<a></b>",
		"<a/><b/>",
		"<a>&x;</a>",
		"<a>&#0;</a>",
		"<a>&#xd800;</a>",
		"<a>&#x110000;</a>",
		"<!DOCTYPE a><a/>",
		"<a b='>",
		"< a/>",
		"<a>&#;</a>",
		"<a>&#12",
		"<a><![CDATA[x</a>",
		"<!-- <a/>",
	};
	AUTO_BUF deep = BUF_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		expect_xml(bad[i], NULL);
	for (size_t i = 0; i <= S3_XML_DEPTH; i++)
		cr_assert_eq(buf_puts(&deep, "<a>"), 0);
	cr_expect_eq(s3_xml_parse(deep.data, deep.len, write_element,
				  &(struct buf)BUF_INIT) == -EFBIG,
		     1);
}

/* -------------------------------------------------------------- credentials --- */

Test(s3, reads_the_profile_of_a_file)
{
	static const char text[] = "[other]\naws_access_key_id = no\n"
				   "[ me ]\r\n# comment\n"
				   "aws_access_key_id=ID\r\n"
				   "aws_secret_access_key = a+b/c==\n"
				   "aws_session_token=T\nregion = x\n[last]\n"
				   "aws_access_key_id = no\n";
	struct s3_credentials c;

	cr_assert_eq(s3_credentials_from_file(text, strlen(text), "me", &c), 0);
	cr_expect_str_eq(c.key_id, "ID");
	cr_expect_str_eq(c.secret, "a+b/c==");
	cr_expect_str_eq(c.token, "T");
	s3_credentials_fini(&c);
	cr_expect_eq(s3_credentials_from_file(text, strlen(text), "other", &c),
		     -EBADMSG);
	cr_expect_eq(s3_credentials_from_file(text, strlen(text), "none", &c),
		     -EBADMSG);
}

Test(s3, reads_answers_with_credentials)
{
	static const char json[] =
		"{\"Code\":\"Success\",\"AccessKeyId\":\"ID\","
		"\"SecretAccessKey\":\"S\",\"Token\":\"T\","
		"\"Expiration\":\"2026-11-23T06:00:00Z\"}";
	static const char smuggled[] = "{\"AccessKeyId\":\"ID\\r\\nX: y\","
				       "\"SecretAccessKey\":\"S\"}";
	static const char xml[] =
		"<AssumeRoleWithWebIdentityResponse xmlns=\"u\">"
		"<AssumeRoleWithWebIdentityResult><Credentials>"
		"<AccessKeyId>ID</AccessKeyId><SecretAccessKey>S"
		"</SecretAccessKey><SessionToken>T</SessionToken>"
		"<Expiration>2026-11-23T06:00:00.500Z</Expiration>"
		"</Credentials></AssumeRoleWithWebIdentityResult>"
		"</AssumeRoleWithWebIdentityResponse>";
	struct s3_credentials c;

	cr_assert_eq(s3_credentials_from_json(json, strlen(json), &c), 0);
	cr_expect_str_eq(c.token, "T");
	cr_expect_eq(c.until_ms, 1795413600000);
	s3_credentials_fini(&c);
	cr_assert_eq(s3_credentials_from_xml(xml, strlen(xml), &c), 0);
	cr_expect_str_eq(c.secret, "S");
	cr_expect_eq(c.until_ms, 1795413600500);
	s3_credentials_fini(&c);
	cr_expect_eq(s3_credentials_from_json(smuggled, strlen(smuggled), &c),
		     -EBADMSG);
	cr_expect_eq(s3_credentials_from_json("{}", 2, &c), -EBADMSG);
	cr_expect_eq(s3_time_parse("yesterday"), -1);
}

/* -------------------------------------------------------------------- pages --- */

static int write_entry(void *arg, const struct s3_entry *e)
{
	return buf_printf(arg, "%s %s %llu %d;", e->key, e->tag,
			  (unsigned long long)e->size, e->is_folder);
}

Test(s3, sweeps_old_uploads_and_what_probes_left_alone)
{
	static const char tmp[] = "p/.bootseer/tmp/0123";
	static const struct {
		struct s3_entry e;
		int64_t before_ms;
		bool is_left;
	} t[] = {
		{ { .key = tmp, .modified_ms = 4 }, 5, true },
		{ { .key = tmp, .modified_ms = 5 }, 5, false },
		{ { .key = "p/a", .upload = "u", .modified_ms = 4 }, 5, true },
		{ { .key = "p/a", .modified_ms = 4 }, 5, false },
		{ { .key = "p/.bootseer/tmpx", .modified_ms = 4 }, 5, false },
		{ { .key = "q/.bootseer/tmp/0", .modified_ms = 4 }, 5, false },
		{ { .key = "p/", .modified_ms = 4 }, 5, false },
		{ { .key = "p/.bootseer/tmp/a/", .is_folder = true },
		  5,
		  false },
		/* Names that a server or a library between takes for others. */
		{ { .key = "p/.bootseer/tmp/../../../q/live" }, 5, false },
		{ { .key = "p/.bootseer/tmp/./a" }, 5, false },
		{ { .key = "p/.bootseer/tmp//a" }, 5, false },
		{ { .key = "p/../a", .upload = "u" }, 5, false },
		/* Nobody knows how old it is. */
		{ { .key = tmp, .modified_ms = -1 }, 5, false },
		{ { .key = tmp, .modified_ms = -1 }, 0, false },
		{ { .key = tmp, .modified_ms = -1 }, INT64_MAX, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		cr_expect_eq(s3_is_left("p/", "", &t[i].e, t[i].before_ms),
			     t[i].is_left, "%s of %lld", t[i].e.key,
			     (long long)t[i].e.modified_ms);
}

Test(s3, sweeps_of_one_folder_leave_the_uploads_of_others)
{
	static const struct {
		const char *key;
		bool is_left;
	} t[] = {
		{ "p/env/data/a", true },
		{ "p/envy/a", false },
		{ "p/a", false },
		{ "p/.bootseer/tmp/a", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		char key[32], upload[] = "u";
		const struct s3_entry e = { .key = key,
					    .upload = upload,
					    .modified_ms = 4 };

		(void)snprintf(key, sizeof(key), "%s", t[i].key);
		cr_expect_eq(s3_is_left("p/", "env", &e, 5), t[i].is_left, "%s",
			     key);
	}
}

Test(s3, reads_pages_of_a_list)
{
	static const char page[] =
		"<ListBucketResult><IsTruncated>true</IsTruncated><Prefix>p/"
		"</Prefix><Contents><Key>p/a&amp;b</Key><Size>5</Size><ETag>"
		"&quot;t&quot;</ETag></Contents><CommonPrefixes><Prefix>p/d/"
		"</Prefix></CommonPrefixes><NextContinuationToken>n"
		"</NextContinuationToken></ListBucketResult>";
	static const char endless[] = "<ListBucketResult><IsTruncated>true"
				      "</IsTruncated></ListBucketResult>";
	static const char other[] = "<html><body/></html>";
	AUTO_BUF got = BUF_INIT;
	struct s3_next next;

	cr_assert_eq(s3_page_parse(page, strlen(page), write_entry, &got,
				   &next),
		     0);
	cr_expect_str_eq(got.data, "p/a&b \"t\" 5 0;p/d/  0 1;");
	cr_expect_str_eq(next.key, "n");
	s3_next_fini(&next);
	cr_expect_eq(s3_page_parse(endless, strlen(endless), write_entry, &got,
				   &next),
		     -EBADMSG);
	cr_expect_eq(s3_page_parse(other, strlen(other), write_entry, &got,
				   &next),
		     -EBADMSG);
}

/* A server that knows the key "new" only, and that whoever has the key "old" replaces it in
 * the file of credentials meanwhile. */
struct key_server {
	int fd, n_refused;
	char file[64];
};

static void write_key(const char *path, const char *id)
{
	struct error err = ERROR_INIT;
	AUTO_BUF text = BUF_INIT;

	cr_assert_eq(buf_printf(&text,
				"[default]\naws_access_key_id = %s\n"
				"aws_secret_access_key = secret\n",
				id),
		     0);
	cr_assert_eq(fs_replace_file(path, text.data, text.len, 0600, &err), 0,
		     "%s", err.msg);
}

static void *serve_keys(void *arg)
{
	struct key_server *s = arg;
	int c;

	while ((c = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		char text[8192] = "";
		size_t n = 0;
		ssize_t k = 1;

		while (k > 0 && !strstr(text, "\r\n\r\n")) {
			k = read(c, text + n, sizeof(text) - 1 - n);
			n += k > 0 ? (size_t)k : 0;
			text[n] = '\0';
		}
		if (strstr(text, "Credential=new/")) {
			cr_expect_gt(dprintf(c,
					     "HTTP/1.1 200 OK\r\n"
					     "Connection: close\r\n"
					     "ETag: \"1\"\r\n"
					     "Content-Length: 4\r\n\r\ngood"),
				     0);
		} else {
			s->n_refused++;
			write_key(s->file, "new");
			cr_expect_gt(dprintf(c,
					     "HTTP/1.1 403 Forbidden\r\n"
					     "Connection: close\r\n"
					     "Content-Length: 80\r\n\r\n"
					     "<Error><Code>InvalidAccessKeyId"
					     "</Code><Message>not known to me"
					     "</Message></Error>"),
				     0);
		}
		(void)close(c);
	}
	return NULL;
}

Test(s3, keys_that_are_replaced_in_the_file_are_used_without_a_restart)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct object_store_config cfg = OBJECT_STORE_CONFIG_INIT;
	struct key_server s = { .file = "/tmp/s3-keys.XXXXXX" };
	socklen_t len = sizeof(a);
	struct object_store *store = NULL;
	struct error err = ERROR_INIT;
	AUTO_BUF got = BUF_INIT;
	struct object_stat st;
	pthread_t thread;
	char url[96];

	cr_assert_geq(mkstemp(s.file), 0);
	write_key(s.file, "old");
	(void)setenv("AWS_SHARED_CREDENTIALS_FILE", s.file, 1);
	(void)unsetenv("AWS_ACCESS_KEY_ID");
	(void)setenv("no_proxy", "*", 1);
	s.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(s.fd, (struct sockaddr *)&a, len), 0);
	cr_assert_eq(listen(s.fd, 4), 0);
	cr_assert_eq(getsockname(s.fd, (struct sockaddr *)&a, &len), 0);
	cr_assert_eq(pthread_create(&thread, NULL, serve_keys, &s), 0);
	(void)snprintf(url, sizeof(url),
		       "s3://bkt/x?endpoint=http://127.0.0.1:%u",
		       ntohs(a.sin_port));
	cr_assert_eq(object_store_open(url, &cfg, &store, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(object_get(store, "name", 100, &got, &st, &err), 0, "%s",
		     err.msg);
	cr_expect_eq(s.n_refused, 1);
	object_store_free(store);
	(void)shutdown(s.fd, SHUT_RDWR);
	(void)pthread_join(thread, NULL);
	(void)close(s.fd);
	(void)unlink(s.file);
}
