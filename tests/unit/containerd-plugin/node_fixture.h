// SPDX-License-Identifier: Apache-2.0
/* The fake bootseerd, in a folder that it notes its calls in. */
#ifndef BOOTSEER_TESTS_NODE_FIXTURE_H
#define BOOTSEER_TESTS_NODE_FIXTURE_H

extern char node_dir[64];
extern char node_sock[80];

/* Make the folder; fake_node_start() comes next, when its files are there. */
void fake_node_dir(void);
void fake_node_write(const char *name, const char *text);
void fake_node_start(void);
void fake_node_stop(void);
/* Remove the folder. */
void fake_node_remove(void);

#endif
