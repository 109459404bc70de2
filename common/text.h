// SPDX-License-Identifier: Apache-2.0
/* Bounds and checks for texts that come from strangers. */
#ifndef BOOTSEER_COMMON_TEXT_H
#define BOOTSEER_COMMON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Is it at most `max` bytes of printable ASCII without a space?  True for "". */
static inline bool text_is_word(const char *s, size_t max)
{
	for (; *s; s++, max--)
		if (max == 0 || *s <= ' ' || *s > '~')
			return false;
	return true;
}

/* Overwrite with '?' the bytes that could control a terminal: control characters, also the
 * two-byte ones (U+0080 to U+009F). */
static inline void text_make_printable(char *s)
{
	for (; *s; s++) {
		if ((unsigned char)*s == 0xc2 && (unsigned char)s[1] >= 0x80 &&
		    (unsigned char)s[1] <= 0x9f)
			s[0] = s[1] = '?';
		else if ((unsigned char)*s < ' ' || *s == 0x7f)
			*s = '?';
	}
}

/* After a text was cut, drop an incomplete UTF-8 character at its end. */
static inline void text_end_whole(char *s)
{
	size_t len = strlen(s), n = 0;
	unsigned char c;

	while (n < 3 && n < len && (s[len - 1 - n] & 0xc0) == 0x80)
		n++;
	if (n == len)
		return;
	c = (unsigned char)s[len - 1 - n];
	if ((c >= 0xc0 && n < 1) || (c >= 0xe0 && n < 2) ||
	    (c >= 0xf0 && n < 3))
		s[len - 1 - n] = '\0';
}

/*
 * Are these bytes a registry's host, or host and path: "h:5000/team"?  A mistyped prefix would
 * match nothing, or too much, so only the beginning of a repository's name is accepted: no scheme,
 * tag, slash at the end, or capitals in the path.
 */
static inline bool text_is_repo_prefix(const char *s, size_t len)
{
	size_t host = 0;

	while (host < len && s[host] != '/')
		host++;
	if (host == 0 || s[len - 1] == '/')
		return false;
	for (size_t i = 0; i < len; i++) {
		bool digit = s[i] >= '0' && s[i] <= '9';
		bool lower = s[i] >= 'a' && s[i] <= 'z';
		bool upper = s[i] >= 'A' && s[i] <= 'Z' && i < host;

		if (s[i] == '/' && s[i + 1] == '/')
			return false;
		if (!digit && !lower && !upper &&
		    (!s[i] || !strchr(i < host ? ".-:[]" : "._-/", s[i])))
			return false;
	}
	return true;
}

/*
 * Is `inner` equal to the prefix `outer`, or below it?  Whole components count: "a/b" holds "a/b"
 * and "a/b/c", not "a/bc"; "" holds everything.
 */
static inline bool text_path_holds(const char *outer, const char *inner)
{
	size_t len = strlen(outer);

	return len == 0 || (strncmp(outer, inner, len) == 0 &&
			    (inner[len] == '\0' || inner[len] == '/'));
}

#endif
