#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Starts of jobs, one a test, in which a node that others read from is killed or hangs, HDFS
# fails over, or the node's disk is slow: tests/soak/jobs.bats does so many times.

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

setup() {
	faults_setup
	loop=
}
teardown() {
	faults_teardown
	if [ "$loop" ]; then
		! mountpoint -q "$T/noderoot" || umount "$T/noderoot"
		throttle_loop 0
		losetup -d "$loop"
	fi
}

# --- HDFS -----------------------------------------------------------------------------------

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

has_begun() { grep -qs "$1" log; }

@test "a node that others read from is killed" {
	start_nodes
	starts &
	pid=$!
	wait_for has_begun 'stage=image.pull ev=begin'
	read -r -t "0.$((RANDOM % 8))1" <> <(:) || :
	kill -KILL "$peer_pid"
	wait "$pid"
}

@test "a node that others read from hangs" {
	start_nodes
	starts &
	pid=$!
	wait_for has_begun 'stage=image.pull ev=begin'
	read -r -t "0.$((RANDOM % 8))1" <> <(:) || :
	kill -STOP "$peer_pid"
	wait "$pid"
	kill -KILL "$peer_pid"
}

# --- the disk -------------------------------------------------------------------------------

throttle_loop() { # BYTES A SECOND, or 0
	local dir=/sys/fs/cgroup/blkio number

	number=$(lsblk -dno MAJ:MIN "$loop" | tr -d ' ')
	for what in read write; do
		echo "$number $1" >"$dir/blkio.throttle.${what}_bps_device"
	done
}

@test "a slow disk" {
	[ -e /sys/fs/cgroup/blkio/blkio.throttle.read_bps_device ] ||
		skip "no throttled disks: needs control groups of version 1 with blkio"
	truncate -s 600M disk
	loop=$(losetup --find --show "$T/disk")
	mkfs.ext4 -q "$loop"
	mkdir noderoot
	mount "$loop" noderoot
	throttle_loop $((1 << 20))
	start_all
	starts
	grep -q 'image.pull ' shown
}
