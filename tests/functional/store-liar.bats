#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Servers of stores that say what is not so.

bats_require_minimum_version 1.5.0
load ../noise.bash
load ../wait.bash

setup()
{
	W=$BATS_TEST_TMPDIR
	export no_proxy='*'
	python3 "$BATS_TEST_DIRNAME/webhdfs-liar.py" "$W/port" 3>&- &
	SERVER=$!
	wait_for test -s "$W/port"
}

teardown()
{
	kill "$SERVER" 2>/dev/null || :
}

@test "what a server of HDFS says to have appended is not sent without end" {
	noise 40000000 1 >"$W/big"
	export STORE_PROBE=1
	run -1 timeout 600 "$BOOTSEER_BUILD/tests/functional/store-test" \
		"hdfs://127.0.0.1:$(cat "$W/port")/d?user=root" put big "$W/big"
	[[ $output == *"bytes after all of a part were appended"* ]]
	[ "$(wc -l <"$W/port.appends")" = 1 ]
}
