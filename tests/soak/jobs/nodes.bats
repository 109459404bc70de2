#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Starts of jobs, one a test, in which a node that others read from is killed or hangs, or the
# node's disk is slow: tests/soak/jobs.bats does so many times.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../../functional/job-faults.bash"

setup_file() { faults_setup_file; }
setup() { faults_setup; }
teardown() {
	faults_teardown
	slow_disk_end
}

# --- other nodes ----------------------------------------------------------------------------

# One that has all of the image, and is asked for it.
start_peer() {
	mkdir peer
	start_daemon peer.log "$bootseerd" --root "$T/peer/root" --run "$T/peer/run" \
		--node-name peer --plain-http "$registry" --trust-keys "$I/key.pub" \
		--service "$BOOTSEER_SERVICE" --p2p-listen 127.0.0.1:0 --p2p-security open \
		--record off --trace-oci no
	peer_pid=$daemon_pid
	wait_until "$peer_pid" test -S "$T/peer/run/bootseerd.sock"
	BOOTSEER_SOCKET=$T/peer/run/bootseerd.sock "$bootseer" image prefetch --wait \
		"$registry/lazy:1"
}

start_nodes() {
	start_all --node-name a --p2p-listen 127.0.0.1:0 --p2p-security open
	start_peer
}

is_asked() { PROXY=$registry proxied /manifests/ >/dev/null; }

# A start that is under way, somewhere.
begin_start() {
	curl -sf -X POST "http://$registry/clear"
	starts &
	pid=$!
	wait_for is_asked
	read -r -t "0.$((RANDOM % 10))1" <> <(:) || :
}

@test "a node that others read from is killed" {
	start_nodes
	begin_start
	kill -KILL "$peer_pid"
	wait "$pid"
}

@test "a node that others read from hangs" {
	start_nodes
	begin_start
	kill -STOP "$peer_pid"
	wait "$pid"
	kill -KILL "$peer_pid"
}

# --- the disk -------------------------------------------------------------------------------

@test "a slow disk" {
	slow_disk "$T/noderoot" $((1 << 20))
	start_all
	starts
	grep -q 'image.pull ' shown
}
