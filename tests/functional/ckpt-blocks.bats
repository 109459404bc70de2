#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Programs of several nodes that keep blocks by name (bootseer.KVCache): each leaves the store once,
# memory and store stay within their budgets, and nobody's bytes are taken for another's.

bats_require_minimum_version 1.5.0
load ../noise.bash
load ../wait.bash
load stores.bash
load ckpt.bash
load ckpt-mounts.bash

setup()
{
	begin_mounts
	export RUN=$W/run PYTHONPATH=$BATS_TEST_DIRNAME/../../python PYTHONDONTWRITEBYTECODE=1
	PLACE=$(own_address):29600
	make_key key
}

teardown() { end_mounts; }

make_key() # NAME
{
	openssl rand -hex 32 >"$W/$1"
	chmod 600 "$W/$1"
}

node() # I COMMAND...: with that mount's folder
{
	local M=$W/m$1

	shift
	"$@"
}

mount_node() # I KEY [OPTION...]
{
	local M=$W/m$1

	mkdir -p "$M"
	mount_store --group="$PLACE" --group-key="$W/$2" --group-socket="$W/ranks$1" \
		--group-blocks=4M --group-blocks-store=64M --group-wait=2s "${@:3}"
	# A node takes part from its first program on.
	kv get 0 "$W/ranks$1" >&2
}

kv() { "$BATS_TEST_DIRNAME/kv-replay.py" "$@" 3>&-; }

linked() # I N: node I asks the others of N
{
	[ "$(node "$1" figure group.blocks.members)" = $(($2 - 1)) ]
}

mount_nodes() # N
{
	local i

	for ((i = 1; i <= $1; i++)); do mount_node "$i" key; done
	for ((i = 1; i <= $1; i++)); do wait_for linked "$i" "$1"; done
}

sum_of() # KEY N
{
	local i sum=0

	for ((i = 1; i <= $2; i++)); do
		sum=$((sum + $(node "$i" figure "group.blocks.$1")))
	done
	echo "$sum"
}

umount_nodes() # N
{
	local i

	for ((i = 1; i <= $1; i++)); do node "$i" umount_store; done
}

kill_node() # I
{
	local pid

	pid=$(node "$1" figure pid)
	kill -9 "$(parent_of "$pid")" "$pid"
}

stored() { find "$W/store/.bootseer/blocks" -type f; }

@test "three nodes replay a trace of shared prompts: every block that was put is found" {
	local i asked hits before blocks wrong fetched

	mount_nodes 3
	for i in $(kv replay "$W"/ranks[123]); do declare "$i"; echo "# $i" >&2; done
	[ "$wrong" = 0 ]
	# Requests of one moment may find what another one of them has just put.
	((hits >= before && before > asked / 2))
	# The trace has more blocks than memory has room for, and the store had them.
	((blocks * 65536 > 3 * 4194304))
	[ "$(sum_of evicted 3)" -gt 0 ]
	[ "$(sum_of bytes_fetched 3)" -gt 0 ]
	[ "$(sum_of from_member 3)" -gt 0 ]
	[ "$(sum_of wrong 3)" = 0 ]
	for i in 1 2 3; do
		[ "$(node "$i" figure group.blocks.memory_used)" -le 4194304 ]
	done
	# Mounts that are started anew read each block of the store once, for four programs.
	kv put 16 "$W/ranks1"
	umount_nodes 3
	mount_nodes 2
	[ "$(kv get 16 "$W"/ranks[12])" = "right=64 none=0 wrong=0" ]
	fetched=$(sum_of bytes_fetched 2)
	[ "$fetched" = $((16 * 65536)) ]
	[ "$(kv get 16 "$W"/ranks[12])" = "right=64 none=0 wrong=0" ]
	[ "$(sum_of bytes_fetched 2)" = "$fetched" ]
	# One dies: its blocks are the other's, which finds in the store what it has not in memory.
	kv put 32 "$W/ranks2"
	kill_node 2
	[ "$(kv get 32 "$W/ranks1")" = "right=64 none=0 wrong=0" ]
	wait_for linked 1 1
}

@test "blocks of another tenant, and changed ones, are none of ours" {
	local f

	mount_node 1 key
	kv put 4 "$W/ranks1"
	mapfile -t f < <(stored)
	[ ${#f[@]} = 4 ]
	# Another job on the same store has other names for the same keys.
	make_key other
	PLACE=${PLACE/%:*/:29601} mount_node 2 other
	[ "$(kv get 4 "$W/ranks2")" = "right=0 none=8 wrong=0" ]
	kv put 4 "$W/ranks2"
	[ "$(stored | wc -l)" = 8 ]
	# Whoever may write to the store exchanges two, changes one byte, and cuts one.
	node 1 umount_store
	cp "${f[0]}" "$W/first"
	cp "${f[1]}" "${f[0]}"
	cp "$W/first" "${f[1]}"
	printf x | dd of="${f[2]}" bs=1 seek=1000 conv=notrunc status=none
	truncate -s 1000 "${f[3]}"
	mount_node 1 key
	[ "$(kv get 4 "$W/ranks1")" = "right=0 none=8 wrong=0" ]
	[ "$(node 1 figure group.blocks.wrong)" -ge 4 ]
	grep 'not what a node put object=' "$W"/run/*/log
	# They are made anew.
	kv put 4 "$W/ranks1"
	[ "$(kv get 4 "$W/ranks1")" = "right=8 none=0 wrong=0" ]
}

@test "blocks leave the store by its budget, and memory that may change is refused" {
	mount_node 1 key --group-blocks-store=512K
	kv put 32 "$W/ranks1"
	(($(stored | wc -l) <= 8))
	(($(stored | wc -l) >= 4))
	run -0 kv refuse "$W/ranks1"
	[ "${lines[0]}" = "Invalid argument" ]
	[ "${lines[1]}" = "Invalid argument" ]
	[ "${lines[2]}" = "Invalid argument" ]
	[ "${lines[3]}" = None ]
	[ "${lines[4]}" = "Operation not permitted" ]
	[[ ${lines[5]} = *"none of this version's"* ]]
	# What C has of it, and of saves.
	run -0 "$BOOTSEER_BUILD/tests/functional/client-test" "$W/ranks1" "$W/m1"
	[ "${lines[*]}" = "mine 0 tied 0 mine 0 tied 0 none 1 '$W/m1/step': it has no tensor \
'other' not yet 1 failed 1 nobody 1 block 1 empty 1" ]
	[ "$(kv lmcache "$W/ranks1")" = "False True None True (2, 40) torch.float16 KV_2LTD" ]
}
