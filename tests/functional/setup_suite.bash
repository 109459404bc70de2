# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# bats sources this file once, before the first test of a run.

# The tests ask jq some thousands of times, and Debian's jq 1.6 takes 33 ms of processor
# time to start, because it compiles its own library each time. gojq answers the same
# in 3 ms. A function that is exported holds in every test, and in the benchmarks that
# tests run.
#
# python3 is Debian's, whose packages tests want, and which is there in 13 ms: where a chooser
# of versions (pyenv) stands before it in PATH, each start takes ten times as much.
setup_suite() {
	jq() { gojq "$@"; }
	export -f jq
	mkfifo "$BATS_RUN_TMPDIR/never" # tests/wait.bash
	mkdir "$BATS_RUN_TMPDIR/bin"
	ln -s /usr/bin/python3 "$BATS_RUN_TMPDIR/bin/python3"
	export PATH=$BATS_RUN_TMPDIR/bin:$PATH
	note_lines_alone
}

# bats notes before each command of a test how it came there, for the case that it fails, by
# forty commands of its own. Debian's bash 5.2 knows that of a command that failed, and of one
# that is interrupted all but the line: tests begin with a copy of the library of bats that
# notes the line alone.
note_lines_alone() {
	local root=$BATS_RUN_TMPDIR/bats

	mkdir -p "$root/lib"
	cp -r "$BATS_ROOT/lib/bats-core" "$root/lib"
	cat >>"$root/lib/bats-core/tracing.bash" <<-'END'
	eval "whole_$(declare -f bats_setup_tracing)"
	bats_setup_tracing() {
		whole_bats_setup_tracing
		BATS_LINE=0
		trap 'BATS_LINE_BEFORE=$BATS_LINE BATS_LINE=$LINENO' DEBUG
		[ -z "${BATS_TEST_TIMEOUT-}" ] ||
			trap 'bats_note_place "$BATS_LINE_BEFORE"; bats_timeout_trap' ABRT
	}
	bats_error_trap() {
		bats_check_status_from_trap
		bats_capture_stack_trace
		BATS_DEBUG_LAST_STACK_TRACE_IS_VALID=1
	}
	bats_note_place() { # LINE: of the innermost function
		bats_capture_stack_trace
		BATS_DEBUG_LASTLAST_STACK_TRACE=("$1 ${BATS_DEBUG_LAST_STACK_TRACE[0]#* }"
			"${BATS_DEBUG_LAST_STACK_TRACE[@]:1}")
	}
	END
	export BATS_ROOT=$root
}

# A program that a test left behind is a fault of one of the two, and it also puts files
# where bats removes its folder.  Those that end just now have two minutes to do so.
teardown_suite() {
	local end=$((SECONDS + 120)) left

	left=$(left_behind)
	while [ "$left" ] && ((SECONDS < end)); do
		read -r -t 0.1 <> <(:) || :
		left=$(left_behind)
	done
	echo "left behind: $left"
	[ -z "$left" ]
}

left_behind() {
	local below="$BATS_RUN_TMPDIR/(test|file)/"

	pgrep -af -- "$below" || :
	grep -E -- "$below" /proc/self/mountinfo || :
}
