# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What came out of the starts of $image over $link: a table of the variants, and the
# goals.

# T* of $image over $link in seconds, or nothing.
t_star() {
	local hot rate

	hot=$(median "$image: hot set" bootseer-trace)
	[[ $hot ]] && has_sample "$image $link: ready" native || return 0
	rate=$(rate_bytes)
	((rate == 0)) || calc "$hot * 1e6 / $rate + \
		$(median "$image $link: ready" native)"
}

row() { # COLUMN...
	printf '%-18s %2s %8s %8s %8s %7s %9s %8s %7s %8s\n' "$@"
}

round_to() { printf "%.$1f" "$2"; }

print_link() {
	local variant best star=$1 s="$image $link" m variants

	variants=$(awk -F'\t' -v s="$s: ready" '$1 == s && !seen[$2]++ {
		print $2 }' "$W/samples" | sort)
	[[ $variants ]] || return 0
	echo
	echo "$image over $link${star:+, T* = $(round_to 2 "$star") s}"
	row variant n "ready, s" min max "/ T*" MB requests "pull, s" "far CPU"
	for variant in $variants; do
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

# A goal on the ratio of two variants' times.
ratio_goal() { # TEXT A B OP LIMIT
	goal "$image $link: $1" \
		"$(median_ratio "$image $link: ready" "$2" "$3")" x "$4" "$5"
}

# By what T* is exceeded.
by_t_star() { # T*
	local ready

	ready=$(median "$image $link: ready" bootseer-trace)
	[[ ! $1 || ! $ready ]] || calc "$ready / $1"
}

best_peer() {
	local variant

	for variant in estargz estargz-opt nydus nydus-prefetch soci; do
		! has_sample "$image $link: ready" "$variant" ||
			echo "$(median "$image $link: ready" "$variant") $variant"
	done | sort -g | sed -n '1s/.* //p'
}

# What takes turns with the build before: faster where that is a goal, slower nowhere.
goals_by_before() {
	local variant most

	for variant in bootseer-trace bootseer-first bootseer; do
		has_sample "$image $link: ready" "$variant-before" || continue
		case "$variant $image $link" in
		"bootseer-trace numpy-2 1gbit+"*) most=0.85 ;;
		"bootseer-trace ml-2 1gbit+"*) most=0.80 ;;
		*) most=1.02 ;;
		esac
		ratio_goal "$variant by the build before" "$variant" \
			"$variant-before" '<=' "$most"
	done
}

goals_of_link() { # T*
	goals_by_before
	if [[ $image == ml-* ]]; then
		ratio_goal "full pull by no trace" overlayfs bootseer '>=' 10
		ratio_goal "eStargz by no trace" estargz bootseer '>' 1
		ratio_goal "no trace by trace" bootseer bootseer-trace '>=' 4
	fi
	goal "$image $link: trace by T*" "$(by_t_star "$1")" x '<=' 1.15
	ratio_goal "best peer by trace" "$(best_peer)" bootseer-trace '>=' 2
	ratio_goal "trace by no trace" bootseer-trace bootseer '<=' 1
	ratio_goal "first start by no prefetch" bootseer-first bootseer '<=' 1
	ratio_goal "inherited by own trace" bootseer-inherited bootseer-trace \
		'<=' 1.3
	ratio_goal "predicted by own trace" bootseer-predicted bootseer-trace \
		'<=' 1.25
	ratio_goal "predicted by no trace" bootseer-predicted bootseer '<=' 1.02
	ratio_goal "said by no trace" bootseer-said bootseer '<=' 1.02
	ratio_goal "index by converted, no trace" index bootseer '<=' 1.15
	ratio_goal "SOCI by index, no trace" soci index '>=' 2
	ratio_goal "index by converted, with a trace" index-trace \
		bootseer-trace '<=' 1.1
	ratio_goal "profiled by not profiled" bootseer-profiled bootseer-trace \
		'<=' 1.005
	goal "$image $link: misses of blocks read, with a trace" \
		"$(median "$image $link: missed" bootseer-trace)" % '<=' 2
}

# Before the links of $image: what does not depend on them.
goals_of_image() {
	goal "$image: unused of the hot set, by bytes" \
		"$(median "$image: unused" bootseer-trace)" % '<=' 10
	local variant

	for variant in bootseer-predicted bootseer-said; do
		goal "$image: unused of what $variant fetched, by bytes" \
			"$(median "$image: unused of what was fetched" \
				"$variant")" % '<=' 25
	done
}
