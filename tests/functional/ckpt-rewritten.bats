#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A file that is written anew in place, while others of the same mount read it: each of them
# has one version, all of it.

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
	noise 9000000 41 >"$F/large"
	noise 8000000 42 >"$F/other"
	noise 400000 43 >"$F/small"
}

setup() { begin_mounts; }

teardown()
{
	exec 6<&-
	end_mounts
}

go() { curl -sf -d '' "http://$PROXY/go" >/dev/null; }

# A program that writes what FROM has into TO, says so in GO.written, and closes it when it
# is told by the FIFO GO: each end of another one that has it open would be a close, too.
# Where there is a FIFO GO.end, a child has it open until that is written to.
begin_to_write() # FROM TO GO
{
	rm -f "$3" "$3.written"
	mkfifo "$3"
	perl -e '
		my ($from, $to, $go) = @ARGV;
		open(my $in, "<", $from) or die "open $from: $!";
		open(my $out, ">", $to) or die "open $to: $!";
		while (sysread($in, my $part, 1 << 17)) {
			syswrite($out, $part) == length($part) or die "write: $!";
		}
		open(my $written, ">", "$go.written") or die;
		open(my $wait, "<", $go) or die "open $go: $!";
		if (-p "$go.end" && !fork()) {
			open(my $end, "<", "$go.end") or die "open $go.end: $!";
			exit 0;
		}
		close($out) or die "close: $!\n";
	' "$@" 3>&- 6<&- &
	writer=$!
}

end_to_write() # GO
{
	: >"$1"
	wait_all "$writer"
}

# Descriptor 6 has $M/f open since before anybody closed it.
peek_at() # FILE: what is written
{
	begin_to_write "$1" "$M/f" "$W/first"
	wait_for test -e "$W/first.written"
	exec 6<"$M/f"
	end_to_write "$W/first"
}

keeps_what_it_read() # OLD NEW
{
	rm -f "$M/f"
	peek_at "$1"
	begin_to_write "$2" "$M/f" "$W/again"
	wait_for test -e "$W/again.written"
	cmp - "$1" <&6
	end_to_write "$W/again"
	cmp "$M/f" "$2"
	exec 6<&-
	cmp "$M/f" "$2"
}

@test "who opened a file before it was ever committed keeps it when it is written anew" {
	mount_store
	keeps_what_it_read "$F/small" "$F/other"
	keeps_what_it_read "$F/large" "$F/small"
	umount_store
	# Most of it leaves for the store before it is committed.
	mount_store --tail=4M
	keeps_what_it_read "$F/large" "$F/other"
	keeps_what_it_read "$F/large" "$F/small"
	umount_store
}

@test "who reads a file keeps it when it is removed, or another gets its name" {
	local how

	mount_store --tail=4M
	for how in "rm $M/f" "mv $M/g $M/f"; do
		cp "$F/other" "$M/g"
		peek_at "$F/large"
		# The name is the file that was stored, also while somebody reads on.
		chmod 640 "$M/f"
		[ "$(ckpt stat f | jq -r .mode)" = 0640 ]
		$how
		cmp - "$F/large" <&6
		exec 6<&-
	done
	cmp "$M/f" "$F/other"
	umount_store
}

staged() { [ "$(figure files_staged)" = "$1" ]; }
written() { [ "$(figure files_written)" = "$1" ]; }

# Files that somebody writes are listed.
only_read() { ! find "$M" | grep -q "/f$"; }

@test "what a killed program left of a file is not stored because somebody reads it" {
	mount_store --tail=4M
	begin_to_write "$F/large" "$M/f" "$W/never"
	wait_for test -e "$W/never.written"
	exec 6<"$M/f"
	# Also what left for the store, where it is no file yet.
	cmp - "$F/large" <&6
	run -1 ckpt stat f
	kill -9 "$writer"
	wait_fails "$writer"
	wait_for only_read
	run -1 mv "$M/f" "$M/g"
	run -1 ckpt stat f
	cp "$F/other" "$M/f"
	exec 6<&-
	cmp "$M/f" "$F/other"
	umount_store
	ckpt cp :f "$W/back"
	cmp "$W/back" "$F/other"
}

@test "what could not be stored is told of, also while somebody reads it" {
	bucket
	fault_proxy "$AT" "$W"
	STORE="s3://bkt/ckpt?endpoint=http://$PROXY"
	mount_store --close=buffered
	begin_to_write "$F/small" "$M/f" "$W/once"
	wait_for test -e "$W/once.written"
	exec 6<"$M/f"
	fault match='^PUT ' kind=status code=403 times=100000
	mkfifo "$W/once.end"
	end_to_write "$W/once"
	wait_for staged 0
	run -1 --separate-stderr python3 -c 'import os, sys; os.truncate(sys.argv[1], 4)' "$M/f"
	[[ $stderr == *"Input/output error"* ]]
	run -1 --separate-stderr chmod 600 "$M/f"
	[[ $stderr == *"Input/output error"* ]]
	run -1 --separate-stderr dd if="$F/small" of="$M/f" oflag=append conv=notrunc status=none
	[[ $stderr == *"Input/output error"* ]]
	exec 6<&-
	: >"$W/once.end"
	wait_for written 0
	run -1 umount_store
	run -1 umount_store
	[[ $output == *"it is unmounted"* ]]
}

@test "an open that the store answers late has one version, of its size" {
	local pid

	bucket
	fault_proxy "$AT" "$W"
	STORE="s3://bkt/ckpt?endpoint=http://$PROXY"
	mount_store
	cp "$F/large" "$M/f"
	mkfifo "$W/again.end"
	begin_to_write "$F/other" "$M/f" "$W/again"
	wait_for test -e "$W/again.written"
	# What the store said is from before the close.
	fault match='^GET .*/f\.bsm' kind=wait
	cat "$M/f" >"$W/late" &
	pid=$!
	wait_for proxied '^GET .*/f\.bsm.* wait$'
	end_to_write "$W/again"
	go
	wait_all "$pid"
	cmp "$W/late" "$F/other" || cmp "$W/late" "$F/large"
	: >"$W/again.end"
	umount_store
}

@test "reads of a file that is written anew again and again have one version each" {
	mount_store
	"$BATS_TEST_DIRNAME/ckpt-versions.py" "$M/f" 60 3
	umount_store
}

# Or it has it open.
opens() # PID
{
	[ -e "$W/go.opened" ] || grep -q fuse "/proc/$1/stack"
}

@test "what is done to a file that was renamed while somebody reads it is done to that" {
	LD_PRELOAD=$BOOTSEER_BUILD/tests/fakes/test-believe.so mount_store
	peek_at "$F/small"
	mv "$M/f" "$M/g"
	setfattr -n user.a -v 1 "$M/g"
	[ "$(ckpt ls)" = g ]
	[ "$(getfattr --absolute-names --only-values -n user.a "$M/g")" = 1 ]
	cmp - "$F/small" <&6
	mkdir "$M/d"
	M=$M/d peek_at "$F/other"
	mv -T "$M/d" "$M/e"
	setfattr -n user.a -v 2 "$M/e/f"
	[ "$(ckpt ls)" = $'e/\ng' ]
	[ "$(getfattr --absolute-names --only-values -n user.a "$M/e/f")" = 2 ]
	cmp - "$F/other" <&6
	exec 6<&-
	umount_store
}

waits_or_ends() { has_ended "$1" || grep -q fuse "/proc/$1/stack"; } # PID

@test "what is written while its folder is renamed is where the folder is then" {
	local mover pid

	bucket
	fault_proxy "$AT" "$W"
	STORE="s3://bkt/ckpt?endpoint=http://$PROXY"
	mount_store
	mkdir "$M/d"
	cp "$F/small" "$M/d/f"
	mkfifo "$W/go"
	(cd "$M/d" && : >"$W/there" && : <"$W/go" && exec cp "$F/other" f) 3>&- &
	pid=$!
	wait_for test -e "$W/there"
	fault match='^PUT .*/e/f' kind=wait
	mv -T "$M/d" "$M/e" 3>&- &
	mover=$!
	wait_for proxied '^PUT .*/e/f.* wait$'
	: >"$W/go"
	wait_for waits_or_ends "$pid"
	go
	wait_all "$mover" "$pid"
	[ "$(ckpt ls)" = e/ ]
	cmp "$M/e/f" "$F/other"
	umount_store
}

# COMMAND runs in the folder DIR as soon as it is told by the FIFO $W/DIR.
waits_in() # DIR COMMAND...
{
	local dir=$1

	shift
	mkfifo "$W/$dir"
	(cd "$M/d/$dir" && : >"$W/$dir.there" && : <"$W/$dir" && exec "$@") 3>&- &
	pids[$dir]=$!
	wait_for test -e "$W/$dir.there"
}

@test "what was there before its folder was renamed is not made anew or replaced" {
	local mover dir
	local -A pids

	bucket
	fault_proxy "$AT" "$W"
	STORE="s3://bkt/ckpt?endpoint=http://$PROXY"
	mount_store
	for dir in append excl move; do
		mkdir -p "$M/d/$dir"
		printf old >"$M/d/$dir/a"
	done
	printf new | tee "$W/new" >"$M/d/move/z"
	waits_in append dd if="$W/new" of=a oflag=append conv=notrunc status=none
	waits_in excl dd if="$F/small" of=a conv=excl status=none
	waits_in move mv -nT z a
	# It comes last, and is in its old place yet.
	fault match='^PUT .*/e/move/z' kind=wait
	mv -T "$M/d" "$M/e" 3>&- &
	mover=$!
	wait_for proxied '^PUT .*/e/move/z.* wait$'
	for dir in "${!pids[@]}"; do
		: >"$W/$dir"
		wait_for waits_or_ends "${pids[$dir]}"
	done
	go
	wait_all "$mover" "${pids[append]}" "${pids[move]}"
	wait_fails "${pids[excl]}"
	[ "$(cat "$M/e/append/a")" = oldnew ]
	[ "$(cat "$M/e/excl/a")" = old ]
	[ "$(cat "$M/e/move/a")" = old ]
	umount_store
}

changed_when_stored() # MODE AFTER: how perl(1) opens it, and what it is then
{
	local pid i

	# All that store what is closed have something else to do.
	fault match='^PUT .*/busy' kind=wait times=8
	for i in {1..8}; do
		cp "$F/small" "$M/busy$i"
	done
	cp "$F/other" "$M/f"
	mkfifo "$W/go"
	perl -e 'open(my $f, $ARGV[2], $ARGV[0]) or die; syswrite($f, "half") or die;
		open(my $o, ">", "$ARGV[1].opened"); open(my $n, "<", $ARGV[1]);
		syswrite($f, "whole") or die; close($f) or die' \
		"$M/f" "$W/go" "$1" 3>&- &
	pid=$!
	wait_for opens "$pid"
	go
	wait_for test -e "$W/go.opened"
	wait_for staged 0
	cmp "$W/second/f" "$F/other"
	: >"$W/go"
	wait_all "$pid"
	cmp "$M/f" "$2"
	wait_for staged 0
	cmp "$W/second/f" "$2"
	rm "$W/go" "$W/go.opened"
}

@test "with --close=buffered what was closed is stored before it is changed" {
	bucket
	fault_proxy "$AT" "$W"
	STORE="s3://bkt/ckpt?endpoint=http://$PROXY"
	mount_store --close=buffered
	mkdir "$W/second"
	M=$W/second mount_store
	printf halfwhole >"$W/anew"
	{ cat "$F/other"; printf halfwhole; } >"$W/longer"
	changed_when_stored ">" "$W/anew"
	changed_when_stored ">>" "$W/longer"
	umount_store
	M=$W/second umount_store
}
