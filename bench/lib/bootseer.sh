# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# A node of ours: bootseerd, its containerd plugin and a containerd; and the
# service that keeps traces on the far side of the link.

rpull=(ctr-remote images rpull --plain-http --snapshotter bootseer)

# The image as the program under test converted it.
our_image() { echo "$LINK_REGISTRY/${our_repo:-ours}/$ref"; }

no_build_before() {
	[[ -d ${BOOTSEER_BEFORE-} ]] ||
		echo "BOOTSEER_BEFORE does not name the folder of a build"
}

# With the programs of that build, and what they converted.
as_before() { # FUNCTION ARGUMENT...
	local bench_build=$BOOTSEER_BEFORE our_repo=before

	"$@"
}

store_before() {
	as_before store_ours "$(image "$image")" "before/$ref" \
		"$(<"$store/image.$image")"
}

# The image with an index beside it, in a repository of its own.
store_index() {
	store_ours "$(image "$image")" "index/$ref" \
		"$(<"$store/image.$image")" --form index
}

# Without a trace: nothing is fetched before it is read, nothing recorded.
plain_lazy=(--prefetch off --record off --trace-oci no)

start_node() { # DIR BOOTSEERD-OPTION...
	start_bootseerd "$1/bootseer" --plain-http "$LINK_REGISTRY" "${@:2}"
	start_snapshotter "$1/snapshotter" \
		--containerd-state "$1/containerd/state"
	start_containerd "$1/containerd" "bootseer=$SNAPSHOTTER_SOCKET"
}

no_trace_service() {
	has_program bootseer-registry ||
		echo "there is no bootseer-registry in $bench_build"
}

# A service with its database in $W/keep/STORE, as http://10.213.0.1:PORT behind
# the same link; for the far_side function of a variant.
start_trace_service() { # STORE PORT
	local log=$W/traces.$1.log line

	mkdir -p "$W/keep/$1"
	RUN_IN=(nsenter "--net=/run/netns/$net_reg")
	start_daemon "$log" "$(program bootseer-registry)" \
		--listen 127.0.0.1:0 --insecure-no-auth \
		--db "sqlite:$W/keep/$1/traces.db"
	RUN_IN=()
	far_pids+=("$daemon_pid")
	line=$(wait_for_line "$log" 'ready port=' "$daemon_pid")
	net_proxy "$delay" "127.0.0.1:$(sed 's/.*port=//; s/ .*//' <<<"$line")" "$2"
	far_pids+=("$net_proxy_pid")
}

# Start an image once, as any first start, and wait until the service on PORT
# has the trace of that.
record_start() { # REF PORT
	start_node "$W/node" --service "http://10.213.0.1:$2"
	must "${rpull[@]}" "$1"
	run_until_ready bootseer "$1"
	end_run
	wait_until "$bootseerd_pid" "$W/node/bootseer/log" \
		service_has_trace "${1%:*}" "$2"
}

service_has_trace() { # HOST/REPOSITORY PORT
	in_registry curl -sf "http://10.213.0.1:$2/v1/traces?repo=$1" |
		jq -e '[.. | objects | select(has("workload"))] != []' >/dev/null
}

# The figures of the last start of REF on the node, as bootseerd has them when the
# container is gone.
last_start() { # REF
	wait_until "$bootseerd_pid" "$W/node/bootseer/log" has_figures "$1"
	cat "$W/explain"
}

has_figures() { # REF
	BOOTSEER_SOCKET=$BOOTSEERD_SOCKET "$(program bootseer)" image explain \
		--json "$1" >"$W/explain.all" 2>/dev/null &&
		jq -e '[.. | objects | select(has("missed_blocks"))][0]' \
			"$W/explain.all" >"$W/explain"
}

# A start with the trace that the service on PORT finds, and how well it fitted.
# It must be MATCH.
note_traced_start() { # VARIANT PORT MATCH BOOTSEERD-OPTION...
	local at

	at=$(our_image)
	start_node "$W/node" --service "http://10.213.0.1:$2" "${@:4}"
	note_start "$1" bootseer "$at" "${rpull[@]}"
	end_run
	last_start "$at" >"$W/figures"
	[[ $(jq -r .trace "$W/figures") == "$3" ]] ||
		die "the start had the trace '$(jq -r .trace "$W/figures")', not '$3'"
	sample "$image $link: missed" "$1" "$(jq '100 * .missed_blocks /
		([.read_blocks, 1] | max)' "$W/figures")" %
}

# A start without a trace.
note_plain_start() { # VARIANT BOOTSEERD-OPTION...
	start_node "$W/node" "${@:2}"
	note_start "$1" bootseer "$(our_image)" "${rpull[@]}"
	end_run
}

# What of the prefetched was used.  bootseerd can tell when nothing but the hot set
# is fetched, so this is a start of its own, over the unshaped link.
note_hot_set() { # VARIANT PORT
	local at

	at=$(our_image)
	start_node "$W/node" --service "http://10.213.0.1:$2" \
		--prefetch hot --wait all --record off
	must "${rpull[@]}" "$at"
	run_until_ready bootseer "$at"
	end_run
	last_start "$at" >"$W/figures"
	sample "$image: hot set" "$1" "$(jq '.hot.bytes / 1e6' "$W/figures")" MB
	sample "$image: unused" "$1" "$(jq '100 * .hot.unused_bytes /
		([.hot.bytes, 1] | max)' "$W/figures")" %
}
