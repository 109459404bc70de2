#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# tests/conformance/chart.bats in short with containerd 1.7.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/chart.bash"

export CONTAINERD=containerd-1.7

setup_file() { chart_setup_file; }

teardown_file() { chart_teardown_file; }

teardown() { chart_teardown; }

@test "containerd 1.7: the chart is installed, upgraded under a lazy pod and a volume, and removed" {
	node_state >"$W/before"
	kubectl_ create secret generic trust --from-file=trust.pem="$W/key.pub"
	install --set csi.enabled=true --set-string csi.config="$CSI_CONFIG"
	kubectl_ rollout status daemonset/bootseer-csi --timeout=120s
	begin_pod lazy app bootseer
	begin_volume_pod volume
	pod_is_ready lazy
	pod_is_ready volume
	bootseer_ node status | tee /dev/stderr | grep -qE 'mounted +(lazy|complete) at'
	before=$(containers_of lazy volume)
	echo '{}' >"$W/values.yaml"
	upgrade 2
	[ "$(containers_of lazy volume)" = "$before" ]
	reads_all lazy volume/v
	has_file rest lazy
	kubectl_ delete pod lazy volume --wait
	helm_ uninstall bootseer --wait --timeout 4m
	wait_for node_is_as_before
	# Its layers were fetched before: what was pulled lazily starts without the plugin.
	begin_pod after app
	pod_is_ready after
	reads_all after
}
