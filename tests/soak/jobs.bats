#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# BOOTSEER_RUNS (100) starts of a job on three nodes that have nothing, each with one fault in the
# middle: a node is killed, the index throttles, the registry is gone for a while, the name nodes of
# HDFS are standby, a node's disk is slow.  Which one, and when, is by a seed (BOOTSEER_SEED), which
# is printed.  What takes long by itself is in jobs/*.bats, and is run once.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../functional/job-faults.bash"
load jobs/three-nodes.bash

setup_file() {
	local HDFS

	faults_setup_file
	HDFS=$("$BATS_TEST_DIRNAME/../stores/build" hadoop-hdfs)
	export NAMENODE no_proxy='*'
	hdfs_server "$BATS_FILE_TMPDIR/hdfs" 1
	export SERVERS=${PIDS[*]}
}

teardown_file() {
	read -ra PIDS <<<"$SERVERS"
	stop_servers
}

setup() { faults_setup; }
teardown() {
	nodes_remove
	faults_teardown
}

@test "jobs of three nodes start whatever goes wrong in the middle" {
	local n seed=${BOOTSEER_SEED:-$RANDOM}

	nodes_servers
	for ((n = 1; n <= ${BOOTSEER_RUNS:-100}; n++)); do
		RANDOM=$((seed + n)) fault=${FAULTS[RANDOM % ${#FAULTS[@]}]}
		say "start $n: BOOTSEER_SEED=$((seed + n - 1)) BOOTSEER_RUNS=1: $fault"
		nodes_start "$n"
		start_with "$fault"
		nodes_remove
	done
}

@test "what takes longer: peers that hang, a slow disk, name nodes that fail over" {
	local file

	for file in "$BATS_TEST_DIRNAME"/jobs/*.bats; do
		run -0 unshare --mount --propagation private bats --tap "$file"
	done
}
