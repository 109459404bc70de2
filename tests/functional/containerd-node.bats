#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The whole way: an image is converted, bootseerd has it from a real registry,
# containerd starts it through bootseer-snapshotter.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../containerd/lib.bash"

setup_file() { make_images "$BATS_FILE_TMPDIR" >/dev/null; }
setup() { containerd_setup; }
teardown() { containerd_teardown; }

bootseerd=$BOOTSEER_BUILD/snapshotter/node/bootseerd
bootseer=$BOOTSEER_BUILD/cli/bootseer

start_node() { # [OPTION...]
	start_daemon "$T/node.log" "$bootseerd" --root "$T/noderoot" \
		--run "$T/noderun" --plain-http "$REGISTRY" "$@"
	node_pid=$daemon_pid
	wait_until "$node_pid" test -S "$T/noderun/bootseerd.sock"
	ln -sf "$T/noderun/bootseerd.sock" "$T/node.sock"
}

start_all() { # [OPTION OF BOOTSEERD...]
	start_node "$@"
	start_plugin
	start_containerd
}

have_lazy() {
	push "$I" lazy
	"$bootseer" image convert --plain-http "docker://$REGISTRY/lazy:1" \
		"docker://$REGISTRY/lazy:1"
	gets_before=$(layer_gets "$I" lazy)
}

# Layer requests since the conversion.
gets() { echo $(($(layer_gets "$I" lazy) - gets_before)); }

@test "a converted image starts lazily by ctr-remote and looks the same" {
	start_all
	have_lazy
	pull_lazy lazy
	in_container bootseer lazy "$LISTING" >"$T/got"
	[ "$(gets)" -eq 0 ]
	pull_full overlayfs lazy
	in_container overlayfs lazy "$LISTING" >"$T/want"
	diff "$T/want" "$T/got"
	[ "$(wc -l <"$T/got")" -gt 20 ]
}

@test "the CRI starts a converted image without a layer" {
	start_all
	have_lazy
	push "$I" pause
	cri pull "$REGISTRY/lazy:1"
	run cri run "$REGISTRY/lazy:1" pod /bin/sh -c 'cat /srv/one/deep/link &&
		echo new >/srv/two/new && ls /srv/two'
	cri stop
	[ "$status" -eq 0 ]
	[ "$output" = "$(printf 'one\ndata\nnew')" ]
	[ "$(gets)" -eq 0 ]
}

@test "a flat image of one layer starts lazily, and without us in full" {
	local layer

	start_all
	push "$I" lazy
	"$bootseer" image convert --plain-http --form flat \
		"docker://$REGISTRY/lazy:1" "docker://$REGISTRY/flat:1"
	pull_lazy flat
	in_container bootseer flat "$LISTING" >"$T/got"
	layer=$(curl -sf -H 'Accept: application/vnd.oci.image.manifest.v1+json' \
		"http://$REGISTRY/v2/flat/manifests/1" |
		jq -r '.layers[].digest')
	run ! grep -q "GET /v2/flat/blobs/$layer .*containerd" "$T/registry.log"
	pull_full overlayfs flat
	grep -q "GET /v2/flat/blobs/$layer .*containerd" "$T/registry.log"
	in_container overlayfs flat "$LISTING" >"$T/want"
	diff "$T/want" "$T/got"
}

@test "an ordinary image that shares layers with a converted one has them" {
	start_all
	have_lazy
	push "$I" other
	pull_lazy lazy
	pull_lazy other
	in_container bootseer other "$LISTING" >"$T/got"
	pull_full overlayfs other
	in_container overlayfs other "$LISTING" >"$T/want"
	diff "$T/want" "$T/got"
}

@test "after everything was killed a container starts again without a layer" {
	start_all
	have_lazy
	pull_lazy lazy
	in_container bootseer lazy true
	stop_daemon "$containerd_pid" KILL
	stop_daemon "$plugin_pid" KILL
	stop_daemon "$node_pid" KILL
	rm "$T/plugin.sock" "$T/ctd/log" "$T/noderun/bootseerd.sock"
	start_all
	run in_container bootseer lazy 'cat /srv/one/deep/file'
	[ "$output" = one ]
	[ "$(gets)" -eq 0 ]
}

@test "a container outlives bootseerd and reads on when it is back" {
	local reader

	start_all --hold
	have_lazy
	pull_lazy lazy
	ctr run -d --snapshotter bootseer "$REGISTRY/lazy:1" long \
		sh -c "busybox mkfifo /wait; read x </wait"
	echo 3 >/proc/sys/vm/drop_caches
	pkill -KILL -P "$node_pid" # the holder starts another
	ctr task exec --exec-id a long sha256sum /srv/two/data >"$T/sum" &
	reader=$!
	wait "$reader"
	[ "$(cut -d' ' -f1 "$T/sum")" = \
		"$(sha256sum "$I/two/srv/two/data" | cut -d' ' -f1)" ]
	wait_until "$node_pid" in_container bootseer lazy true
}

@test "removing a converted image takes its mount down" {
	start_all
	have_lazy
	pull_lazy lazy
	in_container bootseer lazy true
	grep -q " $T/noderun/" /proc/self/mountinfo
	ctr images rm --sync "$REGISTRY/lazy:1"
	wait_until "$plugin_pid" gone
}

gone() { ! grep -q " $T/noderun/.* - erofs " /proc/self/mountinfo; }
