# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# SOCI: its indexer, and its daemon with default settings (bench/peers/soci).

# Build it once, and set $soci; "": it cannot be had here.
find_soci() {
	soci=$bench_cache/peers/soci
	[[ ! -x $soci ]] || return 0
	log "building SOCI"
	"$bench_dir/peers/soci/build" "$soci" >&2 || soci=
}

soci_missing() {
	find_soci
	[[ $soci ]] || echo "SOCI does not build"
}

# Put REPOSITORY:TAG, an index with SOCI's beside the image, into the registry.
store_soci() { # REPOSITORY:TAG
	has_tag "$1" && return
	find_soci
	log "$image: soci convert"
	start_containerd "$W/node/containerd"
	{
		ctr content fetch --plain-http "$REGISTRY/$ref" &&
			TMPDIR=$W/node timeout 3600 "$soci" convert "$REGISTRY/$ref" \
				"$REGISTRY/$1" &&
			ctr images push --plain-http "$REGISTRY/$1"
	} >"$W/command.log" 2>&1 || die "soci: $(tail -n 1 "$W/command.log")"
}

start_with_soci() { # VARIANT
	find_soci
	mkdir -p "$W/node/soci"
	cat >"$W/node/soci/config.toml" <<-END
	no_prometheus = true
	[[resolver.host."$LINK_REGISTRY".mirrors]]
	host = "http://$LINK_REGISTRY"
	insecure = true
	[content_store]
	containerd_address = "$W/node/containerd/containerd.sock"
	END
	start_daemon "$W/node/soci/log" "$soci" daemon "$W/node/soci/soci.sock" \
		"$W/node/soci/config.toml" "$W/node/soci/root"
	wait_for_socket "$W/node/soci/soci.sock" "$daemon_pid" "$W/node/soci/log"
	start_containerd "$W/node/containerd" "soci=$W/node/soci/soci.sock"
	note_start "$1" soci "$LINK_REGISTRY/$ref-soci" "$soci" pull
	grep -q remote-snapshot-prepared=true "$W/node/soci/log" ||
		die "SOCI unpacked all layers: $(grep -m1 'failed to prepare' \
			"$W/node/soci/log" | cut -c1-300)"
	# It waits 10 s for a containerd that is not there with each layer that is not lazy.
	! grep -q 'failed to prepare local snapshot' "$W/node/soci/log" ||
		die "SOCI does not unpack: $(grep -m1 'failed to prepare local' \
			"$W/node/soci/log" | cut -c1-300)"
	end_run
}
