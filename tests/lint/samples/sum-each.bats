#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
@test "one" {
	true
}

@test "two" {
	skip "of this and that"
}

@test "three" {
	false
}
