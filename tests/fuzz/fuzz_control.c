// SPDX-License-Identifier: Apache-2.0
/* Lines of the control socket, read as request and as reply. */
#include "net/control.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const char *line = (const char *)data;
	struct control_request r;
	struct error err = ERROR_INIT;
	json_t *result = NULL;

	if (control_request_parse(line, len, &r, &err) == 0) {
		AUTO_BUF again = BUF_INIT;

		if (control_request_format(r.method, r.params, &again, &err))
			(void)!again.len;
		control_request_fini(&r);
	}
	if (control_reply_parse(line, len, &result, &err) == 0)
		json_decref(result);
	return 0;
}
