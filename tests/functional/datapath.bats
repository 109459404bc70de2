#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The three ways to the kernel, without a registry: the device is a file.

bats_require_minimum_version 1.5.0
load ../noise.bash
load ../wait.bash

setup_file() {
	driver=${BOOTSEER_BUILD:?}/tests/functional/datapath-test
	make_tree "$BATS_FILE_TMPDIR/src"
	"$driver" make "$BATS_FILE_TMPDIR/src" "$BATS_FILE_TMPDIR/meta" \
		"$BATS_FILE_TMPDIR/data"
	listing "$BATS_FILE_TMPDIR/src" >"$BATS_FILE_TMPDIR/want"
	make_large "$BATS_FILE_TMPDIR/large"
}

setup() {
	driver=${BOOTSEER_BUILD:?}/tests/functional/datapath-test
	T=$BATS_TEST_TMPDIR
	src=$BATS_FILE_TMPDIR/src
	mkdir "$T/run" "$T/state" "$T/m p"
	cp "$BATS_FILE_TMPDIR/meta" "$T/state"
	cp "$BATS_FILE_TMPDIR/data" "$T/state"
	pids=()
	images=("$(image)")
}

teardown() {
	local pid m

	for pid in "${pids[@]}"; do
		kill "$pid" 2>/dev/null || :
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || :
	done
	# Only after a failure: what the test itself should have taken down.
	while m=$(awk -v t="$T/" 'index($5, t) == 1 { p = $5 } END { print p }' \
		/proc/self/mountinfo) && [ -n "$m" ]; do
		# mountinfo has a space as \040
		umount -l "$(printf %b "${m//\\/\\0}")"
	done
}

# A folder of 120,000 names, which take the kernel over a thousand requests: `want` and
# `names` are what is in it.  In memory, for a disk takes eight times as long.
make_large() { # DIR
	mkdir -p "$1/src"
	mount -t tmpfs tmpfs "$1/src"
	mkdir "$1/src/folder"
	(cd "$1/src/folder" && seq -f 'name of a file %06.0f' 120000 |
		tr '\n' '\0' | xargs -0 touch -d '2001-02-03 04:05:06')
	ln -s folder "$1/src/link"
	"$driver" make "$1/src" "$1/meta" "$1/data"
	walk "$1/src" >"$1/want"
	ls -a "$1/src/folder" | LC_ALL=C sort >"$1/names"
	umount "$1/src"
}

take_large() {
	large=$BATS_FILE_TMPDIR/large
	cp "$large/meta" "$T/state"
	truncate -s 0 "$T/state/data"
	truncate -s 4096 "$T/state/data"
}

# A tree with all that a rootfs can hold, of 40 MB.
make_tree() { # DIR
	local d=$1 i

	mkdir -p "$d/dir/sub" "$d/many"
	noise 32000000 3 >"$d/big"
	noise 100 4 >"$d/tiny"
	noise 4096 5 >"$d/page"
	: >"$d/empty"
	ln "$d/big" "$d/dir/hard link"
	ln -s ../big "$d/dir/soft"
	ln -s "$(printf 'x%.0s' {1..300})" "$d/dir/long"
	mknod "$d/null" c 1 3
	mknod "$d/block" b 259 70000
	mkfifo "$d/fifo"
	noise 8192 6 >"$d/sparse"
	truncate -s 5M "$d/sparse"
	printf 'end' | dd of="$d/sparse" bs=1 seek=3000000 conv=notrunc status=none
	for i in {1..2000}; do echo "$i" >"$d/many/$(printf 'f%0100d' "$i")"; done
	: >"$d/$(printf 'n%.0s' {1..255})"
	: >"$d/"$'\xff\n name'
	cp /bin/cat "$d/cat"
	chmod 4755 "$d/cat"
	chmod 1777 "$d/dir"
	chown 12345:54321 "$d/tiny"
	touch -d '1999-12-31 23:59:59.123456789' "$d/dir/sub" "$d/page"
	setfattr -n user.note -v "of a file" "$d/big"
	setfattr -n trusted.note -v "of a folder" "$d/dir"
	setfattr -n security.capability \
		-v 0x0100000200040000000000000000000000000000 "$d/page"
	setfattr -n trusted.node -v x "$d/null"
}

# Everything that can be seen of a tree.
listing() { # DIR
	(cd "$1" &&
		find . -printf '%p %y %m %U %G %n %T@ %l\n' &&
		find . ! -type d -printf '%p %s\n' &&
		find . -type f -print0 | xargs -0 sha256sum &&
		stat -c '%n %t:%T' null block &&
		find . -print0 |
			xargs -0 getfattr -h -d -m - -e hex --) |
		LC_ALL=C sort
}

image() { echo "3:$T/state/meta:$T/state/data:$T/m p"; }

# Start the driver; its lines come on descriptor 9.  $server is its pid.
begin() { # serve|hold KIND DELAY_US
	mkfifo "$T/out"
	"$driver" "$1" "$2" "$T/run" "$T/state" "$3" "${images[@]}" \
		>"$T/out" 2>"$T/log" 3>&- &
	server=$!
	pids+=("$server")
	exec 9<"$T/out"
	rm "$T/out"
	await_ready
}

# $child: the process that serves.
await_ready() {
	local word

	read -r -t 120 -u 9 word child || { cat "$T/log"; return 1; }
	[ "$word" = ready ]
}

# Told to end, it ends and takes all down.
finish() {
	kill "$server"
	wait "$server" || { cat "$T/log"; return 1; }
	pids=()
	run ! grep -F "$T/" /proc/self/mountinfo
	wait_for loops_are_gone
}

# A container that another test starts has a copy of all mounts until it has
# changed its root, and a loop device stays as long.
loops_are_gone() { ! grep -qsF "$T/" /sys/block/loop*/loop/backing_file; }

serves_all() { # KIND
	begin hold "$1" 0
	listing "$T/m p" >"$T/got"
	diff "$BATS_FILE_TMPDIR/want" "$T/got"
	# Mapped and run, also by others than root, who cannot come by way of $T.
	cmp <(cd "$T/m p" &&
		setpriv --reuid 65534 --clear-groups ./cat tiny) "$src/tiny"
	[ "$(stat -c %i "$T/m p/big")" = "$(stat -c %i "$T/m p/dir/hard link")" ]
	run ! cat "$T/m p/none"
	run ! touch "$T/m p/new"
	finish
}

@test "erofs-fuse serves every name, attribute and byte" {
	serves_all erofs-fuse
}

@test "erofs-loop serves every name, attribute and byte" {
	serves_all erofs-loop
}

@test "fuse serves every name, attribute and byte" {
	serves_all fuse
}

@test "an image whose bytes are all here is mounted without a daemon" {
	"$driver" complete "$T/run" "$(image)"
	"$driver" complete "$T/run" "$(image)"
	listing "$T/m p" >"$T/got"
	diff "$BATS_FILE_TMPDIR/want" "$T/got"
	umount "$T/m p"
	run ! grep -F "$T/" /proc/self/mountinfo
}

# Files of a tmpfs cannot be mounted by EROFS: as on a kernel before 6.12.
@test "an image that is all here is mounted by loop devices where files cannot be" {
	mkdir "$T/tmpfs"
	mount -t tmpfs tmpfs "$T/tmpfs"
	mv "$T/state/meta" "$T/tmpfs/meta"
	ln -s "$T/tmpfs/meta" "$T/state/meta"
	run ! --separate-stderr "$driver" probe erofs-fuse "$T/run" "$T/tmpfs"
	[[ $stderr == *"Linux 6.12 with CONFIG_EROFS_FS_BACKED_BY_FILE"* ]]
	"$driver" probe erofs-loop "$T/run" "$T/tmpfs"
	"$driver" complete "$T/run" "$(image)"
	"$driver" complete "$T/run" "$(image)"
	listing "$T/m p" >"$T/got"
	diff "$BATS_FILE_TMPDIR/want" "$T/got"
	umount "$T/m p"
	wait_for loops_are_gone
	umount "$T/tmpfs"
	run ! grep -F "$T/" /proc/self/mountinfo
}

under_overlay() { # KIND
	begin hold "$1" 0
	mkdir "$T/upper" "$T/work" "$T/merged"
	mount -t overlay overlay "$T/merged" \
		-o "lowerdir=$T/m p,upperdir=$T/upper,workdir=$T/work"
	echo x >"$T/merged/null"
	cmp "$T/merged/big" "$src/big"
	echo more >>"$T/merged/big"
	cmp -n 32000000 "$T/merged/big" "$src/big"
	rm -r "$T/merged/many"
	[ ! -e "$T/merged/many" ]
	[ "$(getcap "$T/merged/page" 2>/dev/null || :)" = \
		"$(getcap "$src/page" 2>/dev/null | sed "s,$src,$T/merged," || :)" ]
	umount "$T/merged"
	finish
}

@test "erofs-fuse carries an overlay with device nodes and copy-up" {
	under_overlay erofs-fuse
}

@test "erofs-loop carries an overlay with device nodes and copy-up" {
	under_overlay erofs-loop
}

@test "fuse carries an overlay with device nodes and copy-up" {
	under_overlay fuse
}

# A reader of a mounted file, which is at it when this returns; $pid is its process.
start_reader() { # SEED FILE
	"$driver" read "$1" "$2" "$src/big" >"$T/reader$1" 9<&- 3>&- &
	pid=$!
	pids+=("$pid")
	# Before that a signal would end it for want of a handler.
	wait_for grep -q '^reading' "$T/reader$1"
}

# Those that were started end well, each after a last range.
end_readers() { # PID...
	local pid

	kill "$@"
	for pid; do
		wait "$pid" || { cat "$T"/reader*; return 1; }
	done
	pids=("$server")
}

# Readers read from the daemon all the time, by read(2) and by page faults,
# while it is killed; each must go on and see right bytes.
survives_kills() { # KIND DELAY_US
	local i pid readers=()

	begin hold "$1" "$2"
	for i in 1 2 3; do
		start_reader "$i" "$T/m p/big"
		readers+=("$pid")
	done
	for ((i = 0; i < ${BOOTSEER_SOAK_KILLS:-4}; i++)); do
		kill -9 "$child"
		await_ready
	done
	end_readers "${readers[@]}"
	listing "$T/m p" >"$T/got"
	diff "$BATS_FILE_TMPDIR/want" "$T/got"
	finish
}

@test "erofs-fuse survives kill -9 while files are read" {
	survives_kills erofs-fuse 0
}

@test "erofs-fuse survives kill -9 while reads wait for slow data" {
	survives_kills erofs-fuse 5000
}

@test "erofs-loop survives kill -9 while reads wait for slow data" {
	survives_kills erofs-loop 5000
}

@test "fuse survives kill -9 while reads wait for slow data" {
	survives_kills fuse 5000
}

@test "a daemon told to hand over is replaced while files are read" {
	local pid

	begin hold erofs-fuse 2000
	start_reader 1 "$T/m p/big"
	for _ in 1 2 3; do
		kill -HUP "$server"
		await_ready
	done
	end_readers "$pid"
	finish
}

# Killed at any moment of its start, even while the kernel mounts for it.
mounts_once() { # KIND
	local i n images=()

	for i in {1..12}; do
		mkdir "$T/mp$i"
		images+=("$i:$T/state/meta:$T/state/data:$T/mp$i")
	done
	mkfifo "$T/out"
	"$driver" hold "$1" "$T/run" "$T/state" 0 "${images[@]}" \
		>"$T/out" 2>"$T/log" 3>&- &
	server=$!
	pids+=("$server")
	exec 9<"$T/out"
	for i in {1..10}; do
		while ! child=$(pgrep -P "$server") ||
			! grep -q datapath-test "/proc/$child/comm"; do :; done
		# Not at the same moment each time.
		for ((n = 0; n < i * RANDOM / 16; n++)); do :; done
		kill -9 "$child"
		while kill -0 "$child" 2>/dev/null; do :; done
	done
	# Of those that came so far before they were killed, too.
	child=
	while await_ready && ! kill -0 "$child" 2>/dev/null; do :; done
	for i in {1..12}; do
		[ "$(awk -v p="$T/mp$i" '$5 == p' /proc/self/mountinfo | wc -l)" -eq 1 ]
		cmp "$T/mp$i/big" "$src/big"
	done
	finish
}

@test "erofs-fuse killed while it starts mounts each image once" {
	mounts_once erofs-fuse
}

@test "erofs-loop killed while it starts mounts each image once" {
	mounts_once erofs-loop
}

@test "fuse killed while it starts mounts each image once" {
	mounts_once fuse
}

# Not zeros, not short: an error, and a line that says why.
fails_cleanly() { # KIND
	begin hold "$1" 0
	truncate -s 1M "$T/state/data"
	run ! --separate-stderr cat "$T/m p/big"
	[[ $stderr == *"Input/output error"* ]]
	[ "${#output}" -le 1048576 ]
	grep -F 'read failed image="' "$T/log"
	finish
}

@test "erofs-fuse answers bytes that cannot be had with EIO" {
	fails_cleanly erofs-fuse
}

@test "fuse answers bytes that cannot be had with EIO" {
	fails_cleanly fuse
}

# The driver's command line is what a restart runs, so the kind is in a link.
@test "a mount left by another way fails its readers and is mounted anew" {
	ln -s erofs-fuse "$T/kind"
	begin hold "@$T/kind" 0
	exec 8<"$T/m p/big"
	ln -sfn fuse "$T/kind"
	kill -9 "$child"
	await_ready
	run ! cat <&8
	exec 8<&-
	cmp "$T/m p/big" "$src/big"
	[ "$(stat -f -c %T "$T/m p")" != erofs ]
	finish
}

# An image in which nothing has xattrs, served beside the other.
add_bare() {
	mkdir -p "$T/bare/dir" "$T/bare mnt"
	cp "$src/big" "$src/cat" "$T/bare"
	echo x >"$T/bare/dir/x"
	"$driver" make "$T/bare" "$T/state/bare.meta" "$T/state/bare.data"
	listing_of_bare "$T/bare" >"$T/want"
	images+=("4:$T/state/bare.meta:$T/state/bare.data:$T/bare mnt")
}

listing_of_bare() { # DIR
	(cd "$1" &&
		find . -printf '%p %y %m %U %G %n %T@ %l\n' &&
		find . -type f -print0 | xargs -0 sha256sum &&
		find . -print0 |
			xargs -0 getfattr -h -d -m - -e hex --) |
		LC_ALL=C sort
}

# File system type and number of a mount.
mount_of() { # DIR
	awk -v p="${1// /\\\\040}" '$5 == p {
		for (i = 6; $i != "-"; i++); print $(i + 1), $1 }' /proc/self/mountinfo
}

has_its_xattrs() {
	[ "$(getfattr -n user.note --only-values "$T/m p/big")" = "of a file" ]
	getfattr -n security.capability "$T/m p/page"
	run ! getfattr -n user.none "$T/m p/big"
	[[ $output == *"No such attribute"* ]]
}

# The kernel's own answer, which it gives when it was told so once.
has_no_xattrs() {
	run ! getfattr -n user.none "$T/bare mnt/big"
	[[ $output == *"Operation not supported"* ]]
	listing_of_bare "$T/bare mnt" | diff "$T/want" -
}

@test "fuse serves images with and without xattrs on sessions of their own" {
	add_bare
	begin hold fuse 0
	[[ $(mount_of "$T/m p") == "fuse.bootseer "* ]]
	[[ $(mount_of "$T/bare mnt") == "fuse.bootseer-noxattr "* ]]
	has_its_xattrs
	has_no_xattrs
	# Below overlayfs, an upper file of it has the xattrs that it is given.
	mkdir "$T/upper" "$T/work" "$T/merged"
	mount -t overlay overlay "$T/merged" \
		-o "lowerdir=$T/bare mnt,upperdir=$T/upper,workdir=$T/work"
	ls -lR "$T/merged"
	"$T/merged/cat" "$T/merged/dir/x"
	setfattr -n trusted.own -v new "$T/merged/big"
	[ "$(getfattr -n trusted.own --only-values "$T/merged/big")" = new ]
	cmp "$T/merged/big" "$src/big"
	umount "$T/merged"
	finish
}

@test "fuse keeps both of its sessions over kill -9 while files are read" {
	local before pid readers=()

	add_bare
	begin hold fuse 2000
	has_no_xattrs
	before=$(mount_of "$T/m p" && mount_of "$T/bare mnt")
	start_reader 1 "$T/m p/big"
	readers+=("$pid")
	start_reader 2 "$T/bare mnt/big"
	readers+=("$pid")
	for _ in 1 2 3 4; do
		kill -9 "$child"
		await_ready
	done
	end_readers "${readers[@]}"
	[ "$(mount_of "$T/m p" && mount_of "$T/bare mnt")" = "$before" ]
	has_its_xattrs
	has_no_xattrs
	finish
}

# As after an upgrade from a bootseerd that had one session, and as if an image's
# metadata had got xattrs: files of a mount are never without theirs.
@test "fuse leaves a mount where it is right and moves it where it is not" {
	local before

	add_bare
	begin hold fuse 0
	before=$(mount_of "$T/m p")
	has_no_xattrs
	(cd "$T/state" && mv meta other && mv bare.meta meta &&
		mv other bare.meta && mv data other && mv bare.data data &&
		mv other bare.data)
	kill -9 "$child"
	await_ready
	[ "$(mount_of "$T/m p")" = "$before" ]
	[[ $(mount_of "$T/bare mnt") == "fuse.bootseer "* ]]
	[ "$(getfattr -n user.note --only-values "$T/bare mnt/big")" = \
		"of a file" ]
	listing "$T/bare mnt" | diff "$BATS_FILE_TMPDIR/want" -
	finish
}

@test "fuse's two sessions are dropped when bootseerd goes another way" {
	add_bare
	ln -s fuse "$T/kind"
	begin hold "@$T/kind" 0
	exec 7<"$T/m p/big" 8<"$T/bare mnt/big"
	ln -sfn erofs-fuse "$T/kind"
	kill -9 "$child"
	await_ready
	run -1 timeout 600 cat <&7
	run -1 timeout 600 cat <&8
	exec 7<&- 8<&-
	run ! grep -F "$T/run/fuse" /proc/self/mountinfo
	cmp "$T/bare mnt/big" "$src/big"
	listing_of_bare "$T/bare mnt" | diff "$T/want" -
	finish
}

# Where nobody keeps the descriptor, readers get an error instead of waiting
# for ever, and the next daemon mounts anew.
without_holder() { # KIND
	begin serve "$1" 0
	cmp "$T/m p/tiny" "$src/tiny"
	kill -9 "$child"
	wait "$server" || :
	run ! cat "$T/m p/big"
	begin serve "$1" 0
	cmp "$T/m p/big" "$src/big"
	finish
}

@test "erofs-fuse without a holder fails reads and mounts anew" {
	without_holder erofs-fuse
}

@test "erofs-loop without a holder fails reads and mounts anew" {
	without_holder erofs-loop
}

@test "fuse without a holder fails reads and mounts anew" {
	without_holder fuse
}

walk() { # DIR
	(cd "$1" && find . ! -type d -printf '%p %y %m %U %G %n %s %T@ %l\n') |
		LC_ALL=C sort
}

walks_a_large_folder() { # KIND
	take_large
	begin hold "$1" 0
	[ "$(wc -l <"$large/want")" -eq 120001 ]
	walk "$T/m p" | diff -q "$large/want" -
	# From the kernel's cache.
	walk "$T/m p" | diff -q "$large/want" -
	run ! stat "$T/m p/folder/name of a file 120001"
	stat "$T/m p/folder/name of a file 119999"
	finish
}

@test "erofs-fuse lists a folder of 120,000 names" {
	walks_a_large_folder erofs-fuse
}

@test "fuse lists a folder of 120,000 names" {
	walks_a_large_folder fuse
}

@test "fuse goes on with a listing whose daemon was killed" {
	local lister

	take_large
	begin hold fuse 0
	mkfifo "$T/go" "$T/half"
	# Half of it, then the rest; then from every 997th place again.
	perl -e '
		my ($dir, $go, $half) = @ARGV;
		my (@name, @at);
		opendir(my $d, $dir) or die "$dir: $!";
		while (1) {
			my $at = telldir($d);
			my $name = readdir($d) // last;
			push @name, $name;
			push @at, $at;
			next unless @name == 60000;
			open(my $f, ">", $half) or die "$half: $!";
			print $f "half\n";
			close($f);
			open($f, "<", $go) or die "$go: $!";
			<$f>;
		}
		for (my $i = 0; $i < @name; $i += 997) {
			seekdir($d, $at[$i]);
			my $name = readdir($d) // "";
			$name eq $name[$i] or die "place $i: $name, not $name[$i]";
		}
		print "$_\n" for @name;
	' "$T/m p/folder" "$T/go" "$T/half" >"$T/names" 9<&- 3>&- &
	lister=$!
	pids+=("$lister")
	read -r -t 120 _ <"$T/half"
	kill -9 "$child"
	await_ready
	echo >"$T/go"
	wait_all "$lister"
	pids=("$server")
	LC_ALL=C sort "$T/names" | diff -q "$large/names" -
	finish
}

@test "every way says that it works here" {
	local kind

	for kind in erofs-fuse erofs-loop fuse; do
		"$driver" probe "$kind" "$T/run" "$T/state"
	done
	run ! grep -F "$T/" /proc/self/mountinfo
}
