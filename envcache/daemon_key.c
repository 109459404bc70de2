// SPDX-License-Identifier: Apache-2.0
/*
 * The key of a process snapshot.  It includes kernel, processor and criu, so that a node with
 * other versions does not find dumps that it could not restore.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/fs.h"
#include "envcache/key.h"

#define CPUINFO_MAX (16u << 20) /* about 2 KiB for each processor */
#define ITEMS 8

/* The kernel's line with the features of the first processor: a process reads them at its start
 * and depends on them ever after. */
static const char *processor_line(char *text)
{
	static const char *const names[] = { "\nflags", "\nFeatures" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char *at = strstr(text, names[i]);

		if (at) {
			at++;
			at[strcspn(at, "\n")] = '\0';
			return at;
		}
	}
	return NULL;
}

static int add_processor(struct env_key *k, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	char shown[DIGEST_STR_MAX];
	struct digest d;
	const char *line;
	int rc = fs_read_file("/proc/cpuinfo", CPUINFO_MAX, &text, err);

	if (rc < 0)
		return rc;
	line = text.len ? processor_line(text.data) : NULL;
	if (!line)
		return error_set(err, ENOTSUP,
				 "/proc/cpuinfo does not say what the "
				 "processor can do");
	if (digest_of(line, strlen(line), &d) < 0)
		return error_nomem(err);
	digest_format(&d, shown);
	return env_key_add_text(k, "processor", "", shown, err);
}

static int add_digest_text(struct env_key *k, const char *kind,
			   const struct digest *d, struct error *err)
{
	char text[DIGEST_STR_MAX];

	digest_format(d, text);
	return env_key_add_text(k, kind, "", text, err);
}

static int add_daemon_items(struct env_key *k,
			    const struct env_daemon_spec *spec,
			    const struct env_targets *t, struct error *err)
{
	struct utsname u;
	int rc;

	if (uname(&u) < 0)
		return error_errno(err, errno, "uname");
	rc = env_key_add_text(k, "daemon", spec->name, spec->command, err);
	if (rc == 0)
		rc = env_key_add_text(k, "target", t->paths[0], "", err);
	if (rc == 0)
		rc = add_digest_text(k, "environment", spec->environment, err);
	if (rc == 0)
		rc = add_digest_text(k, "snapshot", spec->snapshot, err);
	if (rc == 0)
		rc = env_key_add_text(k, "criu", "", spec->criu, err);
	if (rc == 0)
		rc = env_key_add_text(k, "kernel", "", u.release, err);
	if (rc == 0)
		rc = add_processor(k, err);
	return rc < 0 ? rc : env_key_finish(k, err);
}

int env_daemon_key_make(const struct env_daemon_spec *spec,
			const struct env_targets *t, struct env_key *ret,
			struct error *err)
{
	struct env_key k = { .items = calloc(ITEMS, sizeof(*k.items)) };
	int rc =
		k.items ? add_daemon_items(&k, spec, t, err) : error_nomem(err);

	if (rc < 0)
		env_key_fini(&k);
	else
		*ret = k;
	return rc;
}
