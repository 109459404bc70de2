#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Random kills of bootseerd, its holder and bootseer-snapshotter under load:
# docs/testing.md, "Long runs". BOOTSEER_KILLS says how many (1,000),
# BOOTSEER_SEED where to begin (else by the clock), BOOTSEER_JSON where the
# figures go.

bats_require_minimum_version 1.5.0

@test "a thousand kills: no wrong byte, no zeros, no failure that is not declared" {
	"$BATS_TEST_DIRNAME/kills/kills.py" --build "${BOOTSEER_BUILD:?}" \
		--kills "${BOOTSEER_KILLS:-1000}" \
		--seed "${BOOTSEER_SEED:-$(date +%s)}" \
		--json "${BOOTSEER_JSON:-$BATS_TEST_TMPDIR/kills.json}" \
		>"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" || {
		cat "$BATS_TEST_TMPDIR/err" "$BATS_TEST_TMPDIR/out"
		return 1
	}
	tail -n 1 "$BATS_TEST_TMPDIR/out" | sed 's/^/# /' >&3
}
