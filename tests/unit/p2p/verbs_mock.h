// SPDX-License-Identifier: Apache-2.0
/*
 * A mock of libibverbs: devices, memory and reliable connections within this
 * process, and faults when told to.  It checks what a card checks (protection
 * domains, keys, ranges, states), carries READs out at once, and does nothing by
 * itself.  There is one, as there is one libibverbs.
 */
#ifndef BOOTSEER_TESTS_VERBS_MOCK_H
#define BOOTSEER_TESTS_VERBS_MOCK_H

#include <stdbool.h>

#include "p2p/rdma/verbs.h"

#define MOCK_DEVICES 3u

struct verbs_mock {
	unsigned int n_devices; /* mock0 has 10.0.0.1, mock1 10.0.0.2, ... */
	enum ibv_port_state port_state[MOCK_DEVICES];
	uint8_t link_layer;
	int max_cqe, max_pd;
	uint64_t max_mr_size;

	/* faults: an errno, after so many calls that work */
	int reg_mr, reg_mr_after;
	int create_qp, create_qp_after;
	int modify_qp, modify_qp_after;
	int post_send;
	/* What READs complete with instead of being carried out. */
	enum ibv_wc_status read_status;
	bool is_held; /* READs wait for verbs_mock_release() */
	bool is_mute; /* READs vanish */

	/* what there is */
	unsigned int n_qps, n_mrs, n_pds, n_cqs, n_contexts;
	unsigned int qps_most;
	uint64_t reads, signals;
};

extern struct verbs_mock verbs_mock;
extern const struct verbs_ops verbs_mock_ops;

/* As at first: two devices that work. */
void verbs_mock_reset(void);
/* Carry out the READs that were held. */
void verbs_mock_release(void);
/* Let every context hear of this; of all queue pairs when it is about one. */
void verbs_mock_event(enum ibv_event_type type);

#endif
