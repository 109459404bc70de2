# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# One run of bench/p2p: what is beside the nodes, the ways to bring an image to
# them, what is done to them meanwhile, and what is noted.  A way has
#
#	way_NAME_missing	why it cannot run here, if it cannot
#	way_NAME_begin		start its nodes, idle
#	way_NAME_run		bring the image to all, and note_run

swarm_bits() { # RATE: bits a second of "50mbit"
	case $1 in
	*gbit) calc "${1%gbit} * 1e9" ;;
	*mbit) calc "${1%mbit} * 1e6" ;;
	*kbit) calc "${1%kbit} * 1e3" ;;
	*[0-9]) echo "$1" ;;
	*) die "rate '$1': want 50mbit or 1gbit" ;;
	esac
}

# --- the far side ------------------------------------------------------------------

# The registry's answers take $registry_ms each way; where it is set, no connection of it is
# faster than $connection_rate.
far_side_begin() {
	RUN_IN=(nsenter "--net=/run/netns/$(swarm_ns origin)")
	start_registry "$W/registry"
	start_front "$W/registry"
	[[ ! ${connection_rate-} ]] || shape_connections
	start_daemon "$W/front.proxy.log" "$(bench_tool delay_proxy)" "${registry_ms:-0}" \
		10.214.0.1:5000 "$FRONT" "$W/front.proxy.stats"
	origin_pids=("$daemon_pid" "$front_pid" ${shape_pid-})
	wait_for_line "$W/front.proxy.log" listening "$daemon_pid" >/dev/null
	start_tracker
	image_name=10.214.0.1:5000/ours/$ref
}

# As of an object store: $FRONT is then a proxy before it.
shape_connections() {
	rm -f "$W/shape.port"
	start_daemon "$W/shape.log" "$(bench_tool shape_proxy)" \
		"$(calc "$(swarm_bits "$connection_rate") / 8")" "$FRONT" \
		"$W/shape.port"
	shape_pid=$daemon_pid
	wait_until "$daemon_pid" "$W/shape.log" test -s "$W/shape.port"
	FRONT=127.0.0.1:$(<"$W/shape.port")
}

# At 10.214.0.2:5001.
start_tracker() {
	local line

	RUN_IN=(nsenter "--net=/run/netns/$(swarm_ns tracker)")
	start_daemon "$W/tracker.log" "$(program bootseer-registry)" \
		--listen 127.0.0.1:0 --insecure-no-auth \
		--db "sqlite:$W/tracker.db"
	tracker_pid=$daemon_pid
	line=$(wait_for_line "$W/tracker.log" 'ready port=' "$daemon_pid")
	start_daemon "$W/tracker.proxy.log" "$(bench_tool delay_proxy)" 0 \
		10.214.0.2:5001 \
		"127.0.0.1:$(sed 's/.*port=//; s/ .*//' <<<"$line")" \
		"$W/tracker.proxy.stats"
	wait_for_line "$W/tracker.proxy.log" listening "$daemon_pid" >/dev/null
	RUN_IN=()
}

# One start before all, whose trace says what is hot.
record_hot_set() {
	RUN_IN=(nsenter "--net=/run/netns/$(swarm_ns tracker)")
	start_bootseerd "$W_nodes/recorder" --plain-http 10.214.0.1:5000 \
		--service http://10.214.0.2:5001 --trace-oci no
	RUN_IN=()
	BOOTSEER_SOCKET=$BOOTSEERD_SOCKET timeout 300 "$(program bootseer)" \
		image record --window 60s "$image_name" >"$W/record.log" 2>&1 ||
		die "recording: $(tail -n 1 "$W/record.log")"
	wait_until "$bootseerd_pid" "$W_nodes/recorder/log" trace_is_there
	stop_daemon "$bootseerd_pid"
	rm -rf --one-file-system "$W_nodes/recorder"
}

trace_is_there() {
	[[ $(in_swarm tracker curl -fsS \
		"http://10.214.0.2:5001/v1/traces?repo=10.214.0.1:5000/ours/${ref%:*}" |
		jq '.traces | length') -gt 0 ]]
}

# --- nodes -------------------------------------------------------------------------

node_dir() { echo "$W_nodes/$1"; }
node_socket() { echo "$(node_dir "$1")/run/bootseerd.sock"; }

# Every node's bootseerd, with OPTION... and what node_options says of it.  They are
# started anew after they were prepared: what they learnt of each other is gone.
start_nodes() { # OPTION...
	local i

	for ((i = 0; i < n; i++)); do
		mkdir -p "$(node_dir "$i")"
		defer node_remove "$(node_dir "$i")"
	done
	spawn_nodes "$@"
	[[ $(type -t prepare_nodes) ]] || return 0
	prepare_nodes
	stop_nodes
	spawn_nodes "$@"
}

# One that was killed has left its mounts.
node_remove() { # DIR
	umount_below "$1"
	rm -rf --one-file-system "$1"
}

stop_nodes() {
	local i

	kill -TERM "${node_pids[@]}"
	for ((i = 0; i < n; i++)); do
		stop_daemon "${node_pids[i]}"
		rm -f "$(node_socket "$i")"
	done
}

spawn_nodes() { # OPTION...
	local i

	node_pids=()
	for ((i = 0; i < n; i++)); do
		RUN_IN=(nsenter "--net=/run/netns/$(swarm_ns "$i")")
		start_daemon "$(node_dir "$i")/log" "$(program bootseerd)" \
			--root "$(node_dir "$i")/root" \
			--run "$(node_dir "$i")/run" --node-name "node$i" \
			--plain-http 10.214.0.1:5000 \
			$(trust_options --plain-http 10.214.0.1:5000) \
			--record off --trace-oci no \
			--service http://10.214.0.2:5001 --log-level warning \
			"$@" $(node_options "$i")
		node_pids[i]=$daemon_pid
		RUN_IN=()
	done
	for ((i = 0; i < n; i++)); do
		wait_for_socket "$(node_socket "$i")" "${node_pids[i]}" \
			"$(node_dir "$i")/log"
	done
}

# A block that is just being sent to another node stays.
drop_blocks() { # NODE
	in_node "$1" node gc --cache 0 &&
		[[ $(of_node "$1" '.images[0].prefetch.all_have_bytes') == 0 ]]
}

# Metadata and trace are there before the run, and nothing else: what was prefetched
# as soon as the trace was known is dropped again.  $all_bytes is what there is to
# fetch; later, until they begin, the nodes say 0.
prepare_nodes() {
	local i before pids=()

	before=$(swarm_origin_bytes)
	in_node 0 image prefetch --hot --wait "$image_name"
	metadata_bytes=$(($(swarm_origin_bytes) - before - \
		$(of_node 0 '.images[0].prefetch.fetched_bytes')))
	all_bytes=$(of_node 0 '.images[0].prefetch.all_bytes')
	((all_bytes > 0)) || die "node 0 does not know how large the image is"
	for ((i = 1; i < n; i++)); do
		in_node "$i" image prefetch --hot --wait "$image_name" &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i" || die "preparing the nodes failed"
	done
	for ((i = 0; i < n; i++)); do
		wait_until "${node_pids[i]}" "$(node_dir "$i")/log" \
			drop_blocks "$i"
	done
	image_id=$(of_node 0 '.images[0].id')
}

in_node() { # NODE ARGUMENT...
	BOOTSEER_SOCKET=$(node_socket "$1") "$(program bootseer)" "${@:2}" \
		>"$W/prepare.$1" 2>&1 || die "node $1: $(<"$W/prepare.$1")"
}

of_node() { # NODE JQ
	BOOTSEER_SOCKET=$(node_socket "$1") "$(program bootseer)" node status --json |
		jq -r "$2"
}

go() { # SECONDS
	local i

	for ((i = 0; i < n; i++)); do
		echo "$i $(node_socket "$i") $(delay_of "$i")"
	done >"$W/go"
	scenario_begin
	origin_before=$(swarm_origin_bytes)
	read -r -a cpu_before < <(head -1 /proc/stat)
	go_at=$(now)
	"scenario_${scenario}_on"
	"$bench_dir/tools/swarm_go.py" "$image_id" "$1" "$W/go" \
		"$W/killed" >"$W/went"
	read -r -a cpu_after < <(head -1 /proc/stat)
	origin_after=$(swarm_origin_bytes)
	scenario_end
}

# --- what is done to them ----------------------------------------------------------

spared= # nodes whose time does not count, as " 3 7 "

scenario_begin() {
	scenario_pids=() spared=' '
	rm -f "$W/origin_killed" "$W/go.begun"
}
scenario_end() {
	local pid

	for pid in "${scenario_pids[@]}"; do
		kill "$pid" 2>/dev/null || :
		wait "$pid" 2>/dev/null || :
	done
	[[ ! -s $W/killed ]] || spared=" $(tr '\n' ' ' <"$W/killed") "
	rm -f "$W/killed"
}

wait_seconds() { read -r -t "$1" <> <(:) || :; }

# Until all nodes were told to go; scenario_end ends who waits in vain.
wait_begun() { until [[ -e $W/go.begun ]]; do wait_seconds 0.05; done; }

delay_of() { # NODE
	[[ $scenario == join ]] || { echo 0; return; }
	awk -v s="$1" -v most="$join_s" 'BEGIN { srand(s + 7); print rand() * most }'
}

scenario_base_on() { :; }
scenario_join_on() { :; }
scenario_delay_on() { :; } # swarm_begin did it

scenario_slow_on() {
	swarm_shape_node 0 "$(calc "$(swarm_bits "$node_rate") / 50")"
	echo 0 >"$W/killed"
}

scenario_kill_on() {
	local i

	{
		wait_begun
		for ((i = 1; i <= n / 4; i++)); do
			wait_seconds 1
			echo $((i * 3 % n)) >>"$W/killed"
			kill -KILL "${node_pids[i * 3 % n]}" 2>/dev/null || :
		done
	} &
	scenario_pids+=($!)
}

scenario_tracker_on() {
	{
		wait_begun
		wait_seconds "$(calc "$(bound_all) / 2")"
		kill -KILL "$tracker_pid"
	} &
	scenario_pids+=($!)
}

# Bytes that were sent do not tell: some of a copy's worth went out twice, or are
# still on their way.
scenario_origin_on() {
	local pid

	{
		in_swarm tracker "$bench_dir/tools/swarm_copy.py" 10.214.0.2 5001
		for pid in "${origin_pids[@]}"; do
			kill -KILL "$pid"
		done
		seconds_since "$go_at" >"$W/origin_killed"
	} &
	scenario_pids+=($!)
}

# --- what is noted -----------------------------------------------------------------

bound() { # BYTES
	calc "($1 * 8 / $(swarm_bits "$origin_rate")) > \
		($1 * 8 / $(swarm_bits "$node_rate")) ? \
		$1 * 8 / $(swarm_bits "$origin_rate") : \
		$1 * 8 / $(swarm_bits "$node_rate")" |
		awk -v f="$1" -v n="$n" -v us="$(swarm_bits "$origin_rate")" \
			-v u="$(swarm_bits "$node_rate")" '{
			s = n * f * 8 / (us + n * u)
			printf "%.6g\n", (s > $1 ? s : $1) }'
}
bound_all() { bound "$all_bytes"; }

percentile() { # P, numbers on stdin
	sort -g | awk -v p="$1" '{ v[NR] = $1 } END { if (!NR) exit 1
		i = int(NR * p / 100 + 0.9999); print v[i < 1 ? 1 : i] }'
}

cpu_share() {
	awk -v a="${cpu_before[*]:1}" -v b="${cpu_after[*]:1}" 'BEGIN {
		split(a, x, " "); n = split(b, y, " ")
		for (i = 1; i <= n && i <= 8; i++) all += y[i] - x[i]
		idle = y[4] + y[5] - x[4] - x[5]
		printf "%.3g\n", all ? (all - idle) / all : 0 }'
}

# Peers that spread whole blobs have no hot set.
note_hot() { # NAME BYTES
	sample "$1: time to hot, median" "$way" \
		"$(cut -d' ' -f2 "$W/times" | median_of)" s
	sample "$1: time to hot, p99" "$way" \
		"$(cut -d' ' -f2 "$W/times" | percentile 99)" s
	sample "$1: time to hot, T*" bound "$(bound "$2")" s
}

# For the simulator: "N PIECES BYTES HOT-SHARE COPIES".
note_shape() { # COPIES
	echo "$n $(of_node 0 .cache.blocks)" \
		"$(of_node 0 '.images[0].prefetch | .all_bytes, .hot_bytes / .all_bytes' |
			paste -sd ' ')" "$1" >>"$W/shapes"
}

note_run() {
	local name="$n nodes, $scenario" hot all bytes failed cpu copies
	local -a times

	failed=$(grep -c ' failed ' "$W/went" || :)
	awk -v s="$spared" '$2 != "failed" && !index(s, " " $1 " ")' "$W/went" \
		>"$W/times"
	# Those that were killed are not expected to end.
	failed=$(awk -v s="$spared" '$2 == "failed" && !index(s, " " $1 " ")' \
		"$W/went" | tee "$W/failed" | wc -l)
	((failed == 0)) || die "$failed nodes: $(head -n 1 "$W/failed")"
	cpu=$(cpu_share)
	sample "$name: CPU of the machine" "$way" "$cpu" share
	if awk "BEGIN { exit !($cpu > 0.85) }"; then
		log "VOID: $name, $way: the machine was busy; it took" \
			"$(cut -d' ' -f3 "$W/times" | percentile 99) s," \
			"hot $(cut -d' ' -f2 "$W/times" | percentile 99) s"
		sample "$name: void" "$way" 1 runs
		return
	fi
	if [[ $scenario == origin && ! -s $W/origin_killed ]]; then
		log "VOID: $name, $way: all ended before the registry was killed"
		sample "$name: void" "$way" 1 runs
		return
	fi
	[[ $scenario != origin ]] || sample "$name: registry killed after" "$way" \
		"$(<"$W/origin_killed")" s
	hot=$(awk 'NR == 1 { print $4 }' "$W/times")
	bytes=$(awk 'NR == 1 { print $5 }' "$W/times")
	copies=$(calc "($origin_after - $origin_before) / $bytes")
	((hot == 0)) || note_hot "$name" "$hot"
	all=$(cut -d' ' -f3 "$W/times" | median_of)
	sample "$name: time to full, median" "$way" "$all" s
	sample "$name: time to full, p99" "$way" \
		"$(cut -d' ' -f3 "$W/times" | percentile 99)" s
	sample "$name: time to full, T*" bound "$(bound "$bytes")" s
	sample "$name: Max/Median" "$way" \
		"$(calc "$(cut -d' ' -f3 "$W/times" | percentile 100) / $all")" ratio
	sample "$name: origin" "$way" "$copies" copies
	sample "$name: metadata a node" "$way" \
		"$(calc "$metadata_bytes / $bytes")" copies
	awk -v way="$way" -v n="$n" -v s="$scenario" \
		'{ print way, n, s, $1, $2, $3 }' "$W/times" >>"$W/nodes"
	[[ $way != peers || $scenario != base ]] || note_shape "$copies"
}

# --- ways --------------------------------------------------------------------------

# One node shows what a node alone takes; the other scenarios are for swarms.
is_wanted() { # N SCENARIO WAY
	[[ $1 != 1 || ($2 == base && $3 == peers) ]]
}

way_peers_missing() { :; }
way_peers_begin() { start_nodes --p2p-tracker http://10.214.0.2:5001; }
node_options() { # NODE
	[[ $way == peers ]] || return 0
	echo "--p2p-listen $(swarm_addr "$1"):7000 --p2p-security $security" \
		"--location rack$(($1 % racks)) $(security_options "$1")"
}
security_options() { # NODE
	[[ $security != open ]] || return 0
	node_certificate "$1"
	mkdir -p "$W/tls$1"
	ln -sf "$W/ca.pem" "$W/tls$1/ca.crt"
	ln -sf "$W/node$1.pem" "$W/tls$1/tls.crt"
	ln -sf "$W/node$1.key" "$W/tls$1/tls.key"
	echo "--p2p-tls $W/tls$1 --p2p-rights cluster"
}
way_peers_run() {
	go 600
	note_run
}

way_direct_missing() { :; }
way_direct_begin() { start_nodes; }
# All bytes of all nodes pass one link.
way_direct_run() {
	go "$(calc "1800 + $n * $all_bytes * 8 / $(swarm_bits "$origin_rate")")"
	note_run
}

# Certificates of one authority, made once.
node_certificate() { # NODE
	if [[ ! -s $W/ca.pem ]]; then
		openssl req -x509 -newkey ed25519 -nodes -days 2 -subj /CN=bench \
			-keyout "$W/ca.key" -out "$W/ca.pem" 2>/dev/null
	fi
	[[ ! -s $W/node$1.pem ]] || return 0
	openssl req -new -newkey ed25519 -nodes -subj "/CN=node$1" \
		-keyout "$W/node$1.key" -out "$W/node$1.csr" 2>/dev/null
	openssl x509 -req -in "$W/node$1.csr" -CA "$W/ca.pem" -CAkey "$W/ca.key" \
		-days 2 -out "$W/node$1.pem" -extfile <(echo \
		"subjectAltName=URI:bootseer://node/node$1") 2>/dev/null
}

# --- goals -------------------------------------------------------------------------

largest() { # numbers in a list
	printf '%s\n' "$@" | sort -g | tail -1
}

goal_ratio() { # NAME SERIES VARIANT SERIES2 VARIANT2 OP LIMIT
	local value=

	! has_sample "$2" "$3" || ! has_sample "$4" "$5" ||
		value=$(calc "$(median "$2" "$3") / $(median "$4" "$5")")
	goal "$1" "$value" ratio "$6" "$7"
}

swarm_goals() {
	local big k limit

	big=$(largest $counts)
	goal_ratio "p99 of time to full by T*, $big nodes" \
		"$big nodes, base: time to full, p99" peers \
		"$big nodes, base: time to full, T*" bound '<=' 1.25
	goal_ratio "p99 of time to hot by T*, $big nodes" \
		"$big nodes, base: time to hot, p99" peers \
		"$big nodes, base: time to hot, T*" bound '<=' 1.5
	for k in $counts; do
		goal "origin copies, $k nodes" \
			"$(median "$k nodes, base: origin" peers)" copies '<=' 1.2
	done
	for k in base slow; do
		limit=$([[ $k == slow ]] && echo 1.15 || echo 1.10)
		goal "Max/Median, $big nodes, $k" \
			"$(median "$big nodes, $k: Max/Median" peers)" ratio \
			'<=' "$limit"
	done
	goal_ratio "time to hot, $big nodes by one" \
		"$big nodes, base: time to hot, median" peers \
		"1 nodes, base: time to hot, median" peers '<=' 1.3
	goal_ratio "time to full, straight from the origin by peers, $big nodes" \
		"$big nodes, base: time to full, median" direct \
		"$big nodes, base: time to full, median" peers '>=' 10
	for k in dragonfly kraken; do
		goal_ratio "time to full, $k by peers, $big nodes" \
			"$big nodes, base: time to full, p99" "$k" \
			"$big nodes, base: time to full, p99" peers '>=' 1
	done
}
