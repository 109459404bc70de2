// SPDX-License-Identifier: Apache-2.0
/*
 * A cable between two network interfaces that takes its time:
 *
 *	delay-link MS INTERFACE INTERFACE
 *
 * Every frame that arrives at one leaves at the other MS milliseconds later, in
 * order, with what the kernel left for the hardware to do (segments, checksums).
 * For kernels without netem.  A side holds at most QUEUE_BYTES; frames beyond that
 * are dropped, as a switch does.  "joined" is printed once it works; it ends by a
 * signal.
 */
#define _GNU_SOURCE /* ppoll */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define QUEUE_BYTES (64U << 20)
#define FRAME_MAX (1 << 17)
#define NS_PER_MS 1000000

struct frame {
	struct frame *next;
	int64_t due_ns;
	size_t size;
	char data[];
};

struct side {
	const char *name;
	int fd;
	/* Frames that will leave at this side. */
	struct frame *first, **last;
	size_t bytes;
};

static void die(const char *what)
{
	fprintf(stderr, "delay-link: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void side_open(struct side *s, const char *name)
{
	struct sockaddr_ll addr = { .sll_family = AF_PACKET,
				    .sll_protocol = htons(ETH_P_ALL),
				    .sll_ifindex = (int)if_nametoindex(name) };
	struct packet_mreq mreq = { .mr_ifindex = addr.sll_ifindex,
				    .mr_type = PACKET_MR_PROMISC };
	int on = 1, size = 32 << 20;

	*s = (struct side){ .name = name };
	s->last = &s->first;
	s->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (!addr.sll_ifindex || s->fd < 0 ||
	    setsockopt(s->fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) ||
	    setsockopt(s->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on,
		       sizeof(on)) ||
	    setsockopt(s->fd, SOL_SOCKET, SO_RCVBUFFORCE, &size,
		       sizeof(size)) ||
	    setsockopt(s->fd, SOL_SOCKET, SO_SNDBUFFORCE, &size,
		       sizeof(size)) ||
	    setsockopt(s->fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &mreq,
		       sizeof(mreq)) ||
	    bind(s->fd, (struct sockaddr *)&addr, sizeof(addr)))
		die(name);
}

/* Take the frames that have arrived at `from`, to leave at `to` after `delay_ns`. */
static void take(struct side *from, struct side *to, int64_t delay_ns)
{
	static char buf[FRAME_MAX];
	struct frame *f;
	ssize_t n;

	for (;;) {
		n = recv(from->fd, buf, sizeof(buf), MSG_DONTWAIT | MSG_TRUNC);
		if (n < 0) {
			if (errno == EAGAIN || errno == EINTR ||
			    errno == ENETDOWN)
				return;
			die(from->name);
		}
		if ((size_t)n > sizeof(buf) ||
		    to->bytes + (size_t)n > QUEUE_BYTES)
			continue;
		f = malloc(sizeof(*f) + (size_t)n);
		if (!f)
			die("memory");
		*f = (struct frame){ .due_ns = now_ns() + delay_ns,
				     .size = (size_t)n };
		memcpy(f->data, buf, (size_t)n);
		*to->last = f;
		to->last = &f->next;
		to->bytes += f->size;
	}
}

/* Send the frames that are due; returns when the next one is, or INT64_MAX. */
static int64_t give(struct side *s)
{
	struct frame *f;

	while ((f = s->first) && f->due_ns <= now_ns()) {
		/* Frames that the other end cannot take are lost, as on a cable. */
		if (send(s->fd, f->data, f->size, 0) < 0 && errno != ENOBUFS &&
		    errno != ENETDOWN && errno != EINTR && errno != EMSGSIZE)
			die(s->name);
		s->first = f->next;
		if (!s->first)
			s->last = &s->first;
		s->bytes -= f->size;
		free(f);
	}
	return f ? f->due_ns : INT64_MAX;
}

int main(int argc, char **argv)
{
	struct side sides[2];
	struct pollfd polls[2];
	double ms = argc == 4 ? strtod(argv[1], NULL) : 0;

	if (ms <= 0) {
		fprintf(stderr, "usage: delay-link MS INTERFACE INTERFACE\n");
		return 2;
	}
	for (int i = 0; i < 2; i++) {
		side_open(&sides[i], argv[2 + i]);
		polls[i] =
			(struct pollfd){ .fd = sides[i].fd, .events = POLLIN };
	}
	puts("joined");
	fflush(stdout);
	for (;;) {
		int64_t a = give(&sides[0]), b = give(&sides[1]);
		int64_t next = a < b ? a : b, wait = next - now_ns();
		struct timespec t = { .tv_sec = wait / 1000000000,
				      .tv_nsec = wait % 1000000000 };

		if (wait <= 0)
			continue;
		if (ppoll(polls, 2, next == INT64_MAX ? NULL : &t, NULL) < 0 &&
		    errno != EINTR)
			die("poll");
		for (int i = 0; i < 2; i++)
			take(&sides[i], &sides[!i], (int64_t)(ms * NS_PER_MS));
	}
}
