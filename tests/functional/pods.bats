#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What commands say of a pod on its node: real containerd, whose CRI gives its containers the
# labels that the kubelet names.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../containerd/lib.bash"
. "$BATS_TEST_DIRNAME/registry.bash"

setup_file() {
	make_images "$BATS_FILE_TMPDIR" >/dev/null
	"$bootseer" key new "$BATS_FILE_TMPDIR/key" >/dev/null
}

setup() {
	containerd_setup
	W=$T
	start_node
	start_plugin
	start_containerd
	push "$I" lazy
	push "$I" plain
	push "$I" pause
	convert_image lazy --sign "$I/key"
}

teardown() {
	local p

	cri stop || :
	for p in "${services[@]}"; do
		kill -KILL "$p" 2>/dev/null || :
	done
	containerd_teardown
}

@test "image explain tells of each image of a pod, without an API server" {
	cri pull "$REGISTRY/lazy:1"
	cri run "$REGISTRY/lazy:1" app-0 /bin/sh -c 'cat /srv/one/deep/link'
	cri pull "$REGISTRY/plain:1"
	cri run "$REGISTRY/plain:1" app-1 /bin/sh -c :
	"$bootseer" image explain --pod default/app-0 >"$T/said"
	grep -qx "container main, $REGISTRY/lazy:1" "$T/said"
	grep -q 'no start of this image has ended' "$T/said"
	[ "$(grep -c ^container "$T/said")" = 1 ] # the sandbox is none of the pod's
	# The tag alone means the same, though the CRI names the image's digest to us.
	"$bootseer" image explain "$REGISTRY/lazy:1" >"$T/said"
	grep -q 'no start of this image has ended' "$T/said"
	"$bootseer" image explain --pod default/app-1 >"$T/said"
	grep -qx "container main, $REGISTRY/plain:1" "$T/said"
	grep -q 'no lazy image' "$T/said"
}

@test "of pods that had the same name the newest is told of" {
	cri pull "$REGISTRY/lazy:1"
	cri pull "$REGISTRY/plain:1"
	CRI_UID=b cri run "$REGISTRY/plain:1" app-0 /bin/sh -c :
	CRI_UID=a cri run "$REGISTRY/plain:1" app-0 /bin/sh -c :
	CRI_UID=d cri run "$REGISTRY/lazy:1" app-0 /bin/sh -c :
	"$bootseer" image explain --pod default/app-0 >"$T/said"
	[ "$(grep ^container "$T/said")" = "container main, $REGISTRY/lazy:1" ]
}

@test "a pod that is not on this node is said where to look for" {
	run -1 "$bootseer" image explain --pod default/app-0
	[[ $output == *"kubectl get pod -o wide -n default app-0"* ]]
	run -1 "$bootseer" start show --service http://127.0.0.1:9 --pod default/app-0
	[[ $output == *"kubectl get pod -o wide -n default app-0"* ]]
	run -2 "$bootseer" image explain --pod app-0
	[[ $output == *NAMESPACE/NAME* ]]
	run -2 "$bootseer" image explain --pod 'default/a"||labels.x!="'
	run -2 "$bootseer" image explain --pod default/app-0 "$REGISTRY/lazy:1"
	run -2 "$bootseer" image explain
	run -1 "$bootseer" image explain --pod default/app-0 --containerd "$T/none"
	[[ $output == *--containerd* ]]
}

@test "start show tells of the start of a pod's job" {
	DB=sqlite:$T/registry.db
	service
	cri pull "$REGISTRY/plain:1"
	CRI_JOB=train cri run "$REGISTRY/plain:1" app-0 /bin/sh -c :
	cri run "$REGISTRY/plain:1" app-1 /bin/sh -c :
	for job in default/train default/app-1; do
		BOOTSEER_NODE=n1 "$bootseer" stage begin env |
			"$bootseer" stage send --service "$U" --job "$job" -
	done
	"$bootseer" start show --service "$U" --pod default/app-0 >"$T/said"
	grep -q '^job default/train, ' "$T/said"
	# One that names no job is a job by itself.
	"$bootseer" start show --service "$U" --pod default/app-1 >"$T/said"
	grep -q '^job default/app-1, ' "$T/said"
}
