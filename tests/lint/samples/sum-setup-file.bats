#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
setup_file() { false; }

@test "one" {
	true
}

@test "two" {
	true
}
