#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What is read of a mounted environment: recorded, kept, and fetched first by the next node.

bats_require_minimum_version 1.5.0
load node.bash
load p2p.bash
load env-nodes.bash

setup()
{
	env_setup
	cat >"$T/setup.sh" <<-'EOT'
		echo ran >>"$T/ran"
		mkdir "$T/site/pkg"
		cd "$T/site/pkg"
		openssl enc -aes-128-ctr -nosalt -K 01 -iv 02 -in /dev/zero 2>/dev/null |
			head -c 40000000 | split -b 100000 -d -a 3
	EOT
	# What a job reads at its start: so little of it, and so far apart, that no miss
	# brings another one's blocks.
	cat >"$T/job" <<-'EOT'
		for i in 00 04 08 12 16 20 24 28 32 36; do
			cat "$T/site/pkg/x${i}0"
		done >/dev/null
	EOT
	# Until what the trace names is on the node.
	cat >"$T/wait-hot" <<-'EOT'
		. "$WAIT"
		is_there() {
			"$bootseer" node status --json | jq -e \
				'.images[0].prefetch.phase == "done"' >/dev/null
		}
		wait_for is_there
	EOT
	export bootseer WAIT=$BATS_TEST_DIRNAME/../wait.bash
}

teardown() { env_teardown; }

# A node that fetches nothing of an environment but what its trace names.
trace_peer() # NAME [OPTION...]
{
	env_peer "$@" --record auto --prefetch hot --metrics 127.0.0.1:0
}
# One that asks the service for traces, and tells it of its own.
served_peer() # NAME [OPTION...]
{
	trace_peer "$@" --service "$TRACKER"
}

# One start: the mount, COMMAND, the job, the end.
start_on() # NODE [COMMAND [OPTION...]]
{
	local n

	n=$(($(figure "$1" starts_unready_total) + 1))
	in_node "$1" "set -e
		$(run_line "${@:3}") 2>$T/$1.said
		${2:-:}
		sh $T/job
		$(printf '%q ' "$bootseer" env umount "$T/site")"
	grep -q '^bootseer env run: mounted ' "$T/$1.said"
	wait_for has_noted "$1" "$n"
}
has_noted() # NODE N
{
	[ "$(jq -s 'map(length) | add' "$T/$1"/root/images/*/starts.json)" = "$2" ]
}

figure() # NODE NAME
{
	local port

	port=$(sed -nE 's/.*metrics port=([0-9]+).*/\1/p' "$T/$1/log")
	curl -fsS "http://127.0.0.1:$port/metrics" |
		sed -n "s/^bootseer_node_$2 //p"
}
# Of the newest start of the node.
start_was() # NODE FILTER
{
	jq -s -r "add | max_by(.start) | $2" "$T/$1"/root/images/*/starts.json
}
has_sent() { [ "$(figure "$1" traces_sent_total)" -ge "$2" ]; } # NODE N

# What the service has, as whoever shows the token of NAME is told.
service_says() # NAME PATH
{
	curl -sS -o "$T/answer" -w '%{http_code}' \
		-H "Authorization: Bearer $(cat "$T/token.$1" 2>/dev/null)" \
		"$TRACKER/v1/$2"
}

@test "what one node read of an environment, the next has before it is read" {
	tracker_start
	capture
	served_peer a
	start_on a
	[ "$(start_was a .trace)" = none ]
	[ "$(start_was a .recorded)" = true ]
	[ "$(start_was a .workload)" = environment ]
	[ "$(start_was a .missed_blocks)" -ge 10 ]
	[ "$(figure a starts_missed_blocks_total)" = "$(start_was a .missed_blocks)" ]
	run -0 on a image explain "$(on a node status --json | jq -r '.images[0].names[0]')"
	[[ ${lines[0]} == "$STORE/env/index/"* ]]
	[[ ${lines[1]} == 'no trace was found: this start recorded one'* ]]
	wait_for has_sent a 1
	[ "$(service_says '' "traces?repo=$STORE")" = 200 ]
	jq -e '.traces | length == 1 and .[0].runs == 1 and
		.[0].workload == "environment"' "$T/answer"
	served_peer b
	# A node that is slow would read them there, too.
	without_blobs start_on b "bash $T/wait-hot"
	[ "$(start_was b .trace)" = own ]
	[ "$(figure b starts_missed_blocks_total)" = 0 ]
	[ "$(start_was b .fetched.demand)" = 0 ]
	[ "$(start_was b .hot.unused_blocks)" = 0 ]
	[ "$(figure b starts_hot_used_bytes_total)" -ge 1000000 ]
	[ "$(figure b prefetch_cold_bytes_total)" = 0 ]
	# They came from the first; the store has given what was missed there, and no more.
	[ "$(origin_bytes b)" = 0 ]
	[ "$(peer_bytes b)" -ge 1000000 ]
	# The service's images are those of registries.
	[ "$(service_says '' images)" = 200 ]
	jq -e '.images == []' "$T/answer"
}

@test "a second version has first what the first one's starts read" {
	tracker_start
	capture
	served_peer a
	start_on a
	wait_for has_sent a 1
	rm "$T/ran"
	echo 'tac x000 >"$T/site/new"' >>"$T/setup.sh"
	in_node second "unset BOOTSEER_SOCKET; $(run_line --key version=2)"
	served_peer b
	start_on b "bash $T/wait-hot" --key version=2
	[ "$(start_was b .trace)" = relative ]
	[ "$(start_was b .recorded)" = true ]
	[ "$(figure b starts_missed_blocks_total)" = 0 ]
	[ "$(figure b starts_hot_used_bytes_total)" -ge 1000000 ]
}

@test "without a service the trace is this node's, for its next mount" {
	TRACKER=
	capture
	trace_peer a
	start_on a
	[ "$(start_was a .recorded)" = true ]
	# One that has but the traces, as after its blocks were dropped.
	mkdir -p "$T/b/root"
	cp -a "$T/a/root/traces" "$T/b/root/"
	trace_peer b
	start_on b "bash $T/wait-hot"
	[ "$(start_was b .trace)" = own ]
	[ "$(figure b starts_missed_blocks_total)" = 0 ]
}

@test "a node that may not read the store gets no trace of it, nor adds to one" {
	local image

	tracker_with_stores
	capture
	served_peer a --service-token-file "$T/token.in"
	start_on a
	wait_for has_sent a 1
	[ "$(service_says in "traces?repo=$STORE")" = 200 ]
	image=$(jq -r '.traces[0].image' "$T/answer")
	served_peer x --service-token-file "$T/token.out"
	start_on x
	[ "$(start_was x .trace)" = none ]
	grep -q "^warning traces: store=service reason=\"GET .* answered 403: .*does not say for out: $(
	)stores=$STORE" "$T/x/log"
	# It is told that what it recorded is its own, once, and does not wait with it.
	wait_for grep -q "^warning traces: dropped reason=\"kept on this node alone: " "$T/x/log"
	wait_for nothing_waits x
	start_on x "bash $T/wait-hot"
	[ "$(start_was x .trace)" = own ]
	# By another name of the store, which its token has: what came by that name, which is
	# nothing.
	ln -s . "$T/store/else"
	STORE=$STORE/else served_peer y --service-token-file "$T/token.else"
	STORE=$STORE/else start_on y
	[ "$(start_was y .trace)" = none ]
	# Whatever way it asks.
	for ask in "traces/$image?workload=environment&repo=$STORE" \
		"traces/$image?repo=$STORE" "traces?repo=$STORE" \
		"images/$image?workload=environment&repo=$STORE"; do
		[ "$(service_says out "$ask")" = 403 ]
		[ "$(service_says in "$ask")" = 200 ]
	done
	[ "$(service_says out "traces/$image?workload=environment")" = 404 ]
	[ "$(service_says out "traces/$image?workload=environment&repo=h/app")" = 404 ]
	[ "$(service_says out "images/$image?workload=environment&repo=h/app")" = 404 ]
	[ "$(service_says out "traces/$image")" = 200 ]
	jq -e '.traces == []' "$T/answer"
	[ "$(service_says in "traces?repo=$STORE")" = 200 ]
	jq -e '.traces[0].runs == 1' "$T/answer"
}
nothing_waits() { [ "$(figure "$1" traces_waiting)" = 0 ]; }

# A service that answers each question for a trace with the bytes of FILE.
false_service() # FILE
{
	python3 -c '
import http.server, sys
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = open(sys.argv[1], "rb").read()
        self.send_response(200)
        self.send_header("Bootseer-Match", "own")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a):
        pass
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), H)
print(s.server_port, flush=True)
s.serve_forever()' "$1" >"$T/false.port" 3>&- &
	pids+=($!)
	wait_for test -s "$T/false.port"
}

@test "a damaged trace is refused, and the environment is mounted without" {
	local image trace

	tracker_start
	capture
	served_peer a
	start_on a
	wait_for has_sent a 1
	[ "$(service_says '' "traces?repo=$STORE")" = 200 ]
	image=$(jq -r '.traces[0].image' "$T/answer")
	[ "$(service_says '' "traces/$image?workload=environment&repo=$STORE")" = 200 ]
	# What came from the service.
	python3 -c '
import sys
b = bytearray(open(sys.argv[1], "rb").read())
b[-20] ^= 1
open(sys.argv[2], "wb").write(b)' "$T/answer" "$T/bad.trace"
	false_service "$T/bad.trace"
	trace_peer b --service "http://127.0.0.1:$(cat "$T/false.port")"
	start_on b "diff -r $T/site $T/maker.site"
	[ "$(start_was b .trace)" = none ]
	[ "$(figure b prefetch_hot_bytes_total)" = 0 ]
	[ "$(figure b trace_store_failures_total)" -ge 1 ]
	grep -q '^warning traces: store=service reason=.*action="looked elsewhere"' "$T/b/log"
	# What a disk did to the node's own.
	mkdir -p "$T/c/root"
	cp -a "$T/a/root/traces" "$T/c/root/"
	trace=$(find "$T/c/root/traces/store" -name '*.trace')
	cp "$T/bad.trace" "$trace"
	TRACKER=
	trace_peer c
	start_on c
	[ "$(start_was c .trace)" = none ]
	[ "$(figure c prefetch_hot_bytes_total)" = 0 ]
	# It has made place for that of this start.
	start_on c
	[ "$(start_was c .trace)" = own ]
}
