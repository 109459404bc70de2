#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Starts of jobs in which something goes wrong, BOOTSEER_RUNS of them (100), five faults in
# turn: tests/functional/job-faults.bats.

bats_require_minimum_version 1.5.0

@test "jobs start whatever goes wrong in the middle" {
	local file=$BATS_TEST_DIRNAME/../functional/job-faults.bats n

	for ((n = 0; n < ${BOOTSEER_RUNS:-100}; n += 5)); do
		run -0 unshare --mount --propagation private bats --tap "$file"
		echo "# $((n + 5)) starts" >&3
	done
}
