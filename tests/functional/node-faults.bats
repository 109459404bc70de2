#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bootseerd when the registry or the disk misbehaves: what docs/operations.md
# declares, and that nothing wrong is ever read.

bats_require_minimum_version 1.5.0
load node.bash

setup_file() { make_image "$BATS_FILE_TMPDIR"; }
setup() { node_setup; }
teardown() { node_teardown; }

mount_it() { "$bootseer" image mount "$IMAGE" "$T/mnt"; }
read_all() { cmp "$T/mnt/big" "$D/rootfs/big"; }

prepare() { # [PARAMETERS-AFTER-REF]
	call image.prepare "{\"ref\":\"$IMAGE\"${1:-}}"
}

message() { jq -r .error.message; }

@test "a registry that is down fails a first prepare and names the image" {
	node_start
	fault down=1
	run ! mount_it
	[[ $output == *"$IMAGE"* ]]
	fault
	mount_it
	read_all
}

@test "with the registry down a known tag is served as it was last seen" {
	local reply

	node_start
	mount_it
	read_all
	"$bootseer" image umount "$T/mnt"
	fault down=1
	reply=$(prepare)
	[ "$(jq -r .result.source <<<"$reply")" = stale ]
	[[ $(jq -r .result.warning <<<"$reply") == *"$REGISTRY"* ]]
	grep -q "warning prepare: stale image=\"$IMAGE\"" "$T/log"
	# By digest there is nothing to ask.
	reply=$(prepare ",\"manifest\":\"$(jq -r .result.manifest <<<"$reply")\"")
	[ "$(jq -r .result.source <<<"$reply")" = node ]
	run -0 mount_it
	[[ $output == *"warning: '$IMAGE' may name another image"* ]]
	read_all
	"$bootseer" image umount "$T/mnt"
}

@test "a registry that says no is obeyed, also for a known tag" {
	node_start
	mount_it
	"$bootseer" image umount "$T/mnt"
	fault status=404 match=/manifests/
	[ "$(prepare | jq .error.errno)" = 2 ]
	fault status=403 match=/manifests/
	[ "$(prepare | jq .error.errno)" = 13 ]
	fault
	[ "$(prepare | jq -r .result.source)" = node ]
}

@test "reads wait for a registry that comes back" {
	local reader

	node_start --attempts 20
	mount_it
	fault down=1
	read_all 3>&- &
	reader=$!
	# It is waiting: the daemon has the request, and no answer.
	wait_for reads_wait
	fault
	wait "$reader"
}

reads_wait() { [ "$(status '.images[0].device.misses')" -gt 0 ]; }

# Readers of as many places of a file as there are buffers, and more.
flood() { # FILE
	local i

	for i in {0..299}; do
		dd if="$1" of=/dev/null bs=4k count=1 skip=$((i * 19)) \
			status=none 2>/dev/null 3>&- &
		pids+=($!)
	done
}

@test "a registry that is down does not hold up other images" {
	node_start --attempts 20
	mount_it
	read_all
	mkdir "$T/fs" "$T/other"
	noise 24000000 11 >"$T/fs/big"
	umoci init --layout "$T/src"
	umoci new --image "$T/src:v1"
	umoci insert --image "$T/src:v1" "$T/fs" /
	"$bootseer" image convert "oci:$T/src:v1" "oci:$T/oci:v1" >/dev/null
	rm "$T/ports"
	D=$T registry_start
	"$bootseer" image mount --plain-http "$IMAGE" "$T/other"
	fault down=1
	flood "$T/other/big"
	wait_for many_wait
	# Blocks that are on the node are read as ever.
	dd if="$T/mnt/big" iflag=nocache count=0 status=none
	timeout 20 cmp "$T/mnt/big" "$D/rootfs/big"
	fault
	wait "${pids[@]:3}"
	"$bootseer" image umount "$T/other"
	"$bootseer" image umount "$T/mnt"
}

many_wait() { [ "$(status '[.images[].device.misses] | max')" -ge 90 ]; }

@test "reads fail when the registry stays away, and say what they wanted" {
	node_start --attempts 1 --read-timeout 2s
	mount_it
	fault down=1
	run ! cat "$T/mnt/big"
	grep -q "read failed image=\"$IMAGE\"" "$T/log"
	[ "$(status '.images[0].device.errors')" -gt 0 ]
	[ "$(status '.images[0].last_error.errno')" -gt 0 ]
	[[ $(status '.images[0].last_error.message') == *[a-z]* ]]
	[ "$(status '.images[0].last_error.at')" -gt 0 ]
	fault
	read_all
}

@test "a slow registry is only slow" {
	node_start
	mount_it
	fault drip=400000 drip_ms=30 match=/blobs/
	cmp "$T/mnt/top/data" "$D/top/data"
}

@test "a transfer that is cut goes on where it ended" {
	node_start --attempts 5
	mount_it
	fault cut=100000 times=3 match=/blobs/
	read_all
}

@test "a transfer that stalls is begun again" {
	node_start --attempts 5 --stall-timeout 1s
	mount_it
	fault delay_ms=20000 times=1 match=/blobs/
	cmp "$T/mnt/top/data" "$D/top/data"
}

# Who has to be made to end logs no such failure.
end_while_waiting() { # PART-OF-URL
	local waiting

	node_start --stall-timeout 10m
	fault delay_ms=3600000 "match=$1"
	mount_it >"$T/mounted" 2>&1 3>&- &
	waiting=$!
	wait_for grep -q "$1" "$T/requests"
	node_stop
	run ! wait "$waiting"
	grep 'failed method=image.prepare.*not wanted any more' "$T/log"
}

@test "who waits for a manifest from a registry that hangs ends when it is told to" {
	end_while_waiting /manifests/
}

@test "who waits for metadata from a registry that hangs ends when it is told to" {
	end_while_waiting /blobs/
}

@test "429 is waited for" {
	node_start --attempts 5
	fault status=429 retry_after=1 times=2
	mount_it
	fault status=429 retry_after=1 times=2 match=/blobs/
	read_all
}

@test "a token that expires is replaced" {
	fault bearer=1 token_uses=3
	node_start
	mount_it
	read_all
}

@test "wrong credentials are told, right ones are read at SIGHUP" {
	echo '{"auths":{}}' >"$T/auth.json"
	fault basic=1
	node_start --auth-file "$T/auth.json"
	[ "$(prepare | jq .error.errno)" = 13 ]
	[[ $(prepare | message) == *"$IMAGE"* ]]
	printf '{"auths":{"%s":{"auth":"%s"}}}' "$REGISTRY" \
		"$(printf user:secret | base64)" >"$T/auth.json"
	kill -HUP "$node_pid"
	wait_for grep -q 'info main: reloaded' "$T/log"
	mount_it
	read_all
}

@test "new credentials reach images that are mounted" {
	fault basic=1
	printf '{"auths":{"%s":{"auth":"%s"}}}' "$REGISTRY" \
		"$(printf user:secret | base64)" >"$T/auth.json"
	node_start --auth-file "$T/auth.json" --attempts 1 --read-timeout 5s
	mount_it
	echo '{"auths":{}}' >"$T/auth.json"
	kill -HUP "$node_pid"
	wait_for grep -q 'info main: reloaded' "$T/log"
	run ! cat "$T/mnt/big"
	printf '{"auths":{"%s":{"auth":"%s"}}}' "$REGISTRY" \
		"$(printf user:secret | base64)" >"$T/auth.json"
	kill -HUP "$node_pid"
	wait_for reloaded_twice
	read_all
}

reloaded_twice() { [ "$(grep -c 'info main: reloaded' "$T/log")" = 2 ]; }

@test "wrong bytes of a block are never read" {
	node_start --attempts 2 --read-timeout 5s
	mount_it
	fault wrong=300000 match="$(pack)"
	run cmp "$T/mnt/big" "$D/rootfs/big"
	# Read errors are allowed, other bytes are not.
	[[ $output != *differ* ]]
	[ "$status" -ne 0 ]
	grep -q "read failed image=\"$IMAGE\".*block" "$T/log"
	fault
	read_all
}

# Digest of the artifact's largest blob.
pack() {
	find "$D/oci/blobs/sha256" -size +15M -printf '%f\n' | while read -r f; do
		[ -e "$D/src/blobs/sha256/$f" ] || echo "$f"
	done | head -n 1
}

@test "wrong bytes of the metadata are refused and nothing is kept" {
	node_start
	fault wrong=20 match=/blobs/
	run ! mount_it
	[[ $output == *"$IMAGE"* ]]
	[ "$(status '.images | length')" = 0 ]
	[ -z "$(ls "$T/root/images")" ]
	fault
	mount_it
	read_all
}

small_disk() { # SIZE
	truncate -s "$1" "$T/disk"
	mkfs.ext4 -q "$T/disk"
	mkdir "$T/small"
	mount -o loop "$T/disk" "$T/small"
	ROOT=$T/small/root
	mkdir "$ROOT"
}

@test "a full disk fails a prepare with the reason, and nothing is left" {
	small_disk 16M
	node_start --cache-min-free 0
	dd if=/dev/zero of="$T/small/filler" bs=4k status=none 2>&1 || :
	run ! mount_it
	[[ $output == *"$IMAGE"*[Nn]"o space"* ]]
	rm "$T/small/filler"
	mount_it
	cmp "$T/mnt/bin/busybox" "$D/rootfs/bin/busybox"
	"$bootseer" image umount "$T/mnt"
	node_stop
}

@test "a full disk does not disturb readers: blocks are served and not kept" {
	small_disk 24M
	node_start --cache-min-free 0
	mount_it
	dd if=/dev/zero of="$T/small/filler" bs=4k status=none 2>&1 || :
	read_all
	[ "$(status '.images[0].device.errors')" = 0 ]
	"$bootseer" image umount "$T/mnt"
	node_stop
}

@test "a full disk does not keep an image from being there after a reboot" {
	small_disk 80M
	node_start --cache-min-free 0
	mount_it
	find "$T/mnt" -type f -exec cat {} + >/dev/null
	"$bootseer" image umount "$T/mnt"
	mount_it
	[ "$(status '.images[0].mode')" = complete ]
	node_stop KILL
	umount "$T/mnt"
	umount "$T"/run/images/*/fs
	dd if=/dev/zero of="$T/small/filler" bs=1k status=none 2>&1 || :
	node_start --cache-min-free 0
	[ "$(status '.images[0].mode')" = lazy ]
	mount_it
	read_all
	# It still says on the disk that it is complete: it is looked at.
	umount "$T/mnt"
	node_stop KILL
	node_start --cache-min-free 0
	[ "$(status '.images[0].mode')" = lazy ]
	node_stop
}

@test "metadata that the disk damaged is fetched again" {
	local dir

	node_start
	mount_it
	umount "$T/mnt"
	dir=$(echo "$T"/root/images/*/)
	node_stop
	printf x | dd of="$dir/meta.erofs" bs=1 seek=5000 conv=notrunc status=none
	truncate -s 100 "$dir/blockmap"
	node_start
	grep -q 'warning mount: damaged' "$T/log"
	mount_it
	read_all
	"$bootseer" image umount "$T/mnt"
}

@test "an image folder that is damaged is left out and prepared again" {
	local dir

	node_start
	mount_it
	"$bootseer" image umount "$T/mnt"
	dir=$(echo "$T"/root/images/*/)
	node_stop
	echo '{' >"$dir/artifact.json"
	mkdir "$T/root/images/tmp.leftover"
	node_start
	grep -q 'error images: damaged' "$T/log"
	[ ! -e "$T/root/images/tmp.leftover" ]
	[ "$(status '.images | length')" = 0 ]
	mount_it
	read_all
	"$bootseer" image umount "$T/mnt"
}

@test "blocks that the disk damaged are fetched again" {
	node_start
	mount_it
	read_all
	"$bootseer" image umount "$T/mnt"
	node_stop
	find "$T/root/cache" -type f -size +1M | while read -r f; do
		printf damage | dd of="$f" bs=1 seek=100000 conv=notrunc \
			status=none
	done
	node_start
	mount_it
	read_all
	[ "$(status .cache.damaged)" -gt 0 ]
	"$bootseer" image umount "$T/mnt"
}
