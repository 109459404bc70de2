#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Volumes are published and unpublished in any order while bootseer-csi is killed at random:
# docs/testing.md, "Long runs". BOOTSEER_CYCLES says how many calls (1000).

@test "a thousand publishes and unpublishes of each kind under kills leave nothing" {
	export BOOTSEER_CYCLES=${BOOTSEER_CYCLES:-1000} BOOTSEER_SEED=${BOOTSEER_SEED:-$RANDOM}
	echo "seed $BOOTSEER_SEED"
	bats --tap -f 'with the plugin killed among them' \
		"$BATS_TEST_DIRNAME/../functional/csi.bats"
}
