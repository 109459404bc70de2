# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# nydus: images made by its nydus-image, started by its snapshotter and daemon with
# the settings that they ship with but for what is said here.

nydus_missing() {
	local program

	for program in nydus-image nydusd containerd-nydus-grpc; do
		command -v "$program" >/dev/null || {
			echo "$program is not on PATH"
			return
		}
	done
}

# Put REPOSITORY:TAG into the registry, if it is not there: the files of $image in
# one blob, and its metadata with a table of the files named in LIST, one path a
# line, that nydusd is to fetch first.
store_nydus() { # REPOSITORY:TAG [LIST]
	local at=$W/node/nydus layout

	has_tag "$1" && return
	layout=$(image "$image")
	log "$image: nydus-image create"
	mkdir -p "$at/image"
	umoci unpack --image "$layout:latest" "$at/bundle" >/dev/null
	nydus-image create --type dir-rafs --whiteout-spec none \
		--prefetch-policy "$([[ ${2-} ]] && echo fs || echo none)" \
		--bootstrap "$at/image/image.boot" --blob "$at/blob" \
		"$at/bundle/rootfs" <"${2:-/dev/null}" >"$at/log" 2>&1 ||
		die "nydus-image: $(tail -n 1 "$at/log")"
	rm -rf --one-file-system "$at/bundle"
	tar -C "$at" -cf "$at/metadata.tar" image
	nydus_layout "$layout" "$at" "$1"
	push_image "$at/layout:latest" "$1"
}

# An OCI layout of the blob and the metadata in DIR.  What the snapshotter is told
# of layers by the CRI plugin stands in their annotations, since containerd passes
# these on as well and ctr-remote says nothing of the kind.
nydus_layout() { # ORDINARY-LAYOUT DIR REPOSITORY:TAG
	local at=$2 blobs=$2/layout/blobs/sha256 manifest blob metadata config

	mkdir -p "$blobs"
	gzip -n -k "$at/metadata.tar"
	manifest=$1/blobs/sha256/$(jq -r '.manifests[0].digest[7:]' "$1/index.json")
	blob=$(add_blob "$blobs" "$at/blob")
	metadata=$(add_blob "$blobs" "$at/metadata.tar.gz")
	jq -c --arg blob "$(jq -r .digest <<<"$blob")" \
		--arg metadata "sha256:$(sha256sum <"$at/metadata.tar" | cut -d' ' -f1)" \
		'.rootfs.diff_ids = [$blob, $metadata] | del(.history)' \
		"$1/blobs/sha256/$(jq -r '.config.digest[7:]' "$manifest")" >"$at/config"
	config=$(add_blob "$blobs" "$at/config")
	jq -c --argjson blob "$blob" --argjson metadata "$metadata" \
		--argjson config "$config" --arg ref "$LINK_REGISTRY/$3" '
		def layer(type; labels): . + {mediaType:
				("application/vnd.oci.image.layer." + type),
			annotations: ({"cri.image-ref": $ref,
				"cri.layer-digest": .digest} + labels |
				with_entries(.key |= "containerd.io/snapshot/" + .))};
		.config += $config |
		.layers = [($blob | layer("nydus.blob.v1"; {"nydus-blob": "true"})),
			($metadata | layer("v1.tar+gzip"; {"nydus-bootstrap": "true",
				"nydus-fs-version": "6"}))]' \
		"$manifest" >"$at/manifest"
	jq -n --argjson manifest "$(add_blob "$blobs" "$at/manifest")" '
		{schemaVersion: 2, manifests: [$manifest + {
			mediaType: "application/vnd.oci.image.manifest.v1+json",
			annotations: {"org.opencontainers.image.ref.name": "latest"}}]}' \
		>"$at/layout/index.json"
	echo '{"imageLayoutVersion": "1.0.0"}' >"$at/layout/oci-layout"
}

# Move FILE to where its digest says, and print its digest and size.
add_blob() { # DIR FILE
	local hex

	hex=$(sha256sum <"$2" | cut -d' ' -f1)
	mv "$2" "$1/$hex"
	jq -nc --arg d "sha256:$hex" --argjson s "$(stat -c %s "$1/$hex")" \
		'{digest: $d, size: $s}'
}

# With ALL, nydusd streams the whole image in the background.
start_with_nydus() { # VARIANT ALL
	start_nydus "$W/node/nydus" "$2"
	start_containerd "$W/node/containerd" "nydus=$NYDUS_SOCKET"
	note_start "$1" nydus "$LINK_REGISTRY/$ref-$1" \
		ctr-remote images rpull --plain-http --snapshotter nydus
	end_run
}

# Start the snapshotter with its state in DIR; $NYDUS_SOCKET is then its address.
# It starts a nydusd for each image.
start_nydus() { # DIR PREFETCH-ALL
	mkdir -p "$1"
	NYDUS_SOCKET=$1/nydus.sock
	cat >"$1/nydusd.json" <<-END
	{
		"device": {
			"backend": {"type": "registry", "config": {"scheme": "http",
				"timeout": 5, "connect_timeout": 5, "retry_limit": 2}},
			"cache": {"type": "blobcache"}
		},
		"mode": "direct",
		"digest_validate": false,
		"iostats_files": false,
		"enable_xattr": true,
		"amplify_io": 1048576,
		"fs_prefetch": {"enable": true, "threads_count": 8,
			"merging_size": 1048576, "prefetch_all": $2}
	}
	END
	# It would raise its limit of open files, which not every machine allows.
	printf '#!/bin/sh\nexec %q "$@" --rlimit-nofile 0\n' "$(command -v nydusd)" \
		>"$1/nydusd"
	chmod 755 "$1/nydusd"
	cat >"$1/config.toml" <<-END
	version = 1
	root = "$1/root"
	address = "$NYDUS_SOCKET"
	daemon_mode = "dedicated"
	cleanup_on_close = true
	[system]
	enable = false
	[daemon]
	nydusd_config = "$1/nydusd.json"
	nydusd_path = "$1/nydusd"
	nydusimage_path = "$(command -v nydus-image)"
	fs_driver = "fusedev"
	threads_number = 4
	[cgroup]
	enable = false
	[log]
	log_to_stdout = true
	[metrics]
	address = ""
	END
	start_daemon "$1/log" containerd-nydus-grpc --config "$1/config.toml"
	defer end_nydus "$daemon_pid"
	wait_for_socket "$NYDUS_SOCKET" "$daemon_pid" "$1/log"
}

# Its daemons are meant to outlive it.
end_nydus() { # SNAPSHOTTER
	local pid

	stop_daemon "$1"
	for pid in $(pgrep -s "$1" -x nydusd || :); do
		kill -KILL "$pid" 2>/dev/null || :
	done
}
