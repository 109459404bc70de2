#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bootseer-snapshotter under containerd 2, which Debian 12 does not have.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../containerd/lib.bash"

setup_file() {
	CONTAINERD2=$("$BATS_TEST_DIRNAME/build" containerd-2)
	export CONTAINERD2
	make_images "$BATS_FILE_TMPDIR" >/dev/null
}

setup() {
	PATH=$CONTAINERD2:$PATH
	containerd_setup
	start_fake_node
	start_plugin
	start_containerd
	push "$I" lazy
	fake_lazy "$I" lazy
}

teardown() {
	[[ ! ${T:-} ]] || containerd_teardown
}

@test "containerd 2: ctr pulls lazily through the transfer service" {
	pull_full bootseer lazy
	[ "$(layer_gets "$I" lazy)" -eq 0 ]
	in_container bootseer lazy "$LISTING" >"$T/got"
	ctr images pull --local --plain-http --snapshotter overlayfs \
		"$REGISTRY/lazy:1"
	in_container overlayfs lazy "$LISTING" >"$T/want"
	diff "$T/want" "$T/got"
}

@test "containerd 2: an ordinary image looks as on overlayfs" {
	push "$I" plain
	pull_full bootseer plain
	in_container bootseer plain "$LISTING" >"$T/got"
	# By the transfer service, which unpacks for both of what is documented.
	ctr images pull --plain-http --snapshotter overlayfs \
		"$REGISTRY/plain:1"
	in_container overlayfs plain "$LISTING" >"$T/want"
	diff "$T/want" "$T/got"
}

@test "containerd 2: the CRI pulls and runs a lazy image without a layer" {
	push "$I" pause
	cri pull "$REGISTRY/lazy:1"
	[ "$(layer_gets "$I" lazy)" -eq 0 ]
	run cri run "$REGISTRY/lazy:1" pod /bin/sh -c 'cat /srv/one/deep/link'
	cri stop
	[ "$status" -eq 0 ]
	[ "$output" = one ]
	[ "$(layer_gets "$I" lazy)" -eq 0 ]
}

@test "containerd 2: an ordinary image that shares layers has them fetched" {
	push "$I" other
	pull_full bootseer lazy
	pull_full bootseer other
	in_container bootseer other "$LISTING" >"$T/got"
	# Its own image is asked first, which the fake does not have.
	[ "$(calls layer.apply)" -eq 4 ]
	grep -q '^srv/own/file ' "$T/got"
	ctr images rm --sync "$REGISTRY/lazy:1" "$REGISTRY/other:1"
	wait_until "$plugin_pid" grep -q '^image.umount ' "$T/node/calls"
	wait_until "$plugin_pid" rmdir "$T/plugin/snapshots"
}

# Start containerd again with another list of capabilities, and more of its file.
restart_with() { # CAPABILITIES TEXT
	stop_daemon "$containerd_pid"
	sed -i "s/^  capabilities = .*/  capabilities = $1/" "$T/ctd/config.toml"
	grep -qF "capabilities = $1" "$T/ctd/config.toml"
	printf '%s\n' "$2" >>"$T/ctd/config.toml"
	: >"$T/ctd/log"
	start_daemon "$T/ctd/log" containerd --config "$T/ctd/config.toml"
	containerd_pid=$daemon_pid
	wait_until "$containerd_pid" grep -q 'successfully booted' "$T/ctd/log"
}

PARALLEL='[plugins."io.containerd.transfer.v1.local"]
max_concurrent_unpacks = 3'

@test "containerd 2: layers that are unpacked beside each other are refused, and why" {
	push "$I" plain
	restart_with '["remap-ids", "rebase"]' "$PARALLEL"
	run ! pull_full bootseer plain
	grep -qF 'take "rebase" out of the capabilities' <<<"$output"
	run ! ctr snapshots --snapshotter bootseer info \
		"$(chain_ids_of "$I" plain | tail -n 1)"
	# Without it they are unpacked in a row, whatever else is set.
	restart_with '["remap-ids"]' ''
	pull_full bootseer plain
	in_container bootseer plain "$LISTING" >"$T/got"
	pull_full overlayfs plain
	in_container overlayfs plain "$LISTING" >"$T/want"
	run ! grep -q '^opt/gone ' "$T/got"
}

@test "containerd 2: what was pulled lazily runs under overlayfs when node fetch was there" {
	pull_full bootseer lazy
	run ! in_container overlayfs lazy true
	[[ $output == *"not found"* ]]
	run -0 --separate-stderr "$bootseer" node fetch --plain-http
	[[ ${lines[-1]} == "3 layers missing, 3 fetched, "* ]]
	in_container overlayfs lazy "$LISTING" >"$T/want"
	in_container bootseer lazy "$LISTING" >"$T/got"
	diff "$T/want" "$T/got"
	run -1 --separate-stderr "$bootseer" node fetch --containerd "$T/none.sock"
	[[ $stderr == *"$T/none.sock"* ]]
}

@test "containerd 2: doctor finds the documented configuration in force" {
	run -1 "$BOOTSEER_BUILD/cli/bootseer" node doctor --containerd "$T/ctd/config.toml"
	grep -q '^ok *containerd proxy plugin .* names it$' <<<"$output"
	grep -q '^ok *containerd CRI snapshotter ' <<<"$output"
	grep -q '^ok *containerd image labels ' <<<"$output"
	sed -i 's/^\[plugins."io.containerd.cri.v1.images"\]/[plugins."io.containerd.grpc.v1.cri".containerd]/' \
		"$T/ctd/config.toml"
	run -1 "$BOOTSEER_BUILD/cli/bootseer" node doctor --containerd "$T/ctd/config.toml"
	grep -q '^advice *containerd CRI snapshotter .*another version' <<<"$output"
}

@test "containerd 2: bootseerd unpacks the layers of ordinary images" {
	"$bootseer" key new "$I/key.$BATS_TEST_NUMBER" >/dev/null
	cp "$I/key.$BATS_TEST_NUMBER.pub" "$I/key.pub"
	start_node --containerd-root "$T/ctd/root"
	stop_daemon "$plugin_pid"
	start_plugin --node-timeout 1s
	push "$I" other
	push "$I" plain
	restart_with '["remap-ids"]' "$(unpacking)"
	# By the diff service, as the CRI's own pulls are.
	pull_lazy other
	[ "$(unpacked)" -eq 3 ]
	in_container bootseer other "$LISTING" >"$T/got"
	# Under another snapshotter, too; but by the transfer service containerd does it.
	ctr images pull --local --plain-http --snapshotter overlayfs "$REGISTRY/other:1"
	[ "$(unpacked)" -eq 6 ]
	ctr images rm --sync "$REGISTRY/other:1"
	ctr images pull --plain-http --snapshotter overlayfs "$REGISTRY/other:1"
	[ "$(unpacked)" -eq 6 ]
	in_container overlayfs other "$LISTING" >"$T/theirs"
	diff "$T/theirs" "$T/got"
	run ! grep -q 'unpacks a layer itself' "$T/plugin.log"
	# Without bootseerd containerd does it.
	stop_daemon "$node_pid"
	ctr images pull --local --plain-http --snapshotter overlayfs "$REGISTRY/plain:1"
	in_container overlayfs plain true
}

# pull_into_full_disk SNAPSHOTTER DISK: pull big:1, which does not come on the disk until that has grown.
pull_into_full_disk() {
	local before pull=(ctr images pull --local --plain-http --snapshotter "$1" "$REGISTRY/big:1")

	run ! "${pull[@]}"
	[[ $output == *'no space left on device'* ]]
	grep 'unpacks a layer itself: .*No space left on device' "$T/plugin.log"
	# Nothing of the layer is believed.
	run ! ctr snapshots --snapshotter "$1" info "$(chain_ids_of "$I" big | tail -n 1)"
	mount -o remount,size=200m "$2"
	before=$(unpacked)
	"${pull[@]}"
	[ "$(unpacked)" -gt "$before" ]
	[ "$(in_container "$1" big 'sha256sum /srv/big/data')" = "$(cd "$I/big" && sha256sum srv/big/data |
		sed 's, s, /s,')" ]
}

@test "containerd 2: a pull for which there is no room says so, and works when there is some" {
	mkdir -p "$I/big/srv/big"
	noise 30000000 5 >"$I/big/srv/big/data"
	new_image "$I" big base big
	push "$I" big
	"$bootseer" key new "$I/key.$BATS_TEST_NUMBER" >/dev/null
	cp "$I/key.$BATS_TEST_NUMBER.pub" "$I/key.pub"
	start_node --containerd-root "$T/ctd/root"
	stop_daemon "$plugin_pid"
	mount -t tmpfs -o size=20m none "$T/plugin"
	start_plugin --node-timeout 1s
	# The layer as it was pulled has room.
	mount -t tmpfs -o size=48m none "$T/ctd/root"
	restart_with '["remap-ids"]' "$(unpacking)"
	pull_into_full_disk overlayfs "$T/ctd/root"
	pull_into_full_disk bootseer "$T/plugin"
}
