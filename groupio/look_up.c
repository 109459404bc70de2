// SPDX-License-Identifier: Apache-2.0
#include "groupio/look_up.h"

#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/thread.h"

enum look_up_state { LOOK_UP_RUNS, LOOK_UP_OVER, LOOK_UP_LEFT };

struct look_up {
	char host[256], port[8];
	/* Holds an enum look_up_state. Of the two sides, the second to change it frees the
	 * look-up. */
	atomic_int state;
	/* Set when the look-up is over: */
	int rc;
	struct sockaddr_storage found;
	socklen_t found_len;
};

static void *look_up_main(void *arg)
{
	struct look_up *l = arg;
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
					.ai_flags = AI_ADDRCONFIG |
						    AI_NUMERICSERV };
	struct addrinfo *found = NULL;

	l->rc = getaddrinfo(l->host, l->port, &hints, &found);
	if (l->rc == 0) {
		memcpy(&l->found, found->ai_addr, found->ai_addrlen);
		l->found_len = found->ai_addrlen;
		freeaddrinfo(found);
	}
	if (atomic_exchange(&l->state, LOOK_UP_OVER) == LOOK_UP_LEFT)
		free(l);
	return NULL;
}

int look_up_start(const char *host, const char *port, struct look_up **ret,
		  struct error *err)
{
	struct look_up *l = calloc(1, sizeof(*l));
	struct thread t;
	int rc;

	if (!l)
		return error_nomem(err);
	(void)snprintf(l->host, sizeof(l->host), "%s", host);
	(void)snprintf(l->port, sizeof(l->port), "%s", port);
	rc = thread_start(&t, look_up_main, l, err);
	if (rc < 0) {
		free(l);
		return rc;
	}
	thread_leave(&t);
	*ret = l;
	return 0;
}

bool look_up_is_over(const struct look_up *l)
{
	return atomic_load(&l->state) == LOOK_UP_OVER;
}

int look_up_take(struct look_up *l, struct sockaddr_storage *ret,
		 socklen_t *ret_len)
{
	const int rc = l->rc;

	*ret = l->found;
	*ret_len = l->found_len;
	free(l);
	return rc;
}

void look_up_leave(struct look_up *l)
{
	if (l && atomic_exchange(&l->state, LOOK_UP_LEFT) == LOOK_UP_OVER)
		free(l);
}
