# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Ranks of several nodes that save together: node I's mount is W/m$I, its ranks' socket W/ranks$I.

begin_saves()
{
	export JOB=$BATS_TEST_NAME PYTHONPATH=$BATS_TEST_DIRNAME/../../python
	export PYTHONDONTWRITEBYTECODE=1
	PLACE=$(own_address):29600
	openssl rand -hex 32 >"$W/key"
	chmod 600 "$W/key"
}

node() # I COMMAND...: with that mount's folder
{
	local M=$W/m$1

	shift
	"$@"
}

mount_node() # I [OPTION...]
{
	local M=$W/m$1

	mkdir -p "$M"
	mount_store --group="$PLACE" --group-key="$W/key" --group-socket="$W/ranks$1" "${@:2}"
}

mount_nodes() # N [OPTION...]
{
	local i

	for ((i = 1; i <= $1; i++)); do mount_node "$i" "${@:2}"; done
}

umount_nodes() # N
{
	local i

	for ((i = 1; i <= $1; i++)); do node "$i" umount_store; done
}

ranks() { "$BATS_TEST_DIRNAME/save-ranks.py" "$@" 3>&-; }

begin_put() # N [PATH]: what it says is in W/said
{
	local i sockets=()

	for ((i = 1; i <= $1; i++)); do sockets+=("$W/ranks$i"); done
	# What an earlier save has said is not of this one, which may take its time to begin.
	: >"$W/said"
	ranks put "${2-step}" "${sockets[@]}" >"$W/said" &
	ranks=$!
}

said() { grep -q "^$1" "$W/said"; }

save_steps() # FROM TO: by two nodes; a third of a step is what no step changes
{
	local i

	for ((i = $1; i <= $2; i++)); do
		JOB=$BATS_TEST_NAME-$i STEP=$i ranks put "run/step$i" "$W"/ranks[12] >"$W/said"
		said durable
	done
}

is_step() # N
{
	ckpt cp ":run/step$1" "$W/step"
	STEP=$1 ranks check "$W/step" 4
}

sum_of() # FIGURE NODES
{
	local i sum=0

	for ((i = 1; i <= $2; i++)); do
		sum=$((sum + $(node "$i" figure "group.saves.$1")))
	done
	echo "$sum"
}

unchanged() { sum_of unchanged "$1"; } # NODES

# The second step stores what stays by itself, since more of what lies with it changes; the third
# names it: 12 MB of the 24 MB that a step has are stored.
steps_share_columns()
{
	local before

	mount_nodes 2
	save_steps 1 2
	before=$(sum_of stored 2)
	save_steps 3 3
	[ "$(unchanged 2)" -gt 8000000 ]
	before=$(($(sum_of stored 2) - before))
	echo "# step 3 stored $before bytes" >&2
	((before > 12000000 && before < 13000000))
	for i in 1 2 3; do is_step "$i"; done
	ckpt rm run/step1
	ckpt rm run/step2
	# Nobody uses the store, and what the third step needs is old enough for each of the two.
	ckpt gc --older=0s
	ckpt gc --older=0s
	is_step 3
	ckpt verify
	save_steps 4 4
	is_step 4
	ckpt rm -r run
	ckpt gc --older=0s
	ckpt gc --older=0s
	[ "$(ckpt gc --older=0s --dry-run)" = '0 objects, 0 B would be removed' ]
}
