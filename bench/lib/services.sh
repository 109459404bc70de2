# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Private daemons for a benchmark: a registry, containerd, eStargz's daemon and
# ours.  Each has its own root, state and address under $W, and ends with the
# benchmark.

# Start a daemon with its output in LOG; its process id is then in $daemon_pid.
# RUN_IN (an array) is put before the command, to start it in a namespace.
RUN_IN=()
start_daemon() { # LOG COMMAND...
	local out=$1

	shift
	setsid ${RUN_IN[@]+"${RUN_IN[@]}"} "$@" >"$out" 2>&1 7>&- 8<&- &
	daemon_pid=$!
	defer stop_daemon "$daemon_pid"
}

stop_daemon() { # PID
	kill -TERM "$1" 2>/dev/null || return 0
	timeout 20 tail --pid="$1" -f /dev/null || kill -KILL "$1" 2>/dev/null
	wait "$1" 2>/dev/null || :
}

# Look again in 50 ms, until COMMAND succeeds.  Fails when the daemon PID is gone
# or a minute is over.
wait_until() { # PID LOG COMMAND...
	local pid=$1 out=$2 end=$((SECONDS + 60))

	shift 2
	until "$@"; do
		if ((SECONDS > end)) || ! kill -0 "$pid" 2>/dev/null; then
			tail -20 "$out" >&2
			die "a daemon did not come up, see above"
		fi
		read -r -t 0.05 <> <(:) || :
	done
}

# Wait until a line of LOG matches PATTERN and print the first that does.
wait_for_line() { # LOG PATTERN PID
	wait_until "$3" "$1" grep -sqE -- "$2" "$1"
	grep -m1 -E -- "$2" "$1"
}

wait_for_socket() { # PATH PID LOG
	wait_until "$2" "$3" test -S "$1"
}

# --- registry -----------------------------------------------------------------

# Start a registry with its content in DIR; $REGISTRY is then its host:port and
# $registry_log its access log.
start_registry() { # DIR
	need docker-registry
	mkdir -p "$1"
	cat >"$W/registry.yml" <<-END
	version: 0.1
	log: {level: info, accesslog: {disabled: false}}
	storage:
	  filesystem: {rootdirectory: $1}
	  delete: {enabled: true}
	  cache: {blobdescriptor: inmemory}
	http: {addr: "127.0.0.1:0"}
	END
	registry_log=$W/registry.log
	start_daemon "$registry_log" docker-registry serve "$W/registry.yml"
	registry_pid=$daemon_pid
	REGISTRY=127.0.0.1:$(wait_for_line "$registry_log" 'listening on' \
		"$daemon_pid" | sed -E 's/.*listening on [^ "]*:([0-9]+).*/\1/')
}

push_image() { # LAYOUT-PATH REPOSITORY:TAG
	need skopeo
	skopeo copy --quiet --dest-tls-verify=false "oci:$1" \
		"docker://$REGISTRY/$2"
}

has_tag() { # REPOSITORY:TAG
	skopeo inspect --raw --tls-verify=false "docker://$REGISTRY/$1" \
		>/dev/null 2>&1
}

# Make $W/registry: IMAGE:1 as it is, and ours/IMAGE:1 converted by the program
# under test.  All that is kept between runs, and converted again by another
# build of the program (unless BOOTSEER_BENCH_KEEP is set); a run works on links
# to it.  A function that is named puts more into the store.
prepare_registry() { # IMAGE [FUNCTION]
	local store=$bench_cache/registry note=$bench_cache/registry/ours.$1
	local bootseer built

	exec 7>"$bench_cache/.registry.lock"
	flock 7
	if has_program bootseer; then
		bootseer=$(program bootseer)
		built=$(sha256sum "$bootseer" | cut -d' ' -f1)
		[[ -s $note && ${BOOTSEER_BENCH_KEEP-} ]] && built=$(<"$note")
		[[ -s $note && $built == "$(<"$note")" ]] ||
			rm -rf "$store/docker/registry/v2/repositories/ours/$1"
	fi
	start_registry "$store"
	has_tag "$1:1" || push_image "$(image "$1"):latest" "$1:1"
	if [[ ${bootseer-} ]] && ! has_tag "ours/$1:1"; then
		push_image "$(image "$1"):latest" "ours/$1:1"
		rm -f "$note"
		"$bootseer" image convert --plain-http \
			"docker://$REGISTRY/ours/$1:1" \
			"docker://$REGISTRY/ours/$1:1" >&2
		echo "$built" >"$note"
	fi
	[[ ! ${2-} ]] || "$2"
	stop_daemon "$registry_pid"
	cp -al "$store" "$W/registry"
	exec 7>&-
}

# --- containerd ---------------------------------------------------------------

# Start containerd with everything in DIR.  Further arguments NAME=SOCKET are
# proxy plugins for snapshots.  $CONTAINERD_ADDRESS is set for ctr.
start_containerd() { # DIR [NAME=SOCKET]...
	local dir=$1 proxy

	need containerd ctr runc
	shift
	mkdir -p "$dir"/{root,state}
	{
		echo "version = 2"
		echo "root = \"$dir/root\""
		echo "state = \"$dir/state\""
		echo "[grpc]"
		echo "  address = \"$dir/containerd.sock\""
		echo "[ttrpc]"
		echo "  address = \"$dir/containerd.sock.ttrpc\""
		for proxy; do
			echo "[proxy_plugins.${proxy%%=*}]"
			echo "  type = \"snapshot\""
			echo "  address = \"${proxy#*=}\""
		done
		echo "[plugins.\"io.containerd.grpc.v1.cri\"]"
		echo "  sandbox_image = \"none\""
	} >"$dir/config.toml"
	start_daemon "$dir/log" containerd --config "$dir/config.toml"
	containerd_pid=$daemon_pid
	wait_for_socket "$dir/containerd.sock" "$daemon_pid" "$dir/log"
	export CONTAINERD_ADDRESS=$dir/containerd.sock
	wait_for_line "$dir/log" 'containerd successfully booted' \
		"$daemon_pid" >/dev/null
}

# --- eStargz ------------------------------------------------------------------

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

# --- ours ---------------------------------------------------------------------

# Start bootseerd with its state below DIR and further options; $BOOTSEERD_SOCKET
# is then its control socket.
start_bootseerd() { # DIR OPTION...
	local dir=$1

	shift
	mkdir -p "$dir/root" "$dir/run"
	start_daemon "$dir/log" "$(program bootseerd)" --root "$dir/root" \
		--run "$dir/run" "$@"
	bootseerd_pid=$daemon_pid
	BOOTSEERD_SOCKET=$dir/run/bootseerd.sock
	wait_for_socket "$BOOTSEERD_SOCKET" "$daemon_pid" "$dir/log"
}

# Start the containerd plugin of the bootseerd that was started last.
start_snapshotter() { # DIR
	mkdir -p "$1"
	SNAPSHOTTER_SOCKET=$1/snapshotter.sock
	start_daemon "$1/log" "$(program bootseer-snapshotter)" \
		--root "$1/root" --address "$SNAPSHOTTER_SOCKET" \
		--node "$BOOTSEERD_SOCKET"
	snapshotter_pid=$daemon_pid
	wait_for_socket "$SNAPSHOTTER_SOCKET" "$daemon_pid" "$1/log"
}

# Mount an image through the bootseerd that was started last.
bootseer_mount() { # REF DIR
	BOOTSEER_SOCKET=$BOOTSEERD_SOCKET "$(program bootseer)" image mount \
		"$1" "$2"
	defer bootseer_umount_quietly "$2"
}

bootseer_umount() { # DIR
	BOOTSEER_SOCKET=$BOOTSEERD_SOCKET "$(program bootseer)" image umount "$1"
}

bootseer_umount_quietly() { umount -l "$1" 2>/dev/null || :; }
