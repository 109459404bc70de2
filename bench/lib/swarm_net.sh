# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Many nodes on one machine: a network namespace each, on bridges that are racks,
# and two more for the registry and the tracker.
#
#	swarm_begin N RACKS	namespaces, bridges, interfaces; nothing shaped
#	swarm_shape		rates of $node_rate, $origin_rate, $rack_rate
#	in_swarm WHO CMD...	WHO: a node's number, "origin" or "tracker"
#
# Addresses are 10.214.0.1 (registry), 10.214.0.2 (tracker) and those of
# swarm_addr; they exist only in the namespaces.

swarm_core=bsx$$

swarm_ns() { echo "bsw$$.$1"; } # WHO
swarm_addr() { echo "10.214.$(($1 / 200 + 1)).$(($1 % 200 + 1))"; } # NODE
in_swarm() { nsenter "--net=/run/netns/$(swarm_ns "$1")" "${@:2}"; }

# A namespace with one interface, whose other end is a port of BRIDGE.  Connections are
# governed by what the kernel has by default, whatever this machine has: as its route
# says, since a namespace may only set by sysctl what the machine allows to all.
swarm_join() { # WHO PORT ADDR BRIDGE
	local ns

	ns=$(swarm_ns "$1")
	ip netns add "$ns"
	defer ip netns del "$ns"
	ip -n "$swarm_core" link add "$2" type veth peer name net netns "$ns"
	ip -n "$swarm_core" link set "$2" master "$4" up
	ip -n "$ns" addr add "$3/16" dev net
	ip -n "$ns" link set lo up
	ip -n "$ns" link set net up
	ip -n "$ns" route replace 10.214.0.0/16 dev net proto kernel scope link \
		src "$3" congctl cubic
}

swarm_bridge() { # NAME
	ip -n "$swarm_core" link add "$1" type bridge
	ip -n "$swarm_core" link set "$1" up
}

# The cable between a rack and the core; where racks are far from each other it
# holds each frame for half of 5 ms, since frames pass two.
swarm_uplink() { # RACK
	local end

	if [[ $scenario != delay ]]; then
		ip -n "$swarm_core" link add "up$1" type veth peer name "down$1"
		return
	fi
	for end in up down; do
		ip -n "$swarm_core" link add "$end$1" type veth peer name "${end}x$1"
		ip -n "$swarm_core" link set "${end}x$1" up
	done
	RUN_IN=(nsenter "--net=/run/netns/$swarm_core")
	start_daemon "$W/cable.$1.log" "$(bench_tool delay_link)" 2.5 \
		"upx$1" "downx$1"
	RUN_IN=()
	wait_for_line "$W/cable.$1.log" joined "$daemon_pid" >/dev/null
}

# The kernel's table of neighbours is one for all namespaces, and 1,024 entries by
# default, which 32 nodes fill.
swarm_neighbours() { # N
	local name=/proc/sys/net/ipv4/neigh/default/gc_thresh level was

	for level in 3 2 1; do
		was=$(<"$name$level")
		((was < 2 * ($1 + 4) ** 2)) || continue
		echo $((2 * ($1 + 4) ** 2)) >"$name$level"
		defer eval "echo $was >$name$level"
	done
}

# A cable that neither bounds nor delays is none: each frame on it takes processors.
swarm_has_uplinks() { [[ $rack_rate || $scenario == delay ]]; }

# Frames pass a switch as they are: no firewall looks at them, whatever this machine has.
swarm_no_firewall() {
	local name

	for name in arp ip ip6; do
		name=/proc/sys/net/bridge/bridge-nf-call-${name}tables
		in_swarm_core sh -c "[ ! -e $name ] || echo 0 >$name"
	done
}
in_swarm_core() { nsenter "--net=/run/netns/$swarm_core" "$@"; }

swarm_begin() { # N RACKS
	local i

	swarm_neighbours "$1"

	need ip tc nsenter
	swarm_n=$1 swarm_racks=$2
	ip netns add "$swarm_core"
	defer ip netns del "$swarm_core"
	swarm_no_firewall
	swarm_bridge core
	swarm_join origin origin 10.214.0.1 core
	swarm_join tracker tracker 10.214.0.2 core
	for ((i = 0; i < swarm_racks; i++)); do
		swarm_has_uplinks || break
		swarm_bridge "rack$i"
		swarm_uplink "$i"
		ip -n "$swarm_core" link set "up$i" master "rack$i" up
		ip -n "$swarm_core" link set "down$i" master core up
	done
	for ((i = 0; i < swarm_n; i++)); do
		swarm_join "$i" "node$i" "$(swarm_addr "$i")" \
			"$(swarm_has_uplinks && echo "rack$((i % swarm_racks))" ||
				echo core)"
	done
}

# The bucket holds a whole burst of segments (see net.sh), what waits behind it 50 ms of
# the rate and one segment as the kernel builds it at least.  tc's own "latency" would
# add the bucket to the queue: 250 ms of a link of 10 Mbit/s, where the links that this
# stands for have 1 ms.
swarm_tbf() { # NAMESPACE DEVICE RATE
	tc -n "$1" qdisc replace dev "$2" root tbf rate "$3" burst 256kb \
		limit "$(swarm_queue "$3")"
}
swarm_queue() { # RATE: bytes
	calc "$(swarm_bits "$1") * 0.05 / 8" |
		awk '{ print ($1 > 65536 ? $1 : 65536) }'
}

swarm_shape_node() { # NODE RATE
	swarm_tbf "$(swarm_ns "$1")" net "$2"
	swarm_tbf "$swarm_core" "node$1" "$2"
}

swarm_shape() {
	local i

	swarm_tbf "$(swarm_ns origin)" net "$origin_rate"
	swarm_tbf "$swarm_core" origin "$origin_rate"
	for ((i = 0; i < swarm_racks; i++)); do
		[[ $rack_rate ]] || continue
		swarm_tbf "$swarm_core" "up$i" "$rack_rate"
		swarm_tbf "$swarm_core" "down$i" "$rack_rate"
	done
	for ((i = 0; i < swarm_n; i++)); do
		swarm_shape_node "$i" "$node_rate"
	done
}

# Bytes that the registry has sent, headers of packets too.
swarm_origin_bytes() {
	in_swarm origin cat /sys/class/net/net/statistics/tx_bytes 2>/dev/null ||
		ip -n "$(swarm_ns origin)" -s -j link show net |
		jq '.[0].stats64.tx.bytes'
}
