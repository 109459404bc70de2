// SPDX-License-Identifier: Apache-2.0
/* Answers of WebHDFS: JSON in and values out; no I/O. */
#ifndef BOOTSEER_OBJECTS_HDFS_JSON_H
#define BOOTSEER_OBJECTS_HDFS_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"

struct hdfs_status {
	/* Last part of the file's name; "": the requested path itself. */
	const char *suffix;
	bool is_file; /* false: a folder, or a link */
	uint64_t size;
	uint64_t id;         /* number of the inode; never reused */
	uint64_t block_size; /* 0: unknown */
	int64_t modified_ms;
};

/* Parse {"FileStatus":{...}}; `suffix` is not set. -EBADMSG: invalid. */
int hdfs_status_parse(const char *data, size_t len,
		      struct hdfs_status *ret) MUST_CHECK;

typedef int hdfs_status_fn(void *arg, const struct hdfs_status *s);

/* {"DirectoryListing":...}; *ret_last is the name after which the next page begins, the
 * caller's, or NULL: this was the last page.  Returns what `fn` does, or -EBADMSG. */
int hdfs_listing_parse(const char *data, size_t len, hdfs_status_fn *fn,
		       void *arg, char **ret_last) MUST_CHECK;

/* {"RemoteException":...}: both are the caller's; the message is one printable line. */
int hdfs_exception_parse(const char *data, size_t len, char **ret_name,
			 char **ret_message) MUST_CHECK;

/* {"boolean":b}. */
int hdfs_boolean_parse(const char *data, size_t len, bool *ret) MUST_CHECK;

/* {"Token":{"urlString":"..."}}: the caller's. */
int hdfs_token_parse(const char *data, size_t len, char **ret) MUST_CHECK;

/* Append the URL of a data node with another range: of a redirect all parameters but
 * `offset` and `length` stay. */
int hdfs_url_range(const char *location, uint64_t off, uint64_t len,
		   struct buf *ret) MUST_CHECK;

#endif
