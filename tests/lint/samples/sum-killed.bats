#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
@test "one" {
	true
}

# What runs the tests of this file is gone before the second.
@test "two" {
	kill -KILL "$PPID"
}

@test "three" {
	true
}
