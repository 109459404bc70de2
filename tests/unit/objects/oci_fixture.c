// SPDX-License-Identifier: Apache-2.0
#include "oci_fixture.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/fs.h"
#include "net/http.h"

static void run_fake(const struct registry_fixture *f, int out)
{
	const char *program = getenv("FAKE_REGISTRY");
	AUTO_BUF lay = BUF_INIT;
	AUTO_BUF log = BUF_INIT;

	if (!program || buf_printf(&lay, "%s/lay", f->dir) < 0 ||
	    buf_printf(&log, "%s/log", f->dir) < 0)
		_exit(1);
	/* It must not outlive a test that crashes. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)dup2(out, STDOUT_FILENO);
	(void)execl(program, program, "--dir", lay.data, "--port-file", "-",
		    "--log", log.data, NULL);
	_exit(1);
}

void fixture_reopen(struct registry_fixture *f)
{
	struct error err = ERROR_INIT;
	struct oci_ref ref;
	char text[64];

	oci_store_free(f->store);
	snprintf(text, sizeof(text), "docker://127.0.0.1:%u/test/image:v1",
		 f->port);
	cr_assert_eq(oci_ref_parse(text, &ref, &err), 0, "%s", err.msg);
	cr_assert_eq(oci_store_open(&ref, &f->cfg, false, &f->store, &err), 0,
		     "%s", err.msg);
	oci_ref_fini(&ref);
}

void fixture_start(struct registry_fixture *f)
{
	const struct http_config http = { .allow_plain = true };
	struct error err = ERROR_INIT;
	int out[2];
	FILE *in;

	*f = (struct registry_fixture){ .cfg = OCI_CONFIG_INIT };
	/* Before the folder is made, which a failed test leaves. */
	cr_assert_not_null(getenv("FAKE_REGISTRY"),
			   "FAKE_REGISTRY names no program: meson sets it");
	/* The machine's proxies and logins are none of the tests' business. */
	(void)setenv("no_proxy", "*", 1);
	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/bootseer-oci.XXXXXX");
	cr_assert_not_null(mkdtemp(f->dir));
	(void)setenv("DOCKER_CONFIG", f->dir, 1);
	(void)setenv("HOME", f->dir, 1);
	(void)unsetenv("XDG_RUNTIME_DIR");
	cr_assert_eq(pipe2(out, O_CLOEXEC), 0);
	f->pid = fork();
	cr_assert(f->pid >= 0);
	if (f->pid == 0)
		run_fake(f, out[1]);
	(void)close(out[1]);
	in = fdopen(out[0], "r");
	cr_assert_eq(fscanf(in, "%u %u", &f->port, &f->control), 2,
		     "the fake registry did not start");
	(void)fclose(in);
	f->cfg.plain_http = true;
	f->cfg.attempts = 4;
	cr_assert_eq(http_new(&http, &f->http, &err), 0);
	fixture_reopen(f);
}

void fixture_stop(struct registry_fixture *f)
{
	struct error err = ERROR_INIT;

	oci_store_free(f->store);
	http_free(f->http);
	(void)kill(f->pid, SIGKILL);
	(void)waitpid(f->pid, NULL, 0);
	cr_expect_eq(fs_remove_tree(f->dir, &err), 0, "%s", err.msg);
}

void fixture_fault(struct registry_fixture *f, const char *query)
{
	struct http_response resp = HTTP_RESPONSE_INIT;
	struct error err = ERROR_INIT;
	char url[256];
	struct http_request req = { .method = "GET", .url = url };

	snprintf(url, sizeof(url), "http://127.0.0.1:%u/set?%s", f->control,
		 query);
	cr_assert_eq(http_do(f->http, &req, &resp, &err), 0, "%s", err.msg);
	cr_assert_eq(resp.status, 200, "no such fault: %s", query);
	http_response_fini(&resp);
}

size_t fixture_count(struct registry_fixture *f, const char *a, const char *b)
{
	struct error err = ERROR_INIT;
	AUTO_BUF path = BUF_INIT;
	AUTO_BUF text = BUF_INIT;
	char *line, *save = NULL;
	size_t n = 0;

	cr_assert_eq(buf_printf(&path, "%s/log", f->dir), 0);
	cr_assert_eq(fs_read_file(path.data, 1u << 20, &text, &err), 0, "%s",
		     err.msg);
	for (line = strtok_r(text.data, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save))
		n += (!a || strstr(line, a)) && (!b || strstr(line, b));
	return n;
}

static char *random_bytes(size_t len, unsigned int seed)
{
	char *p = malloc(len + 1);
	uint32_t x = seed * 2654435761u + 1;

	cr_assert_not_null(p);
	for (size_t i = 0; i < len; i++) {
		x = x * 1664525u + 1013904223u;
		p[i] = (char)(x >> 24);
	}
	return p;
}

char *fixture_blob(struct registry_fixture *f, size_t len, unsigned int seed,
		   struct digest *ret)
{
	struct error err = ERROR_INIT;
	char name[DIGEST_STR_MAX];
	char *data = random_bytes(len, seed);
	AUTO_BUF path = BUF_INIT;

	cr_assert_eq(digest_of(data, len, ret), 0);
	digest_format(ret, name);
	cr_assert_eq(buf_printf(&path, "%s/lay/blobs/sha256/%s", f->dir,
				name + 7),
		     0);
	cr_assert_eq(fs_replace_file(path.data, data, len, 0644, &err), 0, "%s",
		     err.msg);
	return data;
}

int fixture_file(struct registry_fixture *f, const void *data, size_t len)
{
	struct error err = ERROR_INIT;
	AUTO_BUF path = BUF_INIT;
	int fd;

	cr_assert_eq(buf_printf(&path, "%s/file", f->dir), 0);
	cr_assert_eq(fs_replace_file(path.data, data, len, 0600, &err), 0, "%s",
		     err.msg);
	fd = open(path.data, O_RDONLY | O_CLOEXEC);
	cr_assert(fd >= 0);
	return fd;
}

char *fixture_manifest(const struct digest *config,
		       const struct digest *subject, const char *artifact_type)
{
	return fixture_noted(config, subject, artifact_type, NULL);
}

char *fixture_noted(const struct digest *config, const struct digest *subject,
		    const char *artifact_type, const char *note)
{
	char c[DIGEST_STR_MAX], s[DIGEST_STR_MAX];
	AUTO_BUF b = BUF_INIT;

	digest_format(config, c);
	cr_assert_eq(buf_printf(&b,
				"{\"schemaVersion\":2,\"mediaType\":\"%s\","
				"\"config\":{\"mediaType\":\"application/"
				"vnd.oci.image.config.v1+json\",\"digest\":"
				"\"%s\",\"size\":2},\"layers\":[]",
				IMAGE_TYPE, c),
		     0);
	if (artifact_type)
		cr_assert_eq(buf_printf(&b, ",\"artifactType\":\"%s\"",
					artifact_type),
			     0);
	if (subject) {
		digest_format(subject, s);
		cr_assert_eq(buf_printf(&b,
					",\"subject\":{\"mediaType\":\"%s\","
					"\"digest\":\"%s\",\"size\":9}",
					IMAGE_TYPE, s),
			     0);
	}
	if (note)
		cr_assert_eq(buf_printf(&b, ",\"annotations\":{\"n\":\"%s\"}",
					note),
			     0);
	cr_assert_eq(buf_puts(&b, "}"), 0);
	return buf_steal(&b);
}
