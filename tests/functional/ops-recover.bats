#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bootseer ops recover on a fake API server; tests/conformance/recover.bats has a real one.

bats_require_minimum_version 1.5.0

. "$BATS_TEST_DIRNAME/../wait.bash"

setup()
{
	W=$(mktemp -d)
	mkdir "$W/bin" "$W/api"
	PATH=$W/bin:$BOOTSEER_BUILD/cli:$PATH
	jq -n '
		def node($n; $more): {key: "/api/v1/nodes/\($n)", value: ({kind: "Node", metadata:
			{name: $n, uid: "uid-\($n)", resourceVersion: "1", labels: {}}, spec: {}, status: {
			addresses: [{type: "InternalIP", address: "10.0.0.\($n[-1:])"}],
			conditions: [{type: "Ready", status: "True"}]}} * $more)};
		[node("gpu1"; {}), node("gpu2"; {spec: {taints: [{key: "gpu", effect: "NoSchedule"}]}}),
		node("gpu3"; {spec: {unschedulable: true}}), node("gpu4"; {}), node("gpu5"; {}),
		node("cp6"; {metadata: {labels: {"node-role.kubernetes.io/control-plane": ""}}}),
		{key: "/apis/batch/v1/namespaces/team/jobs/train", value: {metadata: {resourceVersion: "1"}}}]
		| from_entries' >"$W/api/objects.json"
	"$BATS_TEST_DIRNAME/kube-api.py" "$W/api" "$W/port" &
	wait_for test -s "$W/port"
	# kubectl's answer of a kubeconfig.
	jq -n --arg port "$(<"$W/port")" '{clusters: [{cluster: {server: "http://127.0.0.1:\($port)"}}],
		users: [{user: {token: "a-token"}}]}' >"$W/config"
	printf '#!/bin/sh\necho "$@" >%s/asked\ncat %s/config\n' "$W" "$W" >"$W/bin/kubectl"
	chmod +x "$W/bin/kubectl"
	unset KUBERNETES_SERVICE_HOST
}

teardown()
{
	kill_jobs
	rm -rf --one-file-system "$W"
}

recover() { bootseer ops recover "$@"; }
node() { jq -e --arg n "$1" ".[\"/api/v1/nodes/\" + \$n] | $2" "$W/api/objects.json"; } # NAME FILTER

@test "a node is taken out with who and why, and given back; nothing happens without --do" {
	cp "$W/api/objects.json" "$W/before"
	run -0 --separate-stderr recover --budget 2 --why 'slow NIC' gpu1
	echo "$output"
	[[ $output == "1 of 5 nodes are out now; --budget 2 allows 2; 1 more are wanted"* ]]
	[[ $output == *'recover cordon object="gpu1" by="ops@example" why="slow NIC" result=dry-run'* ]]
	[[ $output == *"nothing was changed: add --do" ]]
	cmp "$W/before" "$W/api/objects.json"
	grep -q 'PATCH /api/v1/nodes/gpu1?.*dryRun=All' "$W/api/log"
	# Busy, changed by somebody else, and so again: the change is made once.
	printf 'PATCH %s\n' 429 409 503 409 429 503 >"$W/api/faults"
	run -0 --separate-stderr recover --budget 2 --why $'slow\n"NIC"\e[2J' 10.0.0.1 --do
	echo "$output"
	[[ $output == *'object="gpu1" by="ops@example" why="slow\n\"NIC\"\u001B[2J" result=done' ]]
	node gpu1 '.spec.unschedulable and (.metadata.annotations["bootseer.io/recover"] | fromjson |
		.by == "ops@example" and .did == "cordon" and .why == "slow?\"NIC\"?[2J")'
	jq -e '[.[] | select(.kind == "Event")] | length == 1 and .[0].involvedObject.uid == "uid-gpu1" and
		.[0].reason == "BootseerTakenOut" and (.[0].message | test("by ops@example: slow"))' "$W/api/objects.json"
	# Given back is what was taken out, and a cordon of somebody else stays.
	run -0 --separate-stderr recover --undo gpu3 gpu9
	[[ $output == *"gpu3 "*"was not taken out by bootseer"*"gpu9 "*"is no node of this cluster"*"no node is to be given back"* ]]
	# A node that somebody else takes out at that moment stays out.
	echo 'PATCH 410' >"$W/api/faults"
	run -1 recover --undo --do
	[[ $output == *"node gpu1: it was given back meanwhile, and taken out anew: it stays out"* ]]
	grep -q 'recover give-back object="gpu1".*result=failed' <<<"$output"
	run -0 --separate-stderr recover --undo --do
	[[ $output == *'give-back object="gpu1" by="ops@example" result=done' ]]
	node gpu1 '.spec == {} and .metadata.annotations == {}'
	node gpu3 .spec.unschedulable
}

@test "never more nodes than the budget, whatever an analysis names" {
	local now

	now=$(date +%s)
	jq -n --argjson t "$now" '{failures: [
		{node: "gpu1", at_s: $t, xid: 79}, {node: "gpu2", at_s: $t, xid: 94},
		{node: "gpu5", at_s: ($t - 200000), xid: 79}], slow: []}' >"$W/few"
	run -0 --separate-stderr recover --findings "$W/few" --budget 40%
	echo "$output"
	[[ $output == *"gpu1 "*"cordon: failed at "*"XID 79, call support"* ]]
	[[ $output != *gpu2* && $output != *gpu5* ]]
	jq -n --argjson t "$now" '{precursors: {failures: [], slow: [("gpu1", "gpu2", "gpu4", "gpu5", "10.0.0.5", "cp6",
		"../../secrets?x=", "a\nb\u001b[2J", "") | {node: ., metric: "m", from_s: 1, to_s: $t, share: -0.2}]}}' >"$W/all"
	cp "$W/api/objects.json" "$W/before"
	rm "$W/api/log"
	for budget in 1 4 99% 79%; do
		run -1 --separate-stderr recover --findings "$W/all" --budget $budget --do
		[[ $stderr == *"5 nodes would be out, and --budget $budget allows "*": none is taken out"* ]]
	done
	echo "$output"
	[[ $output == *"10.0.0.5 "*"is named twice"*"cp6 "*"of the control plane"*"../../secrets?x= "*"is no node"*'a?b?[2J'* ]]
	run ! grep -E 'PATCH|secrets' "$W/api/log"
	jq 'del(.["/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/bootseer-recover"])' "$W/api/objects.json" |
		diff <(jq . "$W/before") -
	# What is out counts, by whom it ever was.
	run -0 recover --why x --act taint gpu2 --budget 2 --do
	node gpu2 '.spec.taints == [{key: "gpu", effect: "NoSchedule"},
		{key: "bootseer.io/suspect", effect: "NoSchedule"}]'
	run -1 recover --why x gpu1 --budget 2 --do
	[[ $output == *"3 nodes would be out"* ]]
	run -0 recover --undo gpu2 --do
	node gpu2 '.spec.taints == [{key: "gpu", effect: "NoSchedule"}]'
	# Another one counts right now.
	jq --arg t "$(date -u +%Y-%m-%dT%H:%M:%S.000000Z)" '.["/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/bootseer-recover"].spec =
		{holderIdentity: "alice", leaseDurationSeconds: 300, renewTime: $t}' "$W/api/objects.json" >"$W/held"
	kill_jobs
	mv "$W/held" "$W/api/objects.json"
	rm "$W/port"
	"$BATS_TEST_DIRNAME/kube-api.py" "$W/api" "$W/port" &
	wait_for test -s "$W/port"
	sed -i "s|127.0.0.1:[0-9]*|127.0.0.1:$(<"$W/port")|" "$W/config"
	run -1 recover --why x gpu1 --budget 2 --do
	[[ $output == *"'alice' recovers nodes right now"* ]]
}

@test "a server that forbids, or is of nobody's trust, is told from one that is done" {
	printf 'PATCH 403\n' >"$W/api/faults"
	run -1 --separate-stderr recover --budget 2 --why x gpu1 --do
	[[ $stderr == *"node gpu1: "*"answered 403: fault 403?[2J; docs/analysis.md has the rights"* ]]
	[[ $output == *"result=failed error="* ]]
	node gpu1 '.spec == {}'
	sed -i 's/a-token/no-token/' "$W/config"
	run -1 recover --why x gpu1
	[[ $output == *"answered 401"*"log in anew"* ]]
	sed -i 's|http://127.0.0.1|http://192.0.2.1|' "$W/config"
	run -1 recover --why x gpu1
	[[ $output == *"would get orders in the clear"* ]]
	jq '.users[0].user = {"as": "root", token: "x"}' "$W/config" >"$W/as"
	mv "$W/as" "$W/config"
	run -1 recover --why x gpu1
	[[ $output == *"the kubeconfig has as, which is not done here"* ]]
	printf '#!/bin/sh\necho "error: no context" >&2; exit 1\n' >"$W/bin/kubectl"
	run -1 recover --why x gpu1
	[[ $output == *"kubectl config view: error: no context"* ]]
	run -2 recover gpu1
	[[ $output == *"say why: --why TEXT"* ]]
	run -2 recover --why x gpu1 --budget 0x1
	[[ $output == *"'0x1' is no budget"* ]]
	run -2 recover
	[[ $output == *"name nodes"* ]]
}

@test "a credential plugin of the kubeconfig logs in; jobs wait, and a webhook is asked" {
	jq --arg w "$W" '.users[0].user = {exec: {apiVersion: "client.authentication.k8s.io/v1", command: "\($w)/bin/login",
		args: ["-x"], env: [{name: "WHO", value: "ops"}]}}' "$W/config" >"$W/exec"
	cp "$W/config" "$W/plain"
	mv "$W/exec" "$W/config"
	cat >"$W/bin/login" <<-'END'
	#!/bin/sh
	[ "$*$WHO" = -xops ] && case $KUBERNETES_EXEC_INFO in *server*http*) ;; *) exit 1 ;; esac &&
	echo '{"kind": "ExecCredential", "status": {"token": "a-token"}}'
	END
	chmod +x "$W/bin/login"
	run -0 recover --act back-off --retry-after 20m --why 'three alike' team/train
	[[ $output == *"result=dry-run"*"nothing was changed"* ]]
	run -0 recover --act back-off --retry-after 20m --why 'three alike' team/train --do
	job='.["/apis/batch/v1/namespaces/team/jobs/train"].metadata.annotations'
	jq -e "$job"' | .["bootseer.io/retry-after"] == "1200s" and
		(.["bootseer.io/recover"] | test("by ops@example at .*: three alike"))' "$W/api/objects.json"
	run -0 recover --act back-off --undo team/train --do
	jq -e "$job == {}" "$W/api/objects.json"
	run -2 recover --act back-off --why x ../train
	[[ $output == *"'../train' is no job: wanted is NAMESPACE/NAME"* ]]
	U=http://127.0.0.1:$(<"$W/port")/hook
	echo a-token >"$W/auth"
	run -0 recover --act webhook --webhook "$U" --webhook-auth "$W/auth" --why hot gpu1
	[[ $output == *"webhook object=\"gpu1\""*"result=dry-run"* ]]
	run ! grep /hook "$W/api/log"
	run -1 recover --act webhook --webhook "$U" --why hot gpu1 gpu2 --do
	[[ $output == *"2 nodes are named, and --budget allows 1"* ]]
	printf 'POST 200\n' >"$W/api/faults"
	run -0 recover --act webhook --webhook "$U" --webhook-auth "$W/auth" --why hot gpu1 --do
	sed -n 's/^POST .hook //p' "$W/api/log" | jq -e '.act == "take-out" and .nodes == [{node: "gpu1", why: "hot"}]'
}

@test "jobs and cordons of Kubernetes, by its API and by kubectl's output, are read as Slurm's are" {
	jq 'def pod($n; $node; $last; $now): {key: "/api/v1/pods/\($n)", value: {kind: "Pod", metadata: {
			namespace: "team", name: $n, uid: $n, ownerReferences: [{kind: "PyTorchJob", name: "train", uid: "t"}]},
			spec: {nodeName: $node, containers: [{name: "m", resources: {limits: {"nvidia.com/gpu": "8"}}}]},
			status: {containerStatuses: [{name: "m", restartCount: 1, state: $now, lastState: $last}]}}};
		def ended($from; $to; $code): {terminated: {startedAt: $from, finishedAt: $to, exitCode: $code}};
		(. + ([1, 2, 4] | map(pod("train-\(.)"; "gpu\(.)"; ended("2025-10-01T10:00:00Z"; "2025-10-01T10:20:00Z"; 1);
			ended("2025-10-01T10:25:00Z"; "2025-10-01T20:25:00Z"; 0))) | from_entries)) * {
		"/api/v1/nodes/gpu3": {spec: {taints: [{key: "node.kubernetes.io/unschedulable",
			timeAdded: "2025-10-01T15:25:00Z"}]}}}' "$W/api/objects.json" >"$W/objects"
	jq '{kind: "List", items: map(select(.kind == "Pod" or .kind == "Node"))}' "$W/objects" >"$W/list"
	# A job of one node, in a second document of the file.
	jq '{kind: "List", items: [.items[] | select(.metadata.name == "train-1") |
		.metadata = {namespace: "x", name: "one", uid: "one"} | .spec.nodeName = "gpu3"]}' "$W/list" >"$W/other"
	cat "$W/list" "$W/other" >"$W/printed"
	bootseer ops chains --kube-objects "$W/printed" --nodes 2 --json | jq -e '.n == 1 and .trained == 1 and
		.chains[0].user == "team" and .chains[0].automatic == 1 and .wasted_gpu_s == 24 * 1200'
	run -0 --separate-stderr bootseer ops nodes --kube-objects "$W/printed" --nodes 2
	echo "$output"
	[[ $output == *"NODE"*"HELD CORDONED"*"gpu3 "*" 2 "*"10.3"*"100.0 %"*" 48 %"*"History of nodes"*"gpu3 "*"left-out, 2 jobs"*"gpu3 "*"cordoned, still"* ]]
	# The API has no job on gpu3, so that nobody knows it as a node of jobs.
	kill_jobs
	rm "$W/port"
	cp "$W/objects" "$W/api/objects.json"
	"$BATS_TEST_DIRNAME/kube-api.py" "$W/api" "$W/port" &
	wait_for test -s "$W/port"
	jq --arg port "$(<"$W/port")" '.clusters[0].cluster.server = "http://127.0.0.1:\($port)"' "$W/config" >"$W/config2"
	mv "$W/config2" "$W/config"
	bootseer ops nodes --kubernetes --nodes 2 --json | jq -e '.jobs == 2 and .has_outages and
		(.history | map([.node, .what])) == [["gpu3", "cordoned"]]'
	grep -q 'GET /api/v1/events?fieldSelector=involvedObject.kind%3DNode&limit=' "$W/api/log"
	echo '{"kind": "List", "items": [' >"$W/printed"
	run -1 bootseer ops nodes --kube-objects "$W/printed"
	[[ $output == *"$W/printed: it"* ]]
}
