# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What came out of the starts of $image over $link: a table of the variants, and the
# goals.

# T* of $image over $link in seconds, or nothing.
t_star() {
	local hot rate

	hot=$(median "$image: hot set" bootseer-trace 2>/dev/null) || return 0
	has_sample "$image $link: ready" native || return 0
	rate=$(rate_bytes)
	((rate == 0)) || calc "$hot * 1e6 / $rate + \
		$(median "$image $link: ready" native)"
}

row() { # COLUMN...
	printf '%-18s %2s %8s %8s %8s %7s %9s %8s %7s %8s\n' "$@"
}

round_to() { printf "%.$1f" "$2"; }

print_link() {
	local variant best star=$1 s="$image $link" m

	echo
	echo "$image over $link${star:+, T* = $(round_to 2 "$star") s}"
	row variant n "ready, s" min max "/ T*" MB requests "pull, s" "far CPU"
	for variant in $only; do
		has_sample "$s: ready" "$variant" || continue
		m=$(median "$s: ready" "$variant")
		best=($(values "$s: ready" "$variant" | sort -g | sed -n '1p;$p'))
		row "$variant" "$(values "$s: ready" "$variant" | wc -l)" \
			"$(round_to 2 "$m")" "$(round_to 2 "${best[0]}")" \
			"$(round_to 2 "${best[-1]}")" \
			"$([[ ! $star ]] || round_to 2 "$(calc "$m / $star")")" \
			"$(round_to 1 "$(median "$s: before ready" "$variant")")" \
			"$(median "$s: requests" "$variant")" \
			"$(round_to 2 "$(median "$s: pull" "$variant")")" \
			"$(round_to 2 "$(median "$s: far CPU" "$variant")")"
	done
}

# A goal on the ratio of two variants' times, where both were measured.
ratio_goal() { # TEXT A B OP LIMIT
	local ratio

	ratio=$(median_ratio "$image $link: ready" "$2" "$3" 2>/dev/null) || return 0
	goal "$image $link: $1" "$ratio" x "$4" "$5"
}

best_peer() {
	local variant

	for variant in estargz estargz-opt; do
		! has_sample "$image $link: ready" "$variant" ||
			echo "$(median "$image $link: ready" "$variant") $variant"
	done | sort -g | sed -n '1s/.* //p'
}

goals_of_link() { # T*
	local peer s="$image $link: ready"

	peer=$(best_peer)
	if [[ $image == ml-* ]]; then
		ratio_goal "full pull by no trace" overlayfs bootseer '>=' 10
		ratio_goal "no trace by trace" bootseer bootseer-trace '>=' 4
	fi
	[[ ! $1 ]] || ! has_sample "$s" bootseer-trace ||
		goal "$image $link: trace by T*" \
			"$(calc "$(median "$s" bootseer-trace) / $1")" x '<=' 1.15
	if [[ $peer ]]; then
		ratio_goal "$peer by no trace" "$peer" bootseer '>' 1
		ratio_goal "$peer, the best peer, by trace" "$peer" \
			bootseer-trace '>=' 2
	fi
	ratio_goal "trace by no trace" bootseer-trace bootseer '<=' 1
	ratio_goal "first start by no prefetch" bootseer-first bootseer '<=' 1
	ratio_goal "inherited by own trace" bootseer-inherited bootseer-trace \
		'<=' 1.3
	! has_sample "$image $link: missed" bootseer-trace ||
		goal "$image $link: misses of blocks read, with a trace" \
			"$(median "$image $link: missed" bootseer-trace)" % '<=' 2
}

# Before the links of $image: what does not depend on them.
goals_of_image() {
	! has_sample "$image: unused" bootseer-trace ||
		goal "$image: unused of the hot set, by bytes" \
			"$(median "$image: unused" bootseer-trace)" % '<=' 10
}
