#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Images that are read from their own layers: bootseer image convert --form index.

bats_require_minimum_version 1.5.0
load node.bash

setup_file() {
	export HERE=$BATS_TEST_DIRNAME BOOTSEER_FORM=index
	make_image "$BATS_FILE_TMPDIR"
}
setup() { node_setup; }
teardown() { node_teardown; }

# Names and sizes of all blobs of a layout.
blobs() { (cd "$1/blobs/sha256" && ls -l --time-style=+ | awk 'NR > 1 { print $5, $6 }' | sort); }

artifact() { # LAYOUT [FILTER]
	local digest

	digest=$(jq -r '.manifests[] | select(.artifactType) | .digest[7:]' \
		"$1/index.json")
	jq -r "${2:-.}" "$1/blobs/sha256/$digest"
}

# Another layout behind the registry.
serve() { # FOLDER-OF-oci
	kill "${served:=${pids[0]}}"
	wait "$served" || :
	rm "$T/ports"
	D=$1 registry_start
	served=${pids[-1]}
}

@test "a lazy and a complete mount of an index are what an unpack gives" {
	local kind
	local -A modes=([auto]=complete [fuse]=lazy)

	for kind in auto fuse; do
		node_start --datapath "$kind"
		"$bootseer" image mount "$IMAGE" "$T/mnt"
		[ "$(status '.images[0].mode')" = lazy ]
		listing "$T/mnt" | diff "$D/want" -
		"$bootseer" image umount "$T/mnt"
		"$bootseer" image prefetch --wait "$IMAGE"
		"$bootseer" image mount "$IMAGE" "$T/mnt"
		[ "$(status '.images[0].mode')" = "${modes[$kind]}" ]
		listing "$T/mnt" | diff "$D/want" -
		"$bootseer" image umount "$T/mnt"
		"$bootseer" node gc --images --cache 0
		node_stop
	done
}

@test "beside the image an index stores no blocks" {
	cp -r "$D/src" "$T/oci"
	blobs "$T/oci" >"$T/before"
	"$bootseer" image convert --form index "oci:$T/oci:v1" "oci:$T/oci:v1" \
		2>/dev/null
	blobs "$T/oci" | comm -13 "$T/before" - >"$T/new"
	# Config, manifest, metadata, block map, and windows where some are.
	[ "$(wc -l <"$T/new")" -le 5 ]
	[ "$(awk '{ n += $1 } END { print n }' "$T/new")" -lt 100000 ]
	# The layers are its packs, by the names that the image gives them.
	artifact "$T/oci" '.layers[2:][] | select(.mediaType | test("layer")) |
		.digest' >"$T/packs"
	umoci stat --image "$T/oci:v1" --json | jq -r '.history[] |
		select(.layer) | .layer.digest' | diff - "$T/packs"
	# The same again has the same name.
	cp -r "$D/src" "$T/again"
	"$bootseer" image convert --form index "oci:$T/again:v1" \
		"oci:$T/again:v1" 2>/dev/null
	[ "$(artifact "$T/oci" | sha256sum)" = "$(artifact "$T/again" | sha256sum)" ]
}

@test "layers of gzip, zstd and plain tar, with all that a tar can hold, are equal" {
	mkdir "$T/d"
	"$HERE/make-image.py" "$T/d/oci" good 1
	"$HERE/make-image.py" "$T/gzip" good 1 gzip
	umoci unpack --image "$T/gzip:latest" "$T/bundle" >/dev/null
	"$HERE/list-tree.py" "$T/bundle/rootfs" >"$T/want"
	"$bootseer" image convert --form index "oci:$T/d/oci:latest" \
		"oci:$T/d/oci:latest" 2>/dev/null
	"$bootseer" image check --against-layers "oci:$T/d/oci:latest"
	serve "$T/d"
	node_start
	"$bootseer" image mount "${IMAGE%:*}:latest" "$T/mnt"
	"$HERE/list-tree.py" "$T/mnt" | diff "$T/want" -
	"$bootseer" image umount "$T/mnt"
}

# One tar as zstd, in one frame and in many, and as gzip in members of 64 KiB.
@test "frames and members are entered; one frame of everything is refused, with the cure" {
	mkdir "$T/tree" "$T/d"
	noise 20000000 3 >"$T/tree/big"
	tar -C "$T/tree" -cf "$T/tar" .
	split -b 300000 --filter='zstd -qc' "$T/tar" >"$T/frames"
	split -b 65536 --filter='gzip -nc' "$T/tar" >"$T/members"
	zstd -qc "$T/tar" >"$T/frame"
	"$HERE/make-image.py" "$T/d/oci" stored "$T/tar" \
		"zstd=$T/frames" "gzip=$T/members"
	"$bootseer" image convert --form index "oci:$T/d/oci:latest" \
		"oci:$T/d/oci:latest" 2>/dev/null
	"$bootseer" image check --against-layers "oci:$T/d/oci:latest"
	# Neither needs windows.
	[ "$(artifact "$T/d/oci" '.layers | length')" = 4 ]
	"$HERE/make-image.py" "$T/one" stored "$T/tar" "zstd=$T/frame"
	run ! "$bootseer" image convert --form index "oci:$T/one:latest" \
		"oci:$T/one:latest"
	[[ $output == *"layer 1 of 1"*"cannot be indexed"*"without --form index"* ]]
	"$bootseer" image convert "oci:$T/one:latest" "oci:$T/one:latest" \
		2>/dev/null
}

@test "a start reads a part of the layers, and each part once" {
	node_start --prefetch off
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	cmp "$T/mnt/bin/busybox" "$D/rootfs/bin/busybox"
	cmp "$T/mnt/top/data" "$D/top/data"
	cmp "$T/mnt/big" "$D/rootfs/big"
	# By the registry's log: bytes that were asked of the layer.
	awk -v d="$(artifact "$D/oci" '.layers | max_by(.size) | .digest')" '
		/^GET/ && index($0, d) && match($0, /bytes=[0-9]+-[0-9]+/) {
			split(substr($0, RSTART + 6, RLENGTH - 6), r, "-")
			n += r[2] - r[1] + 1
		}
		END { print n }' "$T/requests" >"$T/asked"
	[ "$(cat "$T/asked")" -gt 0 ]
	[ "$(cat "$T/asked")" -le 26000000 ]
	"$bootseer" image umount "$T/mnt"
}

@test "bytes of a layer that come wrong are read by nobody, and asked for again" {
	node_hold
	node_start --read-timeout 1h --prefetch off
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	fault wrong=300000 match="$(artifact "$D/oci" \
		'.layers | max_by(.size) | .digest')"
	aside read cmp "$T/mnt/big" "$D/rootfs/big" >"$T/said" 2>&1
	wait_for later has_ended read
	ended read badly
	run ! grep -E 'differ|EOF' "$T/said"
	grep -q "read failed image=\"$IMAGE\".*layer sha256:" "$T/log"
	fault
	aside good cmp "$T/mnt/big" "$D/rootfs/big"
	wait_for later has_ended good
	ended good well
	"$bootseer" image umount "$T/mnt"
}

# Each digest is right: whoever made it may push.
@test "an index that lies gives no wrong byte, and is found out by a check" {
	local kind

	node_start
	call image.prepare "{\"ref\":\"$IMAGE\"}" | jq -e .result
	cp "$T"/root/images/*/{meta.erofs,blockmap} "$T"
	node_stop
	for kind in place span checksum; do
		rm -rf "$T/d" && mkdir "$T/d" && cp -r "$D/oci" "$T/d/oci"
		"$HERE/forge-artifact.py" "$T/d/oci" "$T/meta.erofs" \
			"$T/blockmap" "$kind"
		run ! "$bootseer" image check "oci:$T/d/oci:v1"
		[[ $output == *"sha256:"* ]]
		serve "$T/d"
		node_hold
		node_start --read-timeout 1m --prefetch off
		"$bootseer" image mount "$IMAGE" "$T/mnt"
		aside "$kind" diff -r --no-dereference "$T/mnt" \
			"$BATS_FILE_TMPDIR/bundle/rootfs" >"$T/said" 2>&1
		wait_for later has_ended "$kind"
		grep -q 'Input/output error' "$T/said"
		run ! grep -E 'differ|EOF' "$T/said"
		"$bootseer" image umount "$T/mnt"
		"$bootseer" node gc --images --cache 0
		node_stop
	done
}

@test "an index is verified, shared with nothing, and replaced by a conversion" {
	cp -r "$D/oci" "$T/oci"
	"$bootseer" key new "$T/verify" --uses verify >/dev/null
	"$bootseer" image verify --key "$T/verify" --repository reg.example/app \
		"oci:$T/oci:v1"
	# Its blocks have no stored form that another image could refer to.
	"$bootseer" image convert "oci:$T/oci:v1" "oci:$T/oci:v1" --force \
		2>/dev/null
	"$bootseer" image check --against-layers "oci:$T/oci:v1"
	[ "$("$bootseer" image inspect "oci:$T/oci:v1" | jq .format)" = 1 ]
}
