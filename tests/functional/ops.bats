#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bootseer ops: the accounts of Slurm's jobs, from a file or by sacct.

bats_require_minimum_version 1.5.0

setup()
{
	W=$(mktemp -d)
	PATH=$BOOTSEER_BUILD/cli:$PATH
}

teardown() { rm -rf --one-file-system "$W"; }

columns=JobID,User,State,ExitCode,Start,End,NodeList,AllocTRES,JobName

# What sacct printed: a job of 60 nodes that failed after 20 h, five tries of 6 minutes, and one
# that a person submitted; node 60 is held by another job.
write_jobs() # DELIMITER
{
	local d=$1 i t=1000000

	tr , "$d" <<<"$columns"
	row "$d" 1 FAILED 1:0 "$t" $((t += 72000)) 'n[001-059,061]' train
	for i in 1 2 3 4 5; do
		t=$((t + 600))
		row "$d" 1 NODE_FAIL 9:0 "$t" $((t += 360)) 'n[001-059,061]' train
	done
	t=$((t + 7200))
	row "$d" 2 CANCELLED 0:0 "$t" $((t + 180000)) 'n[001-059,061]' train
	row "$d" 3 COMPLETED 0:0 1000000 $((t + 180000)) n060 keep
}

row() # DELIMITER ID STATE EXIT START END NODES NAME
{
	local IFS=$1

	shift
	set -- "$1" u "$2" "$3" "$4" "$5" "$6" "gres/gpu=480" "$7"
	echo "$*"
}

@test "retries, the cost of failures and nodes left out, of a file" {
	write_jobs '|' >"$W/jobs"
	run -0 --separate-stderr bootseer ops chains --sacct "$W/jobs"
	echo "$output"
	[[ $output == "7 of 8 jobs ran on 31 nodes or more"* ]]
	[[ $output == *"1 chain of 7 tries; a retry trained in 1;"*" 30.0 node hours, 240.0 GPU hours"* ]]
	[[ $output == *"scheduler's own retry"*" 5 "*"10 min "* ]]
	[[ $output == *"went on after three tries that ended alike"*"12.0 node hours, 96.0 GPU"* ]]
	run -0 --separate-stderr bootseer ops nodes --sacct "$W/jobs"
	echo "$output"
	[[ $output == *n060*" 7 "*"100.0 %"*"100 %"* ]]
	run -0 --separate-stderr bootseer ops cost --sacct "$W/jobs" --save 18s --interval 2h
	echo "$output"
	[[ $output == *"2 of them ran 1 h or longer"*"70.0 h, 33600.0 GPU hours; 1 of these failed"* ]]
	[[ $output == *"5 more failed before that"*"between failures: 2 d 22 h;"* ]]
	[[ $output == *now*"2 h "*"0.25 %"*"1.43 %"*"1.68 %"* ]]
	[[ $output == *"best "*"50 min 12 s"*"0.60 %"*"0.60 %"*"1.20 %"* ]]
	bootseer ops cost --sacct "$W/jobs" --save 18s --json | jq -e \
		'.jobs == 2 and .failed_early == 5 and .mtbf_s == 252000 and .now == null'
}

@test "without a file sacct is run, by a delimiter that a name cannot have" {
	cat >"$W/sacct" <<-'END'
	#!/bin/bash
	printf '%s\n' "$@" >"$0.asked"
	[ "$SLURM_TIME_FORMAT" = %s ]
	for a; do [[ $a != --delimiter=* ]] || d=${a#*=}; done
	sed "s#|#$d#g" "${0%/*}/jobs"
	END
	chmod +x "$W/sacct"
	write_jobs '|' >"$W/jobs"
	PATH=$W:$PATH run -0 bootseer ops chains --days 7 --json
	jq -e '.n == 1 and .tries == 7 and .rows_bad == 0' <<<"$output"
	grep -qx -- --starttime=now-7days "$W/sacct.asked"
	grep -qx -- "--format=$columns" "$W/sacct.asked"
	grep -qxE -- '--delimiter=,[0-9a-f]{32}' "$W/sacct.asked"
	cp "$W/sacct.asked" "$W/before"
	PATH=$W:$PATH run -0 bootseer ops chains --days 7 --json
	run -1 cmp -s "$W/before" "$W/sacct.asked"
	# Drains explain why jobs ran without a node; without sacctmgr they are not known.
	cat >"$W/sacctmgr" <<-'END'
	#!/bin/sh
	[ "$SLURM_TIME_FORMAT $5" = "%s start=now-7days" ] && echo 'gpu1|1|2|DRAIN|long ago'
	END
	chmod +x "$W/sacctmgr"
	PATH=$W:$PATH bootseer ops nodes --days 7 --json | jq -e '.has_outages and
		any(.history[]; . == {node: "gpu1", from_s: 1, to_s: 2, what: "cordoned", text: "long ago"})'
	echo 'exit 1' >"$W/sacctmgr"
	PATH=$W:$PATH run -0 bootseer ops nodes --days 7
	[[ $output == *"no drains: run sacctmgr: "* ]]
	printf '#!/bin/sh\necho "sacct: error: no slurmdbd" >&2; exit 1\n' >"$W/sacct"
	PATH=$W:$PATH run -1 bootseer ops chains
	[ "$output" = "bootseer ops chains: sacct: sacct: error: no slurmdbd" ]
}

@test "a file of other columns is refused with the ones that are wanted" {
	printf 'JobID|JobName|State\n1|x|FAILED\n' >"$W/jobs"
	run -1 bootseer ops cost --sacct "$W/jobs"
	[[ $output == *"$W/jobs: "*"--format=$columns"* ]]
}
