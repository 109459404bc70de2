# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Private daemons for a benchmark: a registry, PostgreSQL, containerd and ours.
# Each has its own root, state and address under $W, and ends with the benchmark.

# Start a daemon with its output in LOG; its process id is then in $daemon_pid.
# RUN_IN (an array) is put before the command, to start it in a namespace.
RUN_IN=()
start_daemon() { # LOG COMMAND...
	local out=$1

	shift
	: >"$out" # now: another daemon's lines are not to be taken for its
	setsid ${RUN_IN[@]+"${RUN_IN[@]}"} "$@" >"$out" 2>&1 6>&- 7>&- 8<&- &
	daemon_pid=$!
	defer stop_daemon "$daemon_pid"
}

stop_daemon() { # PID
	kill -TERM "$1" 2>/dev/null || return 0
	timeout 20 tail -s 0.02 --pid="$1" -f /dev/null || kill -KILL "$1" 2>/dev/null
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
			die "$* does not come true: $(tail -n 1 "$out" | cut -c1-300)"
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

# --- PostgreSQL ---------------------------------------------------------------------

pg_bin=$(printf '%s\n' /usr/lib/postgresql/*/bin | tail -n 1)

as_postgres() { (cd / && setpriv --reuid postgres --regid postgres --init-groups "$@"); }

pg_is_up() { psql -qh "$W/pg" -U postgres -c 'SELECT 1' >/dev/null 2>&1; }

# Its socket and data are in $W/pg, for the user "postgres".
start_postgresql() {
	mkdir "$W/pg"
	defer rm -rf --one-file-system "$W/pg"
	chown postgres "$W/pg"
	as_postgres test -w "$W/pg" || die "the user postgres cannot enter $W"
	as_postgres "$pg_bin/initdb" -D "$W/pg/data" -A trust -U postgres \
		>"$W/initdb.log" 2>&1
	start_daemon "$W/pg.log" setpriv --reuid postgres --regid postgres \
		--init-groups "$pg_bin/postgres" -D "$W/pg/data" -k "$W/pg" \
		-c listen_addresses=
	wait_until "$daemon_pid" "$W/pg.log" pg_is_up
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

# Serve the registry's blobs from its files, as big registries have an object store
# do it, and pass on the rest; $FRONT is then its host:port.  docker-registry reads
# 4 MiB for every range it is asked for, so that it, and not the link, would
# be measured.  Only in a network namespace of its own, for its port is fixed.
start_front() { # DIR-OF-REGISTRY
	need nginx
	FRONT=127.0.0.1:5080
	mkdir -p "$W/front"
	cat >"$W/front/nginx.conf" <<-END
	daemon off;
	master_process off;
	pid $W/front/pid;
	error_log stderr;
	events { worker_connections 1024; }
	http {
		log_format asked '\$msec \$request_time \$connection '
			'\$request_method \$status \$body_bytes_sent '
			'"\$http_range" \$request_uri';
		access_log $W/front/asked asked;
		sendfile on;
		tcp_nopush on;
		keepalive_requests 1000000;
		client_max_body_size 0;
		client_body_temp_path $W/front/body;
		proxy_temp_path $W/front/proxy;
		fastcgi_temp_path $W/front/fastcgi;
		uwsgi_temp_path $W/front/uwsgi;
		scgi_temp_path $W/front/scgi;
		server {
			listen $FRONT;
			location ~ "^/v2/.+/blobs/sha256:(?<a>..)(?<b>[0-9a-f]{62})\$" {
				default_type application/octet-stream;
				alias $1/docker/registry/v2/blobs/sha256/\$a/\$a\$b/data;
			}
			location / {
				proxy_pass http://$REGISTRY;
				proxy_set_header Host \$http_host;
			}
		}
	}
	END
	start_daemon "$W/front/log" nginx -e stderr -p "$W/front" \
		-c "$W/front/nginx.conf"
	front_pid=$daemon_pid
	wait_until "$front_pid" "$W/front/log" test -s "$W/front/pid"
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

# The registry's content is kept between runs in $bench_cache/registry.  One
# benchmark at a time fills it; each works on a copy, $W/registry:
#
#	store_open; store_image numpy-1; ...; store_close
#
# Versions of an image are tags of one repository: numpy-1 is numpy:1 as it is,
# and ours/numpy:1 converted by the program under test.  That is done again when
# the image or the program changed (BOOTSEER_BENCH_KEEP=1: only the image).
store_open() {
	store=$bench_cache/registry
	mkdir -p "$store"
	exec 7>"$bench_cache/.registry.lock"
	flock 7
	start_registry "$store"
}

# Where an image is: REPOSITORY:TAG.
image_ref() { # IMAGE
	case $1 in
	*-[0-9]) echo "${1%-*}:${1##*-}" ;;
	*) echo "$1:1" ;;
	esac
}

store_image() { # IMAGE
	local ref layout digest note=$store/image.$1

	ref=$(image_ref "$1")
	layout=$(image "$1")
	digest=$(jq -r '.manifests[0].digest' "$layout/index.json")
	if [[ ! -s $note || $digest != "$(<"$note")" ]]; then
		forget_tags "${ref%:*}" "${ref#*:}*"
		push_image "$layout:latest" "$ref"
		echo "$digest" >"$note"
	fi
	! has_program bootseer || store_ours "$layout" "ours/$ref" "$digest"
}

# All versions go when the program changed: the artifact that another program
# made must not lend its blocks.
store_ours() { # LAYOUT REPOSITORY:TAG DIGEST [CONVERT-OPTION...]
	local notes=$store/${2%:*} bootseer built pattern=()

	bootseer=$(program bootseer)
	built=$(sha256sum "$bootseer" | cut -d' ' -f1)
	if [[ ! -s $notes/program || $built != "$(<"$notes/program")" ]] &&
		[[ ! -s $notes/program || ! ${BOOTSEER_BENCH_KEEP-} ]]; then
		rm -rf "$notes"
		forget_tags "${2%:*}" '*'
	fi
	[[ ! -s $notes/${2#*:} || $3 != "$(<"$notes/${2#*:}")" ]] || return 0
	push_image "$1:latest" "$2"
	# Nodes see it behind the link, by another name.
	! signs || pattern=(--repository "$SIGNED_REGISTRY/*")
	XDG_CONFIG_HOME=$bench_cache "$bootseer" image convert --plain-http \
		${pattern[@]+"${pattern[@]}"} "${@:4}" \
		"docker://$REGISTRY/$2" "docker://$REGISTRY/$2" >&2
	mkdir -p "$notes"
	echo "$built" >"$notes/program"
	echo "$3" >"$notes/${2#*:}"
}

# The registry remembers what it has seen, so it starts anew.
forget_tags() { # REPOSITORY PATTERN
	local at=$store/docker/registry/v2/repositories/$1/_manifests/tags

	[[ -d $at ]] || return 0
	stop_daemon "$registry_pid"
	find "$at" -mindepth 1 -maxdepth 1 -name "$2" -exec rm -rf {} +
	start_registry "$store"
}

# Blobs are never written again, so links to them are enough; the small files
# that name them are.
store_close() {
	local v2=docker/registry/v2

	stop_daemon "$registry_pid"
	mkdir -p "$W/registry/$v2"
	cp -al "$store/$v2/blobs" "$W/registry/$v2/"
	cp -a "$store/$v2/repositories" "$W/registry/$v2/"
	exec 7>&-
}

prepare_registry() { # IMAGE
	store_open
	store_image "$1"
	store_close
}

# --- containerd ---------------------------------------------------------------

# Start containerd with everything in DIR.  Further arguments NAME=SOCKET are
# proxy plugins for snapshots; $CONTAINERD_MORE is added to its configuration.
# $CONTAINERD_ADDRESS is set for ctr.
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
		echo "${CONTAINERD_MORE-}"
	} >"$dir/config.toml"
	start_daemon "$dir/log" containerd --config "$dir/config.toml"
	containerd_pid=$daemon_pid
	defer end_containers "$dir"
	wait_for_socket "$dir/containerd.sock" "$daemon_pid" "$dir/log"
	export CONTAINERD_ADDRESS=$dir/containerd.sock
	wait_for_line "$dir/log" 'containerd successfully booted' \
		"$daemon_pid" >/dev/null
}

# End what containerd would leave behind: containers and their shims.
end_containers() { # DIR
	local file

	for file in "$1"/state/io.containerd.runtime.v2.task/*/*/init.pid; do
		[[ ! -e $file ]] || kill -KILL "$(<"$file")" 2>/dev/null || :
	done
	pkill -KILL -f -- "-address $1/containerd.sock" || :
}

# --- ours ---------------------------------------------------------------------

# Behind this address a node has the images that store_image() signed, with a key
# that is made at the first conversion; what another one serves is believed.
SIGNED_REGISTRY=10.213.0.1:5000

# The program under test may be of a time without signatures.
signs() { "$(program bootseer)" key new --help >/dev/null 2>&1; }

# Whose artifacts a node uses that is told --plain-http HOST:PORT.
trust_options() { # OPTION...
	signs || return 0
	while (($#)); do
		case $1 in
		--plain-http=*) set -- --plain-http "${1#*=}" "${@:2}" ;;
		--plain-http)
			[[ $2 == "$SIGNED_REGISTRY" ]] ||
				echo "--trust $2=registry"
			shift
			;;
		esac
		[[ $# -eq 0 ]] || shift
	done
	echo "--trust *=sign --trust-keys $bench_cache/bootseer/sign.key.pub"
}

# Start bootseerd with its state below DIR and further options; $BOOTSEERD_SOCKET
# is then its control socket.
start_bootseerd() { # DIR OPTION...
	local dir=$1 trust

	shift
	mkdir -p "$dir/root" "$dir/run"
	read -r -a trust <<<"$(trust_options "$@" | tr '\n' ' ')"
	start_daemon "$dir/log" "$(program bootseerd)" --root "$dir/root" \
		--run "$dir/run" ${trust[@]+"${trust[@]}"} "$@"
	bootseerd_pid=$daemon_pid
	BOOTSEERD_SOCKET=$dir/run/bootseerd.sock
	wait_for_socket "$BOOTSEERD_SOCKET" "$daemon_pid" "$dir/log"
}

# Start the containerd plugin of the bootseerd that was started last.
start_snapshotter() { # DIR OPTION...
	mkdir -p "$1"
	SNAPSHOTTER_SOCKET=$1/snapshotter.sock
	start_daemon "$1/log" "$(program bootseer-snapshotter)" \
		--root "$1/root" --address "$SNAPSHOTTER_SOCKET" \
		--node "$BOOTSEERD_SOCKET" "${@:2}"
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
