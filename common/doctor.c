// SPDX-License-Identifier: Apache-2.0
#include "common/doctor.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/text.h"

void doctor_add(json_t *list, const char *name, bool ok, enum doctor_need need,
		const char *cure, const char *fmt, ...)
{
	char text[ERROR_MSG_MAX];
	json_t *detail;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* The text may hold file names that strangers chose. */
	text_make_printable(text);
	detail = json_string(text);
	if (!detail)
		detail = json_string("(not UTF-8)");
	(void)json_array_append_new(list,
				    json_pack("{s:s, s:b, s:b, s:o, s:s}",
					      "name", name, "ok", (int)ok,
					      "needed", need == DOCTOR_NEEDED,
					      "detail", detail, "cure",
					      ok ? "" : cure));
}
