// SPDX-License-Identifier: Apache-2.0
/* Checks the names that an event may contain. */
#include <ctype.h>
#include <string.h>

#include "profiler/stage_event.h"

struct stage_text stage_text(const char *s)
{
	return (struct stage_text){ .s = s, .n = s ? strlen(s) : 0 };
}

static bool is_word(struct stage_text t, const char *also, size_t max)
{
	for (size_t i = 0; i < t.n; i++)
		if (!isalnum((unsigned char)t.s[i]) &&
		    (!t.s[i] || !strchr(also, t.s[i])))
			return false;
	return t.n >= 1 && t.n <= max;
}

bool stage_is_name(struct stage_text t)
{
	return is_word(t, "._-", STAGE_NAME_MAX);
}

bool stage_is_job(struct stage_text t)
{
	return is_word(t, "._-:/@+", STAGE_JOB_MAX);
}

bool stage_is_node(struct stage_text t)
{
	return is_word(t, "._-", STAGE_NODE_MAX);
}

bool stage_is_image(struct stage_text t)
{
	return is_word(t, "._-:/@+", STAGE_IMAGE_MAX);
}
