#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Metadata image and block map from other nodes: about one copy from the registry, and
# a start that waits for nobody who does not answer.

bats_require_minimum_version 1.5.0
load node.bash
load p2p.bash

# An image of many small files: they are in its metadata, which has some 4 MB.
setup_file() {
	local d=$BATS_FILE_TMPDIR

	mkdir -p "$d"/rootfs/{many,zz}
	noise 4000000 5 | split -b 500 -a 4 -d - "$d/rootfs/many/"
	noise 1000000 6 >"$d/rootfs/big"
	umoci init --layout "$d/src"
	umoci new --image "$d/src:v1"
	umoci insert --image "$d/src:v1" "$d/rootfs" /
	umoci new --image "$d/src:small"
	umoci insert --image "$d/src:small" "$d/rootfs/zz" /zz
	umoci unpack --image "$d/src:v1" "$d/bundle" >/dev/null
	listing "$d/bundle/rootfs" >"$d/want"
	"$bootseer" image convert "oci:$d/src:v1" "oci:$d/oci:v1" >/dev/null
	"$bootseer" image inspect "oci:$d/oci:v1" >"$d/inspect"
	"$bootseer" image convert "oci:$d/src:small" "oci:$d/oci:small" >/dev/null
	"$bootseer" image inspect "oci:$d/oci:small" >"$d/inspect.small"
}
setup() {
	node_setup
	TRACKER=
	blobs_of inspect
}
# What a start reads of the image: metadata image and block map.
blobs_of() { # FILE
	META=$(jq -r .metadata.digest "$D/$1")
	SIZE=$(jq -r .metadata.size "$D/$1")
	MAP=$(jq -r .blockmap.digest "$D/$1")
	ALL=$((SIZE + $(jq -r .blockmap.size "$D/$1")))
}
teardown() {
	[ -n "${BATS_TEST_COMPLETED:-}" ] ||
		tail -n 20 "$T"/*/log "$T/tracker.log" 2>/dev/null |
		sed 's/^/# /' >&3
	node_teardown
}

# What the registry gave of the metadata image, or of another blob.
meta_bytes() { # [DIGEST]
	awk -v d="${1:-$META}" '/^GET / && index($2, d) { n += $4 } END { print n + 0 }' \
		"$T/requests"
}
# Of the swarm of metadata.
meta_of() { # NAME KEY
	p2p "$1" ".images[] | select(.metadata) | .$2"
}
# So many nodes take part, counted for each swarm: an image has two.
members_are() { # N
	curl -fsS "$TRACKER/metrics" |
		grep -qx "bootseer_registry_swarm_members $1"
}
# A node that has the metadata of others alone.  It reads some of the registry when it hears of
# nobody in time: that time is the test's.
meta_from_peers() { # NAME
	fault "match=$META" status=503
	PEER_CLOCK=$NODE_CLOCK peer_start "$1"
	aside "$1" prepare_on "$1"
	wait_for slowly has_ended "$1"
	ended "$1" well
	fault
}
is_whole() { # NAME
	(cd "$T/$1"/root/images/*/ && sha256sum meta.erofs) >"$T/$1/sum"
	[ "$(cut -d' ' -f1 "$T/$1/sum")" = "$(jq -r .metadata.digest \
		"$T/$1"/root/images/*/config.json | cut -d: -f2)" ]
}

@test "the manifest says the parts, and nothing is uploaded again" {
	local artifact manifest

	artifact=$(jq -r .artifact "$D/inspect")
	manifest=$D/oci/blobs/sha256/${artifact#sha256:}
	[ "$SIZE" -gt 3000000 ]
	jq -r '.layers[0].annotations["dev.bootseer.parts"]' "$manifest" >"$T/parts"
	[ "$(cut -d: -f1 "$T/parts")" = 262144 ]
	# 64 digits a part.
	[ "$(cut -d: -f2 "$T/parts" | tr -d '\n' | wc -c)" = \
		$(((SIZE + 262143) / 262144 * 64)) ]
	[ "$(jq '.layers[1].annotations' "$manifest")" = null ]
	find "$D/oci" | sort >"$T/before"
	"$bootseer" image convert "oci:$D/src:v1" "oci:$D/oci:v1"
	find "$D/oci" | sort | diff "$T/before" -
}

@test "the second node has the metadata from the first" {
	tracker_hold
	tracker_start
	peer_start a
	prepare_on a
	[ "$(meta_bytes)" = "$SIZE" ]
	[ "$(meta_of a origin_bytes)" = "$ALL" ]
	meta_from_peers b
	[ "$(meta_of b peer_bytes)" = "$ALL" ]
	[ "$(meta_of b id)" = "$(jq -r .artifact "$D/inspect")" ]
	[ "$(peer_bytes b)" -ge "$ALL" ]
	is_whole b
	peer_stop b
	peer_start b # with a clock that goes
	read_on b
	run -0 on b p2p status
	[[ $output == *"metadata and block map"* ]]
}

# Five nodes, each with all of it in the end.
prepare_at_once() {
	local name

	tracker_hold
	tracker_start
	for name in a b c d e; do PEER_CLOCK=$NODE_CLOCK peer_start "$name"; done
	for name in a b c d e; do aside "$name" prepare_on "$name"; done
	for name in a b c d e; do
		wait_for slowly has_ended "$name"
		ended "$name" well
	done
}

@test "nodes that begin at once read the metadata about once" {
	local name

	prepare_at_once
	[ "$(meta_bytes)" -ge "$SIZE" ]
	[ "$(meta_bytes)" -lt $((SIZE * 2)) ]
	for name in a b c d e; do is_whole "$name"; done
}

@test "what is too small for parts comes from the node that has it, too" {
	blobs_of inspect.small
	IMAGE=$REGISTRY/img:small
	[ "$ALL" -lt 262144 ]
	tracker_hold
	tracker_start
	peer_start a
	prepare_on a
	[ "$(meta_bytes) $(meta_bytes "$MAP")" = "$SIZE $((ALL - SIZE))" ]
	[ "$(meta_of a origin_bytes)" = "$ALL" ]
	meta_from_peers b
	[ "$(meta_of b pieces)" = 2 ]
	[ "$(meta_of b peer_bytes)" = "$ALL" ]
	[ "$(meta_bytes "$MAP")" = $((ALL - SIZE)) ]
	is_whole b
}

@test "nodes that begin at once read about once what is too small for parts" {
	local name

	blobs_of inspect.small
	IMAGE=$REGISTRY/img:small
	prepare_at_once
	[ "$(meta_bytes) $(meta_bytes "$MAP")" = "$SIZE $((ALL - SIZE))" ]
	for name in a b c d e; do is_whole "$name"; done
}

@test "a wrong part of a peer is not used" {
	tracker_hold
	tracker_start
	peer_start a
	prepare_on a
	peer_stop a
	peer_start a # nothing is in its relay now
	wait_for members_are 2
	meta_from_peers c
	peer_stop c
	# What it has checked it sends as it is now.
	find "$T/a/root/cache" -type f -size +1M -exec python3 -c '
import sys
for name in sys.argv[1:]:
    with open(name, "r+b") as f:
        data = f.read(16 << 20)
        f.seek(0)
        f.write(data.translate(bytes(x ^ 1 for x in range(256))))' {} +
	: >"$T/requests"
	peer_start b --prefetch off
	prepare_on b
	[ "$(p2p a .totals.served_bytes)" -gt 0 ]
	[ "$(meta_of b peer_bytes)" = 0 ]
	[ "$(meta_bytes)" -ge "$SIZE" ]
	is_whole b
	read_on b
}

# The artifact of the layout DIR, with the digits of its parts turned around.
turn_parts() { # DIR
	python3 -c '
import hashlib, json, sys
top, old = sys.argv[1:]
path = lambda digest: top + "/blobs/" + digest.replace(":", "/")
with open(path(old)) as f:
    manifest = json.load(f)
notes = manifest["layers"][0]["annotations"]
size, digits = notes["dev.bootseer.parts"].split(":")
notes["dev.bootseer.parts"] = size + ":" + digits[::-1]
text = json.dumps(manifest).encode()
new = "sha256:" + hashlib.sha256(text).hexdigest()
with open(path(new), "wb") as f:
    f.write(text)
with open(top + "/index.json") as f:
    index = json.load(f)
for m in index["manifests"]:
    if m["digest"] == old:
        m.update(digest=new, size=len(text))
with open(top + "/index.json", "w") as f:
    json.dump(index, f)' "$1" "$(jq -r .artifact "$D/inspect")"
}

@test "an artifact whose parts are not what it says is read as a whole" {
	cp -r "$D/oci" "$T/oci"
	"$bootseer" image check "oci:$T/oci:v1"
	turn_parts "$T/oci"
	run -1 "$bootseer" image check "oci:$T/oci:v1"
	[[ $output == *"metadata image: its parts: block sha256:"* ]]
	kill "${pids[0]}"
	rm "$T/ports"
	D=$T registry_start
	tracker_start
	peer_start a
	prepare_on a
	grep -q 'metadata came from no peer .*read from the registry' "$T/a/log"
	is_whole a
	read_on a
}

@test "a node without a tracker has the metadata of the registry" {
	TRACKER=http://127.0.0.1:1
	peer_start a
	prepare_on a
	[ "$(meta_bytes)" = "$SIZE" ]
	is_whole a
	read_on a
}

@test "a node serves metadata after it was restarted, until the image is removed" {
	tracker_hold
	tracker_start
	peer_start a
	prepare_on a
	peer_stop a
	peer_start a
	wait_for members_are 2
	meta_from_peers b
	[ "$(meta_of b peer_bytes)" = "$ALL" ]
	peer_stop b
	on a node gc --images
	[ -z "$(meta_of a id)" ]
	: >"$T/requests"
	peer_start c
	prepare_on c
	[ "$(meta_bytes)" = "$SIZE" ]
	is_whole c
}

@test "who has the metadata and says nothing is not waited for" {
	tracker_start
	peer_start a
	prepare_on a
	peer_start b
	kill -STOP "${node_pids[a]}"
	# Not before a goes on, if b waited for it.
	prepare_on b
	kill -CONT "${node_pids[a]}"
	is_whole b
	read_on b
}

@test "who has the metadata and dies while it serves is left" {
	tracker_start
	peer_start a
	prepare_on a
	peer_start b --p2p-rate 1M
	prepare_on b >/dev/null 3>&- &
	waiting=$!
	wait_for gives_some a
	peer_stop a KILL
	wait "$waiting"
	is_whole b
	read_on b
}
gives_some() { [ "$(p2p "$1" .totals.served_bytes)" -gt 0 ]; } # NAME

# The images v1..vN, which have the same files.
make_alike() { # N
	local k

	cp -r "$D/src" "$T/src"
	cp -r "$D/oci" "$T/oci"
	for ((k = 2; k <= $1; k++)); do
		umoci config --image "$T/src:v1" --tag "v$k" --config.env "A=$k"
		"$bootseer" image convert "oci:$T/src:v$k" "oci:$T/oci:v$k"
	done
	kill "${pids[0]}"
	rm "$T/ports"
	D=$T registry_start
}
serves_again() { [ "$(served "$1" | wc -w)" -ge "$fit" ]; } # NAME
served() { # NAME
	p2p "$1" '[.images[] | select(.metadata) | .name] | sort | join(" ")'
}

@test "the metadata that a node serves has an eighth of its cache" {
	local k want="" fit=$(((8 << 20) / SIZE))

	make_alike $((fit + 2))
	tracker_start
	peer_start a --cache-quota 64M --cache-min-free 0
	for ((k = 1; k <= fit + 2; k++)); do
		IMAGE=$REGISTRY/img:v$k prepare_on a
		((k <= 2)) || want+="${want:+ }$REGISTRY/img:v$k"
	done
	[ "$(served a)" = "$want" ]
	[ "$(on a node status --json | jq .cache.pinned_bytes)" -le $((8 << 20)) ]
	peer_stop a
	peer_start a --cache-quota 64M --cache-min-free 0
	wait_for serves_again a
	[ "$(served a | wc -w)" = "$fit" ]
}

# A node without the metadata waits for a registry that says to come later.
wait_in_vain() { # NAME
	fault "match=$META" status=429 retry_after=60
	peer_start "$1" --log-level debug
	prepare_on "$1" >"$T/$1/prepared" 2>&1 3>&- &
	waiting=$!
	wait_for grep -q 'metadata of the registry' "$T/$1/log"
}

@test "what others bring is not held up by a registry that says to come later" {
	tracker_start
	peer_start a
	prepare_on a
	kill -STOP "${node_pids[a]}"
	wait_in_vain b
	kill -CONT "${node_pids[a]}"
	wait "$waiting"
	# Who is held up by it asks for the same part three times, a minute after each other.
	grep "^GET .*$META.* 429 " "$T/requests" | sed 's/.*range=//' | sort | uniq -c |
		sort -n >"$T/asked"
	[ "$(awk 'END { print $1 }' "$T/asked")" -lt 3 ]
	is_whole b
}

@test "a node that waits for metadata ends when it is told to" {
	tracker_start
	wait_in_vain a
	peer_stop a
	wait_fails "$waiting"
	grep -q 'bootseerd ends' "$T/a/log"
	# Who has to be made to end leaves a mount without a server behind.
	ls "$T/a/run/carrier"
}
