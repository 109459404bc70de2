// SPDX-License-Identifier: Apache-2.0
/* Signatures, lists of keys and repository patterns of strangers. */
#include <stdint.h>
#include <string.h>

#include "snapshotter/trust.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* RFC 8032, 7.1, TEST 1; what it signs is not in reach of a fuzzer. */
static const char public_pem[] =
	"uses: sign verify\n"
	"-----BEGIN PUBLIC KEY-----\n"
	"MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
	"-----END PUBLIC KEY-----\n";

static void try_list(const uint8_t *data, size_t size)
{
	AUTO(trust_keys) k = NULL;

	if (trust_keys_parse((const char *)data, size, &k, NULL) < 0)
		k = NULL;
	else if (k->n < 1 || k->n > TRUST_KEYS_MAX || !k->v[0].uses)
		abort();
}

static void try_pattern(const uint8_t *data, size_t size)
{
	char text[TRUST_PATTERN_MAX + 8];

	if (size >= sizeof(text))
		return;
	memcpy(text, data, size);
	text[size] = '\0';
	if (trust_pattern_check(text, NULL) == 0 &&
	    !trust_pattern_matches(text, text))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(trust_keys) k = NULL;
	struct trust_statement s = { .claim = TRUST_CLAIM_SIGNED };
	struct trust_query q = { .artifact = &s.artifact,
				 .subject = &s.subject,
				 .repository = "reg.example:5000/team/app",
				 .claim = TRUST_CLAIM_SIGNED };
	struct trust_result r;

	try_list(data, size);
	try_pattern(data, size);
	if (trust_keys_parse(public_pem, strlen(public_pem), &k, NULL) < 0)
		abort();
	if (trust_decode(data, size, &s, NULL) < 0 &&
	    !trust_is_cosign(data, size))
		return 0;
	/* Only the golden one is right. */
	if (trust_check(k, &q, data, size, s.not_before_s, NULL, &r, NULL) ==
		    0 &&
	    s.artifact.b[0] != 0xab)
		abort();
	return 0;
}
