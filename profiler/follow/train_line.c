// SPDX-License-Identifier: Apache-2.0
#include "profiler/follow/train_line.h"

#include <errno.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define PATTERN_MAX 1024
/* steps of matching, some ms; real lines take hundreds */
#define STEPS_MAX 10000
#define DEPTH_MAX 1000
#define HEAP_KIB 1024

struct train_line {
	pcre2_code *code;
	pcre2_match_data *match;
	pcre2_match_context *limits;
};

int train_line_new(const char *pattern, struct train_line **ret,
		   struct error *err)
{
	struct train_line *t = calloc(1, sizeof(*t));
	pcre2_compile_context *c = pcre2_compile_context_create(NULL);
	PCRE2_UCHAR text[128] = "";
	PCRE2_SIZE where = 0;
	int code = 0;

	if (t && c) {
		pcre2_set_max_pattern_length(c, PATTERN_MAX);
		t->code = pcre2_compile((PCRE2_SPTR)pattern,
					PCRE2_ZERO_TERMINATED,
					PCRE2_NEVER_BACKSLASH_C, &code, &where,
					c);
	}
	pcre2_compile_context_free(c);
	if (t && c && !t->code) {
		(void)pcre2_get_error_message(code, text, sizeof(text));
		train_line_free(t);
		return error_set(err, EINVAL,
				 "--train-pattern '%s': %s at character %zu",
				 pattern, (const char *)text, where);
	}
	if (t && t->code) {
		t->match = pcre2_match_data_create(1, NULL);
		t->limits = pcre2_match_context_create(NULL);
	}
	if (!t || !t->match || !t->limits) {
		train_line_free(t);
		return error_nomem(err);
	}
	pcre2_set_match_limit(t->limits, STEPS_MAX);
	pcre2_set_depth_limit(t->limits, DEPTH_MAX);
	pcre2_set_heap_limit(t->limits, HEAP_KIB);
	*ret = t;
	return 0;
}

void train_line_free(struct train_line *t)
{
	if (!t)
		return;
	pcre2_code_free(t->code);
	pcre2_match_data_free(t->match);
	pcre2_match_context_free(t->limits);
	free(t);
}

bool train_line_is(const struct train_line *t, const char *line, size_t len)
{
	return pcre2_match(t->code, (PCRE2_SPTR)line, len, 0, 0, t->match,
			   t->limits) >= 0;
}
