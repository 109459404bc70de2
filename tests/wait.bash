# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash

# Until COMMAND succeeds; no other wait is anywhere. The five minutes are there to
# end a test that hangs: no test is about how long something takes.  Looks cost processor
# time (a curl, a jq), so they get rarer, from 20 ms to 200 ms between them; a COMMAND that
# moves a clock on sets `looks` to 0, for nothing but its looks makes the time pass.
wait_for() {
	local end=$((SECONDS + 300)) looks=0 pause

	until "$@"; do
		((SECONDS < end)) || { echo "waited for: $*"; return 1; }
		printf -v pause '0.%03d' $((looks < 18 ? 20 + 10 * looks : 200))
		pause_for "$pause"
		looks=$((looks + 1))
	done
}

# By a FIFO that nobody writes to: a look of its own costs a process less than with one of bash's.
pause_for() { # SECONDS
	if [ -p "${BATS_RUN_TMPDIR-}/never" ]; then
		read -r -t "$1" <>"$BATS_RUN_TMPDIR/never" || :
	else
		read -r -t "$1" <> <(:) || :
	fi
}

# An address of this machine for this test alone: a port that a server of the test gave up
# is had again, where one of 127.0.0.1 may be a server's of a test beside.
own_address() {
	echo "127.$((RANDOM % 254 + 1)).$((RANDOM % 254 + 1)).$((RANDOM % 254 + 1))"
}

# A process of this shell that must end badly: in the subshell of `run` there is none to
# wait for, which is no success either.
wait_fails() { ! wait "$1"; } # PID

# All of the processes, each of which must end well: wait by itself tells of the
# last one only.
wait_all() { # PID...
	local pid failed=0

	for pid; do
		wait "$pid" || { echo "process $pid: $?"; failed=1; }
	done
	return "$failed"
}

kill_jobs() { # of the test
	local pid

	for pid in $(jobs -p); do
		kill -9 "$pid" 2>/dev/null || :
	done
}
