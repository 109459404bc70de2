#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A node of Kubernetes whose kubelet pulls by bootseer-snapshotter's image service ("service"), or
# whose pull secrets are read from the API server ("api"), in
# namespaces of its own: etcd, API server, kubelet, containerd with its transfer service, and
# two pods of one private image.  Of kubelet-images.bats, which has set what lib.bash wants.
set -euo pipefail
way=$1

. "$(dirname "$0")/../containerd/lib.bash"
. "$(dirname "$0")/../containerd/private.bash"
exec 3>/dev/null 4>/dev/null

mount --make-rshared /
ip link set lo up
ip link add d0 type veth peer name d1
ip addr add 10.88.0.1/24 dev d0
ip link set d0 up
ip link set d1 up
ip route add default dev d0

kubectl() { command kubectl --kubeconfig "$T/k/kubeconfig" "$@"; }

start_api() {
	local pki=$T/k/pki

	mkdir -p "$pki"
	openssl genrsa -out "$pki/sa.key" 2048 2>/dev/null
	openssl rsa -in "$pki/sa.key" -pubout -out "$pki/sa.pub" 2>/dev/null
	echo 'admintoken,admin,admin,system:masters' >"$pki/tokens.csv"
	start_daemon "$T/etcd.log" etcd --data-dir "$T/k/etcd" --unsafe-no-fsync \
		--listen-client-urls http://127.0.0.1:2379 \
		--advertise-client-urls http://127.0.0.1:2379 \
		--listen-peer-urls http://127.0.0.1:2380
	start_daemon "$T/api.log" kube-apiserver --etcd-servers=http://127.0.0.1:2379 \
		--bind-address=127.0.0.1 --secure-port=6443 --cert-dir="$pki" \
		--service-cluster-ip-range=10.99.0.0/24 \
		--service-account-key-file="$pki/sa.pub" \
		--service-account-signing-key-file="$pki/sa.key" \
		--service-account-issuer=https://kubernetes.default.svc \
		--authorization-mode=AlwaysAllow --token-auth-file="$pki/tokens.csv" \
		--disable-admission-plugins=ServiceAccount --advertise-address=10.88.0.1 \
		--kubelet-preferred-address-types=InternalIP \
		--endpoint-reconciler-type=none
	cat >"$T/k/kubeconfig" <<-END
	{"apiVersion": "v1", "kind": "Config", "current-context": "c",
	 "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443",
		"insecure-skip-tls-verify": true}}],
	 "users": [{"name": "u", "user": {"token": "admintoken"}}],
	 "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}
	END
	wait_until "$daemon_pid" kubectl get --raw /readyz
}

start_kubelet() {
	local service=
	[ "$way" != service ] || service="imageServiceEndpoint: unix://$T/images.sock"
	cat >"$T/k/kubelet.yaml" <<-END
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
	containerRuntimeEndpoint: unix://$T/ctd/containerd.sock
	$service
	evictionHard: {imagefs.available: "0%", nodefs.available: "0%",
	  nodefs.inodesFree: "0%", memory.available: "0%"}
	imageGCHighThresholdPercent: 100
	imageGCLowThresholdPercent: 99
	resolvConf: ""
	END
	start_daemon "$T/kubelet.log" kubelet --config "$T/k/kubelet.yaml" \
		--root-dir "$T/k/kubelet" --kubeconfig "$T/k/kubeconfig" \
		--hostname-override node1 --node-ip 10.88.0.1
	wait_until "$daemon_pid" kubectl get node node1
}

# As the chart's pod has it, but for its account.
start_logins() {
	mkdir -p "$T/n/run" "$T/bin"
	ln -s "$T/noderun" "$T/n/run/bootseer"
	cp "$(dirname "$0")"/../../deploy/image/{pod-logins,kube-api} "$T/bin"
	sed -i "s|^account=.*|account=$T/account|" "$T/bin/kube-api"
	sed -i '1s|.*|#!/usr/bin/env -S busybox sh|' "$T/bin/pod-logins"
	mkdir "$T/account"
	cp "$T/k/pki/apiserver.crt" "$T/account/ca.crt"
	echo admintoken >"$T/account/token"
	start_daemon "$T/logins.log" env NODE_ROOT="$T/n" NODE_NAME=node1 KUBERNETES_SERVICE_HOST=127.0.0.1 \
		KUBERNETES_SERVICE_PORT=6443 PULL_SECRETS="team/s evil/s" "$T/bin/pod-logins"
	wait_until "$daemon_pid" grep -q 'pull secrets: images=0' "$T/node.log"
}

# A pod of the private image in a namespace, whose pull secret has this password.
start_pod() { # NAMESPACE PASSWORD
	kubectl create namespace "$1"
	kubectl -n "$1" create secret docker-registry s --docker-server="$REGISTRY" \
		--docker-username=tenant --docker-password="$2"
	kubectl create -f - <<-END
	{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "namespace": "$1"},
	 "spec": {"nodeName": "node1", "hostNetwork": true,
	  "automountServiceAccountToken": false, "imagePullSecrets": [{"name": "s"}],
	  "terminationGracePeriodSeconds": 0,
	  "containers": [{"name": "c", "image": "$REGISTRY/lazy:1",
	   "imagePullPolicy": "Always",
	   "command": ["/bin/sh", "-c", "cat /srv/one/deep/file; busybox tail -f /dev/null"]}]}}
	END
}

says() { # NAMESPACE JSONPATH WANTED
	[[ $(kubectl -n "$1" get pod pod -o "jsonpath=$2") = "$3" ]]
}

private_setup
start_all
skopeo copy -q "oci:$I/oci:pause" "docker-archive:$T/pause.tar:$REGISTRY/pause:1"
ctr -n k8s.io images import "$T/pause.tar"
start_api
start_kubelet
kubelet_pid=$daemon_pid
[ "$way" = service ] || start_logins

start_pod team "$CANARY"
wait_until "$kubelet_pid" says team '{.status.phase}' Running
[ "$(kubectl -n team logs pod)" = one ]
[ "$(gets)" -eq 0 ]
: >"$T/registry.log"
start_pod evil wrong
wait_until "$kubelet_pid" says evil \
	'{.status.containerStatuses[0].state.waiting.reason}' ErrImagePull ||
	says evil '{.status.containerStatuses[0].state.waiting.reason}' ImagePullBackOff
grep -q ' 401 ' "$T/registry.log"
# bootseerd may still read ahead for the other one's container.
[[ ! $(grep 'GET /v2/lazy/blobs.*containerd' "$T/registry.log") ]]
no_canary
[ "$way" = service ] || { ! grep -F "$CANARY" "$T/logins.log" && cat "$T/logins.log"; }
echo "a pod of a private image ran lazily, and another namespace had none of it"
