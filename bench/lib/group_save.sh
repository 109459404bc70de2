# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# The writes of bench/group: ranks of N nodes save a step of a model, in the six ways of having bytes
# in common that AITurbo measures (three sizes, with and without ZeRO), by a group and by files.

models="1.5B 13B 38B"
variants="files distinct framework grouped"

save_nodes=4 save_ranks=4

begin_save_mounts() { # N
	local i

	pids=()
	for ((i = 1; i <= $1; i++)); do
		mkdir -p "$W/mnt$i"
		RUN_IN=(nsenter "--net=/run/netns/$own-node$i")
		PATH=$(dirname "$(program bootseer-ckpt)"):$PATH start_daemon \
			"$W/save-log$i" "$bootseer" ckpt mount --foreground "--run=$W/run$i" \
			--group=10.222.0.1:29600 "--group-key=$W/key" --group-wait=30s \
			"--group-socket=$W/ranks$i" --group-staging=4G "$url" "$W/mnt$i"
		RUN_IN=()
		pids+=("$daemon_pid")
	done
	for ((i = 1; i <= $1; i++)); do
		wait_for_line "$W/save-log$i" "ready path" "${pids[i - 1]}" >/dev/null
	done
}

ranks_say() { # VARIANT MODEL ZERO NODES NAME
	rm -f "$W/rendezvous"
	PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$bench_dir/../python:${torch_path-} \
		/usr/bin/python3 -W ignore "$bench_dir/tools/group_ranks.py" "$1" "$2" "$3" \
		"$save_size" "$4" "$save_ranks" "$own" "$W" "$5" >"$W/said" 2>"$W/said.err" || {
		tail -5 "$W/said.err" >&2
		die "$1 of $2: ranks failed"
	}
}

said() { awk -v what="$1" '$1 == what {print $2}' "$W/said"; }

setup_name() { # KIND MODEL ZERO
	echo "$1, save $2$([[ $3 = 0 ]] || echo ", ZeRO")"
}

# Checksums of a data node are none of what was stored.
stored_bytes() {
	find "${stored[@]}" -type f ! -name '*.meta' -printf '%s\n' |
		awk '{n += $1} END {printf "%.0f", n}'
}

save_as() { # KIND VARIANT MODEL ZERO
	local before cpu what

	what=$(setup_name "$1" "$3" "$4")
	shift
	before=$(stored_bytes) cpu=$(own_cpu)
	ranks_say "$1" "$2" "$3" "$save_nodes" "$1-$2-$3-$RANDOM"
	sample "$what: stall of training" "$1" "$(said stall)" s
	sample "$what: buffered" "$1" "$(said buffered)" s
	sample "$what: durable" "$1" "$(said durable)" s
	sample "$what: processors, all of the machine" "$1" "$(said processors)" ""
	sample "$what: processor time of mounts and store" "$1" "$(calc "$(own_cpu) - $cpu")" s
	sample "$what: bytes to the store by unique" "$1" \
		"$(calc "($(stored_bytes) - $before) / $(said unique)")" ""
	sample "$what: unique" "$1" "$(calc "$(said unique) / 1048576")" MiB
	sample "$what: given" "$1" "$(calc "$(said given) / 1048576")" MiB
	sample "$what: on one node alone" "$1" "$(calc "$(said alone) / 1048576")" MiB
}

# What copying once takes: bytes of all ranks into memory, as put() does, without anything else.
measure_copy() { # MIB
	python3 -c 'import os, sys, time
size = int(float(sys.argv[1]) * 2**20)
data, fd = bytes(size), os.memfd_create("copy")
begin = time.monotonic()
os.ftruncate(fd, size)
import mmap
mmap.mmap(fd, size)[:] = data
print(time.monotonic() - begin)' "$1"
}

measure_saves() { # KIND
	local model zero variant what

	"begin_$1"
	"$bootseer" --version >/dev/null
	torch_path=$([[ $bench_quick ]] || cached torch || :)
	[[ ! $torch_path ]] || variants+=" dcp dcp-async"
	begin_save_mounts "$save_nodes"
	for model in $models; do
		for zero in 0 1; do
			for variant in $variants; do save_as "$1" "$variant" "$model" "$zero"; done
			what=$(setup_name "$1" "$model" "$zero")
			sample "$what: copy alone" memory \
				"$(measure_copy "$(median "$what: given" grouped)")" s
		done
	done
	end_mounts "$save_nodes"
}

# 64 ranks, of whom each has next to nothing: as processes of Python on nodes of their own, and all
# nodes in one process, whose processor time is that of all of them.
measure_coordination() { # NODES
	local ranks=$(($1 * save_ranks)) buffered durable cpu

	begin_s3
	begin_save_mounts "$1"
	ranks_say tiny 1.5B 0 "$1" tiny
	sample "coordination" "$ranks ranks" "$(calc "$(said buffered) * 1000")" ms
	end_mounts "$1"
	read -r buffered durable cpu < <("$(program bench-group-coordination)" \
		"$1" "$save_ranks" 16 50)
	sample "coordination in one process: buffered" "$ranks ranks" "$buffered" ms
	sample "coordination in one process: durable" "$ranks ranks" "$durable" ms
	sample "coordination in one process: processors, of a node" "$ranks ranks" \
		"$(calc "$cpu / $1")" ms
}

measure_plans() {
	local tool

	tool=$(program bench-group-plan)
	sample "plan" "64 ranks" "$("$tool" 8 64 128 8)" ms
	sample "plan" "4096 ranks" "$("$tool" 64 4096 32 8)" ms
}

# AITurbo's figure 16: of jobs that fail once an hour.
wasted_share() { # SECONDS of a stall
	[[ -e $W/hourly ]] || {
		echo 'JobID|User|State|ExitCode|Start|End|NodeList|AllocTRES|JobName'
		seq 1 100 | awk '{printf "%d|u|FAILED|1:0|%d|%d|n[1-4]|gres/gpu=32|train\n",
			$1, $1 * 7200, $1 * 7200 + 3600}'
	} >"$W/hourly"
	"$(program bootseer)" ops cost --sacct "$W/hourly" --json \
		--save "$(calc "int($1 * 1000 + 1)")ms" | jq '100 * (.best.save + .best.lost)'
}

measure_costs() {
	local kind model zero what variant stall

	for kind in $save_stores; do
		for model in $models; do
			for zero in 0 1; do
				what=$(setup_name "$kind" "$model" "$zero")
				for variant in files framework grouped dcp dcp-async; do
					stall=$(median "$what: stall of training" "$variant")
					[[ ! $stall ]] || sample "$what: time wasted" "$variant" \
						"$(wasted_share "$stall")" %
				done
			done
		done
	done
}

# Two nodes have each byte once it is buffered.  What is double is known only when all bytes are in
# memory; then those that one node alone has take their time on the links between nodes.
copy_limit() { # WHAT: seconds
	local alone

	alone=$(median "$1: on one node alone" grouped)
	[[ ! $alone ]] ||
		calc "$(median "$1: copy alone" memory) + $alone * 8.388608 / (10 * $link)"
}

save_goals() { # KIND
	local model zero what unique limit

	for model in $models; do
		for zero in 0 1; do
			what=$(setup_name "$1" "$model" "$zero")
			goal "$what: bytes to the store by unique" \
				"$(median "$what: bytes to the store by unique" grouped)" x "<=" 1.01
			unique=$(median "$what: unique" grouped)
			[[ $1 = file ]] || goal "$what: durable by the limit" "$([[ ! $unique ]] || calc \
				"$(median "$what: durable" grouped) / ($unique * 8.388608 / (2 * $link))")" \
				x "<=" 1.15
			limit=$(copy_limit "$what")
			goal "$what: buffered by the copy's limit" "$([[ ! $limit ]] || calc \
				"$(median "$what: buffered" grouped) / $limit")" x "<=" 1.2
			goal "$what: durable, files by grouped" \
				"$(median_ratio "$what: durable" files grouped)" x ">=" 1
			goal "$what: durable, DCP by grouped" \
				"$(median_ratio "$what: durable" dcp grouped)" x ">=" 1
			goal "$what: stall, asynchronous DCP by grouped" \
				"$(median_ratio "$what: stall of training" dcp-async grouped)" x ">=" 1
			goal "$what: time wasted, files by grouped" \
				"$(median_ratio "$what: time wasted" files grouped)" x ">=" 1
		done
	done
}

group_goals() {
	goal "coordination of 64 ranks" "$(median coordination "64 ranks")" ms "<=" 10
	goal "plan of 64 ranks" "$(median plan "64 ranks")" ms "<=" 50
	goal "plan of 4,096 ranks" "$(median plan "4096 ranks")" ms "<=" 1000
}
