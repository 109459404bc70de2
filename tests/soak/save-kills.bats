#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Random kills of ranks and mounts, and stops of mounts, while ranks of three nodes save together:
# docs/testing.md, "Long runs". BOOTSEER_KILLS says how many (200), BOOTSEER_SEED where
# to begin (else by the clock).

bats_require_minimum_version 1.5.0

@test "kills in saves of ranks leave each step whole or not there, and each future says which" {
	local out=$BATS_TEST_TMPDIR/out

	"$BATS_TEST_DIRNAME/kills/save_kills.py" --build "${BOOTSEER_BUILD:?}" \
		--seed "${BOOTSEER_SEED:-$(date +%s)}" --kills "${BOOTSEER_KILLS:-200}" \
		>"$out" 2>"$out.err" || {
		cat "$out.err" "$out"
		return 1
	}
	sed 's/^/# /' "$out" >&3
}
