// SPDX-License-Identifier: Apache-2.0
/*
 * Filters control characters from all output of commands.  Names, labels and messages come from
 * stores, registries, logs and peers; their authors could otherwise clear the screen, set the
 * terminal's title or overwrite text.  Done in one place: stdout and stderr themselves.
 */
#ifndef BOOTSEER_CLI_PLAIN_OUTPUT_H
#define BOOTSEER_CLI_PLAIN_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* From now on each control character but newline and tab is written as '?'. */
void plain_output_begin(void);
/* Standard error without the filter, for a progress bar that redraws itself. */
FILE *plain_output_bar(void);

/* State of a text that is written in pieces; initialise to zero. */
struct plain_text {
	unsigned int n_left; /* bytes of an unfinished UTF-8 character that are
	                      * still to come */
	unsigned char lead;  /* first byte of that character */
};

/* Replace control characters in the next `len` bytes of a text: below space, DEL, and U+0080 to
 * U+009F, also as single bytes.  `s` remembers a character that began in the piece before. */
void plain_text_make(struct plain_text *s, char *text, size_t len);

#endif
