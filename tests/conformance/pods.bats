#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What our processes cost a node that has no lazy pod; then 110 pods of ten images at once: how long until they
# are ready, lazily, with images that overlayfs has and with full pulls, and what ours cost meanwhile.
# BOOTSEER_JSON=FILE keeps the figures, in the form of ./dev bench; of time none fails a test.

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
	make_registry
}

teardown_file() {
	cluster_stop
	rm -rf --one-file-system "$W"
}

make_registry() {
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
}

# Each has 40 MB that nothing shares, of which a pod reads a tenth.
make_images() {
	local i

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

# It says when it has read what it reads.
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
		    command: [/bin/sh, -c, "cat /data >/dev/null && echo read && exec tail -f /dev/null"]
		END
	done
}

# Seconds of processor and MiB (PSS) that ours have had: the node's daemons, and the containers of the
# chart's pods with all that was run in them.
cost() {
	local ids

	mapfile -t ids < <(kubectl_ get pods -l app.kubernetes.io/name=bootseer -o json |
		jq -r '.items[].status.containerStatuses[].containerID | sub(".*/"; "")')
	in_node sh -c 'for name; do
		group=$(find /sys/fs/cgroup/cpuacct -type d -name "$name")
		cat "$group/cpuacct.usage"
		for pid in $(cat "$group/cgroup.procs"); do
			sed -n "s/^Pss: *\([0-9]*\) .*/pss \1/p" "/proc/$pid/smaps_rollup"
		done
	done' sh bootseer-node "${ids[@]}" | awk '$1 == "pss" { kb += $2; next }
		{ ns += $1 } END { printf "%.3f %.1f\n", ns / 1e9, kb / 1024 }'
}

sample() { # SERIES VARIANT VALUE UNIT
	printf '%s\t%s\t%s\t%s\n' "$@" >>"$W/samples"
	echo "# $*" >&3
}

goal() { # NAME VALUE UNIT LIMIT
	printf '%s\t%s\t%s\t%s\n' "$@" >>"$W/goals"
	echo "# $* at most" >&3
	[ "$(bc <<<"$2 <= $4")" = 1 ]
}

# NAME TIME of each that has read.
read_times() { # PREFIX
	local log

	for log in "$C/varlog/pods/default_$1"-*/c/0.log; do
		[ ! -s "$log" ] || awk -v name="$log" '{ split(name, part, "_"); print part[2], $1; exit }' "$log"
	done
}

all_have_read() { [ "$(read_times "$1" | wc -l)" = 110 ]; }

# start_all NAME [RUNTIMECLASS]: in seconds from a pod's creation.
start_all() {
	local before after mib figure

	read -r before _ < <(cost)
	pods "$@" | kubectl_ apply -f - >/dev/null
	wait_for all_have_read "$1"
	read -r after mib < <(cost)
	kubectl_ get pod -l run="$1" -o json | jq -r --rawfile read <(read_times "$1") '
		def t: sub("\\.[0-9]+"; "") | fromdate;
		($read | [scan("(\\S+) (\\S+)") | {key: .[0], value: (.[1] | t)}] | from_entries) as $read |
		[.items[] | $read[.metadata.name] - (.metadata.creationTimestamp | t)] | sort |
		"p50 \(.[length / 2 | floor])", "p99 \(.[length * 99 / 100 | floor])"' >"$W/times"
	while read -r -a figure; do
		sample "110 pods have read, ${figure[0]}" "$1" "${figure[1]}" s
	done <"$W/times"
	sample "processor time of ours" "$1" "$(bc <<<"$after - $before")" s
	sample "memory of ours (PSS)" "$1" "$mib" MiB
	kubectl_ delete pod -l run="$1" --wait >/dev/null
}

forget_images() {
	in_node ctr -n k8s.io images ls -q | grep '/app' | while read -r name; do
		in_node ctr -n k8s.io images rm --sync "$name" >/dev/null
	done
}

@test "pods: a node without a lazy pod pays less than 0.5 % of a core, and 64 MiB" {
	local before after mib

	kubectl_ create secret generic trust --from-file=trust.pem="$W/key.pub"
	install --set csi.enabled=true
	kubectl_ rollout status daemonset/bootseer-csi --timeout=120s
	wait_for doctor_has_ended
	read -r before _ < <(cost)
	timeout 60 tail -f /dev/null || :
	read -r after mib < <(cost)
	goal "idle, of a core" "$(bc <<<"scale=3; ($after - $before) * 100 / 60")" % 0.5
	goal "idle, all processes (PSS)" "$mib" MiB 64
	goal "idle, bootseer-csi (RSS)" "$(in_node sh -c 'cat "/proc/$(pgrep -o bootseer-csi)/status"' |
		awk '/^VmRSS/ { printf "%.1f", $2 / 1024 }')" MiB 20
}

doctor_has_ended() {
	kubectl_ logs -l app.kubernetes.io/component=node -c node | grep -q '^doctor: ' &&
		! in_node pgrep -f 'node doctor'
}

@test "pods: 110 at once start lazily, and by overlayfs with images that are there or not" {
	make_images
	start_all first-lazy bootseer
	start_all lazy bootseer
	forget_images
	start_all full-pulls
	start_all overlayfs
	[ -z "${BOOTSEER_JSON:-}" ] || write_json
}

write_json() {
	jq -n --rawfile samples "$W/samples" --rawfile goals "$W/goals" --arg when "$(date -u +%FT%TZ)" \
		--arg load "$(cut -d' ' -f1-3 /proc/loadavg)" --arg kernel "$(uname -r)" '
		def rows: split("\n") | map(select(. != "") | split("\t"));
		{name: "pods", machine: {kernel: $kernel, load_average_at_end: $load, when: $when},
		 samples: ($samples | rows | map({series: .[0], variant: .[1], value: (.[2] | tonumber), unit: .[3]})),
		 goals: ($goals | rows | map({name: .[0], value: (.[1] | tonumber), unit: .[2],
			goal: "<= \(.[3])", met: ((.[1] | tonumber) <= (.[3] | tonumber))}))}' >"$BOOTSEER_JSON"
}
