// SPDX-License-Identifier: Apache-2.0
/*
 * Stands in for Criterion in builds under ThreadSanitizer: Criterion's sandbox
 * looks for an address that nothing is mapped at, and under that sanitizer
 * every address is.  The part of its interface that our tests use, on plain
 * fork(); tests/unit/tsan/runner.c runs them.
 */
#ifndef BOOTSEER_TESTS_UNIT_TSAN_CRITERION_H
#define BOOTSEER_TESTS_UNIT_TSAN_CRITERION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tsan_options {
	double timeout; /* seconds */
	int signal;     /* that must end the test */
	void (*init)(void);
	void (*fini)(void);
};

struct tsan_test {
	struct tsan_test *next;
	const char *suite, *name;
	void (*run)(void);
	struct tsan_options options;
};

/* Called before main() by the constructors that the macros make. */
void tsan_add_test(struct tsan_test *t);
void tsan_add_suite(struct tsan_test *t);

/* Print where and what failed; `fatal` ends the test. */
void tsan_failed(bool fatal, const char *file, int line, const char *what,
		 const char *fmt, ...) __attribute__((format(printf, 5, 6)));

#define TestSuite(s, ...) \
	static struct tsan_test tsan_suite_##s = { \
		.suite = #s, .options = { __VA_ARGS__ } \
	}; \
	__attribute__((constructor)) static void tsan_enter_suite_##s(void) \
	{ \
		tsan_add_suite(&tsan_suite_##s); \
	} \
	struct tsan_options

#define Test(s, n, ...) \
	static void s##_##n(void); \
	static struct tsan_test tsan_test_##s##_##n = { \
		.suite = #s, \
		.name = #n, \
		.run = s##_##n, \
		.options = { __VA_ARGS__ } \
	}; \
	__attribute__((constructor)) static void tsan_enter_##s##_##n(void) \
	{ \
		tsan_add_test(&tsan_test_##s##_##n); \
	} \
	static void s##_##n(void)

#define TSAN_CHECK(fatal, ok, what, ...) \
	((ok) ? (void)0 \
	      : tsan_failed(fatal, __FILE__, __LINE__, what, "" __VA_ARGS__))

#define cr_assert(c, ...) TSAN_CHECK(true, c, #c, __VA_ARGS__)
#define cr_expect(c, ...) TSAN_CHECK(false, c, #c, __VA_ARGS__)
#define cr_assert_not(c, ...) TSAN_CHECK(true, !(c), "not " #c, __VA_ARGS__)
#define cr_expect_not(c, ...) TSAN_CHECK(false, !(c), "not " #c, __VA_ARGS__)
#define cr_assert_fail(...) TSAN_CHECK(true, false, "fail", __VA_ARGS__)
#define TSAN_OP(fatal, a, op, b, ...) \
	TSAN_CHECK(fatal, (a)op(b), #a " " #op " " #b, __VA_ARGS__)
#define cr_assert_eq(a, b, ...) TSAN_OP(true, a, ==, b, __VA_ARGS__)
#define cr_expect_eq(a, b, ...) TSAN_OP(false, a, ==, b, __VA_ARGS__)
#define cr_assert_neq(a, b, ...) TSAN_OP(true, a, !=, b, __VA_ARGS__)
#define cr_expect_neq(a, b, ...) TSAN_OP(false, a, !=, b, __VA_ARGS__)
#define cr_assert_gt(a, b, ...) TSAN_OP(true, a, >, b, __VA_ARGS__)
#define cr_expect_gt(a, b, ...) TSAN_OP(false, a, >, b, __VA_ARGS__)
#define cr_assert_lt(a, b, ...) TSAN_OP(true, a, <, b, __VA_ARGS__)
#define cr_expect_lt(a, b, ...) TSAN_OP(false, a, <, b, __VA_ARGS__)
#define cr_assert_geq(a, b, ...) TSAN_OP(true, a, >=, b, __VA_ARGS__)
#define cr_expect_geq(a, b, ...) TSAN_OP(false, a, >=, b, __VA_ARGS__)
#define cr_assert_leq(a, b, ...) TSAN_OP(true, a, <=, b, __VA_ARGS__)
#define cr_expect_leq(a, b, ...) TSAN_OP(false, a, <=, b, __VA_ARGS__)
#define cr_assert_null(p, ...) \
	TSAN_CHECK(true, !(p), #p " is null", __VA_ARGS__)
#define cr_expect_null(p, ...) \
	TSAN_CHECK(false, !(p), #p " is null", __VA_ARGS__)
#define cr_assert_not_null(p, ...) \
	TSAN_CHECK(true, p, #p " not null", __VA_ARGS__)
#define cr_expect_not_null(p, ...) \
	TSAN_CHECK(false, p, #p " not null", __VA_ARGS__)
#define TSAN_STR(fatal, a, b, ...) \
	TSAN_CHECK(fatal, strcmp(a, b) == 0, #a " is " #b, __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...) TSAN_STR(true, a, b, __VA_ARGS__)
#define cr_expect_str_eq(a, b, ...) TSAN_STR(false, a, b, __VA_ARGS__)
#define cr_expect_str_neq(a, b, ...) \
	TSAN_CHECK(false, strcmp(a, b) != 0, #a " is not " #b, __VA_ARGS__)
#define cr_assert_str_empty(a, ...) TSAN_STR(true, a, "", __VA_ARGS__)
#define cr_expect_str_empty(a, ...) TSAN_STR(false, a, "", __VA_ARGS__)
#define cr_assert_arr_eq(a, b, n, ...) \
	TSAN_CHECK(true, memcmp(a, b, n) == 0, #a " is " #b, __VA_ARGS__)
#define cr_expect_arr_eq(a, b, n, ...) \
	TSAN_CHECK(false, memcmp(a, b, n) == 0, #a " is " #b, __VA_ARGS__)

#endif
