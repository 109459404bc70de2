// SPDX-License-Identifier: Apache-2.0
/* Keys of workloads: docs/formats/trace.md, "Workload key". */
#include <string.h>

#include "common/digest.h"
#include "recorder/recorder.h"

#define NAME_MAX_LEN 64

/* Take the program's name, and replace characters that a key must not have. */
static void make_program_name(const char *word, char out[NAME_MAX_LEN + 1])
{
	const char *slash = strrchr(word, '/');
	const char *p = slash ? slash + 1 : word;
	size_t n = 0;

	for (; *p && n < NAME_MAX_LEN; p++) {
		bool plain = (*p >= 'a' && *p <= 'z') ||
			     (*p >= 'A' && *p <= 'Z') ||
			     (*p >= '0' && *p <= '9') || strchr("._+-", *p);

		out[n++] = plain ? *p : '_';
	}
	out[n] = '\0';
}

char *trace_workload_key(const char *const *argv, size_t n)
{
	AUTO(hasher) h = hasher_new();
	char name[NAME_MAX_LEN + 1] = "";
	struct digest d;
	char *key;

	if (!h)
		return NULL;
	/* Hash each word with its NUL, so that different lists give different texts. */
	for (size_t i = 0; i < n; i++)
		if (hasher_update(h, argv[i], strlen(argv[i]) + 1) < 0)
			return NULL;
	if (hasher_final(h, &d) < 0)
		return NULL;
	if (n)
		make_program_name(argv[0], name);
	if (asprintf(&key, "%s-%02x%02x%02x%02x%02x%02x",
		     *name ? name : "default", d.b[0], d.b[1], d.b[2], d.b[3],
		     d.b[4], d.b[5]) < 0)
		return NULL;
	return key;
}
