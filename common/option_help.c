// SPDX-License-Identifier: Apache-2.0
/* Texts made from an option table for people: --help and --dump-config. */
#include <inttypes.h>
#include <string.h>

#include "common/buf.h"
#include "common/option_priv.h"

#define WIDTH 80
#define HELP_COLUMN 30

/* Break `text` at spaces so that no line passes WIDTH. */
static void print_wrapped(FILE *out, const char *text, int indent, int column)
{
	while (*text) {
		size_t word = strcspn(text, " \n");

		if (column > indent && column + 1 + (int)word > WIDTH) {
			fprintf(out, "\n%*s", indent, "");
			column = indent;
		} else if (column > indent) {
			fputc(' ', out);
			column++;
		}
		fprintf(out, "%.*s", (int)word, text);
		column += (int)word;
		text += word;
		text += strspn(text, " \n");
	}
	fputc('\n', out);
}

static void print_entry(FILE *out, char letter, const char *key,
			const char *arg, const char *help)
{
	int n;

	if (letter)
		n = fprintf(out, "  -%c, --%s", letter, key);
	else
		n = fprintf(out, "      --%s", key);
	if (arg)
		n += fprintf(out, " %s", arg);
	if (n + 2 > HELP_COLUMN)
		fprintf(out, "\n%*s", HELP_COLUMN, "");
	else
		fprintf(out, "%*s", HELP_COLUMN - n, "");
	print_wrapped(out, help, HELP_COLUMN, HELP_COLUMN);
}

const char *option_value_name(const struct option_spec *o)
{
	static const char *const names[] = {
		[OPTION_BOOL] = NULL,       [OPTION_STRING] = "TEXT",
		[OPTION_FILE] = "FILE",     [OPTION_LIST] = "TEXT",
		[OPTION_INTEGER] = "N",     [OPTION_SIZE] = "SIZE",
		[OPTION_DURATION] = "TIME", [OPTION_ENUM] = "KIND",
	};

	return o->arg ? o->arg : names[o->type];
}

int option_describe(const struct option_spec *o, struct buf *ret)
{
	bool is_one_of = o->type == OPTION_ENUM;
	int rc = buf_puts(ret, o->help);

	for (size_t i = 0; rc == 0 && is_one_of && o->values[i]; i++)
		rc = buf_printf(ret, "%s%s", i ? ", " : " One of ",
				o->values[i]);
	if (rc == 0 && is_one_of)
		rc = buf_puts(ret, ".");
	if (rc == 0 && o->type == OPTION_LIST)
		rc = buf_puts(ret, " May be given more than once.");
	if (rc == 0 && o->def && o->type != OPTION_BOOL)
		rc = buf_printf(ret, " Default: %s.", o->def);
	return rc;
}

static void print_option(FILE *out, const struct option_spec *o)
{
	const char *value = option_value_name(o), *key = o->key;
	AUTO_BUF may = BUF_INIT;
	AUTO_BUF text = BUF_INIT;
	int rc = option_describe(o, &text);

	if (o->bare && buf_printf(&may, "%s[=%s]", o->key, value) == 0) {
		key = may.data;
		value = NULL;
	}
	print_entry(out, o->letter, key, value, rc == 0 ? text.data : o->help);
}

/* Print one example a line, with our indentation whatever the table's text has. */
static void print_examples(FILE *out, const char *text)
{
	fputs("\nExamples:\n", out);
	while (*text) {
		int n;

		text += strspn(text, " ");
		n = (int)strcspn(text, "\n");
		fprintf(out, "  %.*s\n", n, text);
		text += n;
		text += *text == '\n';
	}
}

void option_help(const struct option_program *prog, FILE *out)
{
	bool file = option_find(prog->options, "config", 6) != NULL;
	int column;

	fprintf(out, "Usage: %s %s\n\n", prog->name, prog->usage);
	print_wrapped(out, prog->summary, 0, 0);
	fputs("\nOptions:\n", out);
	for (const struct option_spec *o = prog->options; o->key; o++)
		print_option(out, o);
	if (file) {
		print_entry(out, 0, "check-config", NULL,
			    "Check options and configuration, then exit.");
		print_entry(out, 0, "dump-config", NULL,
			    "Print the configuration in force, then exit.");
	}
	print_entry(out, 'h', "help", NULL, "Show this help.");
	print_entry(out, 0, "version", NULL, "Show the version.");
	if (prog->examples)
		print_examples(out, prog->examples);
	column = fprintf(out, "\nSee also: ") - 1;
	print_wrapped(out, prog->see_also ? prog->see_also : "bootseer(1)",
		      column, column);
}

static void dump_quoted(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		fputc(*text, out);
	}
	fputc('"', out);
}

static void dump_list(FILE *out, char *const *list)
{
	fputc('[', out);
	for (size_t i = 0; list && list[i]; i++) {
		if (i)
			fputs(", ", out);
		dump_quoted(out, list[i]);
	}
	fputc(']', out);
}

static void dump_number(FILE *out, enum option_type type, uint64_t v)
{
	static const char *const sizes[] = { "", "K", "M", "G", "T" };
	size_t u = 0;

	if (type == OPTION_INTEGER) {
		fprintf(out, "%" PRIu64, v);
		return;
	}
	if (type == OPTION_SIZE) {
		for (; v && v % 1024 == 0 && u + 1 < ARRAY_SIZE(sizes); u++)
			v /= 1024;
		fprintf(out, "\"%" PRIu64 "%s\"", v, sizes[u]);
		return;
	}
	if (v % 1000000000 == 0)
		fprintf(out, "\"%" PRIu64 "s\"", v / 1000000000);
	else if (v % 1000000 == 0)
		fprintf(out, "\"%" PRIu64 "ms\"", v / 1000000);
	else
		fprintf(out, "\"%" PRIu64 "ns\"", v);
}

static void dump_value(FILE *out, const struct option_spec *o, const void *cfg)
{
	const void *member = (const char *)cfg + o->offset;
	uint64_t number;

	switch (o->type) {
	case OPTION_BOOL:
		fputs(*(const bool *)member ? "true" : "false", out);
		break;
	case OPTION_STRING:
	case OPTION_FILE:
	case OPTION_ENUM:
		dump_quoted(out, *(char *const *)member);
		break;
	case OPTION_LIST:
		dump_list(out, *(char **const *)member);
		break;
	case OPTION_INTEGER:
	case OPTION_SIZE:
	case OPTION_DURATION:
		memcpy(&number, member, sizeof(number));
		dump_number(out, o->type, number);
		break;
	}
}

void option_dump(const struct option_spec *options, const void *cfg, FILE *out)
{
	for (const struct option_spec *o = options; o->key; o++) {
		const void *member = (const char *)cfg + o->offset;
		bool text = option_is_text(o->type);

		if (o->no_file || strcmp(o->key, "config") == 0)
			continue;
		fprintf(out, "# %s\n", o->help);
		if (text && !*(char *const *)member) {
			fprintf(out, "# %s is not set\n", o->key);
			continue;
		}
		fprintf(out, "%s = ", o->key);
		dump_value(out, o, cfg);
		fputs(";\n", out);
	}
}
