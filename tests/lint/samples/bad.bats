#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Assertions that do not hold, in tests that pass all the same: tests/lint/assertions.py
# finds the lines with a mark and no others.
# shellcheck disable=all

bats_require_minimum_version 1.5.0
load ../../wait.bash

setup() { V=; }

# Nobody looks at the first of these, nor is set -e on in a teardown.
teardown() {
	[ -n "$V" ] # BAD
	:
}

both() {
	[ -n "$V" ]
	[ -z "$V" ]
}

prints() {
	[ -n "$V" ]
	echo printed
}

no_path() { [ -n "$V" ]; }

deep() {
	if true; then
		both
		:
	fi
}

@test "'!' before other commands" {
	! true # BAD
	! grep -q bats "$BATS_TEST_FILENAME" # BAD
	:
}

@test "'!' before a pipe, in a loop, in a group, in a condition's body" {
	! echo x | grep -q x # BAD
	for i in 1 2; do
		! true # BAD
		:
	done
	if true; then ! true; fi # BAD
	{ ! true; } # BAD
	false || ! true # BAD
	:
}

@test "all but the last of a conjunction" {
	[ -n "$V" ] && [ -z "$V" ] # BAD
	[[ -n $V ]] && [[ -z $V ]] && ((1)) # BAD
	for i in 1; do
		[ -n "$V" ] && [ -z "$V" ] # BAD
	done
	false && echo what is not an assertion is none either # BAD
	:
}

@test "a function of which only the last command counts" {
	if both; then :; fi # BAD
	both || return 1 # BAD
	both && : # BAD
	run both # BAD
	[ "$status" -eq 0 ]
	wait_for both # BAD
	wait_for [ "$(date +%N)" ] # BAD
	[ "$(prints)" = printed ] # BAD
	x=$(prints) # BAD
	while ! both; do :; done # BAD
	run deep # BAD
	[ "$status" -eq 0 ]
	cat < <(prints) # BAD
}

@test "a command of which nobody looks at the status" {
	if { [ -n "$V" ]; true; }; then :; fi # BAD
	x=$(cmp /dev/null /etc/passwd; echo x) # BAD
	[ -n "$V" ] | cat # BAD
	no_path | cat # BAD
	grep -q none /dev/null | cat # BAD
	local y=$(false) # BAD
	export z=$(false) # BAD
	for i in 1 2; do [ "$i" = 2 ] || :; done # BAD
	[[ -n $V ]] || true # BAD
	run false # BAD
}

@test "processes before the last" {
	local p=()

	false 3>&- &
	p+=($!)
	true 3>&- &
	p+=($!)
	wait "${p[@]}" # BAD
	false 3>&- &
	p=($!)
	true 3>&- &
	wait "$p" $! # BAD
	run false # BAD
	run -0 true
}
