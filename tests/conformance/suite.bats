#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# containerd 2's own tests of snapshotters; those of 1.6, which have the same names, are in
# ./dev test (tests/containerd/suite.bats).

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../containerd/suite.bash"

setup() { suite_setup; }

# This program speaks to a daemon and waits for it: optimised it is no faster.
build_module() # GO
{
	(cd "$suite" && CGO_ENABLED=0 "$1" test -vet=off -gcflags=all='-N -l' \
		-ldflags='-s -w' -c -o "$T/suite" .)
}

@test "the tests of containerd 2 pass" {
	if [[ $(printf '%s\n' go1.26.3 "$(go env GOVERSION)" | sort -V |
		head -1) != go1.26.3 ]]; then
		skip "containerd 2 is built by go 1.26.3 or later"
	fi
	cached_program 2 go build_module ''
	run_suite "$T/suite"
}
