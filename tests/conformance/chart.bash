# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# A node for the chart: etcd, API server, controllers, scheduler, kubelet and containerd,
# in namespaces and control groups of their own (node-init), where everything ends with
# process 1: with NODE_INIT=systemd kubelet and containerd are units of it.
#
#	cluster_start DIR; cluster_stop
#	node_reboot           the power fails: what is on the disk alone is there afterwards
#	second_node_start     one more kubelet and containerd, in namespaces of their own
#	on_second COMMAND...  with the second as the node that is meant
#	fill_registry         what pods start, in a registry of the node's own
#
# With CONTAINERD=containerd-1.7 the nodes have that.

. "$BATS_TEST_DIRNAME/../wait.bash"

# A test before may have started the node anew.
if [ -e "${C:-}/pids" ]; then
	read -r NODE NS <"$C/pids"
	export NODE NS
fi

cluster_start() { # DIR
	C=$1
	K=$("$BATS_TEST_DIRNAME/build" kubernetes)
	CTD=$("$BATS_TEST_DIRNAME/build" "${CONTAINERD:-containerd-2}")
	HELM=$("$BATS_TEST_DIRNAME/build" helm)
	export C K CTD
	export PATH=$HELM:$CTD:$K:$PATH
	start_namespaces
	connect_first_node
	make_keys
	start_control_plane
	start_containerd_of_node 1
	start_kubelet 1
	[ "${NODE_INIT:-}" != systemd ] || keep_logs_of_units
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

in_node() { nsenter -t "$NODE" -m -n -p -u -C -- "$@"; }

# In the background, with its log, in groups of the node.
in_node_start() { # LOG COMMAND...
	setsid bash -c 'for at in $(awk '\''$3 ~ /^cgroup2?$/ { print $2 }'\'' /proc/mounts); do
			echo $$ >"$at/node${0//\//-}/cgroup.procs"
		done
		exec nsenter -t "$1" -m -n -p -u -C -- "${@:2}"' "$C" "$NODE" "${@:2}" \
		>>"$C/log/$1" 2>&1 3>&- 4>&- </dev/null &
	disown
}

start_namespaces() {
	mkdir -p "$C"/{bin,ctd,cni,etc,work,lib,log,varlog,opt,pki,etcd}
	rm -f "$C/namespaces"
	setsid "$BATS_TEST_DIRNAME/node-init" "$C" ${NODE_INIT:+"$NODE_INIT"} >"$C/log/init" 2>&1 3>&- 4>&- &
	NS=$!
	export NS
	wait_for test -e "$C/namespaces"
	NODE=$(pgrep -P "$NS")
	export NODE
	echo "$NODE $NS" >"$C/pids"
	[ "${NODE_INIT:-}" != systemd ] || wait_for in_node test -S /run/systemd/private
}

connect_first_node() {
	in_node ip addr add 10.99.0.1/32 dev lo
	in_node ip link add d0 type veth peer name d1
	connect_node d0 1
	in_node ip link set d1 up
}

# Units come back by themselves.
node_reboot() {
	node_kill
	start_namespaces
	connect_first_node
	start_control_plane
	serve_registry
	[ "${NODE_INIT:-}" = systemd ] || {
		in_node touch /run/start-containerd
		start_kubelet 1
	}
}

make_keys() {
	local server=https://10.99.0.1:443

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
}

start_control_plane() {
	in_node_start etcd etcd --data-dir "$C/etcd" --unsafe-no-fsync \
		--listen-client-urls http://127.0.0.1:2379 \
		--advertise-client-urls http://127.0.0.1:2379 \
		--listen-peer-urls http://127.0.0.1:2380
	in_node_start apiserver kube-apiserver --etcd-servers=http://127.0.0.1:2379 \
		--bind-address=0.0.0.0 --secure-port=443 --cert-dir="$C/pki" \
		--service-cluster-ip-range=10.99.0.0/24 --advertise-address=10.88.0.1 \
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

containerd_settings() {
	if [ "${CONTAINERD:-}" = containerd-1.7 ]; then
		cat <<-END
		version = 2
		[plugins."io.containerd.grpc.v1.cri"]
		  restrict_oom_score_adj = true # for a root without CAP_SYS_RESOURCE
		  sandbox_image = "127.0.0.1:5000/pause:1"
		[plugins."io.containerd.grpc.v1.cri".cni]
		  bin_dir = "/usr/lib/cni"
		[plugins."io.containerd.grpc.v1.cri".registry]
		  config_path = "/etc/containerd/certs.d"
		END
	else
		cat <<-END
		version = 3
		[plugins."io.containerd.cri.v1.runtime"]
		  restrict_oom_score_adj = true
		[plugins."io.containerd.cri.v1.runtime".cni]
		  bin_dirs = ["/usr/lib/cni"]
		[plugins."io.containerd.cri.v1.images".pinned_images]
		  sandbox = "127.0.0.1:5000/pause:1"
		[plugins."io.containerd.cri.v1.images".registry]
		  config_path = "/etc/containerd/certs.d"
		END
	fi
}

start_containerd_of_node() { # N
	in_node mkdir -p /etc/containerd /etc/cni/net.d
	{
		printf 'root = "%s"\nstate = "/run/containerd"\n' "$C/ctd/root"
		containerd_settings
	} | in_node tee /etc/containerd/config.toml >/dev/null
	in_node tee /etc/cni/net.d/10-b.conflist >/dev/null <<-END
	{"cniVersion":"1.0.0","name":"b","plugins":[{"type":"bridge","bridge":"cni0",
	 "isGateway":true,"ipMasq":false,"ipam":{"type":"host-local",
	 "ranges":[[{"subnet":"10.89.$1.0/24"}]],"routes":[{"dst":"0.0.0.0/0"}],"dataDir":"/run/cni"}}]}
	END
	cp "$CTD"/{ctr,containerd,containerd-shim-runc-v2} "$C/bin"
	if [ "${NODE_INIT:-}" = systemd ]; then
		make_unit containerd /usr/local/bin/containerd
	else
		# What a service manager does for the node: process 1 starts it, in no pod's groups.
		cat >"$C/opt/restart-containerd" <<-END
		#!/bin/sh
		pkill -x containerd
		while pgrep -x containerd >/dev/null; do :; done
		touch /run/start-containerd
		END
		chmod +x "$C/opt/restart-containerd"
		in_node /opt/restart-containerd 3>&- 4>&-
	fi
	wait_for in_node ctr version
}

# As their packages have them: what they started outlives them.
make_unit() { # NAME COMMAND...
	in_node tee "/etc/systemd/system/$1.service" >/dev/null <<-END
	[Service]
	ExecStart=${*:2}
	Delegate=yes
	KillMode=process
	Restart=always
	RestartSec=1
	StandardOutput=append:$C/log/$1
	StandardError=append:$C/log/$1
	[Install]
	WantedBy=multi-user.target
	END
	in_node systemctl enable --now "$1"
}

start_kubelet() { # N
	local command=("$K/kubelet" --config "$C/kubelet.yaml" --kubeconfig "$C/kubeconfig"
		--hostname-override "node$1" --node-ip "10.88.0.$1")

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
	if [ "${NODE_INIT:-}" = systemd ]; then make_unit kubelet "${command[@]}"
	else in_node_start kubelet "${command[@]}"; fi
	wait_for kubectl_ wait --for=condition=Ready "node/node$1" --timeout=5s
}

# What our units say is in the file that they write without systemd.
keep_logs_of_units() {
	local unit

	for unit in bootseerd bootseer-snapshotter; do
		in_node mkdir -p "/etc/systemd/system/$unit.service.d"
		printf '[Service]\nStandardError=append:/var/log/bootseer.log\n' |
			in_node tee "/etc/systemd/system/$unit.service.d/log.conf" >/dev/null
	done
}

cluster_stop() {
	[ ! -e "$C/second/pids" ] || on_second node_kill
	[ -e "$C/pids" ] || return 0
	read -r NODE NS <"$C/pids"
	node_kill
}

node_kill() {
	kill -9 "$NODE"
	timeout 30 tail --pid="$NODE" -f /dev/null || :
	wait_for groups_are_gone
}

groups_are_gone() {
	local name=node${C//\//-}

	find /sys/fs/cgroup -depth -type d -path "*/$name*" -exec rmdir {} + 2>/dev/null || :
	[ -z "$(find /sys/fs/cgroup -maxdepth 2 -name "$name")" ]
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
	local restart=(--set node.containerd.restart=/opt/restart-containerd)

	[ "${NODE_INIT:-}" != systemd ] || restart=()
	helm_ install bootseer "$TOP/deploy/helm/bootseer" --wait --timeout 4m \
		--set image.repository=127.0.0.1:5000/bootseer --set-string image.tag=1 \
		--set node.secretName=trust "${restart[@]}" "$@"
	kubectl_ rollout status daemonset/bootseer-node --timeout=100s
}

# For setup_file, teardown_file and teardown: a node with an empty $W/before, images of two versions of
# ours and of the apps pause and app.
chart_setup_file() {
	TOP=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	W=$(mktemp -d)
	export TOP W
	[ -d "${BOOTSEER_IMAGE:-}" ] || {
		BOOTSEER_IMAGE=$W/image
		"$TOP/dev" package image "$W/image"
	}
	export BOOTSEER_IMAGE
	make_next_image
	cluster_start "$W/cluster"
	fill_registry
}

chart_teardown_file() {
	cluster_stop
	rm -rf --one-file-system "$W"
}

chart_teardown() {
	[[ ${BATS_TEST_COMPLETED:-} == 1 ]] || {
		kubectl_ get pods -A -o wide
		kubectl_ describe pods -A | tail -n 60
		tail -n 20 "$C"/varlog/pods/*/*/*.log
		tail -n 20 "$C"/log/{kubelet,controllers}
		tail -n 20 "$C"/varlog/bootseer.log || :
	}
}

# The same programs as another version: it has its own folder on a node.
make_next_image() {
	git clone -q --shared "$TOP" "$W/next"
	git -C "$W/next" -c user.name=t -c user.email=t@example.com commit -q --allow-empty -m next
	"$W/next/deploy/image/build" "$W/next" "$W/image-next" >"$W/next.log" 2>&1
}

fill_registry() {
	mkdir -p "$W/registry" "$W/app/bin"
	printf 'version: 0.1\nstorage: {filesystem: {rootdirectory: "%s"}}\nhttp: {addr: "127.0.0.1:5000"}\n' \
		"$W/registry" >"$W/registry.yml"
	serve_registry
	cp /bin/busybox "$W/app/bin/busybox"
	for applet in sh cat tail; do ln -s busybox "$W/app/bin/$applet"; done
	for image in pause app; do
		# What an image has in common with one that is there is not fetched lazily.
		head -c 4000000 /dev/urandom >"$W/app/data"
		head -c 4000000 /dev/urandom >"$W/app/rest"
		umoci init --layout "$W/oci-$image" >/dev/null
		umoci new --image "$W/oci-$image:1" >/dev/null
		umoci insert --rootless --image "$W/oci-$image:1" "$W/app" / >/dev/null
		umoci config --image "$W/oci-$image:1" --config.cmd /bin/tail --config.cmd -f \
			--config.cmd /dev/null
		in_node skopeo copy -q --dest-tls-verify=false "oci:$W/oci-$image:1" \
			"docker://127.0.0.1:5000/$image:1"
	done
	in_node skopeo copy -q --dest-tls-verify=false "oci:$BOOTSEER_IMAGE/oci:latest" \
		docker://127.0.0.1:5000/bootseer:1
	in_node skopeo copy -q --dest-tls-verify=false "oci:$W/image-next/oci:latest" \
		docker://127.0.0.1:5000/bootseer:2
	in_node "$BOOTSEER_BUILD/cli/bootseer" key new "$W/key" >/dev/null
	in_node "$BOOTSEER_BUILD/cli/bootseer" image convert --plain-http --sign "$W/key" \
		docker://127.0.0.1:5000/app:1 docker://127.0.0.1:5000/app:1 >/dev/null
}

CSI_CONFIG='allow = [ "namespace=default kind=image image=127.0.0.1:5000/app" ];'

# Everything of the node that an installation may touch.
node_state() {
	in_node containerd config dump 2>/dev/null
	in_node find /opt /etc/containerd /etc/bootseer /var/lib/bootseer \
		/var/lib/bootseer-snapshotter /run/bootseer /var/log/bootseer.log \
		/run/bootseer-events /var/lib/bootseer-events 2>/dev/null | sort || :
	in_node grep -c ' /run/bootseer' /proc/self/mountinfo || :
	in_node pgrep -a bootseer || :
	in_node find /sys/fs/cgroup -maxdepth 2 -name 'bootseer-node'
	in_node find /etc/systemd/system 2>/dev/null | sort || :
}

# begin_pod NAME IMAGE [RUNTIMECLASS [NODE]]: an image that was pulled lazily has no layers for
# another runtime.
begin_pod() {
	kubectl_ apply -f - <<-END
	apiVersion: v1
	kind: Pod
	metadata:
	  name: $1
	  annotations: {io.containerd.cri.runtime-handler: ${3:-runc}}
	spec:
	  ${3:+runtimeClassName: $3}
	  ${4:+nodeName: $4}
	  automountServiceAccountToken: false
	  terminationGracePeriodSeconds: 0
	  containers:
	  - {name: c, image: "127.0.0.1:5000/$2:1", command: [/bin/sh, -c, "cat /data >/dev/null && exec tail -f /dev/null"]}
	END
}

pod_is_ready() { kubectl_ wait --for=condition=Ready "pod/$1" --timeout=120s; }

has_event() { # POD REASON
	kubectl_ get events -o json --field-selector "involvedObject.name=$1,reason=$2" |
		jq -e '.items[] | select(.source.component == "bootseer")'
}

# A pod whose volume at /v is the image app; with a period of grace it is there until the
# volume is not.
begin_volume_pod() { # NAME [RUNTIMECLASS]
	kubectl_ apply -f - <<-END
	{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "$1",
	 "annotations": {"io.containerd.cri.runtime-handler": "${2:-runc}"}}, "spec": {
	 ${2:+"\"runtimeClassName\": \"$2\","}
	 "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 1,
	 "containers": [{"name": "c", "image": "127.0.0.1:5000/pause:1",
		"volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
	 "volumes": [{"name": "v", "csi": {"driver": "csi.bootseer", "volumeAttributes": {
		"kind": "image", "image": "127.0.0.1:5000/app:1"}}}]}}
	END
}

# By $W/values.yaml, in which there are volumes.
upgrade() { # TAG
	helm_ upgrade bootseer "$TOP/deploy/helm/bootseer" --reuse-values -f "$W/values.yaml" \
		--set-string image.tag="$1" --wait --timeout 4m
	kubectl_ rollout status daemonset/bootseer-node --timeout=120s
	kubectl_ rollout status daemonset/bootseer-csi --timeout=120s
}

# Containers of the pods that are ready, each of which must be the one that it was.
containers_of() { # POD...
	kubectl_ get pods "$@" -o json | jq -r '(.items // [.])[] |
		select(any(.status.conditions[]?; .type == "Ready" and .status == "True")) |
		.status.containerStatuses[0].containerID'
}

# As many as there were are ready, and none is one of these.
began_again() { # CONTAINERS POD...
	local now

	now=$(containers_of "${@:2}")
	[ "$(wc -l <<<"$now")" = "$(wc -l <<<"$1")" ] && ! grep -qxF "$1" <<<"$now"
}

node_is_as_before() { node_state | diff "$W/before" -; }
bootseer_() { in_node sh -c '/opt/bootseer/*/bin/bootseer "$@"' sh "$@"; }
tracker_is_good() { bootseer_ p2p status --json | jq -e '.trackers[0].state == "good"'; }

# The file is that of the image; what exec sends of long output may end early.
has_file() { # FILE POD[/FOLDER]...
	local at want

	want=$(sha256sum <"$W/app/$1")
	for at in "${@:2}"; do
		[ "$(kubectl_ exec "${at%%/*}" -- /bin/busybox sha256sum "${at#"${at%%/*}"}/$1" |
			cut -d' ' -f1)" = "${want%% *}" ] || { echo "$at"; return 1; }
	done
}

reads_all() { has_file data "$@"; } # POD[/FOLDER]...

# Nothing in this cluster makes a Service's address that of one of its pods.
forward_service() { # POD
	local ip

	wait_for kubectl_ wait --for=condition=Ready "pod/$1" --timeout=100s
	ip=$(kubectl_ get pod "$1" -o 'jsonpath={.status.podIP}')
	in_node ip addr replace 10.99.0.73/32 dev lo
	in_node pkill -x socat || :
	in_node_start forward socat TCP-LISTEN:9730,bind=10.99.0.73,fork,reuseaddr "TCP:$ip:9730"
}
