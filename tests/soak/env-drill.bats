#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Nodes that set up one environment while the one that captures is killed, the store cut off
# and the service started again: docs/testing.md, "Long runs". BOOTSEER_RUNS
# says how many times (200), BOOTSEER_SEED where to begin (else by the clock), BOOTSEER_AT_ONCE
# how many are at work at once (3).

bats_require_minimum_version 1.5.0
load ../wait.bash
load ../functional/stores.bash

setup()
{
	export no_proxy='*' AWS_EC2_METADATA_DISABLED=true
	W=$BATS_TEST_TMPDIR
}

teardown()
{
	stop_servers
}

@test "32 nodes end with the right tree, whoever is killed and whatever is cut" {
	S3=$("$tests/stores/build" versitygw)
	HOME=$W s3_server "$W/s3"
	mkdir "$W/drill"
	HOME=$W "$tests/functional/env-drill.py" "${BOOTSEER_BUILD:?}/cli/bootseer" \
		"$W/drill" 's3://bkt/env?endpoint=http://@PROXY@' "$AT" \
		--registry "$BOOTSEER_BUILD/registry/bootseer-registry" \
		--bootseerd "$BOOTSEER_BUILD/snapshotter/node/bootseerd" \
		--nodes 32 --at-once "${BOOTSEER_AT_ONCE:-3}" \
		--runs "${BOOTSEER_RUNS:-200}" --seed "${BOOTSEER_SEED:-$(date +%s)}" \
		>"$W/out" 2>&1 || {
		cat "$W/out"
		return 1
	}
	tail -n 3 "$W/out" | sed 's/^/# /' >&3
}
