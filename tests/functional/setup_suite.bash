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
	copy_bats
	note_lines_alone
	watch_by_one_process
}

# Tests begin with a copy of the library of bats, which what follows changes.
copy_bats() {
	bats_library=$BATS_RUN_TMPDIR/bats/lib/bats-core
	mkdir -p "$BATS_RUN_TMPDIR/bats/lib"
	cp -r "$BATS_ROOT/lib/bats-core" "$bats_library"
	export BATS_ROOT=$BATS_RUN_TMPDIR/bats
}

# bats notes before each command of a test how it came there, for the case that it fails, by
# forty commands of its own. Debian's bash 5.2 knows that of a command that failed, and of one
# that is interrupted all but the line, so the line alone is noted.
note_lines_alone() {
	cat >>"$bats_library/tracing.bash" <<-'END'
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
}

# bats ends a test that hangs by a job of the test's shell, which has a child, sleep, and
# obeys a signal once it runs: a test that ends sooner, as a short one does on a busy machine,
# leaves the child with the output of bats, and bats waits for the end of that for as long as
# a test may take. Here the job is one process, holds nothing, and any signal ends it.
watch_by_one_process() {
	cat >>"$bats_library/preprocessing.bash" <<-'END'
	bats_start_timeout_countdown() { # SECONDS
		trap bats_timeout_trap ABRT
		{
			read -r -t "$1" <>"$BATS_RUN_TMPDIR/never" || :
			kill -ABRT $$ && pkill -P $$ || :
		} </dev/null &>/dev/null 3>&- 4>&- &
		disown # no job of the test
	}
	bats_abort_timeout_countdown() { kill -KILL "$1" 2>/dev/null || :; }
	END
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
