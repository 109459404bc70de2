#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Random kills of ranks, mounts and the store's server, stops of mounts and cut links, while ranks of
# three nodes save together, and read what they saved: docs/testing.md, "Long runs". BOOTSEER_KILLS
# says how many (500, a half with a bucket), BOOTSEER_SEED where to begin (else by the clock).

bats_require_minimum_version 1.5.0

soak() # [OPTION...]
{
	local out=$BATS_TEST_TMPDIR/out seed=${BOOTSEER_SEED-}

	[ "$seed" ] || seed=$(date +%s)
	"$BATS_TEST_DIRNAME/kills/save_kills.py" --build "${BOOTSEER_BUILD:?}" --seed "$seed" \
		--kills $((${BOOTSEER_KILLS:-500} / 2)) "$@" >"$out" 2>"$out.err" || {
		echo "seed $seed"
		cat "$out.err" "$out"
		return 1
	}
	sed "s/^/# seed $seed: /" "$out" >&3
}

@test "kills in saves and loads of ranks leave each step whole or not there, and each future says which" {
	soak
}

@test "so it is where the store is a bucket, whose server is killed, too" {
	local s3

	s3=$("$BATS_TEST_DIRNAME/../stores/build" versitygw)
	soak --s3 "$s3/versitygw"
}
