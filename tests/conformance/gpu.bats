#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# GPU nodes without a GPU: a CDI specification as NVIDIA's toolkit writes it, whose hooks read
# the container's root before its first line, and the file that the GPU operator puts beside
# ours.  Only the hook's and the runtime's programs are fakes.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../containerd/lib.bash"
. "$BATS_TEST_DIRNAME/../containerd/join.bash"

setup_file() {
	C17=$("$BATS_TEST_DIRNAME/build" containerd-1.7)
	C2=$("$BATS_TEST_DIRNAME/build" containerd-2)
	export C17 C2
	make_images "$BATS_FILE_TMPDIR" >/dev/null
	"$bootseer" key new "$BATS_FILE_TMPDIR/key" >/dev/null
}

setup() {
	case $BATS_TEST_DESCRIPTION in
	*1.7*) PATH=$C17:$PATH cri_section=io.containerd.grpc.v1.cri ;;
	*) PATH=$C2:$PATH cri_section=io.containerd.cri.v1.runtime ;;
	esac
	case $BATS_TEST_DESCRIPTION in
	*hooks*) containerd_setup ;;
	*) join_setup ;;
	esac
}

teardown() {
	case $BATS_TEST_DESCRIPTION in
	*hooks*) containerd_teardown ;;
	*) join_teardown ;;
	esac
}

# --- hooks --------------------------------------------------------------------

# /var/run/cdi/nvidia.yaml as `nvidia-ctk cdi generate` makes it, with the driver's library,
# and the hooks create-symlinks and update-ldcache, which runs ldconfig in the root.
make_cdi() {
	mkdir "$T/cdi"
	echo driver >"$T/libcuda"
	cat >"$T/nvidia-cdi-hook" <<-'END'
	#!/bin/bash
	set -e
	PATH=/usr/sbin:/usr/bin:/sbin:/bin
	bundle=$(jq -r .bundle)
	root=$(jq -r .root.path "$bundle/config.json")
	[[ $root = /* ]] || root=$bundle/$root
	case $1 in
	create-symlinks) ln -s libcuda.so.1 "$root/srv/libcuda.so" ;;
	update-ldcache) sha256sum "$root/srv/two/data" >"$root/etc/ld.so.cache" ;;
	esac
	END
	chmod +x "$T/nvidia-cdi-hook"
	jq -n --arg hook "$T/nvidia-cdi-hook" --arg lib "$T/libcuda" '
		def hook(name): {hookName: "createContainer", path: $hook,
			args: ["nvidia-cdi-hook", name]};
		{cdiVersion: "0.5.0", kind: "nvidia.com/gpu",
		devices: [{name: "0", containerEdits: {deviceNodes: [
			{path: "/dev/nvidia0", hostPath: "/dev/null"}]}}],
		containerEdits: {env: ["NVIDIA_VISIBLE_DEVICES=void"],
		hooks: [hook("create-symlinks"), hook("update-ldcache")],
		mounts: [{hostPath: $lib, containerPath: "/srv/libcuda.so.1",
			options: ["ro", "nosuid", "nodev", "bind"]}]}}' >"$T/cdi/nvidia.json"
	EXTRA_CRI=$(printf 'enable_cdi = true\n  cdi_spec_dirs = ["%s"]' "$T/cdi")
}

# Paths of the traces on the node.
traced() {
	local trace

	for trace in $(find "$T/noderoot/traces/store" -name '*.trace'); do
		"$bootseer" trace show --json "$trace" | jq -r '.. | .path? // empty'
	done
}

has_trace() { [ -n "$(traced)" ]; }

# A pod with the device starts lazily, has what the hooks made, and its trace has what they
# alone read.
hooks_are_traced() {
	make_cdi
	start_node --prefetch hot
	start_plugin
	start_containerd
	push "$I" lazy
	push "$I" pause
	convert_image lazy --sign "$I/key"
	gets=$(layer_gets "$I" lazy)
	cri pull "$REGISTRY/lazy:1"
	CRI_DEVICE=nvidia.com/gpu=0 cri run "$REGISTRY/lazy:1" gpu /bin/sh -c \
		'cat /srv/libcuda.so; ls /dev/nvidia0; cat /etc/ld.so.cache' >"$T/said"
	grep -qx driver "$T/said"
	grep -qx /dev/nvidia0 "$T/said"
	grep -q "^$(sha256sum <"$I/two/srv/two/data" | cut -d' ' -f1) " "$T/said"
	[ "$(layer_gets "$I" lazy)" -eq "$gets" ]
	cri stop
	wait_until "$node_pid" has_trace
	traced >"$T/paths"
	grep -qx /srv/two/data "$T/paths"
	run ! grep -qx /srv/one/deep/file "$T/paths" # nobody read it
}

@test "containerd 1.7: a lazy image starts with a GPU's hooks, and its trace has what they read" {
	hooks_are_traced
}

@test "containerd 2: a lazy image starts with a GPU's hooks, and its trace has what they read" {
	hooks_are_traced
}

# --- the GPU operator's file ----------------------------------------------------

# Without the list of files, which 1.7 prints in any order.
dump() { # FILE
	containerd --config "$T/ctd/config.toml" config dump >"$1" 2>/dev/null
	sed -i '/^imports/d' "$1"
}

# The value of a key in a section of containerd's configuration, quotes left out.
dumped() { # SECTION KEY
	dump "$T/dump"
	awk -v s="$1" -v k="$2" '{ gsub(/["'\'']/, "") }
		/^ *\[/ { gsub(/[][ ]/, ""); here = $0; next }
		here == s && $1 == k { print $3 }' "$T/dump"
}

runtime_of() { # RUNTIME
	dumped "plugins.$cri_section.containerd.runtimes.$1.options" BinaryName
}

default_runtime() { dumped "plugins.$cri_section.containerd" default_runtime_name; }

# 99-nvidia.toml as nvidia-container-toolkit of the operator writes it, and its imports.
make_nvidia() {
	local version

	version=$(grep '^version' "$T/was.toml")
	cat >"$T/nvidia-container-runtime" <<-END
	#!/bin/sh
	echo "\$*" >>"$T/nvidia.calls"
	exec runc "\$@"
	END
	chmod +x "$T/nvidia-container-runtime"
	mkdir -p "$T/ctd/conf.d"
	grep -q '^imports' "$T/ctd/config.toml" || {
		printf 'imports = ["%s"]\n' "$T/ctd/conf.d/*.toml" |
			cat - "$T/ctd/config.toml" >"$T/new.toml"
		mv "$T/new.toml" "$T/ctd/config.toml"
	}
	{
		echo "$version"
		# 1.x: a file's section replaces the one before, so the operator repeats it.
		[[ $cri_section = *v1.runtime ]] ||
			sed -n '/^\[plugins/,$p' "$T/was.toml"
		cat <<-END
		[plugins."$cri_section".containerd]
		  default_runtime_name = "nvidia"
		[plugins."$cri_section".containerd.runtimes.nvidia]
		  runtime_type = "io.containerd.runc.v2"
		[plugins."$cri_section".containerd.runtimes.nvidia.options]
		  BinaryName = "$T/nvidia-container-runtime"
		END
	} >"$T/ctd/conf.d/99-nvidia.toml"
}

restart_containerd() {
	"$T/restart" 3>&- 4>&-
	restarted
	wait_until "$containerd_pid" containerd_answers
}

# Both files are in force, and pods run lazily by NVIDIA's runtime.
both_are_there() {
	[ "$(default_runtime)" = nvidia ]
	[ "$(runtime_of nvidia)" = "$T/nvidia-container-runtime" ]
	[ "$(runtime_of bootseer)" = "$T/nvidia-container-runtime" ]
}

operator_first() {
	make_nvidia
	restart_containerd
	dump "$T/dump.nvidia"
	run -0 node_ join --pods runtime
	both_are_there
	run -0 node_ leave --no-fetch
	dump "$T/dump"
	diff "$T/dump.nvidia" "$T/dump"
	run -0 node_ join --pods all
	restarted
	[ "$(default_runtime)" = nvidia ]
	: >"$T/nvidia.calls"
	cri pull "$REGISTRY/lazy:1"
	[ "$(layer_gets "$I" lazy)" -eq 0 ]
	[ "$(cri run "$REGISTRY/lazy:1" gpu /bin/sh -c 'cat /srv/one/deep/link')" = one ]
	grep -q create "$T/nvidia.calls"
	cri stop
	run -0 node_ leave --no-fetch
	restarted
	dump "$T/dump"
	diff "$T/dump.nvidia" "$T/dump"
}

# A node that joined before the operator came: joining again takes the new runtime over.
operator_later() { # DEFAULT RUNTIME BEFORE THAT
	run -0 node_ join --pods runtime
	make_nvidia
	restart_containerd
	[ "$(runtime_of bootseer)" != "$T/nvidia-container-runtime" ]
	[ "$(default_runtime)" = "$1" ]
	run -0 node_ join --pods runtime
	restarted
	both_are_there
}

@test "containerd 1.7: a node with the GPU operator's file joins, and leaves it as it was" {
	operator_first
}

@test "containerd 2: a node with the GPU operator's file joins, and leaves it as it was" {
	operator_first
}

@test "containerd 1.7: after the GPU operator came a node joins again" {
	operator_later runc
}

@test "containerd 2: after the GPU operator came a node joins again" {
	operator_later nvidia
}
