#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bootseer-snapshotter under a real containerd with a real registry; bootseerd is
# a fake that serves prepared folders and can be told to fail.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../containerd/lib.bash"

setup_file() { make_images "$BATS_FILE_TMPDIR" >/dev/null; }
setup() { containerd_setup; }
teardown() { containerd_teardown; }

start_all() { # [OPTION OF THE PLUGIN...]
	start_fake_node
	start_plugin "$@"
	start_containerd
}

# A lazy image in the registry, which the fake has.
have_lazy() {
	push "$I" lazy
	fake_lazy "$I" lazy
}

@test "an ordinary image looks in a container as on overlayfs" {
	start_all
	push "$I" plain
	pull_full overlayfs plain
	pull_full bootseer plain
	in_container overlayfs plain "$LISTING" >"$T/want"
	in_container bootseer plain "$LISTING" >"$T/got"
	diff "$T/want" "$T/got"
	[ "$(wc -l <"$T/got")" -gt 20 ]
	! grep -q /opt/gone "$T/got"
}

@test "usage is counted as overlayfs does, and is nothing for a lazy image" {
	local chain

	start_all
	have_lazy
	push "$I" plain
	pull_full overlayfs plain
	pull_full bootseer plain
	pull_lazy lazy
	for chain in $(chain_ids_of "$I" plain); do
		ctr snapshots --snapshotter overlayfs usage -b "$chain"
	done >"$T/want"
	for chain in $(chain_ids_of "$I" plain); do
		ctr snapshots --snapshotter bootseer usage -b "$chain"
	done >"$T/got"
	diff "$T/want" "$T/got"
	grep -q ' [1-9]' "$T/got"
	for chain in $(chain_ids_of "$I" lazy); do
		ctr snapshots --snapshotter bootseer usage -b "$chain"
	done | awk '/^sha256:/ { n++; if ($2 + $3 != 0) exit 1 }
		END { exit n != 3 }'
}

@test "a lazy pull by ctr-remote fetches no layer and looks the same" {
	start_all
	have_lazy
	pull_lazy lazy
	[ "$(layer_gets "$I" lazy)" -eq 0 ]
	in_container bootseer lazy "$LISTING" >"$T/got"
	[ "$(layer_gets "$I" lazy)" -eq 0 ]
	pull_full overlayfs lazy
	in_container overlayfs lazy "$LISTING" >"$T/want"
	diff "$T/want" "$T/got"
	# One question for the image, however many layers; one mount for the top.
	[ "$(calls image.prepare)" -eq 1 ]
	[ "$(layer_gets "$I" lazy)" -eq 3 ]
}

@test "a lazy image is exported and pushed once its layers were fetched" {
	start_all
	have_lazy
	pull_lazy lazy
	run ctr images export --platform linux/amd64 "$T/lazy.tar" "$REGISTRY/lazy:1"
	[ "$status" -ne 0 ]
	[[ $output == *"not found"* ]]
	# What docs/containerd.md says to do.
	ctr content fetch --plain-http "$REGISTRY/lazy:1"
	ctr images export --platform linux/amd64 "$T/lazy.tar" "$REGISTRY/lazy:1"
	skopeo inspect "docker-archive:$T/lazy.tar" | jq -e '.Layers | length == 3'
	ctr images push --plain-http "$REGISTRY/copy:1" "$REGISTRY/lazy:1"
	# It stays, and so does the lazy image.
	ctr content ls -q | sort >"$T/before"
	cri pull "$REGISTRY/lazy:1"
	run in_container bootseer lazy 'cat /srv/one/deep/file'
	[ "$output" = one ]
	for layer in $(layers_of "$I" lazy); do grep -x "$layer" "$T/before"; done
}

@test "the CRI pulls and runs a lazy image without a layer" {
	start_all
	have_lazy
	push "$I" pause
	cri pull "$REGISTRY/lazy:1"
	[ "$(layer_gets "$I" lazy)" -eq 0 ]
	run cri run "$REGISTRY/lazy:1" pod /bin/sh -c 'cat /srv/one/deep/link &&
		echo new >/srv/two/new && ls /srv/two'
	cri stop
	[ "$status" -eq 0 ]
	[ "$output" = "$(printf 'one\ndata\nnew')" ]
	[ "$(layer_gets "$I" lazy)" -eq 0 ]
	grep -q '"manifest": "'"$(manifest_of "$I" lazy)" "$T/node/calls"
}

@test "a second namespace uses the snapshots of the first" {
	start_all
	have_lazy
	pull_lazy lazy
	ctr-remote -n "$CONTAINERD_NAMESPACE-b" images rpull --plain-http --snapshotter bootseer \
		"$REGISTRY/lazy:1"
	CONTAINERD_NAMESPACE+=-b run in_container bootseer lazy 'cat /srv/one/deep/file'
	[ "$output" = one ]
	[ "$(layer_gets "$I" lazy)" -eq 0 ]
}

@test "a container goes on when the plugin is killed, and the next one starts" {
	start_all
	have_lazy
	pull_lazy lazy
	ctr run -d --snapshotter bootseer "$REGISTRY/lazy:1" long \
		sh -c "busybox mkfifo /wait; read x </wait"
	stop_daemon "$plugin_pid" KILL
	run exec_in long cat /srv/one/deep/file
	[ "$output" = one ]
	exec_in long sh -c 'echo more >/srv/more'
	rm "$T/plugin.sock"
	start_plugin
	[ "$(calls image.mount)" -ge 2 ] # mounted again before it listened
	run exec_in long cat /srv/more
	[ "$output" = more ]
	# containerd's client waits up to 3 s before it dials again.
	wait_until "$plugin_pid" ctr snapshots --snapshotter bootseer ls
	run in_container bootseer lazy 'cat /srv/one/deep/file'
	[ "$output" = one ]
	pull_lazy lazy # the state knows it: no wedge
	[ "$(layer_gets "$I" lazy)" -eq 0 ]
}

@test "removing the image removes mount and folders" {
	start_all
	have_lazy
	push "$I" plain
	pull_lazy lazy
	pull_full bootseer plain
	in_container bootseer lazy 'echo x >/x'
	[ "$(ls "$T/plugin/snapshots")" ]
	ctr images rm --sync "$REGISTRY/lazy:1" "$REGISTRY/plain:1"
	wait_until "$plugin_pid" grep -q '^image.umount ' "$T/node/calls"
	wait_until "$plugin_pid" rmdir "$T/plugin/snapshots"
	# Mounted and given back by the same name.
	[ "$(sed -n 's/^image.mount .*"user": //p' "$T/node/calls" |
		sort -u)" = "$(sed -n 's/^image.umount .*"user": //p' \
		"$T/node/calls" | sort -u)" ]
}

@test "an ordinary image that shares layers with a lazy one has them fetched" {
	start_all
	have_lazy
	push "$I" other
	pull_lazy lazy
	pull_lazy other
	in_container bootseer other "$LISTING" >"$T/got"
	[ "$(grep -c '^layer.apply.*/lazy:1"' "$T/node/calls")" -eq 2 ]
	pull_full overlayfs other
	in_container overlayfs other "$LISTING" >"$T/want"
	diff "$T/want" "$T/got"
	in_container bootseer lazy "$LISTING" >"$T/got"
	grep -q '^srv/two/data ' "$T/got"
	# Once for all.
	in_container bootseer other true
	[ "$(grep -c '^layer.apply.*/lazy:1"' "$T/node/calls")" -eq 2 ]
}

@test "when a shared layer cannot be fetched the pull says why and works later" {
	start_all
	have_lazy
	push "$I" other
	pull_lazy lazy
	fault layer.apply 5 the registry is away
	run ! pull_lazy other
	[[ $output == *"the registry is away"* ]]
	no_fault
	pull_lazy other
	run in_container bootseer other 'cat /srv/own/file /srv/one/deep/file'
	[ "$output" = "$(printf 'own\none')" ]
}

@test "without bootseerd a pull fetches all layers and says so in the log" {
	start_plugin --node-timeout 300ms
	start_containerd
	push "$I" lazy
	pull_lazy lazy
	[ "$(layer_gets "$I" lazy)" -eq 3 ]
	run in_container bootseer lazy 'cat /srv/one/deep/file'
	[ "$output" = one ]
	grep -q 'warning snapshots: .*bootseerd' "$T/plugin.log"
	# All layers and starts waited once, together.
	[ "$(grep -c 'node: waiting for bootseerd' "$T/plugin.log")" -eq 1 ]
}

waits_told() { [ "$(grep -c 'node: waiting for bootseerd' "$T/plugin.log")" -eq "$1" ]; } # N
backs_told() { [ "$(grep -c 'node: bootseerd is there again' "$T/plugin.log")" -eq "$1" ]; } # N

@test "a bootseerd that is started again is waited for, by pulls and by starts" {
	local waiting

	start_all --node-timeout 2m
	have_lazy
	stop_daemon "$node_pid" KILL
	pull_lazy lazy >"$T/pulled" 2>&1 &
	waiting=$!
	wait_until "$plugin_pid" waits_told 1
	start_fake_node
	wait "$waiting"
	[ "$(layer_gets "$I" lazy)" -eq 0 ]
	wait_until "$plugin_pid" backs_told 1
	stop_daemon "$node_pid" KILL
	rm "$T/node.sock" # as one that ended in order leaves it
	in_container bootseer lazy 'cat /srv/one/deep/file' >"$T/got" &
	waiting=$!
	wait_until "$plugin_pid" waits_told 2
	start_fake_node
	wait "$waiting"
	[ "$(cat "$T/got")" = one ]
	backs_told 2
	waits_told 2
}

@test "a call that the end of bootseerd cuts is made again" {
	start_all
	have_lazy
	push "$I" other
	fault image.prepare once close
	pull_lazy lazy
	[ "$(layer_gets "$I" lazy)" -eq 0 ]
	[ "$(calls image.prepare)" -eq 2 ]
	fault image.mount once close
	run in_container bootseer lazy 'cat /srv/one/deep/file'
	[ "$output" = one ]
	fault start.begin once close
	run in_container bootseer lazy 'cat /srv/one/deep/file'
	[ "$output" = one ]
	[ "$(calls start.begin)" -eq 3 ]
	# From an empty folder.
	fault layer.apply once close
	pull_lazy other
	run in_container bootseer other 'cat /srv/own/file /srv/one/deep/file'
	[ "$output" = "$(printf 'own\none')" ]
	[ "$(calls layer.apply)" -eq 5 ]
}

@test "an image that bootseerd has lost under a snapshot is brought again" {
	start_all
	have_lazy
	pull_lazy lazy
	fault image.mount once 2 no such image
	run in_container bootseer lazy 'cat /srv/one/deep/file'
	[ "$output" = one ]
	[ "$(calls image.prepare)" -eq 2 ]
	grep -q 'warning snapshots: lazy image is asked for again' "$T/plugin.log"
}

@test "when bootseerd ends, lazy images are unavailable and others are not" {
	start_all --node-timeout 1s
	have_lazy
	push "$I" plain
	pull_lazy lazy
	pull_full bootseer plain
	stop_daemon "$node_pid"
	run ! in_container bootseer lazy true
	[[ $output == *"cannot mount the lazy image"*bootseerd* ]]
	run in_container bootseer plain 'cat /srv/own/file'
	[ "$output" = own ]
	start_fake_node
	run in_container bootseer lazy 'cat /srv/one/deep/file'
	[ "$output" = one ]
}

@test "when bootseerd ends, what shares a layer with a lazy image says what it needs" {
	start_all --node-timeout 1s
	have_lazy
	push "$I" other
	pull_lazy lazy
	stop_daemon "$node_pid"
	run ! pull_lazy other
	[[ $output == *"image '$REGISTRY/lazy:1' left a layer out: remove it, or"* ]]
	[[ $output == *"bootseerd does not answer"* ]]
	# By a client that does not say which image it pulls, too.
	run ! pull_full bootseer other
	[[ $output == *"remove image '$REGISTRY/lazy:1'"*"bootseerd does not answer"* ]]
	ctr images rm --sync "$REGISTRY/lazy:1"
	pull_lazy other
	run in_container bootseer other 'cat /srv/own/file /srv/one/deep/file'
	[ "$output" = "$(printf 'own\none')" ]
}

@test "an image that cannot be mounted is pulled in full" {
	start_all
	have_lazy
	fault image.mount 5 no way to the kernel
	pull_lazy lazy
	# The lower ones were left out before the mount failed: bootseerd brings
	# them, containerd the top.
	[ "$(layer_gets "$I" lazy)" -eq 1 ]
	[ "$(calls layer.apply)" -eq 2 ]
	run in_container bootseer lazy 'cat /srv/one/deep/file'
	[ "$output" = one ]
	grep -q 'no way to the kernel' "$T/plugin.log"
}

@test "an image that bootseerd forgot meanwhile is asked for again, and lazy" {
	start_all
	have_lazy
	fault image.mount once 2 node gc took it
	pull_lazy lazy
	grep -q 'node gc took it' "$T/plugin.log"
	[ "$(calls image.prepare)" -eq 2 ]
	[ "$(layer_gets "$I" lazy)" -eq 0 ]
	run in_container bootseer lazy 'cat /srv/one/deep/file'
	[ "$output" = one ]
}

@test "a container starts as ever when bootseerd cannot prefetch for it" {
	start_all --start-timeout 300ms
	have_lazy
	pull_lazy lazy
	fault start.begin hang
	run in_container bootseer lazy 'cat /srv/one/deep/file'
	[ "$output" = one ]
	grep -q 'started without prefetch: .*within 300 ms' "$T/plugin.log"
	fault start.begin 5 no room
	run in_container bootseer lazy 'cat /srv/one/deep/file'
	[ "$output" = one ]
	[ "$(calls start.begin)" -eq 2 ]
	wait_until "$plugin_pid" start_has_ended
}

start_has_ended() { [ "$(calls start.end)" -ge 1 ]; }

@test "a bootseerd that hangs does not keep the plugin from starting" {
	start_all
	have_lazy
	push "$I" plain
	pull_lazy lazy
	stop_daemon "$plugin_pid" KILL
	rm "$T/plugin.sock"
	fault image.mount hang
	start_plugin --restore-timeout 200ms
	grep -q 'mounted when they are used' "$T/plugin.log"
	# No answer within 30 s was not waited for.
	[ "$(calls image.mount)" -ge 2 ]
	wait_until "$plugin_pid" ctr snapshots --snapshotter bootseer ls
	pull_full bootseer plain
	run in_container bootseer plain 'cat /srv/own/file'
	[ "$output" = own ]
	no_fault
	run in_container bootseer lazy 'cat /srv/one/deep/file'
	[ "$output" = one ]
}

@test "a tag that moved is asked for anew" {
	start_all
	have_lazy
	pull_lazy lazy
	# The tag now names another lazy image with one more layer.
	cp -r "$I/oci" "$T/oci"
	mkdir -p "$T/new/srv"
	echo newer >"$T/new/srv/newer"
	add_layer "$T" lazy "$T/new"
	echo '[]' >"$T/node/images.json"
	push "$T" lazy
	rm -rf "$T/node/lazy"
	fake_lazy "$T" lazy
	pull_lazy lazy
	run in_container bootseer lazy 'cat /srv/newer /srv/one/deep/file'
	[ "$output" = "$(printf 'newer\none')" ]
	[ "$(layer_gets "$T" lazy)" -eq 0 ]
}

@test "the socket may come from the service manager" {
	/usr/bin/python3 - "$T/plugin.sock" "$plugin" --root "$T/plugin" \
		--node "$T/node.sock" >>"$T/plugin.log" 2>&1 3>&- <<-'END' &
	import os, socket, sys
	s = socket.socket(socket.AF_UNIX)
	s.bind(sys.argv[1])
	s.listen()
	if s.fileno() != 3:
	    os.dup2(s.fileno(), 3)
	os.set_inheritable(3, True)
	os.environ["LISTEN_FDS"] = "1"
	os.environ["LISTEN_PID"] = str(os.getpid())
	os.execv(sys.argv[2], sys.argv[2:])
	END
	plugin_pid=$!
	pids+=("$plugin_pid")
	wait_until "$plugin_pid" grep -q listening "$T/plugin.log"
	start_containerd
	push "$I" plain
	pull_full bootseer plain
	stop_daemon "$plugin_pid"
	[ -S "$T/plugin.sock" ] # not the plugin's to remove
}

@test "folders that a power loss took are made again, layers are not" {
	local id

	start_all
	push "$I" plain
	pull_full bootseer plain
	ctr snapshots --snapshotter bootseer prepare active \
		"$(chain_ids_of "$I" plain | tail -1)"
	id=$(ls "$T/plugin/snapshots" | sort -n | tail -1)
	rm -r "$T/plugin/snapshots/$id"
	ctr snapshots --snapshotter bootseer mounts "$T/x" active
	[ -d "$T/plugin/snapshots/$id/work" ]
	grep -q 'were lost' "$T/plugin.log"
	rm -r "$T/plugin/snapshots/1"
	run ! in_container bootseer plain true
	[ ! -e "$T/plugin/snapshots/1" ]
}

@test "metadata that is lost is told, and nothing is deleted" {
	start_all
	push "$I" plain
	pull_full bootseer plain
	stop_daemon "$plugin_pid"
	rm "$T/plugin"/metadata.db*
	run ! "$plugin" --root "$T/plugin" --address "$T/plugin.sock"
	[[ $output == *"metadata.db is gone"* ]]
	[ "$(ls "$T/plugin/snapshots" | wc -l)" -eq 3 ]
}

@test "a second plugin on the same folder is refused" {
	start_fake_node
	start_plugin
	run ! "$plugin" --root "$T/plugin" --address "$T/second.sock"
	[[ $output == *"another bootseer-snapshotter uses"* ]]
}

@test "a second plugin on the same socket is refused, the first stays" {
	start_fake_node
	start_plugin
	run ! "$plugin" --root "$T/second" --address "$T/plugin.sock"
	[[ $output == *"is served by another process"* ]]
	[ -S "$T/plugin.sock" ]
	kill -KILL "$plugin_pid"
	wait "$plugin_pid" || true
	start_plugin
}

@test "a pull waits once for a bootseerd that hangs, not for each layer" {
	start_all --node-timeout 1s
	have_lazy
	fault image.prepare hang
	pull_lazy lazy
	[ "$(calls image.prepare)" -eq 1 ]
	run in_container bootseer lazy 'cat /srv/one/deep/file'
	[ "$output" = one ]
}

@test "it ends when it is told to, with a call under way" {
	local pull

	start_all
	have_lazy
	fault image.prepare hang
	pull_lazy lazy >/dev/null 2>&1 &
	pull=$!
	wait_until "$plugin_pid" grep -q image.prepare "$T/node/calls"
	stop_daemon "$plugin_pid"
	[ ! -e "$T/plugin.sock" ]
	wait_fails "$pull"
}
