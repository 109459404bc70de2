#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Two nodes that write one path of a store: the second one's close says so, and the file is
# the first one's.  Which versions count as another's is in test_versions.c.

bats_require_minimum_version 1.5.0
load ../noise.bash
load ../wait.bash
load stores.bash
load ckpt.bash
load ckpt-mounts.bash

setup_file()
{
	export F=$BATS_FILE_TMPDIR S3
	S3=$("$BATS_TEST_DIRNAME/../stores/build" versitygw)
	noise 5000000 31 >"$F/large"
	noise 6000000 32 >"$F/other"
	echo small >"$F/small"
	echo else >"$F/else"
}

setup()
{
	begin_mounts
	N=$W/second
	mkdir "$N"
}

teardown()
{
	# Writers that a failed test left open.
	exec 5>&-
	if mountpoint -q "$N"; then
		umount -l "$N"
	fi
	end_mounts
}

mount_both() # [OPTION...]
{
	mount_store "$@"
	M=$N mount_store "$@"
}

# The shell does not tell what close() returns.
write_after() # FROM TO GO: opens TO, waits for GO, writes and closes
{
	perl -e '
		my ($from, $to, $go) = @ARGV;
		open(my $in, "<", $from) or die "open $from: $!";
		open(my $out, ">", $to) or die "open $to: $!";
		open(my $opened, ">", "$go.opened") or die;
		open(my $wait, "<", $go) or die "open $go: $!";
		local $/;
		print $out scalar(<$in>) or die "write: $!";
		close($out) or die "close: $!\n";
	' "$@" 3>&-
}

second_is_told() # BEFORE FIRST SECOND: files; BEFORE may be empty
{
	local pid status=0

	rm -f "$M/f" "$W/go"*
	[ -z "$1" ] || cp "$1" "$M/f"
	mkfifo "$W/go"
	write_after "$3" "$N/f" "$W/go" 2>"$W/said" &
	pid=$!
	wait_for test -e "$W/go.opened"
	cp "$2" "$M/f"
	: >"$W/go"
	wait "$pid" || status=$?
	cat "$W/said"
	[ "$status" = 116 ]
	grep -q '^close: Stale file handle' "$W/said"
	cmp "$M/f" "$2"
	cmp "$N/f" "$2"
}

both_end()
{
	umount_store
	M=$N umount_store
}

@test "the second of two mounts of a directory is told, and the file is the first one's" {
	mount_both
	second_is_told "" "$F/large" "$F/other"
	second_is_told "$F/small" "$F/else" "$F/large"
	second_is_told "$F/large" "$F/small" "$F/other"
	# The log says which, and what to do.
	grep -h "'f' was written by another since it was opened here, and is the other one's: write under another name" \
		"$W"/run/*/log
	# Whoever opens it again means the file that is there.
	cp "$F/other" "$N/f"
	cmp "$M/f" "$F/other"
	both_end
	ckpt gc --older=0s
	[ "$(find "$W/store" -type f -not -path '*/.bootseer/lock/*' | wc -l)" = 2 ]
}

@test "so is the second of two mounts of a bucket, also when an answer was lost" {
	bucket
	fault_proxy "$AT" "$W"
	STORE="s3://bkt/ckpt?endpoint=http://$PROXY"
	mount_both
	second_is_told "" "$F/small" "$F/else"
	second_is_told "$F/large" "$F/other" "$F/small"
	# What was stored, and not heard of, is no other's.
	fault match='^PUT .*/g' kind=lost
	cp "$F/small" "$M/g"
	fault match='^PUT .*/h.bsm' kind=lost
	cp "$F/large" "$M/h"
	cmp "$N/g" "$F/small"
	cmp "$N/h" "$F/large"
	both_end
}

@test "so it is where the store cannot compare, and with --compare=auto it is not" {
	local pid

	bucket
	STORE="$STORE&conditions=lock"
	mount_both
	second_is_told "" "$F/small" "$F/else"
	second_is_told "$F/large" "$F/other" "$F/small"
	both_end
	mount_both --compare=auto
	rm -f "$W/go"*
	mkfifo "$W/go"
	write_after "$F/other" "$N/f" "$W/go" &
	pid=$!
	wait_for test -e "$W/go.opened"
	cp "$F/else" "$M/f"
	: >"$W/go"
	wait "$pid"
	both_end
	ckpt cp :f "$W/last"
	cmp "$W/last" "$F/other"
}

@test "names and attributes that change meanwhile are no other writer" {
	mount_both
	cp "$F/large" "$M/f"
	exec 5>>"$M/f"
	echo one >&5
	chmod 600 "$M/f"
	setfattr -n user.a -v b "$N/f"
	mv "$M/f" "$M/g"
	echo two >&5
	exec 5>&-
	{ cat "$F/large"; printf 'one\ntwo\n'; } | cmp "$M/g" -
	# fsync by way of dd, twice, and then the close.
	dd if="$F/large" of="$M/g" bs=1M conv=notrunc,fsync status=none
	dd if="$F/large" of="$M/g" bs=1M oflag=sync status=none
	cmp "$N/g" "$F/large"
	both_end
}

@test "a copy into the store and a mount are two writers, and buffered ones are lost aloud" {
	mount_store --close=buffered
	exec 5>"$M/f"
	echo mine >&5
	ckpt cp "$F/large" :f
	exec 5>&-
	wait_for lost
	run -1 cat "$M/f"
	ckpt cp :f "$W/back"
	cmp "$W/back" "$F/large"
	run -1 umount_store
	run -1 umount_store
	[[ $output == *"it is unmounted"* ]]
	# It came back every two seconds, to be unmounted.
	wait_for holder_ended
}

holder_ended()
{
	! pgrep -f "hold --run $W/run" >/dev/null
}

lost()
{
	[ "$(figure files_lost)" = 1 ]
}

@test "existing files are made striped, and plain again, in a directory and a bucket" {
	adopt_and_back
	rm -r "$W/store"
	bucket
	adopt_and_back
}

adopt_and_back()
{
	mkdir -p "$W/in/run/shard"
	noise 70000000 33 >"$W/in/run/model.pt"
	cp "$F/large" "$W/in/run/shard/0.pt"
	cp "$F/small" "$W/in/run/config"
	ckpt cp -r "$W/in" :
	ckpt adopt --plain --drop-attributes | grep -qx '2 files, 71.5 MiB made plain'
	[ "$(ckpt stat run/model.pt | jq -r .layout)" = plain ]
	[ "$(ckpt adopt -n --columns=3 run)" = '2 files, 71.5 MiB would be made striped' ]
	[ "$(ckpt adopt --columns=3 run)" = '2 files, 71.5 MiB made striped' ]
	[ "$(ckpt stat run/model.pt | jq -c '[.layout, .columns]')" = '["striped",3]' ]
	[ "$(ckpt stat run/config | jq -r .layout)" = plain ]
	[ "$(ckpt adopt run)" = '0 files, 0 B made striped' ]
	ckpt verify
	ckpt cp -r :run "$W/back"
	diff -r "$W/in/run" "$W/back"
	rm -r "$W/back"
	run -1 ckpt adopt --plain run/none
	[[ $output == *"there is no 'run/none'"* ]]
	chmod 600 "$W/in/run/model.pt"
	ckpt cp "$W/in/run/model.pt" :run/model.pt
	run -1 ckpt adopt --plain run/model.pt
	[[ $output == *"--drop-attributes"*"has permissions 0600"* ]]
}

# Not refused, and between nodes not so, as docs/checkpoints.md says.
locks_are_of_one_node()
{
	python3 - "$M" "$N" <<-'END'
	import errno, fcntl, os, sys

	m, n = sys.argv[1:]
	def fails(code, fn, *args):
	    try:
	        fn(*args)
	    except OSError as e:
	        assert e.errno == code, e
	    else:
	        raise AssertionError(f"{fn} succeeded")
	ONE = fcntl.LOCK_EX | fcntl.LOCK_NB
	NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY
	os.close(os.open(f"{m}/lock", NEW))
	# The second of one node waits; another node does not hear of it.
	for lock in fcntl.flock, fcntl.lockf:
	    a, b, other = (os.open(f"{at}/lock", os.O_RDWR) for at in (m, m, n))
	    lock(a, ONE)
	    if lock is fcntl.flock:
	        fails(errno.EWOULDBLOCK, lock, b, ONE)
	    lock(other, ONE)
	    for fd in a, b, other:
	        os.close(fd)
	# Nobody sees a file that is open yet, and the second is told when it closes its.
	a, b = (os.open(f"{at}/new", NEW) for at in (m, n))
	os.write(a, b"first")
	os.write(b, b"second")
	os.close(a)
	fails(errno.ESTALE, os.close, b)
	assert open(f"{n}/new").read() == "first"
	# So one of many is who made a folder, or a file that it closed at once.
	fails(errno.EEXIST, os.open, f"{n}/lock", NEW)
	os.mkdir(f"{m}/claimed")
	fails(errno.EEXIST, os.mkdir, f"{n}/claimed")
	os.rmdir(f"{m}/claimed")
	os.unlink(f"{m}/lock")
	os.unlink(f"{m}/new")
	END
}

@test "locks are of one node, and the second of two that make a file is told at its close" {
	mount_both
	locks_are_of_one_node
	both_end
	bucket
	mount_both
	locks_are_of_one_node
	both_end
	STORE="$STORE&conditions=lock"
	mount_both
	locks_are_of_one_node
	both_end
}
