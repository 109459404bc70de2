#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Peers in namespaces of their own of which some are slow, are killed, come late or lose their
# tracker or registry. The swarm's units and tests/functional/p2p.bats have each by itself.

bats_require_minimum_version 1.5.0

setup()
{
	top=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	export BOOTSEER_CACHE=$BATS_TEST_TMPDIR/cache
	export BOOTSEER_BENCH_TMP=$BATS_TEST_TMPDIR
}

@test "nodes in every kind of trouble have the image in the end" {
	"$top/bench/p2p" --quick --only peers --node-rate 8mbit --origin-rate 32mbit \
		--scenarios "slow kill tracker origin join delay" \
		--json "$BATS_TEST_TMPDIR/p"
	jq -e '[.samples[].series |
		capture("^4 nodes, (?<trouble>.*): (time to full, p99|void)$") |
		.trouble] | sort ==
		["delay", "join", "kill", "origin", "slow", "tracker"]' \
		"$BATS_TEST_TMPDIR/p"
	[ -z "$(pgrep -f "$BATS_TEST_TMPDIR/bench[.]")" ]
}
