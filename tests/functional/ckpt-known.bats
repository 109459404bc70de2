#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What the kernel knows of names and sizes is up to a second old: that cuts no program's
# reads, and stops none.  What happens is in ckpt-known.py.

bats_require_minimum_version 1.5.0
load ../wait.bash
load stores.bash
load ckpt.bash
load ckpt-mounts.bash

setup() { begin_mounts; }
teardown() { end_mounts; }

knows() # CASE...
{
	local case

	for case; do
		"$BATS_TEST_DIRNAME/ckpt-known.py" "$bootseer" "$STORE" "$M" "$W/run" \
			"$case" 3>&-
	done
	umount_store
}

# Of a mount of which the kernel believes what it was told.
believes() # CASE...
{
	LD_PRELOAD=$BOOTSEER_BUILD/tests/fakes/test-believe.so mount_store
	knows "$@"
}

@test "a file that another node replaced is read whole at once, longer or shorter" {
	believes replaced_here_is_longer replaced_here_is_shorter
}

@test "what is appended to a file that another node replaced is behind all of it" {
	believes replaced_is_appended_to
}

@test "a file that another node removed is gone, and is made anew, at once" {
	believes removed_is_made_anew removed_just_written_is_made_anew \
		removed_is_made_anew_without_truncation \
		removed_in_a_list_is_made_anew removed_is_not_there
}

@test "readers keep all of a file that another node replaced, whatever is asked of it" {
	mount_store
	knows readers_keep_a_longer_one readers_keep_a_shorter_one \
		readers_keep_a_plain_one readers_keep_what_a_list_tells_of \
		readers_keep_a_removed_one
}

@test "a reader's file that was replaced has no attributes to be changed, and that is said" {
	mount_store
	echo old >"$M/f"
	exec 7<"$M/f"
	echo 'other one' >"$W/other"
	ckpt cp "$W/other" :f
	[ "$(cat "$M/f")" = 'other one' ]
	run -1 python3 -c 'import os; os.setxattr(7, "user.a", b"1")'
	[[ $output == *"[Errno 116]"* ]]
	[ "$(cat <&7)" = old ]
	exec 7<&-
	setfattr -n user.a -v 1 "$M/f"
	umount_store
}

@test "a restart of the mount's process makes nobody read or append at an old size" {
	believes replaced_before_a_restart_is_longer cut_appender_leaves_the_file_before
}
