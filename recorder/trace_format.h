// SPDX-License-Identifier: Apache-2.0
/*
 * Byte offsets of the encoded form of traces, version 1: docs/formats/trace.md
 * has the tables and the rules.  Private to trace_encode.c and trace_decode.c.
 */
#ifndef BOOTSEER_RECORDER_TRACE_FORMAT_H
#define BOOTSEER_RECORDER_TRACE_FORMAT_H

#include "recorder/trace.h"

#define MAGIC "BSEERTRC" /* 8 bytes, no NUL */
#define VERSION 1u

#define HEAD_VERSION 8
#define HEAD_FLAGS 12
#define HEAD_IMAGE 16
#define HEAD_CREATED 48
#define HEAD_WINDOW 56
#define HEAD_READY 60
#define HEAD_RUNS 64
#define HEAD_N_ENTRIES 68
#define HEAD_N_PATHS 72
#define HEAD_N_BLOCKS 76
#define HEAD_BODY 80
#define HEAD_STORED 84
#define HEAD_REPO_LEN 88
#define HEAD_WORKLOAD_LEN 90
#define HEAD_RESERVED 92
#define HEAD_SUM 96
#define HEAD_SIZE 128u

#define FLAG_TRUNCATED 1u

#define BODY_MAX (64u << 20) /* bytes unpacked */
/* Smallest size of each in the body. */
#define PATH_MIN 2u
#define BLOCK_MIN (DIGEST_SIZE + 1u)
#define ENTRY_MIN 6u

/* SHA-256 of an encoded trace without the checksum itself. */
int trace_checksum(const uint8_t *data, size_t len,
		   struct digest *ret) MUST_CHECK;

#endif
