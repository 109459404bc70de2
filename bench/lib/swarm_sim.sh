# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Is the simulator right?  What bench/p2p measured in shaped networks, beside what
# p2p-sim makes of the same nodes, links and pieces.  The simulator's figures for
# more nodes count only as far as these agree.
#
# $W/nodes has lines "WAY N SCENARIO NODE HOT FULL" and $W/shapes lines "N PIECES
# BYTES HOT-SHARE COPIES".

# Of a link's queue so much is full on average (TCP fills it and backs off): what the
# simulator agreed best with at 16 nodes.
swarm_queue_full=3

# What of a link is left to blocks: 1448 bytes of each frame of 1514.
swarm_goodput=0.956
sim_seeds="1 2 3 4 5"

sim_compare() { # N...
	local n

	for n; do
		[[ ! -s $W/shapes ]] || ! grep -q "^$n " "$W/shapes" ||
			sim_run "$n"
		sim_goals "$n"
	done
}

# All nodes of several seeds together: one run is one draw of the same thing.
sim_run() { # N
	local n=$1 pieces bytes hot copies seed

	read -r _ pieces bytes hot copies < <(grep "^$n " "$W/shapes" | tail -n 1)
	: >"$W/sim.$n"
	for seed in $sim_seeds; do
		"$(program p2p-sim)" nodes="$n" racks="$racks" \
			pieces="$pieces" piece="$((bytes / pieces))" hot="$hot" \
			link="$(sim_rate "$node_rate")" \
			origin="$(sim_rate "$origin_rate")" \
			queue="$(sim_queue "$node_rate")" \
			seed="$seed" times=1 >>"$W/sim.$n" ||
			die "the simulator failed"
	done
	sample "$n nodes, base: time to full, max" simulated \
		"$(sim_times "$n" 4 | sort -g | tail -n 1)" s
	sample "$n nodes, base: time to full, max" peers \
		"$(swarm_times "$n" 6 | sort -g | tail -n 1)" s
	sample "$n nodes, base: time to hot, max" simulated \
		"$(sim_times "$n" 3 | sort -g | tail -n 1)" s
	sample "$n nodes, base: time to hot, max" peers \
		"$(swarm_times "$n" 5 | sort -g | tail -n 1)" s
	sample "$n nodes, base: origin" simulated \
		"$(awk '$1 == "origin_copies" { s += $2; k++ } END { print s / k }' \
			"$W/sim.$n")" copies
	sample "$n nodes, base: distance of time to full" simulated \
		"$(sim_distance "$n" 0)" KS
	sample "$n nodes, base: the same, each by its median" simulated \
		"$(sim_distance "$n" 1)" KS
}

sim_queue() { calc "$(swarm_queue "$1") / $swarm_queue_full / 1024"; }
sim_rate() { calc "$(swarm_bits "$1") * $swarm_goodput / 1e6"; }
sim_times() { awk -v c="$2" '$1 == "times" { print $c }' "$W/sim.$1"; } # N COLUMN
swarm_times() { # N COLUMN
	awk -v n="$1" -v c="$2" '$1 == "peers" && $2 == n && $3 == "base" {
		print $c }' "$W/nodes"
}

# Kolmogorov-Smirnov: the largest distance of the two distribution functions.
sim_distance() { # N BY-MEDIAN
	local a b

	a=$(sim_times "$1" 4) b=$(swarm_times "$1" 6)
	{
		awk -v d="$(sim_unit "$2" "$a")" '{ print $1 / d, 0 }' <<<"$a"
		awk -v d="$(sim_unit "$2" "$b")" '{ print $1 / d, 1 }' <<<"$b"
	} | sort -g | awk '
	{ v[NR] = $1; who[NR] = $2; n[$2]++ }
	END {
		for (i = 1; i <= NR; i++) {
			k[who[i]]++
			if (i < NR && v[i + 1] == v[i])
				continue
			d = k[0] / n[0] - k[1] / n[1]
			if (d < 0) d = -d
			if (d > most) most = d
		}
		printf "%.4g\n", most
	}'
}
sim_unit() { if (($1)); then median_of <<<"$2"; else echo 1; fi; }

# How far B is from A, as a share of A.
sim_off() { # SERIES
	! has_sample "$1" peers || ! has_sample "$1" simulated || calc \
		"($(median "$1" simulated) / $(median "$1" peers) - 1) ^ 2" |
		awk '{ printf "%.4g\n", sqrt($1) }'
}

sim_goals() { # N
	goal "simulated makespan off the measured, $1 nodes" \
		"$(sim_off "$1 nodes, base: time to full, max")" share '<=' 0.1
	goal "simulated origin bytes off the measured, $1 nodes" \
		"$(sim_off "$1 nodes, base: origin")" share '<=' 0.1
	goal "simulated distribution off the measured, $1 nodes" \
		"$(median "$1 nodes, base: distance of time to full" simulated)" \
		KS '<=' 0.15
}
