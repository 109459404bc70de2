#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A node whose process 1 is systemd, as most are: the daemons are its units.  The chart is upgraded,
# the node is drained, and its power fails, each under pods with lazy images and volumes.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/chart.bash"

export NODE_INIT=systemd

setup_file() { chart_setup_file; }

teardown_file() { chart_teardown_file; }

teardown() { chart_teardown; }

# The volumes' rules are in a file: commas are none of an option's.
values() { # PODS
	cat >"$W/values.yaml" <<-END
	node:
	  pods: $1
	  config: |
	    trust-keys = "/etc/bootseer/trust.pem";
	    plain-http = [ "127.0.0.1:5000" ];
	csi:
	  enabled: true
	  config: |
	    allow = [ "namespace=default kind=image image=127.0.0.1:5000/app",
	        "namespace=default kind=ckpt store=file://$W/store access=write memory=64Mi" ];
	END
}

# A Deployment of three pods whose image starts lazily, with a volume of each kind.
begin_pods() {
	kubectl_ apply -f - <<-END
	{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "lazy"}, "spec": {
	 "replicas": 3, "selector": {"matchLabels": {"app": "lazy"}}, "template": {
	 "metadata": {"labels": {"app": "lazy"},
		"annotations": {"io.containerd.cri.runtime-handler": "bootseer"}}, "spec": {
	 "runtimeClassName": "bootseer", "automountServiceAccountToken": false,
	 "terminationGracePeriodSeconds": 1,
	 "containers": [{"name": "c", "image": "127.0.0.1:5000/app:1",
		"command": ["/bin/sh", "-c", "cat /data >/dev/null && exec tail -f /dev/null"],
		"volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "ckpt", "mountPath": "/ckpt"}]}],
	 "volumes": [
		{"name": "v", "csi": {"driver": "csi.bootseer", "volumeAttributes": {
		 "kind": "image", "image": "127.0.0.1:5000/app:1"}}},
		{"name": "ckpt", "csi": {"driver": "csi.bootseer", "volumeAttributes": {
		 "kind": "ckpt", "store": "file://$W/store", "memory": "64Mi"}}}]}}}}
	END
	pods_are_there
}

pods_are_there() { kubectl_ rollout status deployment/lazy --timeout=180s; }
pods() { kubectl_ get pods -l app=lazy -o jsonpath='{.items[*].metadata.name}'; }
units_run() { in_node systemctl is-active bootseerd bootseer-snapshotter containerd kubelet; }

all_read() { # FILE
	local pod

	for pod in $(pods); do has_file "$1" "$pod" "$pod/v" || return 1; done
}

# Nothing of pods is left: volumes, mounts of images, snapshots that are written to.
nothing_is_used() {
	[ -z "$(containers_of -l app=lazy)" ] && ! in_node grep kubernetes.io~csi /proc/self/mountinfo &&
		! in_node ctr -n k8s.io snapshots --snapshotter bootseer ls | grep ' Active'
}

@test "systemd: the chart's daemons are units, and pods start lazily with volumes" {
	mkdir "$W/store"
	node_state >"$W/before"
	kubectl_ create secret generic trust --from-file=trust.pem="$W/key.pub"
	values runtime
	install_with "$W/values.yaml"
	kubectl_ rollout status daemonset/bootseer-csi --timeout=120s
	units_run
	in_node systemctl is-enabled bootseerd bootseer-snapshotter
	begin_pods
	all_read data
	bootseer_ node status | tee /dev/stderr | grep -qE 'mounted +(lazy|complete) at'
}

@test "systemd: an upgrade starts the daemons again, and containers read on" {
	local pid before

	pid=$(in_node pgrep -o -x bootseerd)
	before=$(containers_of -l app=lazy)
	upgrade 2
	[ "$(in_node pgrep -o -x bootseerd)" != "$pid" ]
	[ "$(containers_of -l app=lazy)" = "$before" ]
	# Nothing has read it before: the new daemon has to.
	all_read rest
}

@test "systemd: a drained node has nothing in use, and uncordoned it has its pods again" {
	kubectl_ drain node1 --ignore-daemonsets --delete-emptydir-data --force --timeout=120s
	wait_for nothing_is_used
	[ "$(kubectl_ get pods -l app=lazy -o json | jq '[.items[] | select(.status.phase == "Pending")] | length')" = 3 ]
	kubectl_ uncordon node1
	pods_are_there
	all_read data
}

@test "systemd: after its power failed the node's pods run again, with their volumes" {
	local before pod

	for pod in $(pods); do kubectl_ exec "$pod" -- /bin/sh -c 'echo "$HOSTNAME" >"/ckpt/$HOSTNAME"'; done
	before=$(containers_of -l app=lazy)
	[ "$(wc -l <<<"$before")" = 3 ]
	node_reboot
	wait_for began_again "$before" -l app=lazy
	wait_for units_run
	all_read data
	all_read rest
	for pod in $(pods); do [ "$(kubectl_ exec "$pod" -- /bin/cat "/ckpt/$pod")" = "$pod" ]; done
	kubectl_ rollout status daemonset/bootseer-csi --timeout=120s
	kubectl_ rollout status daemonset/bootseer-node --timeout=120s
}

@test "systemd: so they do where every pod is lazy, the chart's too" {
	local before one

	values all
	upgrade 1
	begin_pod every app
	pod_is_ready every
	# Its image was converted, that of the chart was not.
	wait_for has_event every LazyStart
	one=$(containers_of every)
	before=$(containers_of -l app=lazy)
	node_reboot
	wait_for began_again "$one" every
	wait_for began_again "$before" -l app=lazy
	reads_all every
	all_read data
}

# Of all pods, whatever handlers there are.
lazy_by_default() {
	in_node containerd config dump 2>/dev/null |
		awk '/^ *\[/ { at = $1 } at ~ /v1\.images.\]$/ && $1 == "snapshotter"' | grep -q bootseer
}

revision() { helm_ history bootseer -o json | jq '.[-1].revision'; }
state() { helm_ status bootseer -o json | jq -r .info.status; }

# The node has left by then: what helm rolls back to joins it again.
@test "systemd: a removal that failed is taken back by a rollback to the last revision" {
	local csi

	csi=$(containers_of -l app.kubernetes.io/component=csi)
	run ! helm_ uninstall bootseer --wait --timeout 4m
	[ "$(state)" = uninstalling ]
	run ! helm_ upgrade bootseer "$TOP/deploy/helm/bootseer" --reuse-values
	[[ $output == *'no deployed releases'* ]]
	wait_for began_again "$csi" -l app.kubernetes.io/component=csi
	run ! lazy_by_default
	kubectl_ delete job bootseer-remove --ignore-not-found --wait
	helm_ rollback bootseer "$(revision)" --wait --timeout 4m
	[ "$(state)" = deployed ]
	kubectl_ rollout status daemonset/bootseer-node --timeout=120s
	lazy_by_default
	all_read data
	begin_pod again app
	pod_is_ready again
	wait_for has_event again LazyStart
}

# The chart's own pods are on BootSeer, too: the first command has new ones be others.
@test "systemd: uninstalled where every pod is lazy, the node is as it was" {
	local csi

	csi=$(containers_of -l app.kubernetes.io/component=csi)
	run ! helm_ uninstall bootseer --wait --timeout 4m
	[[ $output == *'drain each node'* ]]
	units_run
	wait_for began_again "$csi" -l app.kubernetes.io/component=csi
	all_read data
	kubectl_ delete deployment lazy
	kubectl_ delete pod every again --ignore-not-found --wait
	helm_ uninstall bootseer --wait --timeout 4m
	wait_for node_is_as_before
}

@test "systemd: installed again, pods of the class start from the same images" {
	values runtime
	install_with "$W/values.yaml"
	begin_pods
	all_read data
}
