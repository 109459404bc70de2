// SPDX-License-Identifier: Apache-2.0
/* ROOT/images/ID/hot.json: the hot set of a prefetch that has not finished.  No I/O in here. */
#ifndef BOOTSEER_NODE_HOT_FILE_H
#define BOOTSEER_NODE_HOT_FILE_H

#include "common/buf.h"
#include "recorder/recorder.h"

#define HOT_FILE_MAX (8u << 20)
#define HOT_FILE_FORMAT 1

int hot_file_format(const struct hot_list *hot, struct buf *ret,
		    struct error *err) MUST_CHECK;
/* Read back the blocks in their order; other members of the hot set stay empty.  -EINVAL. */
int hot_file_parse(const char *text, size_t len, struct hot_list *ret,
		   struct error *err) MUST_CHECK;

#endif
