#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Daemons whose descriptors run out, and are to be had again later.

bats_require_minimum_version 1.5.0
load node.bash
load registry.bash

setup_file() { make_image "$BATS_FILE_TMPDIR"; }
setup() { node_setup; }
teardown() {
	stop_all
	node_teardown
}

# From now on PID can open so many descriptors, or none: the limit is the lowest number
# that is free, and those below it are all in use.
starve() { # PID [SPARE]
	local n=0 left=${2:-0}

	while [ -e "/proc/$1/fd/$n" ] || ((left-- > 0)); do n=$((n + 1)); done
	prlimit --pid "$1" --nofile="$n:"
}

feed() { prlimit --pid "$1" --nofile=1024:; } # PID

# Processor time that it took so far, in hundredths of a second.
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; } # PID

# With no descriptor for PID, COMMAND... waits two seconds in vain. A daemon that spins takes
# most of them; one that pauses between its tries takes next to nothing, whatever else this
# machine does.  For wait_for: what the daemon does by itself may just have given one back.
waits_in_vain() { # PID COMMAND...
	local pid=$1 before

	shift
	starve "$pid"
	before=$(ticks "$pid")
	! "$@" || return
	[ $(($(ticks "$pid") - before)) -lt 100 ]
}

ask_status() { LEAVE_AFTER=2 call node.status '{}'; }

# A line to the socket of a pod, and its answer.
ask_pod() # SECONDS
{
	python3 -c 'import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(int(sys.argv[1]))
s.connect(sys.argv[2])
s.sendall(b"{\"bootseer\":1,\"method\":\"node.status\"}\n")
print(s.makefile().readline() or sys.exit("no reply"), end="")' "$1" "$pod/pod/env.sock"
}

@test "a bootseerd without descriptors says so, does not spin, and answers again" {
	node_start
	call node.status '{}' | jq -e .result
	wait_for waits_in_vain "$node_pid" ask_status
	wait_for grep -q '^warning control: connections wait: cannot accept .*cure="a higher LimitNOFILE=' \
		"$T/log"
	[ "$(grep -c 'connections wait' "$T/log")" = 1 ]
	feed "$node_pid"
	call node.status '{}' | jq -e .result
}

@test "an image is prepared after descriptors were short at any point of it" {
	local spare reply=

	# Until there are enough.
	for ((spare = 1; spare < 80; spare += 4)); do
		node_start
		starve "$node_pid" "$spare"
		reply=$(LEAVE_AFTER=60 call image.prepare "{\"ref\":\"$IMAGE\"}")
		feed "$node_pid"
		jq -e '.result.id or (.error.message | length > 0)' <<<"$reply"
		# What failed is not remembered, and nothing is in its way.
		call image.prepare "{\"ref\":\"$IMAGE\"}" | jq -e .result.id
		[[ $reply != *'"result"'* ]] || break
		node_stop
		rm -rf "$T/root"
	done
	[ "$spare" -gt 1 ]
	[[ $reply == *'"result"'* ]]
}

@test "a bootseer-registry without descriptors says so, does not spin, and answers again" {
	W=$T DB=sqlite:$T/registry.db
	service
	curl -fsS "$U/v1/traces?repo=host/app" >/dev/null
	wait_for waits_in_vain "$pid" curl -fsS --max-time 2 "$U/v1/traces?repo=host/app"
	wait_for grep -q 'connections wait: cannot accept .*cure="a higher LimitNOFILE=' "$LOG"
	feed "$pid"
	curl -fsS --max-time 120 "$U/v1/traces?repo=host/app" >/dev/null
}

@test "a socket for a pod's containers says so, does not spin, and answers again" {
	local pid pod=$T/pod

	"$BOOTSEER_BUILD/cli/bootseer" env socket --store "file://$T/store" "$pod" \
		2>"$pod.log" 3>&- &
	pid=$!
	pids+=("$pid")
	wait_for grep -q 'env socket: ready' "$pod.log"
	ask_pod 2 | jq -e .error
	wait_for waits_in_vain "$pid" ask_pod 2
	wait_for grep -q '^warning env-socket: connections wait: cannot accept .*cure="a higher LimitNOFILE=' \
		"$pod.log"
	[ "$(grep -c 'connections wait' "$pod.log")" = 1 ]
	feed "$pid"
	ask_pod 60 | jq -e .error
}
