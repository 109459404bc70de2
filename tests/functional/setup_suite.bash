# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# bats sources this file once, before the first test of a run.

# shellcheck source=tests/wait.bash
source "${BASH_SOURCE[0]%/*}/../wait.bash"

# The tests ask jq some thousands of times, and Debian's jq 1.6 takes 33 ms of processor
# time to start, because it compiles its own library each time. gojq answers the same
# in 3 ms. A function that is exported holds in every test, and in the benchmarks that
# tests run.
setup_suite() {
	command -v gojq >/dev/null || return 0
	jq() { gojq "$@"; }
	export -f jq
}

# A program that a test left behind is a fault of one of the two, and it also puts files
# where bats removes its folder.  Tests that failed may leave some.
teardown_suite() {
	wait_for nothing_is_left || {
		left_behind
		return 1
	}
}

nothing_is_left() {
	[ -z "$(left_behind)" ]
}

left_behind() {
	local below="$BATS_RUN_TMPDIR/(test|file)/"

	pgrep -af -- "$below"
	grep -E -- "$below" /proc/self/mountinfo
	return 0
}
