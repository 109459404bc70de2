// SPDX-License-Identifier: Apache-2.0
/* Reads lines of the kernel's log in which NVIDIA's driver reports an error (XID). */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "profiler/ops/precursors.h"

#define SAID " kernel: "
#define XID "NVRM: Xid ("
#define CODE_MAX 100000u

/* Read a time such as "2025-10-20T12:00:00+0900", with or without a fraction of a second. */
static bool read_time(const char *text, double *ret)
{
	struct tm tm = { .tm_year = 0 };
	long offset_s;
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);

	if (rest && (*rest == '.' || *rest == ','))
		rest += 1 + strspn(rest + 1, "0123456789");
	rest = rest ? strptime(rest, "%z", &tm) : NULL;
	if (!rest || *rest != ' ')
		return false;
	offset_s = tm.tm_gmtoff; /* saved, because timegm() resets it */
	*ret = (double)(timegm(&tm) - offset_s);
	return true;
}

/* Read the code 79 of "(PCI:0000:4b:00): 79, ..." */
static bool read_code(const char *text, uint32_t *ret)
{
	const char *code = strstr(text, "): ");
	char *end;
	unsigned long v;

	if (!code || !isdigit((unsigned char)code[3]))
		return false;
	v = strtoul(code + 3, &end, 10);
	*ret = (uint32_t)v;
	return v > 0 && v <= CODE_MAX && (*end == ',' || !*end);
}

static int refuse_xid(struct error *err)
{
	return error_set(err, EINVAL,
			 "an XID without its time, node or number: wanted is "
			 "what journalctl --dmesg --output short-iso prints");
}

int ops_read_kernel_line(const char *line, struct ops_kernel_error *ret,
			 struct error *err)
{
	const char *said = strstr(line, SAID), *host = strchr(line, ' ');
	const char *text = said ? said + strlen(SAID) : NULL;

	if (!text)
		return 0;
	/* Skip the kernel's own time stamp in brackets. */
	if (*text == '[' && strchr(text, ']'))
		text = strchr(text, ']') + 1 + (strchr(text, ']')[1] == ' ');
	/* The message must begin with the XID: other messages may contain the text, and this one
	 * names a program behind its code. */
	if (strncmp(text, XID, strlen(XID)) != 0)
		return 0;
	if (host >= said || !read_time(line, &ret->at_s))
		return refuse_xid(err);
	/* The line is written by another program, not the kernel, and may say anything: ignore
	 * it. */
	if (memchr(host + 1, ' ', (size_t)(said - host - 1)))
		return 0;
	if (!read_code(text, &ret->xid) ||
	    (size_t)(said - host - 1) >= sizeof(ret->node))
		return refuse_xid(err);
	memcpy(ret->node, host + 1, (size_t)(said - host - 1));
	ret->node[said - host - 1] = '\0';
	return 1;
}

bool ops_is_kernel_line(const char *line)
{
	return strstr(line, SAID) != NULL;
}
