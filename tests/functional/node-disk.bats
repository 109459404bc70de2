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
