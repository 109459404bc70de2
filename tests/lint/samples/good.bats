#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Assertions that do not hold, in tests that fail for it, one each:
# tests/lint/assertions.py finds nothing here.
# shellcheck disable=all

bats_require_minimum_version 1.5.0
load ../../wait.bash

setup() { V=; }

both() {
	[ -n "$V" ]
	[ -z "$V" ]
}

no_path() { [ -n "$V" ]; }
not_empty() { ! [ -z "$V" ]; }
all_of() { [ -z "$V" ] && [ -n "$V" ]; }
each() { for i in 1 2; do [ "$i" = 2 ] || return 1; done; }
tells() { [ -n "$V" ] && echo "it has $V"; [ -z "$V" ]; }

@test "a command each" {
	[ -z "$V" ]
	[ -n "$V" ]
	:
}

@test "run with what is wanted" {
	run ! true
	:
}

@test "a status that is looked at" {
	run true
	[ "$status" -eq 1 ]
	:
}

@test "'!' as the last command" {
	! true
}

@test "'!' as the last command of a function" {
	not_empty
	:
}

@test "a conjunction that a function ends with" {
	all_of
	:
}

@test "a conjunction that a test ends with" {
	[ -n "$V" ] && [ -z "$V" ]
}

@test "a conjunction in a subshell" {
	(cd / && [ -n "$V" ] && pwd)
	:
}

@test "a conjunction that guards what follows" {
	for i in 1 2; do
		[ "$i" = 1 ] && continue
		[ "$i" = 1 ]
	done
	:
}

@test "a function that is called by itself" {
	both
	:
}

@test "a function of one command, in a condition" {
	no_path || return 1
	:
}

@test "a predicate that is run" {
	run -0 no_path
	:
}

@test "a loop that returns" {
	run each
	[ "$status" -eq 0 ]
	:
}

@test "what a condition leads to" {
	if [ -z "$V" ]; then
		[ -n "$V" ]
	fi
	:
}

@test "a case" {
	case $V in
	'') [ -n "$V" ] ;;
	*) ;;
	esac
	:
}

@test "a loop's test" {
	while read -r line; do
		[ -z "$line" ]
	done < <(echo x)
	:
}

@test "the last of a pipe" {
	echo x | grep -q y
	:
}

@test "a substitution of its own" {
	local x

	x=$(false)
	:
}

@test "every process" {
	local p=()

	false 3>&- &
	p+=($!)
	true 3>&- &
	p+=($!)
	wait_all "${p[@]}"
	:
}

@test "one process" {
	false 3>&- &
	wait $!
	:
}

@test "a function that may tell more" {
	tells
	[ -n "$V" ]
	:
}

@test "words that look like it: '! true', a && b" {
	cat >/dev/null <<-END
		! true
		[ a ] && [ b ]
	END
	bash -c '[ a = b ] && [ a = a ]; ! true; [ a = b ]'
	:
}
