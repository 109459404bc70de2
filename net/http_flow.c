// SPDX-License-Identifier: Apache-2.0
/*
 * Sets the receive window of a connection. The window that keeps a link busy without a queue is
 * the amount that arrives in a round trip; anything more waits in a queue. So the window is set
 * to the amount that arrives in a round trip plus QUEUE_US. While the link is not busy, this
 * makes the window grow; when it is, the queue has the allowed length, however many connections
 * share the link.
 *
 * On long routes the kernel sets the windows: growing would take too many round trips there, and
 * a queue is a small part of what a reader waits.
 */
#include "net/http_flow.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>

#include "common/clock.h"

#define QUEUE_US 4000u
#define LONG_US 10000u
#define INTERVAL_NS 10000000LL
#define WINDOW_FIRST (64u << 10)
#define WINDOW_MIN (12u << 10) /* fewer segments would wait for delayed acks */
#define SEGMENTS_MIN 8u
#define WINDOW_MAX (16u << 20)
#define WINDOW_WAIT 1u /* smallest the kernel allows, less than a segment */
#define US_PER_S 1000000u

static void set_clamp(struct http_flow *f, uint32_t clamp)
{
	int value = (int)clamp;

	if (clamp == f->clamp)
		return;
	/* If it fails, bulk only takes more of the link. */
	(void)setsockopt(f->fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, &value,
			 sizeof(value));
	f->clamp = clamp;
}

/* Ask the kernel for its measured round trip and segment size; 0 where it has
 * none. */
static void http_flow_look(int fd, uint32_t *ret_rtt_us, uint32_t *ret_segment)
{
	struct tcp_info info = { .tcpi_min_rtt = 0 };
	socklen_t len = sizeof(info);

	*ret_rtt_us = *ret_segment = 0;
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
		return;
	*ret_segment = info.tcpi_rcv_mss;
	if (info.tcpi_min_rtt != ~0u)
		*ret_rtt_us = info.tcpi_min_rtt;
}

uint32_t http_flow_window(uint64_t bytes, int64_t ns, uint32_t rtt_us)
{
	uint64_t rate = bytes * (uint64_t)NS_PER_S / (uint64_t)(ns ? ns : 1);
	/* Grow by at least a quarter in each interval. */
	uint32_t queue_us = rtt_us / 4 > QUEUE_US ? rtt_us / 4 : QUEUE_US;
	uint64_t window = rate * (rtt_us + queue_us) / US_PER_S;

	if (window < WINDOW_MIN)
		window = WINDOW_MIN;
	return window > WINDOW_MAX ? WINDOW_MAX : (uint32_t)window;
}

/* Adapt the window at intervals that are long enough to even out bursts: of the network,
 * which come once in a round trip, and of this thread, which may have waited for a CPU. */
static void http_flow_adapt(struct http_flow *f, int64_t now)
{
	int64_t ns = now - f->since_ns;
	uint32_t rtt_us, segment;

	if (ns < INTERVAL_NS)
		return;
	http_flow_look(f->fd, &rtt_us, &segment);
	if (ns < 2000LL * rtt_us)
		return;
	f->window = http_flow_window(f->bytes, ns, rtt_us);
	/* With large segments (64 KiB within a machine) a window of few segments would wait
	 * for timers. */
	if (f->window / SEGMENTS_MIN < segment)
		f->window = segment * SEGMENTS_MIN;
	f->since_ns = now;
	f->bytes = 0;
}

void http_flow_use(struct http_flow *f, int fd)
{
	*f = (struct http_flow){ .fd = fd, .window = WINDOW_FIRST };
}

void http_flow_pause(struct http_flow *f)
{
	f->since_ns = 0;
}

void http_flow_took(struct http_flow *f, size_t n, struct pace *pace)
{
	int64_t now = clock_now_ns();

	if (f->fd < 0)
		return;
	pace_moves(pace);
	if (!f->clamp) {
		uint32_t rtt_us, segment;

		/* By now the kernel has measured the handshake and the request. */
		http_flow_look(f->fd, &rtt_us, &segment);
		f->is_long = rtt_us >= LONG_US;
	}
	if (f->is_long) {
		if (pace->level(pace) == PACE_WAIT)
			pace->wait(pace);
		return;
	}
	f->bytes += n;
	if (pace->level(pace) == PACE_WAIT) {
		set_clamp(f, WINDOW_WAIT);
		pace->wait(pace);
		f->since_ns = 0;
	} else if (!f->since_ns) {
		f->since_ns = now;
		f->bytes = 0;
	} else {
		http_flow_adapt(f, now);
	}
	set_clamp(f, f->window);
}
