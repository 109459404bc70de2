// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "snapshotter/node/images/state.h"

TestSuite(images_state, .timeout = 120);

static int parse(const char *text, struct image_state *ret)
{
	return image_state_parse(text, strlen(text), ret, NULL);
}

Test(images_state, reads_back_what_it_wrote)
{
	struct image_state s = { .index = 7, .plain_http = true }, back;
	AUTO_BUF text = BUF_INIT;

	s.host = strdup("h:5000");
	s.repo = strdup("a/b");
	cr_assert_eq(names_add(&s.names, "h:5000/a/b:t", 4, true), 0);
	cr_assert_eq(names_add(&s.users, "k8s/1/x \"quoted\"", 4, false), 0);
	cr_assert_eq(image_state_format(&s, &text, NULL), 0);
	cr_assert_eq(image_state_parse(text.data, text.len, &back, NULL), 0);
	cr_expect_eq(back.index, 7);
	cr_expect_str_eq(back.host, "h:5000");
	cr_expect_str_eq(back.repo, "a/b");
	cr_expect(back.plain_http && !back.complete);
	cr_expect(names_has(&back.names, "h:5000/a/b:t"));
	cr_expect(names_has(&back.users, "k8s/1/x \"quoted\""));
	image_state_fini(&s);
	image_state_fini(&back);
}

Test(images_state, refuses_what_it_does_not_know)
{
	struct image_state s;

	cr_expect_eq(parse("", &s), -EINVAL);
	cr_expect_eq(parse("{\"format\":2}", &s), -ENOTSUP);
	cr_expect_eq(parse("{\"format\":1}", &s), -EINVAL);
	cr_expect_eq(parse("{\"format\":1,\"index\":-1,\"host\":\"h\","
			   "\"repo\":\"r\",\"plain_http\":false,"
			   "\"complete\":false,\"names\":[],\"users\":[]}",
			   &s),
		     -EINVAL);
	cr_expect_eq(parse("{\"format\":1,\"index\":1,\"host\":\"h\","
			   "\"repo\":\"r\",\"plain_http\":false,"
			   "\"complete\":false,\"names\":[3],\"users\":[]}",
			   &s),
		     -EINVAL);
}

Test(images_state, tells_a_prefetch_only_when_there_is_one)
{
	struct image_state s = { .index = 7 }, back;
	AUTO_BUF none = BUF_INIT;
	AUTO_BUF all = BUF_INIT;

	s.host = strdup("h");
	s.repo = strdup("r");
	cr_assert_eq(image_state_format(&s, &none, NULL), 0);
	cr_expect_null(strstr(none.data, "prefetch"));
	cr_assert_eq(parse(none.data, &back), 0);
	cr_expect_eq(back.prefetch, STATE_PREFETCH_NONE);
	image_state_fini(&back);
	s.prefetch = STATE_PREFETCH_ALL;
	cr_assert_eq(image_state_format(&s, &all, NULL), 0);
	cr_assert_eq(parse(all.data, &back), 0);
	cr_expect_eq(back.prefetch, STATE_PREFETCH_ALL);
	image_state_fini(&back);
	memcpy(strstr(all.data, "\"all\""), "\"ALL\"", 5);
	cr_expect_eq(parse(all.data, &back), -EINVAL);
	image_state_fini(&s);
}

Test(images_state, keeps_names_once_and_in_order)
{
	struct names l = { .v = NULL };

	cr_assert_eq(names_add(&l, "a", 4, false), 0);
	cr_assert_eq(names_add(&l, "b", 4, false), 0);
	cr_assert_eq(names_add(&l, "a", 4, false), 0);
	cr_expect_eq(l.n, 2);
	cr_expect(names_remove(&l, "a"));
	cr_expect_not(names_remove(&l, "a"));
	cr_expect_str_eq(l.v[0], "b");
	names_fini(&l);
}

Test(images_state, forgets_the_oldest_or_refuses_when_full)
{
	struct names l = { .v = NULL };

	cr_assert_eq(names_add(&l, "a", 2, true), 0);
	cr_assert_eq(names_add(&l, "b", 2, true), 0);
	cr_expect_eq(names_add(&l, "c", 2, false), -ENOSPC);
	cr_expect_eq(names_add(&l, "c", 2, true), 0);
	cr_expect_not(names_has(&l, "a"));
	cr_expect_eq(l.n, 2);
	names_fini(&l);
}

Test(images_state, bounds_the_length_of_a_name)
{
	struct names l = { .v = NULL };
	char name[STATE_STRING_MAX + 2];

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	cr_expect_eq(names_add(&l, name, 4, false), -ENAMETOOLONG);
	names_fini(&l);
}
