// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/convert/layer_type.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

TestSuite(layer_type, .timeout = 30);

#define ENCRYPTED "application/vnd.oci.image.layer.v1.tar+gzip+encrypted"
#define KEYS "org.opencontainers.image.enc.keys."

Test(layer_type, names_the_kinds_of_keys_of_a_layer_that_is_encrypted)
{
	static const struct {
		const char *annotations;
		const char *kinds;
	} cases[] = {
		{ NULL, "unknown" },
		{ "{\"org.opencontainers.image.enc.pubopts\":\"e30=\"}",
		  "unknown" },
		{ "{\"" KEYS "jwe\":\"YQ==\"}", "jwe" },
		{ "{\"" KEYS "pgp\":\"YQ==\",\"" KEYS
		  "provider.vault\":\"YQ==,Yg==\"}",
		  "pgp, provider.vault" },
		/* An untrusted text must not reach a terminal unescaped. */
		{ "{\"" KEYS "a\\u001b[2J\\nb\":\"YQ==\"}", "a\\x1b[2J\\x0ab" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct oci_descriptor d = {
			.annotations = (char *)(uintptr_t)cases[i].annotations
		};
		struct error err = ERROR_INIT;
		char want[256];

		strcpy(d.media_type, ENCRYPTED);
		snprintf(want, sizeof(want),
			 "it is encrypted (" ENCRYPTED
			 ") for a key of the kind %s: ",
			 cases[i].kinds);
		cr_assert_eq(layer_type_check(&d, &err), -ENOTSUP);
		cr_expect(strncmp(err.msg, want, strlen(want)) == 0, "%s",
			  err.msg);
		cr_expect(strstr(err.msg, "skopeo copy --decryption-key"), "%s",
			  err.msg);
	}
}
