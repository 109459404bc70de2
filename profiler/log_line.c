// SPDX-License-Identifier: Apache-2.0
#include "profiler/log_line.h"

#include <ctype.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"

#define NS_DIGITS 9
#define DATE_LEN 19  /* "2026-01-02T03:04:05" */
#define SHORT_LEN 15 /* "Jan  2 03:04:05" */
#define GLOG_LEN 13  /* "W102 03:04:05" */
#define ESC '\033'

/* --------------------------------------------------------------------- colours --- */

/* Length of an escape byte at `p`, raw or written as in JSON; 0: there is none. */
static size_t escape_length(const char *p, const char *end)
{
	static const char *const forms[] = { "\\u001b", "\\u001B", "\\x1b",
					     "\\x1B", "\\033" };

	if (*p == ESC)
		return 1;
	for (size_t i = 0; *p == '\\' && i < ARRAY_SIZE(forms); i++) {
		size_t n = strlen(forms[i]);

		if ((size_t)(end - p) >= n && memcmp(p, forms[i], n) == 0)
			return n;
	}
	return 0;
}

/* Length of a colour sequence (ESC [ parameters letter) at `p`; 0: there is none. */
static size_t colour_length(const char *p, const char *end)
{
	const char *at = p + escape_length(p, end);

	if (at == p || at == end || *at != '[')
		return 0;
	for (at++; at < end && *at >= 0x20 && *at < 0x40; at++)
		;
	return at < end && *at >= 0x40 && *at < 0x7f ? (size_t)(at + 1 - p) : 0;
}

static const char *find_colour(const char *p, const char *end)
{
	while (p < end && !colour_length(p, end))
		p++;
	return p < end ? p : NULL;
}

/* Remove colour sequences in place; returns the new length. */
static size_t drop_colours(char *s, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len;) {
		size_t colour = colour_length(s + i, s + len);

		if (!colour)
			s[n++] = s[i++];
		i += colour;
	}
	return n;
}

/* ----------------------------------------------------------------------- times --- */

static bool read_digits(const char *s, size_t n, int *ret)
{
	*ret = 0;
	for (size_t i = 0; i < n; i++) {
		if (!isdigit((unsigned char)s[i]) && !(i == 0 && s[i] == ' '))
			return false;
		*ret = *ret * 10 + (s[i] == ' ' ? 0 : s[i] - '0');
	}
	return true;
}

/* Read a fraction of a second, ".123456789" or ",123", as nanoseconds; `*p` then points behind
 * it. */
static int64_t read_fraction(const char **p, const char *end)
{
	int64_t ns = 0;
	int n = 0;

	if (end - *p < 2 || (**p != '.' && **p != ',') ||
	    !isdigit((unsigned char)(*p)[1]))
		return 0;
	for ((*p)++; *p < end && isdigit((unsigned char)**p); (*p)++)
		if (n++ < NS_DIGITS)
			ns = ns * 10 + (**p - '0');
	for (; n < NS_DIGITS; n++)
		ns *= 10;
	return ns;
}

/* Read a time zone, "Z", "+02:00" or "+0200", in seconds; false: none is given, the time is
 * local. */
static bool read_zone(const char *p, const char *end, int *ret)
{
	int h, m, colon;

	*ret = 0;
	if (p < end && *p == 'Z')
		return true;
	if (end - p < 5 || (*p != '+' && *p != '-'))
		return false;
	colon = p[3] == ':';
	if (end - p < 5 + colon || !read_digits(p + 1, 2, &h) ||
	    !read_digits(p + 3 + colon, 2, &m))
		return false;
	*ret = (h * 60 + m) * (*p == '-' ? -60 : 60);
	return true;
}

static int64_t convert_tm_to_ns(struct tm *tm, bool is_local, int zone,
				int64_t ns)
{
	int64_t s;

	tm->tm_isdst = -1;
	s = is_local ? (int64_t)mktime(tm) : (int64_t)timegm(tm) - zone;
	if (s < 0 || s > STAGE_TS_MAX / NS_PER_S - 1)
		return STAGE_NONE;
	return s * NS_PER_S + ns;
}

static bool is_clock(const char *p, struct tm *tm)
{
	return p[2] == ':' && p[5] == ':' && read_digits(p, 2, &tm->tm_hour) &&
	       read_digits(p + 3, 2, &tm->tm_min) &&
	       read_digits(p + 6, 2, &tm->tm_sec);
}

/* Read a date as in RFC 3339, ISO 8601 or Python's logging: "2026-01-02 03:04:05,678". */
static int64_t read_date(const char *s, const char *end)
{
	const char *p = s + DATE_LEN;
	struct tm tm = { .tm_sec = 0 };
	bool is_local;
	int64_t ns;
	int zone;

	if (end - s < DATE_LEN || s[4] != '-' || s[7] != '-' ||
	    (s[10] != 'T' && s[10] != ' ') || !read_digits(s, 4, &tm.tm_year) ||
	    !read_digits(s + 5, 2, &tm.tm_mon) ||
	    !read_digits(s + 8, 2, &tm.tm_mday) || !is_clock(s + 11, &tm) ||
	    tm.tm_year < 1970 || tm.tm_year > 2200)
		return STAGE_NONE;
	ns = read_fraction(&p, end);
	is_local = !read_zone(p, end, &zone);
	tm.tm_year -= 1900;
	tm.tm_mon--;
	return convert_tm_to_ns(&tm, is_local, zone, ns);
}

/* Complete a local date that has no year: this year, or last year if it would be in the future. */
static int64_t complete_past_date(struct tm *tm, int64_t ns)
{
	int64_t now = time(NULL), at;
	time_t now_s = now;
	struct tm today, last;

	if (!localtime_r(&now_s, &today))
		return STAGE_NONE;
	tm->tm_year = today.tm_year;
	last = *tm;
	at = convert_tm_to_ns(tm, true, 0, ns);
	if (at / NS_PER_S <= now + 86400)
		return at;
	last.tm_year--;
	return convert_tm_to_ns(&last, true, 0, ns);
}

/* Read journald's short form, "Jan 2 03:04:05". */
static int64_t read_short(const char *s, const char *end)
{
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	struct tm tm = { .tm_sec = 0 };
	const char *month;
	char name[4];

	if (end - s < SHORT_LEN || s[3] != ' ' || s[6] != ' ')
		return STAGE_NONE;
	memcpy(name, s, 3);
	name[3] = '\0';
	month = strstr(months, name);
	if (!month || (month - months) % 3 ||
	    !read_digits(s + 4, 2, &tm.tm_mday) || !is_clock(s + 7, &tm))
		return STAGE_NONE;
	tm.tm_mon = (int)(month - months) / 3;
	return complete_past_date(&tm, 0);
}

/* Read glog's "I0102 03:04:05.123456", or with a year "I20260102 03:04:05.123456"; c10d writes
 * "W102". Local time. */
static int64_t read_glog(const char *s, const char *end)
{
	struct tm tm = { .tm_sec = 0 };
	const char *p = s + 1;
	size_t n = 0;

	while (p + n < end && isdigit((unsigned char)p[n]))
		n++;
	if (!strchr("CDEFIVW", *s) || (n != 3 && n != 4 && n != 8) ||
	    (size_t)(end - p) < n + 9 || p[n] != ' ' ||
	    !read_digits(n == 3 ? p : p + n - 4, n == 3 ? 1 : 2, &tm.tm_mon) ||
	    !read_digits(p + n - 2, 2, &tm.tm_mday) ||
	    !is_clock(p + n + 1, &tm) ||
	    (n == 8 && !read_digits(p, 4, &tm.tm_year)))
		return STAGE_NONE;
	p += n + 9;
	tm.tm_mon--;
	tm.tm_year -= 1900;
	return n == 8 ? convert_tm_to_ns(&tm, true, 0, read_fraction(&p, end))
		      : complete_past_date(&tm, read_fraction(&p, end));
}

/* Find the first date between `p` and `end` that does not directly follow a letter or digit. */
static int64_t find_date(const char *p, const char *end)
{
	const char *from = p;

	for (; end - p >= GLOG_LEN; p++) {
		int64_t at = STAGE_NONE;

		if (isdigit((unsigned char)*p) &&
		    (p == from || !isdigit((unsigned char)p[-1])))
			at = read_date(p, end);
		else if (isupper((unsigned char)*p) &&
			 (p == from || !isalnum((unsigned char)p[-1])))
			at = read_glog(p, end);
		if (at != STAGE_NONE)
			return at;
	}
	return STAGE_NONE;
}

/* ------------------------------------------------------------------------ JSON --- */

/* Find the value of a JSON member in the line; returns its begin. The name has no characters to
 * escape. A match within a text is skipped: its quotes are escaped. */
static const char *find_member(const char *line, size_t len, const char *name)
{
	const char *p = line, *end = line + len;
	size_t n = strlen(name);

	while (p < end && (p = memmem(p, (size_t)(end - p), name, n))) {
		const char *at = p + n;

		if (p > line && p[-1] == '"' &&
		    (p - 1 == line || p[-2] != '\\') && at < end &&
		    *at == '"') {
			for (at++; at < end && (*at == ' ' || *at == ':'); at++)
				;
			return at < end ? at : NULL;
		}
		p = at;
	}
	return NULL;
}

/* Read a time since 1970 in s, ms, us or ns; its size tells the unit. Seconds may have a
 * fraction. */
static int64_t read_epoch(const char *p, const char *end)
{
	int64_t n = 0, unit = NS_PER_S, ns;

	for (; p < end && isdigit((unsigned char)*p); p++)
		if (__builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, *p - '0', &n))
			return STAGE_NONE;
	if (n < 100000000)
		return STAGE_NONE;
	for (int64_t most = INT64_C(100000000000); unit > 1 && n >= most;
	     most *= 1000)
		unit /= 1000;
	ns = unit == NS_PER_S ? read_fraction(&p, end) : 0;
	return n <= (STAGE_TS_MAX - ns) / unit ? n * unit + ns : STAGE_NONE;
}

static int64_t json_time(const char *line, size_t len)
{
	/* Names of the time stamp in JSON of journald, Docker and common loggers. */
	static const char *const names[] = { "__REALTIME_TIMESTAMP",
					     "time",
					     "timestamp",
					     "@timestamp",
					     "asctime",
					     "ts",
					     "datetime",
					     "date" };
	const char *end = line + len;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *p = find_member(line, len, names[i]);
		const char *to;
		int64_t at;

		if (!p)
			continue;
		p += *p == '"';
		for (to = p; to < end && *to != '"' && *to != '}'; to++)
			;
		at = read_date(p, to);
		if (at == STAGE_NONE)
			at = read_epoch(p, to);
		if (at != STAGE_NONE)
			return at;
	}
	return STAGE_NONE;
}

static bool is_json(const char *line, size_t len)
{
	return len > 1 && line[0] == '{';
}

int64_t log_line_time(const char *line, size_t len, size_t head)
{
	int64_t at = is_json(line, len) ? json_time(line, len) : STAGE_NONE;

	if (at == STAGE_NONE)
		at = find_date(line, line + head);
	return at == STAGE_NONE ? read_short(line, line + head) : at;
}

/* Read a number from 0 to 255; `*p` then points to the comma or bracket behind it. */
static bool read_byte(const char **p, const char *end, char *ret)
{
	unsigned int n = 0;
	const char *from;

	for (; *p < end && **p == ' '; (*p)++)
		;
	for (from = *p;
	     *p < end && *p - from < 3 && isdigit((unsigned char)**p); (*p)++)
		n = n * 10 + (unsigned int)(**p - '0');
	*ret = (char)n;
	return *p > from && *p < end && n < 256 && (**p == ',' || **p == ']');
}

/* journald writes a message with control characters as a list of its bytes: copy the line to `ret`
 * with the message as a text. 1: done; 0: there is no such list; -ENOMEM. */
static int put_listed(const char *line, size_t len, struct buf *ret)
{
	const char *end = line + len, *list, *p;
	int rc;

	buf_reset(ret);
	list = is_json(line, len) ? find_member(line, len, "MESSAGE") : NULL;
	if (!list || *list != '[')
		return 0;
	rc = buf_append(ret, line, (size_t)(list - line));
	if (rc == 0)
		rc = buf_puts(ret, "\"");
	for (p = list; rc == 0 && *p != ']';) {
		char c;

		p++;
		if (!read_byte(&p, end, &c))
			return 0;
		if (c == '"' || c == '\\')
			rc = buf_puts(ret, "\\");
		if (rc == 0)
			rc = buf_append(ret, &c, 1);
	}
	if (rc == 0)
		rc = buf_puts(ret, "\"");
	if (rc == 0)
		rc = buf_append(ret, p + 1, (size_t)(end - p - 1));
	return rc < 0 ? rc : 1;
}

const char *stage_line_plain(const char *line, size_t *len, struct buf *room)
{
	int listed = put_listed(line, *len, room);

	if (listed < 0)
		return NULL;
	if (listed) {
		line = room->data;
		*len = room->len;
	}
	if (!memmem(line, *len, STAGE_MARKER, strlen(STAGE_MARKER)) ||
	    !find_colour(line, line + *len))
		return line;
	if (!listed) {
		buf_reset(room);
		if (buf_append(room, line, *len) < 0)
			return NULL;
	}
	room->len = drop_colours(room->data, room->len);
	*len = room->len;
	return room->data;
}

/* ---------------------------------------------------------------------- source --- */

static struct stage_text word_until(const char *p, const char *end,
				    const char *stop)
{
	struct stage_text t = { .s = p };

	while (p + t.n < end && !strchr(stop, p[t.n]))
		t.n++;
	return t;
}

static struct stage_text node_or_none(struct stage_text t)
{
	return stage_is_node(t) ? t : (struct stage_text){ .s = NULL };
}

/* The host in "TIME HOST PROGRAM[PID]: "; empty if the line has no such prefix. */
static struct stage_text journal_host(const char *p, const char *end)
{
	struct stage_text host = word_until(p, end, " "), program;

	p += host.n + 1;
	if (p >= end)
		return (struct stage_text){ .s = NULL };
	program = word_until(p, end, " ");
	if (program.n < 2 || program.s[program.n - 1] != ':')
		return (struct stage_text){ .s = NULL };
	return node_or_none(host);
}

/* The address in "(train pid=123, ip=10.0.0.7) ", written by a Ray worker on another node than the
 * driver's. */
static struct stage_text ray_node(const char *line, const char *end)
{
	const char *open = memchr(line, '(', (size_t)(end - line)), *pid, *ip;

	end = open ? memchr(open, ')', (size_t)(end - open)) : NULL;
	pid = end ? memmem(open, (size_t)(end - open), "pid=", 4) : NULL;
	ip = pid ? memmem(pid, (size_t)(end - pid), ", ip=", 5) : NULL;
	return ip ? node_or_none(word_until(ip + 5, end, ", "))
		  : (struct stage_text){ .s = NULL };
}

/* The name before "gpu7: " (pdsh, clush) or "train-1 | " (Docker compose) at the begin of a line.
 * It has a digit and no capital: "INFO: " is no name, nor are the ranks "3: " and "rank3: ". */
static struct stage_text label_node(const char *line, const char *end)
{
	struct stage_text t = word_until(line, end, " :");
	bool has_digit = false, has_letter = false, is_rank;
	const char *p = line + t.n;

	for (size_t i = 0; i < t.n; i++) {
		has_digit = has_digit || isdigit((unsigned char)line[i]);
		has_letter = has_letter || islower((unsigned char)line[i]);
		if (isupper((unsigned char)line[i]))
			return (struct stage_text){ .s = NULL };
	}
	is_rank = t.n > 4 && memcmp(line, "rank", 4) == 0;
	while (p < end && *p == ' ')
		p++;
	return has_digit && has_letter && !is_rank && end - p >= 2 &&
			       *p == (p == line + t.n ? ':' : '|') &&
			       p[1] == ' '
		       ? node_or_none(t)
		       : (struct stage_text){ .s = NULL };
}

struct stage_text log_line_source(const char *line, size_t len, size_t head)
{
	static const char pod[] = "[pod/";
	const char *end = line + head, *space;
	struct stage_text t = { .s = NULL };

	if (is_json(line, len)) {
		const char *host = find_member(line, len, "_HOSTNAME");

		return host && *host == '"'
			       ? node_or_none(
					 word_until(host + 1, line + len, "\""))
			       : (struct stage_text){ .s = NULL };
	}
	if (head > sizeof(pod) && memcmp(line, pod, sizeof(pod) - 1) == 0)
		return node_or_none(
			word_until(line + sizeof(pod) - 1, end, "/] "));
	if (read_short(line, end) != STAGE_NONE)
		t = journal_host(line + SHORT_LEN + 1, end);
	space = memchr(line, ' ', head);
	if (space && line + DATE_LEN < space && line[10] == 'T' &&
	    read_date(line, space) != STAGE_NONE)
		t = journal_host(space + 1, end);
	if (!t.n)
		t = ray_node(line, end);
	return t.n ? t : label_node(line, end);
}

/* Read the number at `*at`, and move `*at` behind it; STAGE_NONE: no number, or too long. */
static int64_t read_label_number(const char **at, const char *end)
{
	const char *p = *at;
	int64_t n = 0;

	while (p < end && isdigit((unsigned char)*p) && p - *at < 9)
		n = n * 10 + (*p++ - '0');
	if (p == *at)
		return STAGE_NONE;
	*at = p;
	return n;
}

/* The rank in "[rank3]:" or "[default3]:", as torchrun and c10d write it. */
static int64_t bracket_rank(const char *p, const char *end)
{
	int64_t n;

	if (p == end || *p != '[' || ++p == end || !isalpha((unsigned char)*p))
		return STAGE_NONE;
	while (p < end && (isalpha((unsigned char)*p) || *p == '_'))
		p++;
	n = read_label_number(&p, end);
	return end - p >= 2 && memcmp(p, "]:", 2) == 0 ? n : STAGE_NONE;
}

/* The task number at the begin of a line: "3: " by `srun --label`, "[1,3]<stdout>:" by mpirun. */
static int64_t label_rank(const char *line, const char *end)
{
	const char *p = line;
	bool is_mpi = p < end && *p == '[';
	int64_t n;

	while (p < end && *p == ' ')
		p++;
	p += is_mpi;
	n = read_label_number(&p, end);
	if (is_mpi && n != STAGE_NONE && p < end && *p == ',') {
		p++;
		n = read_label_number(&p, end);
		return end - p >= 5 && memcmp(p, "]<std", 5) == 0 ? n
								  : STAGE_NONE;
	}
	return !is_mpi && end - p >= 2 && memcmp(p, ": ", 2) == 0 ? n
								  : STAGE_NONE;
}

int64_t log_line_rank(const char *line, size_t head)
{
	const char *end = line + head;
	int64_t rank = STAGE_NONE;

	/* Take the last one: `torchrun --tee` puts the local rank before the global rank,
	 * "[default3]:[rank11]:". */
	for (const char *p = line; p < end; p++) {
		int64_t n = bracket_rank(p, end);

		rank = n != STAGE_NONE ? n : rank;
	}
	return rank == STAGE_NONE ? label_rank(line, end) : rank;
}

bool log_line_is_trace(const char *line, size_t head)
{
	const char *echo = memmem(line, head, "echo ", 5);
	const char *p = echo;

	while (p && p > line && (p[-1] == ' ' || p[-1] == '+'))
		if (*--p == '+')
			return true;
	return false;
}
