#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bootseer ops recover on a real API server, with the rights that the chart gives it.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/cluster.bash"

setup_file() {
	TOP=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	W=$(mktemp -d)
	export TOP W CLUSTER_AUTHORIZATION=RBAC
	PATH=$("$BATS_TEST_DIRNAME/build" kubernetes):$PATH
	HELM=$("$BATS_TEST_DIRNAME/build" helm)/helm
	export PATH
	start_namespaces
	start_api
	export node_init cluster_unshare
	for i in 1 2 3 4; do
		kubectl create -f - <<-END
		{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu$i"}}
		END
		ready "gpu$i" True
	done
	kubectl create namespace bootseer-system
	HOME=$BATS_FILE_TMPDIR "$HELM" template bootseer "$TOP/deploy/helm/bootseer" --no-hooks \
		--namespace bootseer-system --kube-version 1.34.4 --set recover.enabled=true \
		--set image.repository=registry.example/bootseer \
		--show-only templates/recover.yaml >"$W/recover.yaml"
	# A namespace of the context is that of objects which name none.
	jq '.contexts[0].context.namespace = "bootseer-system"' "$W/kubeconfig" >"$W/install"
	on_node kubectl --kubeconfig "$W/install" apply -f "$W/recover.yaml"
	login bootseer-recover
}

teardown_file() {
	cluster_stop
	rm -rf --one-file-system "$W"
}

ready() { # NODE STATUS
	kubectl patch node "$1" --subresource=status -p '{"status": {"conditions": [{"type": "Ready",
		"status": "'"$2"'", "reason": "x", "message": "x"}]}}'
}

# A kubeconfig of an account of the chart.
login() { # ACCOUNT
	local token

	token=$(kubectl create token -n bootseer-system "$1")
	jq --arg t "$token" --rawfile ca "$W/pki/apiserver.crt" '.users[0].user.token = $t |
		.clusters[0].cluster = {server: "https://127.0.0.1:6443",
		"certificate-authority-data": ($ca | @base64)}' "$W/kubeconfig" >"$W/login"
}

recover() { on_node "$BOOTSEER_BUILD/cli/bootseer" ops recover --kubeconfig "$W/login" "$@"; }
node() { kubectl get node "$1" -o json | jq -e "$2" >/dev/null; } # NAME FILTER

@test "recover: a dry run, a cordon and a taint, an event, what was done is taken back" {
	local taints

	kubectl taint node gpu2 gpu=yes:NoSchedule
	taints=$(kubectl get node gpu2 -o json | jq -c .spec.taints)
	run -0 recover --budget 2 --why 'slow NIC' gpu1
	[[ $output == *'by="system:serviceaccount:bootseer-system:bootseer-recover"'*dry-run* ]]
	node gpu1 '.spec.unschedulable == null and (.metadata.annotations // {}) == {}'
	run -0 recover --budget 2 --why 'slow NIC' gpu1 --do
	run -0 recover --budget 2 --why 'slow NIC' --act taint gpu2 --do
	kubectl get node gpu1 gpu2 -o wide
	node gpu1 '.spec.unschedulable and (.metadata.annotations["bootseer.io/recover"] | fromjson | .did == "cordon")'
	kubectl get node gpu2 -o json | jq -e --argjson t "$taints" '.spec.taints == $t + [{key: "bootseer.io/suspect", effect: "NoSchedule"}]'
	kubectl get events -n default -o json | jq -e '[.items[] | select(.reason == "BootseerTakenOut") |
		.involvedObject.name] | sort == ["gpu1", "gpu2"]'
	kubectl describe node gpu1 | grep -q 'BootseerTakenOut.*slow NIC'
	# The budget has what is out, also for other reasons.
	ready gpu3 False
	run -1 recover --budget 3 --why x gpu4 --do
	[[ $output == *"4 nodes would be out, and --budget 3 allows 3: none is taken out"* ]]
	node gpu4 '.spec.unschedulable == null'
	ready gpu3 True
	run -0 recover --undo --do
	node gpu1 '.spec.unschedulable == null and (.metadata.annotations // {}) == {}'
	[ "$(kubectl get node gpu2 -o json | jq -c .spec.taints)" = "$taints" ]
	kubectl get lease -n kube-system bootseer-recover -o json | jq -e '.spec.holderIdentity // "" == ""'
}

@test "recover: many at once take no more than the budget" {
	local i pids=()

	for i in 1 2 3 4; do
		recover --budget 2 --why x "gpu$i" --do >"$W/out.$i" 2>&1 3>&- &
		pids+=($!)
	done
	for i in "${pids[@]}"; do wait "$i" || :; done
	cat "$W"/out.*
	kubectl get nodes -o json | jq -e '[.items[] | select(.spec.unschedulable)] | length | . >= 1 and . <= 2'
	run -0 recover --undo --do
}

@test "recover: jobs wait, and an account without rights is told which it lacks" {
	kubectl create -f - <<-END
	{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "default"},
	 "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}}}
	END
	run -1 recover --act back-off --why x default/train --do
	[[ $output == *"answered 403: jobs.batch \"train\" is forbidden"*"cannot patch resource"* ]]
	run -0 on_node "$BOOTSEER_BUILD/cli/bootseer" ops recover --kubeconfig "$W/kubeconfig" \
		--act back-off --retry-after 20m --why 'three alike' default/train --do
	kubectl get job -n default train -o json | jq -e '.metadata.annotations | .["bootseer.io/retry-after"] == "1200s" and
		(.["bootseer.io/recover"] | test("by admin at "))'
	kubectl create serviceaccount -n bootseer-system nobody
	login nobody
	run -1 recover --why x gpu1
	[[ $output == *'answered 403: nodes is forbidden'*'docs/analysis.md has the rights'* ]]
}
