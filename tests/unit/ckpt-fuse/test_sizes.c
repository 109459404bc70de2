// SPDX-License-Identifier: Apache-2.0
/* Tests which size the kernel is given, and when it is made to ask again. */
#include <criterion/criterion.h>

#include "ckpt-fuse/mount/nodes.h"

static unsigned int n_asked;

void __wrap_session_ask_again(struct session *s, uint64_t node);
void __wrap_session_ask_again(struct session *s, uint64_t node)
{
	(void)s;
	(void)node;
	n_asked++;
}

static struct ckpt_node node;

static void begin(void)
{
	node = (struct ckpt_node){ .last_size = SIZE_UNKNOWN,
				   .told_size = SIZE_UNKNOWN,
				   .readers_size = SIZE_UNKNOWN };
	(void)pthread_mutex_init(&node.seen, NULL);
	n_asked = 0;
}

static void end(void)
{
	(void)pthread_mutex_destroy(&node.seen);
}

TestSuite(sizes, .init = begin, .fini = end);

static bool is_asked(uint64_t size)
{
	unsigned int before = n_asked;

	node_open_size(NULL, &node, size);
	return n_asked > before;
}

Test(sizes, the_kernel_asks_where_it_was_told_another)
{
	cr_expect(is_asked(5), "it was told nothing");
	cr_expect_eq(node_tell_size(&node, 5), 5);
	cr_expect(!is_asked(5));
	cr_expect(is_asked(6));
	cr_expect(is_asked(6), "nobody has told it since");
}

Test(sizes, an_answer_that_may_be_dropped_is_not_trusted)
{
	(void)node_tell_size(&node, 5);
	(void)node_tell_size(&node, 6);
	cr_expect(is_asked(6), "one of 5 may be under way, too");
	(void)node_tell_size(&node, 6);
	cr_expect(!is_asked(6));
}

Test(sizes, what_readers_have_is_what_it_is_told)
{
	node_set_readers_size(&node, 5);
	cr_expect_eq(node_tell_size(&node, 9), 5);
	cr_expect(!is_asked(5));
	cr_expect(node_size_differs(&node, 9));
	cr_expect(!node_size_differs(&node, 5));
	node_set_readers_size(&node, SIZE_UNKNOWN);
	cr_expect_eq(node_tell_size(&node, 9), 9);
	cr_expect(!node_size_differs(&node, 5));
}
