#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The chart as a user installs it, on a real Kubernetes of one node: a lazy pod starts, and an
# uninstall leaves the node as it was.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/chart.bash"

setup_file() {
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
	start_registry_of_cluster
}

teardown_file() {
	cluster_stop
	rm -rf --one-file-system "$W"
}

teardown() {
	[[ ${BATS_TEST_COMPLETED:-} == 1 ]] || {
		kubectl_ get pods -A -o wide
		kubectl_ describe pods -A | tail -n 60
		tail -n 20 "$C"/varlog/pods/*/*/*.log
		tail -n 20 "$C"/log/{kubelet,controllers}
		in_node cat /var/log/bootseer.log | tail -n 20
	}
}

# The same programs as another version: it has its own folder on a node.
make_next_image() {
	git clone -q --shared "$TOP" "$W/next"
	git -C "$W/next" -c user.name=t -c user.email=t@example.com commit -q --allow-empty -m next
	"$W/next/deploy/image/build" "$W/next" "$W/image-next" >"$W/next.log" 2>&1
}

start_registry_of_cluster() {
	mkdir -p "$W/registry" "$W/app/bin"
	printf 'version: 0.1\nstorage: {filesystem: {rootdirectory: "%s"}}\nhttp: {addr: "127.0.0.1:5000"}\n' \
		"$W/registry" >"$W/registry.yml"
	serve_registry
	cp /bin/busybox "$W/app/bin/busybox"
	for applet in sh cat tail; do ln -s busybox "$W/app/bin/$applet"; done
	for image in pause app; do
		# What an image has in common with one that is there is not fetched lazily.
		head -c 4000000 /dev/urandom >"$W/app/data"
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
	find /sys/fs/cgroup -maxdepth 2 -name 'bootseer-node'
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

@test "chart: two commands, and a pod starts lazily" {
	node_state >"$W/before"
	began=$SECONDS
	kubectl_ create secret generic trust --from-file=trust.pem="$W/key.pub"
	install
	begin_pod lazy app bootseer
	pod_is_ready lazy
	echo "# from helm install to a lazy pod that is ready: $((SECONDS - began)) s" >&3
	in_node sh -c '/opt/bootseer/*/bin/bootseer node status' | tee /dev/stderr |
		grep -qE 'mounted +(lazy|complete) at'
	# An ordinary pod is not of the plugin.
	begin_pod ordinary pause
	pod_is_ready ordinary
	[ "$(in_node ctr -n k8s.io snapshots --snapshotter bootseer ls | grep -c ' Active')" -ge 1 ]
	helm_ test bootseer --timeout 2m
	node=$(kubectl_ get pods -o name -l app.kubernetes.io/component=node)
	kubectl_ exec "$node" -c node -- node-agent cli image explain --pod default/lazy |
		tee /dev/stderr | grep -q 127.0.0.1:5000/app:1
	wait_for doctor_said "$node"
	wait_for has_event lazy LazyStart
}

has_event() { # POD REASON
	kubectl_ get events -o json --field-selector "involvedObject.name=$1,reason=$2" |
		jq -e '.items[] | select(.source.component == "bootseer")'
}

# There is always something: no trace service, if nothing else.
doctor_said() { kubectl_ logs "$1" -c node | grep '^doctor: '; }

@test "chart: its pods are replaced, and the data path stays" {
	pid=$(in_node pgrep -o -x bootseerd)
	kubectl_ delete pod -l app.kubernetes.io/component=node --wait
	kubectl_ rollout status daemonset/bootseer-node --timeout=120s
	[ "$(in_node pgrep -o -x bootseerd)" = "$pid" ]
	kubectl_ exec lazy -- /bin/sh -c 'cat /data >/dev/null'
}

# A pod whose volume at /v is the image app; with a period of grace it is there until the
# volume is not.
begin_volume_pod() { # NAME
	kubectl_ apply -f - <<-END
	{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "$1"}, "spec": {
	 "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 1,
	 "containers": [{"name": "c", "image": "127.0.0.1:5000/pause:1",
		"volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
	 "volumes": [{"name": "v", "csi": {"driver": "csi.bootseer", "volumeAttributes": {
		"kind": "image", "image": "127.0.0.1:5000/app:1"}}}]}}
	END
}

# upgrade TAG [OPTION...]: with volumes, and every pod lazy.
upgrade() {
	cat >"$W/values.yaml" <<-END
	node: {pods: all}
	csi:
	  enabled: true
	  config: '$CSI_CONFIG'
	END
	helm_ upgrade bootseer "$TOP/deploy/helm/bootseer" --reuse-values -f "$W/values.yaml" \
		--set-string image.tag="$1" --wait --timeout 4m
	kubectl_ rollout status daemonset/bootseer-node --timeout=120s
	kubectl_ rollout status daemonset/bootseer-csi --timeout=120s
}

# Containers of the pods, each of which must be the one that it was.
containers_of() { # POD...
	kubectl_ get pods "$@" \
		-o jsonpath='{range .items[*]}{.status.containerStatuses[0].containerID}{"\n"}{end}'
}

@test "chart: upgraded and downgraded, running pods and volumes stay" {
	before=$(containers_of lazy ordinary)
	upgrade 2
	[ "$(containers_of lazy ordinary)" = "$before" ]
	begin_volume_pod volume
	begin_pod every app
	pod_is_ready volume
	pod_is_ready every
	reads_all lazy every volume/v
	# Its own image is none that was converted; the image of the volume is.
	wait_for has_event volume OrdinaryStart
	before=$(containers_of lazy ordinary volume every)
	upgrade 1
	[ "$(containers_of lazy ordinary volume every)" = "$before" ]
	reads_all lazy every volume/v
	kubectl_ delete pod volume every --wait
	helm_ rollback bootseer 1 --wait --timeout 4m
	kubectl_ rollout status daemonset/bootseer-node --timeout=120s
	[ "$(containers_of lazy ordinary)" = "$(head -n 2 <<<"$before")" ]
}

# The file is that of the image.
reads_all() { # POD[/FOLDER]...
	local at

	for at; do
		kubectl_ exec "${at%%/*}" -- /bin/cat "${at#"${at%%/*}"}/data" |
			cmp - "$W/app/data" || { echo "$at"; return 1; }
	done
}

@test "chart: uninstalled, the node is as it was" {
	kubectl_ delete pod lazy --wait
	helm_ uninstall bootseer --wait --timeout 4m
	node_state | diff "$W/before" -
	# The pod that is no matter of it went on.
	pod_is_ready ordinary
	kubectl_ delete pod ordinary --wait
	# Its layers were fetched before: what was pulled lazily starts without the plugin, and
	# without the registry.
	begin_pod after app
	pod_is_ready after
	reads_all after
	kubectl_ delete pod after --wait
}

# deploy/kubernetes-pytorchjob.yaml with images and stores of this test, for two workers that say
# what they found.
pytorch_job() {
	local script='cat /data >/dev/null; cat /weights/data >/dev/null; echo "$HOSTNAME" >"/ckpt/$HOSTNAME"
		/bin/busybox test -S /run/bootseer-env/env.sock; exec tail -f /dev/null'

	kubectl_ create --dry-run=client -o json -f "$TOP/deploy/kubernetes-pytorchjob.yaml" |
		jq --arg script "$script" --arg store "file://$W/store" '
			.spec.elasticPolicy |= (.minReplicas = 2 | .maxReplicas = 2) |
			.spec.pytorchReplicaSpecs.Worker |= (.replicas = 2 | .template.spec |= (
				.terminationGracePeriodSeconds = 0 |
				.containers[0] |= (.image = "127.0.0.1:5000/app:1" | .command[2] = $script) |
				(.volumes[].csi | select(.volumeAttributes.image)).volumeAttributes.image =
					"127.0.0.1:5000/app:1" |
				(.volumes[].csi | select(.volumeAttributes.store)).volumeAttributes.store = $store |
				del(.volumes[].csi.nodePublishSecretRef)))'
}

# As a process of the node; nothing here calls its webhooks, whose certificate it waits for.
start_training_operator() {
	local operator

	operator=$("$BATS_TEST_DIRNAME/build" training-operator)
	kubectl_ apply --server-side -f "$operator/kubeflow.org_pytorchjobs.yaml"
	kubectl_ create secret generic training-operator-webhook-cert
	kubectl_ apply -f - <<-END
	{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
	 "metadata": {"name": "validator.training-operator.kubeflow.org"}, "webhooks": []}
	END
	openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=operator \
		-keyout "$W/tls.key" -out "$W/tls.crt" 2>/dev/null
	in_node sh -c 'mkdir /run/operator && cp "$@" /run/operator' sh \
		"$C/kubeconfig" "$W/tls.key" "$W/tls.crt"
	# The folder of its certificate is fixed, in a /tmp of its own.
	in_node_start operator unshare --mount sh -ec 'mount -t tmpfs tmp /tmp
		mkdir -p /tmp/k8s-webhook-server/serving-certs
		cp /run/operator/tls.* /tmp/k8s-webhook-server/serving-certs
		KUBECONFIG=/run/operator/kubeconfig MY_POD_NAMESPACE=default exec "$0" \
			--enable-scheme=pytorchjob' "$operator/training-operator.v1"
}

workers_are_ready() {
	[ "$(kubectl_ get pods -o json -l training.kubeflow.org/job-name=train | jq '[.items[] |
		select(any(.status.conditions[]?; .type == "Ready" and .status == "True"))] | length')" = 2 ]
}

@test "chart: a PyTorchJob has its image, an environment and a checkpoint by all three companions" {
	node_state >"$W/before"
	mkdir -p "$W/store"
	kubectl_ get secret trust ||
		kubectl_ create secret generic trust --from-file=trust.pem="$W/key.pub"
	cat >"$W/job-values.yaml" <<-END
	node:
	  config: |
	    trust-keys = "/etc/bootseer/trust.pem";
	    plain-http = [ "127.0.0.1:5000" ];
	    env-store = [ "file://$W/store" ];
	csi:
	  enabled: true
	  config: |
	    allow = [ "namespace=default kind=image image=127.0.0.1:5000/app",
	        "namespace=default kind=env store=file://$W/store",
	        "namespace=default kind=ckpt store=file://$W/store access=write memory=2G gid=0-1000" ];
	END
	install_with "$W/job-values.yaml"
	kubectl_ rollout status daemonset/bootseer-csi --timeout=120s
	start_training_operator
	pytorch_job | kubectl_ apply -f -
	wait_for workers_are_ready
	# Both wrote a file into the checkpoint's folder, which both see.
	wait_for wrote train-worker-0 train-worker-1
	wait_for wrote train-worker-1 train-worker-0
	kubectl_ delete pytorchjob train --wait
	wait_for no_workers
	helm_ uninstall bootseer --wait --timeout 4m
	wait_for node_is_as_before
}

wrote() { kubectl_ exec "$1" -- /bin/cat "/ckpt/$2" | grep -qx "$2"; }
no_workers() { [ -z "$(kubectl_ get pods -o name -l training.kubeflow.org/job-name=train)" ]; }

# The pod keeps what it has; to end it a node needs the plugin once more.
@test "chart: uninstalled under a pod with a volume, which goes on, and ends later" {
	node_state >"$W/before"
	install --set csi.enabled=true --set-string csi.config="$CSI_CONFIG"
	kubectl_ rollout status daemonset/bootseer-csi --timeout=120s
	begin_volume_pod volume
	pod_is_ready volume
	helm_ uninstall bootseer --wait --timeout 4m
	reads_all volume/v
	install --set csi.enabled=true --set-string csi.config="$CSI_CONFIG"
	kubectl_ rollout status daemonset/bootseer-csi --timeout=120s
	reads_all volume/v
	kubectl_ delete pod volume --wait
	helm_ uninstall bootseer --wait --timeout 4m
	# Pods of the chart may end after it.
	wait_for node_is_as_before
}

# A node with certificates, events and figures, whose service is outside of the cluster.
install_for_peers() {
	install --set node.peers.enabled=true --set events.enabled=true \
		--set events.service=http://10.88.0.1:9730 --set-string node.config='
			trust-keys = "/etc/bootseer/trust.pem";
			plain-http = [ "127.0.0.1:5000" ];
			service = "http://10.88.0.1:9730";'
	kubectl_ rollout status daemonset/bootseer-events --timeout=120s
}

bootseer_() { in_node sh -c '/opt/bootseer/*/bin/bootseer "$@"' sh "$@"; }

tracker_is_good() { bootseer_ p2p status --json | jq -e '.trackers[0].state == "good"'; }
start_is_there() {
	bootseer_ start show --service http://10.88.0.1:9730 --json default/stages |
		grep -q env.install
}

# Whoever asks, the signer gives certificates to node pods alone.
request_is_denied() {
	local name

	openssl req -new -newkey ed25519 -nodes -keyout "$W/other.key" -subj /CN=node2 \
		-addext subjectAltName=URI:bootseer://node/node2 2>/dev/null |
		jq -Rs '{apiVersion: "certificates.k8s.io/v1", kind: "CertificateSigningRequest",
			metadata: {name: "other"}, spec: {request: @base64,
			signerName: "nodes.bootseer/peers", usages: ["client auth"]}}' >"$W/other.json"
	kubectl_ create -f "$W/other.json"
	kubectl_ wait --for=condition=Denied csr/other --timeout=60s
	[ -z "$(kubectl_ get csr other -o 'jsonpath={.status.certificate}')" ]
}

node_is_as_before() { node_state | diff "$W/before" -; }

@test "chart: a node has a certificate of its name, its pods' stages are followed, nothing is left" {
	in_node_start service "$BOOTSEER_BUILD/registry/bootseer-registry" \
		--listen 10.88.0.1:9730 --db "sqlite:$W/service.db" --insecure-no-auth
	wait_for in_node curl -s -o /dev/null http://10.88.0.1:9730/
	node_state >"$W/before"
	kubectl_ get secret trust ||
		kubectl_ create secret generic trust --from-file=trust.pem="$W/key.pub"
	install_for_peers
	pem=$C/etc/bootseer/peers
	openssl x509 -in "$pem/tls.crt" -noout -ext subjectAltName |
		grep -q 'URI:bootseer://node/node1$'
	openssl verify -CAfile "$pem/ca.crt" "$pem/tls.crt"
	[ "$(stat -c %a "$pem/tls.key")" = 600 ]
	wait_for tracker_is_good
	bootseer_ p2p status --json | jq -e '.node == "node1" and .port == 9740 and
		.certificate_not_after > now + 80 * 86400'
	request_is_denied
	# A second start of the pod asks for none, and of a chart that was removed for a new one.
	serial=$(openssl x509 -in "$pem/tls.crt" -noout -serial)
	kubectl_ delete pod -l app.kubernetes.io/component=node --wait
	kubectl_ rollout status daemonset/bootseer-node --timeout=120s
	[ "$(openssl x509 -in "$pem/tls.crt" -noout -serial)" = "$serial" ]
	in_node touch /etc/bootseer/peers/stale
	kubectl_ delete pod -l app.kubernetes.io/component=node --wait
	kubectl_ rollout status daemonset/bootseer-node --timeout=120s
	[ "$(openssl x509 -in "$pem/tls.crt" -noout -serial)" != "$serial" ]
	kubectl_ run stages --image=127.0.0.1:5000/pause:1 --restart=Never --command -- /bin/sh -c \
		'echo BOOTSEER stage=env.install ev=begin; echo BOOTSEER stage=env.install ev=end'
	wait_for start_is_there
	kubectl_ delete pod stages --wait
	helm_ uninstall bootseer --wait --timeout 4m
	# Pods of the chart may end after it.
	wait_for node_is_as_before
}

# The service's certificate, its tokens and its disk; and what stands for kube-proxy.
make_service_secrets() {
	openssl req -x509 -newkey ed25519 -nodes -days 2 -subj /CN=service \
		-addext subjectAltName=IP:10.99.0.73 -keyout "$W/service.key" \
		-out "$W/service.crt" 2>/dev/null
	openssl genpkey -algorithm ed25519 -out "$W/capability.key"
	for role in read,admin read,write; do
		echo "${role#*,} sha256:$(printf "${role#*,}" | sha256sum | cut -d' ' -f1) $role"
	done >"$W/tokens"
	printf write >"$W/service.token"
	kubectl_ create secret generic nodes --from-file=trust.pem="$W/key.pub" \
		--from-file="$W/service.token"
	kubectl_ create secret generic service --from-file=tls.crt="$W/service.crt" \
		--from-file=tls.key="$W/service.key" --from-file=ca.crt="$W/service.crt"
	kubectl_ create secret generic tokens --from-file=tokens="$W/tokens"
	kubectl_ create secret generic keys --from-file=capability.key="$W/capability.key"
	mkdir -p "$W/data"
	chown 65532:65532 "$W/data"
	kubectl_ apply -f - <<-END
	{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "data"}, "spec": {
	 "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"],
	 "hostPath": {"path": "$W/data"}}}
	END
}

# Nothing in this cluster makes a Service's address one of its pods.
forward_service() {
	local pod

	wait_for kubectl_ wait --for=condition=Ready pod/bootseer-registry-0 --timeout=100s
	pod=$(kubectl_ get pod bootseer-registry-0 -o 'jsonpath={.status.podIP}')
	in_node ip addr add 10.99.0.73/32 dev lo
	in_node_start forward socat TCP-LISTEN:9730,bind=10.99.0.73,fork,reuseaddr "TCP:$pod:9730"
}

ask_service() { # PATH
	in_node curl -sf --cacert "$W/service.crt" -H 'Authorization: Bearer admin' \
		"https://10.99.0.73:9730$1"
}

both_said_what_they_lack() {
	ask_service /v1/doctor | jq -e '[.nodes[].node] | sort == ["node1", "node2"]'
}

# Sums of what the second node has got.
bytes_of() { on_second bootseer_ p2p status --json | jq ".totals | $1"; }


@test "chart: two nodes with the chart's certificates and service pass blocks on, and both are left clean" {
	second_node_start
	on_second serve_registry
	kubectl_ label node node2 pool=gpu
	make_service_secrets
	node_state >"$W/before"
	on_second node_state >"$W/before2"
	install --set node.secretName=nodes --set-string node.config='
			trust-keys = "/etc/bootseer/trust.pem";
			plain-http = [ "127.0.0.1:5000" ];
			service-token-file = "/etc/bootseer/service.token";' \
		--set node.peers.enabled=true --set registry.enabled=true \
		--set registry.clusterIP=10.99.0.73 --set registry.tlsSecretName=service \
		--set registry.tokensSecretName=tokens --set registry.secretName=keys \
		--set-string registry.config='registry = [ "127.0.0.1:5000" ];
			capability-key = "/etc/bootseer/capability.key";'
	forward_service
	wait_for tracker_is_good
	wait_for on_second tracker_is_good
	# The files of registry.secretName are there.
	ask_service /v1/capability-keys >"$W/keys"
	jq -e '.keys | contains("BEGIN PUBLIC KEY")' "$W/keys"
	bootseer_ image prefetch --wait 127.0.0.1:5000/app:1
	# What they lack is there; what the service had not heard is said again.
	wait_for both_said_what_they_lack
	# The nodes of a pool are told by the service.
	printf admin >"$W/admin.token"
	in_node "$BOOTSEER_BUILD/cli/bootseer" image prefetch --wait --nodes \
		"$(kubectl_ get nodes -l pool=gpu -o 'jsonpath={.items[*].metadata.name}' | tr ' ' ,)" \
		--service https://10.99.0.73:9730 --ca-file "$W/service.crt" \
		--token-file "$W/admin.token" 127.0.0.1:5000/app:1
	on_second bootseer_ p2p status >&2
	[ "$(bytes_of '.rack_bytes + .zone_bytes')" -gt 3000000 ]
	[ "$(bytes_of .origin_bytes)" -lt 1000000 ]
	begin_pod second app bootseer node2
	pod_is_ready second
	reads_all second
	kubectl_ delete pod second --wait
	helm_ uninstall bootseer --wait --timeout 4m
	wait_for node_is_as_before
	on_second node_state | diff "$W/before2" -
}
