#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The chart as a user installs it, on a real Kubernetes of one node: a lazy pod starts, and an
# uninstall leaves the node as it was.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/chart.bash"

setup_file() { chart_setup_file; }

teardown_file() { chart_teardown_file; }

teardown() { chart_teardown; }

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

# There is always something: no trace service, if nothing else.
doctor_said() { kubectl_ logs "$1" -c node | grep '^doctor: '; }

@test "chart: its pods are replaced, and the data path stays" {
	pid=$(in_node pgrep -o -x bootseerd)
	kubectl_ delete pod -l app.kubernetes.io/component=node --wait
	kubectl_ rollout status daemonset/bootseer-node --timeout=120s
	[ "$(in_node pgrep -o -x bootseerd)" = "$pid" ]
	kubectl_ exec lazy -- /bin/sh -c 'cat /data >/dev/null'
}

# What bootseerd's holder has started.
program_of_node() { in_node sh -c 'readlink "/proc/$(pgrep -P "$(pgrep -o -x bootseerd)")/exe"'; }

@test "chart: upgraded and downgraded, running pods and volumes stay" {
	program=$(program_of_node)
	before=$(containers_of lazy ordinary)
	echo "csi: {enabled: true, config: '$CSI_CONFIG'}" >"$W/values.yaml"
	upgrade 2
	[[ $(program_of_node) == /opt/bootseer/*/bin/bootseerd ]]
	[ "$(program_of_node)" != "$program" ]
	[ "$(containers_of lazy ordinary)" = "$before" ]
	# Nothing has read it before: the new bootseerd has to.
	has_file rest lazy
	begin_volume_pod volume bootseer
	begin_pod every app bootseer
	pod_is_ready volume
	pod_is_ready every
	reads_all lazy every volume/v
	# Its own image is none that was converted; the image of the volume is.
	wait_for has_event volume OrdinaryStart
	before=$(containers_of lazy ordinary volume every)
	upgrade 1
	[ "$(program_of_node)" = "$program" ]
	[ "$(containers_of lazy ordinary volume every)" = "$before" ]
	reads_all lazy every volume/v
	kubectl_ delete pod volume every --wait
	helm_ rollback bootseer 1 --wait --timeout 4m
	kubectl_ rollout status daemonset/bootseer-node --timeout=120s
	[ "$(containers_of lazy ordinary)" = "$(head -n 2 <<<"$before")" ]
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

# jq: a pod's template with images and stores of this test, for workers that say what they found.
pod_of_test='def pod_of_test: .template.spec |= (
	.terminationGracePeriodSeconds = 0 |
	.containers[0] |= (.image = "127.0.0.1:5000/app:1" | .command[2] = $script) |
	(.volumes[].csi | select(.volumeAttributes.image)).volumeAttributes.image = "127.0.0.1:5000/app:1" |
	(.volumes[].csi | select(.volumeAttributes.store)).volumeAttributes.store = $store |
	del(.volumes[].csi.nodePublishSecretRef));'

example() { # FILE FILTER
	kubectl_ create --dry-run=client -o json -f "$TOP/deploy/$1" |
		jq --arg store "file://$W/store" --arg script 'cat /data >/dev/null
			cat /weights/data >/dev/null; echo "$HOSTNAME" >"/ckpt/$HOSTNAME"
			/bin/busybox test -S /run/bootseer-env/env.sock; exec tail -f /dev/null' \
			"$pod_of_test (.items[]? // .) | $2"
}

# Two workers.
pytorch_job() {
	example kubernetes-pytorchjob.yaml '.spec.elasticPolicy |= (.minReplicas = 2 | .maxReplicas = 2) |
		.spec.pytorchReplicaSpecs.Worker |= (.replicas = 2 | pod_of_test)'
}

# The Job as docs/kubernetes.md says that a JobSet takes it.
job_set() {
	example kubernetes-job.yaml 'select(.kind == "Job") |
		{apiVersion: "jobset.x-k8s.io/v1alpha2", kind: "JobSet", metadata: {name: "train"},
		 spec: {replicatedJobs: [{name: "workers", template: {spec: (.spec |
			.completions = 2 | .parallelism = 2 | pod_of_test)}}]}}'
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

# What the API server calls has no name in this cluster.
start_jobset() {
	local jobset at=https://127.0.0.1:9444

	jobset=$("$BATS_TEST_DIRNAME/build" jobset)
	kubectl_ apply --server-side -f "$jobset/jobset.x-k8s.io_jobsets.yaml"
	openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=jobset \
		-addext subjectAltName=IP:127.0.0.1 -keyout "$W/jobset.key" -out "$W/jobset.crt" 2>/dev/null
	in_node sh -c 'mkdir -p /run/jobset && cp "$1" /run/jobset/tls.key && cp "$2" /run/jobset/tls.crt' \
		sh "$W/jobset.key" "$W/jobset.crt"
	cat >"$W/jobset.yaml" <<-END
	apiVersion: config.jobset.x-k8s.io/v1alpha1
	kind: Configuration
	leaderElection: {leaderElect: false}
	internalCertManagement: {enable: false}
	webhook: {port: 9444, certDir: /run/jobset}
	metrics: {bindAddress: "0"}
	health: {healthProbeBindAddress: "127.0.0.1:9445"}
	END
	in_node_start jobset env KUBECONFIG="$C/kubeconfig" "$jobset/jobset" --config "$W/jobset.yaml"
	for kind in mutate validate; do
		jq -n --arg kind "$kind" --arg url "$at/$kind-jobset-x-k8s-io-v1alpha2-jobset" \
			--rawfile ca "$W/jobset.crt" '{apiVersion: "admissionregistration.k8s.io/v1",
			kind: {mutate: "MutatingWebhookConfiguration",
				validate: "ValidatingWebhookConfiguration"}[$kind],
			metadata: {name: "jobset"}, webhooks: [{name: "\($kind).jobset.test",
			 admissionReviewVersions: ["v1"], sideEffects: "None",
			 clientConfig: {url: $url, caBundle: ($ca | @base64)},
			 rules: [{apiGroups: ["jobset.x-k8s.io"], apiVersions: ["v1alpha2"],
				operations: ["CREATE"], resources: ["jobsets"]}]}]}' | kubectl_ apply -f -
	done
	wait_for in_node curl -sf http://127.0.0.1:9445/readyz
}

workers() { kubectl_ get pods -o json -l "$workers" | jq -r ".items[]$1"; }
workers_are_ready() {
	[ "$(workers ' | select(any(.status.conditions[]?; .type == "Ready" and .status == "True")) | 1' |
		wc -l)" = 2 ]
}
no_workers() { [ -z "$(kubectl_ get pods -o name -l "$workers")" ]; }
wrote() { kubectl_ exec "$1" -- /bin/cat "/ckpt/$2" | grep -qx "$2"; }

# runs_with_all KIND LABEL: the object on stdin, whose pods have the label.
runs_with_all() {
	local workers=$2 pod name

	kubectl_ apply -f -
	wait_for workers_are_ready
	# Both wrote a file into the checkpoint's folder, which both see.
	for pod in $(workers .metadata.name); do
		for name in $(workers '| .spec.hostname // .metadata.name'); do
			wait_for wrote "$pod" "$name"
		done
	done
	kubectl_ delete "$1" train --wait
	wait_for no_workers
}

@test "chart: a PyTorchJob and a JobSet have what all three companions bring" {
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
	pytorch_job | runs_with_all pytorchjob training.kubeflow.org/job-name=train
	start_jobset
	job_set | runs_with_all jobset jobset.sigs.k8s.io/jobset-name=train
	helm_ uninstall bootseer --wait --timeout 4m
	wait_for node_is_as_before
}

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
	forward_service bootseer-registry-0
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
