#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Signatures that cosign itself makes, in a real registry. What it writes is also a
# golden file of tests/unit/snapshotter/test_trust.c.

bats_require_minimum_version 1.5.0

. "$BATS_TEST_DIRNAME/../containerd/lib.bash"

setup_file() {
	local cosign

	cosign=$("$BATS_TEST_DIRNAME/build" cosign)
	export PATH=$cosign:$BOOTSEER_BUILD/cli:$BOOTSEER_BUILD/tests/functional:$PATH
	make_images "$BATS_FILE_TMPDIR" >/dev/null
}

setup() { containerd_setup; }
teardown() { containerd_teardown; }

@test "what cosign signed by a key is taken, in its repository only" {
	local app

	export COSIGN_PASSWORD=x no_proxy='*'
	push "$I" lazy
	app=docker://$REGISTRY/lazy:1
	bootseer image convert --no-sign --plain-http "$app" "$app"
	(cd "$T" && cosign generate-key-pair)
	cosign sign --key "$T/cosign.key" --tlog-upload=false \
		--allow-http-registry -y "$REGISTRY/lazy@$(bootseer image \
		inspect --plain-http "$app" | jq -r .artifact)"
	run -0 trust-check "$app" "$T/cosign.pub" signed -
	[[ $output == "signed sha256:"*" cosign" ]]
	run ! trust-check "$app" "$T/cosign.pub" signed reg.example/other
	[[ $output == *reg.example/other* ]]
	run ! trust-check "$app" "$T/cosign.pub" verified -
	bootseer image rm --plain-http "$app"
	run -0 curl -sf "http://$REGISTRY/v2/lazy/tags/list"
	[[ $output != *.sig* ]]
}
