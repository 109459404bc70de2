// SPDX-License-Identifier: Apache-2.0
#include "net/listen_address.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Check the port, since getaddrinfo() accepts 99999 and cuts it to 16 bits. */
static bool is_port(const char *text)
{
	size_t n = strspn(text, "0123456789");

	return n >= 1 && n <= 5 && !text[n] && strtoul(text, NULL, 10) <= 65535;
}

static int listen_address_refuse(const char *option, const char *text,
				 struct error *err)
{
	return error_set(err, EINVAL,
			 "%s '%.120s' is not ADDR:PORT: want an address in "
			 "digits and a port up to 65535, as 0.0.0.0:9720 or "
			 "[::]:9720",
			 option, text);
}

int listen_address_parse(const char *option, const char *text,
			 struct sockaddr_storage *ret, socklen_t *ret_len,
			 struct error *err)
{
	const struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
		.ai_socktype = SOCK_STREAM,
	};
	AUTO_FREE char *host = strdup(text);
	char *colon = host ? strrchr(host, ':') : NULL;
	struct addrinfo *found = NULL;
	char *name = host;
	size_t n;

	if (!host)
		return error_nomem(err);
	if (!colon || colon == host || !is_port(colon + 1))
		return listen_address_refuse(option, text, err);
	*colon = '\0';
	n = strlen(host);
	if (host[0] == '[' && host[n - 1] == ']') {
		host[n - 1] = '\0';
		name++;
	}
	if (getaddrinfo(name, colon + 1, &hints, &found) != 0)
		return listen_address_refuse(option, text, err);
	memcpy(ret, found->ai_addr, found->ai_addrlen);
	*ret_len = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}
