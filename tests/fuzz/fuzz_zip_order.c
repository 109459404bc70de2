// SPDX-License-Identifier: Apache-2.0
/* The end of a file that may be one of torch.save(): 8 bytes say how long the file is,
 * 8 where it is read. */
#include <stddef.h>

#include "ckpt-fuse/mount/zip_order.h"
#include "common/bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void follow(const uint8_t *dir, size_t n, uint64_t size, uint64_t off)
{
	struct zip_order *o = NULL;
	struct zip_range r;

	if (zip_order_new(dir, n, size, &o) < 0)
		return;
	for (unsigned int i = 0; i < 20; i++, off += MIB) {
		if (off >= size ||
		    !zip_order_note(o, off, 4096, 8 * MIB, 64 * MIB))
			continue;
		while (zip_order_next(o, &r))
			if (r.off >= size || r.len == 0 || r.len > size - r.off)
				__builtin_trap();
	}
	zip_order_free(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t file, off, from;
	struct zip_range dir;

	if (size < 16)
		return 0;
	file = get_le64(data);
	off = get_le64(data + 8);
	data += 16;
	size -= 16;
	follow(data, size, file, off);
	if (zip_find_directory(data, size, file, &dir) < 0)
		return 0;
	from = file - size;
	if (dir.off >= from)
		follow(data + (dir.off - from), (size_t)dir.len, file, off);
	return 0;
}
