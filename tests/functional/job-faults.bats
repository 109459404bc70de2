#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What goes wrong in the middle of a job's start: it starts all the same, and says what was
# wrong.  tests/soak/jobs.bats does so many times, with faults that take longer.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/job-faults.bash"

setup_file() { faults_setup_file; }
setup() {
	faults_setup
	start_all
}
teardown() { faults_teardown; }

@test "an index that throttles" {
	fault_at "$index" match=GET kind=status code=429 after=1 times=4
	starts
	was_at_fault "$index"
	grep -q ' env.install ' shown # what its time went to
	# Nobody asks it again.
	fault_at "$index" match=GET kind=refuse times=1000
	starts
	grep -Eq 'env run: (mounted|restored)' log
}

@test "a registry that goes away and comes back" {
	fault_at "$registry" 'match=/(blobs|manifests)/' kind=refuse skip=4 times=12
	starts
	was_at_fault "$registry"
	grep -q '^failed at first: .*: image.pull ended with status 1 after' shown
}

@test "a registry that is gone when the job starts again" {
	starts
	grep -q 'image.pull .* 0$' shown
	fault_at "$registry" match=. kind=refuse times=100000
	starts
	was_at_fault "$registry"
	grep -q '^failed: .*: image.pull ended with status 1 after' shown
}

@test "a bucket that asks for less" {
	fault_at "$bucket" 'match=^(GET|HEAD|PUT)' kind=status code=503 times=8 skip=2
	starts
	was_at_fault "$bucket"
	fault_at "$bucket" 'match=^(GET|HEAD)' kind=status code=503 times=8 skip=2
	starts
}

@test "a bootseerd that is killed while the image loads" {
	local child

	fault_at "$registry" 'match=/blobs/' kind=wait times=1
	starts &
	pid=$!
	wait_for was_at_fault "$registry"
	child=$(pgrep -P "$node_pid")
	kill -KILL $child
	curl -sf -X POST "http://$registry/go"
	wait "$pid"
}
