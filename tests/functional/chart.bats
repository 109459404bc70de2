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
	--set registry.tokensSecretName=tokens --set networkPolicy.enabled=true
	--set monitoring.enabled=true --set node.pods=all --set node.secretName=trust
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
