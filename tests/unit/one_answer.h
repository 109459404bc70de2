// SPDX-License-Identifier: Apache-2.0
/* A server that takes one request and gives one answer, whatever was asked. */
#ifndef BOOTSEER_TESTS_UNIT_ONE_ANSWER_H
#define BOOTSEER_TESTS_UNIT_ONE_ANSWER_H

#include <pthread.h>

struct one_answer {
	int fd;
	char url[64];
	const char *json; /* its body; borrowed */
	pthread_t thread;
};

/* May be started again when it was ended. */
void one_answer_start(struct one_answer *s, const char *json);
/* The request came. */
void one_answer_end(struct one_answer *s);

#endif
