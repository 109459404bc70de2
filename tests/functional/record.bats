#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# `bootseer image record`, `explain` and `ready` with a bootseerd that is a fake:
# what they ask for, run, print and leave behind.

bats_require_minimum_version 1.5.0
load ../wait.bash

bootseer=${BOOTSEER_BUILD:?}/cli/bootseer

setup() {
	T=$(mktemp -d /var/tmp/record.XXXXXX)
	export TMPDIR=$T/tmp BOOTSEER_SOCKET=$T/sock
	mkdir -p "$T"/{tmp,node,tree/bin,tree/etc}
	cp /bin/busybox "$T/tree/bin/busybox"
	ln -s busybox "$T/tree/bin/sh"
	printf 'root:x:0:0::/root:/bin/sh\nann:x:7:8::/home/ann:/bin/sh\n' \
		>"$T/tree/etc/passwd"
	printf 'root:x:0:\nmore:x:44:ann\n' >"$T/tree/etc/group"
	ID=sha256:$(printf '%064d' 1)
	images '{"Entrypoint": ["/bin/sh", "-c"], "Cmd": ["echo serving; exec tail -f /dev/null"],
		"Env": ["FOO=bar", "PATH=/bin"]}'
	mkfifo "$T/pipe"
	"$BOOTSEER_BUILD/tests/fakes/fake-node" "$T/sock" "$T/node" \
		>"$T/pipe" 3>&- &
	PID=$!
	read -r -t 120 line <"$T/pipe"
	[ "$line" = ready ]
}

teardown() {
	kill "$PID"
	rm -rf --one-file-system "$T"
}

images() { # CONFIG
	jq -n --arg id "$ID" --arg tree "$T/tree" --argjson config "$1" '[{
		ref: "reg/app:1", id: $id, manifest: $id, chain_ids: [$id],
		tree: $tree, config: {config: $config},
		starts: [{start: 3, workload: "other"},
			{start: 7, workload: "key-1", read_blocks: 12, reads: 34,
			 read_bytes: 5242880, missed_blocks: 2,
			 missed_bytes: 2048}]}]' >"$T/node/images.json"
}

# Nothing is left: mounts, containers, folders.
left_nothing() {
	[ "$(grep -c " $T/tmp" /proc/self/mountinfo)" = 0 ]
	[ -z "$(ls "$T/tmp")" ]
	[ -z "$(pgrep -f "runc .*$T/tmp")" ]
	grep -q '^image.umount .*"user": "record/' "$T/node/calls"
}

@test "the entry point runs until the line that says it is ready" {
	run -0 --separate-stderr "$bootseer" image record reg/app:1 \
		--ready-line '^serv[a-z]+$'
	grep -qx serving <<<"$output"
	grep -q 'ready *after 1.23 s' <<<"$output"
	grep -q 'recorded *12 blocks; 5.0 MiB in 34 reads' <<<"$output"
	grep -q 'workload *key-1' <<<"$output"
	grep -q '^start.ready {"start": 7}' "$T/node/calls"
	grep '^image.record ' "$T/node/calls" | sed 's/^[^ ]* //' |
		jq -e '.window_ms == 120000 and (has("workload") | not)'
	left_nothing
}

@test "the entry point runs until the file is there, in a mount too" {
	mkdir "$T/out"
	images '{"Entrypoint": ["/bin/sh", "-c", "echo hi >/out/ready; exec tail -f /dev/null"]}'
	run -0 "$bootseer" image record --ready-file /out/ready \
		--mount "$T/out:/out" reg/app:1
	[ "$(cat "$T/out/ready")" = hi ]
	left_nothing
}

@test "a command replaces the entry point, and its end is its being ready" {
	run -0 --separate-stderr "$bootseer" image record -e FOO=baz \
		reg/app:1 -- /bin/sh -c 'echo $FOO $HOME; echo err >&2; id -u'
	[ "${lines[0]}" = 'baz /root' ]
	[ "${lines[1]}" = 0 ]
	[[ $stderr == *err* ]]
	grep -q 'ended *after' <<<"$output"
	# The key of these words.
	grep '^image.record ' "$T/node/calls" | sed 's/^[^ ]* //' |
		jq -e '.workload | test("^sh-[0-9a-f]{12}$")'
	left_nothing
}

@test "the image's user, folder and environment are the container's" {
	images '{"User": "ann", "WorkingDir": "/work", "Env": ["A=b"]}'
	run -0 "$bootseer" image record reg/app:1 -- /bin/sh -c \
		'pwd; echo $A $HOME; id'
	[ "${lines[0]}" = /work ]
	[ "${lines[1]}" = 'b /home/ann' ]
	[[ ${lines[2]} == 'uid=7(ann) gid=8 groups='*'44(more)'* ]]
	images '{"User": "nobody-here"}'
	run -1 "$bootseer" image record reg/app:1 -- /bin/true
	[[ $output == *"'nobody-here' is not in its /etc/passwd"* ]]
	left_nothing
}

@test "a device that the image has for a list of users is not opened" {
	images '{"User": "ann"}'
	rm "$T/tree/etc/passwd"
	# Nothing drives it: who opens it is told so by the kernel.
	mknod "$T/tree/etc/passwd" c 240 77
	run -1 "$bootseer" image record reg/app:1 -- /bin/true
	[[ $output == *"in the image: 'etc/passwd' is no file of at most"* ]]
	left_nothing
}

@test "a window that ends is no failure" {
	run -0 "$bootseer" image record --window 1s reg/app:1
	[[ $output == *'the whole window is recorded'* ]]
	run -0 "$bootseer" image record --window 1s --ready-line never reg/app:1
	[[ $output == *'not within the window'* ]]
	[ "$(grep -c start.ready "$T/node/calls")" = 0 ]
	left_nothing
}

@test "a container that fails is a failure, and says its status" {
	run -1 "$bootseer" image record reg/app:1 -- /bin/sh -c 'exit 9'
	[[ $output == *'ended with status 9 before it was ready'* ]]
	run -1 "$bootseer" image record --ready-line x reg/app:1 -- /bin/sh -c ':'
	[[ $output == *'ended with status 0 before it was ready'* ]]
	[ "$(grep -c start.ready "$T/node/calls")" = 0 ]
	left_nothing
}

@test "a ready file that is there from the start is refused" {
	run -1 "$bootseer" image record --ready-file /etc/passwd reg/app:1
	[[ $output == *'is in the image already'* ]]
	run -2 "$bootseer" image record --ready-file relative reg/app:1
	run -2 "$bootseer" image record --ready-line '(' reg/app:1
	[[ $output == *--ready-line* ]]
	run -2 "$bootseer" image record --mount nonsense reg/app:1
	[[ $output == *SOURCE:TARGET* ]]
	left_nothing
}

@test "a signal ends the container and leaves nothing" {
	mkfifo "$T/out"
	"$bootseer" image record reg/app:1 >"$T/out" 2>"$T/err" 3>&- &
	local pid=$!
	read -r -t 120 line <"$T/out"
	[ "$line" = serving ]
	kill -TERM "$pid"
	wait "$pid" && return 1
	grep -q 'ended by a signal' "$T/err"
	left_nothing
}

has_pid() { compgen -G "$T/tmp/*/pid" >/dev/null && [ -s "$T"/tmp/*/pid ]; }

@test "a container is killed though runc's state was lost" {
	mkfifo "$T/out"
	"$bootseer" image record reg/app:1 >"$T/out" 2>"$T/err" 3>&- &
	local pid=$!
	read -r -t 120 line <"$T/out"
	# runc writes it when the container runs already.
	wait_for has_pid
	init=$(cat "$T"/tmp/*/pid)
	rm -r "$T"/tmp/*/runc
	kill -TERM "$pid"
	wait "$pid" && return 1
	[ ! -e "/proc/$init" ]
	left_nothing
}

@test "what a killed recording left is removed by the next one" {
	mkfifo "$T/out"
	"$bootseer" image record reg/app:1 >"$T/out" 2>"$T/err" 3>&- &
	local pid=$!
	read -r -t 120 line <"$T/out"
	wait_for has_pid
	init=$(cat "$T"/tmp/*/pid)
	# Neither what somebody else made, nor what is in use.
	mkdir -m 777 "$T/tmp/bootseer.aaaaaa"
	mkdir -m 700 "$T/tmp/bootseer.bbbbbb"
	echo -n record/1 >"$T/tmp/bootseer.aaaaaa/user"
	run -0 --separate-stderr "$bootseer" image record reg/app:1 -- /bin/sh -c :
	[ -e "/proc/$init" ]
	[[ $stderr != *'had left'* ]]
	kill -KILL "$pid"
	wait "$pid" || :
	[ -e "/proc/$init" ]
	run -0 --separate-stderr "$bootseer" image record reg/app:1 -- /bin/sh -c :
	[[ $stderr == *'removed what a killed recording had left'* ]]
	wait_for test ! -e "/proc/$init"
	[ -d "$T/tmp/bootseer.aaaaaa" ]
	[ -d "$T/tmp/bootseer.bbbbbb" ]
	rm -r "$T"/tmp/bootseer.{aaaaaa,bbbbbb}
	left_nothing
	[ "$(grep -c '^image.umount .*"user": "record/' "$T/node/calls")" = 3 ]
}

@test "a bootseerd that fails is told of" {
	echo 'image.record 28 the disk is full' >"$T/node/fault"
	run -1 "$bootseer" image record reg/app:1
	[[ $output == *'the disk is full'* ]]
	[ -z "$(ls "$T/tmp")" ]
}

# --- explain ------------------------------------------------------------------

# Starts of the image, newest first, over what a start has by default.
starts() { # START...
	local all=

	for start in "$@"; do
		all+=${all:+,}"{\"started_at\": 1790000000, \"workload\": \"w-1\",
			\"trace\": \"own\", \"end\": \"ready\", \"ready_ms\": 12340,
			\"waited_ms\": 2000, \"watched_ms\": 10340, \"watched\": true,
			\"recorded\": true, \"reads\": 1203, \"read_bytes\": 39950746,
			\"read_blocks\": 412, \"missed_blocks\": 2,
			\"missed_bytes\": 122880, \"fetched\": {\"demand\": 122880,
			\"hot\": 26214400, \"cold\": 0, \"cache\": 12582912},
			\"hot\": {\"blocks\": 400, \"bytes\": 26214400,
			\"used_blocks\": 380, \"used_bytes\": 25165824,
			\"unused_blocks\": 20, \"unused_bytes\": 1048576},
			\"missed_files\": [{\"path\": \"/usr/lib/libfoo.so\",
			\"bytes\": 81920}]} * $start"
	done
	jq --argjson id "\"$ID\"" ".[0].starts = [$all]" \
		"$T/node/images.json" >"$T/new"
	mv "$T/new" "$T/node/images.json"
}

explain() { "$bootseer" image explain reg/app:1 "$@"; }

@test "explain shows each start, and says on top how the last one went" {
	starts '{}' '{"end": "gone", "trace": "none"}'
	run -0 explain
	[ "${lines[0]}" = reg/app:1 ]
	[[ ${lines[1]} == good:* ]]
	grep -q 'ready  *after 12.34 s, waited 2.00 s' <<<"$output"
	grep -q 'trace  *of this image and workload; this start was recorded' \
		<<<"$output"
	grep -q 'read  *38.1 MiB, 412 blocks, in 1203 reads' <<<"$output"
	grep -q 'fetched  *25.0 MiB by prefetch, 120.0 KiB on demand, 12.0 MiB was on the node already$' \
		<<<"$output"
	grep -q 'hot set  *400 blocks, 25.0 MiB; .* 24.0 MiB used, 1.0 MiB not' \
		<<<"$output"
	grep -q 'missed  *2 blocks, 120.0 KiB' <<<"$output"
	grep -q '80.0 KiB /usr/lib/libfoo.so' <<<"$output"
	grep -q 'never: the container ended after 10.34 s' <<<"$output"
	explain --json | jq -e '.starts[1].end == "gone"'
}

@test "what a file, a workload or an error is called writes nothing else to the terminal" {
	local bad='\u001b[2J\u009b2J\u007f\nx'

	starts "{\"workload\": \"w$bad\", \"missed_files\": [{\"path\": \"/f$bad\",
		\"bytes\": 1}]}"
	run -0 explain
	grep -q ' /f?\[2J??2J??x$' <<<"$output"
	grep -q 'workload w?\[2J??2J??x$' <<<"$output"
	printf 'image.explain 5 bad \e[2J\xc2\x9b2J\n' >"$T/node/fault"
	run -1 --separate-stderr explain
	[[ $stderr == *'bad ?[2J??2J'* ]]
}

@test "explain says what to do about a start that went badly" {
	starts
	run -0 explain
	[[ ${lines[1]} == 'no start of this image has ended'* ]]
	starts '{"trace": "none"}'
	run -0 explain
	[[ ${lines[1]} == 'no trace was found: this start recorded one'* ]]
	starts '{"trace": "none", "fetched": {"hot": 0, "cache": 0}}'
	run -0 explain
	grep -q 'fetched  *120.0 KiB on demand$' <<<"$output"
	[[ $output != *' 0 B '* ]]
	starts '{"fetched": {"hot": 0, "cache": 0, "demand": 0}}'
	run -0 explain
	grep -q 'fetched  *nothing$' <<<"$output"
	starts '{"missed_blocks": 1, "read_blocks": 1, "reads": 1}'
	run -0 explain
	grep -q 'read  *38.1 MiB, 1 block, in 1 read$' <<<"$output"
	grep -q 'missed  *1 block, ' <<<"$output"
	starts '{"trace": "none", "recorded": false}'
	run -0 explain
	[[ ${lines[1]} == *"see --record of bootseerd"* ]]
	starts '{"watched": false}'
	run -0 explain
	[[ ${lines[1]} == *'was not watched'* ]]
	starts '{"missed_blocks": 100, "trace": "far"}'
	run -0 explain
	[[ ${lines[1]} == *'another image or workload'* ]]
	starts '{"missed_blocks": 100, "hot": {"unused_blocks": 900}}'
	run -0 explain
	[[ ${lines[1]} == *'does not fit'* ]]
	starts '{"missed_blocks": 100, "fetched": {"hot": 1000}}'
	run -0 explain
	[[ ${lines[1]} == *'overtaken'* ]]
	starts '{"missed_blocks": 100}'
	run -0 explain
	[[ ${lines[1]} == *'missed files'* ]]
}

@test "explain finds an image by its names and its digest, or says where to look" {
	starts '{}'
	"$bootseer" image explain docker://reg/app:1
	"$bootseer" image explain "$ID"
	"$bootseer" image explain 000000000000
	run -1 "$bootseer" image explain 00000000000
	run -1 "$bootseer" image explain reg/app
	[[ $output == *"'bootseer node status' lists"* ]]
}

# --- ready --------------------------------------------------------------------

@test "ready is said to the socket in the container, or to bootseerd" {
	run -0 "$bootseer" image ready --start 7
	[ "$output" = 'ready after 1.23 s' ]
	run -0 "$bootseer" image ready --user me
	grep -q '^start.ready {"user": "me"}' "$T/node/calls"
	run -2 "$bootseer" image ready --user me --start 7
	run -1 "$bootseer" image ready --ready-socket "$T/none"
	[[ $output == *"'image record' wants --ready-file or --ready-line"* ]]
	[[ $output == *'mount it into the container'* ]]
}

# One answer on a socket of its own; "": none.
say() { # STATUS BODY
	rm -f "$T/ready" "$T/said"
	python3 -c '
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1]); s.listen(); print("up", flush=True)
c, _ = s.accept()
open(sys.argv[2], "wb").write(c.recv(100))
if sys.argv[3]:
    c.sendall(f"HTTP/1.1 {sys.argv[3]} x\r\nContent-Length: {len(sys.argv[4])}\r\n\r\n"
              f"{sys.argv[4]}".encode())' \
		"$T/ready" "$T/said" "$@" >"$T/pipe" 3>&- &
	read -r -t 120 line <"$T/pipe"
	run "$bootseer" image ready --ready-socket "$T/ready"
	wait $!
}

@test "ready tells what bootseerd answers in a container" {
	say 200 $'ok 2500\n'
	[ "$status" -eq 0 ]
	[ "$output" = 'ready after 2.50 s' ]
	grep -q '^POST /v1/ready ' "$T/said"
	say 404 $'error: no start of this container is under way\n'
	[ "$status" -eq 1 ]
	[[ $output == *'is under way' ]]
	say ''
	[ "$status" -eq 1 ]
	[[ $output == *'closed the connection'* ]]
}
