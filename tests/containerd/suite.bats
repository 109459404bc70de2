#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# containerd 1.6's own tests of snapshotters (suite.bash). Those of containerd 2 have the same
# names, cost as much, and no run found anything by them alone: ./dev conformance.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/suite.bash"

setup() { suite_setup; }

# Debian's Go has its library compiled, and shares what it compiles here with
# tests/differential/containerd/build.
build_debian() # GO
{
	local src=$T/go/src/bootseer/tests/containerd

	mkdir -p "$src"
	cp -r "$suite" "$src"
	(cd "$src/suite/debian" && GO111MODULE=off GOTOOLCHAIN=local GOFLAGS='' GOPROXY=off \
		GOPATH=$T/go:/usr/share/gocode \
		"$1" test -vet=off -tags debian -c -o "$T/suite" .)
}

@test "the tests of containerd 1.6 pass" {
	local go=/usr/bin/go sources

	[ -x "$go" ] || go=go
	sources=$(dpkg-query -W 'golang-*-dev')
	cached_program 1 "$go" build_debian "$sources"
	run_suite "$T/suite"
}
