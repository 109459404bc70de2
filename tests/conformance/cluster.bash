# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# A node of Kubernetes: etcd, API server, containerd 2 and kubelet below $W, in network, mount
# and PID namespaces of their own, whose end is the end of all of them.  Pods have the node's
# network.  No scheduler and no controller: a pod names its node, node1.
#
#	cluster_start       W is a folder that is there; GATES: Kubernetes' features, as of its options
#	on_node COMMAND...  in the node's namespaces
#	start_registry      with a converted image
#	start_bootseerd OPTION...
#	cluster_stop

. "$(dirname "${BASH_SOURCE[0]}")/../wait.bash"

on_node() { nsenter -t "$node_init" -n -m -p -- "$@"; }

# In the background, with its output in $W/NAME.log.
serve_on_node() { # NAME COMMAND...
	on_node "${@:2}" >>"$W/$1.log" 2>&1 3>&- 4>&- &
}

kubectl() { on_node kubectl --kubeconfig "$W/kubeconfig" "$@"; }

start_namespaces() {
	unshare --net --mount --pid --fork --kill-child --mount-proc --propagation private \
		sh -c 'mount --make-rshared /; touch "$1"; exec sleep infinity' - "$W/ns" 3>&- &
	cluster_unshare=$!
	wait_for test -e "$W/ns"
	node_init=$(pgrep -P "$cluster_unshare")
	on_node sh -ec 'ip link set lo up; ip link add d0 type veth peer name d1
		ip addr add 10.88.0.1/24 dev d0; ip link set d0 up; ip link set d1 up
		ip route add default dev d0'
}

start_api() {
	local pki=$W/pki

	mkdir "$pki"
	openssl genrsa -out "$pki/sa.key" 2048 2>/dev/null
	openssl rsa -in "$pki/sa.key" -pubout -out "$pki/sa.pub" 2>/dev/null
	echo 'admintoken,admin,admin,system:masters' >"$pki/tokens.csv"
	serve_on_node etcd etcd --data-dir "$W/etcd" --unsafe-no-fsync \
		--listen-client-urls http://127.0.0.1:2379 \
		--advertise-client-urls http://127.0.0.1:2379 \
		--listen-peer-urls http://127.0.0.1:2380
	serve_on_node api kube-apiserver --etcd-servers=http://127.0.0.1:2379 \
		--bind-address=127.0.0.1 --secure-port=6443 --cert-dir="$pki" \
		--service-cluster-ip-range=10.99.0.0/24 \
		--service-account-key-file="$pki/sa.pub" \
		--service-account-signing-key-file="$pki/sa.key" \
		--service-account-issuer=https://kubernetes.default.svc \
		--authorization-mode="${CLUSTER_AUTHORIZATION:-AlwaysAllow}" --token-auth-file="$pki/tokens.csv" \
		--disable-admission-plugins=ServiceAccount --advertise-address=10.88.0.1 \
		--kubelet-preferred-address-types=InternalIP \
		--endpoint-reconciler-type=none --allow-privileged=true ${GATES:+"--feature-gates=$GATES"}
	cat >"$W/kubeconfig" <<-END
	{"apiVersion": "v1", "kind": "Config", "current-context": "c",
	 "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443",
		"insecure-skip-tls-verify": true}}],
	 "users": [{"name": "u", "user": {"token": "admintoken"}}],
	 "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}
	END
	wait_for kubectl get --raw /readyz >/dev/null 2>&1
}

start_runtime() {
	cat >"$W/containerd.toml" <<-END
	version = 3
	root = "$W/containerd"
	state = "$W/run/containerd"
	[grpc]
	  address = "$W/run/c.sock"
	[ttrpc]
	  address = "$W/run/c.ttrpc"
	[plugins."io.containerd.cri.v1.runtime"]
	  restrict_oom_score_adj = true # for a root without CAP_SYS_RESOURCE
	[plugins."io.containerd.cri.v1.images".pinned_images]
	  sandbox = "docker.io/local/pause:1"
	END
	serve_on_node containerd containerd --config "$W/containerd.toml"
	wait_for grep -q 'successfully booted' "$W/containerd.log"
}

# Of the image that a folder is; NAME as containerd has it.
import_image() { # FOLDER NAME COMMAND...
	local at=$W/image.$RANDOM

	umoci init --layout "$at"
	umoci new --image "$at:x"
	umoci insert --image "$at:x" "$1" /
	umoci config --image "$at:x" "${@:3}"
	skopeo copy -q "oci:$at:x" "docker-archive:$at.tar:$2"
	on_node ctr -a "$W/run/c.sock" -n k8s.io images import "$at.tar" >/dev/null 2>&1
	rm -r "$at" "$at.tar"
}

start_kubelet() {
	cat >"$W/kubelet.yaml" <<-END
	apiVersion: kubelet.config.k8s.io/v1beta1
	kind: KubeletConfiguration
	address: 10.88.0.1
	authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
	authorization: {mode: AlwaysAllow}
	cgroupDriver: cgroupfs
	cgroupsPerQOS: false
	enforceNodeAllocatable: []
	failSwapOn: false
	failCgroupV1: false
	containerRuntimeEndpoint: unix://$W/run/c.sock
	evictionHard: {imagefs.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", memory.available: "0%"}
	imageGCHighThresholdPercent: 100
	imageGCLowThresholdPercent: 99
	resolvConf: ""
	END
	serve_on_node kubelet kubelet --config "$W/kubelet.yaml" --root-dir "$W/kubelet" \
		--kubeconfig "$W/kubeconfig" --hostname-override node1 --node-ip 10.88.0.1 \
		${GATES:+"--feature-gates=$GATES"}
	wait_for kubectl get node node1 >/dev/null 2>&1
}

cluster_start() {
	local folder=$W/busybox

	PATH=$("$BATS_TEST_DIRNAME/build" kubernetes):$("$BATS_TEST_DIRNAME/build" containerd-2):$PATH
	mkdir -p "$W/run" "$folder/bin" "$folder/tmp"
	start_namespaces
	start_api
	start_runtime
	cp /bin/busybox "$folder/bin/"
	for name in sh cat sleep touch ls mount; do ln -s busybox "$folder/bin/$name"; done
	import_image "$folder" docker.io/local/pause:1 --config.cmd /bin/sleep --config.cmd 1000000
	import_image "$folder" docker.io/local/bb:1 --config.cmd /bin/sh
	start_kubelet
}

# The image is $REGISTRY/img:v1, of node.bash, and what the registry was asked is in $W/requests.
start_registry() {
	mkdir "$W/image"
	(. "$BATS_TEST_DIRNAME/../functional/node.bash" && make_image "$W/image") >&2
	serve_on_node registry "$BOOTSEER_BUILD/tests/fakes/fake-registry" --dir "$W/image/oci" \
		--port-file "$W/ports" --log "$W/requests"
	wait_for test -s "$W/ports"
	REGISTRY=127.0.0.1:$(cut -d' ' -f1 "$W/ports")
	export REGISTRY
}

start_bootseerd() {
	serve_on_node bootseerd "$BOOTSEER_BUILD/snapshotter/node/bootseerd" --root "$W/root" \
		--run "$W/run/bootseer" --plain-http "$REGISTRY" --cache-quota 1G "$@"
	wait_for grep -q 'main: ready' "$W/bootseerd.log"
}

cluster_stop() {
	kill -9 "${cluster_unshare:-$BASHPID}"
	wait_for not_there "$W/etcd"
	# Control groups of its containers outlive the namespaces, empty.
	find /sys/fs/cgroup -depth -type d -path '*/k8s.io/*' -exec rmdir {} + 2>/dev/null || :
}

# No process has an argument like this any more.
not_there() { ! pgrep -f -- "$1" >/dev/null; }
