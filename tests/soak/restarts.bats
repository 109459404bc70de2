#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Pulls and starts by a real containerd while bootseerd is killed at random and run
# again: docs/testing.md, "Long runs". BOOTSEER_ROUNDS says how many (100).

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../containerd/lib.bash"
. "$BATS_TEST_DIRNAME/../containerd/restarts.bash"

setup_file() {
	make_images "$BATS_FILE_TMPDIR" >/dev/null
	"$bootseer" key new "$BATS_FILE_TMPDIR/key" >/dev/null
}
setup() { containerd_setup; }
teardown() { containerd_teardown; }

@test "a hundred rounds of pulls and starts under kills: all lazy, none failed" {
	rounds "${BOOTSEER_ROUNDS:-100}"
}
