// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/sizes.h"

uint64_t sizes_tell(struct ckpt_node *n, uint64_t size)
{
	AUTO_UNLOCK held = mutex_hold(&n->seen);

	if (n->readers_size != SIZE_UNKNOWN)
		size = n->readers_size;
	/* The kernel may drop the answer that was made last of two with different sizes
	 * that are under way at the same time. */
	n->told_size = n->last_size == SIZE_UNKNOWN || n->last_size == size
			       ? size
			       : SIZE_UNKNOWN;
	n->last_size = size;
	return size;
}

void sizes_open(struct session *s, struct ckpt_node *n, uint64_t size)
{
	bool is_told;

	(void)pthread_mutex_lock(&n->seen);
	is_told = size != SIZE_UNKNOWN && n->told_size == size;
	if (!is_told)
		n->told_size = SIZE_UNKNOWN;
	(void)pthread_mutex_unlock(&n->seen);
	if (!is_told)
		session_ask_again(s, n->id);
}

void sizes_set_readers(struct ckpt_node *n, uint64_t size)
{
	AUTO_UNLOCK held = mutex_hold(&n->seen);

	n->readers_size = size;
}

bool sizes_differ(struct ckpt_node *n, uint64_t size)
{
	AUTO_UNLOCK held = mutex_hold(&n->seen);

	return !n->writing && n->readers_size != SIZE_UNKNOWN &&
	       n->readers_size != size;
}
