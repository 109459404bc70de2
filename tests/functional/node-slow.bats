#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bootseerd and a registry that is slow on purpose: it has its own work only.

bats_require_minimum_version 1.5.0
load node.bash

setup_file() { make_image "$BATS_FILE_TMPDIR"; }

# Beside the good registry one that can be slow: $SLOW.
setup() {
	node_setup
	"$fake_registry" --dir "$D/oci" --port-file "$T/slow-ports" \
		--log "$T/slow-requests" 3>&- &
	pids+=($!)
	wait_for test -s "$T/slow-ports"
	read -r port slow_control <"$T/slow-ports"
	# Another host than the good one's: a host has one lane, whatever its ports.
	SLOW=localhost:$port
}
teardown() { node_teardown; }

# As fault, of the slow one.
slow_fault() {
	local IFS='&'

	curl -fsS "http://127.0.0.1:$slow_control/set?$*"
}

slow_manifests() { # N
	[ "$(grep -c '^GET.*/manifests/v1 ' "$T/slow-requests")" -ge "$1" ]
}
slow_requests() { [ "$(grep -c '^GET' "$T/slow-requests")" -ge "$1" ]; } # N

# N prepares of the slow registry, in the background; the answers in $T/answer.*.
slow_prepares() { # N
	local i

	callers=()
	for ((i = 0; i < $1; i++)); do
		call image.prepare "{\"ref\":\"$SLOW/r$i:v1\"}" \
			>"$T/answer.$i" 2>/dev/null 3>&- &
		callers+=($!)
		pids+=($!)
	done
}

@test "40 prepares of a registry that hangs keep nothing else waiting" {
	slow_fault hang=1
	node_start --plain-http "$SLOW" --stall-timeout 10m --prepare-timeout 1h
	slow_prepares 40
	wait_for slow_requests 8
	# Nothing that the slow registry does lets these go on.
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	[ "$(status '.images | length')" = 1 ]
	call node.doctor '{}' | jq -e '.result.checks | length > 0'
	cmp "$T/mnt/big" "$D/rootfs/big"
	"$bootseer" image umount "$T/mnt"
	[ -z "$(cat "$T"/answer.*)" ]
	[ "$(grep -c '^GET' "$T/slow-requests")" -eq 8 ]
}

@test "one slow server on many ports keeps no other registry waiting" {
	local i p c opts=()

	for i in {1..5}; do
		"$fake_registry" --dir "$D/oci" --port-file "$T/ports.$i" \
			--log "$T/slow-requests" 3>&- &
		pids+=($!)
		wait_for test -s "$T/ports.$i"
		read -r p c <"$T/ports.$i"
		curl -fsS "http://127.0.0.1:$c/set?hang=1"
		opts+=(--plain-http "127.0.0.1:$p")
		slow[i]=127.0.0.1:$p
	done
	# The good one by another name: its own host.
	node_start "${opts[@]}" --plain-http "localhost:${REGISTRY#*:}" \
		--stall-timeout 10m --prepare-timeout 1h
	for i in {1..5}; do
		SLOW=${slow[i]} slow_prepares 8
	done
	wait_for slow_requests 8
	call image.prepare "{\"ref\":\"localhost:${REGISTRY#*:}/img:v1\"}" |
		jq -e '.result.source == "registry"'
	[ "$(grep -c '^GET' "$T/slow-requests")" -eq 8 ]
}

# Four hosts that answered a moment ago and then hang, all calls in the same moment;
# the registry that goes on has not been asked before.
@test "good hosts that turn slow all at once keep no other registry waiting" {
	local i port slow_control opts=()

	"$fake_registry" --dir "$D/oci" --port-file "$T/many-ports" \
		--address 0.0.0.0 --log "$T/slow-requests" 3>&- &
	pids+=($!)
	wait_for test -s "$T/many-ports"
	read -r port slow_control <"$T/many-ports"
	for i in {2..5}; do
		opts+=(--plain-http "127.0.0.$i:$port")
	done
	node_start "${opts[@]}" --stall-timeout 10m --prepare-timeout 1h
	for i in {2..5}; do
		call image.prepare "{\"ref\":\"127.0.0.$i:$port/r0:v1\"}" |
			jq -e '.result.source == "registry"'
	done
	slow_fault hang=1
	: >"$T/slow-requests"
	for i in {2..5}; do
		SLOW=127.0.0.$i:$port slow_prepares 9
	done
	wait_for slow_manifests 24
	timeout 120 "$bootseer" image mount "$IMAGE" "$T/mnt"
	"$bootseer" image umount "$T/mnt"
	# Three of them may have had all 24 when the fourth came, which has its first.
	run ! slow_manifests 26
}

@test "an image of a slow registry that is here is had without it" {
	local m

	node_start --plain-http "$SLOW" --stall-timeout 10m --prepare-timeout 1h
	m=$(call image.prepare "{\"ref\":\"$SLOW/img:v1\"}" |
		jq -r .result.manifest)
	slow_fault hang=1
	slow_prepares 40
	call image.prepare "{\"ref\":\"$SLOW/img@$m\"}" |
		jq -e '.result.source == "node"'
}

@test "whoever leaves takes his call with him" {
	local pid

	slow_fault hang=1
	node_start --plain-http "$SLOW" --stall-timeout 10m \
		--prepare-timeout 1h
	slow_prepares 9 # one more than a registry has places
	wait_for slow_requests 8
	for pid in "${callers[@]}"; do
		wait_for pkill -P "$pid" # the one without a place may just begin
	done
	wait_for grep -q 'whoever asked has left' "$T/log"
	slow_fault hang=0
	"$bootseer" image mount "$SLOW/img:v1" "$T/mnt"
	"$bootseer" image umount "$T/mnt"
}

@test "a prepare is given up after --prepare-timeout, and names the registry" {
	local answer

	slow_fault drip=1 drip_ms=20
	node_start --plain-http "$SLOW" --stall-timeout 10m \
		--prepare-timeout 500ms
	answer=$(call image.prepare "{\"ref\":\"$SLOW/img:v1\"}")
	[[ $answer == *"registry $SLOW"*"--prepare-timeout"* ]]
	jq -e '.error.errno == 110' <<<"$answer"
	[ -z "$(find "$T/root/images" -mindepth 1 -type d)" ]
}

@test "a registry that sends less than 1K a second counts as one that sends nothing" {
	local answer

	slow_fault drip=1 drip_ms=20
	node_start --plain-http "$SLOW" --stall-timeout 1s \
		--prepare-timeout 1h
	answer=$(call image.prepare "{\"ref\":\"$SLOW/img:v1\"}")
	[[ $answer == *"too slow"* ]]
	jq -e '.error.errno == 110' <<<"$answer"
}

@test "a layer may take longer than --prepare-timeout as long as it comes" {
	local layer

	layer=$(jq -r '.layers[1].digest' "$D/src/blobs/sha256/$(jq -r '.manifests[0].digest' \
		"$D/src/index.json" | cut -d: -f2)")
	node_hold # but for what the test steps, so that no call is late by a slow machine
	node_start --plain-http "$SLOW" --prepare-timeout 2s --stall-timeout 10m
	mkdir "$T/layer"
	# 3 MB in steps of 64 KiB: over 2 s on any machine.
	slow_fault drip=65536 drip_ms=60
	call layer.apply "{\"ref\":\"$SLOW/img:v1\",\"layer\":1,
		\"dir\":\"$T/layer\"}" >"$T/reply" 3>&- &
	pids+=($!)
	wait_for grep -q "/blobs/$layer" "$T/slow-requests"
	node_step 60000
	wait_all "${pids[-1]}"
	jq -e '.result.bytes > 3000000' "$T/reply"
	cmp "$T/layer/top/data" "$D/top/data"
}

# A tag that moved, or a client that names another image than it means.
@test "an image that has other layers than are asked for gives none" {
	local answer

	node_start
	mkdir "$T/layer"
	answer=$(call layer.apply "{\"ref\":\"$IMAGE\",\"layer\":1,
		\"chain_id\":\"sha256:$(printf %064d 0)\",
		\"dir\":\"$T/layer\"}")
	[[ $answer == *"the image has other layers there"* ]]
	[ -z "$(ls "$T/layer")" ]
}

# More than the threads that wait for nothing but the disk: their ids in $T/ids.
lose_metadata() {
	local i id last

	node_start --plain-http "$SLOW"
	for i in {1..24}; do
		call image.prepare "{\"ref\":\"$SLOW/r$i:v1\"}" |
			jq -r .result.id >>"$T/ids"
	done
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	"$bootseer" image umount "$T/mnt"
	node_stop
	while read -r id; do
		last=${id#*:}
		printf x | dd of="$T/root/images/${id#*:}/meta.erofs" bs=1 \
			seek=6000 conv=notrunc status=none
	done <"$T/ids"
	# The last one lost all of it.
	: >"$T/root/images/$last/meta.erofs"
}

# One for each of $T/ids, all at once; the answers in $T/replies.
mounts() {
	while read -r id; do
		echo "{\"id\":\"$id\",\"user\":\"u\"}"
	done <"$T/ids" | call_all image.mount "$T/sent" >"$T/replies" 3>&- &
	calls_pid=$!
	pids+=("$calls_pid")
	wait_for test -e "$T/sent"
}

@test "mounts whose metadata a registry that hangs does not send keep nothing else waiting" {
	local want first

	lose_metadata
	slow_fault hang=1
	want=$(($(grep -c '^GET' "$T/slow-requests") + 8))
	node_start --plain-http "$SLOW" --prepare-timeout 1h --stall-timeout 2s
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	mounts
	wait_for slow_requests "$want"
	[ "$(status '.images | length')" = 25 ]
	"$bootseer" image umount "$T/mnt"
	# Also of one that a mount is at work on: when that has come to its end.
	first=$(head -n 1 "$T/ids")
	call image.umount "{\"id\":\"$first\",\"user\":\"other\"}" \
		>"$T/umount" 3>&- &
	pids+=($!)
	[ "$(status '.images | length')" = 25 ]
	[ ! -s "$T/replies" ]
	[ "$(status '[.images[] | select(.mounted)] | length')" = 0 ]
	# It comes back, and they go on.
	slow_fault hang=0
	wait_all "$calls_pid" "${pids[@]: -1}"
	[ "$(jq -r .result.mode "$T/replies" | grep -cx 'lazy\|complete')" = 24 ]
	jq -e '.result.released == 0' "$T/umount"
	call image.umount '{"user":"u"}' | jq -e '.result.released == 24'
}

@test "a mount whose metadata does not come again ends after --prepare-timeout, and names the registry" {
	lose_metadata
	slow_fault hang=1
	node_start --plain-http "$SLOW" --prepare-timeout 2s --stall-timeout 10m
	mounts
	wait_all "$calls_pid"
	[ "$(jq -r .error.errno "$T/replies" | grep -cx 110)" = 24 ]
	[ "$(jq -r .error.message "$T/replies" |
		grep -c "registry ${SLOW%:*}.*--prepare-timeout")" = 24 ]
	[ -z "$(find "$T/root/images" -name '*.new')" ]
	run ! grep -q " $T/run/images" /proc/self/mountinfo
}

@test "whoever leaves takes his mount with him" {
	local want

	lose_metadata
	slow_fault hang=1
	node_start --plain-http "$SLOW" --prepare-timeout 1h --stall-timeout 10m
	# As many as a registry has places.
	want=$(($(grep -c '^GET' "$T/slow-requests") + 8))
	mounts
	# Calls that nobody is at work on are forgotten without a word.
	wait_for slow_requests "$want"
	pkill -P "$calls_pid"
	wait_for grep -q 'failed method=image.mount .*whoever asked has left' \
		"$T/log"
	slow_fault hang=0
	call image.mount "{\"id\":\"$(tail -n 1 "$T/ids")\",\"user\":\"u\"}" |
		jq -e .result.path
	call image.umount '{"user":"u"}' | jq -e '.result.released == 1'
}

# A layer of few bytes that takes minutes to unpack: each of its names leads through
# 38 symlinks of 1,600 parts each.
make_costly_layer() { # FILE
	python3 - "$1" <<'PYTHON'
import io
import sys
import tarfile

with tarfile.open(sys.argv[1], "w", format=tarfile.PAX_FORMAT) as tar:
    def add(name, kind, link=""):
        t = tarfile.TarInfo(name)
        t.type, t.linkname = kind, link
        tar.addfile(t)

    add("a", tarfile.DIRTYPE)
    for n in range(38):
        add("l%d" % n, tarfile.SYMTYPE, "a/../" * 800 + ("l%d" % (n + 1)))
    add("l38", tarfile.SYMTYPE, "a")
    for n in range(20000):
        add("l0/f%d" % n, tarfile.REGTYPE)
        add("a/g%d" % n, tarfile.REGTYPE)
PYTHON
}

@test "whoever leaves takes the unpacking of his layer with him" {
	local port _

	make_costly_layer "$T/costly.tar"
	"$BATS_TEST_DIRNAME/make-image.py" "$T/src" tars "$T/costly.tar"
	"$fake_registry" --dir "$T/src" --port-file "$T/costly-ports" \
		--log /dev/null 3>&- &
	pids+=($!)
	wait_for test -s "$T/costly-ports"
	read -r port _ <"$T/costly-ports"
	node_start --plain-http "localhost:$port"
	mkdir "$T/layer"
	call layer.apply "{\"ref\":\"localhost:$port/img:latest\",\"layer\":0,
		\"dir\":\"$T/layer\"}" 2>/dev/null 3>&- &
	pids+=($!)
	wait_for test -e "$T/layer/a/g0"
	pkill -P "${pids[-1]}"
	wait_for grep -q 'failed method=layer.apply .*whoever asked has left' \
		"$T/log"
	[ ! -e "$T/layer/a/g19999" ]
}

fetched_again() { [ "$(grep -c 'action="fetching it again"' "$T/log")" -ge "$1" ]; } # N

@test "whoever leaves takes his prefetch with him, and his start" {
	local id method n=0

	lose_metadata
	id=$(head -n 1 "$T/ids")
	slow_fault hang=1
	node_start --plain-http "$SLOW" --prepare-timeout 1h --stall-timeout 10m \
		--prefetch all
	for method in image.prefetch start.begin; do
		rm -f "$T/sent"
		echo "{\"id\":\"$id\"$([ $method = start.begin ] &&
			echo ',"user":"u"' || echo ',"what":"all"')}" |
			call_all $method "$T/sent" >"$T/replies" 3>&- &
		calls_pid=$!
		pids+=("$calls_pid")
		wait_for test -e "$T/sent"
		n=$((n + 1))
		wait_for fetched_again "$n"
		pkill -P "$calls_pid"
		wait_for grep -q "failed method=$method .*whoever asked has left" \
			"$T/log"
	done
	slow_fault hang=0
	call image.mount "{\"id\":\"$id\",\"user\":\"u\"}" | jq -e .result.path
	call image.umount '{"user":"u"}' | jq -e '.result.released == 1'
}

@test "a recording waits for a mount that fetches the same metadata again" {
	local id want

	lose_metadata
	id=$(head -n 1 "$T/ids")
	slow_fault hang=1
	want=$(($(grep -c '^GET' "$T/slow-requests") + 1))
	node_start --plain-http "$SLOW" --prepare-timeout 1h --stall-timeout 2s
	call image.mount "{\"id\":\"$id\",\"user\":\"u\"}" >"$T/mount" 3>&- &
	pids+=($!)
	wait_for slow_requests "$want"
	echo "{\"id\":\"$id\",\"user\":\"r\"}" |
		call_all image.record "$T/sent" >"$T/record" 3>&- &
	pids+=($!)
	wait_for test -e "$T/sent"
	wait_for fetched_again 1
	[ "$(status '.images | length')" = 25 ]
	slow_fault hang=0
	wait_all "${pids[@]: -2}"
	jq -e .result.path "$T/mount"
	jq -e .result.path "$T/record"
	run ! fetched_again 2
	call start.end '{"user":"r"}'
	call image.umount '{"user":"r"}'
	call image.umount '{"user":"u"}' | jq -e '.result.released == 1'
}

@test "metadata that the disk lost, and a registry that hangs, keep no start waiting" {
	local id i good

	node_start --plain-http "$SLOW"
	id=$(call image.prepare "{\"ref\":\"$IMAGE\"}" | jq -r .result.id)
	good=$(call image.mount "{\"id\":\"$id\",\"user\":\"u\"}" |
		jq -r .result.path)
	for i in 1 2 3; do
		id=$(call image.prepare "{\"ref\":\"$SLOW/r$i:v1\"}" | jq -r .result.id)
		call image.mount "{\"id\":\"$id\",\"user\":\"u\"}" |
			jq -e .result >/dev/null
		echo "$id" >>"$T/ids"
	done
	node_stop
	while read -r id; do
		: >"$T/root/images/${id#*:}/meta.erofs"
	done <"$T/ids"
	slow_fault hang=1
	node_start --plain-http "$SLOW" --prepare-timeout 1h --stall-timeout 10m
	# Each of them is told of, and mounted by whoever asks when the registry answers.
	[ "$(grep -c 'mount: not restored' "$T/log")" = 3 ]
	cmp "$good/big" "$D/rootfs/big"
	slow_fault hang=0
	id=$(head -n 1 "$T/ids")
	call image.mount "{\"id\":\"$id\",\"user\":\"u\"}" | jq -e .result.path
}
