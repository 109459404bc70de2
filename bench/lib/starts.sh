# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# One start of an image, measured from the pull (or, where nothing is pulled, from
# the run) to the workload's "ready".  A variant is a way to start, described in
# bench/lib/variants/NAME.sh by functions ("-" in NAME is "_" in theirs):
#
#	NAME_missing	why it cannot run here, if it cannot (may be absent)
#	NAME_store	put into the registry what it needs; kept (may be absent)
#	NAME_images	further images that it needs there (may be absent)
#	NAME_far_side	start what it needs beside the registry (may be absent)
#	NAME_set_up	before the rounds of an image, unshaped; what is to be kept
#			goes to $W/keep/NAME (may be absent)
#	NAME_start	one start: daemons below $W/node, then note_start
#
# They find the image in $image, its $ref in the registry, the link in $link and
# $delay.  Store, set_up and start run in shells of their own (attempt), so daemons
# that they start end with them.

variants_known() {
	local file

	for file in "$bench_dir"/lib/variants/*.sh; do
		basename "$file" .sh
	done
}

load_variants() { # NAME...
	local name

	for name; do
		[[ -e $bench_dir/lib/variants/$name.sh ]] ||
			die "no variant '$name'; there are: $(echo $(variants_known))"
		. "$bench_dir/lib/variants/$name.sh"
	done
}

# Call the function of a variant, if it has it.
variant_call() { # VARIANT FUNCTION
	local function=${1//-/_}_$2

	! declare -F "$function" >/dev/null || "$function"
}

# The version before $image, if there is one.
previous_image() {
	local n=${image##*-}

	[[ $n != "$image" && $n == [2-9] ]] || return 0
	echo "${image%-*}-$((n - 1))"
}

# --- the two sides of the link --------------------------------------------------

node_empty() {
	umount_below "$W"
	rm -rf --one-file-system "$W/node"
	mkdir -p "$W/node" "$W/keep"
}

# Run a function with the daemons that it starts on an empty node, or in one
# without a link, beside the registry, where the same addresses lead to it.
on_node() { on_side "$net_node" "$@"; }
on_far_side() { own_shell on_side "$net_reg" "$@"; }
on_side() { # NAMESPACE FUNCTION...
	node_empty
	defer node_empty
	side=$1
	RUN_IN=(nsenter "--net=/run/netns/$1")
	"${@:2}"
}

here() { nsenter "--net=/run/netns/$side" "$@"; }

# CPU that the far side has used, in clock ticks: were it much of a core, it and
# not the link would be measured.
far_ticks() {
	local pid

	for pid in "${far_pids[@]}"; do
		cat "/proc/$pid/stat"
	done | awk '{ sub(/.*\) /, ""); n += $12 + $13 } END { print n + 0 }'
}

# --- one start ------------------------------------------------------------------

# Run a command of the node, or end with what it said.
must() { # COMMAND...
	here timeout 1800 "$@" >"$W/command.log" 2>&1 ||
		die "$1 $2 $3: $(tail -n 1 "$W/command.log" | cut -c1-300)"
}

# Start the container REF and wait for its line.  It may still be there after
# that, as $run_pid, until end_run.  What it says comes from its shim by a pipe,
# since ctr can lose what is said last.
run_until_ready() { # SNAPSHOTTER REF; $run_options of `ctr run`, $run_command
	local line= part last= end=$((SECONDS + 900))

	run_id=bench-$BASHPID
	rm -f "$W/said"
	mkfifo "$W/said"
	exec 8<>"$W/said"
	(
		trap - ERR # its last line is to be ctr's
		here ctr run --rm --net-host --log-uri "file://$W/said" \
			--snapshotter "$1" ${run_options[@]+"${run_options[@]}"} \
			"$2" "$run_id" ${run_command[@]+"${run_command[@]}"}
	) >"$W/run.log" 2>&1 8<&- &
	run_pid=$!
	while ((SECONDS < end)); do
		# A read that times out has taken what was there of a line.
		if ! read -r -t 1 part <&8; then
			line+=$part
			kill -0 "$run_pid" 2>/dev/null || break
			continue
		fi
		line+=$part
		[[ $line != ready ]] || return 0
		last=$line line=
	done
	die "not ready: ${last:-$(tail -n 1 "$W/run.log" | cut -c1-300)}"
}

end_run() {
	timeout 60 tail -s 0.02 --pid="$run_pid" -f /dev/null ||
		ctr task kill -s KILL "$run_id" >/dev/null 2>&1 || :
	wait "$run_pid" 2>/dev/null || :
	exec 8<&-
}

# What a benchmark wants to look at beside the time of a start: it may have
# functions of its own by these names.
start_begins() { :; }
start_is_ready() { :; } # VARIANT

# What was asked of the registry since line N of its log, by kind: blobs in ranges are
# those of packs, whole ones configs and the two files of metadata.
note_asked() { # VARIANT N
	local kind n bytes

	tail -n "+$(($2 + 1))" "$W/front/asked" >"$W/asked"
	[[ ! ${BOOTSEER_BENCH_ASKED-} ]] ||
		cp "$W/asked" "$BOOTSEER_BENCH_ASKED/$1.${bench_round:-0}"
	while read -r kind n bytes; do
		sample "$image $link: asked for: ${kind//_/ }" "$1" "$n" ""
		sample "$image $link: asked for: ${kind//_/ }, bytes" "$1" \
			"$(calc "$bytes / 1e6")" MB
	done < <(awk '
	function kind() {
		if ($NF ~ "/referrers/|/manifests/sha256-") return "lists"
		if ($NF ~ "/manifests/") return "manifests"
		if ($NF !~ "/blobs/") return "other"
		if ($7 == "\"-\"") return "whole_blobs"
		if ($6 < 65536) return "ranges_below_64_KiB"
		if ($6 < 262144) return "ranges_below_256_KiB"
		return $6 < 786432 ? "ranges_below_768_KiB" : "longer_ranges"
	}
	{ n[kind()]++; bytes[kind()] += $6 }
	END { for (k in n) print k, n[k], bytes[k] }' "$W/asked")
}

# Pull REF with the words given, if any, run it, and note what happened.
note_start() { # VARIANT SNAPSHOTTER REF [PULL...]
	local who=$1 snapshotter=$2 ref=$3 t pulled before after ticks asked

	shift 3
	drop_caches
	before=($(net_counters))
	ticks=$(far_ticks)
	asked=$(wc -l <"$W/front/asked")
	start_begins
	t=$(now)
	(($# == 0)) || must "$@" "$ref"
	pulled=$(seconds_since "$t")
	run_until_ready "$snapshotter" "$ref"
	sample "$image $link: ready" "$who" "$(seconds_since "$t")" s
	ticks=$(($(far_ticks) - ticks))
	after=($(net_counters))
	start_is_ready "$who"
	note_asked "$who" "$asked"
	sample "$image $link: pull" "$who" "$pulled" s
	sample "$image $link: before ready" "$who" \
		"$(calc "(${after[3]} - ${before[3]}) / 1e6")" MB
	sample "$image $link: requests" "$who" $((after[1] - before[1])) ""
	sample "$image $link: far CPU" "$who" \
		"$(calc "$ticks / $(getconf CLK_TCK)")" s
}
