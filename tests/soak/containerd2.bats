#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bootseer-snapshotter under containerd 2, which Debian 12 does not have. It is
# built from its Go modules once, in the cache folder, which takes minutes and
# wants a Go as new as its go.mod says; BOOTSEER_CONTAINERD2 names a folder with
# containerd, ctr and containerd-shim-runc-v2 instead.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../containerd/lib.bash"

VERSION=v2.3.4

setup_file() {
	local cache=${BOOTSEER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bootseer}
	local name

	if [[ ! ${BOOTSEER_CONTAINERD2:-} ]]; then
		export BOOTSEER_CONTAINERD2=$cache/containerd-$VERSION
		for name in containerd ctr containerd-shim-runc-v2; do
			[[ -x $BOOTSEER_CONTAINERD2/$name ]] ||
				GOBIN=$BOOTSEER_CONTAINERD2 go install \
				"github.com/containerd/containerd/v2/cmd/$name@$VERSION"
		done
	fi
	make_images "$BATS_FILE_TMPDIR" >/dev/null
}

setup() {
	PATH=$BOOTSEER_CONTAINERD2:$PATH
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
	ctr images pull --local --plain-http --snapshotter overlayfs \
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
	[ "$(calls layer.apply)" -eq 2 ]
	grep -q '^srv/own/file ' "$T/got"
	ctr images rm --sync "$REGISTRY/lazy:1" "$REGISTRY/other:1"
	wait_until "$plugin_pid" grep -q '^image.umount ' "$T/node/calls"
	wait_until "$plugin_pid" rmdir "$T/plugin/snapshots"
}
