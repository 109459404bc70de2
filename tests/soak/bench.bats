#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Benchmarks as a whole, each for a minute: that they measure, and leave nothing. What they have
# in common, and lazy-start, is in tests/functional/bench.bats; no fault of the product was seen
# by these alone.

bats_require_minimum_version 1.5.0

setup()
{
	top=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	export BOOTSEER_CACHE=$BATS_FILE_TMPDIR/cache
	export BOOTSEER_BENCH_TMP=$BATS_TEST_TMPDIR
}

@test "the questions of a pull are timed and counted, of another build beside it" {
	BOOTSEER_BEFORE=$BOOTSEER_BUILD "$top/bench/pull" --quick --rounds 1 \
		--json "$BATS_TEST_TMPDIR/r"
	jq -e '[.samples[] | select(.series | test("requests")) |
		[.variant, .value]] | length == 4 and (map(.[1]) | min) > 4 and
		(map(.[0]) | unique) == ["before", "now"]' \
		"$BATS_TEST_TMPDIR/r"
}

@test "a start's account of its processor time has every process of it" {
	"$top/bench/start-cpu" --quick --json "$BATS_TEST_TMPDIR/r"
	# All of a start is two processes' at least, and some of it the kernel's.
	jq -e '[.samples[] | select(.variant == "bootseer-trace" and .value > 0 and
		(.series | test("CPU: .*: all"))) | .series | split(": ")[2]] |
		contains(["container", "node", "runtime"])' "$BATS_TEST_TMPDIR/r"
	jq -e '[.goals[] | select(.name | test("T\\*\\*"))] | length > 0' \
		"$BATS_TEST_TMPDIR/r"
}

@test "nodes in namespaces exchange an image and start it, and leave nothing" {
	"$top/bench/p2p" --quick --only "peers direct" --json "$BATS_TEST_TMPDIR/p"
	# A machine that is busy makes a run void, which is said.
	jq -e '[.samples[] | select((.series | startswith("4 nodes, base: ")) and
		(.series | test("to full, p99|void$")) and
		(.variant != "bound")) | .variant] | sort == ["direct", "peers"]' \
		"$BATS_TEST_TMPDIR/p"
	"$top/bench/lazy-start" --nodes "1 2" --quick --json "$BATS_TEST_TMPDIR/l"
	jq -e '[.samples[] | select(.series == "2 nodes: time to ready, max")
		| .variant] | sort == ["lazy", "peers"]' "$BATS_TEST_TMPDIR/l"
	[ -z "$(findmnt -rno TARGET | grep -F "$BATS_TEST_TMPDIR/bench.")" ]
	[ -z "$(pgrep -f "$BATS_TEST_TMPDIR/bench[.]")" ]
}
