// SPDX-License-Identifier: Apache-2.0
#include "p2p/net/net_addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

/* Parse a port: digits only, up to the end of the text. */
static bool parse_port(const char *s, unsigned int *ret)
{
	unsigned long v;
	char *end;

	if (*s < '0' || *s > '9')
		return false;
	errno = 0;
	v = strtoul(s, &end, 10);
	if (errno || *end || v > UINT16_MAX)
		return false;
	*ret = (unsigned int)v;
	return true;
}

int net_addr_parse(const char *text, struct sockaddr_storage *ret,
		   socklen_t *ret_len, struct error *err)
{
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN + 2];
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	unsigned int port;
	size_t n;

	if (!colon || !parse_port(colon + 1, &port))
		goto wrong;
	n = (size_t)(colon - text);
	if (n >= sizeof(host))
		goto wrong;
	memcpy(host, text, n);
	host[n] = '\0';
	memset(ret, 0, sizeof(*ret));
	if (n > 2 && host[0] == '[' && host[n - 1] == ']') {
		host[n - 1] = '\0';
		if (inet_pton(AF_INET6, host + 1, &v6.sin6_addr) != 1)
			goto wrong;
		v6.sin6_port = htons((uint16_t)port);
		memcpy(ret, &v6, sizeof(v6));
		*ret_len = sizeof(v6);
		return 0;
	}
	if (inet_pton(AF_INET, host, &v4.sin_addr) != 1)
		goto wrong;
	v4.sin_port = htons((uint16_t)port);
	memcpy(ret, &v4, sizeof(v4));
	*ret_len = sizeof(v4);
	return 0;
wrong:
	return error_set(err, EINVAL,
			 "'%s' is not an address and a port in digits, as "
			 "10.0.0.1:9740 or [fd00::1]:9740",
			 text);
}

static const struct sockaddr_in *as_v4(const struct sockaddr_storage *ss)
{
	return (const struct sockaddr_in *)(const void *)ss;
}

static const struct sockaddr_in6 *as_v6(const struct sockaddr_storage *ss)
{
	return (const struct sockaddr_in6 *)(const void *)ss;
}

void net_addr_format(const struct sockaddr_storage *ss, char *ret, size_t size)
{
	char host[INET6_ADDRSTRLEN] = "";
	bool v6 = ss->ss_family == AF_INET6;

	if (v6)
		(void)inet_ntop(AF_INET6, &as_v6(ss)->sin6_addr, host,
				sizeof(host));
	else
		(void)inet_ntop(AF_INET, &as_v4(ss)->sin_addr, host,
				sizeof(host));
	(void)snprintf(ret, size, v6 ? "[%s]:%u" : "%s:%u", host,
		       net_addr_port(ss));
}

unsigned int net_addr_port(const struct sockaddr_storage *ss)
{
	return ntohs(ss->ss_family == AF_INET6 ? as_v6(ss)->sin6_port
					       : as_v4(ss)->sin_port);
}

bool net_addr_same_host(const struct sockaddr_storage *a,
			const struct sockaddr_storage *b)
{
	if (a->ss_family != b->ss_family)
		return false;
	if (a->ss_family == AF_INET6)
		return memcmp(&as_v6(a)->sin6_addr, &as_v6(b)->sin6_addr,
			      sizeof(struct in6_addr)) == 0;
	return as_v4(a)->sin_addr.s_addr == as_v4(b)->sin_addr.s_addr;
}

bool net_addr_is_any(const struct sockaddr_storage *ss)
{
	if (ss->ss_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(&as_v6(ss)->sin6_addr);
	return as_v4(ss)->sin_addr.s_addr == htonl(INADDR_ANY);
}

bool net_addr_is_loopback(const struct sockaddr_storage *ss)
{
	if (ss->ss_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&as_v6(ss)->sin6_addr);
	return ntohl(as_v4(ss)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

static enum net_addr_kind kind_of_v4(uint32_t a)
{
	if (a >> 24 == IN_LOOPBACKNET)
		return NET_ADDR_LOOPBACK;
	if (a >> 16 == 0xa9fe)
		return NET_ADDR_LINK;
	return a >> 24 == 0 || a >> 28 >= 14 ? NET_ADDR_NOWHERE
					     : NET_ADDR_PLAIN;
}

enum net_addr_kind net_addr_kind(const struct sockaddr_storage *ss)
{
	const struct in6_addr *a = &as_v6(ss)->sin6_addr;
	uint32_t v4;

	if (ss->ss_family != AF_INET6)
		return kind_of_v4(ntohl(as_v4(ss)->sin_addr.s_addr));
	if (IN6_IS_ADDR_LOOPBACK(a))
		return NET_ADDR_LOOPBACK;
	if (IN6_IS_ADDR_LINKLOCAL(a))
		return NET_ADDR_LINK;
	if (IN6_IS_ADDR_MULTICAST(a) || IN6_IS_ADDR_UNSPECIFIED(a) ||
	    IN6_IS_ADDR_V4COMPAT(a))
		return NET_ADDR_NOWHERE;
	if (!IN6_IS_ADDR_V4MAPPED(a))
		return NET_ADDR_PLAIN;
	memcpy(&v4, &a->s6_addr[12], sizeof(v4));
	return kind_of_v4(ntohl(v4));
}

/* The kernel uses one of its own addresses as the source of packets to that same address. */
bool net_addr_is_own(const struct sockaddr_storage *ss, socklen_t len)
{
	AUTO_CLOSE int fd = socket(ss->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_storage from;
	socklen_t from_len = sizeof(from);

	return fd >= 0 &&
	       connect(fd, (const struct sockaddr *)(const void *)ss, len) ==
		       0 &&
	       getsockname(fd, (struct sockaddr *)(void *)&from, &from_len) ==
		       0 &&
	       net_addr_same_host(ss, &from);
}

void net_addr_set_port(struct sockaddr_storage *ss, unsigned int port)
{
	in_port_t p = htons((uint16_t)port);

	if (ss->ss_family == AF_INET6)
		((struct sockaddr_in6 *)(void *)ss)->sin6_port = p;
	else
		((struct sockaddr_in *)(void *)ss)->sin_port = p;
}
