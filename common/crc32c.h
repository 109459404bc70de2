// SPDX-License-Identifier: Apache-2.0
/* CRC-32C (Castagnoli), the checksum of iSCSI, ext4 and S3. */
#ifndef BOOTSEER_COMMON_CRC32C_H
#define BOOTSEER_COMMON_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continue the checksum `crc` (0 at first) over `len` more bytes. */
uint32_t crc32c(uint32_t crc, const void *data, size_t len);

/* crc32c() by tables, as on a processor without the instruction: for tests. */
uint32_t crc32c_by_table(uint32_t crc, const void *data, size_t len);

#endif
