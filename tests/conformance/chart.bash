# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# A node for the chart: etcd, API server, controllers, scheduler, kubelet and containerd,
# in namespaces of their own (processes, mounts, network), with folders of their own where a
# node's programs and data are. Everything ends with process 1 of these.
#
#	cluster_start DIR; cluster_stop
#	second_node_start     one more kubelet and containerd, in namespaces of their own
#	on_second COMMAND...  with the second as the node that is meant

. "$BATS_TEST_DIRNAME/../wait.bash"

cluster_start() { # DIR
	C=$1
	K=$("$BATS_TEST_DIRNAME/build" kubernetes)
	CTD=$("$BATS_TEST_DIRNAME/build" containerd-2)
	HELM=$("$BATS_TEST_DIRNAME/build" helm)
	export C K CTD
	export PATH=$HELM:$CTD:$K:$PATH
	start_namespaces
	in_node ip addr add 10.99.0.1/32 dev lo
	in_node ip link add d0 type veth peer name d1
	connect_node d0 1
	in_node ip link set d1 up
	start_control_plane
	start_containerd_of_node 1
	start_kubelet 1
}

# connect_node DEVICE N: as 10.88.0.N.
connect_node() {
	in_node ip addr add "10.88.0.$2/24" dev "$1"
	in_node ip link set "$1" up
	in_node ip route add default dev "$1"
}

second_node_start() {
	mkdir -p "$C/second"
	cp "$C/kubeconfig" "$C/second"
	on_second start_namespaces
	nsenter -t "$NODE" -n ip link set d1 netns "$(cut -d' ' -f1 "$C/second/pids")"
	on_second connect_node d1 2
	in_node ip route add 10.89.2.0/24 via 10.88.0.2
	on_second in_node ip route add 10.89.1.0/24 via 10.88.0.1
	on_second in_node ip route add 10.99.0.0/24 via 10.88.0.1
	on_second start_containerd_of_node 2
	on_second start_kubelet 2
}

on_second() {
	local C=$C/second NODE NS

	[ ! -e "$C/pids" ] || read -r NODE NS <"$C/pids"
	"$@"
}

in_node() { nsenter -t "$NODE" -m -n -p -- "$@"; }

# In the background, with its log.
in_node_start() { # LOG COMMAND...
	local log=$1

	shift
	setsid nsenter -t "$NODE" -m -n -p -- "$@" >>"$C/log/$log" 2>&1 3>&- 4>&- </dev/null &
}

# Process 1 takes in what loses its parent, and runs containerd.
start_namespaces() {
	mkdir -p "$C"/{ctd,cni,etc,work,lib,log,varlog,opt,pki,etcd}
	setsid unshare -n -m -p --fork --kill-child --propagation private bash -c '
		mount -t proc proc /proc
		mount --make-rshared /
		mount --bind "$0/lib" /var/lib
		mount --bind "$0/opt" /opt
		mount --bind "$0/varlog" /var/log
		mount -t overlay overlay -o "lowerdir=/etc,upperdir=$0/etc,workdir=$0/work" /etc
		mount -t tmpfs run /run
		ip link set lo up
		exec 5<> <(:)
		touch "$0/namespaces"
		while :; do
			read -r -t 0.5 -u 5 || :
			rm /run/start-containerd 2>/dev/null || continue
			containerd >>"$0/log/containerd" 2>&1 5>&- &
		done' "$C" >"$C/log/init" 2>&1 3>&- 4>&- &
	NS=$!
	export NS
	wait_for test -e "$C/namespaces"
	NODE=$(pgrep -P "$NS")
	export NODE
	echo "$NODE $NS" >"$C/pids"
}

start_control_plane() {
	local server=https://10.99.0.1:443 address=--advertise-address=10.88.0.1

	openssl genrsa -out "$C/pki/sa.key" 2048 2>/dev/null
	openssl rsa -in "$C/pki/sa.key" -pubout -out "$C/pki/sa.pub" 2>/dev/null
	echo 'admintoken,admin,admin,system:masters' >"$C/pki/tokens.csv"
	cat >"$C/kubeconfig" <<-END
	apiVersion: v1
	kind: Config
	clusters: [{name: c, cluster: {server: "$server", insecure-skip-tls-verify: true}}]
	users: [{name: u, user: {token: admintoken}}]
	contexts: [{name: x, context: {cluster: c, user: u}}]
	current-context: x
	END
	export KUBECONFIG=$C/kubeconfig
	in_node_start etcd etcd --data-dir "$C/etcd" --unsafe-no-fsync \
		--listen-client-urls http://127.0.0.1:2379 \
		--advertise-client-urls http://127.0.0.1:2379 \
		--listen-peer-urls http://127.0.0.1:2380
	in_node_start apiserver kube-apiserver --etcd-servers=http://127.0.0.1:2379 \
		--bind-address=0.0.0.0 --secure-port=443 --cert-dir="$C/pki" \
		--service-cluster-ip-range=10.99.0.0/24 "$address" \
		--service-account-key-file="$C/pki/sa.pub" \
		--service-account-signing-key-file="$C/pki/sa.key" \
		--service-account-issuer=https://kubernetes.default.svc \
		--authorization-mode=RBAC --token-auth-file="$C/pki/tokens.csv" \
		--kubelet-preferred-address-types=InternalIP --endpoint-reconciler-type=none --allow-privileged=true
	wait_for kubectl_ get --raw /readyz
	in_node_start controllers kube-controller-manager --kubeconfig "$KUBECONFIG" \
		--service-account-private-key-file="$C/pki/sa.key" \
		--root-ca-file="$C/pki/apiserver.crt" --leader-elect=false \
		--authentication-skip-lookup --secure-port=10257
	in_node_start scheduler kube-scheduler --kubeconfig "$KUBECONFIG" \
		--leader-elect=false --authentication-skip-lookup
}

kubectl_() { in_node env KUBECONFIG="$C/kubeconfig" kubectl "$@" 2>>"$C/log/kubectl"; }

helm_() {
	in_node env HOME="$C/lib" KUBECONFIG="$C/kubeconfig" helm "$@"
}

start_containerd_of_node() { # N
	in_node mkdir -p /etc/containerd /etc/cni/net.d
	in_node tee /etc/containerd/config.toml >/dev/null <<-END
	version = 3
	root = "$C/ctd/root"
	state = "/run/containerd"
	[plugins."io.containerd.cri.v1.runtime"]
	  restrict_oom_score_adj = true # for a root without CAP_SYS_RESOURCE
	[plugins."io.containerd.cri.v1.runtime".cni]
	  bin_dirs = ["/usr/lib/cni"]
	[plugins."io.containerd.cri.v1.images".pinned_images]
	  sandbox = "127.0.0.1:5000/pause:1"
	[plugins."io.containerd.cri.v1.images".registry]
	  config_path = "/etc/containerd/certs.d"
	END
	in_node tee /etc/cni/net.d/10-b.conflist >/dev/null <<-END
	{"cniVersion":"1.0.0","name":"b","plugins":[{"type":"bridge","bridge":"cni0",
	 "isGateway":true,"ipMasq":false,"ipam":{"type":"host-local",
	 "ranges":[[{"subnet":"10.89.$1.0/24"}]],"routes":[{"dst":"0.0.0.0/0"}],"dataDir":"/run/cni"}}]}
	END
	# What a service manager does for the node: process 1 starts it, in no pod's groups.
	cat >"$C/opt/restart-containerd" <<-END
	#!/bin/sh
	pkill -x containerd
	while pgrep -x containerd >/dev/null; do :; done
	touch /run/start-containerd
	END
	chmod +x "$C/opt/restart-containerd"
	in_node /opt/restart-containerd 3>&- 4>&-
	# The node's ctr and containerd are those of the version under test.
	in_node mkdir -p /usr/local/bin
	in_node mount -t tmpfs bin /usr/local/bin
	in_node cp "$CTD"/{ctr,containerd} /usr/local/bin
	wait_for in_node ctr version
}

start_kubelet() { # N
	cat >"$C/kubelet.yaml" <<-END
	apiVersion: kubelet.config.k8s.io/v1beta1
	kind: KubeletConfiguration
	address: 10.88.0.$1
	authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
	authorization: {mode: AlwaysAllow}
	cgroupDriver: cgroupfs
	cgroupsPerQOS: false
	enforceNodeAllocatable: []
	failSwapOn: false
	failCgroupV1: false
	maxPods: 250
	containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
	evictionHard: {imagefs.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", memory.available: "0%"}
	imageGCHighThresholdPercent: 100
	imageGCLowThresholdPercent: 99
	resolvConf: ""
	END
	in_node_start kubelet kubelet --config "$C/kubelet.yaml" --kubeconfig "$C/kubeconfig" \
		--hostname-override "node$1" --node-ip "10.88.0.$1"
	wait_for kubectl_ wait --for=condition=Ready "node/node$1" --timeout=5s
}

cluster_stop() {
	[ ! -e "$C/second/pids" ] || on_second node_stop
	[[ ! ${NODE:-} ]] || node_stop
	find /sys/fs/cgroup -maxdepth 2 -name bootseer-node -exec rmdir {} + 2>/dev/null || :
}

node_stop() {
	in_node pkill -x kubelet || :
	for id in $(in_node ctr -n k8s.io task ls -q 2>/dev/null); do
		in_node ctr -n k8s.io task rm -f "$id" >/dev/null 2>&1 || :
	done
	kill "$NS" || :
	kill -9 "$NODE" 2>/dev/null || :
	timeout 30 tail --pid="$NODE" -f /dev/null || :
}

# Of the same images on each node, whose log has what that node fetched.
serve_registry() {
	in_node_start registry docker-registry serve "$W/registry.yml"
	wait_for in_node curl -sf http://127.0.0.1:5000/v2/
}

# The chart from $TOP, whose image the registry on 127.0.0.1:5000 has.
install() { # [OPTION...]
	install_chart --set-string node.config='trust-keys = "/etc/bootseer/trust.pem"; plain-http = [ "127.0.0.1:5000" ];' "$@"
}

# With node.config in the file, too: commas are none of an option's.
install_with() { install_chart -f "$1"; } # FILE

install_chart() { # OPTION...
	helm_ install bootseer "$TOP/deploy/helm/bootseer" --wait --timeout 4m \
		--set image.repository=127.0.0.1:5000/bootseer --set-string image.tag=1 \
		--set node.secretName=trust \
		--set node.containerd.restart=/opt/restart-containerd "$@"
	kubectl_ rollout status daemonset/bootseer-node --timeout=100s
}
