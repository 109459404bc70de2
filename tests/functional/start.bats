#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Starts of containers as bootseerd sees them: recorded, prefetched, explained.

bats_require_minimum_version 1.5.0
load node.bash

setup_file() { make_image "$BATS_FILE_TMPDIR"; }
setup() { node_setup; }
teardown() {
	node_teardown
	[ -z "${GROUP-}" ] || rmdir "$GROUP"
}

# A bootseerd that fetches nothing by itself unless told otherwise.
start_quiet() { node_start --log-level debug --prefetch off "$@"; }

# call, and it must succeed: the result.
ask() { # METHOD PARAMS
	local reply

	reply=$(call "$@")
	jq -e '.result' <<<"$reply" || { echo "$1: $reply" >&2; return 1; }
}

prepare() { ID=$(ask image.prepare "{\"ref\":\"$IMAGE\"}" | jq -r .id); }

# The image, mounted for containers; $FS is its root.
mount_for_start() { # [USER]
	prepare
	FS=$(ask image.mount "{\"id\":\"$ID\",\"user\":\"${1:-u}\",
		\"for_start\":true}" | jq -r .path)
}

umount_all() { ask image.umount "{\"user\":\"${1:-u}\"}" >/dev/null; }

begin() { # USER [MORE PARAMETERS]
	ask start.begin "{\"id\":\"$ID\",\"user\":\"$1\"${2:+,$2}}"
}

ready() { ask start.ready "{\"user\":\"$1\"}" >/dev/null; }

# What the "application" reads at its start.
app() { # ROOT
	sha256sum "$1/bin/busybox" "$1/top/data" "$1/many/7" >/dev/null
	head -c 6000000 "$1/big" >/dev/null
}

explain() { # FILTER
	ask image.explain "{\"id\":\"$ID\"}" | jq -r ".starts$1"
}
has_starts() { [ "$(explain '|length')" -eq "$1" ]; }
traces() { find "$T/root/traces/store" -type f | wc -l; }

# One start of the app, recorded.
record_once() { # [MORE PARAMETERS]
	mount_for_start
	begin c1 "${1:-}" >"$T/begin"
	app "$FS"
	ready c1
	wait_for has_starts 1
}

# End the node, for a new one in $T/two that has but its traces.
leave_traces() {
	umount_all
	node_stop
	mkdir "$T/two"
	mv "$T/root/traces" "$T/two/traces"
}

@test "a start without a trace is recorded, to the folder" {
	start_quiet
	record_once '"config_key":true'
	[ "$(jq -r .trace "$T/begin")" = none ]
	[ "$(jq -r .recording "$T/begin")" = true ]
	[ "$(traces)" -gt 0 ]
	[ "$(explain '[0].end')" = ready ]
	[ "$(explain '[0].recorded')" = true ]
	[ "$(explain '[0].ready_ms')" -ge 0 ]
	[ "$(explain '[0].missed_blocks')" -gt 0 ]
	[ "$(explain '[0].fetched.demand')" -gt 0 ]
	# How much of a file comes before its reader asks is a matter of speed.
	[ "$(explain '[0].missed_files | any(.path == "/big")')" = true ]
	[ "$(explain '[0].missed_files | . == sort_by(-.bytes, .path)')" = true ]
	# What was never read is not there.
	[ "$(explain '[0].missed_files | map(.path) | index("/many/8")')" = null ]
	umount_all
	[ "$(mounts_left)" -le 1 ]
}

@test "a start with a trace has its blocks before it begins, and misses none" {
	start_quiet
	record_once
	leave_traces
	ROOT=$T/two node_start --prefetch hot
	mount_for_start
	begin c2 '"wait":"all"' >"$T/begin"
	[ "$(jq -r .trace "$T/begin")" = own ]
	[ "$(jq -r .hot_blocks "$T/begin")" -gt 0 ]
	[ "$(jq '.hot_bytes == .have_bytes' "$T/begin")" = true ]
	app "$FS"
	ready c2
	wait_for has_starts 1
	[ "$(explain '[0].missed_blocks')" = 0 ]
	[ "$(explain '[0].fetched.demand')" = 0 ]
	[ "$(explain '[0].hot.used_blocks')" -gt 0 ]
	[ "$(explain '[0].hot.unused_blocks')" = 0 ]
	[ "$(explain '[0].missed_files | length')" = 0 ]
	umount_all
}

@test "a start asks the registry for nothing that the pull has read" {
	start_quiet --trace-oci no
	mount_for_start
	begin c1 '"config_key":true' >"$T/begin"
	[ "$(jq -r .trace "$T/begin")" = none ]
	# Two manifests, one of which has its config in it, referrers by the API and by the
	# tag (which of them the registry has is not known yet), the image's config, two
	# files.
	grep -v ' 206 ' "$T/requests" >"$T/asked"
	[ "$(wc -l <"$T/asked")" -eq 7 ] || { cat "$T/asked"; false; }
	[ -z "$(cut -d' ' -f1,2 "$T/asked" | sort | uniq -d)" ]
	umount_all
}

@test "--hot on a node that never saw the image waits for the trace, and takes no more" {
	start_quiet
	record_once
	leave_traces
	ROOT=$T/two node_start
	run -0 "$bootseer" image prefetch --hot --wait "$IMAGE"
	[ "$(status '.images[0].prefetch.hot_bytes')" -gt 0 ]
	[ "$(status '.images[0].prefetch.phase')" = done ]
	[ "$(status '.images[0].prefetch | .all_have_bytes == .hot_bytes')" = true ]
}

@test "a warm node records what a cold one does" {
	local cold

	start_quiet
	record_once '"workload":"cold"'
	cold=$(explain '[0].read_blocks')
	[ "$cold" -gt 0 ]
	umount_all
	mount_for_start
	begin c2 '"workload":"warm"' >"$T/begin"
	[ "$(jq -r .recording "$T/begin")" = true ]
	app "$FS"
	ready c2
	wait_for has_starts 2
	[ "$(explain '[0].missed_blocks')" = 0 ]
	[ "$(explain '[0].fetched.demand')" = 0 ]
	[ "$(explain '[0].fetched.cache')" -gt 0 ]
	[ "$(explain '[0].read_blocks')" = "$cold" ]
	umount_all
}

@test "a recording sees a warm image's reads by a mount of its own" {
	local path

	start_quiet
	mount_for_start
	app "$FS"
	ask image.record "{\"id\":\"$ID\",\"user\":\"r\",\"workload\":\"w\"}" \
		>"$T/record"
	path=$(jq -r .path "$T/record")
	[ "$path" != "$FS" ]
	jq -e '.config | fromjson | .rootfs.diff_ids | length > 0' "$T/record"
	cmp "$path/top/data" "$D/top/data"
	app "$path"
	ask start.ready "{\"start\":$(jq .start "$T/record")}"
	wait_for has_starts 1
	[ "$(explain '[0].recorded')" = true ]
	[ "$(explain '[0].read_blocks')" -gt 3 ]
	[ "$(explain '[0].workload')" = w ]
	[ "$(ask image.umount '{"user":"r"}' | jq .released)" = 1 ]
	run ! mountpoint -q "$path"
	umount_all
}

@test "an image that is whole is mounted lazily until it has a trace" {
	start_quiet
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	listing "$T/mnt" >/dev/null
	"$bootseer" image umount "$T/mnt"
	record_once '"config_key":true'
	[ "$(status '.images[0].mode')" = lazy ]
	umount_all
	mount_for_start
	[ "$(status '.images[0].mode')" = complete ]
	begin c2 '"config_key":true' >"$T/begin"
	[ "$(jq -r .recording "$T/begin")" = false ]
	ready c2
	wait_for has_starts 2
	[ "$(explain '[0].watched')" = false ]
	umount_all
}

@test "--record off records nothing" {
	start_quiet --record off
	mount_for_start
	[ "$(begin c1 | jq .recording)" = false ]
	app "$FS"
	ready c1
	wait_for has_starts 1
	[ "$(traces)" = 0 ]
	umount_all
}

@test "a start ends with its window" {
	node_hold
	start_quiet --record auto:30s
	mount_for_start
	begin c1
	app "$FS"
	node_step 29999
	begin c2
	has_starts 0
	node_step 1
	wait_for has_starts 1
	[ "$(explain '[0].end')" = window ]
	[ "$(traces)" -gt 0 ]
	[ "$(call start.ready '{"user":"c1"}' | jq .error.errno)" = 2 ]
	umount_all
}

@test "a start ends with its container, or with the mount" {
	start_quiet
	mount_for_start
	begin c1
	app "$FS"
	ask start.end '{"user":"c1"}'
	ask start.end '{"user":"c1"}'
	wait_for has_starts 1
	[ "$(explain '[0].end')" = gone ]
	begin c2
	umount_all
	wait_for has_starts 2
	[ "$(explain '[0].end')" = gone ]
	[ "$(call start.begin "{\"id\":\"$ID\",\"user\":\"c3\"}" |
		jq .error.errno)" = 2 ]
}

@test "a file in the container tells that it is ready" {
	mkdir "$T/upper"
	start_quiet
	mount_for_start
	begin c1 "\"ready_file\":\"/run/ready\",\"ready_root\":\"$T/upper\""
	app "$FS"
	mkdir "$T/upper/run"
	ln -s /etc/passwd "$T/upper/run/ready"
	begin c2 "\"ready_file\":\"$T/host-ready\""
	: >"$T/host-ready"
	wait_for has_starts 1
	[ "$(explain '[0].end')" = ready ]
	# The link was none: c1 is still under way.
	rm "$T/upper/run/ready"
	: >"$T/upper/run/ready"
	wait_for has_starts 2
	[ "$(explain '[0].end')" = ready ]
	umount_all
}

# Say WORD on the socket that containers have, and print the answer.
say_ready() { # WORD
	curl -sS --unix-socket "$T/run/ready.sock" -d '' "http://bootseer/v1/$1"
}

# A control group of this test alone, which processes of the test may be in.
make_group() {
	local at

	for at in /sys/fs/cgroup{,/unified,/pids}; do
		[ ! -e "$at/cgroup.procs" ] || break
	done
	GROUP=$(mktemp -d "$at/bootseer-test.XXXXXX")
}
in_group() (echo "$BASHPID" >"$GROUP/cgroup.procs" && "$@") # COMMAND...

@test "everybody may say ready, and nothing else" {
	start_quiet
	mount_for_start
	[ "$(stat -c %a "$T/run/ready.sock")" = 666 ]
	[[ $(say_ready node.status) == "error: only POST /v1/ready" ]]
	[[ $(say_ready ready) == "error: no start of this container"* ]]
	[[ $(curl -sS --unix-socket "$T/run/ready.sock" -d 0123456789abcdef \
		http://bootseer/v1/ready) == *"larger than allowed"* ]]
	make_group
	begin c1 "\"bundle\":\"$T/bundles/${GROUP##*/}\""
	app "$FS"
	[[ $(in_group say_ready ready) == "ok "* ]]
	wait_for has_starts 1
	umount_all
}

@test "the words of the container name the recording" {
	start_quiet
	mount_for_start
	mkdir "$T/b1"
	begin c1 "\"config_key\":true,\"bundle\":\"$T/b1\""
	app "$FS"
	echo '{"process":{"args":["python","serve.py"]}}' >"$T/b1/config.json"
	wait_for bundle_was_read
	ready c1
	wait_for has_starts 1
	[ "$(explain '[0].workload')" != "$(default_key)" ]
	umount_all
	# Another workload of this image is better than nothing.
	mount_for_start
	[ "$(begin c2 '"config_key":true' | jq -r .trace)" = workload ]
	umount_all
}

bundle_was_read() { # the key changes; a start that is ready is over
	[ "$(stat -c %X "$T/b1/config.json")" -ge 0 ] &&
		grep -q "workload of start=" "$T/log"
}
default_key() { explain '[-1].workload' | grep '^default-'; }

@test "a trace service that is down delays nothing and gets it later" {
	local port

	start_quiet --service http://127.0.0.1:9
	mount_for_start
	begin c1 >"$T/begin"
	app "$FS"
	ready c1
	wait_for has_starts 1
	[ "$(traces)" -gt 0 ]
	[ "$(find "$T/root/traces/spool/service" -type f | wc -l)" = 1 ]
	umount_all
	node_stop
	serve_traces
	port=$(cat "$T/service.port")
	start_quiet --service "http://127.0.0.1:$port"
	wait_for test -s "$T/service.got"
	grep -q '^POST /v1/traces/sha256:' "$T/service.got"
	wait_for spool_is_empty
}

spool_is_empty() {
	[ -z "$(find "$T/root/traces/spool/service" -type f)" ]
}

# A service that takes every trace and has none, as it says after so long.
serve_traces() { # [SECONDS]
	python3 -c '
import http.server, sys, threading
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        open(sys.argv[1] + "/service.asked", "a").write("GET " + self.path + "\n")
        threading.Event().wait(float(sys.argv[2]))
        self.send_error(404)
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        open(sys.argv[1] + "/service.got", "a").write("POST " + self.path + "\n")
        self.send_response(202)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *a):
        pass
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), H)
open(sys.argv[1] + "/service.new", "w").write(str(s.server_port))
import os
os.rename(sys.argv[1] + "/service.new", sys.argv[1] + "/service.port")
s.serve_forever()' "$T" "${1:-0}" 3>&- &
	pids+=($!)
	wait_for test -s "$T/service.port"
}

# The mount waits for the answer, and the prefetch that follows from it for the mount.
@test "a mount that is there before the answer waits for no more than that" {
	start_quiet
	record_once
	leave_traces
	serve_traces 0.5
	ROOT=$T/two node_start \
		--service "http://127.0.0.1:$(cat "$T/service.port")"
	mount_for_start
	begin c2 '"wait":"all"' >"$T/begin"
	[ "$(jq -r .trace "$T/begin")" = own ]
	umount_all
}

# The blobs that a prefetch reads.
packs() {
	jq -r '.layers[] | select(.mediaType | test("pack")).digest' \
		$(grep -lF '"artifactType"' "$D"/oci/blobs/sha256/*)
}

has_asked_for() { grep -qF "/blobs/$1" "$T/requests"; } # DIGEST

# Callers that leave after longer and longer, until the node tells of one: it forgets
# without a word a call that had not begun to wait.
leave() { # METHOD PARAMS
	local after

	for after in {1..30}; do
		! LEAVE_AFTER=$after call "$1" "$2" || return 1
		! grep -q "failed method=$1 .*has left" "$T/log" || return 0
	done
	return 1
}

@test "whoever leaves takes his wait with him, and the prefetch goes on" {
	local pack method more

	start_quiet
	record_once
	leave_traces
	pack=$(packs | tail -n 1)
	: >"$T/requests"
	fault hang=1 "match=/blobs/$pack"
	ROOT=$T/two node_start --prefetch hot --stall-timeout 10m
	mount_for_start
	wait_for has_asked_for "$pack"
	while read -r method more; do
		leave "$method" "{\"id\":\"$ID\",$more}"
	done <<-'END'
		start.begin "user":"c2","wait":"all"
		image.prefetch "what":"all","wait_ms":60000
	END
	# Nothing of it was begun but what others want too.
	[ "$(status '.starts | length')" = 0 ]
	[ "$(ask image.prefetch "{\"id\":\"$ID\"}" | jq -r .phase)" = hot ]
	fault
	umount_all
}

service_was_asked() { # TIMES
	[ "$(grep -c '^GET /v1/traces/' "$T/service.asked")" -eq "$1" ]
}

# The blob of the artifact's metadata.
metadata() {
	jq -r '.layers[] | select(.mediaType | test("erofs")).digest' \
		$(grep -lF '"artifactType"' "$D"/oci/blobs/sha256/*)
}

@test "a trace is looked for while the metadata is on its way" {
	serve_traces
	start_quiet --service "http://127.0.0.1:$(cat "$T/service.port")"
	# It does not come, and is no condition for the question.
	fault status=404 "match=$(metadata)"
	call image.prepare "{\"ref\":\"$IMAGE\"}" | jq -e .error
	wait_for service_was_asked 1
	fault
	mount_for_start
	[ "$(begin c1 | jq -r .trace)" = none ]
	umount_all
	wait_for service_was_asked 2
}

# A service that takes connections and says nothing: its port is $port.
hanging_service() {
	python3 -c '
import os, socket, sys, threading
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen(64)
open(sys.argv[1] + ".new", "w").write(str(s.getsockname()[1]))
os.rename(sys.argv[1] + ".new", sys.argv[1])
threading.Event().wait()' "$T/hang.port" 3>&- &
	pids+=($!)
	wait_for test -s "$T/hang.port"
	port=$(cat "$T/hang.port")
}

@test "a trace service that hangs is waited for no longer than allowed" {
	local port

	hanging_service
	start_quiet --service "http://127.0.0.1:$port"
	mount_for_start
	# For ever, if it waited for the answer.
	begin c1 '"workload":"x"'
	begin c2 '"workload":"y"'
	umount_all
}

@test "while a trace service hangs the node's own trace is used" {
	local port

	start_quiet
	record_once '"workload":"z"'
	umount_all
	node_stop
	hanging_service
	# The mount asks nobody: the start is the first that meets the service.
	start_quiet --service "http://127.0.0.1:$port" --record always
	mount_for_start
	[ "$(begin c3 '"workload":"z"' | jq -r .trace)" = own ]
	umount_all
}

@test "kill -9 in the window loses the recording and nothing else" {
	local path

	start_quiet
	mount_for_start
	begin c1
	path=$(ask image.record "{\"id\":\"$ID\",\"user\":\"r\"}" | jq -r .path)
	app "$FS"
	node_stop KILL
	start_quiet
	run ! mountpoint -q "$path"
	[ ! -e "$path" ]
	[ "$(explain '|length')" = 0 ]
	app "$FS"
	begin c1
	ready c1
	wait_for has_starts 1
	umount_all
}

@test "what is in the page cache already is not recorded" {
	start_quiet
	mount_for_start
	app "$FS"
	[ "$(begin c1 '"workload":"w"' | jq .recording)" = false ]
	app "$FS"
	ready c1
	wait_for has_starts 1
	[ "$(traces)" = 0 ]
	# What the prefetch fetched is not called unused: nobody can know.
	[ "$(explain '[0].hot.unused_blocks')" = 0 ]
	umount_all
}

@test "a mount from before a restart is not recorded" {
	start_quiet
	mount_for_start
	head -c 100 "$FS/top/data" >/dev/null
	node_stop KILL
	start_quiet
	[ "$(begin c1 '"workload":"w"' | jq .recording)" = false ]
	ready c1
	umount_all
	mount_for_start
	[ "$(begin c1 '"workload":"w"' | jq .recording)" = true ]
	umount_all
}

@test "two workloads that start at once are not taken for each other" {
	start_quiet
	mount_for_start
	[ "$(begin c1 '"workload":"a"' | jq .recording)" = true ]
	begin c2 '"workload":"b"'
	app "$FS"
	ready c2
	ready c1
	wait_for has_starts 2
	[ "$(explain '|map(select(.recorded))|length')" = 0 ]
	[ "$(traces)" = 0 ]
	umount_all
	# Two containers of one workload are no trouble.
	mount_for_start
	begin c1 '"workload":"a"'
	begin c2 '"workload":"a"'
	app "$FS"
	ready c2
	ready c1
	wait_for has_starts 4
	[ "$(explain '|map(select(.recorded))|length')" = 1 ]
	[ "$(traces)" -gt 0 ]
	umount_all
}

@test "a container that is gone before its words are read is not recorded" {
	start_quiet
	mount_for_start
	begin c1 "\"config_key\":true,\"bundle\":\"$T/none\""
	app "$FS"
	ask start.end '{"user":"c1"}'
	wait_for has_starts 1
	[ "$(explain '[0].recorded')" = false ]
	[ "$(traces)" = 0 ]
	umount_all
}

@test "a start that crashes early is not merged with whole ones" {
	local trace

	start_quiet --record always
	record_once '"workload":"w"'
	umount_all
	trace=$("$bootseer" trace show --json --local --root "$T/root" \
		--workload w --plain-http "docker://$IMAGE")
	# The same as it would be on a node on which it takes a minute.
	jq '.ready_ms = 60000 | .created_at += 1' <<<"$trace" >"$T/slow"
	rm -r "$T/root/traces/store"
	"$bootseer" trace push --local --root "$T/root" --plain-http \
		"docker://$IMAGE" "$T/slow"
	node_stop
	start_quiet --record always
	mount_for_start
	[ "$(begin c1 '"workload":"w"' | jq .recording)" = true ]
	head -c 100 "$FS/bin/busybox" >/dev/null
	ask start.end '{"user":"c1"}'
	wait_for has_starts 2
	[ "$(explain '[0].recorded')" = false ]
	grep -q 'not kept .*others take 60000' "$T/log"
	umount_all
	# One that is as short but ready is.
	mount_for_start
	begin c1 '"workload":"w"'
	head -c 100 "$FS/bin/busybox" >/dev/null
	ready c1
	wait_for has_starts 3
	[ "$(explain '[0].recorded')" = true ]
	umount_all
}

@test "a loop of crashes does not use up the recordings that are wanted" {
	local n

	start_quiet
	for n in 1 2 3; do
		mount_for_start
		begin c1 '"workload":"w"'
		head -c 100 "$FS/bin/busybox" >/dev/null
		ask start.end '{"user":"c1"}'
		wait_for has_starts "$n"
		# On a slow machine it may take longer than a crash does.
		[ "$(explain "[0] | .recorded ==
			($n == 1 or .watched_ms >= 1000)")" = true ]
		umount_all
	done
	mount_for_start
	begin c1 '"workload":"w"'
	app "$FS"
	ready c1
	wait_for has_starts 4
	[ "$(explain '[0].recorded')" = true ]
	umount_all
}

bundles_were_read() { [ "$(grep -c 'workload of start=' "$T/log")" -eq "$1" ]; }

bundle_start() { # one of the words of $T/b1, to ready
	mount_for_start
	begin c1 "\"config_key\":true,\"bundle\":\"$T/b1\"" >"$T/begin"
	wait_for bundles_were_read "$1"
	app "$FS"
	ready c1
	wait_for has_starts "$1"
	umount_all
}

@test "a start is not recorded for ever because its key is known late" {
	local n

	start_quiet
	mkdir "$T/b1"
	echo '{"process":{"args":["python","serve.py"]}}' >"$T/b1/config.json"
	for n in {1..12}; do
		bundle_start "$n"
		[ "$(explain '[0].recorded')" = true ] || break
	done
	[ "$(jq -r .trace "$T/begin")" = workload ]
	[ "$n" -gt 1 ] && [ "$n" -lt 12 ]
}

@test "what a prefetch fetched for one start is not unused for the next" {
	start_quiet
	record_once
	leave_traces
	ROOT=$T/two node_start --prefetch hot
	mount_for_start
	begin c2 '"wait":"all"'
	app "$FS"
	ready c2
	begin c3 '"wait":"all"'
	app "$FS"
	ready c3
	wait_for has_starts 2
	[ "$(explain '[1].hot.used_blocks')" -gt 0 ]
	[ "$(explain '[0].hot.unused_blocks')" = 0 ]
	umount_all
}

@test "figures of the last 16 starts are kept, over restarts" {
	local i

	start_quiet
	mount_for_start
	for i in {1..18}; do
		begin "c$i" "\"workload\":\"w$i\"" >/dev/null
		ready "c$i"
		wait_for grep -q "\"w$i\"" "$T/root/images/${ID#sha256:}/starts.json"
	done
	has_starts 16
	[ "$(explain '[0].workload')" = w18 ]
	[ "$(explain '[15].workload')" = w3 ]
	node_stop
	start_quiet
	has_starts 16
	umount_all
}

service_on() { # ADDRESS:PORT
	"$BOOTSEER_BUILD/registry/bootseer-registry" --listen "$1" \
		--db "sqlite:$T/service.db" --insecure-no-auth 2>"$T/service.log" 3>&- &
	service_pid=$!
	pids+=("$service_pid")
	wait_for grep -q ' ready port=' "$T/service.log"
}

figure() { # NAME
	curl -fsS "http://127.0.0.1:$(sed -nE 's/.*metrics port=([0-9]+).*/\1/p' "$T/log" |
		tail -n 1)/metrics" | sed -n "s/^bootseer_node_$1 //p"
}
is_figure() { [ "$(figure "$1")" = "$2" ]; }
waiting_files() { find "$T/root/start-reports" -name '*.report' | wc -l; }
are_waiting() { [ "$(waiting_files)" = "$1" ]; }

@test "what the service is to be told of starts waits for it, also over a kill" {
	local options address

	address=$(own_address)
	service_on "$address:0"
	options=(--service "http://$address:$(sed -nE 's/.* ready port=([0-9]+).*/\1/p' "$T/service.log")"
		--metrics 127.0.0.1:0)
	kill "$service_pid"
	wait "$service_pid"
	start_quiet "${options[@]}"
	mount_for_start
	begin c1 '"workload":"w1","wait":"none"' >/dev/null
	ready c1
	begin c2 '"workload":"w2","wait":"none"' >/dev/null
	ready c2
	wait_for are_waiting 2
	is_figure start_reports_waiting 2
	is_figure start_reports_sent_total 0
	node_stop KILL
	# Half of a file is what a power loss leaves.
	printf '/v1/images/sha256:a\n{"star' >"$T/root/start-reports/0000000000000fff.report"
	start_quiet "${options[@]}"
	is_figure start_reports_waiting 2
	is_figure start_reports_dropped_total 1
	are_waiting 2
	node_stop
	service_on "${options[1]#http://}"
	start_quiet "${options[@]}"
	wait_for is_figure start_reports_sent_total 2
	is_figure start_reports_waiting 0
	wait_for are_waiting 0 # a file goes when the service has its report
	curl -fsS "${options[1]}/v1/images" |
		jq -e '[.images[].workload] | sort == ["w1", "w2"]'
	umount_all
}

@test "requests about starts that are wrong are refused" {
	start_quiet
	mount_for_start
	local p

	for p in '"workload":"a b"' '"workload":""' '"wait":"soon"' \
		'"ready_file":"x"' '"bundle":"x"' '"window_ms":5' \
		'"workload":"a","config_key":true'; do
		[ "$(call start.begin "{\"id\":\"$ID\",\"user\":\"c\",$p}" |
			jq .error.errno)" = 22 ]
	done
	[ "$(call start.ready '{}' | jq .error.errno)" = 22 ]
	[ "$(call start.ready '{"user":"c"}' | jq .error.errno)" = 2 ]
	[ "$(call start.ready '{"start":7}' | jq .error.errno)" = 2 ]
	[ "$(call start.ready '{"pid":1}' | jq .error.errno)" = 2 ]
	[ "$(call image.explain '{"id":"x"}' | jq .error.errno)" = 22 ]
	umount_all
}
