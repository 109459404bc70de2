#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What real Slurm says of its jobs, read by bootseer ops.

bats_require_minimum_version 1.5.0

. "$BATS_TEST_DIRNAME/../wait.bash"
. "$BATS_TEST_DIRNAME/slurm.bash"

setup()
{
	W=$(mktemp -d)
	pids=()
	PATH=$BOOTSEER_BUILD/cli:$PATH
	slurm_start
}

teardown()
{
	slurm_stop
	rm -rf --one-file-system "$W"
}

submit() { in_net sbatch -o /dev/null --parsable "$@"; } # OPTION...

run_ops() { in_net bootseer ops "$@" --days 1 --json; } # COMMAND OPTION...

@test "jobs of a real Slurm: retries, ends, nodes, and a name that would forge a row" {
	local a b c canceled forged

	forged=$'x\n99|root|FAILED|1:0|100|200|gpu071||forged'
	a=$(submit -N3 -J train --wrap 'exit 3')
	wait_for slurm_has_state "$a" FAILED
	b=$(submit -N3 -J train --wrap 'exit 3')
	submit -N1 -w gpu074 -J "$forged" --wrap "while [ ! -e $W/go ]; do timeout 0.1 tail -f /dev/null; done"
	wait_for slurm_has_state "$b" FAILED
	c=$(submit -N3 -J train --requeue --wrap \
		"touch $W/begun; [ ! -e $W/go ] || { timeout 3 tail -f /dev/null; exit 0; }
			exec tail -f /dev/null")
	wait_for test -e "$W/begun"
	# A run that the database had not heard of when it was requeued is not in it.
	wait_for slurm_has_state "$c" RUNNING
	canceled=$(submit -N4 -J never --wrap true)
	in_net scancel "$canceled"
	in_net scontrol requeue "$c"
	touch "$W/go"
	# Slurm lets a requeued job wait two minutes; one that it is told to start at once is kept
	# in the database as if it had run once.
	wait_for slurm_has_state "$c" COMPLETED

	run -0 run_ops chains --nodes 2
	echo "$output"
	jq -e '.rows_bad == 0 and .n == 1 and .trained == 1 and
		(.chains[0] | .name == "train" and .user == "root" and
		.tries == 4 and .automatic == 1 and .outcome == "trained" and
		.alike == 2 and .alike_exit == "3:0")' <<<"$output"
	run -0 run_ops nodes --nodes 3
	echo "$output"
	jq -e '(.nodes | length) == 4 and (.nodes[0] | .node == "gpu074" and
		.left_out == 4 and .held_s > 0)' <<<"$output"
	run -0 run_ops cost --nodes 2 --trained-after 1s --save 1s
	echo "$output"
	jq -e '.jobs >= 2 and .rows_bad == 0' <<<"$output"
}
