#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The runner of the tests: tests/runner.

bats_require_minimum_version 1.5.0
load ../wait.bash

setup() {
	TOP=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	T=$BATS_TEST_TMPDIR
	export T
	: >"$T/flaky.txt"
	touch "$T/runs"
}

# run_tests [OPTIONS]: those of $T/sample.bats, as ./dev test FILE runs them.
run_tests() {
	env "PATH=${PATH//"$BATS_LIBEXEC:"/}" "BOOTSEER_BUILDS=$T" "$TOP/tests/runner/main.py" \
		--flaky "$T/flaky.txt" "$@" "$T/sample.bats"
}

# A file with a test for each word, which fails in the runs that the word has digits of.
make_sample() { # RUNS...
	local runs

	{
		echo 'fails_in() {'
		echo '	echo "$1" >>"$T/runs"'
		echo '	[[ $1 != *$(grep -cx "$1" "$T/runs")* ]] || { echo "a reason"; false; }'
		echo '}'
		for runs; do
			echo "@test \"fails in (${runs:-no run})\" { fails_in '$runs'; }"
		done
	} >"$T/sample.bats"
}

ran() { grep -cx -- "$1" "$T/runs"; }

last_line() { echo "${lines[-1]}"; }

@test "a test that fails once under CI counts as passed, and is named with its output" {
	make_sample 1 4
	CI=true run -0 run_tests --json "$T/json"
	[ "$(last_line)" = '2 passed, 0 failed, 0 skipped' ]
	[ "$(ran 1)" = 3 ]
	[ "$(ran 4)" = 1 ]
	[[ $output == *'flaky: sample.bats: fails in (1)'*'# a reason'* ]]
	jq -e '.flaky == ["sample.bats: fails in (1)"]' "$T/json"
	jq -e '.suites[0] | .name == "sample.bats" and .wall_s > 0 and .cpu_s > 0 and
		(.tests | map(.status) == ["passed", "passed"] and all(.wall_s >= 0))' "$T/json"
	[[ $output == *'== dearest by wall time'*' functional sample.bats'*\
'== dearest by processor time'*' functional sample.bats'* ]]
}

@test "a test that fails again, once or always, fails the run" {
	make_sample 13 123 4
	CI=true run -1 run_tests
	[ "$(last_line)" = '1 passed, 2 failed, 0 skipped' ]
	[ "$(ran 123)" = 3 ]
	# Where it failed, as bats says it of what setup_suite.bash makes of its library.
	[[ $output == *"from function \`fails_in' in file "*"sample.bats, line 3,"*"in test file "*"sample.bats, line 5)"*"fails_in '13'"* ]]
	run ! grep '^flaky: ' <<<"$output"
}

@test "without CI nothing is run again" {
	make_sample 1
	CI='' run -1 run_tests
	[ "$(last_line)" = '0 passed, 1 failed, 0 skipped' ]
	[ "$(ran 1)" = 1 ]
}

@test "three tests may be flaky in a run, four fail it" {
	make_sample 1 15 16
	CI=true run -0 run_tests
	[ "$(grep -c '^flaky: ' <<<"$output")" = 3 ]
	: >"$T/runs"
	make_sample 1 15 16 17
	CI=true run -1 run_tests
	[[ $output == *'4 flaky tests, 3 at most'* ]]
	[ "$(last_line)" = '4 passed, 1 failed, 0 skipped' ]
}

@test "a flaky test that is in the list fails the run" {
	printf '%s\n' 'sample.bats: fails in (1)' \
		'    2026-11-28 a wait that is too short; 200 runs under load' >"$T/flaky.txt"
	make_sample 4
	CI=true run -0 run_tests
	make_sample 1
	CI=true run -1 run_tests
	[[ $output == *'sample.bats: fails in (1) is in the list of flaky tests already'* ]]
}

@test "the list of flaky tests has five entries at most, each with date and suspicion" {
	make_sample 4
	for n in {1..5}; do
		printf '%s\n' "a.bats: $n" '    2026-11-28 a suspicion' >>"$T/flaky.txt"
	done
	run -0 run_tests
	printf '%s\n' "a.bats: 6" '    2026-11-28 a suspicion' >>"$T/flaky.txt"
	run -1 run_tests
	[[ $output == *'6 entries, 5 at most'* ]]
	echo 'a.bats: 1' >"$T/flaky.txt"
	run -1 run_tests
	[[ $output == *'a.bats: 1: no date and suspicion'* ]]
}

# What ends a test waits for a byte until the time is over (setup_suite.bash). The program that
# hangs writes it: sooner, nothing hangs yet that could be ended.
hang_once() {
	echo hangs >>"$T/runs"
	[ "$(grep -c hangs "$T/runs")" != 1 ] || {
		busybox sh -c 'echo >"$0"; exec busybox tail -f /dev/null' \
			"$BATS_RUN_TMPDIR/never"
	}
}

@test "a test that hangs is ended, and run again alone" {
	make_sample 4
	{
		declare -f hang_once
		echo '@test "hangs once" { hang_once; }'
	} >>"$T/sample.bats"
	CI=true run -0 run_tests
	[[ $output == *"hangs once in "*"ms # timeout after 360s"* ]]
	[ "$(grep '^flaky: ' <<<"$output")" = 'flaky: sample.bats: hangs once' ]
	[ "$(ran 4)" = 1 ]
	[ "$(last_line)" = '2 passed, 0 failed, 0 skipped' ]
}

# The end of all that has bats's pipe is what bats waits for.
is_watched() {
	local watch=/proc/$BATS_killer_pid

	[ -z "$(jobs -p)" ]
	until [ ! -e "$watch/fd/4" ]; do :; done # it begins
	[ -e "$watch/fd/1" ]
	[ -z "$(pgrep -P "$BATS_killer_pid")" ]
	! find "$watch/fd" -lname 'pipe:*' | grep .
}

@test "what watches a test has none of its output, and no child" {
	{
		declare -f is_watched
		echo '@test "is watched" { is_watched; }'
	} >"$T/sample.bats"
	run -0 run_tests
}

# All that a test can leave.
leave_all() {
	mkdir "$T/mount"
	mount -t tmpfs left "$T/mount"
	ip netns add left
	setsid busybox tail -f "$T/runs" >"$T/out" 2>&1 3>&- &
	echo first >"$T/runs"
}

be_killed() {
	leave_all
	kill -9 $BASHPID
}

find_nothing() {
	! pgrep -f "tail -f $T/runs" && ! mountpoint -q "$T/mount" && [ -z "$(ip netns)" ]
}

@test "what a killed test leaves is gone before its file is run again" {
	{
		echo 'bats_require_minimum_version 1.5.0'
		declare -f leave_all be_killed find_nothing
		echo '@test "is killed" { [ -s "$T/runs" ] || be_killed; find_nothing; }'
	} >"$T/sample.bats"
	CI=true run -0 run_tests
	[[ $output == *'flaky: sample.bats: the file as a whole'* ]]
	find_nothing
}

@test "what a run began ends with the runner that is killed" {
	{
		declare -f leave_all
		echo '@test "hangs" { leave_all; busybox tail -f /dev/null; }'
	} >"$T/sample.bats"
	run_tests >"$T/said" 2>&1 3>&- &
	wait_for test -s "$T/runs"
	pkill -9 -P $!
	wait_for find_nothing
}

@test "a file that is no test, or has none, fails the run" {
	echo '@test "broken" {' >"$T/sample.bats"
	CI=true run -1 run_tests
	[[ $(last_line) == '0 passed, '[1-9]*' failed, 0 skipped' ]]
	: >"$T/sample.bats"
	run -1 run_tests
	[ "$(last_line)" = '0 passed, 0 failed, 0 skipped' ]
}

# A build of one unit, one corpus and what the runner asks of meson.
make_units() {
	mkdir -p "$T/units/corpus"
	echo input >"$T/units/corpus/a"
	cat >"$T/units/meson.build" <<-'END'
	project('units', 'c')
	test('unit', executable('test_unit', 'unit.c'), protocol: 'tap')
	test('corpus', executable('replay', 'replay.c'),
	  args: [meson.current_source_dir() / 'corpus'])
	END
	cat >"$T/units/unit.c" <<-'END'
	#include <stdio.h>
	int main(void) { puts("1..2\nok - s::a\n# has threads\nok - s::b"); return 0; }
	END
	echo 'int main(void) { return 0; }' >"$T/units/replay.c"
	meson setup "$T/asan" "$T/units" >"$T/log"
	ninja -C "$T/asan" >>"$T/log"
}

# "NAME CACHED PASSED FAILED" of each.
run_units() {
	ninja -C "$T/asan" >>"$T/log"
	CI='' PYTHONPATH=$TOP/tests/runner python3 -B - "$TOP" "$T/asan" <<-'END'
	import sys, plan, report, units
	suites = list(units.run(sys.argv[1], sys.argv[2], None, 2))
	plan.write_threads(sys.argv[2], suites)
	for s in suites:
	    print(s.name, s.cached, *report.sums([s])[:2])
	END
}

# Which tests began a thread, for ThreadSanitizer, is known all the same.
@test "a unit whose inputs are as they were when it passed is not run again" {
	make_units
	[ "$(run_units)" = $'unit False 2 0\ncorpus False 1 0' ]
	[ "$(run_units)" = $'unit True 2 0\ncorpus True 1 0' ]
	[ "$(jq -c . "$T/asan/unit-threads.json")" = '{"unit":["s/a"]}' ]
	echo more >>"$T/units/corpus/a"
	[ "$(run_units)" = $'unit True 2 0\ncorpus False 1 0' ]
	touch "$T/units/corpus/b"
	[ "$(run_units)" = $'unit True 2 0\ncorpus False 1 0' ]
	sed -i 's/ok - s::b/not ok - s::b/' "$T/units/unit.c"
	[ "$(run_units)" = $'unit False 1 1\ncorpus True 1 0' ]
	# A failure is never kept.
	[ "$(run_units)" = $'unit False 1 1\ncorpus True 1 0' ]
}

@test "what functional tests run of the build is made for them" {
	"$TOP/tests/runner/plan.py" "$BOOTSEER_BUILD" release | sort >"$T/plan"
	ninja -C "$BOOTSEER_BUILD" -t targets all | sed 's/: .*//' | sort >"$T/all"
	grep -rhoE 'BOOTSEER_BUILD[}"]*/[a-z0-9_/.-]+' "$TOP"/tests/functional |
		sed -E 's,^[^/]*/,,' | grep -vx build.ninja | sort -u | comm -12 - "$T/all" >"$T/named"
	grep -qx 'tests/unit/objects/test_objects_store' "$T/named"
	[ -z "$(comm -23 "$T/named" "$T/plan")" ]
	run ! grep -q 'tests/unit/cli/' "$T/plan"
}
