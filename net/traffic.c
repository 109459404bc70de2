// SPDX-License-Identifier: Apache-2.0
#include "net/traffic.h"

#include <netinet/in.h>
#include <sys/socket.h>

#define ECN_BITS 2 /* below the DSCP; TCP's own */

void traffic_mark(int fd, unsigned int dscp)
{
	const int value = (int)(dscp << ECN_BITS);

	if (!dscp)
		return;
	/* An IPv6 socket may carry IPv4, so set both; an IPv4 socket refuses the second. */
	(void)setsockopt(fd, IPPROTO_IP, IP_TOS, &value, sizeof(value));
	(void)setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &value, sizeof(value));
}
