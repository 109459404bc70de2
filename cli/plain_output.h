// SPDX-License-Identifier: Apache-2.0
/*
 * Nothing that a command prints orders a terminal about: names, labels and messages come from
 * stores, registries, logs and peers, and whoever can write there could clear the screen, set its
 * title or paint over what was said.  One place for all commands: stdout and stderr themselves.
 */
#ifndef BOOTSEER_CLI_PLAIN_OUTPUT_H
#define BOOTSEER_CLI_PLAIN_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* From now on a '?' is written for each control character but the end of a line and a tab. */
void plain_output_begin(void);
/* Standard error as it is, for a bar that is drawn over itself. */
FILE *plain_output_bar(void);

/* State of a text that is written in pieces; zero at first. */
struct plain_text {
	unsigned int
		n_left; /* bytes of a character (UTF-8) that are still to come */
	unsigned char lead; /* the first of them */
};

/* Replace control characters: those below a space, DEL, and U+0080 to U+009F, also as single
 * bytes, of the next `len` bytes of a text.  A character that began in the piece before
 * is known by `s`. */
void plain_text_make(struct plain_text *s, char *text, size_t len);

#endif
