# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# A link of known rate and latency between a registry and a node, made of two
# network namespaces of our own.  The machine's own network is not touched.
#
#	net_begin			namespaces and the pair of interfaces
#	net_shape 200mbit		token bucket on both ends; "" for none
#	net_proxy 5 HOST:PORT		added latency, and counters
#	net_counters			what crossed it
#	in_registry CMD..., in_node CMD...
#
# The registry's side is 10.213.0.1, the node's 10.213.0.2; they exist only in
# the namespaces, so that two benchmarks at once do not meet.

net_reg=bsr$$ net_node=bsn$$
net_proxy_stats=()
LINK_REGISTRY=10.213.0.1:5000 # what the node connects to

net_begin() {
	need ip tc nsenter
	ip netns add "$net_reg"
	defer ip netns del "$net_reg"
	ip netns add "$net_node"
	defer ip netns del "$net_node"
	ip -n "$net_reg" link add bsl0 type veth peer name bsl0 netns "$net_node"
	ip -n "$net_reg" addr add 10.213.0.1/24 dev bsl0
	ip -n "$net_node" addr add 10.213.0.2/24 dev bsl0
	ip -n "$net_reg" link set lo up
	ip -n "$net_reg" link set bsl0 up
	ip -n "$net_node" link set lo up
	ip -n "$net_node" link set bsl0 up
}

# Only the network changes: mounts must stay those of the whole machine.
in_registry() { nsenter "--net=/run/netns/$net_reg" "$@"; }
in_node() { nsenter "--net=/run/netns/$net_node" "$@"; }

# The bucket must hold a whole burst of segments, or tbf splits them and the
# shaper, not the link, is the limit.
net_shape() { # RATE
	local ns

	for ns in "$net_reg" "$net_node"; do
		tc -n "$ns" qdisc del dev bsl0 root 2>/dev/null || :
		[[ $1 ]] || continue
		tc -n "$ns" qdisc add dev bsl0 root tbf rate "$1" \
			burst 256kb latency 50ms
	done
}

# Listen on port PORT (that of $LINK_REGISTRY) of the registry's side of the link and
# pass everything on to HOST:PORT there, each byte MS milliseconds later.
net_proxy() { # MS HOST:PORT [PORT]
	local port=${3:-${LINK_REGISTRY#*:}} out

	out=$W/proxy.$port
	RUN_IN=(nsenter "--net=/run/netns/$net_reg")
	start_daemon "$out.log" "$(bench_tool delay_proxy)" "$1" \
		"10.213.0.1:$port" "$2" "$out.stats"
	RUN_IN=()
	net_proxy_pid=$daemon_pid
	net_proxy_stats+=("$out.stats")
	wait_for_line "$out.log" listening "$daemon_pid" >/dev/null
}

# What went through the proxies since they started: "connections requests
# bytes-to-registry bytes-from-registry".
net_counters() {
	awk '{ for (i = 1; i <= 4; i++) n[i] += $i }
		END { printf "%.0f %.0f %.0f %.0f\n", n[1], n[2], n[3], n[4] }' \
		"${net_proxy_stats[@]}"
}
