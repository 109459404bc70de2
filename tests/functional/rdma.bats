#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# RDMA by a real kernel: rdma-test runs once, in a VM with two Soft-RoCE devices,
# since the kernel under the tests may have none. Each test is a line it prints.

bats_require_minimum_version 1.5.0

setup_file() {
	local vm=$BATS_TEST_DIRNAME/../rdma-vm
	local cache=${BOOTSEER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bootseer}

	export out=$BATS_FILE_TMPDIR/out
	run "$vm/prepare" "$cache/rdma-vm"
	[ "$status" != 77 ] || skip "apt has no kernel to give: $output"
	[ "$status" = 0 ] || { echo "$output"; return 1; }
	# What it says when it fails is told by each test that misses its line.
	RDMA_VM_TIMEOUT=240 "$vm/run" "$cache/rdma-vm" timeout 200 \
		"${BOOTSEER_BUILD:?}/tests/functional/rdma-test" >"$out" 2>&1 || :
}

went_well() { # SCENARIO
	grep -q "^ok $1 " "$out" || { cat "$out"; return 1; }
}

@test "a node takes the RDMA device of its address" {
	went_well takes_the_device_of_its_address
}

@test "pieces arrive by RDMA, both ways" {
	went_well pieces_arrive_both_ways
}

@test "a wrong key ends in TCP, and a new queue pair later" {
	went_well a_wrong_key_falls_back_and_is_got_over
}

@test "a key of one link is of no use on another" {
	went_well the_kernel_keeps_links_apart
}

@test "what is read after its lease is known for stale" {
	went_well a_lease_that_is_over_is_noticed
}

@test "a reader whose queue pair dies gets its pieces by TCP" {
	went_well a_reader_whose_queue_pair_dies_falls_back
}

@test "a server whose queue pair dies is left for TCP" {
	went_well a_server_whose_queue_pair_dies_is_left
}

@test "links get and lose their queue pairs again and again" {
	went_well links_come_and_go
}

@test "a node gets over the death of another in the middle" {
	went_well nodes_get_over_the_death_of_one
}

@test "bootseerd refuses RDMA where it would break a promise" {
	local bootseerd=$BOOTSEER_BUILD/snapshotter/node/bootseerd f

	for f in ca.crt tls.crt tls.key; do : >"$BATS_TEST_TMPDIR/$f"; done
	run -2 "$bootseerd" --p2p-listen 127.0.0.1:0 --p2p-rdma \
		--p2p-tls "$BATS_TEST_TMPDIR" --check-config
	[[ $output == *"--p2p-rdma is not encrypted"* ]]
	# A device that is named is RDMA, too.
	run -2 "$bootseerd" --p2p-listen 127.0.0.1:0 --p2p-rdma=rxe0 \
		--p2p-tls "$BATS_TEST_TMPDIR" --check-config
	[[ $output == *"--p2p-rdma is not encrypted"* ]]
	# The senders bound what comes by RDMA.
	"$bootseerd" --p2p-listen 127.0.0.1:0 --p2p-rdma=rxe0 \
		--p2p-security open --p2p-rate 1M --check-config
}
