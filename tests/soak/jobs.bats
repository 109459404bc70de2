#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Starts of jobs in which something goes wrong, BOOTSEER_RUNS of them (100): one each of
# tests/functional/job-faults.bats and jobs/*.bats in turn.

bats_require_minimum_version 1.5.0

@test "jobs start whatever goes wrong in the middle" {
	local n=0 file

	while ((n < ${BOOTSEER_RUNS:-100})); do
		for file in "$BATS_TEST_DIRNAME"/../functional/job-faults.bats \
			"$BATS_TEST_DIRNAME"/jobs/*.bats; do
			run -0 unshare --mount --propagation private bats --tap "$file"
			n=$((n + $(grep -c '^ok' <<<"$output")))
			echo "# $n starts" >&3
		done
	done
}
