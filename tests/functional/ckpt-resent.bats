#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The process of a mount is killed when it has done what it was asked for and before it says
# so (tests/fakes/kill_answer.c): the kernel asks its successor once more, and the program
# is told of success, once.

bats_require_minimum_version 1.5.0
load ../noise.bash
load ../wait.bash
load stores.bash
load ckpt.bash
load ckpt-mounts.bash

# As in linux/fuse.h.
MKNOD=8 MKDIR=9 UNLINK=10 RMDIR=11 RENAMES=12,45

setup_file()
{
	export F=$BATS_FILE_TMPDIR S3
	S3=$("$BATS_TEST_DIRNAME/../stores/build" versitygw)
	noise 9000000 71 >"$F/striped"
	noise 3000 72 >"$F/plain"
	noise 3000 73 >"$F/other"
}

setup()
{
	W=$BATS_TEST_TMPDIR
	M=$W/mnt
	RAW=$W/store
	STORE=file://$RAW
	mkdir "$RAW" "$M"
}

teardown()
{
	end_mounts
}

killed_mount() # OPCODES [OPTION...]
{
	LD_PRELOAD=$BOOTSEER_BUILD/tests/fakes/test-kill-answer.so \
		KILL_OPCODES=$1 KILL_ONCE=$W/once mount_store "${@:2}"
}

# Succeeds, though the mount's process is killed before it says so.
killed() # COMMAND...
{
	touch "$W/once"
	"$@"
	[ ! -e "$W/once" ]
}

# With one system call, and no look before it.
call() # FUNCTION OF PYTHON'S os, ARGUMENT...
{
	python3 -c 'import os, sys
getattr(os, sys.argv[1])(*sys.argv[2:])' "$@"
}

fails_with() # ERRNO COMMAND...
{
	run -1 "${@:2}"
	[[ $output == *"[Errno $1]"* ]]
}

removes()
{
	killed_mount "$UNLINK,$RMDIR"
	cp "$F/striped" "$F/plain" "$M"
	mkdir "$M/folder"
	killed call unlink "$M/striped"
	fails_with 2 call unlink "$M/striped"
	killed call unlink "$M/plain"
	fails_with 2 call unlink "$M/plain"
	killed call rmdir "$M/folder"
	fails_with 2 call rmdir "$M/folder"
	[ -z "$(ls "$M")" ]
	umount_store
	[ -z "$(ckpt ls)" ]
}

makes()
{
	killed_mount "$MKDIR,$MKNOD"
	killed call mkdir "$M/folder"
	fails_with 17 call mkdir "$M/folder"
	killed call mknod "$M/folder/empty"
	fails_with 17 call mknod "$M/folder/empty"
	[ "$(stat -c %s "$M/folder/empty")" = 0 ]
	umount_store
	[ "$(ckpt ls folder)" = empty ]
}

renames() # [OPTION of the mount]
{
	killed_mount "$RENAMES" "$@"
	cp "$F/striped" "$F/plain" "$M"
	killed call rename "$M/striped" "$M/new"
	fails_with 2 call rename "$M/striped" "$M/new"
	cmp "$M/new" "$F/striped"
	# In place of one that is there.
	killed call rename "$M/new" "$M/plain"
	cmp "$M/plain" "$F/striped"
	cp "$F/other" "$M/tmp"
	killed call rename "$M/tmp" "$M/plain"
	cmp "$M/plain" "$F/other"
	# One that is as long.
	cp "$F/plain" "$M/tmp"
	killed call rename "$M/tmp" "$M/plain"
	cmp "$M/plain" "$F/plain"
	fails_with 2 call rename "$M/tmp" "$M/plain"
	cmp "$M/plain" "$F/plain"
	# One of the same bytes, which has the same tag in a bucket.
	cp "$F/plain" "$M/tmp"
	killed call rename "$M/tmp" "$M/plain"
	fails_with 2 call rename "$M/tmp" "$M/plain"
	cmp "$M/plain" "$F/plain"
	# A folder.
	mkdir -p "$M/a/b"
	cp "$F/plain" "$M/a/b/f"
	killed call rename "$M/a" "$M/c"
	cmp "$M/c/b/f" "$F/plain"
	fails_with 2 call rename "$M/a" "$M/c"
	killed mv -n "$M/c/b/f" "$M/f"
	cmp "$M/f" "$F/plain"
	umount_store
	[ "$(ckpt ls | tr '\n' ' ')" = 'c/ f plain ' ]
	ckpt verify
}

@test "what was removed and not said so is removed" {
	removes
}

@test "... what was removed in a bucket" {
	bucket
	removes
}

@test "what was made and not said so is made" {
	makes
}

@test "... what was made in a bucket" {
	bucket
	makes
}

@test "what was renamed and not said so is renamed" {
	renames
}

@test "... what was renamed in a bucket" {
	bucket
	renames
}

@test "... while closes only stage" {
	renames --close=buffered
}
