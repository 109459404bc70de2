// SPDX-License-Identifier: Apache-2.0
/* CRC-32C (Castagnoli), as iSCSI, ext4 and S3 have it. */
#ifndef BOOTSEER_COMMON_CRC32C_H
#define BOOTSEER_COMMON_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of `len` more bytes after those of `crc`, which is 0 at first. */
uint32_t crc32c(uint32_t crc, const void *data, size_t len);

/* The same, by tables alone, as on a processor without the instruction: for tests. */
uint32_t crc32c_by_table(uint32_t crc, const void *data, size_t len);

#endif
