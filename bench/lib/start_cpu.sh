# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Where the processor's time of a start goes: note_start (starts.sh) calls
# start_begins and start_is_ready, between which perf samples every CPU by its
# clock, with the stacks of the kernel.  bench/tools/start_cpu.py sorts the
# samples by process and by what they were for.

start_cpu_hz=997

start_begins() {
	rm -f "$W/perf."*
	mkfifo "$W/perf.order" "$W/perf.answer"
	# The fds keep both ends open, so that neither side blocks in open().
	exec 5<>"$W/perf.order" 6<>"$W/perf.answer"
	perf record -q -a -g -e cpu-clock -F "$start_cpu_hz" -D -1 \
		--control "fifo:$W/perf.order,$W/perf.answer" \
		-o "$W/perf.data" >"$W/perf.log" 2>&1 5<&- 6<&- &
	perf_pid=$!
	perf_order enable
}

start_is_ready() {
	perf_order disable
	perf_order stop
	wait "$perf_pid" || die "perf: $(tail -n 1 "$W/perf.log")"
	exec 5<&- 6<&-
	perf script -i "$W/perf.data" --show-task-events \
		-F comm,pid,tid,ip,sym,dso >"$W/perf.script" 2>>"$W/perf.log"
	note_start_cpu "$1"
}

# One order to perf; it has been obeyed when this returns.
perf_order() { # WORD
	local answer

	echo "$1" >&5
	[[ $1 != stop ]] || return 0
	read -r -t 30 answer <&6 || die "perf did not $1: $(tail -n 1 "$W/perf.log")"
}

# A row of start_cpu.py is "GROUP PURPOSE SECONDS".
note_start_cpu() { # VARIANT
	local group purpose seconds

	python3 "$bench_dir/tools/start_cpu.py" ${START_CPU_LEAVES:+--leaves} --hz "$start_cpu_hz" \
		--node "${bootseerd_pid:-}" --plugin "${snapshotter_pid:-}" \
		--runtime "$containerd_pid" "$W/perf.script" >"$W/perf.rows" ||
		die "start_cpu.py failed"
	while IFS=$'\t' read -r group purpose seconds; do
		sample "$image $link: CPU: $group: $purpose" "$1" "$seconds" s
	done <"$W/perf.rows"
}

# --- what came out ---------------------------------------------------------------

images="numpy-2 ml-2" rounds=5
only="native bootseer bootseer-before bootseer-trace bootseer-trace-before bootseer-warm"
[[ ! $bench_quick ]] || images=busybox-busy rounds=1 only="native bootseer-trace"

# What no start can beat that moves the hot set first, in seconds; or nothing.
t_two_stars() {
	local hot rate native

	hot=$(median "$image: hot set" bootseer-trace)
	native=$(median "$image $link: ready" native)
	rate=$(rate_bytes)
	[[ $hot && $native ]] || return 0
	((rate > 0)) || { echo "$native"; return; }
	awk -v n="$native" -v t="$(calc "$hot * 1e6 / $rate")" \
		'BEGIN { print (t > n) ? t : n }'
}

cpu() { median "$image $link: CPU: $1" "$2"; } # "GROUP: PURPOSE" VARIANT

# Rows: whose time and what for, a column for each variant; less than 10 ms in all
# columns is left out.
print_link() {
	local variants series

	variants=$(sed -n "s/^$image $link: ready\t\([^\t]*\)\t.*/\1/p" \
		"$W/samples" | awk '!seen[$0]++')
	[[ $variants ]] || return 0
	printf '\n%s over %s: CPU until ready, s\n' "$image" "$link"
	cpu_row "" $variants
	cpu_row "wall, to ready" $(for_each_of median "$image $link: ready" $variants)
	sed -n "s/^$image $link: CPU: \([^\t]*\)\t.*/\1/p" "$W/samples" |
		awk '!seen[$0]++' | grep -v '^other:' | sort -t: -k1,1 -s |
		while IFS= read -r series; do
			cpu_row "$series" $(for_each_of cpu_or_zero "$series" $variants)
		done | awk '{ for (i = NF; i > 0 && $i ~ /^[0-9.]+$/; i--)
			if ($i >= 0.01) { print; next } }'
}

for_each_of() { # FUNCTION SERIES VARIANT...
	local variant function=$1 series=$2

	shift 2
	for variant; do
		printf '%.3f ' "$("$function" "$series" "$variant")"
	done
}

cpu_or_zero() {
	local value

	value=$(cpu "$@")
	echo "${value:-0}"
}

cpu_row() { # WHAT COLUMN...
	printf '%-30s' "$1"
	shift
	printf ' %*s' $(for word; do echo "$((${#word} > 9 ? ${#word} : 9)) $word"; done)
	echo
}

goals_of_image() { :; }

goals_of_link() {
	local star ready

	star=$(t_two_stars)
	ready=$(median "$image $link: ready" bootseer-trace)
	goal "$image $link: trace by T**" \
		"$([[ ! $star || ! $ready ]] || calc "$ready / $star")" x '<=' 1.15
	goal "$image $link: bootseerd's CPU with a trace, by that of before" \
		"$(cpu_by_before bootseer-trace)" x '<=' 0.5
	goal "$image $link: bootseerd's CPU without a trace, by that of before" \
		"$(cpu_by_before bootseer)" x '<=' 0.9
}

cpu_by_before() { # VARIANT
	median_ratio "$image $link: CPU: node: all" "$1" "$1-before"
}
