#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bootseer-csi under a real kubelet, API server and containerd; with the plugin as a pod.

bats_require_minimum_version 1.5.0
load cluster.bash

bootseer=$BOOTSEER_BUILD/cli/bootseer

setup_file()
{
	W=$(mktemp -d /var/tmp/csi-kubelet.XXXXXX)
	export W
	mkdir "$W/programs"
	# Side by side, as packages have them.
	cp "$bootseer" "$BOOTSEER_BUILD/ckpt-fuse/mount/bootseer-ckpt" "$W/programs/"
	cluster_start >&2
	export PATH node_init cluster_unshare
	make_plugin_image
	start_registry
	start_bootseerd --trust "$REGISTRY=registry" --env-store "file://$W/store"
	mkdir "$W/store"
	create <<-END
	{"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "csi.bootseer"},
	 "spec": {"attachRequired": false, "podInfoOnMount": true, "requiresRepublish": true,
		"fsGroupPolicy": "File", "volumeLifecycleModes": ["Ephemeral", "Persistent"]}}
	END
	start_plugin plugin1
}

teardown_file()
{
	cluster_stop
	[ -z "${KEEP-}" ] && rm -rf --one-file-system "$W"
}

create() { kubectl create -f - >&2; }

# The plugin with the libraries that it needs, as its image has them; the configuration and
# the programs are the node's.
make_plugin_image()
{
	local at=$W/plugin lib

	mkdir -p "$at/usr/sbin" "$at/etc"
	cp "$BOOTSEER_BUILD/csi/bootseer-csi" "$at/usr/sbin/"
	ldd "$at/usr/sbin/bootseer-csi" | grep -o '/[^ ]*' | while read -r lib; do
		mkdir -p "$at$(dirname "$lib")"
		cp -L "$lib" "$at$lib"
	done
	import_image "$at" docker.io/local/csi:1 --config.cmd /usr/sbin/bootseer-csi
}

start_plugin() # NAME
{
	create <<-END
	{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "$1"}, "spec": {
	 "nodeName": "node1", "hostPID": true, "automountServiceAccountToken": false,
	 "hostNetwork": true, "terminationGracePeriodSeconds": 10,
	 "containers": [{"name": "c", "image": "docker.io/local/csi:1", "imagePullPolicy": "Never",
		"securityContext": {"privileged": true},
		"command": ["/usr/sbin/bootseer-csi", "--enter-host", "--node-name", "node1",
			"--kubelet-dir", "$W/kubelet", "--state", "$W/run/csi",
			"--node", "$W/run/bootseer/bootseerd.sock", "--programs", "$W/programs",
			"--allow", "namespace=default kind=image image=$REGISTRY/img",
			"--allow", "namespace=default kind=ckpt store=file://$W/store access=write gid=0-9"]}]}}
	END
	wait_for registered
}

registered() { [[ $(kubectl get csinode node1 -o jsonpath='{.spec.drivers[*].name}') == csi.bootseer ]]; }

# A pod that sleeps, with a volume at /v.
pod() # NAME VOLUME-JSON [MORE-OF-THE-SPEC]
{
	create <<-END
	{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "$1"}, "spec": {
	 "nodeName": "node1", "hostNetwork": true, "automountServiceAccountToken": false,
	 "terminationGracePeriodSeconds": 1, ${3-}
	 "containers": [{"name": "c", "image": "docker.io/local/bb:1", "imagePullPolicy": "Never",
		"command": ["/bin/sleep", "100000"], "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
	 "volumes": [{"name": "v", $2}]}}
	END
}

inline() # ATTRIBUTES [MORE]
{
	echo "\"csi\": {\"driver\": \"csi.bootseer\", ${2-} \"volumeAttributes\": {$1}}"
}

running() { [ "$(kubectl get pod "$1" -o jsonpath='{.status.phase}')" = Running ]; }
gone() { ! kubectl get pod "$1" >/dev/null 2>&1; }
in_pod() { kubectl exec "$1" -- "${@:2}"; }
events() { kubectl get events --field-selector "involvedObject.name=$1" -o jsonpath='{.items[*].message}'; }
says() { [[ $(events "$1") == *"$2"* ]]; }
volumes_left() { on_node grep -c 'kubernetes.io~csi' /proc/self/mountinfo; }
none_left() { [ "$(volumes_left)" = 0 ]; }

@test "kubelet: an image is a pod's volume, inline and as a PersistentVolume" {
	local attributes="\"kind\": \"image\", \"image\": \"$REGISTRY/img:v1\""

	pod image "$(inline "$attributes")"
	wait_for running image
	[ "$(in_pod image cat /v/many/7)" = 7 ]
	run -1 in_pod image touch /v/new
	create <<-END
	{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {
	 "capacity": {"storage": "1Gi"}, "accessModes": ["ReadOnlyMany"], "storageClassName": "",
	 "persistentVolumeReclaimPolicy": "Retain", "mountOptions": ["noexec"],
	 "claimRef": {"namespace": "default", "name": "pvc"},
	 "csi": {"driver": "csi.bootseer", "volumeHandle": "h", "volumeAttributes": {$attributes}}}}
	END
	create <<-END
	{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "pvc"}, "spec": {
	 "accessModes": ["ReadOnlyMany"], "storageClassName": "", "volumeName": "pv",
	 "resources": {"requests": {"storage": "1Gi"}}}}
	END
	# What the controller of volumes does, which does not run here.
	kubectl patch pv pv --subresource=status --type=merge -p '{"status": {"phase": "Bound"}}' >&2
	kubectl annotate pvc pvc pv.kubernetes.io/bind-completed=yes >&2
	kubectl patch pvc pvc --subresource=status --type=merge \
		-p '{"status": {"phase": "Bound", "accessModes": ["ReadOnlyMany"], "capacity": {"storage": "1Gi"}}}' >&2

	kubectl patch pv pv --type=merge -p "{\"spec\": {\"claimRef\": {\"uid\": \"$(kubectl get pvc pvc \
		-o jsonpath='{.metadata.uid}')\"}}}" >&2
	pod claimed '"persistentVolumeClaim": {"claimName": "pvc"}'
	wait_for running claimed
	[ "$(in_pod claimed cat /v/many/8)" = 8 ]
	run ! in_pod claimed /v/bin/busybox true
	kubectl delete pod image claimed >&2
	wait_for none_left
}

@test "kubelet: a pod that may not have its volume shows why, and what mends it" {
	pod wrong "$(inline '"kind": "image", "image": "evil.example/x:1"')"
	wait_for says wrong 'no rule of this node gives pods of namespace default the image'
	says wrong 'namespace=default kind=image image=evil.example/x:1'
	kubectl delete pod wrong --force >&2
	pod typo "$(inline '"kind": "ckpt", "sotre": "s3://b"')"
	wait_for says typo "there is no 'sotre'"
	kubectl delete pod typo --force >&2
	wait_for gone typo
}

@test "kubelet: the API server knows each field of the job that docs/kubernetes.md shows" {
	run -0 kubectl create --dry-run=server --validate=strict \
		-f "$BATS_TEST_DIRNAME/../../deploy/kubernetes-job.yaml"
	[[ $output == *job.batch/train* ]]
}

@test "kubelet: a checkpoint volume outlives the plugin's pod, the kubelet and a kill of each" {
	local attributes="\"kind\": \"ckpt\", \"store\": \"file://$W/store\", \"memory\": \"64Mi\""

	pod ckpt "$(inline "$attributes")" '"securityContext": {"fsGroup": 9},'
	wait_for running ckpt
	in_pod ckpt sh -c 'echo one >/v/file'
	[ "$(in_pod ckpt busybox stat -c %g /v)" = 9 ]
	# The pod of the plugin is replaced, and killed.
	kubectl delete pod plugin1 >&2
	wait_for gone plugin1
	[ "$(in_pod ckpt cat /v/file)" = one ]
	start_plugin plugin2
	in_pod ckpt sh -c 'echo two >/v/file'
	on_node pkill -9 bootseer-ckpt -f || :
	kubectl delete pod plugin2 --force --grace-period=0 >&2
	start_plugin plugin3
	on_node pkill -9 -x kubelet
	start_kubelet
	wait_for running ckpt
	kubectl delete pod ckpt >&2
	wait_for none_left
	[ -z "$(ls "$W/run/csi")" ]
}
