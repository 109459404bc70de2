#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Starts of jobs, one a test, whose checkpoint is in HDFS while its name nodes fail over:
# tests/soak/jobs.bats does so many times.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../../functional/job-faults.bash"

# The name node takes a minute to start, so all tests share it.
setup_file() {
	local HDFS

	faults_setup_file
	HDFS=$("$BATS_TEST_DIRNAME/../../stores/build" hadoop-hdfs)
	export NAMENODE no_proxy='*'
	hdfs_server "$BATS_FILE_TMPDIR/hdfs" 1
	export SERVERS=${PIDS[*]}
}

teardown_file() {
	read -ra PIDS <<<"$SERVERS"
	stop_servers
}

setup() { faults_setup; }
teardown() { faults_teardown; }

standby_body='{"RemoteException":{"exception":"StandbyException","javaClassName":"x","message":"not active"}}'

# Two addresses of the name node, which say now and then that they are not active.
start_hdfs() {
	mkdir proxy.one proxy.two
	proxied_by one "$NAMENODE"
	proxied_by two "$NAMENODE"
	ckpt_store="hdfs://$one,$two/job$BATS_TEST_NUMBER-$$?user=root"
	start_all
}

standby_at() { # PROXY SKIP TIMES
	fault_at "$1" match='/webhdfs' kind=status code=403 body="$standby_body" skip="$2" \
		times="$3"
}

@test "a name node that is standby, and one that becomes it" {
	start_hdfs
	standby_at "$one" 0 100000
	starts
	was_at_fault "$one"
	# The other one, too, from some request on, until this one has said so a few times more.
	standby_at "$two" $((RANDOM % 6)) $((RANDOM % 10 + 1))
	starts
}

@test "no name node is active for a while" {
	start_hdfs
	standby_at "$one" $((RANDOM % 4)) $((RANDOM % 12 + 4))
	standby_at "$two" $((RANDOM % 4)) $((RANDOM % 12 + 4))
	starts
	was_at_fault "$one"
}
