#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# 110 pods of ten images at once, on a node with the chart: how long until they are ready, lazily,
# with images that overlayfs has and with full pulls; what our processes cost then and without pods.
# It prints figures, and fails only where pods do not start; BOOTSEER_JSON=FILE keeps them.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/chart.bash"

IMAGES=10

setup_file() {
	TOP=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	W=$(mktemp -d)
	export TOP W
	[ -d "${BOOTSEER_IMAGE:-}" ] || {
		BOOTSEER_IMAGE=$W/image
		"$TOP/dev" package image "$W/image"
	}
	export BOOTSEER_IMAGE
	cluster_start "$W/cluster"
	make_images
}

teardown_file() {
	cluster_stop
	rm -rf --one-file-system "$W"
}

# Each has 40 MB that nothing shares, of which a pod reads a tenth before it is ready.
make_images() {
	mkdir -p "$W/registry" "$W/app/bin"
	printf 'version: 0.1\nstorage: {filesystem: {rootdirectory: "%s"}}\nhttp: {addr: "127.0.0.1:5000"}\n' \
		"$W/registry" >"$W/registry.yml"
	serve_registry
	in_node skopeo copy -q --dest-tls-verify=false "oci:$BOOTSEER_IMAGE/oci:latest" \
		docker://127.0.0.1:5000/bootseer:1
	in_node "$BOOTSEER_BUILD/cli/bootseer" key new "$W/key" >/dev/null
	cp /bin/busybox "$W/app/bin/busybox"
	for applet in sh cat tail; do ln -s busybox "$W/app/bin/$applet"; done
	push_image pause
	for ((i = 0; i < IMAGES; i++)); do
		head -c 4000000 /dev/urandom >"$W/app/data"
		head -c 36000000 /dev/urandom >"$W/app/rest"
		push_image "app$i"
		in_node "$BOOTSEER_BUILD/cli/bootseer" image convert --plain-http --sign "$W/key" \
			"docker://127.0.0.1:5000/app$i:1" "docker://127.0.0.1:5000/app$i:1" >/dev/null
	done
}

push_image() { # NAME
	umoci init --layout "$W/oci" >/dev/null
	umoci new --image "$W/oci:1" >/dev/null
	umoci insert --rootless --image "$W/oci:1" "$W/app" / >/dev/null
	umoci config --image "$W/oci:1" --config.cmd /bin/tail --config.cmd -f \
		--config.cmd /dev/null
	in_node skopeo copy -q --dest-tls-verify=false "oci:$W/oci:1" "docker://127.0.0.1:5000/$1:1"
	rm -r "$W/oci"
}

# Readiness is asked for each second, as a job's is.
pods() { # PREFIX [RUNTIMECLASS]
	local i

	for ((i = 0; i < 110; i++)); do
		cat <<-END
		---
		apiVersion: v1
		kind: Pod
		metadata:
		  name: $1-$i
		  labels: {run: "$1"}
		  annotations: {io.containerd.cri.runtime-handler: "${2:-runc}"}
		spec:
		  ${2:+runtimeClassName: $2}
		  nodeName: node1
		  automountServiceAccountToken: false
		  terminationGracePeriodSeconds: 0
		  containers:
		  - name: c
		    image: "127.0.0.1:5000/app$((i % IMAGES)):1"
		    command: [/bin/sh, -c, "cat /data >/dev/null && exec tail -f /dev/null"]
		END
	done
}

# Seconds of processor and MiB that our processes have on the node.
cost() {
	in_node sh -c 'for p in $(pgrep "^bootseer|^node-agent"); do
		awk "{ print \$14 + \$15 }" /proc/$p/stat
		sed -n "s/^Pss: *\([0-9]*\) .*/pss \1/p" /proc/$p/smaps_rollup
	done' 2>/dev/null | awk -v hz="$(getconf CLK_TCK)" '$1 == "pss" { kb += $2; next }
		{ t += $1 } END { printf "%.2f %.1f\n", t / hz, kb / 1024 }'
}

# start_all NAME [RUNTIMECLASS]: prints p50, p99 and the last, in seconds from a pod's creation.
start_all() {
	local before

	read -r before _ < <(cost)
	pods "$@" | kubectl_ apply -f - >/dev/null
	kubectl_ wait --for=condition=Ready pod -l run="$1" --timeout=500s >/dev/null
	kubectl_ get pod -l run="$1" -o json | jq -r --arg cost "$(cost)" --arg before "$before" \
		--arg load "$(cut -d' ' -f1-2 /proc/loadavg)" --arg name "$1" '
		def t: sub("\\.[0-9]+"; "") | fromdate;
		[.items[] | (.status.conditions[] | select(.type == "Ready").lastTransitionTime | t) -
			(.metadata.creationTimestamp | t)] | sort |
		{name: $name, pods: length, p50_s: .[length / 2 | floor],
		 p99_s: .[length * 99 / 100 | floor], last_s: last,
		 our_cpu_s: (($cost | split(" ")[0] | tonumber) - ($before | tonumber)),
		 our_mib: ($cost | split(" ")[1] | tonumber), load: $load} | tojson' |
		tee -a "$W/figures" | sed 's/^/# /' >&3
	kubectl_ delete pod -l run="$1" --wait >/dev/null
}

forget_images() {
	in_node ctr -n k8s.io images ls -q | grep '/app' | while read -r name; do
		in_node ctr -n k8s.io images rm --sync "$name" >/dev/null
	done
}

@test "pods: 110 at once start lazily, and by overlayfs with images that are there or not" {
	kubectl_ create secret generic trust --from-file=trust.pem="$W/key.pub"
	install --set csi.enabled=true
	kubectl_ rollout status daemonset/bootseer-csi --timeout=120s
	read -r before _ < <(cost)
	timeout 60 tail -f /dev/null || :
	read -r after mib < <(cost)
	echo "# idle: $(bc <<<"scale=2; ($after - $before) * 100 / 60") % of a core, $mib MiB," \
		"of bootseer-csi $(in_node sh -c 'grep VmRSS "/proc/$(pgrep -o bootseer-csi)/status"' |
			tr -d '\t')" >&3
	start_all lazy bootseer
	start_all lazy-again bootseer
	forget_images
	start_all pulls
	start_all overlayfs
	[ -z "${BOOTSEER_JSON:-}" ] || jq -s . "$W/figures" >"$BOOTSEER_JSON"
}
