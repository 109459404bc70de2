#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
@test "one" {
	if true
}

@test "two" {
	true
}
