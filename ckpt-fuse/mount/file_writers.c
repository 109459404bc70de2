// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/file_writers.h"

bool file_writers_has(const struct file_writers *w, pid_t process)
{
	for (unsigned int i = 0; i < w->n && i < FILE_WRITERS_MAX; i++)
		if (w->all[i] == process)
			return true;
	return w->n > FILE_WRITERS_MAX;
}

bool file_writers_knows(const struct file_writers *w, pid_t thread)
{
	return thread == w->thread && file_writers_has(w, w->process);
}

void file_writers_note(struct file_writers *w, pid_t thread, pid_t process)
{
	w->thread = thread;
	w->process = process;
	if (file_writers_has(w, process))
		return;
	if (w->n < FILE_WRITERS_MAX)
		w->all[w->n] = process;
	w->n++;
}

void file_writers_killed(struct file_writers *w, pid_t process)
{
	if (file_writers_has(w, process))
		w->is_torn = true;
}

bool file_writers_may_store(const struct file_writers *w, pid_t process)
{
	return !w->is_torn || file_writers_has(w, process);
}

void file_writers_clear(struct file_writers *w)
{
	w->n = 0;
	w->is_torn = false;
}
