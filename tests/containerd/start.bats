#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Starts of real containers: what runc, its hooks and the container read becomes
# a trace, and the next start has it before it runs.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/lib.bash"

setup_file() {
	make_images "$BATS_FILE_TMPDIR" >/dev/null
	"$bootseer" key new "$BATS_FILE_TMPDIR/key" >/dev/null
}
setup() { containerd_setup; }
teardown() { containerd_teardown; }

start_all() { # [OPTION OF BOOTSEERD...]
	start_node --prefetch hot --log-level debug "$@"
	start_plugin
	start_containerd
	push "$I" lazy
	convert_image lazy --sign "$I/key"
	pull_lazy lazy
}

explain() { # FILTER
	"$bootseer" image explain --json "$REGISTRY/lazy:1" |
		jq -r "(.starts // .)$1"
}
has_starts() { [ "$(explain '|length')" -ge "$1" ]; }

# Paths of the only trace on the node.
traced() {
	"$bootseer" trace show --json "$(find "$T/noderoot/traces/store" \
		-name '*.trace')" | jq -r '.. | .path? // empty' | sort -u
}

# A runc that puts a hook into the bundle, as GPU runtimes do: it reads a
# library of the root before the container's own program runs.
make_runtime() {
	cat >"$T/hook" <<-'END'
	#!/bin/sh
	bundle=$(jq -r .bundle)
	exec cat "$bundle/rootfs/srv/two/data" >/dev/null
	END
	cat >"$T/runtime" <<-END
	#!/bin/bash
	for word; do
		if [ "\$word" = create ]; then
			jq '.hooks.prestart += [{"path": "$T/hook"}]' \
				config.json >config.new
			mv config.new config.json
		fi
	done
	exec runc "\$@"
	END
	chmod +x "$T/hook" "$T/runtime"
}

# What a container does until it is ended.
STAY='busybox mkfifo /wait; read x </wait'

run_it() { # ID COMMAND [OPTION...]
	local id=$1 command=$2

	shift 2
	ctr run --rm --snapshotter bootseer "$@" "$REGISTRY/lazy:1" "$id" \
		/bin/sh -c "$command"
}

@test "a start is recorded with its hooks, and the next one misses nothing" {
	make_runtime
	start_all
	run_it c1 'cat /srv/one/deep/file' --runc-binary "$T/runtime"
	wait_until "$node_pid" has_starts 1
	# What the image itself says may have come in time.
	[[ $(explain '[0].trace') =~ ^(none|predicted)$ ]]
	[ "$(explain '[0].recorded')" = true ]
	[ "$(explain '[0].end')" = gone ]
	[ "$(explain '[0].missed_blocks')" -gt 0 ]
	traced >"$T/paths"
	grep -qx /bin/busybox "$T/paths"
	grep -qx /srv/two/data "$T/paths"
	# A node without a block of it, but with the trace.
	ctr images rm --sync "$REGISTRY/lazy:1"
	wait_until "$plugin_pid" gone
	"$bootseer" node gc --cache 0
	pull_lazy lazy
	run_it c2 'cat /srv/one/deep/file' --runc-binary "$T/runtime" \
		--snapshotter-label containerd.io/snapshot/bootseer.wait=all
	wait_until "$node_pid" has_starts 2
	[ "$(explain '[0].trace')" = workload ]
	[ "$(explain '[0].hot.used_blocks')" -gt 0 ]
	[ "$(explain '[0].missed_blocks')" = 0 ]
	[ "$(explain '[0].fetched.demand')" = 0 ]
}

gone() { ! grep -q " $T/noderun/.* - erofs " /proc/self/mountinfo; }

@test "a recording is kept under the words that the container runs" {
	start_all
	ctr run -d --snapshotter bootseer "$REGISTRY/lazy:1" c1 \
		/bin/sh -c "cat /srv/one/deep/file; $STAY"
	wait_until "$node_pid" grep -q 'debug starts: workload of start=' \
		"$T/node.log"
	ctr task rm -f c1
	ctr containers rm c1
	wait_until "$node_pid" has_starts 1
	[[ $(explain '[0].workload') != default-* ]]
	run_it c2 true \
		--snapshotter-label containerd.io/snapshot/bootseer.workload=mine
	wait_until "$node_pid" has_starts 2
	[ "$(explain '[0].workload')" = mine ]
}

@test "a file that the container makes tells that it is ready" {
	start_all
	ctr run -d --snapshotter bootseer \
		--snapshotter-label containerd.io/snapshot/bootseer.ready-file=/root/ready \
		"$REGISTRY/lazy:1" c1 /bin/sh -c ": >/root/ready; $STAY"
	wait_until "$node_pid" has_starts 1
	[ "$(explain '[0].end')" = ready ]
	[ "$(explain '[0].ready_ms')" -gt 0 ]
}

@test "the command in the container tells that it is ready" {
	start_all
	ctr run -d --snapshotter bootseer \
		--mount "type=bind,src=$T/noderun/ready.sock,dst=/run/bootseer/ready.sock,options=bind:rw" \
		--mount type=bind,src=/usr,dst=/usr,options=rbind:ro \
		--mount type=bind,src=/lib,dst=/lib,options=rbind:ro \
		--mount type=bind,src=/lib64,dst=/lib64,options=rbind:ro \
		--mount "type=bind,src=$bootseer,dst=/opt/bootseer,options=bind:ro" \
		"$REGISTRY/lazy:1" c1 \
		/bin/sh -c "/opt/bootseer image ready; $STAY"
	wait_until "$node_pid" has_starts 1
	[ "$(explain '[0].end')" = ready ]
}

