# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# containerd's own tests of snapshotters, through the client that its proxy plugin is, against
# one bootseer-snapshotter a test: suite.bats has those of 1.6, tests/conformance/suite.bats
# those of 2.

suite_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/suite" && pwd)

suite_setup() {
	export BOOTSEER_SNAPSHOTTER=${BOOTSEER_BUILD:?}/containerd-plugin/bootseer-snapshotter
	suite=$suite_dir
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
