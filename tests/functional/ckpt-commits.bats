#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# While a file is being committed, which may take minutes: what gives it another name or takes
# it away does not lose what was written, and nobody else in the mount waits for it.

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
	noise 5000000 51 >"$F/large"
	noise 6000000 52 >"$F/other"
	echo small >"$F/small"
}

setup()
{
	begin_mounts
	bucket
	DIRECT=$STORE
	fault_proxy "$AT" "$W"
	STORE="s3://bkt/ckpt?endpoint=http://$PROXY"
}

teardown()
{
	exec 5>&-
	go || :
	end_mounts
}

go() { curl -sf -d '' "http://$PROXY/go" >/dev/null; }

waits_or_ends() { has_ended "$1" || grep -q fuse "/proc/$1/stack"; } # PID

# Opens TO, as soon as it is told by the FIFO GO appends MORE and closes it, and says what failed.
append_after() # TO GO MORE [fsync]
{
	mkfifo "$2"
	perl -MIO::Handle -e '
		my ($to, $go, $more, $syncs) = @ARGV;
		open(my $out, ">>", $to) or die "open $to: $!";
		open(my $opened, ">", "$go.opened") or die;
		open(my $wait, "<", $go) or die "open $go: $!";
		syswrite($out, $more) == length($more) or die "write: $!";
		!$syncs || $out->sync or die "fsync: $!";
		close($out) or die "close: $!\n";
	' "$@" 3>&- &
	writer=$!
	wait_for test -e "$2.opened"
}

@test "what is written while a file is renamed is in that file" {
	local mover

	mount_store
	cp "$F/large" "$M/f"
	append_after "$M/f" "$W/go" more fsync
	fault match='^DELETE .*/f\.bsm' kind=late
	mv "$M/f" "$M/g" 3>&- &
	mover=$!
	wait_for proxied '^DELETE .*/f\.bsm.* late '
	: >"$W/go"
	wait_for waits_or_ends "$writer"
	go
	wait_all "$mover" "$writer"
	[ "$(ckpt ls)" = g ]
	{ cat "$F/large"; printf more; } | cmp "$M/g" -
	umount_store
}

@test "what another node puts in place of a file that is renamed stays" {
	local mover

	mount_store
	cp "$F/large" "$M/f"
	fault match='^PUT .*/g\.bsm' kind=wait
	mv "$M/f" "$M/g" 3>&- &
	mover=$!
	wait_for proxied '^PUT .*/g\.bsm.* wait$'
	STORE=$DIRECT ckpt cp "$F/other" :f
	go
	wait_all "$mover"
	cmp "$M/g" "$F/large"
	ckpt cp :f "$W/back"
	cmp "$W/back" "$F/other"
	umount_store
}

@test "a file that could not be removed or replaced is stored by its writers" {
	mount_store
	cp "$F/small" "$M/f"
	exec 5>>"$M/f"
	echo one >&5
	fault match='^DELETE ' kind=status code=403
	run -1 rm "$M/f"
	[[ $output == *"Permission denied"* ]]
	echo two >&5
	exec 5>&-
	printf 'small\none\ntwo\n' | cmp "$M/f" -
	ckpt cp :f "$W/back"
	cmp "$W/back" "$M/f"
	exec 5>>"$M/f"
	echo three >&5
	cp "$F/large" "$M/tmp"
	fault match='^PUT .*/f\.bsm' kind=status code=403
	run -1 mv "$M/tmp" "$M/f"
	[[ $output == *"Permission denied"* ]]
	exec 5>&-
	rm -f "$W/back"
	ckpt cp :f "$W/back"
	printf 'small\none\ntwo\nthree\n' | cmp "$W/back" -
	cmp "$M/tmp" "$F/large"
	umount_store
}

# COMMAND has the store put something, which takes its time, and renaming of folders, and
# what comes after that, does not.  In a folder of its own, which the kernel locks.
holds_nobody_up() # PUT COMMAND...
{
	local slow other

	fault match="^PUT .*/$1" kind=wait
	"${@:2}" 3>&- &
	slow=$!
	wait_for proxied "^PUT .*/$1.* wait\$"
	(mv -T "$M/d" "$M/e" && : >"$M/e/new" && mv -T "$M/e" "$M/d" &&
		rm "$M/d/new") 3>&- &
	other=$!
	wait_for has_ended "$other"
	wait_all "$other"
	has_ended "$slow" && return 1
	go
	wait_all "$slow"
	curl -sf -d '' "http://$PROXY/clear" >/dev/null
}

# Nor does a change of the same file, which waits for it.
a_change_holds_nobody_up() # COMMAND...
{
	local pid

	rm -f "$W/go"*
	cp "$F/large" "$M/q/f"
	# The kernel would have the change wait for an fsync, not for a close.
	append_after "$M/q/f" "$W/go" more
	fault match='^PUT .*/f\.bsm' kind=wait
	: >"$W/go"
	wait_for proxied '^PUT .*/f\.bsm.* wait$'
	"$@" 3>&- &
	pid=$!
	wait_for waits_or_ends "$pid"
	has_ended "$pid" && return 1
	(mv -T "$M/d" "$M/e" && : >"$M/e/new" && mv -T "$M/e" "$M/d" &&
		rm "$M/d/new") 3>&- &
	wait_for has_ended $!
	wait_all $!
	has_ended "$pid" && return 1
	go
	wait_all "$writer" "$pid"
	curl -sf -d '' "http://$PROXY/clear" >/dev/null
}

make_node() { python3 -c 'import os, sys; os.mknod(sys.argv[1])' "$1"; }

@test "a commit holds up nobody who renames a folder, nor who comes after that" {
	mount_store
	mkdir "$M/d" "$M/q"
	cp "$F/large" "$M/q/f"
	holds_nobody_up 'f\.bsm' truncate -s 7000000 "$M/q/f"
	[ "$(stat -c %s "$M/q/f")" = 7000000 ]
	holds_nobody_up made make_node "$M/q/made"
	holds_nobody_up 'made\.bsm' setfattr -n user.a -v b "$M/q/made"
	[ "$(getfattr --absolute-names --only-values -n user.a "$M/q/made")" = b ]
	exec 5>>"$M/q/f"
	echo more >&5
	holds_nobody_up 'f\.bsm' mv "$M/q/f" "$M/q/g"
	echo more >&5
	exec 5>&-
	[ "$(stat -c %s "$M/q/g")" = 7000010 ]
	umount_store
}

@test "nor does what has to wait for a commit of the same file" {
	mount_store
	mkdir "$M/d" "$M/q"
	a_change_holds_nobody_up chmod 600 "$M/q/f"
	[ "$(stat -c %a "$M/q/f")" = 600 ]
	a_change_holds_nobody_up setfattr -n user.a -v b "$M/q/f"
	[ "$(getfattr --absolute-names --only-values -n user.a "$M/q/f")" = b ]
	a_change_holds_nobody_up truncate -s 0 "$M/q/f"
	[ "$(stat -c %s "$M/q/f")" = 0 ]
	a_change_holds_nobody_up rm "$M/q/f"
	[ "$(ckpt ls q)" = "" ]
	a_change_holds_nobody_up mv "$M/q/f" "$M/q/g"
	[ "$(ckpt ls q)" = g ]
	umount_store
}

@test "a close is the last, though its program writes a file of that name and number elsewhere" {
	mkdir "$W/second"
	mount_store
	STORE=file://$W/store M=$W/second mount_store
	fault match='^PUT .*/f' kind=status code=403 times=1000
	run -1 python3 - "$M/f" "$W/second/f" <<-'END'
	import os, sys
	a, b = (os.open(p, os.O_WRONLY | os.O_CREAT) for p in sys.argv[1:])
	assert os.fstat(a).st_ino == os.fstat(b).st_ino
	os.write(a, b"x")
	os.close(a)
	END
	[[ $output == *'line 5,'*PermissionError* ]]
	M=$W/second umount_store
}

is_away() # JQ of store_away
{
	"$bootseer" ckpt status --run="$W/run" "$M" |
		jq -e ".[0].store_away | $1" >/dev/null
}

@test "status says of a store that is away for how long, and why" {
	local reader

	STORE=$DIRECT ckpt cp "$F/small" :f
	STORE=$DIRECT ckpt cp "$F/small" :g
	mount_store --store-timeout 5m
	is_away '. == null'
	# All of it fails: as long as one request is answered, the store is there.
	fault match='^(GET|HEAD) ' kind=status code=503 times=100000
	cat "$M/f" >"$W/got" 3>&- &
	reader=$!
	wait_for is_away '.seconds >= 3 and (.reason | contains("503"))'
	"$bootseer" ckpt status --run="$W/run" "$M" 2>&1 >"$W/json" | sed q |
		grep -qE "'$M' waits for its store, for [0-9.]+ s now: .*503"
	curl -sf -d '' "http://$PROXY/clear"
	wait "$reader"
	cmp "$F/small" "$W/got"
	# It takes a request and is silent.
	fault match='^(GET|HEAD) ' kind=wait times=100000
	cat "$M/g" >"$W/got" 3>&- &
	reader=$!
	wait_for is_away '.seconds >= 3 and (.reason | contains("does not answer"))'
	go
	wait "$reader"
	cmp "$F/small" "$W/got"
	is_away '. == null'
	umount_store
}

# From now on PID can open no descriptor: the limit is the lowest number that is free.
starve() # PID
{
	local n=0

	while [ -e "/proc/$1/fd/$n" ]; do n=$((n + 1)); done
	prlimit --pid "$1" --nofile="$n:"
}

is_released() { [ "$(figure files_written)" = 0 ]; }

@test "what a killed program left is not stored by a mount that has no descriptor to see that" {
	local pid mount

	mount_store
	mount=$(figure pid)
	echo before >"$M/f"
	# The connection that is used again needs none.
	perl -e 'open(my $f, ">", $ARGV[0]) or die; syswrite($f, "half") or die;
		kill("STOP", $$)' "$M/f" 3>&- &
	pid=$!
	wait_for is_stopped "$pid"
	starve "$mount"
	kill -9 "$pid"
	wait_fails "$pid"
	# Not before: the mount tells nobody its figures without a descriptor.
	prlimit --pid "$mount" --nofile=1024:
	wait_for is_released
	[ "$(cat "$M/f")" = before ]
	# One that lives is told.
	run -1 python3 - "$M/f" "$mount" <<-'END'
	import os, subprocess, sys
	f = os.open(sys.argv[1], os.O_WRONLY | os.O_TRUNC)
	os.write(f, b"other")
	n = min(set(range(1024)) - {int(n) for n in os.listdir(f"/proc/{sys.argv[2]}/fd")})
	subprocess.run(["prlimit", "--pid", sys.argv[2], f"--nofile={n}:"], check=True)
	os.close(f)
	END
	[[ $output == *"Too many open files"* ]]
	prlimit --pid "$mount" --nofile=1024:
	[ "$(cat "$M/f")" = before ]
	grep -q 'close failed path="f" .*higher LimitNOFILE' "$W"/run/*/log
	umount_store
}
