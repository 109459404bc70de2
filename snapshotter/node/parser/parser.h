// SPDX-License-Identifier: Apache-2.0
/*
 * The parser: a process without rights, which forks one for each job, that works
 * on bytes of strangers before bootseerd or the kernel does.  Such a job has
 * nothing but the files it is given; it may crash, loop or ask for memory, and is
 * then an error of the image.  Digests are checked by bootseerd.
 */
#ifndef BOOTSEER_NODE_PARSER_H
#define BOOTSEER_NODE_PARSER_H

#include <stdint.h>

#include "common/error.h"
#include "image/artifact/artifact.h"

/* argv[0] of a process that is to call parser_main(). */
#define PARSER_NAME "bootseerd-parser"

struct parser;

/* Run `program` as the parser; it is run again when it has ended, or does not answer
 * for 10 s.  Safe from any thread afterwards. */
int parser_open(const char *program, struct parser **ret,
		struct error *err) MUST_CHECK;
void parser_close(struct parser *p); /* NULL is allowed */

/* Its process, for tests and `node status`. */
int parser_pid(struct parser *p);

/* The parser for artifact_sources.parser; lives as long as `p`. */
struct artifact_parser *parser_of_artifacts(struct parser *p);

/*
 * Check the whole of a metadata image and of a block map, by erofs_check() and
 * blockmap_open().  Blocks, for some minutes at most.  What those return, -EBADMSG
 * when the job did not live to its end, -ETIMEDOUT when it had to be killed or none
 * could begin, -ECHILD when the parser does not run.
 */
int parser_check(struct parser *p, const char *meta_path, const char *map_path,
		 struct error *err) MUST_CHECK;

/* Be the parser: serves jobs until nobody is left to ask for any.  The exit
 * code. */
int parser_main(void);

#endif
