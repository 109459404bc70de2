#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A minute of the soak (tests/soak/kills.bats), with seeds that stay the same;
# and that the soak finds what it is there to find.

bats_require_minimum_version 1.5.0
load ../wait.bash

kills=$BATS_TEST_DIRNAME/../soak/kills/kills.py

setup() { T=$BATS_TEST_TMPDIR; }

soak() { # SEED KILLS [OPTION...]
	local seed=$1 n=$2

	shift 2
	"$kills" --build "${BOOTSEER_BUILD:?}" --seed "$seed" --kills "$n" \
		--json "$T/json" "$@"
}

@test "random kills and damage: no wrong byte, no zeros, no failure that is not declared" {
	local seed

	for seed in 11 12; do
		soak "$seed" 12 --images 4
		[ "$(jq .kills "$T/json")" -ge 12 ]
		[ "$(jq .reads "$T/json")" -gt 1000 ]
		[ "$(jq '.wrong + .zeros + .undeclared + .stuck' "$T/json")" -eq 0 ]
	done
}

@test "the soak tells wrong bytes, zeros and failures apart and ends with 1" {
	local what

	for what in wrong zeros undeclared; do
		run -1 soak 1 3 --images 1 --break "$what"
		[ "$(jq ".$what" "$T/json")" -gt 0 ]
		[[ $output == *"repeat with: --seed 1"* ]]
	done
}

@test "the soak leaves nothing behind, also when it is killed" {
	local pid folder rc=0

	setsid "$kills" --build "$BOOTSEER_BUILD" --seed 1 --images 1 \
		--verbose >"$T/out" 2>&1 3>&- &
	pid=$!
	# Its daemons run then, and a mount of theirs is there.
	wait_for grep -q '^[0-9.]* mounted_' "$T/out"
	folder=$(head -n 1 "$T/out")
	[ -d "$folder" ]
	kill "$pid"
	wait "$pid" || rc=$?
	[ "$rc" -eq 143 ]
	[ ! -e "$folder" ]
	run ! pgrep -f "$folder"
	run ! grep "$folder" /proc/self/mountinfo
}
