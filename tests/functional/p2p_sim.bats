#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The simulator: small swarms keep their bounds, and never beat what no scheme can.

bats_require_minimum_version 1.5.0
sim=${BOOTSEER_BUILD:?}/bench/p2p-sim

# figure NAME: of the last run.
figure() { awk -v name="$1" '$1 == name { print $2 }' <<<"$output"; }

# holds A OP B: compare numbers.
holds() { awk -v a="$1" -v b="$3" "BEGIN { exit !(a $2 b) }"; }

@test "a seed gives the same run again" {
	run -0 "$sim" nodes=16 seed=7
	first=$output
	run -0 "$sim" nodes=16 seed=7
	[ "$output" = "$first" ]
	run -0 "$sim" nodes=16 seed=8
	[ "$output" != "$first" ]
}

@test "16 and 64 nodes finish close to the bound, and read the origin once" {
	for n in 16 64; do
		run -0 "$sim" nodes="$n" pieces=400
		[ "$(figure full_nodes)" = "$n" ]
		holds "$(figure full_ratio)" ">=" 1
		holds "$(figure hot_ratio)" ">=" 1
		holds "$(figure full_ratio)" "<=" 1.30
		holds "$(figure full_max_by_median)" "<=" 1.10
		holds "$(figure origin_copies)" ">=" 1
		holds "$(figure origin_copies)" "<=" 1.05
	done
}

@test "without a tracker the origin is read about once" {
	for n in 16 32; do
		run -0 "$sim" nodes="$n" pieces=400 kill_tracker=1
		echo "$output"
		holds "$(figure origin_copies)" "<=" 1.1
		run -0 "$sim" nodes="$n" pieces=400 no_tracker=1
		echo "$output"
		holds "$(figure origin_copies)" "<=" 1.3
	done
}

@test "all finish whatever goes wrong" {
	for what in kill_tracker=1 no_tracker=1 kill_origin=1 join=10; do
		run -0 "$sim" nodes=16 pieces=200 "$what" give_up=300
		echo "$what: $output"
		[ "$(figure full_nodes)" = 16 ]
	done
	# The slow one itself has no time to.
	run -0 "$sim" nodes=16 pieces=200 slow=1 give_up=100
	[ "$(figure full_nodes)" -ge 15 ]
}

@test "what cannot be simulated is said" {
	run -2 "$sim" nodes=0
	run -2 "$sim" nonsense=1
	run -2 "$sim" nodes=x
}

@test "a job of the paper's sizes starts in what the store's link takes" {
	run -0 "$BATS_TEST_DIRNAME/../../bench/job-sim" --quick --json "$BATS_TEST_TMPDIR/j"
	jq -e '[.goals[].met] == [true, true]' "$BATS_TEST_TMPDIR/j"
}
