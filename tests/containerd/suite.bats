#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# containerd's own tests of snapshotters, through the client that its proxy plugin
# is, against one bootseer-snapshotter a test.

bats_require_minimum_version 1.5.0

setup() {
	export BOOTSEER_SNAPSHOTTER=${BOOTSEER_BUILD:?}/containerd-plugin/bootseer-snapshotter
	suite=$BATS_TEST_DIRNAME/suite
	T=$BATS_TEST_TMPDIR
}

run_suite() { # PROGRAM
	TMPDIR=$T "$1" -test.v -test.root >"$T/out" 2>&1 || {
		tail -100 "$T/out"
		return 1
	}
	# 20 or 21 tests, one of which is not for an overlayfs.
	[ "$(grep -c '^    --- PASS' "$T/out")" -ge 20 ]
}

@test "the tests of containerd 1.6 pass" {
	local src=$T/go/src/bootseer/tests/containerd go=/usr/bin/go

	# Debian's Go has its library compiled, and shares what it compiles here with
	# tests/differential/containerd/build.
	[ -x "$go" ] || go=go
	mkdir -p "$src"
	cp -r "$suite" "$src"
	cd "$src/suite/debian"
	GO111MODULE=off GOTOOLCHAIN=local GOFLAGS= GOPROXY=off \
		GOPATH=$T/go:/usr/share/gocode \
		"$go" test -vet=off -tags debian -c -o "$T/suite" .
	run_suite "$T/suite"
}

@test "the tests of containerd 2 pass" {
	if [[ $(printf '%s\n' go1.26.3 "$(go env GOVERSION)" | sort -V |
		head -1) != go1.26.3 ]]; then
		skip "containerd 2 is built by go 1.26.3 or later"
	fi
	cd "$suite"
	# What is compiled speaks to a daemon and waits for it: optimised it is no faster.
	CGO_ENABLED=0 go test -vet=off -gcflags=all='-N -l' -ldflags='-s -w' \
		-c -o "$T/suite" .
	run_suite "$T/suite"
}
