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
	/* A socket of IPv6 may talk IPv4; one of IPv4 refuses the second call. */
	(void)setsockopt(fd, IPPROTO_IP, IP_TOS, &value, sizeof(value));
	(void)setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &value, sizeof(value));
}
