#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A real kubelet whose imageServiceEndpoint is bootseer-snapshotter's, and one whose pull secrets are read.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../containerd/lib.bash"
. "$BATS_TEST_DIRNAME/../containerd/private.bash"

setup_file() {
	KUBERNETES=$("$BATS_TEST_DIRNAME/build" kubernetes)
	CONTAINERD2=$("$BATS_TEST_DIRNAME/build" containerd-2)
	export KUBERNETES CONTAINERD2
	private_setup_file
}

# Control groups of pods outlive the namespaces; those with processes in them stay.
teardown_file() {
	find /sys/fs/cgroup -depth -type d -path '*/k8s.io/*' -exec rmdir {} + 2>/dev/null || :
}

starts_lazily() { # WAY
	export BATS_TEST_TMPDIR BATS_FILE_TMPDIR PATH=$KUBERNETES:$CONTAINERD2:$PATH
	export DOCUMENTED='/use_local_image_pull/d;/disable_snapshot_annotations/d'
	run timeout 600 unshare --net --mount --pid --fork --kill-child --mount-proc \
		--propagation private bash "$BATS_TEST_DIRNAME/kubelet-images.bash" "$1"
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output = *"a pod of a private image ran lazily"* ]]
}

@test "a real kubelet's pods start a private image lazily by their pull secret" {
	starts_lazily service
}

@test "... also by the API server, with the kubelet as it was" {
	starts_lazily api
}
