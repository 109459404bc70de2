#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Random kills of mounts of checkpoints, of their holders, and of programs that write to
# them: docs/testing.md, "Long runs". BOOTSEER_KILLS says how many (1,000 in
# all), BOOTSEER_SEED where to begin (else by the clock).

bats_require_minimum_version 1.5.0
load ../wait.bash
load ../functional/stores.bash

setup()
{
	export no_proxy='*' AWS_EC2_METADATA_DISABLED=true
	W=$BATS_TEST_TMPDIR
	SEED=${BOOTSEER_SEED:-$(date +%s)}
	KILLS=${BOOTSEER_KILLS:-1000}
}

teardown()
{
	stop_servers
}

soak() # KILLS OPTION...
{
	"$BATS_TEST_DIRNAME/kills/ckpt_kills.py" --build "${BOOTSEER_BUILD:?}" \
		--seed "$SEED" --kills "$@" >"$W/out" 2>"$W/err" || {
		cat "$W/err" "$W/out"
		return 1
	}
	sed 's/^/# /' "$W/out" >&3
}

@test "kills of mounts of a directory leave each file as it was, or as it was to be" {
	soak $((KILLS / 2))
}

@test "so do kills of mounts of a bucket" {
	S3=$("$tests/stores/build" versitygw)
	HOME=$W s3_server "$W/s3"
	mkdir "$W/s3/data/bkt/ckpt"
	soak $((KILLS * 2 / 5)) --store "s3://bkt/ckpt?endpoint=http://$AT" \
		--raw "$W/s3/data/bkt/ckpt" --uploads "$W/s3/data/bkt/.sgwtmp"
}

@test "so do kills of mounts of HDFS" {
	HDFS=$("$tests/stores/build" hadoop-hdfs)
	hdfs_server "$W/hdfs" 2
	# gc beside a writer may take a file there, as docs/checkpoints.md says.
	soak $((KILLS / 10)) --no-gc --store "hdfs://$NAMENODE/ckpt?user=root"
}
