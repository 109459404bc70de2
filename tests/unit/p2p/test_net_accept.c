// SPDX-License-Identifier: Apache-2.0
/* Connections that come while descriptors are short. */
#include "net/listener.h"
#include "tests/unit/accepts.h"
#include "tests/unit/p2p/stranger.h"

TestSuite(net_accept, .timeout = 120);

/* A loop that spins would find no descriptor again and again at once. */
Test(net_accept, waits_while_descriptors_are_short_without_spinning)
{
	struct scene s;
	int64_t begun;

	begin(&s, 60000 * MS, 60000 * MS);
	s.control = call(&s);
	accepts_starve();
	begun = clock_now_ns();
	until(&s.all, atomic_load(&accepts_starved) >= 3);
	cr_expect_geq(clock_now_ns() - begun,
		      (atomic_load(&accepts_starved) - 1) * SHORTAGE_PAUSE_NS);
	accepts_feed();
	say(s.control, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 28);
	until(&s.all, stats(&s).handshakes_failed_total == 1);
	end(&s);
}
