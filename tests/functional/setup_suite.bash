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
	mkdir "$BATS_RUN_TMPDIR/bin"
	ln -s /usr/bin/python3 "$BATS_RUN_TMPDIR/bin/python3"
	export PATH=$BATS_RUN_TMPDIR/bin:$PATH
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
