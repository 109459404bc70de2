# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What every benchmark shares.  A benchmark is an executable bench/NAME:
#
#	. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
#	bench_begin NAME "$@"		options, scratch directory, clean-up
#	sample SERIES VARIANT VALUE UNIT	note one measurement
#	attempt WHAT COMMAND...		what may fail without ending the benchmark
#	goal NAME VALUE UNIT OP LIMIT	note what was to be reached; all of them, also
#					those without a value: not measured
#	bench_end			print tables and goals, write --json
#
# Options of every benchmark: --json FILE, --quick (small image, few rounds),
# --rounds N, --image NAME, --goals (measure nothing: which goals are there?; what
# measures stands in `if measuring`).  The exit status tells whether it could
# measure, not whether it met its goals: those are for the reader and for the JSON.
#
# The programs under test come from $BOOTSEER_BUILD, else from ./build.

set -euo pipefail
shopt -s inherit_errexit

bench_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bench_cache=${BOOTSEER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bootseer}
bench_build=$(realpath -m "${BOOTSEER_BUILD:-$bench_dir/../build}")
bench_name= bench_json= bench_quick= bench_rounds= bench_image= bench_goals_only=
bench_args=() # what is left of the command line
bench_pid=$BASHPID # shell whose end runs what was deferred
bench_round=       # number of the round, where rounds may fail
W= # scratch directory on a real disk, gone at the end

log() { printf '%s: %s\n' "${bench_name:-bench}" "$*" >&2; }
die() {
	log "$*"
	[[ ! $W ]] || printf '%s\n' "$*" >"$W/why"
	exit 1
}

# A command failed that nobody looked at: say which, once.
note_error() { # STATUS FILE LINE COMMAND
	[[ $W && ! -e $W/why ]] || return 0
	printf '%s, line %s: "%s" failed with %s\n' "${2##*/}" "$3" \
		"${4%%$'\n'*}" "$1" >"$W/why"
	log "$(<"$W/why")"
}

need() {
	local tool

	for tool; do
		command -v "$tool" >/dev/null || die "$tool is missing"
	done
}

# --- begin, end, clean-up -----------------------------------------------------

deferred=()

# Run the words at exit, last come first served.
defer() { deferred+=("$(printf '%q ' "$@")"); }

run_deferred() {
	local i status=$?

	[[ $BASHPID == "$bench_pid" ]] || exit "$status"
	trap '' INT TERM
	set +e
	for ((i = ${#deferred[@]} - 1; i >= 0; i--)); do
		eval "${deferred[i]}"
	done
	exit "$status"
}

umount_below() { # DIR
	findmnt -rno TARGET | awk -v w="$1/" 'index($0, w) == 1' | sort -r |
		xargs -r -n1 umount -l
}

# Run a command in a shell of its own, which runs at its end what the command
# deferred; its exit status is then in $own_status.  Neither this nor what calls it
# may stand where a status is looked at ("||", "if"): there bash goes on after
# commands that fail.
run_apart() { # COMMAND...
	set +e
	(
		set -e
		deferred=() bench_pid=$BASHPID
		trap run_deferred EXIT
		trap 'exit 130' INT TERM
		"$@"
	)
	own_status=$?
	set -e
}

# The same; a failure is one of the caller.
own_shell() { # COMMAND...
	run_apart "$@"
	((own_status == 0)) || exit "$own_status"
}

# The same; a failure is noted with its reason for the end of the benchmark, and is
# in $attempt_failed.
attempt() { # WHAT COMMAND...
	attempt_failed=
	rm -f "$W/why"
	run_apart "${@:2}"
	((own_status != 130)) || exit 130
	((own_status)) || return 0
	attempt_failed=1
	[[ -s $W/why ]] || echo "exit status $own_status" >"$W/why"
	printf '%s\t%s\n' "$1" "$(<"$W/why")" >>"$W/failures"
	log "FAILED: $1: $(<"$W/why")"
	rm "$W/why"
}

# Again and again: a shell that has forked and not yet begun the command loses the
# signal with its traps, and the one that waits for it looks at its own after that
# command.  The clean-up hears none.
tell_session() { # PID
	while pkill -TERM -s "$1" || kill -TERM "$1" 2>/dev/null; do
		read -r -t 1 <> <(:) || :
	done
}

# The benchmark in a session of its own, of which everything is told of a signal:
# bash looks at its traps when the command that it waits for is over, so that must
# end, too.  Daemons are not of the session; they are what the clean-up ends.
run_in_session() { # ARG...
	local pid status told=

	BOOTSEER_BENCH_SESSION=1 setsid "$BASH" "$0" "$@" <&0 &
	pid=$!
	trap '[[ $told ]] || tell_session "$pid" & told=1' HUP INT TERM
	until status=0; wait "$pid" || status=$?; ! kill -0 "$pid" 2>/dev/null; do
		:
	done
	exit "$status"
}

bench_begin() { # NAME ARG...
	bench_name=$1
	shift
	[[ ${BOOTSEER_BENCH_SESSION-} ]] || run_in_session "$@"
	unset BOOTSEER_BENCH_SESSION
	while (($#)); do
		case $1 in
		--json) bench_json=$(realpath "${2:?--json FILE}"); shift ;;
		--rounds) bench_rounds=${2:?--rounds N}; shift ;;
		--image) bench_image=${2:?--image NAME}; shift ;;
		--quick) bench_quick=1 ;;
		--goals) bench_goals_only=1 ;;
		-h | --help)
			sed -n '/^# SPDX/,/^[^#]/{/SPDX/d;s/^# \{0,1\}//p}' "$0"
			exit 0
			;;
		*) bench_args+=("$1") ;;
		esac
		shift
	done
	need jq awk
	trap run_deferred EXIT
	trap 'exit 130' INT TERM
	set -E
	trap 'note_error $? "${BASH_SOURCE[0]}" "$LINENO" "$BASH_COMMAND"' ERR
	W=$(mktemp -d "${BOOTSEER_BENCH_TMP:-/var/tmp}/bench.$bench_name.XXXXXX")
	chmod 755 "$W"
	defer rm -rf --one-file-system "$W"
	# A bootseerd that is told to end leaves what containers have mounted, and what that is
	# read by.
	defer umount_below "$W"
	touch "$W/samples" "$W/goals" "$W/failures"
}

measuring() { [[ ! $bench_goals_only ]]; }

machine_json() {
	jq -n --arg cpu "$(awk -F': ' '/model name/ {print $2; exit}' /proc/cpuinfo)" \
		--arg kernel "$(uname -r)" --arg fs "$(stat -f -c %T "$W")" \
		--argjson cores "$(nproc)" \
		--argjson memory "$(awk '/MemTotal/ {printf "%.0f", $2 * 1024}' /proc/meminfo)" \
		--arg load "$(cut -d' ' -f1-3 /proc/loadavg)" \
		--arg when "$(date -u +%Y-%m-%dT%H:%M:%SZ)" \
		--argjson took "$SECONDS" \
		--argjson damon "$(grep -qsx on /sys/kernel/mm/damon/admin/kdamonds/*/state &&
			echo true || echo false)" \
		'{cpu: $cpu, cores: $cores, memory: $memory, kernel: $kernel,
		  scratch_fs: $fs, load_average_at_end: $load, when: $when,
		  seconds: $took, damon: $damon}'
}

bench_end() {
	print_samples
	print_goals
	print_failures
	log "took $((SECONDS / 60)) min $((SECONDS % 60)) s"
	[[ $bench_json ]] || return 0
	jq -n --arg name "$bench_name" --argjson machine "$(machine_json)" \
		--rawfile samples "$W/samples" --rawfile goals "$W/goals" '
		def rows: split("\n") | map(select(. != "") | split("\t"));
		{name: $name, machine: $machine,
		 samples: ($samples | rows | map({series: .[0], variant: .[1],
			value: (.[2] | tonumber), unit: .[3]})),
		 goals: ($goals | rows | map({name: .[0],
			value: (if .[1] == "" then null else .[1] | tonumber end),
			unit: .[2], goal: "\(.[3]) \(.[4])",
			met: (.[5] == "true")}))}' \
		>"$bench_json.tmp"
	mv "$bench_json.tmp" "$bench_json"
}

# --- samples and goals --------------------------------------------------------

# The n-th sample of a variant belongs to the n-th round, unless $bench_round is
# set.
sample() { # SERIES VARIANT VALUE UNIT
	printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" "$bench_round" \
		>>"$W/samples"
	log "$1: $2: $3 $4"
}

# Nothing, of nothing.
median_of() { # numbers on stdin
	sort -g | awk '{v[NR] = $1} END {
		if (!NR) exit
		m = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2
		printf "%.6g\n", m }'
}

# Before the first sample (--goals) no program is started to find none.
has_samples() { [[ -s $W/samples ]]; }

values() { # SERIES VARIANT
	awk -F'\t' -v s="$1" -v v="$2" '$1 == s && $2 == v {print $3}' \
		"$W/samples"
}

median() { ! has_samples || values "$1" "$2" | median_of; }

has_sample() { has_samples && [[ $(values "$1" "$2") ]]; }

# A's value and B's value in the same round, for each round that has both.
pairs() { # SERIES A B
	awk -F'\t' -v s="$1" -v a="$2" -v b="$3" '
	$1 == s && ($2 == a || $2 == b) {
		round = $5 != "" ? $5 : ++n[$2]
		v[$2, round] = $3
		rounds[round]
	}
	END { for (r in rounds)
		if (((a, r) in v) && ((b, r) in v))
			print v[a, r], v[b, r]
	}' "$W/samples"
}

ratios() { ! has_samples || pairs "$@" | awk '$2 > 0 { print $1 / $2 }'; } # SERIES A B

median_ratio() { ! has_samples || ratios "$@" | median_of; } # SERIES A B

# How much more A is than B.
median_over() { ! has_samples || pairs "$@" | awk '{ print $1 - $2 }' | median_of; } # SERIES A B

calc() { awk "BEGIN {printf \"%.6g\", ($*)}"; }

goal() { # NAME VALUE UNIT OP LIMIT
	local met=false

	[[ ! $2 ]] || met=$(awk -v a="$2" -v b="$5" -v op="$4" 'BEGIN {
		r = op == "<=" ? a <= b : op == "<" ? a < b : \
			op == ">=" ? a >= b : a > b
		print r ? "true" : "false" }')
	printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" "$5" "$met" \
		>>"$W/goals"
}

print_samples() {
	echo
	sort -t$'\t' -s -k1,1 -k2,2 -k3,3g "$W/samples" | awk -F'\t' '
	function flush(  m) {
		if (!n) return
		m = n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
		printf "%-36s %-28s %3d %12.6g %12.6g %12.6g  %s\n",
			s, who, n, m, v[1], v[n], unit
	}
	BEGIN { printf "%-36s %-28s %3s %12s %12s %12s  %s\n", "what",
		"variant", "n", "median", "min", "max", "unit" }
	{ if ($1 != s || $2 != who) { flush(); n = 0; s = $1; who = $2 }
	  v[++n] = $3; unit = $4 }
	END { flush() }'
}

print_goals() {
	[[ -s $W/goals ]] || return 0
	echo
	awk -F'\t' 'BEGIN { printf "%-58s %10s %-6s %-12s %s\n", "goal",
		"value", "unit", "wanted", "" }
	$2 == "" { missing++; next }
	{ printf "%-58s %10.4g %-6s %-12s %s\n", $1, $2, $3, $4 " " $5,
		$6 == "true" ? "met" : "NOT MET" }
	END { if (missing) printf "not measured: %d goals\n", missing }' \
		"$W/goals"
}

print_failures() {
	[[ -s $W/failures ]] || return 0
	echo
	awk -F'\t' '{ printf "FAILED: %s: %s\n", $1, $2 }' "$W/failures"
}

# --- measuring ----------------------------------------------------------------

now() { echo "${EPOCHREALTIME/./}"; } # microseconds

seconds_since() { calc "($(now) - $1) / 1e6"; }

drop_caches() {
	sync
	echo 3 >/proc/sys/vm/drop_caches
}

# Build a program of bench/tools once and print where it is.
bench_tool() { # NAME
	local src=$bench_dir/tools/$1.c bin=$bench_cache/tools/$1

	if [[ ! $bin -nt $src ]]; then
		need cc
		mkdir -p "$bench_cache/tools"
		# Libraries are named in a line "// Link: ..." of the source.
		cc -std=gnu11 -O2 -Wall -Wextra -o "$bin.$$" "$src" \
			$(sed -n 's|^// Link: ||p' "$src")
		mv "$bin.$$" "$bin"
	fi
	echo "$bin"
}

# Run a command; then $m_wall, $m_cpu (seconds) and $m_rss (bytes, of its largest
# process).  Its output goes to $W/measure.log.
measure() { # COMMAND...
	local status=0

	"$(bench_tool measure)" "$W/measure" "$@" >"$W/measure.log" 2>&1 || status=$?
	if ((status)); then
		tail -20 "$W/measure.log" >&2
		die "failed with $status: $*"
	fi
	read -r m_wall m_cpu m_rss <"$W/measure"
}

# Bytes that a tree of files takes, by their sizes.
tree_bytes() { # DIR...
	find "$@" -type f -printf '%s\n' | awk '{n += $1} END {printf "%.0f", n}'
}

# A program of ours, or the end of the benchmark.
program() { # NAME
	local path

	path=$(find "$bench_build" -maxdepth 4 -type f -name "$1" -perm -u+x \
		-print -quit 2>/dev/null)
	[[ $path ]] && echo "$path" && return
	die "no program '$1' in $bench_build; build first or set BOOTSEER_BUILD"
}

has_program() { (program "$1") >/dev/null 2>&1; }

image() { "$bench_dir/images/build" "$1"; } # NAME -> path of its OCI layout

# Digests of the layers of an OCI layout with one image, bottom first.
image_layers() { # LAYOUT
	local blobs=$1/blobs/sha256

	jq -r '.manifests[0].digest[7:]' "$1/index.json" |
		while read -r hex; do jq -r '.layers[].digest[7:]' "$blobs/$hex"; done
}

# Bytes of its layers' tar streams; found once, because that takes a while.
layer_bytes() { # LAYOUT
	local note

	note=$bench_cache/sizes/$(jq -r '.manifests[0].digest[7:]' "$1/index.json")
	if [[ ! -s $note ]]; then
		mkdir -p "${note%/*}"
		image_layers "$1" | while read -r hex; do
			zcat "$1/blobs/sha256/$hex" | wc -c
		done | awk '{n += $1} END {printf "%.0f", n}' >"$note.$$"
		mv "$note.$$" "$note"
	fi
	cat "$note"
}
