// SPDX-License-Identifier: Apache-2.0
/* Every hosts.toml of a node, looked at for a person: is it read, and do its hosts answer? */
#include <dirent.h>
#include <string.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/side_by_side.h"
#include "net/http.h"
#include "objects/oci.h"
#include "objects/oci_hosts.h"
#include "objects/oci_mirrors.h"

#define FILES_MAX 16u
#define REACH_MS 1200u
#define ANSWER_NS (3 * NS_PER_S)

/* The hosts of one file, asked at once. */
struct hosts_probe {
	const struct oci_config *cfg;
	const struct oci_mirrors *said;
	int rc[OCI_MIRRORS_MAX + 1];
	struct error why[OCI_MIRRORS_MAX + 1];
};

/* Any answer is one: a login is not tried.  The registry itself is no host of the file
 * where that does not name it. */
static int probe_mirror_host(void *arg, unsigned int i, struct error *err)
{
	struct hosts_probe *p = arg;
	const struct oci_mirror *m = &p->said->list[i];
	AUTO_BUF url = BUF_INIT;
	struct http_response resp = HTTP_RESPONSE_INIT;
	struct http_config cfg = { .ca_file = p->cfg->ca_file };
	struct http_request req = {
		.method = "GET",
		.headers = (const char *const *)m->headers,
		.reach_ms = REACH_MS,
		.deadline_ns = clock_now_ns() + ANSWER_NS,
	};
	AUTO(http) http = NULL;
	int rc;

	(void)err;
	if (!m->origin || buf_printf(&url, "%s%s/", m->origin, m->path) < 0)
		return 0;
	req.url = url.data;
	oci_mirror_access(m, &cfg);
	rc = http_new(&cfg, &http, &p->why[i]);
	if (rc == 0)
		rc = http_do(http, &req, &resp, &p->why[i]);
	p->rc[i] = rc < 0 ? error_wrap(&p->why[i], rc, "%s", m->origin) : 0;
	http_response_fini(&resp);
	return 0;
}

static void probe_hosts(const struct oci_config *cfg, const char *path,
			const struct oci_mirrors *said,
			oci_hosts_report_fn *report, void *arg)
{
	AUTO_FREE struct hosts_probe *p = calloc(1, sizeof(*p));
	struct error ignored = ERROR_INIT;

	if (!p)
		return;
	*p = (struct hosts_probe){ .cfg = cfg, .said = said };
	(void)!side_by_side((unsigned int)said->n, probe_mirror_host, p,
			    &ignored);
	for (size_t i = 0; i < said->n; i++)
		if (p->rc[i] < 0)
			report(arg, OCI_HOSTS_UNREACHED, path, p->why[i].msg);
}

static void check_hosts_folder(const struct oci_config *cfg, const char *base,
			       const char *folder, oci_hosts_report_fn *report,
			       void *arg)
{
	AUTO_FREE char *dir = fs_join(base, folder);
	AUTO_FREE char *path = dir ? fs_join(dir, "hosts.toml") : NULL;
	struct oci_mirrors said = { .n = 0 };
	struct error why = ERROR_INIT;
	int rc = path ? oci_mirrors_read(dir, &said, &why) : error_nomem(&why);

	if (rc < 0)
		report(arg, OCI_HOSTS_UNREAD, path ? path : base, why.msg);
	else if (said.n && *said.ignored)
		report(arg, OCI_HOSTS_IGNORED, path, said.ignored);
	if (rc == 0 && said.n)
		probe_hosts(cfg, path, &said, report, arg);
	oci_mirrors_fini(&said);
}

void oci_hosts_examine(const struct oci_config *cfg,
		       oci_hosts_report_fn *report, void *arg)
{
	const char *dirs = cfg->hosts_dirs;
	unsigned int n = 0;

	for (; dirs && *dirs; dirs += *dirs == ':') {
		size_t len = strcspn(dirs, ":");
		AUTO_FREE char *base = strndup(dirs, len);
		DIR *d = base && len ? opendir(base) : NULL;
		const struct dirent *e;

		dirs += len;
		while (d && n < FILES_MAX && (e = readdir(d)))
			if (e->d_name[0] != '.') {
				check_hosts_folder(cfg, base, e->d_name, report,
						   arg);
				n++;
			}
		if (d)
			(void)closedir(d);
	}
}
