#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A writer that is killed before each step of its commit, one after the other: each call that
# changes names or makes bytes durable, or request that changes something and the middle of
# its body (tests/fakes/kill_at.c).  The file is the old one or the new one, and after `ckpt
# gc` the store has what that needs and nothing else.  In HDFS: store-hdfs.bats.

bats_require_minimum_version 1.5.0
load ../noise.bash
load ../wait.bash
load stores.bash
load ckpt.bash
load ckpt-steps.bash

setup_file()
{
	export F=$BATS_FILE_TMPDIR S3
	S3=$("$BATS_TEST_DIRNAME/../stores/build" versitygw)
	make_step_files
}

setup()
{
	W=$BATS_TEST_TMPDIR
	RAW=$W/store
	STORE=file://$RAW
	mkdir "$RAW"
}

teardown() { stop_servers; }

@test "a file of a directory is old or new at each step: a new one" {
	killed_at_each_step '' striped 10
	killed_at_each_step '' plain 4
}

@test "... one that is replaced" {
	killed_at_each_step striped other-striped 10
	killed_at_each_step plain other-plain 4
}

@test "... one that is replaced by one of the other layout" {
	killed_at_each_step plain striped 10
	killed_at_each_step striped plain 4
}

@test "... one that is removed" {
	killed_at_each_step striped '' 1
	killed_at_each_step plain '' 1
}

@test "a file of a bucket is old or new at each request of its writer" {
	export HOME=$W no_proxy='*' AWS_EC2_METADATA_DISABLED=true
	s3_server "$W/s3"
	STORE="s3://bkt/ckpt?endpoint=http://$AT"
	RAW=$W/s3/data/bkt/ckpt UPLOADS=$W/s3/data/bkt/.sgwtmp
	mkdir -p "$RAW"
	killed_at_each_step striped other-striped 3
	killed_at_each_step striped plain 1
	killed_at_each_step plain striped 3
	killed_at_each_step striped '' 0
}
