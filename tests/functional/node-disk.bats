#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What bootseerd lets lie below ROOT.

bats_require_minimum_version 1.5.0
load node.bash

setup_file() { make_image "$BATS_FILE_TMPDIR"; }
setup() { node_setup; }
teardown() { node_teardown; }

# A second registry, of $T/oci.
other_registry() {
	"$fake_registry" --dir "$T/oci" --port-file "$T/other-ports" \
		--log "$T/other-requests" 3>&- &
	pids+=($!)
	wait_for test -s "$T/other-ports"
	read -r port control <"$T/other-ports"
	OTHER=127.0.0.1:$port
}

root_kib() { du -sk "$T/root/images" | cut -f 1; }

# A bomb of metadata with so many inodes is refused before it is fetched.
expect_refused() { # INODES
	local blob answer

	cp -r "$D/oci" "$T/oci"
	blob=$("$BATS_TEST_DIRNAME/make-bomb.py" "$T/oci" $((512 << 20)) "$1")
	other_registry
	node_start --plain-http "$OTHER"
	answer=$(call image.prepare "{\"ref\":\"$OTHER/img:v1\"}")
	jq -e '.error.errno == 22' <<<"$answer"
	[[ $answer == *"metadata"* ]]
	run ! grep "$blob" "$T/other-requests"
	[ "$(root_kib)" -lt 1024 ]
}

@test "metadata that unpacks to more than was sent is refused before it is fetched" {
	expect_refused 1000000
}

@test "metadata that is too much for its inodes is refused before it is fetched" {
	expect_refused 100
}

# Had and unmounted; `state` is its file of the state.
forgotten_image() {
	node_start
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	"$bootseer" image umount "$T/mnt"
	node_stop
	state=$(echo "$T"/root/images/*/state.json)
}

has_images() { [ "$(status '.images | length')" = "$1" ]; } # N

# The table forgets an image before its folder is removed.
has_no_folders() { [ -z "$(find "$T/root/images" -mindepth 1 -type d)" ]; }

@test "an image that nobody asked for in 30 days is forgotten" {
	local state

	forgotten_image
	touch -d '29 days ago' "$state"
	node_start
	[ "$(status '.disk.images')" -gt 0 ]
	has_images 1
	node_stop
	touch -d '31 days ago' "$state"
	node_start
	wait_for has_images 0
	wait_for has_no_folders
}

@test "what images take is part of the quota, and an image beyond it is refused" {
	local answer

	node_start --cache-quota 64M
	head -c 64M /dev/urandom >"$T/root/somebody"
	node_stop
	node_start --cache-quota 64M
	[ "$(status '.disk.other')" -ge $((64 << 20)) ]
	answer=$(call image.prepare "{\"ref\":\"$IMAGE\"}")
	jq -e '.error.errno == 28' <<<"$answer"
	[[ $answer == *"--cache-quota"* ]]
	[ -z "$(find "$T/root/images" -mindepth 1 -type d)" ]
}

# ROOT on a disk of its own, which the kubelet of NODE uses as well.
small_disk() { # SIZE
	truncate -s "$1" "$T/disk"
	mkfs.ext4 -q "$T/disk"
	mkdir "$T/small"
	mount -o loop "$T/disk" "$T/small"
	ROOT=$T/small/root
	mkdir "$ROOT"
}

cache_is_below() { [ "$(status .cache.bytes)" -lt "$1" ]; } # BYTES

@test "the cache gives way to what others write to its disk, before anybody reads" {
	local had

	small_disk 160M
	NODE_CLOCK=$T/node.clock
	node_hold
	node_start --cache-min-free 20
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	find "$T/mnt" -type f -exec cat {} + >/dev/null
	"$bootseer" image umount "$T/mnt"
	had=$(status .cache.bytes)
	[ "$had" -gt 20000000 ]
	# All but 24 MB: a container's logs, or an emptyDir.
	fallocate -l $(($(stat -f -c '%a * %S' "$T/small") - 24000000)) "$T/small/others"
	had=$((had - 5000000))
	wait_for later cache_is_below "$had"
	[ "$(status .disk.min_free_percent)" = 20 ]
	node_stop
	umount "$T/small"
}

@test "a full disk is told of in the log, and reads go on" {
	small_disk 100M
	NODE_CLOCK=$T/node.clock
	node_hold
	node_start --cache-min-free 0
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	fallocate -l $(($(stat -f -c '%a * %S' "$T/small") - 500000)) "$T/small/others"
	cmp "$T/mnt/big" "$D/bundle/rootfs/big"
	wait_for later grep -q 'warning disk: blocks were not kept .*cure=' "$T/log"
	"$bootseer" node status >"$T/status"
	grep -qE '^ +.*, [1-9][0-9]* not kept$' "$T/status"
	head -n 1 "$T/status" | grep -qE '^disk +[1-9][0-9]* blocks were fetched and could not be kept, the last [0-9]+ s ago: it is full'
	node_step 600000
	"$bootseer" node status >"$T/status"
	grep -qE '^ +.*, [1-9][0-9]* not kept$' "$T/status"
	run ! grep '^disk' "$T/status"
	"$bootseer" image umount "$T/mnt"
	node_stop
	umount "$T/small"
}

# bootseerd and its doctor where the kubelet has this configuration, and ROOT on its disk.
beside_kubelet() { # CONFIG [OPTION...]
	local config=$1

	shift
	unshare --mount --propagation private bash -c '
		mount -t tmpfs none /var/lib && mkdir /var/lib/kubelet &&
			mount --bind "$1/small" /var/lib/kubelet &&
			printf "%b" "$2" >/var/lib/kubelet/config.yaml || exit
		shift 2
		"$@" & pid=$!
		until "$bootseer" node doctor >"$T/doctor" 2>&1 ||
			grep -q "the cache leaves" "$T/doctor"; do
			kill -0 "$pid" || exit
		done
		kill "$pid"; wait "$pid"' bash "$T" "$config" "$bootseerd" \
		--root "$ROOT" --run "$T/run" "$@" 2>>"$T/log" 3>&-
}

@test "the cache leaves more of the disk free than the kubelet wants, and doctor says where it does not" {
	export T bootseer
	small_disk 64M
	beside_kubelet 'evictionHard:\n  nodefs.available: "12%"\n'
	grep "^ok .*kubelet's disk .* leaves 17 % free, the kubelet wants 12 %" "$T/doctor"
	beside_kubelet 'kind: KubeletConfiguration\n'
	grep "^ok .*kubelet's disk .* leaves 15 % free, the kubelet wants 10 %" "$T/doctor"
	beside_kubelet 'evictionHard: {nodefs.available: 25%}' --cache-min-free 5
	grep "^advice .*kubelet's disk .* leaves 5 % free, the kubelet wants 25 %" "$T/doctor"
	grep 'cure: .*cache-min-free = "auto", or 26 or more' "$T/doctor"
	umount "$T/small"
}
