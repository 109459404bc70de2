# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Kraken and Dragonfly as ways of bench/p2p.  Both spread whole blobs, so a node has
# the hot set when it has the image: the packs that ours are fetched from, one after
# the other, by HTTP from its own agent.
#
#	kraken-agent, kraken-origin, kraken-tracker	of Kraken 0.1.4
#	manager, scheduler	of Dragonfly 2.5.0
#	dfdaemon		of its client 1.5.10
#
# They are taken from PATH, else from where bench/peers/NAME/build puts them.  Each
# runs with the settings that it ships with but for what is said here; limits of
# rates are off or above the links', and what seeds is beside the registry.

PATH=$PATH:$bench_cache/peers

swarm_programs_missing() { # PEER PROGRAM...
	local program

	for program in "${@:2}"; do
		command -v "$program" >/dev/null || {
			echo "$program is not on PATH, see bench/peers/$1"
			return
		}
	done
}

# Lines "DIGEST SIZE" of the packs of the image.
list_packs() {
	local repo=http://10.214.0.1:5000/v2/ours/${ref%:*} hex
	local type=application/vnd.oci.image

	hex=$(in_swarm origin curl -fsS -H "Accept: $type.manifest.v1+json" \
		"$repo/manifests/${ref#*:}" | sha256sum | cut -d' ' -f1)
	hex=$(in_swarm origin curl -fsS -H "Accept: $type.index.v1+json" \
		"$repo/manifests/sha256-$hex" | jq -r '.manifests[0].digest')
	in_swarm origin curl -fsS -H "Accept: $type.manifest.v1+json" \
		"$repo/manifests/$hex" | jq -r '.layers[] |
			select(.mediaType | contains(".pack.")) |
			"\(.digest) \(.size)"' >"$W/packs"
	[[ -s $W/packs ]] || die "the image has no packs"
	metadata_bytes=0
	all_bytes=$(awk '{ n += $2 } END { printf "%.0f", n }' "$W/packs")
}

# Every node gets every pack from URL and its digest; then lines as swarm_go.py
# prints them, with nothing for the hot set.
fetch_packs() { # URL
	local i pids=()

	scenario_begin
	origin_before=$(swarm_origin_bytes)
	read -r -a cpu_before < <(head -1 /proc/stat)
	"scenario_${scenario}_on"
	: >"$W/went"
	for ((i = 0; i < n; i++)); do
		fetch_on "$i" "$1" >>"$W/went" &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i" || :
	done
	read -r -a cpu_after < <(head -1 /proc/stat)
	origin_after=$(swarm_origin_bytes)
	scenario_end
}

fetch_on() { # NODE URL
	local t digest got size

	wait_seconds "$(delay_of "$1")"
	t=$(now)
	while read -r digest size; do
		got=$(in_swarm "$1" curl -fsS -m 1800 "$2$digest" | sha256sum) ||
			got=
		[[ ${got%% *} == "${digest#*:}" ]] || {
			echo "$1 failed no pack ${digest:0:19}"
			return
		}
	done <"$W/packs"
	t=$(seconds_since "$t")
	echo "$1 0 $t 0 $all_bytes"
}

start_in_swarm() { # WHO LOG COMMAND...
	RUN_IN=(nsenter "--net=/run/netns/$(swarm_ns "$1")")
	start_daemon "${@:2}"
	RUN_IN=()
}

answers() { # WHO URL
	in_swarm "$1" curl -fsS -m 5 -o /dev/null "$2" 2>/dev/null
}

# --- Kraken ------------------------------------------------------------------------

way_kraken_missing() {
	swarm_programs_missing kraken kraken-agent kraken-origin kraken-tracker \
		nginx redis-server
}

# What all of its programs are told: logs to standard output, no TLS.
kraken_config() { # NAME DIR
	mkdir -p "$2"
	cat <<-END
	zap: {level: warn, encoding: console, outputPaths: [stdout],
	  errorOutputPaths: [stdout], disableStacktrace: true,
	  encoderConfig: {messageKey: message, levelKey: level,
	    levelEncoder: capital, timeEncoder: iso8601,
	    durationEncoder: seconds, callerEncoder: short}}
	nginx: {name: $1, cache_dir: $2/nginx, log_dir: $2}
	tls: {client: {disabled: true}, server: {disabled: true}}
	END
}

# Each has a /tmp/nginx of its own: they write nginx's configuration there, all
# under one name.
start_kraken() { # WHO LOG COMMAND...
	start_in_swarm "$1" "$2" unshare -m --propagation private sh -c \
		'mount -t tmpfs tmpfs /tmp/nginx && exec "$@"' sh "${@:3}"
	# They leave their nginx behind.
	defer end_group "$daemon_pid"
}

end_group() { kill -TERM -- "-$1" 2>/dev/null || :; } # PID of its leader

# In the tracker's namespace, with nothing on disk.
start_redis() {
	start_in_swarm tracker "$W/redis.log" redis-server --bind 127.0.0.1 \
		--port 6379 --save '' --dir "$W_nodes"
	wait_until "$daemon_pid" "$W/redis.log" \
		in_swarm tracker redis-cli ping >/dev/null 2>&1
}

# The origin is beside the registry, so that both send over one link.
start_kraken_origin() {
	local dir=$W_nodes/kraken-origin

	defer rm -rf --one-file-system "$dir"
	{
		kraken_config kraken-origin "$dir"
		cat <<-END
		peer_id_factory: addr_hash
		metainfogen: {piece_lengths: {0: 4MB}}
		localdb: {source: $dir/origin.db}
		castore: {upload_dir: $dir/upload, cache_dir: $dir/cache}
		blobserver: {listener: {net: unix, addr: $dir/socket}}
		cluster: {static: ["10.214.0.1:15002"]}
		backends:
		- namespace: .*
		  backend: {registry_blob: {address: "10.214.0.1:5000",
		    security: {tls: {client: {disabled: true}}}}}
		END
	} >"$W/kraken-origin.yaml"
	start_kraken origin "$dir/log" kraken-origin \
		--config "$W/kraken-origin.yaml" --blobserver-hostname 10.214.0.1 \
		--blobserver-port 15002 --peer-ip 10.214.0.1 --peer-port 15001
	origin_pids+=("$daemon_pid")
	wait_until "$daemon_pid" "$dir/log" \
		answers origin http://10.214.0.1:15002/health
}

kraken_origin_has() { # DIGEST
	[[ $(in_swarm origin curl -sS -m 60 -o /dev/null -w '%{http_code}' \
		"$(kraken_blobs 10.214.0.1:15002)$1") == 200 ]]
}

# What is pushed by Kraken's proxy, as it is meant to be, is in its origin before
# anybody asks.
fill_kraken_origin() {
	local digest

	while read -r digest _; do
		wait_until "${origin_pids[-1]}" "$W_nodes/kraken-origin/log" \
			kraken_origin_has "$digest" </dev/null
	done <"$W/packs"
}

kraken_blobs() { echo "http://$1/namespace/ours%2F${ref%:*}/blobs/"; } # HOST:PORT

start_kraken_tracker() {
	local dir=$W_nodes/kraken-tracker

	defer rm -rf --one-file-system "$dir"
	{
		kraken_config kraken-tracker "$dir"
		cat <<-END
		peerhandoutpolicy: {priority: completeness}
		peerstore: {redis: {addr: "127.0.0.1:6379"}}
		trackerserver: {listener: {net: unix, addr: $dir/socket}}
		origin: {hosts: {static: ["10.214.0.1:15002"]}}
		END
	} >"$W/kraken-tracker.yaml"
	start_kraken tracker "$dir/log" kraken-tracker \
		--config "$W/kraken-tracker.yaml" --port 15003
	tracker_pid=$daemon_pid
	wait_until "$daemon_pid" "$dir/log" \
		answers tracker http://10.214.0.2:15003/health
}

start_kraken_agent() { # NODE
	local dir

	dir=$(node_dir "$1")
	defer rm -rf --one-file-system "$dir"
	{
		kraken_config kraken-agent "$dir"
		cat <<-END
		peer_id_factory: addr_hash
		scheduler: {dispatch: {piece_request_policy: rarest_first},
		  conn: {bandwidth: {enable: false}}}
		store: {download_dir: $dir/download, cache_dir: $dir/cache}
		registry: {docker: {version: 0.1, http: {net: unix,
		  addr: $dir/registry}}}
		tracker: {hosts: {static: ["10.214.0.2:15003"]}}
		build_index: {hosts: {static: ["10.214.0.2:15004"]}}
		allowed_cidrs: [127.0.0.1]
		END
	} >"$W/kraken-agent.$1.yaml"
	start_kraken "$1" "$dir/log" kraken-agent \
		--config "$W/kraken-agent.$1.yaml" --peer-ip "$(swarm_addr "$1")" \
		--peer-port 16001 --agent-server-port 16002 --agent-registry-port 16003
	node_pids[$1]=$daemon_pid
}

way_kraken_begin() {
	local i

	[[ -d /tmp/nginx ]] || { mkdir /tmp/nginx; defer rmdir /tmp/nginx; }
	list_packs
	start_kraken_origin
	fill_kraken_origin
	start_redis
	start_kraken_tracker
	node_pids=()
	for ((i = 0; i < n; i++)); do
		start_kraken_agent "$i"
	done
	for ((i = 0; i < n; i++)); do
		wait_until "${node_pids[i]}" "$(node_dir "$i")/log" \
			answers "$i" http://127.0.0.1:16002/health
	done
}

way_kraken_run() {
	fetch_packs "$(kraken_blobs 127.0.0.1:16002)"
	note_run
}

# --- Dragonfly ---------------------------------------------------------------------

way_dragonfly_missing() {
	swarm_programs_missing dragonfly manager scheduler dfdaemon redis-server
	[[ -x $pg_bin/postgres ]] || echo "PostgreSQL is not installed"
}

# A scheduler does not start without its manager, nor that without databases.  Nodes
# ask the scheduler only.
start_dragonfly_manager() {
	local dir=$W_nodes/manager

	mkdir -p "$dir"
	defer rm -rf --one-file-system "$dir"
	start_postgresql
	start_redis
	cat >"$W/manager.yaml" <<-END
	server:
	  grpc: {listenIP: 10.214.0.2, advertiseIP: 10.214.0.2,
	    port: {start: 65003, end: 65003}}
	  rest: {addr: "127.0.0.1:8080"}
	  logDir: $dir/log
	  cacheDir: $dir/cache
	  pluginDir: $dir/plugins
	auth: {jwt: {key: YmVuY2gK}}
	database:
	  type: postgres
	  postgres: {host: $W/pg, user: postgres, password: none,
	    dbname: postgres, sslMode: disable, timezone: UTC}
	  redis: {addrs: ["127.0.0.1:6379"]}
	END
	start_in_swarm tracker "$dir/log.txt" manager --console \
		--config "$W/manager.yaml"
	wait_until "$daemon_pid" "$dir/log.txt" in_swarm tracker \
		bash -c '>/dev/tcp/10.214.0.2/65003' 2>/dev/null
}

start_dragonfly_scheduler() {
	local dir=$W_nodes/scheduler

	mkdir -p "$dir"
	defer rm -rf --one-file-system "$dir"
	cat >"$W/scheduler.yaml" <<-END
	server: {listenIP: 10.214.0.2, advertiseIP: 10.214.0.2, port: 8002,
	  host: tracker, logDir: $dir/log, cacheDir: $dir/cache,
	  pluginDir: $dir/plugins, dataDir: $dir/data}
	manager: {addr: "10.214.0.2:65003", schedulerClusterID: 1}
	END
	start_in_swarm tracker "$dir/log.txt" scheduler --console \
		--config "$W/scheduler.yaml"
	tracker_pid=$daemon_pid
	wait_until "$daemon_pid" "$dir/log.txt" in_swarm tracker \
		bash -c '>/dev/tcp/10.214.0.2/8002' 2>/dev/null
}

# The seed is beside the registry, so that both send over one link.  Nodes do not
# turn requests down for the load of a machine that is all of them.
start_dfdaemon() { # WHO DIR ADDRESS SEED?
	mkdir -p "$2"
	defer rm -rf --one-file-system "$2"
	echo 'scheduler: {addrs: ["10.214.0.2:8002"]}' >"$2/dynconfig.yaml"
	cat >"$2/config.yaml" <<-END
	host: {hostname: node-$1, ip: $3}
	server: {pluginDir: $2/plugins, cacheDir: $2/cache,
	  adaptiveRateLimit: null}
	download: {server: {socketPath: $2/socket}}
	storage: {dir: $2/storage}
	seedPeer: {enable: $4, type: super}
	proxy:
	  server: {ip: 127.0.0.1, port: 4001}
	  registryMirror: {addr: "http://10.214.0.1:5000"}
	  rules: [{regex: "blobs/sha256.*"}]
	health: {server: {ip: 127.0.0.1, port: 4003}}
	END
	start_in_swarm "$1" "$2/log" dfdaemon --console --log-dir "$2/logs" \
		--config "$2/config.yaml" --dynconfig "$2/dynconfig.yaml"
}

# The scheduler looks for seeds once a minute, and asks those that it finds whether
# they are well.  Before, the first node that asks has to be the seed.
scheduler_knows_seed() {
	grep -q 'dial target is: "10.214.0.1:4000"' "$W_nodes/scheduler/log.txt"
}

way_dragonfly_begin() {
	local i

	list_packs
	start_dragonfly_manager
	start_dragonfly_scheduler
	start_dfdaemon origin "$W_nodes/seed" 10.214.0.1 true
	origin_pids+=("$daemon_pid")
	wait_until "$daemon_pid" "$W_nodes/seed/log" \
		answers origin http://127.0.0.1:4003/healthy
	node_pids=()
	for ((i = 0; i < n; i++)); do
		start_dfdaemon "$i" "$(node_dir "$i")" "$(swarm_addr "$i")" false
		node_pids[i]=$daemon_pid
	done
	for ((i = 0; i < n; i++)); do
		wait_until "${node_pids[i]}" "$(node_dir "$i")/log" \
			answers "$i" http://127.0.0.1:4003/healthy
	done
	wait_until "$tracker_pid" "$W_nodes/scheduler/log.txt" scheduler_knows_seed
}

way_dragonfly_run() {
	fetch_packs "http://127.0.0.1:4001/v2/ours/${ref%:*}/blobs/"
	note_run
}
