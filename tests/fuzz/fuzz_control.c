// SPDX-License-Identifier: Apache-2.0
/* Bytes of the control socket, read as request, reply and answer. */
#include "net/control.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const char *line = (const char *)data;
	struct control_request r;
	struct error err = ERROR_INIT;
	struct control_answer answer;
	AUTO_BUF text = BUF_INIT;
	json_t *result = NULL;

	if (control_request_parse(line, len, &r, &err) == 0) {
		AUTO_BUF again = BUF_INIT;

		if (control_request_format(r.method, r.params, &again, &err))
			(void)!again.len;
		control_request_fini(&r);
	}
	if (control_reply_parse(line, len, &result, &err) == 0)
		json_decref(result);
	if (control_call_parse("/v1/x", line, len, &r, &err) == 0)
		control_request_fini(&r);
	/* As the client has it, with a NUL behind. */
	if (len && buf_append(&text, data, len) == 0 &&
	    control_answer_parse(text.data, text.len, &answer, &err) == 1 &&
	    answer.head_len + answer.body_len > len)
		__builtin_trap();
	return 0;
}
