#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The commands on starts against bootseerd itself.

bats_require_minimum_version 1.5.0
load node.bash
load registry.bash

setup_file() { make_image "$BATS_FILE_TMPDIR"; }
setup() { node_setup; export TMPDIR=$T; }
teardown() { stop_all; node_teardown; }

record() { "$bootseer" image record "$IMAGE" "$@"; }

@test "a recording is kept, explained, and leaves nothing behind" {
	node_start
	run -0 --separate-stderr record -- /bin/sh -c 'cat /big | wc -c'
	[ "${lines[0]}" = 24000000 ]
	grep -q '^ended *after [0-9]' <<<"$output"
	grep -qE '^recorded *[1-9][0-9]* blocks' <<<"$output"
	run -0 "$bootseer" image explain "$IMAGE"
	[[ ${lines[1]} == 'no trace was found: this start recorded one'* ]]
	grep -qE 'MiB /big$' <<<"$output"
	"$bootseer" image explain "$IMAGE" --json |
		jq -e '.starts[0] | .end == "ready" and .recorded'
	[ "$(status '.images[0].users | length')" = 0 ]
	[ "$(status '.images[0].mode')" = none ]
	[ -z "$(ls -d "$T"/bootseer.* 2>/dev/null)" ]
	[ "$(mounts_left)" -le 1 ]
}

@test "the second recording of a command finds the trace of the first" {
	node_start
	record -- /bin/sh -c 'cat /big >/dev/null'
	run -0 record -o "$T/trace" -- /bin/sh -c 'cat /big >/dev/null'
	"$bootseer" trace show --json "$T/trace" |
		jq -e '.runs == 2 and any(.entries[]; .path == "/big")'
	run -0 "$bootseer" image explain "$IMAGE"
	[ "$("$bootseer" image explain "$IMAGE" --json |
		jq -r '.starts | length')" = 2 ]
	[ "$("$bootseer" image explain "$IMAGE" --json |
		jq -r '.starts[0].trace')" = own ]
}

# Two images with the same files, which nothing else tells of each other: their repositories have
# nothing in common, nor their manifests.
relatives() {
	local i

	mkdir "$T/lib"
	for i in {1..6}; do noise 200000 "2$i" >"$T/lib/$i"; done
	umoci init --layout "$T/two"
	umoci new --image "$T/two:a"
	umoci insert --image "$T/two:a" "$D/rootfs/bin" /bin
	umoci insert --image "$T/two:a" "$T/lib" /lib
	umoci config --image "$T/two:a" --tag b --config.label of=another
	for i in a b; do
		"$bootseer" image convert "oci:$T/two:$i" "oci:$D/oci:$i" >/dev/null
	done
}

@test "a first start fetches what another image's start read, as far as it proves right" {
	local ref

	W=$T DB=sqlite:$T/registry.db
	relatives
	ref=$REGISTRY/app/one:b
	service
	node_start --service "$U" --node-name n1
	"$bootseer" image record "$REGISTRY/img:a" -- /bin/sh -c 'cat /lib/* >/dev/null'
	wait_for has_trace
	node_stop
	# The other node has nothing, nor has the service a trace of this image; what it predicted
	# before it knew the first start it keeps for a while.
	end_service TERM
	service
	ROOT=$T/other node_start --service "$U" --node-name n2 --prefetch hot --record off
	# The container stands still until what is predicted is there.
	"$bootseer" image record "$ref" -- /bin/sh -c "/bin/sh -c 'kill -STOP \$\$ # $T'
		cat /lib/1 /lib/2 /lib/3 /lib/4 /lib/5 >/dev/null" 3>&- &
	pids+=($!)
	wait_for stands_still
	wait_for said 'prefetch: done'
	kill -CONT "$still"
	wait "${pids[-1]}"
	"$bootseer" image explain "$ref" --json | tee "$T/explained" |
		jq -e '.starts[0] | .trace == "predicted" and .hot.used_bytes > 900000 and
		all(.missed_files[]; .path == "/bin/busybox") and .hot.unused_bytes > 0 and .hot.unused_bytes < 400000'
}

@test "a first start fetches what the image's own script reads" {
	local ref=$REGISTRY/app/said:1

	mkdir "$T/lib"
	for i in {1..5}; do noise 200000 "3$i" >"$T/lib/$i"; done
	printf '#!/bin/sh\nlib=/lib\ncat $lib/1 "${lib}/2" /lib/3 /lib/4 >/dev/null\n' >"$T/script"
	chmod 755 "$T/script"
	umoci init --layout "$T/own"
	umoci new --image "$T/own:a"
	umoci insert --image "$T/own:a" "$D/rootfs/bin" /bin
	umoci insert --image "$T/own:a" "$T/lib" /lib
	umoci insert --image "$T/own:a" "$T/script" /run
	umoci config --image "$T/own:a" --config.entrypoint /run
	"$bootseer" image convert --plain-http "oci:$T/own:a" "docker://$ref" >/dev/null
	node_start --prefetch hot --record off
	"$bootseer" image mount "$ref" "$T/mnt"
	wait_for said 'prefetch: done'
	"$bootseer" image record "$ref"
	"$bootseer" image explain "$ref" --json | tee "$T/explained" |
		jq -e '.starts[0] | .trace == "predicted" and .hot.used_bytes > 700000 and
			.hot.unused_bytes < 300000'
	"$bootseer" image umount "$T/mnt"
}

@test "a search ends when the container runs something else than the image says" {
	local ref=$REGISTRY/app/else:1 i line

	W=$T DB=sqlite:$T/registry.db
	mkdir "$T/lib" "$T/scripts"
	noise 6000000 4 >"$T/lib/other"
	for i in {1..12}; do
		noise 1000000 "5$i" >"$T/lib/$i"
		printf '#!/bin/sh\ncat /lib/%s\nexec /scripts/%s\n' "$i" $((i + 1)) \
			>"$T/scripts/$i"
	done
	chmod 755 "$T"/scripts/*
	umoci init --layout "$T/own"
	umoci new --image "$T/own:a"
	umoci insert --image "$T/own:a" "$D/rootfs/bin" /bin
	umoci insert --image "$T/own:a" "$T/lib" /lib
	umoci insert --image "$T/own:a" "$T/scripts" /scripts
	umoci config --image "$T/own:a" --config.entrypoint /scripts/1
	"$bootseer" image convert --plain-http "oci:$T/own:a" "docker://$ref" >/dev/null
	# The search begins when the service has no trace, which is not before it goes on.
	service
	kill -STOP "${services[-1]}"
	node_start --prefetch hot --record off --service "$U"
	mkfifo "$T/out"
	"$bootseer" image record "$ref" -- /bin/sh -c \
		'cat /lib/other >/dev/null; echo up; exec tail -f /dev/null' \
		>"$T/out" 2>/dev/null 3>&- &
	pids+=($!)
	read -r -t 120 line <"$T/out"
	[ "$line" = up ]
	kill -CONT "${services[-1]}"
	wait_for said 'not searched .*reason="the start reads something else"'
	kill "${pids[-1]}"
}

stands_still() {
	still=$(pgrep -f "^/bin/sh -c kill -STOP .*$T") && [ "$(ps -o stat= "$still" | cut -c1)" = T ]
}
said() { grep -q "$1" "$T/log"; }
has_trace() { curl -fsS "$U/metrics" | grep -q '^bootseer_registry_recordings_stored_total 1'; }

@test "a line ends a recording, also of an image that is mounted" {
	node_start
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	cat "$T/mnt/top/data" >/dev/null
	run -0 record --ready-line '^up$' --workload web -- /bin/sh -c \
		'cat /top/data >/dev/null; echo up; exec tail -f /dev/null'
	grep -q '^ready *after' <<<"$output"
	grep -q '^workload *web' <<<"$output"
	grep -qE '^recorded *[1-9][0-9]* blocks' <<<"$output"
	"$bootseer" image umount "$T/mnt"
}

@test "who is in no container that starts is told so" {
	node_start
	run -1 "$bootseer" image ready --ready-socket "$T/run/ready.sock"
	[[ $output == *'no start of this container is under way'* ]]
	run -1 "$bootseer" image ready --start 999
	[[ $output == *'no such start'* ]]
}

@test "status shows a start under way" {
	local pid line

	node_start
	mkfifo "$T/out"
	"$bootseer" image record "$IMAGE" --workload web -- /bin/sh -c \
		'echo up; exec tail -f /dev/null' >"$T/out" 2>/dev/null 3>&- &
	pid=$!
	read -r -t 120 line <"$T/out"
	[ "$line" = up ]
	run -0 "$bootseer" node status
	grep -qE "^  starting  [0-9]+: record/$pid-.*, web, for .* s, recorded" \
		<<<"$output"
	kill "$pid"
	wait "$pid" && return 1
	[ "$(status '.starts | length')" = 0 ]
}

@test "what a recorded container writes is out of reach of the machine's users" {
	local pid line file

	chmod 711 "$T"
	node_start
	mkfifo "$T/out"
	"$bootseer" image record "$IMAGE" -- /bin/sh -c \
		'/bin/busybox cp /bin/busybox /mine && /bin/busybox chmod 4755 /mine
		echo up; exec tail -f /dev/null' >"$T/out" 2>/dev/null 3>&- &
	pid=$!
	pids+=("$pid")
	read -r -t 120 line <"$T/out"
	[ "$line" = up ]
	file=$(find "$T"/bootseer.* -name mine -path '*/upper/*')
	[ "$(stat -c %a "$file")" = 4755 ]
	# By way of env: setpriv itself would open it with root's rights.
	run ! setpriv --reuid 65534 --regid 65534 --clear-groups env cat "$file"
	kill "$pid"
	wait "$pid" && return 1
	[ -z "$(ls -d "$T"/bootseer.* 2>/dev/null)" ]
}
