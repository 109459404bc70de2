#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A writer that is killed before each step of its commit, one after the other: each call that
# changes names or makes bytes durable (tests/fakes/kill_at.c).  The file is the old one or
# the new one, and after `ckpt gc` the store has what that needs and nothing else.

bats_require_minimum_version 1.5.0
load ../noise.bash
load ckpt.bash

setup_file()
{
	export F=$BATS_FILE_TMPDIR
	noise 9000000 61 >"$F/striped"
	noise 9000001 62 >"$F/other-striped"
	noise 3000 63 >"$F/plain"
	noise 3001 64 >"$F/other-plain"
}

setup()
{
	W=$BATS_TEST_TMPDIR
	RAW=$W/store
	STORE=file://$RAW
	mkdir "$RAW"
}

steps() # how many were begun
{
	od -An -t u8 "$W/steps" | tr -d ' '
}

until_step() # N COMMAND...: N is 0 for all of it
{
	local n=$1

	shift
	printf '\0\0\0\0\0\0\0\0' >"$W/steps"
	LD_PRELOAD=$BOOTSEER_BUILD/tests/fakes/test-kill-at.so KILL_AT=$n \
		KILL_STEPS=$W/steps "$@"
}

change() # N: the change that is tested, until its step N
{
	if [ "$AFTER" ]; then
		until_step "$1" "$bootseer" ckpt cp --columns=2 "$STORE" "$AFTER" :f
	else
		until_step "$1" "$bootseer" ckpt rm "$STORE" f
	fi
}

put_before()
{
	if [ "$BEFORE" ]; then
		ckpt cp --columns=2 "$BEFORE" :f
	elif [ -n "$(ckpt ls)" ]; then
		ckpt rm f
	fi
	ckpt gc --older=0s
} >"$W/said"

# What is there: that file, or, of an empty name, none.
has() # FILE
{
	rm -f "$W/out"
	if [ -z "$1" ]; then
		[ -z "$(ckpt ls)" ]
	else
		ckpt cp :f "$W/out" >"$W/said" 2>&1 && cmp -s "$W/out" "$1"
	fi
}

objects()
{
	find "$RAW" -type f -not -path '*/.bootseer/lock/*' | wc -l
}

# Of a file that is left: itself, or its manifest and two columns.
needed() # FILE
{
	case $1 in
	'') echo 0 ;;
	*striped) echo 3 ;;
	*) echo 1 ;;
	esac
}

is_old_or_new() # N
{
	local left

	if has "$BEFORE"; then
		left=$BEFORE
	else
		has "$AFTER" || {
			echo "step $1: neither old nor new: $(cat "$W/said")"
			return 1
		}
		left=$AFTER
	fi
	ckpt verify >"$W/said"
	ckpt gc --older=0s >"$W/said"
	has "$left" || { echo "step $1: gone after gc"; return 1; }
	[ "$(objects)" = "$(needed "$left")" ] || {
		echo "step $1: left over:"
		find "$RAW" -type f
		return 1
	}
}

killed_at_each_step() # BEFORE AFTER STEPS: files, one may be empty; more steps than these
{
	local n=0 status

	BEFORE=${1:+$F/$1} AFTER=${2:+$F/$2}
	while :; do
		n=$((n + 1))
		put_before
		status=0
		change "$n" >"$W/said" 2>&1 || status=$?
		[ "$status" != 0 ] || break
		[ "$status" = 137 ]
		is_old_or_new "$n"
	done
	has "$AFTER"
	echo "# ${1:-none} to ${2:-none}: killed $((n - 1)) times" >&3
	[ "$n" -gt "$3" ]
}

@test "a file of a directory is old or new at each step: a new one" {
	killed_at_each_step '' striped 10
	killed_at_each_step '' plain 4
}

@test "... one that is replaced" {
	killed_at_each_step striped other-striped 10
	killed_at_each_step plain other-plain 4
}

@test "... one that is replaced by one of the other layout" {
	killed_at_each_step plain striped 10
	killed_at_each_step striped plain 4
}

@test "... one that is removed" {
	killed_at_each_step striped '' 1
	killed_at_each_step plain '' 1
}
