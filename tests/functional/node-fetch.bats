#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What `bootseer node fetch` makes of images that somebody else pushed, with a fake ctr that
# has what containerd would say; with a real containerd: containerd-node.bats.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/node.bash"

setup() {
	T=$(mktemp -d /var/tmp/node-fetch.XXXXXX)
	pids=()
	mkdir "$T/bin" "$T/blobs"
	: >"$T/labels" >"$T/images"
	cat >"$T/bin/ctr" <<-'END'
		#!/bin/sh
		while [ "${1#--}" != "$1" ]; do shift 2; done
		case $1-$2 in
		namespaces-ls) echo k8s.io ;;
		content-ls)
			for f in "$FAKE"/blobs/*; do
				echo "sha256:${f##*/} 1kB 1s $(grep "${f##*/}" "$FAKE/labels")"
			done ;;
		images-ls) cat "$FAKE/images" ;;
		content-get) cat "$FAKE/blobs/${3#sha256:}" || echo "$3" >>"$FAKE/cut" ;;
		content-label) ;;
		content-ingest) cat >>"$FAKE/ingested" ;;
		*) exit 1 ;;
		esac
	END
	chmod 755 "$T/bin/ctr"
}

teardown() { node_teardown; }

node_fetch() { FAKE=$T PATH=$T/bin:$PATH "$bootseer" node fetch "$@"; }
fetch() { node_fetch --plain-http "$@"; }

# A blob of stdin; its hex digits.
blob() {
	local hex

	cat >"$T/new"
	hex=$(sha256sum "$T/new" | cut -d' ' -f1)
	mv "$T/new" "$T/blobs/$hex"
	echo "$hex"
}

# image NAME SIZE [HOST]: one that was unpacked here and lacks a layer of that size, which
# is its name in a line.
image() {
	local config manifest

	config=$(echo "{\"config\": \"$1\"}" | blob)
	echo "$config,containerd.io/gc.ref.snapshot.bootseer=sha256:0" >>"$T/labels"
	manifest=$(blob <<-END
		{"config": {"digest": "sha256:$config"}, "layers":
		 [{"digest": "sha256:$(echo "$1" | sha256sum | cut -d' ' -f1)", "size": $2}]}
	END
	)
	echo "${3:-127.0.0.1:1}/$1:1 type sha256:$manifest" >>"$T/images"
}

@test "an index that calls a large blob a manifest costs no memory, and no other image" {
	head -c 700M /dev/zero | blob >"$T/large"
	blob >"$T/index" <<-END
		{"manifests": [{"digest": "sha256:$(cat "$T/large")"}]}
	END
	echo "127.0.0.1:1/evil:1 type sha256:$(cat "$T/index")" >"$T/images"
	image good 10
	run -1 --separate-stderr fetch --dry-run
	[[ ${lines[0]} == "k8s.io 127.0.0.1:1/good:1 sha256:"* ]]
	[ "${lines[-1]}" = "1 layer missing, 10 B" ]
	[[ $stderr == *"1 image not read: image 127.0.0.1:1/evil:1: "*"is no manifest"* ]]
	# Its bytes were not taken.
	[ "$(cat "$T/cut")" = "sha256:$(cat "$T/large")" ]
}

@test "a layer for which there is no room is refused before it is fetched" {
	image huge 4611686018427387904
	run -1 --separate-stderr fetch
	[[ $stderr == *"1 layer still missing: "*"has no room in '/var/tmp': --tmp"* ]]
}

# Layers of two images are there, one in a registry without TLS, one at its mirror.
registry_with_layers() {
	D=$T
	mkdir -p "$T/oci/blobs/sha256" "$T/hosts/up.invalid"
	umoci init --layout "$T/layout"
	cp "$T"/layout/{index.json,oci-layout} "$T/oci"
	for name in plain mirrored; do
		echo "$name" >"$T/oci/blobs/sha256/$(echo "$name" | sha256sum | cut -d' ' -f1)"
	done
	registry_start
	cat >"$T/hosts/up.invalid/hosts.toml" <<-END
		server = "https://up.invalid"
		[host."http://$REGISTRY"]
		  capabilities = ["pull", "resolve"]
	END
	image plain 6 "$REGISTRY"
	image mirrored 9 up.invalid
}

@test "registries are asked as bootseerd asks them: without TLS, and by mirrors" {
	registry_with_layers
	export BOOTSEER_SOCKET=$T/run/bootseerd.sock
	node_start --hosts-dir "$T/hosts"
	run -0 --separate-stderr node_fetch
	[ "${lines[-1]}" = "2 layers missing, 2 fetched, 15 B" ]
	[ -z "$stderr" ]
	printf 'plain\nmirrored\n' | diff - "$T/ingested"
	grep -q '/blobs/.*?ns=up.invalid ' "$T/requests"
}

@test "where no bootseerd answers, that is said, and the options count" {
	registry_with_layers
	export BOOTSEER_SOCKET=$T/none.sock
	run -1 --separate-stderr node_fetch
	[[ $stderr == *"asked without bootseerd's options: bootseerd does not answer"* ]]
	[[ $stderr == *"2 layers still missing: "* ]]
}
