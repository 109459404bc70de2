#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The Helm chart, as it is rendered; tests/conformance/chart.bats installs it. helm is made
# once, of its Go module, by tests/conformance/build.

bats_require_minimum_version 1.5.0

setup_file() {
	TOP=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	HELM=$("$TOP/tests/conformance/build" helm)/helm
	export TOP HELM CHART=$TOP/deploy/helm/bootseer HOME=$BATS_FILE_TMPDIR
}

render() { # OPTION...
	"$HELM" template bootseer "$CHART" --namespace bootseer-system --kube-version 1.34.4 \
		--set image.repository=registry.example/bootseer "$@"
}

ALL=(--set csi.enabled=true --set registry.enabled=true --set registry.tlsSecretName=tls
	--set registry.tokensSecretName=tokens --set registry.clusterIP=10.96.0.73
	--set networkPolicy.enabled=true --set networkPolicy.namespaceLabels.team=a
	--set monitoring.enabled=true --set monitoring.tokenSecretName=metrics
	--set csi.tokenAudience=sts.example --set node.pods=all --set node.secretName=trust
	--set 'imagePullSecrets={pull}')

@test "chart: lint finds nothing" {
	run -0 "$HELM" lint --strict "$CHART" --set image.repository=registry.example/bootseer
	run -0 "$HELM" lint --strict "$CHART" --set image.repository=registry.example/bootseer \
		"${ALL[@]}"
}

# The plain manifests are what the chart gives by its defaults, without its hooks.
@test "chart: what it gives is as deploy/kubernetes.yaml and the golden file have it" {
	render --no-hooks | diff "$TOP/deploy/kubernetes.yaml" -
	render "${ALL[@]}" | diff "$BATS_TEST_DIRNAME/chart/all.yaml" -
}

@test "chart: values that are none are refused" {
	run ! "$HELM" template bootseer "$CHART"
	run ! render --set nodes.pods=all
	run ! render --set node.pods=some
	run ! render --set registry.enabled=true --set registry.insecureNoAuth=true \
		--set registry.replicas=2
	[[ $output == *postgresSecretName* ]]
	run ! render --set registry.enabled=true
	[[ $output == *'answers nobody'* ]]
	run ! render --set registry.enabled=true --set registry.tlsSecretName=tls \
		--set networkPolicy.enabled=true
	[[ $output == *'every namespace'* ]]
	run ! render --set registry.clusterIP=registry.example
}

# Nodes ask by an address or by names that the certificate has.
@test "chart: names and address of the service are in its certificate and its arguments" {
	render --set registry.enabled=true --set registry.issuerRef.name=ca \
		--set registry.insecureNoAuth=true --set registry.clusterIP=10.96.0.73 \
		--set 'registry.names={traces.internal}' >"$BATS_TEST_TMPDIR/out"
	grep -q '^  clusterIP: "10.96.0.73"' "$BATS_TEST_TMPDIR/out"
	grep -q '^  ipAddresses: \["10.96.0.73"\]' "$BATS_TEST_TMPDIR/out"
	for name in bootseer-registry bootseer-registry.bootseer-system.svc traces.internal; do
		grep -q "^    - \"$name\"" "$BATS_TEST_TMPDIR/out"
		grep -q "^ *- --host=$name\$" "$BATS_TEST_TMPDIR/out"
	done
}

@test "chart: pods of the runtime class come to nodes that have BootSeer" {
	render --set-string node.nodeSelector.bootseer=on |
		awk '/^kind: RuntimeClass/,/^---/' >"$BATS_TEST_TMPDIR/out"
	grep -A2 '^scheduling:' "$BATS_TEST_TMPDIR/out" | grep -q '^    bootseer: "on"'
}

# node-agent as the removal runs it, in namespaces of processes and mounts of its own, where
# the kubelet's folder is empty but for one volume of a pod on any snapshotter.  Programs of
# the node are made up: 'bootseer node leave' always succeeds, rm is refused.
@test "chart: the removal leaves a node whose pods have volumes of bootseer-csi" {
	fakes=$BATS_TEST_TMPDIR/fakes
	mkdir -p "$fakes" "$BATS_TEST_TMPDIR/home/bin"
	cat >"$fakes/nsenter" <<-'END'
	#!/bin/sh
	while [ "$1" != -- ]; do shift; done
	shift
	case "$*" in *' rm '*) echo "nsenter: $*" >>"$CALLS"; exit 1 ;; esac
	exec "$@"
	END
	printf '#!/bin/sh\necho "bootseer $*" >>"$CALLS"\n' >"$BATS_TEST_TMPDIR/home/bin/bootseer"
	printf '#!/bin/sh\necho >>"$CALLS.waits"\n' >"$fakes/sleep"
	# The clock of two minutes: five seconds a wait.
	printf '#!/bin/sh\necho $((5 * $(wc -l <"$CALLS.waits")))\n' >"$fakes/cut"
	chmod +x "$fakes"/* "$BATS_TEST_TMPDIR/home/bin/bootseer"
	: >"$BATS_TEST_TMPDIR/calls.waits"
	export CALLS=$BATS_TEST_TMPDIR/calls FAKES=$fakes BOOTSEER_HOME=$BATS_TEST_TMPDIR/home
	run -0 unshare -mpf --mount-proc bash -euc '
		mount -t tmpfs tmpfs /var/lib
		volume="/var/lib/kubelet/pods/4711/volumes/kubernetes.io~csi/model"
		mkdir -p "$volume"
		printf "{\"attachmentID\":\"csi-1\",\"driverName\":\"csi.bootseer\"}" \
			>"$volume/vol_data.json"
		export NODE_ACTION=remove NODE_CONTAINERD_RESTART=true NODE_CONTAINERD_FILE=/c \
			NODE_CONTAINERD_SOCKET=/s PATH=$FAKES:$PATH
		sh "$TOP/deploy/image/node-agent" node'
	[[ $output == *'volumes (csi.bootseer)'*'so it stays'* ]]
	[ "$(grep -c '^bootseer node leave' "$CALLS")" -eq 1 ]
	[ "$(wc -l <"$CALLS.waits")" -eq 24 ]
	run ! grep nsenter "$CALLS"
}

@test "chart: with PostgreSQL the service is a Deployment of several replicas" {
	render --set registry.enabled=true --set registry.postgresSecretName=db \
		--set registry.replicas=3 --set registry.tlsSecretName=tls >"$BATS_TEST_TMPDIR/out"
	grep -q '^kind: Deployment' "$BATS_TEST_TMPDIR/out"
	run ! grep -q '^kind: StatefulSet' "$BATS_TEST_TMPDIR/out"
	grep -q 'replicas: 3' "$BATS_TEST_TMPDIR/out"
}

# Only the removal asks the API server, and only about the one DaemonSet.
@test "chart: rights are the fewest, and only what works on nodes is privileged" {
	render "${ALL[@]}" >"$BATS_TEST_TMPDIR/out"
	[ "$(grep -c '^kind: Role$' "$BATS_TEST_TMPDIR/out")" -eq 1 ]
	run ! grep -E '^kind: Cluster|verbs:.*\*' "$BATS_TEST_TMPDIR/out"
	grep -q 'verbs: \[get, patch\]' "$BATS_TEST_TMPDIR/out"
	[ "$(grep -c 'automountServiceAccountToken: false' "$BATS_TEST_TMPDIR/out")" -eq 4 ]
	awk '/^kind: StatefulSet/,/^---/' "$BATS_TEST_TMPDIR/out" >"$BATS_TEST_TMPDIR/registry"
	run ! grep privileged "$BATS_TEST_TMPDIR/registry"
	grep -q 'runAsNonRoot: true' "$BATS_TEST_TMPDIR/registry"
}
