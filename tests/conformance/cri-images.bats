#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Private images of pods under the containerds that Debian 12 does not have, as
# tests/functional/cri-images.bats shows for 1.6.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../containerd/lib.bash"
. "$BATS_TEST_DIRNAME/../containerd/private.bash"

setup_file() {
	CONTAINERD1=$("$BATS_TEST_DIRNAME/build" containerd-1.7)
	CONTAINERD2=$("$BATS_TEST_DIRNAME/build" containerd-2)
	export CONTAINERD1 CONTAINERD2
	private_setup_file
}

setup() { private_setup; }
teardown() { containerd_teardown; }

# A pod's image starts lazily by its login, over a restart, and another namespace that shows
# a wrong one has nothing of it.
private_image_is_lazy() { # FOLDER OF CONTAINERD
	PATH=$1:$PATH
	[[ $(command -v containerd) = "$1/containerd" ]]
	start_all
	pull_as team tenant "$CANARY"
	[ "$(gets)" -eq 0 ]
	run pull_as evil tenant wrong
	[ "$status" -ne 0 ]
	kill_node
	start_node --login-key "$T/login.key"
	read_all
	[ "$(gets)" -eq 0 ]
	no_canary
	images images >"$T/by-us"
	cri images | diff - "$T/by-us"
}

@test "containerd 1.7: a pod's private image starts lazily by its pull secret" {
	private_image_is_lazy "$CONTAINERD1"
}

@test "containerd 2: a pod's private image starts lazily by its pull secret" {
	private_image_is_lazy "$CONTAINERD2"
}

# The CRI as containerd has it by itself: images are pulled by the transfer service, which
# names them to the snapshotter as enable_remote_snapshot_annotations says.
@test "containerd 2: so it does by the transfer service" {
	DOCUMENTED='/use_local_image_pull/d;/disable_snapshot_annotations/d'
	private_image_is_lazy "$CONTAINERD2"
	# It did not go back to the other way by itself.
	containerd --config "$T/ctd/config.toml" config dump 2>/dev/null |
		grep 'use_local_image_pull = false'
	run ! grep -i 'local image pull' "$T/ctd/log"
}
