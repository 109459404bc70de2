// SPDX-License-Identifier: Apache-2.0
/* Parses the values of --wait. */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/option.h"
#include "prefetcher/prefetcher.h"

#define SHARE "share:"
#define DEADLINE "deadline:"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Parse "90%" or "99.5%", above 0 and at most 100. */
static bool parse_share(const char *s, unsigned int *ret_permille)
{
	unsigned int n = 0, digits = 0;

	for (; is_digit(*s) && digits < 3; s++, digits++)
		n = n * 10 + (unsigned int)(*s - '0');
	n *= 10;
	if (digits && s[0] == '.' && is_digit(s[1])) {
		n += (unsigned int)(s[1] - '0');
		s += 2;
	}
	if (!digits || strcmp(s, "%") != 0 || n == 0 || n > 1000)
		return false;
	*ret_permille = n;
	return true;
}

static bool parse_policy(const char *text, struct wait_policy *p)
{
	if (strcmp(text, "none") == 0) {
		p->kind = WAIT_NONE;
	} else if (strcmp(text, "all") == 0) {
		p->kind = WAIT_ALL;
	} else if (strncmp(text, SHARE, strlen(SHARE)) == 0) {
		p->kind = WAIT_SHARE;
		return parse_share(text + strlen(SHARE), &p->permille);
	} else if (strncmp(text, DEADLINE, strlen(DEADLINE)) == 0) {
		p->kind = WAIT_DEADLINE;
		return option_parse_duration(text + strlen(DEADLINE), &p->ns,
					     NULL) == 0 &&
		       p->ns > 0;
	} else {
		return false;
	}
	return true;
}

int wait_policy_parse(const char *text, struct wait_policy *ret,
		      struct error *err)
{
	struct wait_policy p = { .kind = WAIT_NONE };

	if (!parse_policy(text, &p))
		return error_set(err, EINVAL,
				 "'%.64s' is no wait policy: all, none, "
				 "share:90%% or deadline:5s wanted",
				 text);
	*ret = p;
	return 0;
}
