# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# eStargz: its converter, and its daemon with default settings.

stargz_missing() {
	command -v ctr-remote >/dev/null || echo "ctr-remote is not on PATH"
	[[ -x $bench_cache/peers/containerd-stargz-grpc ]] ||
		command -v go >/dev/null || echo "go, to build its daemon, is not on PATH"
}

# Put REPOSITORY:TAG into the registry, if it is not there: $ref by a command of
# ctr-remote with its options.
store_estargz() { # REPOSITORY:TAG COMMAND OPTION...
	has_tag "$1" && return
	log "$image: ctr-remote images $2"
	start_containerd "$W/node/containerd"
	{
		ctr content fetch --plain-http "$REGISTRY/$ref" &&
			TMPDIR=$W/node timeout 3600 ctr-remote images "$2" --oci "${@:3}" \
				"$REGISTRY/$ref" "$REGISTRY/$1" &&
			ctr images push --plain-http "$REGISTRY/$1"
	} >"$W/command.log" 2>&1 ||
		die "ctr-remote: $(tail -n 1 "$W/command.log")"
}

start_with_stargz() { # VARIANT
	start_stargz "$W/node/stargz" "$LINK_REGISTRY"
	start_containerd "$W/node/containerd" "stargz=$STARGZ_SOCKET"
	note_start "$1" stargz "$LINK_REGISTRY/$ref-$1" \
		ctr-remote images rpull --plain-http --snapshotter stargz
	end_run
}

# Build the daemon of stargz-snapshotter once and print where it is.  Debian has
# the command line only.
stargz_daemon() {
	local bin=$bench_cache/peers/containerd-stargz-grpc

	if [[ ! -x $bin ]]; then
		log "building the daemon of stargz-snapshotter"
		"$bench_dir/peers/stargz/build" "$bin" >&2
	fi
	echo "$bin"
}

# Start it with its state in DIR; $STARGZ_SOCKET is then its address.
start_stargz() { # DIR HOST:PORT
	local bin

	bin=$(stargz_daemon)
	mkdir -p "$1"
	cat >"$1/config.toml" <<-END
	[[resolver.host."$2".mirrors]]
	host = "$2"
	insecure = true
	END
	start_daemon "$1/log" "$bin" --address "$1/stargz.sock" \
		--config "$1/config.toml" --root "$1/root"
	STARGZ_SOCKET=$1/stargz.sock
	wait_for_socket "$STARGZ_SOCKET" "$daemon_pid" "$1/log"
}
