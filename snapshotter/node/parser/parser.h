// SPDX-License-Identifier: Apache-2.0
/*
 * The parser: an unprivileged process that forks one process for each job.  Jobs parse
 * untrusted bytes before bootseerd or the kernel uses them.  A job has only the files it is
 * given; if it crashes, loops or takes too much memory, that counts as an error of the image.
 * bootseerd checks digests.
 */
#ifndef BOOTSEER_NODE_PARSER_H
#define BOOTSEER_NODE_PARSER_H

#include <stdint.h>

#include "common/error.h"
#include "image/artifact/artifact.h"

/* argv[0] by which main() knows that it has to call parser_main(). */
#define PARSER_NAME "bootseerd-parser"

struct parser;

/* Run `program` as the parser; it is run again when it has ended, or does not answer
 * for 10 s.  Safe from any thread afterwards. */
int parser_open(const char *program, struct parser **ret,
		struct error *err) MUST_CHECK;
void parser_close(struct parser *p); /* NULL is allowed */

/* PID of the parser's process, for tests and `node status`. */
int parser_pid(struct parser *p);

/* The parser for artifact_sources.parser; lives as long as `p`. */
struct artifact_parser *parser_of_artifacts(struct parser *p);

/*
 * Check the whole of a metadata image and of a block map, by erofs_check() and blockmap_open().
 * Blocks, for some minutes at most.  Returns what these functions return; -EBADMSG if the job
 * crashed, -ETIMEDOUT if it was killed or could not begin, -ECHILD if the parser does not run.
 */
int parser_check(struct parser *p, const char *meta_path, const char *map_path,
		 struct error *err) MUST_CHECK;

/* Main function of the parser: serves jobs until bootseerd has closed the socket.  Returns the
 * exit code. */
int parser_main(void);

#endif
