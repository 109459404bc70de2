#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A few rounds of tests/soak/restarts.bats.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../containerd/lib.bash"
. "$BATS_TEST_DIRNAME/../containerd/restarts.bash"

setup_file() {
	make_images "$BATS_FILE_TMPDIR" >/dev/null
	"$bootseer" key new "$BATS_FILE_TMPDIR/key" >/dev/null
}
setup() { containerd_setup; }
teardown() { containerd_teardown; }

@test "pulls stay lazy and containers start while bootseerd is killed and run again" {
	rounds 5
	[ "$(wc -l <"$T/kills")" -ge 5 ]
}
