// SPDX-License-Identifier: Apache-2.0
/*
 * Stands in for Criterion: the part of its interface that our tests use, on plain fork();
 * tests/unit/forked/runner.c runs them.  docs/decisions/0005 says why.
 */
#ifndef BOOTSEER_TESTS_UNIT_FORKED_CRITERION_H
#define BOOTSEER_TESTS_UNIT_FORKED_CRITERION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct unit_options {
	double timeout; /* seconds */
	int signal;     /* that must end the test */
	void (*init)(void);
	void (*fini)(void);
};

struct unit_test {
	struct unit_test *next;
	const char *suite, *name;
	void (*run)(void);
	struct unit_options options;
};

/* Called before main() by the constructors that the macros make. */
void unit_add_test(struct unit_test *t);
void unit_add_suite(struct unit_test *t);

/* Print where and what failed; `fatal` ends the test. */
void unit_failed(bool fatal, const char *file, int line, const char *what,
		 const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* Where a test has set it: pthread_create() fails by EAGAIN if this says so. */
extern bool (*unit_refuses_thread)(void);

/* End the test, which says why it cannot run here. */
void unit_skip(const char *why) __attribute__((noreturn));

#define TestSuite(s, ...) \
	static struct unit_test unit_suite_##s = { \
		.suite = #s, .options = { __VA_ARGS__ } \
	}; \
	__attribute__((constructor)) static void unit_enter_suite_##s(void) \
	{ \
		unit_add_suite(&unit_suite_##s); \
	} \
	struct unit_options

#define Test(s, n, ...) \
	static void s##_##n(void); \
	static struct unit_test unit_test_##s##_##n = { \
		.suite = #s, \
		.name = #n, \
		.run = s##_##n, \
		.options = { __VA_ARGS__ } \
	}; \
	__attribute__((constructor)) static void unit_enter_##s##_##n(void) \
	{ \
		unit_add_test(&unit_test_##s##_##n); \
	} \
	static void s##_##n(void)

#define UNIT_CHECK(fatal, ok, what, ...) \
	((ok) ? (void)0 \
	      : unit_failed(fatal, __FILE__, __LINE__, what, " " __VA_ARGS__))

#define cr_assert(c, ...) UNIT_CHECK(true, c, #c, __VA_ARGS__)
#define cr_expect(c, ...) UNIT_CHECK(false, c, #c, __VA_ARGS__)
#define cr_assert_not(c, ...) UNIT_CHECK(true, !(c), "not " #c, __VA_ARGS__)
#define cr_expect_not(c, ...) UNIT_CHECK(false, !(c), "not " #c, __VA_ARGS__)
#define cr_assert_fail(...) UNIT_CHECK(true, false, "fail", __VA_ARGS__)
#define UNIT_OP(fatal, a, op, b, ...) \
	UNIT_CHECK(fatal, (a)op(b), #a " " #op " " #b, __VA_ARGS__)
#define cr_assert_eq(a, b, ...) UNIT_OP(true, a, ==, b, __VA_ARGS__)
#define cr_expect_eq(a, b, ...) UNIT_OP(false, a, ==, b, __VA_ARGS__)
#define cr_assert_neq(a, b, ...) UNIT_OP(true, a, !=, b, __VA_ARGS__)
#define cr_expect_neq(a, b, ...) UNIT_OP(false, a, !=, b, __VA_ARGS__)
#define cr_assert_gt(a, b, ...) UNIT_OP(true, a, >, b, __VA_ARGS__)
#define cr_expect_gt(a, b, ...) UNIT_OP(false, a, >, b, __VA_ARGS__)
#define cr_assert_lt(a, b, ...) UNIT_OP(true, a, <, b, __VA_ARGS__)
#define cr_expect_lt(a, b, ...) UNIT_OP(false, a, <, b, __VA_ARGS__)
#define cr_assert_geq(a, b, ...) UNIT_OP(true, a, >=, b, __VA_ARGS__)
#define cr_expect_geq(a, b, ...) UNIT_OP(false, a, >=, b, __VA_ARGS__)
#define cr_assert_leq(a, b, ...) UNIT_OP(true, a, <=, b, __VA_ARGS__)
#define cr_expect_leq(a, b, ...) UNIT_OP(false, a, <=, b, __VA_ARGS__)
#define cr_assert_null(p, ...) \
	UNIT_CHECK(true, !(p), #p " is null", __VA_ARGS__)
#define cr_expect_null(p, ...) \
	UNIT_CHECK(false, !(p), #p " is null", __VA_ARGS__)
#define cr_skip(why) unit_skip(why)
#define cr_expect_float_eq(a, b, most, ...) \
	UNIT_CHECK(false, (a) - (b) <= (most) && (b) - (a) <= (most), \
		   #a " is " #b, __VA_ARGS__)
#define cr_assert_not_null(p, ...) \
	UNIT_CHECK(true, p, #p " not null", __VA_ARGS__)
#define cr_expect_not_null(p, ...) \
	UNIT_CHECK(false, p, #p " not null", __VA_ARGS__)
#define UNIT_STR(fatal, a, b, ...) \
	UNIT_CHECK(fatal, strcmp(a, b) == 0, #a " is " #b, __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...) UNIT_STR(true, a, b, __VA_ARGS__)
#define cr_expect_str_eq(a, b, ...) UNIT_STR(false, a, b, __VA_ARGS__)
#define cr_expect_str_neq(a, b, ...) \
	UNIT_CHECK(false, strcmp(a, b) != 0, #a " is not " #b, __VA_ARGS__)
#define cr_assert_str_empty(a, ...) UNIT_STR(true, a, "", __VA_ARGS__)
#define cr_expect_str_empty(a, ...) UNIT_STR(false, a, "", __VA_ARGS__)
#define cr_assert_arr_eq(a, b, n, ...) \
	UNIT_CHECK(true, memcmp(a, b, n) == 0, #a " is " #b, __VA_ARGS__)
#define cr_expect_arr_eq(a, b, n, ...) \
	UNIT_CHECK(false, memcmp(a, b, n) == 0, #a " is " #b, __VA_ARGS__)

#endif
