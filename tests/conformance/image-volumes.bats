#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Kubernetes' own image volumes, which its feature ImageVolume has: containerd mounts them by the
# snapshotter of the pod's runtime class.

bats_require_minimum_version 1.5.0
load cluster.bash

bootseer=$BOOTSEER_BUILD/cli/bootseer

setup_file()
{
	W=$(mktemp -d /var/tmp/image-volumes.XXXXXX)
	export W
	GATES=ImageVolume=true cluster_start >&2
	export PATH node_init cluster_unshare
	start_registry
	"$bootseer" key new "$W/key" >&2
	on_node "$bootseer" image sign --plain-http --key "$W/key" "$REGISTRY/img:v1" >&2
	: >"$W/requests"
	# One snapshotter for all images has only those lazily that are trusted by key anywhere.
	start_bootseerd --trust-keys "$W/key.pub" --trust '*=sign' --trust docker.io=off \
		--prefetch off --record off
	join_node
}

teardown_file()
{
	cluster_stop
	[ -n "${KEEP-}" ] || rm -rf --one-file-system "$W"
}

join_node()
{
	serve_on_node snapshotter "$BOOTSEER_BUILD/containerd-plugin/bootseer-snapshotter" \
		--root "$W/snapshots" --address "$W/run/snapshotter.sock" \
		--node "$W/run/bootseer/bootseerd.sock" --containerd "$W/run/c.sock" \
		--containerd-state "$W/run/containerd"
	wait_for test -S "$W/run/snapshotter.sock"
	cat >"$W/restart" <<-END
	#!/bin/sh
	pkill -x containerd
	while pgrep -x containerd; do :; done
	setsid containerd --config "$W/containerd.toml" >>"$W/containerd.log" 2>&1 </dev/null &
	END
	chmod +x "$W/restart"
	on_node "$bootseer" node join --pods runtime --containerd "$W/containerd.toml" \
		--socket "$W/run/c.sock" --address "$W/run/snapshotter.sock" --root "$W/snapshots" \
		--restart "$W/restart" >&2 3>&- 4>&-
	kubectl create -f - >&2 <<-END
	{"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "bootseer"},
	 "handler": "bootseer"}
	END
}

# The image of its container is another one.
begin_pod()
{
	kubectl create -f - >&2 <<-END
	{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod",
	 "annotations": {"io.containerd.cri.runtime-handler": "bootseer"}}, "spec": {
	 "runtimeClassName": "bootseer", "nodeName": "node1", "hostNetwork": true,
	 "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 1,
	 "containers": [{"name": "c", "image": "docker.io/local/bb:1", "imagePullPolicy": "Never",
		"command": ["/bin/sleep", "100000"], "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
	 "volumes": [{"name": "v", "image": {"reference": "$REGISTRY/img:v1",
		"pullPolicy": "IfNotPresent"}}]}}
	END
}

running() { [ "$(kubectl get pod pod -o jsonpath='{.status.phase}')" = Running ]; }
in_pod() { kubectl exec pod -- /bin/busybox "$@"; }
mounts() { on_node grep /image-volumes/ /proc/self/mountinfo; }
snapshots() { on_node ctr -a "$W/run/c.sock" -n k8s.io snapshots --snapshotter bootseer ls 2>/dev/null; }
nothing_is_left() { snapshots >"$W/snapshots.now" && ! grep -q /image-volumes/ "$W/snapshots.now" && ! mounts; }
layers() { skopeo inspect --raw "oci:$W/image/src:v1" | jq -r ".layers[].$1"; } # digest|size

# Bytes of layers and of what they were converted into.
bytes_read() { awk '$1 == "GET" && $2 ~ "/blobs/" { n += $4 } END { print n }' "$W/requests"; }

@test "image volume: a converted image is mounted lazily for a pod of the class, and goes with it" {
	local whole read digest

	begin_pod
	wait_for running
	[ "$(in_pod cat /v/many/7)" = 7 ]
	read -r digest _ < <(sha256sum "$W/image/top/data")
	[ "$(in_pod sha256sum /v/top/data)" = "$digest  /v/top/data" ]
	run -1 in_pod touch /v/new
	# An overlay on what bootseerd has mounted.
	[[ $(mounts) == *"lowerdir=$W/run/bootseer/images/"*/fs,upperdir=* ]]
	on_node "$bootseer" node status --socket "$W/run/bootseer/bootseerd.sock" |
		grep -q "mounted *lazy at $W/run/bootseer/images/"
	for digest in $(layers digest); do
		run ! grep "/blobs/$digest" "$W/requests"
	done
	whole=$(layers size | paste -sd+ | bc)
	read=$(bytes_read)
	echo "# read: $read bytes; the image's layers: $whole" >&3
	((read < whole / 4))
	run -0 grep /image-volumes/ <(snapshots)
	kubectl delete pod pod >&2
	wait_for nothing_is_left
}
