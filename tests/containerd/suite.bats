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

# Compiling Go's library and gRPC takes a minute of processor time where Go has no cache
# yet, so a program stays in the cache for as long as its sources, their versions and the
# compiler are the same.
cached_program() # NAME GO BUILD-FUNCTION VERSION: makes $T/suite
{
	local cache=${BOOTSEER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bootseer} key at

	key=$(cd "$suite" && {
		"$2" version
		echo "$4"
		declare -f "$3"
		find . -type f -print0 | sort -z | xargs -0 sha256sum
	} | sha256sum | cut -c1-16)
	at=$cache/containerd-suite-$1
	mkdir -p "$cache"
	exec 9>"$at.lock"
	flock 9
	if [ ! -e "$at-$key" ]; then
		"$3" "$2"
		rm -f "$at"-*
		cp "$T/suite" "$at.new"
		mv "$at.new" "$at-$key"
	fi
	cp "$at-$key" "$T/suite"
	exec 9>&-
}

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

# This program speaks to a daemon and waits for it: optimised it is no faster.
build_module() # GO
{
	(cd "$suite" && CGO_ENABLED=0 "$1" test -vet=off -gcflags=all='-N -l' \
		-ldflags='-s -w' -c -o "$T/suite" .)
}

@test "the tests of containerd 1.6 pass" {
	local go=/usr/bin/go sources

	[ -x "$go" ] || go=go
	sources=$(dpkg-query -W 'golang-*-dev')
	cached_program 1 "$go" build_debian "$sources"
	run_suite "$T/suite"
}

@test "the tests of containerd 2 pass" {
	if [[ $(printf '%s\n' go1.26.3 "$(go env GOVERSION)" | sort -V |
		head -1) != go1.26.3 ]]; then
		skip "containerd 2 is built by go 1.26.3 or later"
	fi
	cached_program 2 go build_module ''
	run_suite "$T/suite"
}
