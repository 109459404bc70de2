// SPDX-License-Identifier: Apache-2.0
/* Messages of the Snapshots and Diff services; the first byte says which. */
#include <stdbool.h>
#include <stdint.h>

#include "containerd-plugin/service_msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void create(const uint8_t *data, size_t size, bool is_commit)
{
	struct msg_create m = { .key = NULL };
	AUTO_BUF out = BUF_INIT;
	int rc = is_commit ? msg_commit_read(data, size, &m, NULL)
			   : msg_create_read(data, size, &m, NULL);

	/* What was read can be told as a snapshot. */
	if (rc == 0) {
		struct snapshot s = { .name = m.key,
				      .parent = m.parent,
				      .kind = SNAPSHOT_KIND_ACTIVE,
				      .labels = m.labels };

		if (msg_info_write(&s, &out, NULL) < 0 ||
		    msg_list_add(&s, &out, NULL) < 0)
			abort();
	}
	msg_create_fini(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct msg_update m = { .name = NULL };
	struct msg_apply apply = { .dir = NULL };
	AUTO_FREE char *key = NULL;
	int rc;

	if (size < 1)
		return 0;
	switch (*data % 6) {
	case 0:
		create(data + 1, size - 1, false);
		break;
	case 1:
		create(data + 1, size - 1, true);
		break;
	case 2:
		rc = msg_update_read(data + 1, size - 1, &m, NULL);
		(void)rc;
		break;
	case 3:
		rc = msg_list_read(data + 1, size - 1, &m, NULL);
		(void)rc;
		break;
	case 5:
		rc = msg_apply_read(data + 1, size - 1, &apply, NULL);
		(void)rc;
		break;
	default:
		rc = msg_key_read(data + 1, size - 1, &key, NULL);
		(void)rc;
		break;
	}
	msg_apply_fini(&apply);
	msg_update_fini(&m);
	return 0;
}
