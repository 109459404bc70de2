// SPDX-License-Identifier: Apache-2.0
/* Hosts of --group whose names a server does not answer for. */
#include "groupio/look_up.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "groupio/group_priv.h"

#define SILENT "silent.example"
#define LONG_NS (60 * NS_PER_S)

static atomic_uint n_asked, n_told;
static atomic_bool is_told;

static void look_up_nap(void)
{
	struct timespec t = { .tv_nsec = NS_PER_MS };

	(void)nanosleep(&t, NULL); /* deadline poll */
}

static void wait_count(atomic_uint *n, unsigned int least)
{
	const int64_t until_ns = clock_now_ns() + LONG_NS;

	while (atomic_load(n) < least) {
		cr_assert_lt(clock_now_ns(), until_ns);
		look_up_nap();
	}
}

/* The linker's names for a call that is wrapped. */
int __real_getaddrinfo(const char *host, const char *port,
		       const struct addrinfo *hints, struct addrinfo **ret);
int __wrap_getaddrinfo(const char *host, const char *port,
		       const struct addrinfo *hints, struct addrinfo **ret);

int __wrap_getaddrinfo(const char *host, const char *port,
		       const struct addrinfo *hints, struct addrinfo **ret)
{
	const int64_t until_ns = clock_now_ns() + LONG_NS;

	if (strcmp(host, SILENT) != 0)
		return __real_getaddrinfo(host, port, hints, ret);
	atomic_fetch_add(&n_asked, 1);
	while (!atomic_load(&is_told) && clock_now_ns() < until_ns)
		look_up_nap();
	atomic_fetch_add(&n_told, 1);
	return EAI_AGAIN;
}

static void silent_setup(void)
{
	atomic_store(&n_asked, 0);
	atomic_store(&n_told, 0);
	atomic_store(&is_told, false);
}

TestSuite(look_up, .init = silent_setup, .timeout = 240);

static struct look_up *begin_look_up(const char *host)
{
	struct look_up *l = NULL;
	struct error err = ERROR_INIT;

	cr_assert_eq(look_up_start(host, "29600", &l, &err), 0, "%s", err.msg);
	return l;
}

static int end_look_up(struct look_up *l, struct sockaddr_storage *ret)
{
	const int64_t until_ns = clock_now_ns() + LONG_NS;
	socklen_t len;

	while (!look_up_is_over(l)) {
		cr_assert_lt(clock_now_ns(), until_ns);
		look_up_nap();
	}
	return look_up_take(l, ret, &len);
}

Test(look_up, has_the_address_of_a_host_and_why_there_is_none)
{
	struct sockaddr_storage a;
	const struct sockaddr_in *in = (const struct sockaddr_in *)&a;
	struct look_up *l = begin_look_up(SILENT);

	cr_expect_eq(end_look_up(begin_look_up("127.0.0.1"), &a), 0);
	cr_expect_eq(a.ss_family, AF_INET);
	cr_expect_eq(ntohs(in->sin_port), 29600);
	cr_expect_eq(ntohl(in->sin_addr.s_addr), INADDR_LOOPBACK);
	wait_count(&n_asked, 1);
	cr_expect_not(look_up_is_over(l));
	atomic_store(&is_told, true);
	cr_expect_eq(end_look_up(l, &a), EAI_AGAIN);
}

/* Before its thread has come back, and after. */
Test(look_up, is_left_at_any_time)
{
	const int64_t until_ns = clock_now_ns() + LONG_NS;
	struct look_up *l = begin_look_up(SILENT);

	wait_count(&n_asked, 1);
	look_up_leave(l);
	atomic_store(&is_told, true);
	wait_count(&n_told, 1);
	l = begin_look_up(SILENT);
	while (!look_up_is_over(l)) {
		cr_assert_lt(clock_now_ns(), until_ns);
		look_up_nap();
	}
	look_up_leave(l);
	look_up_leave(NULL);
}

Test(look_up, of_a_silent_server_holds_no_group_up_that_ends)
{
	static const char secret[] = "a secret of thirty-two bytes or more";
	char key[] = "/tmp/bootseer-look-up.XXXXXX";
	const struct group_config cfg = { .key_file = key,
					  .places = SILENT ":29600",
					  .memory = 8 * GROUP_SLOT,
					  .fetches = 4,
					  .wait_ns = NS_PER_S };
	struct error err = ERROR_INIT;
	struct group *g = NULL;
	int fd = mkstemp(key);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, secret, sizeof(secret)), sizeof(secret));
	cr_assert(fchmod(fd, 0600) == 0 && close(fd) == 0);
	cr_assert_eq(group_new(&cfg, &g, &err), 0, "%s", err.msg);
	wait_count(&n_asked, 1);
	group_free(g);
	cr_expect_eq(atomic_load(&n_told), 0);
	atomic_store(&is_told, true);
	wait_count(&n_told, 1);
	cr_expect_eq(unlink(key), 0);
}
