// SPDX-License-Identifier: Apache-2.0
/* Who wrote to a file, and was killed. */
#include <criterion/criterion.h>

#include "ckpt-fuse/mount/file_writers.h"

#define TRAINER 100
#define THREAD 101 /* of the trainer */
#define WORKER 200

Test(file_writers,
     what_one_that_wrote_was_killed_over_is_stored_by_who_wrote_too)
{
	struct file_writers w = { .n = 0 };

	file_writers_note(&w, THREAD, TRAINER);
	cr_expect_eq(w.process, TRAINER);
	file_writers_killed(&w, 300);
	cr_expect_not(w.is_torn);
	cr_expect(file_writers_may_store(&w, WORKER));
	file_writers_killed(&w, TRAINER);
	cr_expect(w.is_torn);
	cr_expect_not(file_writers_may_store(&w, WORKER));
	file_writers_note(&w, WORKER, WORKER);
	cr_expect(file_writers_may_store(&w, WORKER));
	cr_expect_not(file_writers_may_store(&w, 300));
	file_writers_clear(&w);
	cr_expect_not(w.is_torn);
	file_writers_note(&w, WORKER, WORKER);
	file_writers_killed(&w, TRAINER);
	cr_expect_not(w.is_torn);
}

Test(file_writers, knows_the_last_until_it_has_to_be_noted_again)
{
	struct file_writers w = { .n = 0 };

	cr_expect_not(file_writers_knows(&w, THREAD));
	file_writers_note(&w, THREAD, TRAINER);
	cr_expect(file_writers_knows(&w, THREAD));
	cr_expect_not(file_writers_knows(&w, TRAINER));
	file_writers_clear(&w);
	cr_expect_not(file_writers_knows(&w, THREAD));
	cr_expect_eq(w.process, TRAINER);
}

Test(file_writers, of_too_many_any_may_have_written)
{
	struct file_writers w = { .n = 0 };

	for (pid_t p = 1; p <= (pid_t)FILE_WRITERS_MAX; p++)
		file_writers_note(&w, p, p);
	file_writers_killed(&w, 1);
	cr_expect_not(file_writers_may_store(&w, WORKER));
	file_writers_note(&w, TRAINER, TRAINER);
	cr_expect(file_writers_may_store(&w, WORKER));
}
