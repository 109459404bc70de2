#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The Helm chart, as it is rendered; tests/conformance/chart.bats installs it. helm is made
# once, of its Go module, by tests/conformance/build.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../wait.bash"

setup_file() {
	TOP=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	HELM=$("$TOP/tests/conformance/build" helm)/helm
	GRAFANA=$("$TOP/tests/stores/build" grafana)
	export TOP HELM GRAFANA CHART=$TOP/deploy/helm/bootseer HOME=$BATS_FILE_TMPDIR
}

render() { # OPTION...
	"$HELM" template bootseer "$CHART" --namespace bootseer-system --kube-version 1.34.4 \
		--set image.repository=registry.example/bootseer "$@"
}

ALL=(--set csi.enabled=true --set registry.enabled=true --set registry.tlsSecretName=tls
	--set registry.tokensSecretName=tokens --set registry.clusterIP=10.96.0.73
	--set-string 'registry.config=registry = [ "registry.example" ];' --set registry.secretName=caps
	--set networkPolicy.enabled=true --set networkPolicy.namespaceLabels.team=a
	--set monitoring.enabled=true --set monitoring.tokenSecretName=metrics
	--set monitoring.nodes=true --set events.enabled=true --set events.tokenSecretName=events
	--set node.peers.enabled=true --set node.mirror.enabled=true --set recover.enabled=true
	--set convert.enabled=true --set convert.prefix=registry.example/ml --set convert.secretName=work
	--set csi.tokenAudience=sts.example --set node.pods=all --set node.secretName=trust
	--set 'node.pullSecrets[0].namespace=team-a' --set 'node.pullSecrets[0].names={pull,other}'
	--set 'imagePullSecrets={pull}')

@test "chart: lint finds nothing" {
	run -0 "$HELM" lint --strict "$CHART" --set image.repository=registry.example/bootseer
	run -0 "$HELM" lint --strict "$CHART" --set image.repository=registry.example/bootseer \
		"${ALL[@]}"
}

# The plain manifests are what the chart gives by its defaults, without its hooks and their account.
@test "chart: what it gives is as deploy/kubernetes.yaml and the golden file have it" {
	render --no-hooks | awk 'BEGIN { RS = ORS = "---\n" } !/remove.yaml/' |
		diff <(cat "$TOP/deploy/kubernetes.yaml"; echo ---) -
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
	run ! render --set events.enabled=true
	[[ $output == *'needs a service'* ]]
	run ! render --set convert.enabled=true
	[[ $output == *'needs a service'* ]]
	run ! render --set convert.enabled=true --set convert.service=https://a:9730 \
		--set convert.prefix=registry.example
	[[ $output == *secretName* ]]
	run ! render --set 'convert.prefix=registry.example/*'
	run ! render --set node.peers.enabled=true
	[[ $output == *'needs a service, by which'* ]]
	run ! render --set node.peers.enabled=true --set-string 'node.config=# no service = here'
	[[ $output == *'needs a service, by which'* ]]
	run ! render --set node.peers.enabled=true --kube-version 1.29.0 \
		--set-string 'node.config=service = "https://10.96.0.73:9730";'
	[[ $output == *'Kubernetes 1.30'* ]]
	run ! render --set node.peers.rights=everybody
	run ! render --set node.mirror.port=none
	# Which secrets has to be said.
	run ! render --set 'node.pullSecrets[0].namespace=team-a'
	run ! render --set 'node.pullSecrets[0].names={pull}'
	run ! render --set 'node.pullSecrets[0].namespace=team-a' --set 'node.pullSecrets[0].names={*}'
}

objects() { awk -v want="$1" 'BEGIN { RS = ORS = "---\n" } $0 ~ want'; } # PATTERN

# Helm takes away a hook's account when it waits for the hook's Job no longer, or leaves it.
@test "chart: the removal's account is there until the chart is gone" {
	render >"$BATS_TEST_TMPDIR/out"
	run -0 objects 'helm.sh/hook: pre-delete' <"$BATS_TEST_TMPDIR/out"
	[ "$(grep '^kind:' <<<"$output")" = 'kind: Job' ]
	[[ $output == *hook-succeeded* ]]
	[ "$(objects '\n  name: bootseer-remove\n' <"$BATS_TEST_TMPDIR/out" | grep '^kind:' | sort)" = \
		$'kind: Job\nkind: Role\nkind: RoleBinding\nkind: ServiceAccount' ]
}

@test "chart: nodes read the pull secrets that are listed, and no more" {
	render --set node.podEvents=false --set 'node.pullSecrets[0].namespace=team-a' \
		--set 'node.pullSecrets[0].names={pull,other}' --set 'node.pullSecrets[1].namespace=team-b' \
		--set 'node.pullSecrets[1].names={pull}' --set 'node.pullSecrets[2].namespace=team-a' \
		--set 'node.pullSecrets[2].names={other,third}' >"$BATS_TEST_TMPDIR/out"
	run ! grep '^kind: Cluster' "$BATS_TEST_TMPDIR/out"
	objects 'kind: Role\n.*name: bootseer-pull-secrets' <"$BATS_TEST_TMPDIR/out" >"$BATS_TEST_TMPDIR/roles"
	[ "$(grep '^  namespace: ' "$BATS_TEST_TMPDIR/roles")" = $'  namespace: team-a\n  namespace: team-b' ]
	grep -A9 '^rules:' "$BATS_TEST_TMPDIR/roles" | grep -v -- '^---$\|^#\|^--$' | diff - <(
		for names in '"pull","other","third"' '"pull"'; do
			printf '%s\n' rules: '  - apiGroups: [""]' '    resources: [secrets]' \
				"    resourceNames: [$names]" '    verbs: [get]' '  - apiGroups: [""]' \
				'    resources: [pods]' '    verbs: [list, watch]'
		done)
	grep -q 'serviceAccountName: bootseer-node' "$BATS_TEST_TMPDIR/out"
	grep -q 'name: PULL_SECRETS, value: "team-a/pull team-a/other team-a/third team-b/pull"' "$BATS_TEST_TMPDIR/out"
}

# The chart makes an empty secret for its own authority only, and only then the signer may write
# to it.
@test "chart: the authority of nodes is the chart's, a secret's or cert-manager's" {
	peers=(--set node.peers.enabled=true --set-string 'node.config=service = "https://a:9730";')
	render "${peers[@]}" >"$BATS_TEST_TMPDIR/own"
	[ "$(grep -c '^kind: Secret$' "$BATS_TEST_TMPDIR/own")" -eq 1 ]
	grep -q 'verbs: \[get, patch\]$' "$BATS_TEST_TMPDIR/own"
	render "${peers[@]}" --set node.peers.authoritySecretName=mine >"$BATS_TEST_TMPDIR/given"
	run ! grep '^kind: Secret$' "$BATS_TEST_TMPDIR/given"
	grep -A1 'resourceNames: \[mine\]' "$BATS_TEST_TMPDIR/given" | grep -q 'verbs: \[get\]$'
	render "${peers[@]}" --set node.peers.issuerRef.name=ca >"$BATS_TEST_TMPDIR/manager"
	run ! grep '^kind: Secret$' "$BATS_TEST_TMPDIR/manager"
	grep -q 'isCA: true' "$BATS_TEST_TMPDIR/manager"
}

@test "chart: the dashboard is about figures that are there" {
	jq -r '.panels[].targets[].expr, .templating.list[].query' "$TOP/deploy/dashboard.json" |
		grep -o 'bootseer_[a-z0-9_]*' | sed 's/_bucket$//' | sort -u >"$BATS_TEST_TMPDIR/wanted"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/wanted")" -ge 20 ]
	{
		"$BOOTSEER_BUILD/snapshotter/node/bootseerd" --list-metrics
		"$BOOTSEER_BUILD/registry/bootseer-registry" --list-metrics
	} | grep -o '^bootseer_[a-z0-9_]*' | sort -u >"$BATS_TEST_TMPDIR/there"
	run -0 comm -23 "$BATS_TEST_TMPDIR/wanted" "$BATS_TEST_TMPDIR/there"
	[ -z "$output" ]
}

@test "chart: Grafana keeps all of both dashboards when they are imported" {
	sed 's/"gridPos"/"gridpos"/' "$TOP/deploy/dashboard.json" >"$BATS_TEST_TMPDIR/misspelt"
	PYTHONPATH=$GRAFANA run -0 "$BATS_TEST_DIRNAME/grafana-import.py" "$BATS_TEST_TMPDIR/misspelt"
	[[ $output == *'.gridpos is no key'* ]]
	PYTHONPATH=$GRAFANA run -0 "$BATS_TEST_DIRNAME/grafana-import.py" "$TOP"/deploy/dashboard*.json
	[ -z "$output" ]
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

@test "chart: nodes are told of the chart's service unless they are told of another" {
	service=(--set registry.enabled=true --set registry.clusterIP=fd00::73)
	render "${service[@]}" --set registry.tlsSecretName=tls >"$BATS_TEST_TMPDIR/out"
	grep -q '^    service = "https://\[fd00::73\]:9730";' "$BATS_TEST_TMPDIR/out"
	grep -q '^    service-ca-file' "$BATS_TEST_TMPDIR/out"
	grep -A1 'name: service-ca$' "$BATS_TEST_TMPDIR/out" | grep -q 'secretName: tls, items:'
	render "${service[@]}" --set registry.insecureNoAuth=true \
		--set-string 'node.config=service-token-file = "/t";' >"$BATS_TEST_TMPDIR/out"
	grep -q '^    service = "http://' "$BATS_TEST_TMPDIR/out"
	run ! grep service-ca "$BATS_TEST_TMPDIR/out"
	render "${service[@]}" --set registry.tlsSecretName=tls \
		--set-string 'node.config=service = "https://a:9730";' >"$BATS_TEST_TMPDIR/out"
	run ! grep -E 'fd00::73\]|service-ca' "$BATS_TEST_TMPDIR/out"
}

@test "chart: a node has its Kubernetes name unless the configuration has a line with another" {
	for config in '' '# not node-name = "a";' 'cache-size = "1G"; # node-name = "a";'; do
		render --set-string "node.config=$config" >"$BATS_TEST_TMPDIR/out"
		grep -q 'node-name = "@NODE_NAME@"' "$BATS_TEST_TMPDIR/out"
	done
	for config in 'node-name = "a";' 'run = "/r"; node-name: "a";'; do
		render --set-string "node.config=$config" >"$BATS_TEST_TMPDIR/out"
		run ! grep 'node-name = "@NODE_NAME@"' "$BATS_TEST_TMPDIR/out"
	done
}

@test "chart: kubelets mount volumes with the label of their pods where that is wanted" {
	render --set csi.enabled=true | grep -q '^  seLinuxMount: false$'
	render --set csi.enabled=true --set csi.seLinuxMount=true | grep -q '^  seLinuxMount: true$'
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

# An API server for node-certificate: its requests are in requests/NAME, what is put is kept.
fake_api() {
	mkdir -p "$BATS_TEST_TMPDIR"/{bin,requests,put,tmp}
	cp "$TOP"/deploy/image/{node-certificate,kube-api} "$BATS_TEST_TMPDIR/bin"
	# The account's token is there only in a pod.
	sed -i "s|^account=.*|account=$BATS_TEST_TMPDIR|" "$BATS_TEST_TMPDIR/bin/kube-api"
	echo token >"$BATS_TEST_TMPDIR/token"
	echo '{"metadata": {"resourceVersion": "7"}}' >"$BATS_TEST_TMPDIR/secret"
	cat >"$BATS_TEST_TMPDIR/bin/curl" <<-'END'
	#!/bin/sh
	cat >/dev/null
	for word; do
		case $word in @*) body=${word#@} ;; https*) url=$word ;; esac
	done
	name=${url##*certificatesigningrequests/} name=${name%%/*}
	case $url in
	*/secrets/*)
		[ ! "${body:-}" ] || cp "$body" "$API/secret"
		cat "$API/secret" ;;
	*watch=1*)
		cat "$API/events"
		[ -e "$API/next-secret" ] || exec tail -f /dev/null
		mv "$API/next-secret" "$API/secret" ;;
	*/approval | */status) cp "$body" "$API/put/$name${url##*/}"; cat "$body" ;;
	*) cat "$API/requests/$name" ;;
	esac
	END
	chmod +x "$BATS_TEST_TMPDIR/bin/curl"
}

# In a PID namespace, which ends with its first process.
start_signer() {
	TMPDIR=$BATS_TEST_TMPDIR/tmp API=$BATS_TEST_TMPDIR NAMESPACE=boot REQUESTER=nodes AUTHORITY=a \
		MAKE_AUTHORITY=1 DAYS=9 KUBERNETES_SERVICE_HOST=h KUBERNETES_SERVICE_PORT=1 \
		PATH=$BATS_TEST_TMPDIR/bin:$PATH unshare -pf --kill-child \
		sh "$BATS_TEST_TMPDIR/bin/node-certificate" sign >"$BATS_TEST_TMPDIR/log" 2>&1 3>&- 4>&- &
	signer=$!
}

stop_signer() {
	kill -9 "$signer"
	wait "$signer" || :
}

# certificate_request NAME USER NODES: as the API server keeps it; the request wants node9.
certificate_request() {
	openssl req -new -newkey ed25519 -nodes -keyout "$BATS_TEST_TMPDIR/key" -subj /CN=node9 \
		-addext subjectAltName=URI:bootseer://node/node9 2>/dev/null |
		jq -Rsc --arg name "$1" --arg user "$2" --argjson nodes "$3" '
			{kind: "CertificateSigningRequest", metadata: {name: $name}, status: {},
			 spec: {username: $user, request: @base64,
				extra: {"authentication.kubernetes.io/node-name": $nodes}}}' \
			>"$BATS_TEST_TMPDIR/requests/$1"
	jq -c '{type: "ADDED", object: .}' "$BATS_TEST_TMPDIR/requests/$1" >>"$BATS_TEST_TMPDIR/events"
}

# last_request FILTER [event]: the last request and its event, or the event alone, put through it.
last_request() {
	jq -c ".object |= ($1)" <<<"$(tail -n 1 "$BATS_TEST_TMPDIR/events")" >"$BATS_TEST_TMPDIR/last"
	sed -i '$d' "$BATS_TEST_TMPDIR/events"
	cat "$BATS_TEST_TMPDIR/last" >>"$BATS_TEST_TMPDIR/events"
	[ "${2:-}" = event ] || jq .object "$BATS_TEST_TMPDIR/last" \
		>"$BATS_TEST_TMPDIR/requests/$(jq -r .object.metadata.name "$BATS_TEST_TMPDIR/last")"
}

@test "chart: the signer names a node as the API server does, and gives others nothing" {
	fake_api
	account=system:serviceaccount:boot:nodes
	certificate_request other system:serviceaccount:else:nodes '["node1"]'
	certificate_request nowhere "$account" '[]'
	certificate_request both "$account" '["node1", "node2"]'
	certificate_request strange "$account" '["a,URI:bootseer://node/b"]'
	certificate_request broken "$account" '["node3"]'
	last_request '.spec.request = ("rubbish" | @base64)'
	certificate_request unsigned "$account" '["node3"]'
	last_request '.spec.request |= (@base64d |
		sub("[A-Za-z0-9+/]{4}(?<end>=*\n-----END)"; "AAAA" + .end) | @base64)'
	# Its name has a line that is another request, of a node that did not ask.
	certificate_request forged "$account" '["node1"]'
	last_request '.metadata.name = "x\nforged victim \(.spec.request)\ny"' event
	# The object itself counts, and not the event about it.
	certificate_request good "$account" '["node1.internal"]'
	last_request '.spec.extra[] = ["node7"]' event
	start_signer
	wait_for test -s "$BATS_TEST_TMPDIR/put/goodstatus"
	stop_signer
	run ! grep -r victim "$BATS_TEST_TMPDIR/put" "$BATS_TEST_TMPDIR/log"
	for name in x y forged; do
		[ ! -e "$BATS_TEST_TMPDIR/put/${name}approval" ]
	done
	for name in other nowhere both strange broken unsigned; do
		[ "$(jq -r '.status.conditions[].type' "$BATS_TEST_TMPDIR/put/${name}approval")" = Denied ]
		[ ! -e "$BATS_TEST_TMPDIR/put/${name}status" ]
	done
	jq -r '.status.certificate | @base64d' "$BATS_TEST_TMPDIR/put/goodstatus" >"$BATS_TEST_TMPDIR/pem"
	names=$(openssl x509 -in "$BATS_TEST_TMPDIR/pem" -noout -ext subjectAltName,basicConstraints)
	[[ $names == *'URI:bootseer://node/node1.internal'* && $names == *CA:FALSE* ]]
	[[ $names != *node9* ]]
	jq -r '.data["tls.crt"] | @base64d' "$BATS_TEST_TMPDIR/secret" >"$BATS_TEST_TMPDIR/ca"
	openssl verify -CAfile "$BATS_TEST_TMPDIR/ca" "$BATS_TEST_TMPDIR/pem"
}

signed_by_next() {
	jq -r '.status.certificate | @base64d' "$BATS_TEST_TMPDIR/put/goodstatus" >"$BATS_TEST_TMPDIR/pem"
	openssl verify -CAfile "$BATS_TEST_TMPDIR/next.crt" "$BATS_TEST_TMPDIR/pem"
}

# The authority changes at the end of the first watch.
@test "chart: the signer signs by the authority that the secret has now" {
	fake_api
	certificate_request good system:serviceaccount:boot:nodes '["node1"]'
	openssl req -x509 -newkey ed25519 -nodes -subj /CN=next -keyout "$BATS_TEST_TMPDIR/next.key" \
		-out "$BATS_TEST_TMPDIR/next.crt"
	jq -n --rawfile key "$BATS_TEST_TMPDIR/next.key" --rawfile crt "$BATS_TEST_TMPDIR/next.crt" \
		'{data: {"tls.key": ($key | @base64), "tls.crt": ($crt | @base64)}}' \
		>"$BATS_TEST_TMPDIR/next-secret"
	start_signer
	wait_for signed_by_next
	stop_signer
}

# A copy of node-agent whose node and configuration are folders of the test. The installation ends
# where it would put units of systemd on the node, as the chart's home is empty.
fake_node() {
	mkdir -p "$BATS_TEST_TMPDIR"/{bin,config,home,secret,node/etc/bootseer,node/run/systemd/system}
	sed "s|^node=.*|node=$BATS_TEST_TMPDIR/node|; s|/tmp/config|$BATS_TEST_TMPDIR/made|g
		s| /config/| $BATS_TEST_TMPDIR/config/|; s| /secret/| $BATS_TEST_TMPDIR/secret/|g" \
		"$TOP/deploy/image/node-agent" >"$BATS_TEST_TMPDIR/bin/node-agent"
	cp "$TOP/deploy/image/kube-api" "$BATS_TEST_TMPDIR/bin"
	printf '#!/bin/sh\necho "nobody signs" >&2\nexit 1\n' >"$BATS_TEST_TMPDIR/bin/node-certificate"
	chmod +x "$BATS_TEST_TMPDIR"/bin/*
	echo 'p2p-tls = "/etc/bootseer/peers";' >"$BATS_TEST_TMPDIR/config/bootseerd.conf"
}

install_fake() { # VARIABLE...
	env BOOTSEER_HOME="$BATS_TEST_TMPDIR/home" NODE_ACTION=install NODE_NAME=n HOST_IP=192.0.2.1 \
		PATH="$BATS_TEST_TMPDIR/bin:$PATH" "$@" sh "$BATS_TEST_TMPDIR/bin/node-agent" node
}

@test "chart: a node without a certificate gets no configuration that names one" {
	fake_node
	run ! install_fake PEERS_DAYS=90
	[ "$output" = 'nobody signs' ]
	run -0 ls -A "$BATS_TEST_TMPDIR/node/etc/bootseer"
	[ -z "$output" ]
}

@test "chart: a node without systemd takes no pods=all, since it could start none after a reboot" {
	fake_node
	rmdir "$BATS_TEST_TMPDIR/node/run/systemd/system"
	run -1 install_fake NODE_PODS=all
	[[ $output == *'node.pods=all and node.unpack need systemd'*'use node.pods=runtime'* ]]
	run -0 ls -A "$BATS_TEST_TMPDIR/node/etc/bootseer"
	[ -z "$output" ]
}

# The daemon is a real one, in namespaces of processes and mounts where /opt is empty.
@test "chart: without systemd another version of bootseerd is started by the holder that is there" {
	mkdir -p "$BATS_TEST_TMPDIR/etc"
	cp "$TOP/deploy/image/kube-api" "$BATS_TEST_TMPDIR"
	printf 'root = "%s/root";\nrun = "%s/run";\n' "$BATS_TEST_TMPDIR" "$BATS_TEST_TMPDIR" \
		>"$BATS_TEST_TMPDIR/etc/bootseerd.conf"
	{
		sed "/^case \$1 in/,\$d; s|/etc/bootseer/|$BATS_TEST_TMPDIR/etc/|; s|/var/log|$BATS_TEST_TMPDIR|" \
			"$TOP/deploy/image/node-agent"
		printf '%s\n' 'leave_pod() { :; }' 'has_systemd() { false; }' changed= copy_programs \
			'start_daemon bootseerd'
	} >"$BATS_TEST_TMPDIR/agent"
	export AGENT=$BATS_TEST_TMPDIR/agent PROGRAM=$BOOTSEER_BUILD/snapshotter/node/bootseerd
	run -0 --separate-stderr unshare -mpf --mount-proc bash -euc '
		. "$TOP/tests/wait.bash"
		mount -t tmpfs tmpfs /opt
		runs() { # VERSION
			[ "$(readlink "/proc/$(pgrep -P "$(pgrep -o -x bootseerd)")/exe")" = "/opt/bootseer/$1/bin/bootseerd" ]
		}
		for version in 1 2; do
			mkdir -p /opt/bootseer/$version/bin
			cp "$PROGRAM" /opt/bootseer/$version/bin
		done
		for version in 1 2 1; do
			BOOTSEER_HOME=/opt/bootseer/$version sh "$AGENT"
			wait_for runs $version
			pgrep -o -x bootseerd
		done
		# Without its holder it stays, and reads its files again once it is up.
		wait_for env BOOTSEER_SOCKET="$BATS_TEST_TMPDIR/run/bootseerd.sock" \
			"$BOOTSEER_BUILD/cli/bootseer" node status >&2
		kill -9 "$(pgrep -o -x bootseerd)"
		wait_for grep -q "the holder ended" "$BATS_TEST_TMPDIR/bootseer.log"
		BOOTSEER_HOME=/opt/bootseer/2 sh "$AGENT"
		wait_for grep -q "reloaded what=" "$BATS_TEST_TMPDIR/bootseer.log"
		[ "$(readlink "/proc/$(pgrep -x bootseerd)/exe")" = /opt/bootseer/1/bin/bootseerd ]' 3>&- 4>&-
	[ "$(sort -u <<<"$output" | wc -l)" -eq 1 ]
	[[ $stderr == *"bootseerd's holder has ended"* ]]
}

# The node's programs are fakes, as the node is.
@test "chart: what a node lacks is said once" {
	fake_node
	sed -i "s|/tmp/doctor|$BATS_TEST_TMPDIR/said|" "$BATS_TEST_TMPDIR/bin/node-agent"
	jq -n '{checks: [{name: "disk", ok: true, needed: true, detail: "d", cure: ""},
		{name: "peers", ok: false, needed: false, detail: "none", cure: "mend it"}]}' \
		>"$BATS_TEST_TMPDIR/answer"
	printf '#!/bin/sh\ncat %s\n' "$BATS_TEST_TMPDIR/answer" >"$BATS_TEST_TMPDIR/bin/nsenter"
	chmod +x "$BATS_TEST_TMPDIR/bin/nsenter"
	doctor() {
		BOOTSEER_HOME=/ PATH=$BATS_TEST_TMPDIR/bin:$PATH \
			sh "$BATS_TEST_TMPDIR/bin/node-agent" doctor
	}
	run -0 doctor
	[ "$output" = 'doctor: advice peers: none; cure: mend it' ]
	run -0 doctor
	[ -z "$output" ]
	# Figures are no news.
	sed -i 's/"none"/"81 %"/' "$BATS_TEST_TMPDIR/answer"
	run -0 doctor
	[ -z "$output" ]
	# A node that does not answer has said nothing new.
	echo >"$BATS_TEST_TMPDIR/answer"
	run -0 doctor
	[ -z "$output" ]
}

# A container as containerd starts it: begin_task ID POD OVERLAY [KIND].
begin_task() {
	local dir=$N/run/containerd/io.containerd.runtime.v2.task/k8s.io/$1

	mkdir -p "$dir"
	jq -n --arg pod "$2" --arg kind "${4:-container}" '{annotations: {
		"io.kubernetes.cri.container-type": $kind, "io.kubernetes.cri.container-name": "c",
		"io.kubernetes.cri.sandbox-namespace": "team", "io.kubernetes.cri.sandbox-name": $pod,
		"io.kubernetes.cri.sandbox-uid": "u-1", "io.kubernetes.cri.image-name": "r.example/app:1"}}' \
		>"$dir/config.json"
	echo "9 1 0:9 / /run/containerd/io.containerd.runtime.v2.task/k8s.io/$1/rootfs rw - overlay overlay rw,$3" \
		>>"$N/proc/1/mountinfo"
}

# Of each event that was posted since: REASON POD MESSAGE.
look_at_pods() {
	rm -f "$BATS_TEST_TMPDIR"/event.*
	NODE_ROOT=$N NODE_NAME=n1 KUBERNETES_SERVICE_HOST=api KUBERNETES_SERVICE_PORT=443 PATH=$BATS_TEST_TMPDIR/bin:$PATH \
		busybox sh "$BATS_TEST_TMPDIR/bin/pod-events" "$BATS_TEST_TMPDIR/pods" || return
	cat "$BATS_TEST_TMPDIR"/event.* 2>/dev/null |
		jq -r '"\(.reason) \(.involvedObject.name) \(.message)"'
}

@test "chart: pods have events of how their containers started, a bounded number" {
	N=$BATS_TEST_TMPDIR/node
	mkdir -p "$N/proc/1" "$BATS_TEST_TMPDIR/bin"
	cp "$TOP"/deploy/image/{pod-events,kube-api} "$BATS_TEST_TMPDIR/bin"
	sed -i "s|^account=.*|account=$N|" "$BATS_TEST_TMPDIR/bin/kube-api"
	touch "$N/token"
	cat >"$BATS_TEST_TMPDIR/bin/node-agent" <<-END
		#!/bin/sh
		cat "$BATS_TEST_TMPDIR/\$3"
	END
	cat >"$BATS_TEST_TMPDIR/bin/curl" <<-END
		#!/bin/sh
		cat >/dev/null
		[ ! -e "$BATS_TEST_TMPDIR/refused" ] || { echo no right; exit 22; }
		for file; do :; done
		while [ \$# -gt 1 ]; do
			[ "\$1" != --data-binary ] || cp "\${2#@}" "\$(mktemp $BATS_TEST_TMPDIR/event.XXXXXX)"
			shift
		done
	END
	chmod +x "$BATS_TEST_TMPDIR"/bin/*
	echo '{"starts": [{"start": 5, "id": "sha256:aa", "user": "snapshotter/i/7"}], "untrusted": [
		{"image": "r.example/app@sha256:bb", "reason": "no rule", "cure": "give one"}]}' \
		>"$BATS_TEST_TMPDIR/status"
	lazy=lowerdir=/run/bootseer/m,upperdir=/var/lib/bootseer-snapshotter/snapshots/7/fs,workdir=w
	begin_task old old "$lazy"
	run -0 look_at_pods
	[ -z "$output" ]
	begin_task lazy lazy "$lazy"
	begin_task ordinary ordinary \
		lowerdir=3/fs,upperdir=/var/lib/bootseer-snapshotter/snapshots/8/fs,workdir=w
	begin_task other other lowerdir=a,upperdir=/var/lib/containerd/snapshots/8/fs
	begin_task sandbox lazy "$lazy" sandbox
	begin_task hostile '../x y' "$lazy"
	run -0 look_at_pods
	echo "$output"
	[ "$(sort <<<"$output")" = "LazyStart lazy container c starts lazily: files of r.example/app:1 \
come when they are read
OrdinaryStart ordinary container c starts the ordinary way: r.example/app@sha256:bb: no rule; cure: give one" ]
	cat "$BATS_TEST_TMPDIR"/event.* | jq -se 'map(.metadata.namespace == "team" and
		.involvedObject.uid == "u-1" and .source.host == "n1") == [true, true]'
	# Under way, and over.
	run -0 look_at_pods
	[ -z "$output" ]
	echo '{"starts": [{"start": 5, "end": "ready", "ready_ms": 4200, "waited_ms": 300,
		"watched": true, "read_bytes": 188743680, "missed_bytes": 2097152}]}' >"$BATS_TEST_TMPDIR/explain"
	echo '{"starts": [], "untrusted": []}' >"$BATS_TEST_TMPDIR/status"
	run -0 look_at_pods
	[ "$output" = 'StartFinished lazy container c: ready after 4.2 s, waited 0.3 s for the prefetch;'\
' of 180 MiB that it read it had to wait for 2 MiB' ]
	# What the API server does not take is told once, and lost.
	touch "$BATS_TEST_TMPDIR/refused"
	begin_task more-1 more-1 "$lazy"
	begin_task more-2 more-2 "$lazy"
	run -0 look_at_pods
	[ "$output" = 'pod-events: events are lost: no right' ]
	rm "$BATS_TEST_TMPDIR/refused"
	# A namespace has 200 in an hour: 198 and those before.
	{ head -n 1 "$BATS_TEST_TMPDIR/pods/said"; yes 'ns team' | head -n 199; } \
		>"$BATS_TEST_TMPDIR/said"
	mv "$BATS_TEST_TMPDIR/said" "$BATS_TEST_TMPDIR/pods/said"
	begin_task more-3 more-3 "$lazy"
	begin_task more-4 more-4 "$lazy"
	run -0 look_at_pods
	[ "${#lines[@]}" = 1 ]
}

@test "chart: a node that is told of no peers asks anew when it is told of some" {
	fake_node
	mkdir "$BATS_TEST_TMPDIR/node/etc/bootseer/peers"
	run ! install_fake
	[ -e "$BATS_TEST_TMPDIR/node/etc/bootseer/bootseerd.conf" ]
	[ -e "$BATS_TEST_TMPDIR/node/etc/bootseer/peers/stale" ]
}

# One whose daemons come, too: what is run on it is noted in $calls, and fails where it is told to.
fake_whole_node() {
	fake_node
	calls=$BATS_TEST_TMPDIR/calls
	mkdir -p "$BATS_TEST_TMPDIR"/{home/units,node"$BATS_TEST_TMPDIR"/home,node/run/bootseer,node/etc/systemd/system}
	touch "$BATS_TEST_TMPDIR"/home/units/{bootseerd,bootseer-snapshotter}.service
	python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' \
		"$BATS_TEST_TMPDIR/node/run/bootseer/snapshotter.sock"
	cat >"$BATS_TEST_TMPDIR/bin/nsenter" <<-END
		#!/bin/sh
		echo "\$*" >>$calls
		case "\$*" in
		*' daemon-reload') [ ! -e "$BATS_TEST_TMPDIR/down" ] ;;
		*--mirror*) [ ! -e "$BATS_TEST_TMPDIR/refused" ] ;;
		*' node join '*) [ ! -e "$BATS_TEST_TMPDIR/refused-all" ] ;;
		esac
	END
	chmod +x "$BATS_TEST_TMPDIR/bin/nsenter"
}

told() { # VARIABLE...
	install_fake NODE_PODS=all NODE_CONTAINERD_RESTART=x NODE_CONTAINERD_FILE=x \
		NODE_CONTAINERD_SOCKET=x "$@"
}

@test "chart: daemons are started again where the installation before had failed before it came to that" {
	fake_whole_node
	run -0 told
	rm "$calls"
	run -0 told
	run ! grep 'systemctl restart' "$calls"
	echo '# more' >>"$BATS_TEST_TMPDIR/config/bootseerd.conf"
	touch "$BATS_TEST_TMPDIR/down"
	run ! told
	run ! grep 'systemctl restart' "$calls"
	rm "$BATS_TEST_TMPDIR/down"
	run -0 told
	grep 'systemctl restart bootseerd$' "$calls"
	rm "$calls"
	run -0 told
	run ! grep 'systemctl restart' "$calls"
}

@test "chart: containerd is told of the mirror, and a node where it cannot be told goes on without" {
	fake_whole_node
	run -0 told NODE_MIRROR='_default r.example' NODE_UNPACK=1
	run ! grep -q 'does not ask' <<<"$output"
	grep -q ' node join .* --mirror _default --mirror r.example --unpack$' "$calls"
	rm "$calls"
	run -0 told
	run ! grep -q -e --mirror -e --unpack "$calls"
	touch "$BATS_TEST_TMPDIR/refused"
	run -0 told NODE_MIRROR=_default NODE_UNPACK=1
	[[ $output == *'does not ask the mirror'* ]]
	grep ' node join ' "$calls" | tail -n 1 | grep -qv -e --mirror -e --unpack
	# A node that has not joined is not installed, with the mirror or without.
	touch "$BATS_TEST_TMPDIR/refused-all"
	run -1 told NODE_MIRROR=_default
	run ! grep -q 'does not ask' <<<"$output"
	run -1 told
}

# What is run on the node is noted, and its volumes are none.
@test "chart: the removal leaves what packages of the node have" {
	fake_node
	etc=$BATS_TEST_TMPDIR/node/etc/bootseer calls=$BATS_TEST_TMPDIR/calls
	mkdir -p "$BATS_TEST_TMPDIR/node$BATS_TEST_TMPDIR/home" "$etc/peers" \
		"$BATS_TEST_TMPDIR/node/usr/sbin"
	printf '#!/bin/sh\necho "$*" >>%s\ncase "$*" in *vol_data*) exit 1 ;; esac\n' "$calls" \
		>"$BATS_TEST_TMPDIR/bin/nsenter"
	chmod +x "$BATS_TEST_TMPDIR/bin/nsenter"
	touch "$etc"/{events,bootseerd,snapshotter}.conf "$etc/trust.pem" "$BATS_TEST_TMPDIR/secret/trust.pem" \
		"$BATS_TEST_TMPDIR/node/usr/sbin/bootseer-events"
	remove_fake() {
		env NODE_ACTION=remove NODE_CONTAINERD_RESTART=x NODE_CONTAINERD_FILE=x \
			NODE_CONTAINERD_SOCKET=x BOOTSEER_HOME="$BATS_TEST_TMPDIR/home" \
			PATH="$BATS_TEST_TMPDIR/bin:$PATH" sh "$BATS_TEST_TMPDIR/bin/node-agent" node
	}
	remove_fake
	run -0 ls "$etc"
	[ "$output" = events.conf ]
	grep -q ' rm .*/var/lib/bootseer ' "$calls"
	run ! grep -q ' rm .*bootseer-events' "$calls"
	# A node without packages keeps nothing.
	rm "$BATS_TEST_TMPDIR/node/usr/sbin/bootseer-events"
	remove_fake
	[ ! -e "$etc" ]
	grep -q ' rm .*/var/lib/bootseer-events$' "$calls"
}

@test "chart: pods of a node without programs hold up no removal" {
	local action

	fake_node
	for action in leave remove; do
		install_fake NODE_ACTION=$action
		env BOOTSEER_HOME=/none NODE_ACTION=$action sh "$BATS_TEST_TMPDIR/bin/node-agent" ready
	done
	run ! env BOOTSEER_HOME=/none NODE_ACTION=install sh "$BATS_TEST_TMPDIR/bin/node-agent" ready
}

# An API server with DaemonSets whose pods do at once what they are told.
@test "chart: where every pod is lazy the first removal has all nodes leave, and the second removes" {
	local calls=$BATS_TEST_TMPDIR/calls

	mkdir -p "$BATS_TEST_TMPDIR/bin"
	touch "$BATS_TEST_TMPDIR/token"
	sed "s|/tmp/daemonset|$BATS_TEST_TMPDIR/daemonset|g" "$TOP/deploy/image/node-agent" \
		>"$BATS_TEST_TMPDIR/bin/node-agent"
	sed "s|^account=.*|account=$BATS_TEST_TMPDIR|" "$TOP/deploy/image/kube-api" \
		>"$BATS_TEST_TMPDIR/bin/kube-api"
	cat >"$BATS_TEST_TMPDIR/bin/curl" <<-'END'
	#!/bin/sh
	cat >/dev/null
	while [ $# -gt 1 ]; do
		case $1 in -X) method=$2 ;; -d) body=$2 ;; esac
		shift
	done
	at=$API/${1##*/}
	[ -e "$at" ] || exit 22
	case $method in
	PATCH)
		echo "${1##*/} $(printf %s "$body" | jq -c '[.. | strings]')" >>"$API/calls"
		printf %s "$body" | jq -s '.[0] * .[1]' "$at" - >"$at.new"
		mv "$at.new" "$at" ;;
	esac
	cat "$at"
	END
	chmod +x "$BATS_TEST_TMPDIR"/bin/*
	jq -n '{metadata: {generation: 1}, spec: {template: {spec: {initContainers: [
		{env: [{name: "NODE_ACTION", value: "install"}]}]}}}, status: {observedGeneration: 1,
		desiredNumberScheduled: 2, updatedNumberScheduled: 2, numberReady: 2}}' |
		tee "$BATS_TEST_TMPDIR/b-node" >"$BATS_TEST_TMPDIR/b-csi"
	remove_all() {
		env API="$BATS_TEST_TMPDIR" NAMESPACE=n DAEMONSET=b-node KUBERNETES_SERVICE_HOST=h \
			KUBERNETES_SERVICE_PORT=1 BOOTSEER_HOME=/none PATH="$BATS_TEST_TMPDIR/bin:$PATH" \
			"$@" sh "$BATS_TEST_TMPDIR/bin/node-agent" remove-all
	}
	run -1 remove_all NODE_PODS=all CSI=b-csi
	[[ $output == *'drain each node, so that'*'run the same command again' ]]
	run -0 remove_all NODE_PODS=all CSI=b-csi
	# Helm may have ended before the hook: the same again goes on.
	run -0 remove_all NODE_PODS=all CSI=b-csi
	diff <(sed -E 's/"[0-9]{10}"/"TIME"/' "$calls") - <<-'END'
	b-node ["install","NODE_ACTION","leave","node","NODE_ACTION","leave"]
	b-csi ["TIME"]
	b-node ["1"]
	b-node ["install","NODE_ACTION","remove","node","NODE_ACTION","remove"]
	b-node ["install","NODE_ACTION","remove","node","NODE_ACTION","remove"]
	END
	# Installed again meanwhile: nodes have not left any more, nor where telling them fails.
	jq '.spec.template.spec.initContainers[0].env[0].value = "install" |
		.metadata.annotations["bootseer/left"] = "1"' "$BATS_TEST_TMPDIR/b-node" >"$BATS_TEST_TMPDIR/again"
	mv "$BATS_TEST_TMPDIR/again" "$BATS_TEST_TMPDIR/b-node"
	run ! remove_all NODE_PODS=all CSI=b-none
	run -1 remove_all NODE_PODS=all CSI=b-csi
	[[ $output == *'drain each node'* ]]
	rm "$calls"
	run -0 remove_all NODE_PODS=runtime
	[ "$(wc -l <"$calls")" -eq 1 ]
}

@test "chart: with PostgreSQL the service is a Deployment of several replicas" {
	render --set registry.enabled=true --set registry.postgresSecretName=db \
		--set registry.replicas=3 --set registry.tlsSecretName=tls >"$BATS_TEST_TMPDIR/out"
	grep -q '^kind: Deployment' "$BATS_TEST_TMPDIR/out"
	run ! grep -q '^kind: StatefulSet' "$BATS_TEST_TMPDIR/out"
	grep -q 'replicas: 3' "$BATS_TEST_TMPDIR/out"
}

# Only the removal asks the API server about the one DaemonSet, for peers the nodes and their
# signer about certificates, recoveries about nodes, and nodes make events.
@test "chart: rights are the fewest, and only what works on nodes is privileged" {
	render --set csi.enabled=true --set registry.enabled=true --set registry.tlsSecretName=tls \
		--set events.enabled=true --set monitoring.enabled=true >"$BATS_TEST_TMPDIR/out"
	[ "$(grep -c '^kind: Role$' "$BATS_TEST_TMPDIR/out")" -eq 1 ]
	# Of all pods' rights that reach beyond the namespace: nodes make events.
	awk '/^kind: ClusterRole$/,/^---/' "$BATS_TEST_TMPDIR/out" | grep -A3 '^rules:' |
		diff - <(printf '%s\n' rules: '  - apiGroups: [""]' '    resources: [events]' \
			'    verbs: [create]')
	render --set node.podEvents=false >"$BATS_TEST_TMPDIR/none"
	run ! grep '^kind: Cluster' "$BATS_TEST_TMPDIR/none"
	grep -q 'verbs: \[get, patch\]' "$BATS_TEST_TMPDIR/out"
	[ "$(grep -c 'automountServiceAccountToken: false' "$BATS_TEST_TMPDIR/out")" -eq 4 ]
	[ "$(grep -c 'privileged: true' "$BATS_TEST_TMPDIR/out")" -eq 4 ]
	render "${ALL[@]}" >"$BATS_TEST_TMPDIR/out"
	run ! grep -E 'verbs:.*\*|resources:.*\*' "$BATS_TEST_TMPDIR/out"
	[ "$(grep -c '^kind: ClusterRole$' "$BATS_TEST_TMPDIR/out")" -eq 3 ]
	[ "$(grep -A2 'resources: \[nodes\]' "$BATS_TEST_TMPDIR/out" | grep -c 'verbs: \[get, list, patch\]')" -eq 1 ]
	[ "$(grep -c 'automountServiceAccountToken: false' "$BATS_TEST_TMPDIR/out")" -eq 5 ]
	[ "$(grep -c 'privileged: true' "$BATS_TEST_TMPDIR/out")" -eq 4 ]
	awk '/^kind: StatefulSet/,/^---/' "$BATS_TEST_TMPDIR/out" >"$BATS_TEST_TMPDIR/registry"
	run ! grep privileged "$BATS_TEST_TMPDIR/registry"
	awk '/^  name: bootseer-convert$/,/^---/' "$BATS_TEST_TMPDIR/out" >"$BATS_TEST_TMPDIR/convert"
	for pod in registry convert; do
		grep -q 'runAsNonRoot: true' "$BATS_TEST_TMPDIR/$pod"
	done
}
