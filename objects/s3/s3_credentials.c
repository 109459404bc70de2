// SPDX-License-Identifier: Apache-2.0
/* Credentials from the text of files and answers: no I/O is here. */
#include "objects/s3/s3_credentials.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <time.h>

#include "objects/s3/s3_xml.h"

void s3_credentials_fini(struct s3_credentials *c)
{
	if (c->secret)
		explicit_bzero(c->secret, strlen(c->secret));
	free(c->key_id);
	free(c->secret);
	free(c->token);
	*c = (struct s3_credentials){ .key_id = NULL };
}

int64_t s3_time_parse(const char *text)
{
	struct tm tm = { .tm_isdst = 0 };
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	int64_t ms = 0;

	if (!rest)
		return -1;
	if (*rest == '.') {
		int scale = 100;

		for (rest++; isdigit((unsigned char)*rest); rest++) {
			ms += (*rest - '0') * scale;
			scale /= 10;
		}
	}
	if (strcmp(rest, "Z") != 0 && strcmp(rest, "+00:00") != 0)
		return -1;
	return (int64_t)timegm(&tm) * 1000 + ms;
}

/* Can the header of a request carry the text? A line's end would smuggle in another
 * header. */
static bool is_word(const char *text)
{
	if (!*text)
		return false;
	for (; *text; text++)
		if (*text <= ' ' || *text > '~')
			return false;
	return true;
}

static bool set_word(char **to, const char *text)
{
	if (*to || !is_word(text))
		return false;
	*to = strdup(text);
	return *to;
}

/* Are both there that have to be? */
static int check_both(struct s3_credentials *c, bool ok)
{
	if (ok && c->key_id && c->secret)
		return 0;
	s3_credentials_fini(c);
	return -EBADMSG;
}

/* -------------------------------------------------------------------- file --- */

static char *trim_text(char *text)
{
	size_t len;

	text += strspn(text, " \t\r");
	for (len = strlen(text); len && strchr(" \t\r", text[len - 1]);)
		text[--len] = '\0';
	return text;
}

/* Is "[NAME]", or "[profile NAME]" of the other file, this profile? */
static bool is_section(char *line, const char *profile)
{
	size_t len = strlen(line);

	if (line[len - 1] != ']')
		return false;
	line[len - 1] = '\0';
	line = trim_text(line + 1);
	if (strncmp(line, "profile ", 8) == 0)
		line = trim_text(line + 8);
	return strcmp(line, profile) == 0;
}

static bool set_key(struct s3_credentials *c, const char *key,
		    const char *value)
{
	if (strcmp(key, "aws_access_key_id") == 0)
		return set_word(&c->key_id, value);
	if (strcmp(key, "aws_secret_access_key") == 0)
		return set_word(&c->secret, value);
	if (strcmp(key, "aws_session_token") == 0)
		return set_word(&c->token, value);
	return true;
}

int s3_credentials_from_file(const char *text, size_t len, const char *profile,
			     struct s3_credentials *ret)
{
	AUTO_FREE char *copy = strndup(text, len);
	char *save = NULL;
	bool ours = false, ok = true;

	*ret = (struct s3_credentials){ .key_id = NULL };
	if (!copy)
		return -ENOMEM;
	for (char *line = strtok_r(copy, "\n", &save); line && ok;
	     line = strtok_r(NULL, "\n", &save)) {
		char *equals;

		line = trim_text(line);
		if (*line == '[') {
			ours = is_section(line, profile);
			continue;
		}
		equals = strchr(line, '=');
		if (!ours || !equals || *line == '#' || *line == ';')
			continue;
		*equals = '\0';
		ok = set_key(ret, trim_text(line), trim_text(equals + 1));
	}
	explicit_bzero(copy, strnlen(text, len));
	return check_both(ret, ok);
}

/* ------------------------------------------------------------------ answers --- */

static bool set_until(struct s3_credentials *c, const char *text)
{
	c->until_ms = s3_time_parse(text);
	return c->until_ms > 0;
}

int s3_credentials_from_json(const char *text, size_t len,
			     struct s3_credentials *ret)
{
	json_t *j = json_loadb(text, len, 0, NULL);
	const char *id, *secret, *token = NULL, *until = NULL;
	bool ok;

	*ret = (struct s3_credentials){ .key_id = NULL };
	ok = json_unpack(j, "{s:s, s:s, s?:s, s?:s}", "AccessKeyId", &id,
			 "SecretAccessKey", &secret, "Token", &token,
			 "Expiration", &until) == 0 &&
	     set_word(&ret->key_id, id) && set_word(&ret->secret, secret) &&
	     (!token || set_word(&ret->token, token)) &&
	     (!until || set_until(ret, until));
	json_decref(j);
	return check_both(ret, ok);
}

static int take_element(void *arg, const char *path, const char *text)
{
	static const char at[] = "AssumeRoleWithWebIdentityResponse/"
				 "AssumeRoleWithWebIdentityResult/Credentials/";
	struct s3_credentials *c = arg;
	bool ok = true;

	if (strncmp(path, at, sizeof(at) - 1) != 0)
		return 0;
	path += sizeof(at) - 1;
	if (strcmp(path, "AccessKeyId") == 0)
		ok = set_word(&c->key_id, text);
	else if (strcmp(path, "SecretAccessKey") == 0)
		ok = set_word(&c->secret, text);
	else if (strcmp(path, "SessionToken") == 0)
		ok = set_word(&c->token, text);
	else if (strcmp(path, "Expiration") == 0)
		ok = set_until(c, text);
	return ok ? 0 : -EBADMSG;
}

int s3_credentials_from_xml(const char *text, size_t len,
			    struct s3_credentials *ret)
{
	*ret = (struct s3_credentials){ .key_id = NULL };
	return check_both(ret, s3_xml_parse(text, len, take_element, ret) == 0);
}
