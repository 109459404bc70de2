// SPDX-License-Identifier: Apache-2.0
#include "cli/explain.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "cli/node_ask.h"

#define DIGEST_PREFIX "sha256:"
#define DIGITS_MIN 12u

/* ------------------------------------------------------------------- verdict --- */

static bool is_trace_match(const json_t *s, const char *match)
{
	return strcmp(reply_text(s, "trace"), match) == 0;
}

static long long get_hot_number(const json_t *s, const char *key)
{
	return reply_number(json_object_get(s, "hot"), key);
}

static bool was_start_unwatched(const json_t *s)
{
	return !reply_flag(s, "watched");
}

static bool found_none_and_recorded(const json_t *s)
{
	return is_trace_match(s, "none") && reply_flag(s, "recorded");
}

static bool start_found_no_trace(const json_t *s)
{
	return is_trace_match(s, "none");
}

/* Were less than 2 % of the blocks missed? */
static bool has_few_misses(const json_t *s)
{
	return reply_number(s, "missed_blocks") * 50 <=
	       reply_number(s, "read_blocks");
}

static bool used_another_trace(const json_t *s)
{
	return !is_trace_match(s, "own");
}

static bool is_hot_set_mostly_unused(const json_t *s)
{
	return get_hot_number(s, "unused_blocks") >
	       get_hot_number(s, "used_blocks");
}

static bool was_hot_set_late(const json_t *s)
{
	return reply_number(json_object_get(s, "fetched"), "hot") <
	       get_hot_number(s, "bytes") / 2;
}

/* The first rule that applies to the newest start gives the verdict. */
static const struct {
	bool (*applies)(const json_t *start);
	const char *text;
} rules[] = {
	{ was_start_unwatched,
	  "the last start was not watched, as the image was complete on the "
	  "node or mounted already: nothing needed to be fetched for it" },
	{ found_none_and_recorded,
	  "no trace was found: this start recorded one, which the next start "
	  "uses" },
	{ start_found_no_trace,
	  "no trace was found and none was recorded: see --record of "
	  "bootseerd, or run 'bootseer image record'" },
	{ has_few_misses,
	  "good: what the last start read was on the node before it asked" },
	{ used_another_trace,
	  "the trace was of another image or workload, so much was missed: "
	  "this start's own serves the next one; give equal starts one "
	  "workload key" },
	{ is_hot_set_mostly_unused,
	  "the trace does not fit this start: other programs share its "
	  "workload key; give each a key of its own" },
	{ was_hot_set_late,
	  "the prefetch was overtaken by the start: have it wait for more "
	  "(--wait of bootseerd) or run 'bootseer image prefetch' before" },
	{ NULL,
	  "the last start read what no start before it had read: if the next "
	  "one does too, look at the missed files below" },
};

const char *explain_verdict(const json_t *starts)
{
	const json_t *last = json_array_get(starts, 0);
	size_t i = 0;

	if (!last)
		return "no start of this image has ended on this node yet: "
		       "start a container of it, or run 'bootseer image "
		       "record'";
	while (rules[i].applies && !rules[i].applies(last))
		i++;
	return rules[i].text;
}

/* --------------------------------------------------------------------- lines --- */

static void print_when(const json_t *s, FILE *out)
{
	time_t at = (time_t)reply_number(s, "started_at");
	char text[32] = "";
	struct tm tm;

	if (localtime_r(&at, &tm))
		(void)strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
	fprintf(out, "%s  workload %s\n", text, reply_text(s, "workload"));
}

static void print_ms(const char *what, long long ms, FILE *out)
{
	fprintf(out, "%s%lld.%02lld s", what, ms / 1000, ms % 1000 / 10);
}

static void print_start_end(const json_t *s, FILE *out)
{
	const char *end = reply_text(s, "end");

	fputs("  ready       ", out);
	if (strcmp(end, "ready") == 0)
		print_ms("after ", reply_number(s, "ready_ms"), out);
	else
		print_ms(strcmp(end, "gone") == 0
				 ? "never: the container ended after "
				 : "nobody said so, watched for ",
			 reply_number(s, "watched_ms"), out);
	print_ms(", waited ", reply_number(s, "waited_ms"), out);
	fputs(" of it for the prefetch\n", out);
}

static void print_trace(const json_t *s, FILE *out)
{
	static const struct {
		const char *match, *text;
	} matches[] = {
		{ "own", "of this image and workload" },
		{ "relative", "of another version of the image" },
		{ "workload", "of this image, another workload" },
		{ "far", "of another version and another workload" },
		{ "predicted", "none; predicted by starts of other images, or "
			       "by the image's own files" },
		{ "none", "none was found" },
	};
	const char *text = reply_text(s, "trace");

	for (size_t i = 0; i < sizeof(matches) / sizeof(matches[0]); i++)
		if (is_trace_match(s, matches[i].match))
			text = matches[i].text;
	fprintf(out, "  trace       %s%s\n", text,
		reply_flag(s, "recorded") ? "; this start was recorded" : "");
}

/* Print how many bytes came from each source; sources without bytes are left out. */
static void print_fetched(const json_t *f, FILE *out)
{
	static const struct {
		const char *key, *text;
	} sources[] = {
		{ "hot", "by prefetch" },
		{ "demand", "on demand" },
		{ "cold", "of the rest" },
		{ "cache", "was on the node already" },
	};
	char bytes[PROGRESS_BYTES_MAX];
	bool any = false;

	fputs("  fetched     ", out);
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		if (reply_number(f, sources[i].key) == 0)
			continue;
		fprintf(out, "%s%s %s", any ? ", " : "",
			reply_bytes(f, sources[i].key, bytes), sources[i].text);
		any = true;
	}
	fputs(any ? "\n" : "nothing\n", out);
}

static void print_reads(const json_t *s, FILE *out)
{
	char bytes[PROGRESS_BYTES_MAX], blocks[PROGRESS_COUNT_MAX],
		reads[PROGRESS_COUNT_MAX];

	fprintf(out, "  read        %s, %s, in %s\n",
		reply_bytes(s, "read_bytes", bytes),
		reply_count(s, "read_blocks", "block", blocks),
		reply_count(s, "reads", "read", reads));
	print_fetched(json_object_get(s, "fetched"), out);
}

static void print_hot(const json_t *s, FILE *out)
{
	const json_t *h = json_object_get(s, "hot");
	char a[PROGRESS_BYTES_MAX], b[PROGRESS_BYTES_MAX],
		blocks[PROGRESS_COUNT_MAX];

	if (reply_number(h, "blocks") == 0)
		return;
	fprintf(out, "  hot set     %s, %s; of what came: ",
		reply_count(h, "blocks", "block", blocks),
		reply_bytes(h, "bytes", a));
	fprintf(out, "%s used, %s not\n", reply_bytes(h, "used_bytes", a),
		reply_bytes(h, "unused_bytes", b));
}

static void print_missed(const json_t *s, FILE *out)
{
	char bytes[PROGRESS_BYTES_MAX], blocks[PROGRESS_COUNT_MAX];
	const json_t *file;
	size_t k;

	fprintf(out, "  missed      %s, %s: readers waited\n",
		reply_count(s, "missed_blocks", "block", blocks),
		reply_bytes(s, "missed_bytes", bytes));
	json_array_foreach(json_object_get(s, "missed_files"), k, file)
	{
		fprintf(out, "  %11s %s\n", reply_bytes(file, "bytes", bytes),
			reply_text(file, "path"));
	}
}

void explain_print(const json_t *s, FILE *out)
{
	print_when(s, out);
	print_start_end(s, out);
	print_trace(s, out);
	if (!reply_flag(s, "watched"))
		return;
	print_reads(s, out);
	print_hot(s, out);
	print_missed(s, out);
}

/* -------------------------------------------------------------------- finding --- */

static bool begins_digest(const json_t *image, const char *key, const char *ref)
{
	const char *digest = reply_text(image, key);

	if (strncmp(digest, DIGEST_PREFIX, strlen(DIGEST_PREFIX)) == 0)
		digest += strlen(DIGEST_PREFIX);
	return strncmp(digest, ref, strlen(ref)) == 0;
}

static const char *without_transport(const char *ref)
{
	return strncmp(ref, "docker://", 9) == 0 ? ref + 9 : ref;
}

/* Is `name` the image that the user's `ref` names? */
static bool is_name(const char *name, const char *ref)
{
	size_t len = strlen(ref);

	return strncmp(name, ref, len) == 0 &&
	       (name[len] == '\0' || strcmp(name + len, ":latest") == 0);
}

static bool is_named(const json_t *image, const char *ref)
{
	const json_t *name;
	size_t k;

	json_array_foreach(json_object_get(image, "names"), k, name)
	{
		const char *text = json_string_value(name);

		if (text && is_name(text, ref))
			return true;
	}
	return false;
}

const json_t *explain_find(const json_t *status, const char *ref)
{
	const json_t *image;
	const char *hex;
	size_t k;

	ref = without_transport(ref);
	hex = strncmp(ref, DIGEST_PREFIX, strlen(DIGEST_PREFIX)) == 0
		      ? ref + strlen(DIGEST_PREFIX)
		      : ref;
	json_array_foreach(json_object_get(status, "images"), k, image)
	{
		if (is_named(image, ref))
			return image;
		if (strlen(hex) >= DIGITS_MIN &&
		    (begins_digest(image, "id", hex) ||
		     begins_digest(image, "manifest", hex) ||
		     begins_digest(image, "artifact", hex)))
			return image;
	}
	return NULL;
}

const json_t *explain_ordinary(const json_t *status, const char *ref)
{
	const json_t *one;
	size_t k;

	ref = without_transport(ref);
	json_array_foreach(json_object_get(status, "untrusted"), k, one)
	{
		const char *name = without_transport(reply_text(one, "image"));

		if (is_name(name, ref))
			return one;
	}
	return NULL;
}
