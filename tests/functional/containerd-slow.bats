#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What registries that hang keep from bootseer-snapshotter's other work: nothing.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../containerd/lib.bash"

setup_file() {
	make_images "$BATS_FILE_TMPDIR" >/dev/null
	new_image "$BATS_FILE_TMPDIR" victim base two own >/dev/null
}
setup() {
	REGISTRY_ADDRESS=0.0.0.0
	containerd_setup
	PORT=${REGISTRY#*:}
}
teardown() { containerd_teardown; }

start_all() { # [OPTION OF THE PLUGIN...]
	start_fake_node
	start_plugin --node-timeout 10m --layer-timeout 1h "$@"
	start_containerd
	push "$I" lazy
	fake_lazy "$I" lazy
}

logged() { [ "$(grep -c "$1" "$T/plugin.log")" -ge "$2" ]; } # TEXT N

# At least N calls of bootseerd hang.
hang_in() { [ "$(grep -c '^image.prepare.*/r[123]:' "$T/node/calls")" -ge "$1" ]; } # N

pull_from() { # HOST REPO
	timeout 120 ctr-remote images rpull --plain-http \
		--snapshotter bootseer "$1:$PORT/$2:1" >/dev/null
}

# Hosts that bootseerd had an answer of a moment ago and that hang then, all at once.
@test "good hosts that turn slow all at once keep no other image from being lazy" {
	local i k

	start_all --threads 8
	for k in {1..3} first; do
		skopeo copy --quiet --dest-tls-verify=false "oci:$I/oci:plain" \
			"docker://$REGISTRY/r$k:1"
	done
	for i in {2..4}; do
		pull_from "127.0.0.$i" rfirst
		timeout 120 ctr images rm --sync "127.0.0.$i:$PORT/rfirst:1"
	done
	fault image.prepare hang /r
	for i in {2..4}; do
		for k in {1..3}; do
			pull_from "127.0.0.$i" "r$k" 3>&- &
			pids+=($!)
		done
	done
	wait_until "$plugin_pid" hang_in 4
	timeout 120 ctr snapshots --snapshotter bootseer prepare fresh
	timeout 120 ctr-remote images rpull --plain-http --snapshotter bootseer \
		"$REGISTRY/lazy:1"
	run in_container bootseer lazy 'cat /srv/one/deep/file'
	[ "$output" = one ]
	[ "$(layer_gets "$I" lazy)" -eq 0 ]
	# Six of those that have several, and the first of the host that came last.
	run ! hang_in 8
}

@test "layers that do not come keep nothing else waiting, and whoever leaves leaves no call" {
	local i chain waiting=()

	start_all
	push "$I" plain
	pull_lazy lazy
	chain=$(chain_ids_of "$I" lazy | sed -n 2p)
	fault layer.apply hang
	for i in {1..40}; do
		ctr snapshots --snapshotter bootseer prepare "v$i" "$chain" \
			>/dev/null 2>&1 3>&- &
		waiting+=($!)
	done
	wait_until "$plugin_pid" logged 'prepare waits its turn' 41
	timeout 120 ctr snapshots --snapshotter bootseer prepare fresh
	timeout 100 ctr images pull --plain-http --snapshotter bootseer \
		"$REGISTRY/plain:1"
	run in_container bootseer lazy 'cat /srv/one/deep/file'
	[ "$output" = one ]
	[ "$(calls layer.apply)" -eq 1 ]
	kill "${waiting[@]}"
	wait_until "$plugin_pid" logged 'prepare failed: .*whoever asked has left' 40
	no_fault
	timeout 120 ctr snapshots --snapshotter bootseer prepare again "$chain"
}

@test "containers that wait for their files keep no other from starting" {
	local i

	start_all --threads 4 --start-timeout 10m
	pull_lazy lazy
	fault start.begin hang
	for i in {1..8}; do
		ctr snapshots --snapshotter bootseer prepare "c$i" \
			"$(chain_ids_of "$I" lazy | tail -1)" >/dev/null 3>&- &
		pids+=($!)
	done
	wait_until "$plugin_pid" logged 'started without prefetch' 6
	timeout 120 ctr snapshots --snapshotter bootseer prepare fresh
	timeout 120 ctr snapshots --snapshotter bootseer view seen \
		"$(chain_ids_of "$I" lazy | tail -1)"
}

@test "a layer that one host does not send comes from another, and for both" {
	local slow

	start_all
	push "$I" victim
	skopeo copy --quiet --dest-tls-verify=false "oci:$I/oci:victim" \
		"docker://$REGISTRY/slow:1"
	pull_lazy lazy
	fault layer.apply hang /slow
	pull_from 127.0.0.2 slow 3>&- &
	slow=$!
	pids+=("$slow")
	wait_until "$plugin_pid" grep -q '^layer.apply.*/slow' "$T/node/calls"
	timeout 120 ctr-remote images rpull --plain-http --snapshotter bootseer \
		"$REGISTRY/victim:1"
	run in_container bootseer victim 'cat /srv/own/file'
	[ "$output" = own ]
	# Its layer is there now, though its own host still says nothing.
	wait "$slow"
	[ "$(find "$T/plugin/snapshots" -maxdepth 2 -name 'part*' | wc -l)" -eq 0 ]
}

@test "calls that wait for one layer leave their host's places to others" {
	local i

	start_all
	push "$I" plain
	fake_lazy "$I" plain
	pull_lazy lazy
	pull_lazy plain
	fault layer.apply hang /lazy
	for i in {1..6}; do
		ctr snapshots --snapshotter bootseer prepare "w$i" \
			"$(chain_ids_of "$I" lazy | sed -n 2p)" >/dev/null 3>&- &
		pids+=($!)
	done
	wait_until "$plugin_pid" logged 'prepare waits its turn: layer=' 6
	timeout 120 ctr snapshots --snapshotter bootseer prepare fresh \
		"$(chain_ids_of "$I" plain | sed -n 2p)"
}
