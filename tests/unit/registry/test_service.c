// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "registry/service.h"
#include "tests/unit/p2p/certs.h"

TestSuite(service, .timeout = 60);

#define SUM "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define GOOD "n sha256:" SUM " read\n"
#define BAD "n sha256;" SUM " read\n"

static char dir[] = "/tmp/registry_service.XXXXXX";
static char tokens[64], cert[64], key[64];
static struct registry_config cfg = { .tokens = tokens,
				      .tls_cert = cert,
				      .tls_key = key };
static struct service s = { .cfg = &cfg };
static struct ca *ca;

static void write_tokens(const char *text)
{
	FILE *f = fopen(tokens, "we");

	cr_assert_not_null(f);
	cr_assert_geq(fputs(text, f), 0);
	cr_assert_eq(fclose(f), 0);
	cr_assert_eq(chmod(tokens, 0600), 0);
}

static void begin(void)
{
	struct error err = ERROR_INIT;

	cr_assert_not_null(mkdtemp(dir));
	(void)snprintf(tokens, sizeof(tokens), "%s/tokens", dir);
	(void)snprintf(cert, sizeof(cert), "%s/here.pem", dir);
	(void)snprintf(key, sizeof(key), "%s/here.key", dir);
	ca = ca_new(dir, "ca");
	ca_issue(ca, "here", "DNS:here", 3600);
	write_tokens(GOOD);
	cr_assert_eq(httpd_tls_new(cert, key, NULL, &s.tls, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(issuer_new(&cfg, &s.issuer, &err), 0, "%s", err.msg);
	service_reload(&s);
	cr_assert_eq(s.tokens->tokens.n, 1);
}

static void end(void)
{
	struct error err = ERROR_INIT;

	ca_free(ca);
	httpd_tls_free(s.tls);
	issuer_free(s.issuer);
	token_set_unref(s.tokens);
	cr_expect_eq(fs_remove_tree(dir, &err), 0, "%s", err.msg);
}

Test(service, a_file_that_is_wrong_keeps_no_other_from_being_renewed,
     .init = begin, .fini = end)
{
	int64_t ends = httpd_tls_not_after(s.tls);

	write_tokens(BAD);
	ca_issue(ca, "here", "DNS:here", 7200);
	service_reload(&s);
	cr_expect_gt(httpd_tls_not_after(s.tls), ends);
	cr_expect_eq(s.tokens->tokens.n, 1, "the old tokens stay");
}

Test(service, a_reload_that_failed_is_tried_again_until_it_succeeds,
     .init = begin, .fini = end)
{
	struct timespec times[2];
	struct stat st;

	write_tokens(BAD);
	cr_assert_eq(stat(tokens, &st), 0);
	service_reload_changed(&s); /* the file may be half written */
	service_reload_changed(&s);
	cr_assert_neq(s.reload_failed, 0);
	/* Repair the file without a change that stat(2) shows. */
	write_tokens("#" GOOD);
	cr_assert_eq(truncate(tokens, st.st_size), 0);
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	cr_assert_eq(utimensat(AT_FDCWD, tokens, times, 0), 0);
	service_reload_changed(&s);
	cr_expect_eq(s.reload_failed, 0);
	cr_expect_eq(s.tokens->tokens.n, 0);
	cr_expect_eq(atomic_load(&s.counts.reloads), 3);
}
