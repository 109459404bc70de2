#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Pull secrets that the chart's pod reads from the API server: a fake one with rights, as a role gives
# them; real containerd; a registry that wants a login and writes down what it was asked.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../containerd/lib.bash"
. "$BATS_TEST_DIRNAME/../containerd/private.bash"

setup_file() { private_setup_file; }

setup() {
	private_setup
	A=$T/api
	mkdir -p "$A" "$T/bin" "$T/n/run/bootseer"
	ln -s "$T/noderun/bootseerd.sock" "$T/n/run/bootseer/bootseerd.sock"
	printf '%s\n' "list $(pods team)" "watch $(pods team)" "get $(secrets team pull)" \
		"list $(pods evil)" "watch $(pods evil)" "get $(secrets evil pull)" >"$A/rights"
	start_daemon "$A/err" "$BATS_TEST_DIRNAME/kube-secrets.py" "$A" "$A/port"
	api_pid=$daemon_pid
	wait_until "$api_pid" test -s "$A/port"
	cp "$BATS_TEST_DIRNAME"/../../deploy/image/{pod-logins,kube-api} "$T/bin"
	sed -i "s|^account=.*|account=$A|; s|https://|http://|" "$T/bin/kube-api"
	sed -i '1s|.*|#!/usr/bin/env -S busybox sh|' "$T/bin/pod-logins"
	echo a-token >"$A/token"
}

teardown() {
	local pid

	for pid in $(pgrep -P "${logins_pid:-$$}" -f pod-logins); do kill -KILL -- "-$pid" || :; done
	containerd_teardown
}

pods() { echo "/api/v1/namespaces/$1/pods"; } # NAMESPACE
secrets() { echo "/api/v1/namespaces/$1/secrets/$2"; } # NAMESPACE NAME

put() { # PATH < OBJECT
	curl -fsS -X PUT --data-binary @- "http://127.0.0.1:$(cat "$A/port")/test$1"
}

delete() { curl -fsS -X DELETE "http://127.0.0.1:$(cat "$A/port")/test$1"; } # PATH

put_secret() { # NAMESPACE NAME PASSWORD
	jq -n --arg at "$REGISTRY" --arg auth "$(printf 'tenant:%s' "$3" | base64 -w0)" '{kind: "Secret",
		type: "kubernetes.io/dockerconfigjson", data: {".dockerconfigjson":
		({auths: {($at): {auth: $auth}}} | tojson | @base64)}}' | put "$(secrets "$1" "$2")"
}

put_pod() { # NAMESPACE NAME [IMAGE [SECRET [NODE]]]
	jq -n --arg name "$2" --arg image "${3:-$REGISTRY/lazy:1}" --arg secret "${4:-pull}" \
		--arg node "${5:-n1}" '{metadata: {name: $name, creationTimestamp: (now | todate)},
		spec: {nodeName: $node, imagePullSecrets: [{name: $secret}], containers: [{image: $image}]},
		status: {phase: "Pending"}}' | put "$(pods "$1")/$2"
}

start_all() { # [OPTION OF BOOTSEERD...]
	start_node --log-level debug "$@"
	start_plugin --node-timeout 5m
	start_containerd
}

start_logins() { # [SECRETS]
	start_daemon "$T/logins.log" env NODE_ROOT="$T/n" NODE_NAME=n1 KUBERNETES_SERVICE_HOST=127.0.0.1 \
		KUBERNETES_SERVICE_PORT="$(cat "$A/port")" PULL_SECRETS="${1:-team/pull evil/pull}" \
		"$T/bin/pod-logins"
	logins_pid=$daemon_pid
}

# The last that bootseerd was told of.
has_logins() { # NUMBER
	[[ $(grep 'pull secrets' "$T/node.log" | tail -n 1) == *" logins=$1" ]]
}

wait_logins() { wait_until "$logins_pid" has_logins "$1"; }

# The kubelet's pull, straight at containerd.
pull_as() { # NAMESPACE PASSWORD
	CRI_USER=tenant CRI_PASSWORD=$2 cri pull-as "$1" "$REGISTRY/lazy:1"
}

@test "a pod's pull secret is read by the API, and another namespace gets nothing by it" {
	start_all
	start_logins
	put_secret team pull "$CANARY"
	put_secret evil pull wrong
	put_pod team app
	wait_logins 1
	pull_as team "$CANARY"
	[ "$(gets)" -eq 0 ]
	: >"$T/registry.log"
	put_pod evil thief
	wait_logins 2
	for password in wrong ''; do
		run pull_as evil "$password"
		[ "$status" -ne 0 ]
		[[ $output != *"$CANARY"* ]]
	done
	run cri pull "$REGISTRY/lazy:1"
	[ "$status" -ne 0 ]
	grep -q '/v2/lazy/manifests' "$T/registry.log" # it was asked
	run ! grep -E '"(GET|HEAD) /v2/lazy/(manifests|blobs)/[^"]*" 200' "$T/registry.log"
	read_all
	[ "$(layer_gets "$I" lazy)" -eq 0 ]
	no_canary
	run ! grep -F "$CANARY" "$T/logins.log"
	[ ! -e "$T/noderoot/logins" ]
}

@test "a secret is read while a pod of this node names it, and for that pod's images" {
	start_all
	put_secret team pull "$CANARY"
	put_secret team other "$CANARY"
	put_pod team elsewhere "$REGISTRY/lazy:1" pull n2
	put_pod team unlisted "$REGISTRY/lazy:1" other
	start_logins team/pull
	wait_logins 0
	run ! grep secrets "$A/log"
	put_pod team app "$REGISTRY/another:1"
	wait_logins 1
	grep -qx "get $(secrets team pull) 200" "$A/log"
	# The secret would fit, but none of its pods has this image: it is pulled in full.
	pull_as team "$CANARY"
	[ "$(gets)" -gt 0 ]
	# What there is no right to is asked for by nobody.
	run ! grep -E '/(evil|other)| 40[13]$' "$A/log"
}

@test "a secret that changes counts, one that is gone is forgotten, and a new bootseerd is told" {
	start_all --read-timeout 1s
	start_logins
	put_secret team pull "$CANARY"
	put_pod team app
	wait_logins 1
	pull_as team "$CANARY"
	[ "$(gets)" -eq 0 ]
	# The API server's failure takes nothing away.
	echo 500 | put /fault
	put_pod team more
	wait_until "$logins_pid" grep -q 'as they were: the API server: 500 .fault 500' "$T/logins.log"
	has_logins 1
	echo null | put /fault
	kill_node
	: >"$T/node.log"
	start_node --log-level debug --read-timeout 1s
	wait_logins 1
	delete "$(secrets team pull)"
	put_pod team third
	wait_logins 0
	run read_all
	[ "$status" -ne 0 ]
	may_log_in "tenant:$CANARY-2" "pusher:pushes"
	put_secret team pull "$CANARY-2"
	put_pod team fourth
	wait_logins 1
	read_all
	no_canary
	run ! grep -F "$CANARY" "$T/logins.log"
}

looked_again() { [ "$(grep -c "^get $(secrets evil pull)" "$A/log")" -gt "$1" ]; } # LOOKS

@test "what is no secret of logins is said once, by its name" {
	start_all
	start_logins
	jq -n '{kind: "Secret", type: "Opaque", data: {password: "aHVudGVyMg=="}}' |
		put "$(secrets evil pull)"
	put_secret team pull "$CANARY"
	put_pod evil app
	put_pod evil strange $'\x01bad name'
	jq -n '{metadata: {name: "odd", creationTimestamp: (now | todate)}, spec: {nodeName: "n1",
		imagePullSecrets: [{}, {name: "pull"}], containers: [{image: "a b"}, {image: ""}, {image: "r/x"},
		{image: "oci:a/b"}, {image: "docker-archive:a/b"}]}, status: {}}' | put "$(pods evil)/odd"
	put_pod team app
	wait_logins 1
	wait_until "$logins_pid" grep -q 'no login can be read of these secrets: evil/pull' "$T/logins.log"
	looks=$(grep -c "^get $(secrets evil pull)" "$A/log")
	put_pod team more
	wait_until "$logins_pid" looked_again "$looks"
	[ "$(grep -c 'no login can be read' "$T/logins.log")" -eq 1 ]
	run ! grep -E 'aHVudGVyMg|hunter2' "$T/logins.log" "$T/node.log"
	# Nor is bootseerd ended by a name that is a folder's or a file's here.
	put_secret evil pull wrong
	put_pod evil again
	wait_logins 2
	kill -0 "$node_pid"
}

# All pairs of a name and an image of such a pod, of 50 KB, took minutes of a processor.
@test "a pod that names thousands of images and secrets keeps nobody waiting" {
	start_all
	put_secret team pull "$CANARY"
	put_secret evil pull wrong
	jq -n '{metadata: {name: "much", creationTimestamp: (now | todate)}, spec: {nodeName: "n1",
		imagePullSecrets: [{name: "pull"}, {name: "s\(range(2500))"}],
		containers: [{image: "r/x\(range(2500))"}]}, status: {phase: "Pending"}}' | put "$(pods evil)/much"
	put_pod team app
	start_logins
	wait_logins 1
	wait_until "$logins_pid" grep -q 'pull secrets: images=32 ' "$T/node.log"
}

@test "pods are read page by page, and those at their end not at all" {
	start_all
	put_secret team pull "$CANARY"
	jq -n --arg image "$REGISTRY/lazy:1" '[range(101) | {metadata: {name: "p\(1000 + .)",
		creationTimestamp: (now | todate)}, spec: {nodeName: "n1",
		imagePullSecrets: [select(. == 100) | {name: "pull"}], containers: [{image: $image}]},
		status: {phase: "Running"}}]' >"$T/pods"
	put "$(pods team)" <"$T/pods"
	jq 'map(.metadata.name |= "at-end-\(.) " | .status.phase = ("Failed", "Succeeded"))' "$T/pods" |
		jq -s 'add | to_entries | map(.value.metadata.name += "\(.key)" | .value)' | put "$(pods team)"
	start_logins team/pull
	wait_logins 1
	[ "$(head -n 3 "$A/pages")" = "$(printf "$(pods team) %s\n" 50 50 1)" ]
	run ! grep -vE ' (50|1)$' "$A/pages"
}

@test "a namespace whose pods cannot be read holds up no other, and keeps what it has" {
	start_all
	put_secret team pull "$CANARY"
	put_secret evil pull wrong
	put_pod evil app
	start_logins
	wait_logins 1
	# A right that was taken back takes the logins with it, and is said.
	jq -n --arg path "$(pods evil)" '{($path): 403}' | put /fault
	put_pod evil refused
	wait_logins 0
	wait_until "$logins_pid" grep -q 'pod-logins: the API server: 403 ' "$T/logins.log"
	echo null | put /fault
	put_pod evil again
	wait_logins 1
	jq -n --arg path "$(pods evil)" '{($path): 0}' | put /fault
	put_pod evil held
	put_pod team app
	wait_logins 2
	pull_as team "$CANARY"
	[ "$(gets)" -eq 0 ]
}

# A pod that names all of these secrets, and images with 12 KB of names.
put_pod_with() { # NAMESPACE NAME SECRET...
	jq -n --arg name "$2" --arg image "$REGISTRY/lazy:1" '{metadata: {name: $name, creationTimestamp:
		(now | todate)}, spec: {nodeName: "n1", imagePullSecrets: [$ARGS.positional[] | {name: .}],
		containers: [{image: ($image, "\(range(10; 40)).example/\("x" * 380)")}]}, status:
		{phase: "Pending"}}' --args "${@:3}" | put "$(pods "$1")/$2"
}

@test "secrets of a namespace that are too many bytes or logins are left out, and that is said once" {
	local large=() many=()

	for k in {10..49}; do large+=("large$k"); done
	for k in {0..8}; do many+=("many$k"); done
	for name in "${large[@]}" "${many[@]}"; do
		echo "get $(secrets team "$name")"
	done >>"$A/rights"
	start_all
	jq -n --arg at "$REGISTRY" '[$ARGS.positional[] as $name | {metadata: {name: $name}, kind: "Secret",
		type: "kubernetes.io/dockerconfigjson", data: {".dockerconfigjson": (if $name | test("large")
		then {auths: {other: {auth: ("x" * 16300)}}} else {auths: {($at): {username: "tenant",
		password: "wrong \($name)"}}} end | tojson | @base64)}}]' --args "${large[@]}" "${many[@]}" |
		put "/api/v1/namespaces/team/secrets"
	put_pod_with team app "${large[@]}" "${many[@]}"
	start_logins "$(printf 'team/%s ' "${large[@]}" "${many[@]}" | sed 's/ $//')"
	wait_logins 8
	wait_until "$logins_pid" grep -q '1 logins of team have no room' "$T/logins.log"
	grep -qE 'left out, .* bytes: team/large[0-9]* ' "$T/logins.log"
	run ! grep -q 'left out.*team/many' "$T/logins.log"
	looks=$(grep -c "^get $(secrets team many8)" "$A/log")
	put_pod_with team more "${many[@]}" "${large[@]}"
	wait_until "$logins_pid" looked_again_at many8 "$looks"
	[ "$(grep -c 'have no room' "$T/logins.log")" -eq 1 ]
}

looked_again_at() { [ "$(grep -c "^get $(secrets team "$1")" "$A/log")" -gt "$2" ]; } # SECRET LOOKS

is_alone() { ! pgrep -f "$T/bin/pod-logins" && ! pgrep -f "http://127.0.0.1:$(cat "$A/port")/.*watch=1"; }

# Of pod-logins with one namespace the processes: the first of that, its clock, what looks, the watch.
# The fourth that the first began only waits for them.
processes() {
	local first parts

	first=$(pgrep -P "$logins_pid" -f pod-logins)
	mapfile -t parts < <(pgrep -P "$first")
	echo "$first" "${parts[0]}" "${parts[1]}" "$(pgrep -P "${parts[0]}" -f pod-logins)" "$logins_pid"
}

@test "the processes of a namespace end with any of them, and with their parent" {
	start_all
	for victim in 1 2 3 4 5; do
		: >"$A/log"
		start_logins team/pull
		wait_until "$logins_pid" grep -q "^watch $(pods team) 200" "$A/log"
		wait_until "$logins_pid" grep -q "^list $(pods team) 200" "$A/log"
		kill -KILL "$(processes | cut -d' ' -f$victim)"
		wait_until "$api_pid" is_alone
	done
}

@test "logins go when no secret is listed any more" {
	start_all
	start_logins team/pull
	put_secret team pull "$CANARY"
	put_pod team app
	wait_logins 1
	stop_daemon "$logins_pid"
	start_logins " "
	wait_until "$node_pid" has_logins 0
}
