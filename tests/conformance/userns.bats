#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Containers in user namespaces on lazy images, under containerd 2: ids are mapped as on
# overlayfs, and no layer is fetched.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../containerd/lib.bash"

setup_file() {
	CONTAINERD2=$("$BATS_TEST_DIRNAME/build" containerd-2)
	RUNC=$("$BATS_TEST_DIRNAME/build" runc)
	export CONTAINERD2 RUNC
	make_images "$BATS_FILE_TMPDIR" >/dev/null
	new_image "$BATS_FILE_TMPDIR" more base one two own >/dev/null
	"$bootseer" key new "$BATS_FILE_TMPDIR/key" >/dev/null
}

setup() {
	PATH=$CONTAINERD2:$PATH
	containerd_setup
	# A container's root, who is nobody here, comes to its rootfs through these.
	chmod 711 "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR/test" "$T"
}

teardown() { containerd_teardown; }

start_all() { # [OPTION OF BOOTSEERD...]
	start_node "$@"
	start_plugin
	start_containerd
	push "$I" lazy
	convert_image lazy --sign "$I/key"
	gets_before=$(layer_gets "$I" lazy)
}

# Layer requests since the conversion.
gets() { echo $(($(layer_gets "$I" lazy) - gets_before)); }

in_userns() { # SNAPSHOTTER TAG COMMAND
	said_by run --rm --snapshotter "$1" --uidmap 0:100000:65536 \
		--gidmap 0:100000:65536 --remap-labels "$REGISTRY/$2:1" \
		"u$BATS_TEST_NUMBER-$RANDOM" /bin/sh -c "$3"
}

# Writes into every folder of the image, and into a file of it.
WRITES='set -e; cat /proc/self/uid_map
	for d in / /etc /srv/one /srv/one/deep /tmp; do echo new >$d/new; done
	echo more >>/etc/passwd; cat /etc/passwd /srv/one/deep/new
	stat -c "%u %g %a" /new /etc/passwd /srv/one/deep/new'

@test "a lazy image in a user namespace has its ids, takes writes, and fetches no layer" {
	start_all
	pull_full bootseer lazy >/dev/null
	in_userns bootseer lazy "$LISTING" >"$T/got"
	in_userns bootseer lazy "$WRITES" >"$T/wrote"
	[ "$(gets)" -eq 0 ]
	pull_full overlayfs lazy >/dev/null
	in_userns overlayfs lazy "$LISTING" >"$T/want"
	in_userns overlayfs lazy "$WRITES" >"$T/want-wrote"
	diff "$T/want" "$T/got"
	diff "$T/want-wrote" "$T/wrote"
	grep -q '^ *0 *100000 *65536$' "$T/wrote"
	grep -q '^srv/one/deep directory 755 1000 1001 ' "$T/got"
}

# A network plugin that has nothing to do; containerd runs no such pod without one.
fake_network() {
	mkdir -p "$T/cni/bin" "$T/cni/net.d"
	cat >"$T/cni/bin/nothing" <<-'END'
		#!/bin/sh
		case $CNI_COMMAND in
		VERSION) echo '{"cniVersion": "1.0.0", "supportedVersions": ["1.0.0"]}' ;;
		ADD) echo '{"cniVersion": "1.0.0", "interfaces": [{"name": "eth0",
			"sandbox": "'"$CNI_NETNS"'"}], "ips": [{"interface": 0,
			"address": "10.9.9.9/24"}]}' ;;
		esac
	END
	chmod +x "$T/cni/bin/nothing"
	ln -s nothing "$T/cni/bin/loopback"
	cat >"$T/cni/net.d/1.conflist" <<-'END'
		{"cniVersion": "1.0.0", "name": "none", "plugins": [{"type": "nothing"}]}
	END
	EXTRA_CONFIG="[plugins.\"io.containerd.cri.v1.runtime\".cni]
		bin_dirs = [\"$T/cni/bin\"]
		conf_dir = \"$T/cni/net.d\""
}

@test "a pod with hostUsers: false runs lazily" {
	PATH=$RUNC:$PATH
	fake_network
	start_all
	push "$I" pause
	cri pull "$REGISTRY/lazy:1"
	run --separate-stderr cri run-userns "$REGISTRY/lazy:1" pod /bin/sh -c "$WRITES"
	cri stop
	[ "$status" -eq 0 ]
	[[ ${lines[0]} =~ ^\ *0\ +100000\ +65536$ ]]
	[[ $output == *more*new*"0 0 644"* ]]
	[ "$(gets)" -eq 0 ]
}

@test "layers on top of a lazy image are mapped with those of it" {
	start_all
	push "$I" more
	pull_full bootseer lazy >/dev/null
	pull_full bootseer more >/dev/null
	[ "$(gets)" -eq 0 ]
	in_container bootseer more "$LISTING" >"$T/got"
	in_userns bootseer more "$LISTING" >"$T/mapped"
	in_userns bootseer more "$WRITES" >"$T/wrote"
	pull_full overlayfs more >/dev/null
	in_userns overlayfs more "$LISTING" >"$T/want"
	in_userns overlayfs more "$WRITES" >"$T/want-wrote"
	diff "$T/want" "$T/mapped"
	diff "$T/want" "$T/got"
	diff "$T/want-wrote" "$T/wrote"
	grep -q '^srv/own/file ' "$T/mapped"
	run ! grep -q '^opt/gone ' "$T/mapped"
}

@test "layers that bootseerd unpacked are mapped as those that containerd unpacked" {
	EXTRA_CONFIG=$(unpacking) start_all --containerd-root "$T/ctd/root"
	push "$I" other
	ctr images pull --local --plain-http --snapshotter bootseer "$REGISTRY/other:1" >/dev/null
	[ "$(unpacked)" -eq 3 ]
	in_userns bootseer other "$LISTING" >"$T/got"
	in_userns bootseer other "$WRITES" >"$T/wrote"
	pull_full overlayfs other >/dev/null
	[ "$(unpacked)" -eq 3 ]
	in_userns overlayfs other "$LISTING" >"$T/want"
	in_userns overlayfs other "$WRITES" >"$T/want-wrote"
	diff "$T/want" "$T/got"
	diff "$T/want-wrote" "$T/wrote"
	grep -q '^srv/own/file ' "$T/got"
}

@test "without the capability containerd chowns, and nothing is mapped once more" {
	DOCUMENTED='s/^  capabilities = .*//' start_all
	pull_full bootseer lazy >/dev/null
	in_userns bootseer lazy "$LISTING" >"$T/got"
	in_userns bootseer lazy "$WRITES" >"$T/wrote"
	pull_full overlayfs lazy >/dev/null
	in_userns overlayfs lazy "$LISTING" >"$T/want"
	in_userns overlayfs lazy "$WRITES" >"$T/want-wrote"
	# What is chowned is copied, each name of a file for itself.
	sed -Ei 's/^[0-9]+ ([0-9]+ [0-9]+)$/\1/' "$T/want" "$T/got"
	diff "$T/want" "$T/got"
	diff "$T/want-wrote" "$T/wrote"
}

@test "where the kernel maps no ids of the tree, the layers are fetched instead" {
	start_all --datapath fuse
	pull_full bootseer lazy >/dev/null
	[ "$(gets)" -eq 0 ]
	in_userns bootseer lazy "$LISTING" >"$T/got"
	[ "$(gets)" -eq 3 ]
	grep -q 'layers are downloaded for a container in a user namespace' \
		"$T/plugin.log"
	pull_full overlayfs lazy >/dev/null
	in_userns overlayfs lazy "$LISTING" >"$T/want"
	diff "$T/want" "$T/got"
}
