#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A store of checkpoint files as a folder, in a directory and in a bucket, used as programs
# use folders; in HDFS: store-hdfs.bats.

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
	make_folders
}

setup() { begin_mounts; }
teardown() { end_mounts; }

@test "a directory is used as a folder: dd, cp -a, tar, mv, rm" {
	mount_store
	use_as_folder
	umount_store
	ckpt gc --older=0s
	[ "$(find "$W/store" -type f -not -path '*/.bootseer/lock/*')" = "" ]
}

@test "a mount of a job says when it was opened, to whoever follows events" {
	mkdir "$W/events"
	export BOOTSEER_EVENTS=$W/events BOOTSEER_NODE=n1
	mount_store
	umount_store
	[ "$(ls "$W/events")" = "" ]
	export BOOTSEER_JOB=team/j
	mount_store
	umount_store
	sed -E 's/ts=.* job/job/; s/ id=.*//' "$W/events/ckpt.events" >"$W/said"
	diff "$W/said" - <<-'EOF'
		BOOTSEER stage=ckpt.open ev=begin job=team/j node=n1
		BOOTSEER stage=ckpt.open ev=end job=team/j node=n1 status=0
	EOF
	# What programs load and save, with what it counted.
	rm "$W/events/ckpt.events"
	mount_store
	head -c 3000000 /dev/zero >"$M/saved"
	umount_store
	mount_store
	cat "$M/saved" >"$W/loaded"
	umount_store
	sed -E 's/ts=.* job/job/; s/ id=.*//; s/ (wait|queue|storage|network)_ms=[0-9]+//g' \
		"$W/events/ckpt.events" | grep -v ckpt.open >"$W/said"
	diff "$W/said" - <<-'EOF'
		BOOTSEER stage=ckpt.save ev=begin job=team/j node=n1
		BOOTSEER stage=ckpt.save ev=end job=team/j node=n1 saved_bytes=3000000
		BOOTSEER stage=ckpt.load ev=begin job=team/j node=n1
		BOOTSEER stage=ckpt.load ev=end job=team/j node=n1 origin_bytes=3000000
	EOF
	# Nobody follows: the mount is made all the same.
	BOOTSEER_EVENTS=$W/none mount_store
	umount_store
}

@test "a bucket is used as a folder: dd, cp -a, tar, mv, rm" {
	bucket
	mount_store
	use_as_folder
	umount_store
	# What is as young as the server's clock tells times apart stays for now.
	wait_for gc_finds_nothing
}

@test "what is in the store already is there, and others see what is written" {
	ckpt cp -r "$F/in" :before
	mkdir -p "$W/store/theirs"
	cp "$F/in/optimizer.pt" "$W/store/theirs/weights"
	mount_store
	diff -r "$F/in" "$M/before"
	cmp "$M/theirs/weights" "$F/in/optimizer.pt"
	cp "$F/in/config.json" "$M/theirs/"
	cmp "$W/store/theirs/config.json" "$F/in/config.json"
	cp "$F/in/model.pt" "$M/theirs/weights"
	ckpt verify theirs | grep -q '^2 files, '
	ckpt cp :theirs/weights "$W/back"
	cmp "$W/back" "$F/in/model.pt"
	# What another node replaces is seen at the next open.
	ckpt cp "$F/in/shard/rank-0.pt" :theirs/weights
	cmp "$M/theirs/weights" "$F/in/shard/rank-0.pt"
	[ "$(df --output=avail "$M" | tail -n 1)" -gt 0 ]
	umount_store
}

@test "bytes that left are written again: headers, by many threads, after an fsync" {
	mount_store --tail=4M
	python3 - "$M/f" <<-'END'
	import os, sys, threading
	f = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o644)
	block = bytes(1 << 20)
	for i in range(40):
	    os.write(f, block)
	os.pwrite(f, b"tail", (39 << 20) + 5)
	os.pwrite(f, b"head", 0)
	os.pwrite(f, b"both", (16 << 20) - 2)
	assert os.pread(f, 4, (39 << 20) + 5) == b"tail"
	assert os.pread(f, 8, 0) == b"head" + bytes(4)
	assert os.pread(f, 6, (16 << 20) - 3) == b"\0both\0"
	os.fsync(f)
	os.pwrite(f, b"HEAD", 0)
	os.close(f)
	f = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
	os.write(f, b"end")
	os.close(f)
	data = open(sys.argv[1], "rb").read()
	assert len(data) == (40 << 20) + 3 and data.endswith(b"end")
	assert data[:5] == b"HEAD\0"
	assert data[(39 << 20) + 5:][:4] == b"tail"
	assert data[(16 << 20) - 3:][:6] == b"\0both\0"

	# Parts of one file, far apart, as sharded checkpoints have them.
	f = os.open(sys.argv[1], os.O_RDWR | os.O_TRUNC)
	os.ftruncate(f, 4 * 30_000_000)
	def part(k):
	    for at in range(0, 30_000_000, 300_000):
	        os.pwrite(f, bytes([k + 1]) * 300_000, k * 30_000_000 + at)
	threads = [threading.Thread(target=part, args=(k,)) for k in range(4)]
	for t in threads: t.start()
	for t in threads: t.join()
	os.close(f)
	data = open(sys.argv[1], "rb").read()
	for k in range(4):
	    assert data[k * 30_000_000:][:30_000_000] == bytes([k + 1]) * 30_000_000, k
	END
	run ln "$M/f" "$M/g"
	[[ $output == *"not permitted"* ]]
	run ln -s f "$M/g"
	[[ $output == *"not permitted"* ]]
	umount_store
	ckpt verify f
}

@test "room that is asked for makes a file longer, and nothing else does fallocate" {
	mount_store
	fallocate -l 50M "$M/f"
	[ "$(stat -c %s "$M/f")" = 52428800 ]
	[ "$(du -sm "$W/store" | cut -f 1)" -lt 20 ]
	python3 - "$M/f" <<-'END'
	import os, sys
	f = os.open(sys.argv[1], os.O_RDWR)
	os.pwrite(f, b"there", 30_000_000)
	os.posix_fallocate(f, 0, 60_000_000)
	os.posix_fallocate(f, 0, 1000)
	assert os.fstat(f).st_size == 60_000_000
	os.close(f)
	data = open(sys.argv[1], "rb").read()
	assert len(data) == 60_000_000 and data[30_000_000:][:6] == b"there\0"
	END
	fallocate -n -l 90M "$M/f"
	[ "$(stat -c %s "$M/f")" = 60000000 ]
	run -1 fallocate -p -o 4096 -l 4096 "$M/f"
	[[ $output == *"upported"* ]]
	grep -q "fallocate failed path=\"f\" reason=\"fallocate(2) of mode 0x3 by 'fallocate' (" \
		"$W"/run/*/log
	umount_store
	ckpt verify
}

@test "a write that is refused fails the file, and the one before stays" {
	mount_store
	printf before >"$M/f"
	python3 - "$M/f" <<-'END'
	import os, sys, errno
	def fails(fn, *args):
	    try:
	        fn(*args)
	    except OSError as e:
	        assert e.errno == errno.EFBIG, e
	    else:
	        sys.exit("taken")
	f = os.open(sys.argv[1], os.O_RDWR | os.O_TRUNC, 0o644)
	os.write(f, bytes(40 << 20))
	fails(os.pwrite, f, b"far", 9 << 40)
	fails(os.write, f, b"more")
	state = os.getxattr(sys.argv[1], "user.bootseer.state")
	assert state.startswith(b"failed: "), state
	fails(os.fsync, f)
	fails(os.close, f)
	END
	[ "$(cat "$M/f")" = before ]
	umount_store
}

@test "files are cut, extended, changed at their ends, mapped" {
	mount_store
	cp "$F/in/config.json" "$M/small"
	printf x >>"$M/small"
	cmp "$M/small" <(cat "$F/in/config.json"; printf x)
	truncate -s 5 "$M/small"
	cmp "$M/small" <(head -c 5 "$F/in/config.json")
	truncate -s 9000000 "$M/small"
	cmp "$M/small" <(head -c 5 "$F/in/config.json"; head -c 8999995 /dev/zero)
	: >"$M/small"
	[ "$(stat -c %s "$M/small")" = 0 ]
	cp "$F/in/model.pt" "$M/large"
	cat "$F/in/config.json" >>"$M/large"
	cmp "$M/large" <(cat "$F/in/model.pt" "$F/in/config.json")
	# Each of them closes it.
	(echo 1; /bin/echo 2; /bin/echo 3) >"$M/lines"
	[ "$(cat "$M/lines")" = $'1\n2\n3' ]
	chmod 600 "$M/large"
	touch -d '2025-05-05 05:05:05.5' "$M/large"
	[ "$(stat -c '%a %y' "$M/large" | cut -c 1-25)" = '600 2025-05-05 05:05:05.5' ]
	python3 - "$M/large" "$F/in/model.pt" <<-'END'
	import mmap, sys
	a = open(sys.argv[1], "rb"); b = open(sys.argv[2], "rb").read()
	m = mmap.mmap(a.fileno(), 0, prot=mmap.PROT_READ)
	for at in (69999000, 37777777, 0, 3 << 20, 60 << 20):
	    assert m[at:at + 1000] == b[at:at + 1000], at
	assert m[:len(b)] == b
	END
	umount_store
}

@test "what nobody wrote is a hole, up to a size that no file has" {
	mount_store
	printf x >"$M/f"
	run -1 truncate -s 9T "$M/f"
	[[ $output == *"File too large"* ]]
	[ "$(cat "$M/f")" = x ]
	run -1 dd if=/dev/zero of="$M/g" bs=1 count=1 seek=9T status=none
	[[ $output == *"File too large"* ]]
	truncate -s 40G "$M/g"
	printf y | dd of="$M/g" bs=1 seek=20G conv=notrunc status=none
	[ "$(stat -c %s "$M/g")" = 42949672960 ]
	[ "$(dd if="$M/g" bs=2 skip=10G count=1 status=none | tr -d '\0')" = y ]
	[ "$(du -sm "$W/store" | cut -f 1)" -lt 40 ]
	python3 - "$M/h" <<-'END'
	import sys
	with open(sys.argv[1], "wb") as f:
	    f.truncate(1 << 40)
	    f.write(b"y" * 9000000)
	    f.truncate(9000000)
	END
	[ "$(tr -d y <"$M/h" | wc -c)" = 0 ]
	[ "$(stat -c %s "$M/h")" = 9000000 ]
	rm "$M/g"
	umount_store
	ckpt verify
}

# As DCP's ranks do, and whatever streams a part of a checkpoint to each GPU.
@test "programs that read or map a part each of a file have each byte fetched once" {
	local how

	noise 268435456 9 >"$W/large"
	mount_store
	cp "$W/large" "$M/f"
	umount_store
	for how in 'read 8' 'read 4' 'mmap 4'; do
		mount_store
		# shellcheck disable=SC2086 # two words
		python3 "$BATS_TEST_DIRNAME/../../bench/tools/read_parts.py" $how "$M/f"
		echo "$how: $(figure bytes_fetched)"
		[ "$(figure bytes_fetched)" -le $((268435456 * 105 / 100)) ]
		umount_store
	done
}

is_read_from_cache()
{
	local n

	mount_store --cache="$W/kept" && cmp "$W/model" "$M/model" &&
		n=$(figure bytes_from_cache) && umount_store && [ "$n" = 20000000 ]
}

@test "a node that has read a file reads it again without the store" {
	local kept

	noise 20000000 5 >"$W/model"
	ckpt cp "$W/model" :model
	# A machine that is busy may take its disk for a slow one, and keep the rest another time.
	wait_for is_read_from_cache
	[ "$(stat -c %a "$W/kept")" = 700 ]
	# The bytes are nowhere else, but for those of a chunk that is damaged here.
	mv "$W/store/.bootseer/data" "$W/data"
	is_read_from_cache
	kept=("$W"/kept/sha256:*)
	printf x | dd of="${kept[0]}" bs=1 seek=5000000 conv=notrunc status=none
	mount_store --cache="$W/kept"
	run ! cmp "$W/model" "$M/model"
	umount_store
	mv "$W/data" "$W/store/.bootseer/data"
	mount_store --cache="$W/kept"
	cmp "$W/model" "$M/model"
	umount_store
	# A folder that others may read is none.
	chmod 755 "$W/kept"
	mount_store --cache="$W/kept"
	cmp "$W/model" "$M/model"
	[ "$(figure bytes_from_cache)" = 0 ]
	grep 'no cache reason=.*mode 0700' "$W"/run/*/log
	umount_store
}

has_kept() # BYTES
{
	[ "$(figure bytes_cached)" -gt "$1" ]
}

@test "a cache leaves a twentieth of its disk to others" {
	local free

	noise 20000000 5 >"$W/model"
	noise 6000000 6 >"$W/small"
	ckpt cp "$W/model" :model
	ckpt cp "$W/small" :small
	mkdir "$W/disk"
	mount -t tmpfs -o size=16m,mode=700 kept "$W/disk"
	mount_store --cache="$W/disk"
	cmp "$W/small" "$M/small"
	wait_for has_kept 5000000
	# What is left is others' now, so that the file before makes room.
	noise 9000000 7 >"$W/disk/others"
	cmp "$W/model" "$M/model"
	wait_for has_kept 7000000
	umount_store
	free=$(stat -f -c '%a * 100 / %b' "$W/disk")
	umount "$W/disk"
	[ "$((free))" -ge 4 ]
}

@test "a file that is removed or replaced stays with those who have it open" {
	remove_while_open
}

@test "files that are open keep it from being unmounted" {
	mount_store
	exec 7>"$M/f"
	echo text >&7
	run -1 umount_store
	[[ $output == *"is in use by "* ]]
	echo more >&7
	exec 7>&-
	[ "$(cat "$M/f")" = $'text\nmore' ]
	run -1 "$bootseer" ckpt mount --run="$W/run" "$STORE" "$M" 3>&-
	[[ $output == *"something is mounted on"* ]]
	# The kernel says so after the close, to which it is no answer.
	wait_for is_figure files_written 0
	umount_store
	is_over
	run -1 umount_store
	[[ $output == *"is no mount of 'bootseer ckpt'"* ]]
}

is_figure() # KEY VALUE
{
	[ "$(figure "$1")" = "$2" ]
}

# The kernel has a close answered, and releases the file when it gets to it: trainers rename
# the folder that they saved to as soon as they have closed the last file in it.
@test "what was closed is done, also before the kernel has released it" {
	LD_PRELOAD=$BOOTSEER_BUILD/tests/fakes/test-hold-release.so \
		HOLD_RELEASE=$W/hold mount_store
	: >"$W/hold"
	mkdir "$M/d.tmp"
	printf 0123456789 >"$M/d.tmp/f"
	mv -T "$M/d.tmp" "$M/d"
	python3 -c 'import os, sys; os.truncate(sys.argv[1], 4)' "$M/d/f"
	ckpt cp :d/f "$W/back"
	[ "$(cat "$W/back")" = 0123 ]
	# By then it is written under its new name.
	printf more >>"$M/d/f"
	[ "$(ckpt ls)" = d/ ]
	ckpt cp :d/f "$W/back"
	[ "$(cat "$W/back")" = 0123more ]
	[ "$(figure files_written)" = 1 ]
	rm "$W/hold"
	wait_for is_figure files_written 0
	[ "$(cat "$M/d/f")" = 0123more ]
	umount_store
	[ "$(ckpt ls)" = d/ ]
}

hold() { : >"$W/hold"; }

let_go()
{
	rm "$W/hold"
	wait_for is_figure files_written 0
}

# A program that is killed when it has written half of f, and not released.
kill_half()
{
	local pid

	hold
	# shellcheck disable=SC2016 # perl's
	perl -e 'open(my $f, ">", $ARGV[0]) or die; syswrite($f, "half") or die;
		kill("STOP", $$)' "$M/f" 3>&- &
	pid=$!
	wait_for is_stopped "$pid"
	kill -9 "$pid"
	wait_fails "$pid"
}

@test "what a killed program left is nobody's, also before the kernel has released it" {
	LD_PRELOAD=$BOOTSEER_BUILD/tests/fakes/test-hold-release.so \
		HOLD_RELEASE=$W/hold mount_store
	printf 0123456789 >"$M/f"
	kill_half
	python3 -c 'import os, sys; os.truncate(sys.argv[1], 6)' "$M/f"
	[ "$(cat "$W/store/f")" = 012345 ]
	let_go
	kill_half
	printf more >>"$M/f"
	[ "$(cat "$W/store/f")" = 012345more ]
	let_go
	kill_half
	setfattr -n user.a -v b "$M/f"
	let_go
	[ "$(getfattr --only-values --absolute-names -n user.a "$M/f")" = b ]
	kill_half
	chmod 640 "$M/f"
	let_go
	[ "$(stat -c %a "$M/f")" = 640 ]
	kill_half
	mv "$M/f" "$M/g"
	[ "$(cat "$M/g")" = 012345more ]
	let_go
	umount_store
	ckpt cp :g "$W/back"
	[ "$(cat "$W/back")" = 012345more ]
}

# Workers inherit what their trainer has open.
@test "a file is its writer's when a child that inherited it is killed" {
	mount_store
	python3 - "$M/f" <<-'END'
		import os, signal, sys
		name = sys.argv[1]
		f = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644)
		os.write(f, b"all of it")
		child = os.fork()
		if child == 0:
		    signal.pause()
		os.kill(child, signal.SIGKILL)
		os.waitpid(child, 0)
		os.fchmod(f, 0o600)
		os.setxattr(f, "user.a", b"b")
		os.rename(name, name + ".moved")
		os.truncate(name + ".moved", 3)
		os.write(f, b"more")
		os.close(f)
	END
	ckpt cp :f.moved "$W/back"
	[ "$(tr -d '\0' <"$W/back")" = allmore ]
	[ "$(getfattr --only-values --absolute-names -n user.a "$M/f.moved")" = b ]
	umount_store
}

# What a trainer does to a file until it is killed; a worker that it forked has the file open,
# too, and ends later as it should: when it is told so, or `early`, as soon as a pipe of the
# trainer's closes.
kill_trainer() # FILE WHO-WRITES [anew|append [early]]
{
	python3 - "$@" <<-'END'
		import os, signal, sys
		name, who, how, when = sys.argv[1:] + ["anew", "late"][len(sys.argv) - 3:]
		end, ended = os.pipe()
		dies, died = os.pipe()
		written, wrote = os.pipe()
		flags = os.O_RDWR | (os.O_TRUNC if how == "anew" else os.O_APPEND)
		trainer = os.fork()
		if trainer == 0:
		    os.close(ended)
		    f = os.open(name, flags)
		    if who != "worker":
		        os.write(f, b"half")
		    if os.fork() == 0:
		        os.close(died)
		        if who in ("worker", "both"):
		            os.write(f, b"worker's")
		        os.write(wrote, b"x")
		        os.read(dies if when == "early" else end, 1)
		        if who == "later":
		            os.write(f, b" and on")
		        if who == "syncs":
		            try:
		                os.fsync(f)
		            except OSError as e:
		                os.write(wrote, b"x" if e.errno == 5 else b"o")
		        os.close(f)
		        os._exit(0)
		    signal.pause()
		os.close(wrote)
		os.close(died)
		os.read(written, 1)
		os.kill(trainer, signal.SIGKILL)
		if when != "early":
		    os.waitpid(trainer, 0)
		os.write(ended, b"x")
		# The worker ends, and is waited for by way of its end of the pipe.
		assert os.read(written, 2) == (b"x" if who == "syncs" else b"")
		if when == "early":
		    os.waitpid(trainer, 0)
	END
}

@test "what a trainer was killed over is not stored when its worker ends" {
	mount_store
	printf before >"$M/f"
	for who in trainer syncs; do
		kill_trainer "$M/f" "$who"
		[ "$(cat "$M/f")" = before ]
		kill_trainer "$M/f" "$who" append
		[ "$(cat "$M/f")" = before ]
	done
	for _ in {1..10}; do
		kill_trainer "$M/f" trainer anew early
		[ "$(cat "$M/f")" = before ]
	done
	printf ' more' >>"$M/f"
	[ "$(cat "$M/f")" = "before more" ]
	grep -q 'not stored path="f" reason=' "$W"/run/*/log
	for who in worker both; do
		kill_trainer "$M/f" "$who"
		[ "$(cat "$M/f")" = "before more" ]
	done
	# The worker writes after that, and is the one that has the file then.
	kill_trainer "$M/f" later
	[ "$(cat "$M/f")" = "half and on" ]
	umount_store
}

# Whoever started it has closed the file already.
@test "what a script writes is stored, though programs that it starts are killed" {
	mount_store
	for close in True False; do
		python3 -c '
import subprocess, sys
f = open(sys.argv[1], "w")
p = subprocess.Popen(["bash", "-c", """echo one; /bin/echo two
	sh -c "echo three; kill -9 \$\$"
	tail -f /dev/null & kill -9 $!; wait; echo four"""], stdout=f, stderr=subprocess.DEVNULL)
if sys.argv[2] == "True":
    f.close()
p.wait()' "$M/f" "$close"
		[ "$(tr "\n" " " <"$M/f")" = "one two three four " ]
	done
	umount_store
}

# Ranks that have a file open each, of which one is killed.
@test "what one of two writers was killed over is not stored by the other, who is told" {
	mount_store
	printf before >"$M/f"
	python3 - "$M/f" <<-'END'
		import errno, os, signal, sys
		name = sys.argv[1]
		def rank(flags, text):
		    wrote, writes = os.pipe()
		    pid = os.fork()
		    if pid == 0:
		        os.write(os.open(name, flags), text)
		        os.write(writes, b"x")
		        signal.pause()
		    os.read(wrote, 1)
		    return pid
		def kill(pid):
		    os.kill(pid, signal.SIGKILL)
		    os.waitpid(pid, 0)
		def fails(call, *args):
		    try:
		        call(*args)
		    except OSError as e:
		        return e.errno == errno.EIO
		state = lambda: os.getxattr(name, "user.bootseer.state")
		f = os.open(name, os.O_RDWR)
		pid = rank(os.O_WRONLY, b"half")
		os.pwrite(f, b"mine", 2)
		kill(pid)
		assert state().startswith(b"failed: "), state()
		assert fails(os.fsync, f) and fails(os.close, f)
		assert open(name).read() == "before"
		# Who begins anew has nothing of what one that is killed later wrote before.
		pid = rank(os.O_WRONLY, b"half")
		f = os.open(name, os.O_RDWR | os.O_TRUNC)
		os.write(f, b"anew")
		kill(pid)
		os.close(f)
		assert open(name).read() == "anew"
		# An empty file is half of something, too.
		pid = os.fork()
		if pid == 0:
		    os.ftruncate(os.open(name, os.O_RDWR), 0)
		    os.kill(os.getpid(), signal.SIGKILL)
		os.waitpid(pid, 0)
		assert open(name).read() == "anew"
		# Who wrote nothing leaves nothing of the others torn.
		f = os.open(name, os.O_RDWR | os.O_APPEND)
		pid = rank(os.O_WRONLY, b"")
		os.write(f, b"er")
		kill(pid)
		os.close(f)
		assert open(name).read() == "anewer"
	END
	grep -q 'failed path="f" .*was killed' "$W"/run/*/log
	umount_store
}

# A writer that is killed over half of f, after what PYTHON does with it.
kill_over() # PYTHON
{
	run -137 python3 -c '
import os, signal, socket, subprocess, sys
name = sys.argv[1]
def killed(): os.kill(os.getpid(), signal.SIGKILL)
def written(flags, text):
    f = os.open(name, flags)
    os.write(f, text)
    return f
'"$1" "$M/f"
}

@test "a close by others, or an early one, stores no half of a program that is killed later" {
	mount_store
	printf before >"$M/f"
	kill_over '
f = written(os.O_RDWR | os.O_TRUNC, b"half")
subprocess.check_call(["sh", "-c", ": >>\"$0\"", name])
killed()'
	[ "$(cat "$W/store/f")" = before ]
	# shellcheck disable=SC2016 # the child's
	run -137 bash -c 'exec 9>>"$1"; { printf half; kill -9 $$; } >"$1"' - "$M/f"
	[ "$(cat "$M/f")" = before ]
	# A descriptor in a message is seen nowhere.
	kill_over '
f = written(os.O_RDWR | os.O_TRUNC, b"first")
one, other = socket.socketpair()
socket.send_fds(one, [b"x"], [f])
os.close(f)
f = socket.recv_fds(other, 1, 1)[1][0]
os.pwrite(f, b"half", 0)
killed()'
	[ "$(cat "$M/f")" = first ]
	umount_store
}

@test "what a child was killed over is not stored, though who opened it has closed it" {
	mount_store
	printf before >"$M/f"
	kill_over '
f = open(name, "r+b")
p = subprocess.Popen(["sh", "-c", "read x; printf half; kill -9 $$"],
                     stdin=subprocess.PIPE, stdout=f)
f.close()
p.communicate(b"\n")
killed()'
	wait_for is_figure files_written 0
	[ "$(cat "$W/store/f")" = before ]
	grep -q 'not stored path="f" reason=' "$W"/run/*/log
	umount_store
}

@test "a file that a process has open twice is stored by the close of each" {
	mount_store
	python3 - "$M/f" "$W/store/f" <<-'END'
		import os, sys
		name, stored = sys.argv[1:]
		has = lambda text: open(stored).read() == text
		leaked = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644)
		f = os.open(name, os.O_WRONLY | os.O_TRUNC)
		os.write(f, b"again")
		os.close(f)
		assert has("again"), open(stored).read()
		# A child that has one of them stores what it writes after that.
		end, ended = os.pipe()
		if (child := os.fork()) == 0:
		    os.read(end, 1)
		    os.write(leaked, b"child")
		    os.close(leaked)
		    os._exit(0 if has("child") else 1)
		f = os.open(name, os.O_WRONLY)
		os.close(leaked)
		os.write(ended, b"x")
		assert os.waitpid(child, 0)[1] == 0, open(stored).read()
		os.close(f)
	END
	umount_store
}

@test "a file that is open since before a restart is stored by the close of another descriptor" {
	mount_store
	exec 8>"$M/f"
	printf lost >&8
	kill -9 "$(figure pid)"
	wait_for is_restarted
	printf again >"$M/f"
	[ "$(cat "$W/store/f")" = again ]
	# shellcheck disable=SC2016 # the child's
	run -137 bash -c '{ printf half; kill -9 $$; } >"$1"' - "$M/f"
	[ "$(cat "$M/f")" = again ]
	exec 8>&- || :
	umount_store
}

# The kernel ends the other threads as it ends those of a program that is killed.
@test "a program of many threads that exits has stored what it wrote" {
	mount_store
	for i in {1..10}; do
		python3 -c '
import os, signal, sys, threading
for _ in range(8):
    threading.Thread(target=signal.pause, daemon=True).start()
os.write(1, sys.argv[1].encode())
os._exit(int(sys.argv[1]) % 2)' "$i" >"$M/f" || [ $((i % 2)) = 1 ]
		[ "$(cat "$W/store/f")" = "$i" ]
	done
	umount_store
}

# A shell that has a file open for the programs that it starts.
@test "who opened a file stores what its killed child wrote, and may write on" {
	mount_store
	printf before >"$M/f"
	(
		# shellcheck disable=SC2016 # the child's
		sh -c 'printf half; kill -9 $$' || :
		[ "$(cat "$M/f")" = before ]
		printf ' and on'
	) >"$M/f"
	[ "$(cat "$M/f")" = "half and on" ]
	# shellcheck disable=SC2016 # the child's
	(sh -c 'printf child; kill -9 $$' || :) >"$M/f"
	[ "$(cat "$M/f")" = child ]
	umount_store
}

# The writer that has closed it may have been followed by another node's.
@test "who opens a file before the kernel has released it has what is in the store" {
	LD_PRELOAD=$BOOTSEER_BUILD/tests/fakes/test-hold-release.so \
		HOLD_RELEASE=$W/hold mount_store
	hold
	printf first >"$M/f"
	ckpt cp "$F/in/optimizer.pt" :f
	printf more >>"$M/f"
	ckpt cp :f "$W/back"
	{ cat "$F/in/optimizer.pt"; printf more; } | cmp "$W/back"
	printf other >"$W/other"
	ckpt cp "$W/other" :f
	python3 -c 'import os, sys; os.truncate(sys.argv[1], 3)' "$M/f"
	[ "$(cat "$W/store/f")" = oth ]
	ckpt rm f
	printf again >>"$M/f"
	[ "$(cat "$W/store/f")" = again ]
	let_go
	[ "$(cat "$M/f")" = again ]
	umount_store
}

@test "a program that is killed while it writes leaves the file before" {
	kill_writer
}

xattr() # NAME FILE
{
	getfattr --absolute-names --only-values -n "user.$1" "$2"
}

xattrs() # FILE
{
	getfattr --absolute-names -d "$1" | grep -v '^#' | tr -d '\n'
}

keep_xattrs()
{
	local before

	mkdir "$M/d"
	cp "$F/in/optimizer.pt" "$M/d/large"
	cp "$F/in/config.json" "$M/d/small"
	for f in "$M" "$M/d" "$M/d/large" "$M/d/small"; do
		setfattr -n user.step -v 100 "$f"
		setfattr -n user.a -v "$(head -c 500 <(yes x))" "$f"
		setfattr -n user.b "$f"
		setfattr -x user.a "$f"
		[ "$(xattrs "$f")" = 'user.b=""user.step="100"' ]
	done
	cmp "$M/d/small" "$F/in/config.json"
	# Small files have a place for these then, too.
	chmod 600 "$M/d/small"
	touch -d '2025-05-05 05:05:05' "$M/d/small"
	[ "$(stat -c '%a %y' "$M/d/small" | cut -c 1-23)" = '600 2025-05-05 05:05:05' ]
	run -1 setfattr -x user.a "$M/d/small"
	[[ $output == *"No such attribute"* ]]
	run -1 setfattr -n security.a -v x "$M/d/small"
	[[ $output == *"upported"* ]]

	# What a program that copies them does.
	cp -a "$M/d" "$M/copy"
	tar --xattrs -cf "$M/t.tar" -C "$M" d
	mkdir "$M/t"
	tar --xattrs -xf "$M/t.tar" -C "$M/t"
	rsync -aX "$M/d/" "$M/r/"
	for f in copy copy/large copy/small t/d t/d/large t/d/small r r/large r/small; do
		[ "$(xattrs "$M/$f")" = 'user.b=""user.step="100"' ]
	done
	cmp "$M/r/large" "$F/in/optimizer.pt"
	cmp "$M/t/d/small" "$F/in/config.json"

	# Whatever is done to the file.
	echo more >>"$M/d/large"
	echo more >>"$M/d/small"
	chmod 640 "$M/d/large"
	mv "$M/d/small" "$M/d/renamed"
	echo anew >"$M/d/renamed"
	mv "$M/d" "$M/e"
	for f in e e/large e/renamed; do
		[ "$(xattrs "$M/$f")" = 'user.b=""user.step="100"' ]
	done
	[ "$(cat "$M/e/renamed")" = anew ]
	umount_store
	mount_store
	[ "$(xattr step "$M/e/large")" = 100 ]
	[ "$(xattr step "$M")" = 100 ]
	umount_store
	ckpt verify >&2
}

@test "extended attributes are kept: setfattr, cp -a, tar, rsync" {
	mount_store
	keep_xattrs
}

@test "so they are in a bucket" {
	bucket
	mount_store
	keep_xattrs
}

@test "extended attributes have a bound, and the mount's own are its own" {
	mount_store
	cp "$F/in/model.pt" "$M/f"
	python3 - "$M/f" <<-'END'
	import errno, os, sys
	f = sys.argv[1]
	def refused(code, *args):
	    try:
	        os.setxattr(f, *args)
	    except OSError as e:
	        assert e.errno == code, e
	    else:
	        sys.exit(f"{args[0]} was taken")
	os.setxattr(f, "user.x", b"y" * 60000)
	refused(errno.ENOSPC, "user.z", b"y" * 6000)
	refused(errno.EEXIST, "user.x", b"", os.XATTR_CREATE)
	refused(errno.ENODATA, "user.q", b"", os.XATTR_REPLACE)
	refused(errno.EPERM, "user.bootseer.state", b"durable")
	refused(errno.EPERM, "user.bootseer.layout", b"plain")
	assert os.getxattr(f, "user.x") == b"y" * 60000
	assert os.listxattr(f) == ["user.x"]
	END
	[[ $(xattr bootseer.layout "$M/f") == 'striped columns=8 unit=4194304 '* ]]
	[ "$(xattr bootseer.state "$M/f")" = durable ]
	echo text >"$M/g"
	[ "$(xattr bootseer.layout "$M/g")" = plain ]
	mkdir "$M/d"
	setfattr -n user.bootseer_columns -v 2 "$M/d"
	# As older mounts kept how wide files below are.
	python3 - "$W/store/d/.bootseer-folder" <<-'END'
	import sys
	def crc32c(data):
	    c = 0xffffffff
	    for byte in data:
	        c ^= byte
	        for _ in range(8):
	            c = c >> 1 ^ (0x82f63b78 if c & 1 else 0)
	    return c ^ 0xffffffff
	with open(sys.argv[1], "rb+") as f:
	    data = f.read()[:-16].replace(b"bootseer_columns", b"bootseer.columns")
	    f.seek(0)
	    f.write(data + crc32c(data).to_bytes(4, "little"))
	END
	[ "$(xattr bootseer.columns "$M/d")" = 2 ]
	setfattr -x user.bootseer.columns "$M/d"
	run -1 xattr bootseer.columns "$M/d"
	umount_store
}

@test "a mount says how files in it are striped" {
	run -2 "$bootseer" ckpt mount --run="$W/run" --columns=65 "$STORE" "$M" 3>&-
	[[ $output == *"columns"* ]]
	mount_store --columns=3
	cp "$F/in/model.pt" "$M/f"
	cp "$F/in/optimizer.pt" "$M/g"
	[ "$(ckpt stat f | jq .columns)" = 3 ]
	[ "$(ckpt stat g | jq .columns)" = 2 ]
	cmp "$M/f" "$F/in/model.pt"
	umount_store
	mount_store
	cp "$F/in/model.pt" "$M/f"
	[ "$(ckpt stat f | jq .columns)" = 8 ]
	umount_store
}

state() # FILE
{
	getfattr --absolute-names --only-values -n user.bootseer.state "$1"
}

is_state() # FILE PATTERN
{
	# shellcheck disable=SC2053 # it is a pattern
	[[ $(state "$1") == $2 ]]
}

@test "with --close=buffered a close waits for memory, and fsync for the store" {
	bucket
	direct=$STORE
	fault_proxy "$AT" "$W"
	STORE="s3://bkt/ckpt?endpoint=http://$PROXY"
	mount_store --close=buffered --memory=256M
	cp "$F/in/config.json" "$M/old"
	sync "$M/old"
	is_state "$M/old" durable

	fault match='^PUT .*(new|data)' kind=status code=503 times=100000
	fault match='^POST ' kind=status code=503 times=100000
	cp "$F/in/optimizer.pt" "$M/new"
	is_state "$M/new" buffered
	[ "$(figure files_staged)" = 1 ]
	[ "$(stat -c %s "$M/new")" = 5000000 ]
	[ "$(ls "$M")" = $'new\nold' ]
	STORE=$direct run -1 ckpt stat new
	curl -sf -X POST "http://$PROXY/clear"
	wait_for is_state "$M/new" durable
	STORE=$direct ckpt cp :new "$W/back"
	cmp "$W/back" "$F/in/optimizer.pt"

	# What was closed is what is opened, renamed and unmounted.
	cp "$F/in/model.pt" "$M/x.tmp"
	cmp "$M/x.tmp" "$F/in/model.pt"
	cp "$F/in/shard/rank-0.pt" "$M/x.tmp"
	mv "$M/x.tmp" "$M/x"
	is_state "$M/x" durable
	cp -r "$F/in" "$M/step-1.tmp"
	mv "$M/step-1.tmp" "$M/step-1"
	cp "$F/in/model.pt" "$M/last"
	umount_store
	STORE=$direct ckpt cp -r :step-1 "$W/step-1"
	diff -r "$F/in" "$W/step-1"
	STORE=$direct ckpt cp :last "$W/last"
	cmp "$W/last" "$F/in/model.pt"
}

@test "what was closed and could not be stored is told of, and never read as stored" {
	bucket
	fault_proxy "$AT" "$W"
	STORE="s3://bkt/ckpt?endpoint=http://$PROXY"
	mount_store --close=buffered
	cp "$F/in/config.json" "$M/f"
	sync "$M/f"

	fault match='^PUT ' kind=status code=403 times=100000
	fault match='^POST ' kind=status code=403 times=100000
	cp "$F/in/optimizer.pt" "$M/f"
	cp "$F/in/optimizer.pt" "$M/g"
	wait_for is_state "$M/f" 'failed: *'
	wait_for is_state "$M/g" 'failed: *403*'
	[ "$(figure files_lost)" = 2 ]
	grep -q 'lost path="g"' "$W"/run/*/log
	# An fsync of theirs, and of their folder.
	run -1 sync "$M/g"
	run -1 cat "$M/g"
	[[ $output == *"Input/output error"* ]]
	run -1 bash -c 'echo more >>"$1"' - "$M/f"
	[[ $output == *"Input/output error"* ]]
	run -1 mv "$M/g" "$M/h"
	[[ $output == *"Input/output error"* ]]
	run -1 umount_store
	[[ $output == *"not in the store: f"*"'lost' in '$W/run/"*"/log' says why"* ]]

	curl -sf -X POST "http://$PROXY/clear"
	rm "$M/g"
	[ ! -e "$M/g" ]
	cp "$F/in/optimizer.pt" "$M/f"
	sync "$M/f"
	is_state "$M/f" durable
	[ "$(figure files_lost)" = 0 ]
	umount_store
}

@test "what was staged when the mount's process was killed is told of" {
	bucket
	fault_proxy "$AT" "$W"
	STORE="s3://bkt/ckpt?endpoint=http://$PROXY"
	mount_store --close=buffered
	cp "$F/in/config.json" "$M/f"
	sync "$M/f"
	fault match='^PUT .*/ckpt/(f|.bootseer/data)' kind=status code=503 times=100000
	cp "$F/in/optimizer.pt" "$M/f"
	kill -9 "$(figure pid)"
	wait_for is_restarted
	is_state "$M/f" 'failed: *restarted*'
	run -1 cat "$M/f"
	# Not before: what the one that was killed had sent might be stored.
	curl -sf -X POST "http://$PROXY/clear"
	cp "$F/in/optimizer.pt" "$M/f"
	cmp "$M/f" "$F/in/optimizer.pt"
	umount_store
}

@test "what was lost with the mount's process is told to whoever asks, until it is mended" {
	local i

	bucket
	fault_proxy "$AT" "$W"
	STORE="s3://bkt/ckpt?endpoint=http://$PROXY"
	mount_store --close=buffered
	fault match='^PUT .*/ckpt/f[1-6]' kind=status code=503 times=100000
	for i in 1 2 3 4 5 6; do
		echo "$i" >"$M/f$i"
	done
	kill -9 "$(figure pid)"
	wait_for is_restarted
	curl -sf -X POST "http://$PROXY/clear"
	"$bootseer" ckpt status --run="$W/run" "$M" 2>&1 >"$W/json" | sed q |
		grep -q "'$M' has lost 6 files that were closed"
	run -1 sync "$M"
	run -1 sync "$M"
	run -1 sync "$M/f3"
	[[ $output == *"Input/output error"* ]]
	run -1 umount_store
	[[ $output == *"not in the store: f1"*"it once more"*"6 files that were closed"* ]]
	[ "$(grep -c '^not in the store: f[1-6]$' <<<"$output")" = 6 ]
	# Those that are written again are not lost.
	echo 1 >"$M/f1"
	rm "$M/f2"
	[ "$(figure files_lost)" = 4 ]
	run -1 umount_store
	[[ $output == *"it is unmounted: 4 files that were closed"* ]]
	[ "$(grep -c 'lost path="f[1-6]"' "$W"/run/*/log)" = 6 ]
	mount_store
	[ "$(grep -c 'lost path="f[1-6]"' "$W"/run/*/log.before)" = 6 ]
	sync "$M"
	umount_store
	[ ! -e "$W/run" ]
}

@test "a mount whose process is older than mount.sock is asked, and is waited for" {
	local run pid

	mount_store --close=buffered
	run=$(echo "$W"/run/*) pid=$(figure pid)
	curl -sS --unix-socket "$run/mount.sock" http://mount/status >"$W/status"
	python3 - "$run" "$W/status" 3>&- <<-'END' &
		import os, socket, sys
		s = socket.socket(socket.AF_UNIX)
		s.bind(sys.argv[1] + "/status.sock")
		s.listen()
		os.unlink(sys.argv[1] + "/mount.sock")
		while True:
		    s.accept()[0].sendall(open(sys.argv[2], "rb").read())
	END
	PIDS+=($!)
	wait_for test ! -e "$run/mount.sock"
	[ "$(figure pid)" = "$pid" ]
	umount_store >"$W/said" 2>&1
	[ ! -s "$W/said" ]
	[ ! -e "/proc/$pid" ]
}

is_settled()
{
	[ "$(figure files_staged)" = 0 ] && [ "$(figure commits)" -ge "$1" ]
}

@test "what was stored after its close is not taken for lost by a successor" {
	mount_store --close=buffered
	# Mapped, without the descriptor that Python's own mmap keeps: the kernel does not
	# release it yet.
	mkfifo "$W/fifo"
	python3 - "$M/f" "$W/fifo" 3>&- <<-'END' &
	import ctypes, os, sys
	mmap = ctypes.CDLL(None).mmap
	mmap.argtypes = [ctypes.c_void_p] + [ctypes.c_size_t] * 5
	fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
	os.write(fd, b"x" * 5000)
	mmap(None, 5000, 1, 2, fd, 0)
	os.close(fd)
	open(sys.argv[2]).read()
	END
	pid=$!
	exec 7>"$W/fifo"
	wait_for is_settled 1
	kill -9 "$(figure pid)"
	wait_for is_restarted
	[ "$(cat "$M/f")" = "$(head -c 5000 <(yes x | tr -d '\n'))" ]
	is_state "$M/f" durable
	exec 7>&-
	wait "$pid"
	umount_store
}

@test "a mount whose process is killed goes on: its readers, and the files before" {
	kill_mount
}

# What the descriptor has from where it is: bytes of model.pt, or no more.
expect_rest() # FD
{
	cat <&"$1" >"$W/rest" 2>"$W/why" || grep -q 'Stale file handle' "$W/why"
	is_rest "$F/in/model.pt" 1000000 "$(stat -c %s "$W/rest")" <"$W/rest"
}

keep_versions() # whether readers of files that are replaced here go on
{
	local f fd at=4

	mount_store
	for f in changed renamed removed elsewhere; do
		cp "$F/in/model.pt" "$M/$f"
		at=$((at + 1))
		eval "exec $at<\"\$M/\$f\""
		head -c 1000000 <&$at | cmp -n 1000000 - "$F/in/model.pt"
	done
	cp "$F/in/optimizer.pt" "$M/x.tmp"
	kill -9 "$(figure pid)"
	wait_for is_restarted
	# By the name, and not by what is open.
	cp "$F/in/shard/rank-0.pt" "$M/changed"
	mv "$M/x.tmp" "$M/renamed"
	rm "$M/removed"
	ckpt cp "$F/in/shard/rank-0.pt" :elsewhere
	for fd in 5 6 7; do
		expect_rest $fd
		[ "$(stat -c %s "$W/rest")" = 69000001 ]
	done
	# Of what another node has replaced nobody here knows the old manifest.
	expect_rest 8
	grep -q 'Stale file handle' "$W/why"
	# What is new is seen by whoever opens it.
	cmp "$M/changed" "$F/in/shard/rank-0.pt"
	cmp "$M/renamed" "$F/in/optimizer.pt"
	cmp "$M/elsewhere" "$F/in/shard/rank-0.pt"
	expect_rest 8
	exec 5<&- 6<&- 7<&- 8<&-
	umount_store
}

@test "readers of before a restart get no byte of what replaced their file" {
	keep_versions
}

@test "readers of before a restart go on when one of after it closes their file" {
	local f file=$F/in/shard/rank-0.pt

	mount_store
	for f in removed elsewhere; do
		cp "$file" "$M/$f"
	done
	exec 5<"$M/removed" 6<"$M/elsewhere"
	for f in 5 6; do
		head -c 1000000 <&$f | cmp -n 1000000 - "$file"
	done
	kill -9 "$(figure pid)"
	wait_for is_restarted
	exec 7<"$M/removed" 8<"$M/elsewhere"
	rm "$M/removed"
	# Read on by way of what the second one has open.
	head -c 1000000 <&6 | is_rest "$file" 1000000 1000000
	exec 7<&- 8<&-
	ckpt cp "$F/in/optimizer.pt" :elsewhere
	is_rest "$file" 1000000 <&5
	is_rest "$file" 2000000 <&6
	exec 5<&- 6<&-
	umount_store
}

# The kernel cuts at the size that it is told what programs read.
@test "a file that gets shorter is no end to readers of before a restart" {
	local how

	mount_store
	for how in stat read list; do
		head -c 3000000 "$F/in/model.pt" >"$M/f"
		exec 5<"$M/f"
		head -c 1000000 <&5 | cmp -n 1000000 - "$F/in/model.pt"
		kill -9 "$(figure pid)"
		wait_for is_restarted
		ckpt cp "$F/in/config.json" :f
		case $how in
		stat) cmp "$M/f" "$F/in/config.json" ;;
		list) ls -l "$M" ;;
		esac
		run -1 cat <&5
		[[ $output == *"Stale file handle" ]]
		exec 5<&-
		umount_store
		mount_store
	done
	umount_store
}

@test "no file goes from readers of before a restart while the store does not say which" {
	local file=$F/in/optimizer.pt i

	bucket
	fault_proxy "$AT" "$W"
	STORE="s3://bkt/ckpt?endpoint=http://$PROXY"
	mount_store
	for i in 5 6 7 8; do
		cp "$file" "$M/f$i"
		cp "$F/in/config.json" "$M/g$i"
		eval "exec $i<\"\$M/f\$i\""
		head -c 100000 <&$i | cmp -n 100000 - "$file"
	done
	kill -9 "$(figure pid)"
	wait_for is_restarted
	# The kernel asks for attributes first, unless it knows them.
	for i in 0 1; do
		fault match='^GET .*/f5.bsm' kind=status code=403 \
			skip=$i times=100
		run python3 -c 'import os; os.pread(5, 1000, 2000000)'
		[[ $output != *"Stale file handle"* ]]
		curl -sf -X POST "http://$PROXY/clear"
	done
	is_rest "$file" 100000 <&5
	# Whichever of the questions has no answer.
	for i in 6 7 8; do
		fault match="^GET .*/f$i.bsm" kind=status code=403 \
			skip=$((i - 6)) times=1
		if ((i == 7)); then
			mv "$M/g$i" "$M/f$i" || :
		else
			rm "$M/f$i" || :
		fi
		curl -sf -X POST "http://$PROXY/clear"
		rm -f "$M/f$i"
		is_rest "$file" 100000 <&$i
	done
	exec 5<&- 6<&- 7<&- 8<&-
	umount_store
}

is_unserved()
{
	run "$bootseer" ckpt status --run="$W/run" "$M"
	[[ $output == *"is mounted, and nobody serves it"* ]]
}

# Reads the file behind what it has open when a line comes by the FIFO; not a descriptor of
# this shell, whose children would wait when they close it.  $reader is the process.
read_later() # FILE FIFO
{
	mkfifo "$2"
	bash -ec ': >"$1.open"; read -r _ <"$1"; cmp - "$2"' - "$2" "$F/in/config.json" \
		<"$1" 3>&- &
	reader=$!
	wait_for test -e "$2.open"
}

@test "a mount whose store is away goes on when that is back, or is given up" {
	local pid reader

	mount_store --close=buffered
	pid=$(figure pid) holder=$(parent_of "$pid")
	[ "$(cat "/proc/$pid/comm")" = bootseer-ckpt ]
	cp "$F/in/config.json" "$M/f"
	sync "$M/f"
	read_later "$M/f" "$W/fifo"
	mv "$W/store" "$W/away"
	kill -9 "$pid"
	wait_for grep -q 'child ended code=1 ' "$W"/run/*/log
	is_unserved
	rm -r "$W"/run/*
	mv "$W/away" "$W/store"
	wait_for is_restarted
	echo >"$W/fifo"
	wait "$reader"

	# Without its store, its folder in --run and its mount point nothing is tried again.
	pid=$(figure pid)
	mv "$W/store" "$W/away"
	# A successor that began before it was unmounted would make the folder anew.
	kill -STOP "$holder"
	kill -9 "$pid"
	wait_for is_unserved
	umount_store
	rmdir "$M"
	kill -CONT "$holder"
	wait_for has_ended "$holder"
	[ ! -e "$W/run" ]
	mkdir "$M"
}

has_child() { child=$(pgrep -P "$1"); } # PID

# Interrupted by a signal while its store is away, its process with it.
interrupt() # SIGNAL STATUS [OPTION...]
{
	local pid status=0 processes

	# What runs in the background of a script ignores SIGINT.
	env --default-signal=INT "$bootseer" ckpt mount --run="$W/run" "${@:3}" "$STORE" "$M" \
		2>"$W/said" 3>&- &
	pid=$!
	processes=("$pid")
	if [ "$#" = 2 ]; then
		wait_for has_child "$pid"
		processes+=("$child")
		wait_for has_child "$child"
		processes+=("$child")
	fi
	# It waits for an answer.
	wait_for grep -q "^Name:.bootseer-ckpt" "/proc/${processes[-1]}/status"
	wait_for waits_for_proxy "${processes[-1]}"
	kill -"$1" "$pid"
	wait "$pid" || status=$?
	[ "$status" = "$2" ]
	for pid in "${processes[@]}"; do
		has_ended "$pid"
	done
	run ! mountpoint -q "$M"
}

waits_for_proxy() # PID
{
	ss -tnpH state established dport = "${PROXY#*:}" | grep -q "pid=$1,"
}

@test "a mount that is interrupted while its store is away leaves nothing" {
	local child

	bucket
	fault_proxy "$AT" "$W"
	STORE="s3://bkt/ckpt?endpoint=http://$PROXY"
	fault match=. kind=hold times=100000
	interrupt TERM 143
	[ ! -e "$W/run" ]
	grep -q 'interrupted: nothing is mounted' "$W/said"
	interrupt INT 130
	[ ! -e "$W/run" ]
	interrupt TERM 0 --foreground
	grep -q 'ended before it was mounted' "$W/said"
}

# The killed process is the holder's child for a moment longer, and a successor whose store stays
# away has one of its own.
successor_waits() # HOLDER KILLED
{
	has_child "$1" && [ "$child" != "$2" ] && waits_for_proxy "$child"
}

@test "a successor that is told to end while its store is away unmounts when it is there" {
	local child holder pid

	bucket
	fault_proxy "$AT" "$W"
	STORE="s3://bkt/ckpt?endpoint=http://$PROXY" mount_store
	pid=$(figure pid) holder=$(parent_of "$pid")
	fault match=. kind=wait times=100000
	kill -9 "$pid"
	wait_for successor_waits "$holder" "$pid"
	kill -TERM "$child"
	curl -sf -d '' "http://$PROXY/clear"
	curl -sf -d '' "http://$PROXY/go"
	wait_for has_ended "$holder"
	run ! mountpoint -q "$M"
}

@test "of two that begin at one folder the second is refused, and may when the first has ended" {
	local pid child status=0 away

	bucket
	fault_proxy "$AT" "$W"
	away="s3://bkt/ckpt?endpoint=http://$PROXY"
	fault match=. kind=hold times=100000
	"$bootseer" ckpt mount --run="$W/run" "$away" "$M" 2>"$W/said" 3>&- &
	pid=$!
	wait_for has_child "$pid"
	wait_for has_child "$child"
	wait_for waits_for_proxy "$child"
	run -1 "$bootseer" ckpt mount --run="$W/run" "$STORE" "$M"
	[[ $output == *"another 'bootseer ckpt mount' of this folder begins"* ]]
	# What the second leaves is not the first's.
	[ -e "$W"/run/*/begin.lock ]
	kill -TERM "$pid"
	wait "$pid" || status=$?
	[ "$status" = 143 ]
	mount_store
	umount_store
}

is_dead()
{
	run "$bootseer" ckpt status --run="$W/run" "$M"
	[[ $output == *"'$M' is dead: "*"'bootseer ckpt umount $M', then mount it again" ]]
}

@test "a mount whose processes were both killed is said to be dead, and can be had again" {
	local pid

	mount_store
	cp "$F/in/config.json" "$M/f"
	pid=$(figure pid)
	kill -9 "$(parent_of "$pid")"
	kill -9 "$pid"
	wait_for is_dead
	run -0 --separate-stderr "$bootseer" ckpt status --run="$W/run"
	[ "$output" = '[]' ]
	[[ $stderr == *"'$M' is dead: "* ]]
	umount_store
	run -0 --separate-stderr "$bootseer" ckpt status --run="$W/run"
	[ -z "$stderr" ]
	mount_store
	cmp "$M/f" "$F/in/config.json"
	umount_store
}

@test "the log names the file that could not be stored" {
	bucket
	fault_proxy "$AT" "$W"
	STORE="s3://bkt/ckpt?endpoint=http://$PROXY"
	mount_store
	mkdir "$M/step"
	fault match='^(PUT|POST) ' kind=status code=403 times=100000
	run ! cp "$F/in/optimizer.pt" "$M/step/a"
	run ! dd if="$F/in/config.json" of="$M/step/b" conv=fsync status=none
	grep -E 'warning ckpt: (write|close) failed path="step/a" reason="' "$W"/run/*/log
	grep 'warning ckpt: fsync failed path="step/b" reason="' "$W"/run/*/log
	umount_store
}

@test "what was closed and not stored is in the log, also of a mount that is gone" {
	bucket
	fault_proxy "$AT" "$W"
	STORE="s3://bkt/ckpt?endpoint=http://$PROXY"
	mount_store --close=buffered
	exec 7<"$W"/run/*/log
	holder=$(parent_of "$(figure pid)")
	fault match='^PUT ' kind=status code=503 times=100000
	cp "$F/in/optimizer.pt" "$M/f"
	kill -STOP "$holder"
	kill -9 "$(figure pid)"
	wait_for is_unserved
	run -0 umount_store
	[[ $output == *"nobody served it: files that were closed and not stored"* ]]
	kill -CONT "$holder"
	wait_for has_ended "$holder"
	cat <&7 >"$W/said"
	exec 7<&-
	grep -q 'error ckpt: lost path="f"' "$W/said"
	grep -q 'the mount is gone' "$W/said"
	cmp "$W"/run/*/log "$W/said"
}

@test "a process whose mount is gone leaves alone what is mounted there since" {
	local old

	mount_store
	old=$(figure pid)
	holder=$(parent_of "$old")
	kill -9 "$holder"
	# One that is stopped while its parent ends gets SIGHUP: its group is an orphan.
	wait_for has_ended "$holder"
	kill -STOP "$old"
	wait_for is_stopped "$old"
	umount -l "$M"
	rm -r "$W/run"
	mount_store
	cp "$F/in/config.json" "$M/f"
	kill -CONT "$old"
	wait_for has_ended "$old"
	cmp "$M/f" "$F/in/config.json"
	umount_store
}

@test "a mount that was aborted ends, and leaves its place" {
	local old minor

	mount_store
	cp "$F/in/config.json" "$M/f"
	old=$(figure pid)
	minor=$(mountpoint -d "$M")
	mkdir "$W/connections"
	mount -t fusectl none "$W/connections"
	echo 1 >"$W/connections/${minor#*:}/abort"
	umount "$W/connections"
	wait_for has_ended "$old"
	mount_store
	cmp "$M/f" "$F/in/config.json"
	umount_store
}

@test "memory is bounded: many files at once wait for one another" {
	local i pids=()

	mount_store --memory=64M --tail=4M
	for i in {1..6}; do
		cp "$F/in/shard/rank-0.pt" "$M/f$i" 3>&- &
		pids+=($!)
	done
	wait_all "${pids[@]}"
	for i in {1..6}; do
		cmp "$M/f$i" "$F/in/shard/rank-0.pt"
	done
	[ "$(figure memory_peak)" -le 33554432 ]
	umount_store
	ckpt verify | grep -q '^6 files, '
}

# Writes a little more than stays in memory, says so, and when it is told by GO all else.
write_in_two() # FILE GO
{
	mkfifo "$2"
	perl -e '
		my ($to, $go) = @ARGV;
		open(my $out, ">", $to) or die "open $to: $!";
		for my $part (1 .. 40) {
			syswrite($out, "x" x 1048576) == 1048576 or die "write: $!";
			next if $part != 12;
			open(my $written, ">", "$go.written") or die;
			open(my $wait, "<", $go) or die "open $go: $!";
		}
		close($out) or die "close: $!\n";
	' "$@" 3>&- &
	pids+=($!)
}

is_in_fuse() # PID
{
	grep -q fuse "/proc/$1/stack"
}

@test "who has the memory is served, however many wait for it" {
	local i pids=()

	bucket
	mount_store --memory=64M --tail=4M --threads=2
	write_in_two "$M/f1" "$W/go1"
	wait_for test -e "$W/go1.written"
	# It has the only place in the store's memory, and these the threads.
	for i in 2 3; do
		write_in_two "$M/f$i" "$W/go$i"
		wait_for is_in_fuse $!
	done
	for i in 1 2 3; do
		: >"$W/go$i" &
		pids+=($!)
	done
	wait_all "${pids[@]}"
	for i in 1 2 3; do
		[ "$(stat -c %s "$M/f$i")" = 41943040 ]
	done
	umount_store
}

@test "bytes that changed in the store are an error, and never read" {
	local column

	mount_store
	cp "$F/few/model.pt" "$M/f"
	column=$(find "$W/store/.bootseer/data" -name c03)
	# Of its second unit, which is none of the first eight of the file.
	printf '\125' | dd of="$column" bs=1 seek=5234567 conv=notrunc status=none
	# shellcheck disable=SC2016 # of the shell that runs it
	run -1 bash -c 'cat "$1" >"$2"' - "$M/f" "$W/out"
	[[ $output == *'Input/output error'* ]]
	[ "$(stat -c %s "$W/out")" -ge 30000000 ]
	cmp -n "$(stat -c %s "$W/out")" "$W/out" "$F/few/model.pt"
	umount_store
}

@test "a mount that may only be read takes no change" {
	local before

	ckpt cp "$F/in/config.json" :f
	before=$(find "$W/store" -printf '%P %T@ %C@\n' | sort)
	mount_store --read-only
	cmp "$M/f" "$F/in/config.json"
	run cp "$F/in/config.json" "$M/g"
	[[ $output == *"Read-only"* ]]
	run rm "$M/f"
	[[ $output == *"Read-only"* ]]
	umount_store
	# Nor does the mount itself, to try what the store can do.
	[ "$(find "$W/store" -printf '%P %T@ %C@\n' | sort)" = "$before" ]
}

metric() # NAME
{
	curl_socket "$W"/run/*/mount.sock | sed -n "s/^bootseer_ckpt_$1 //p"
}

@test "figures of saving and loading are Prometheus's, and in the manual" {
	local n

	mount_store
	cp "$F/in/model.pt" "$M/f"
	cat "$M/f" "$M/f" >/dev/null
	[ "$(metric save_bytes_total)" = 70000001 ]
	[ "$(metric load_bytes_total)" -ge 70000001 ]
	[[ $(metric save_seconds_total) =~ ^[0-9]+\.[0-9]{9}$ ]]
	[ "$(metric save_seconds_total)" != 0.000000000 ]
	[ "$(metric commits_total)" = 1 ]
	[ "$(metric store_write_seconds_count)" -ge 17 ]
	[ "$(metric 'store_write_seconds_bucket{le="+Inf"}')" = \
		"$(metric store_write_seconds_count)" ]
	[ "$(metric store_name_seconds_count)" -gt 0 ]
	[ "$(figure save_ms)" -gt 0 ]
	# In a directory nothing tells the two apart.
	[ "$(figure load_network_ms)" = 0 ]
	[ "$(metric load_storage_seconds_total)" != 0.000000000 ]
	[ "$(metric save_storage_seconds_total)" != 0.000000000 ]
	for n in $(curl_socket "$W"/run/*/mount.sock |
		sed -n 's/^# TYPE \(\S*\) .*/\1/p'); do
		grep -qF "*${n//_/\\_}*" "$BATS_TEST_DIRNAME/../../docs/man/bootseer-ckpt.8.scd.in" ||
			{ echo "$n"; false; }
	done
	umount_store
}

@test "figures say what loading and saving wait for: queue, storage, network" {
	local n kind

	mkdir "$W/events"
	export BOOTSEER_EVENTS=$W/events BOOTSEER_NODE=n1 BOOTSEER_JOB=j
	bucket
	mount_store
	cp "$F/in/model.pt" "$M/f"
	umount_store
	mount_store
	for n in queue storage network; do
		[ "$(metric "load_${n}_seconds_total")" = 0.000000000 ]
	done
	cat "$M/f" >/dev/null
	cp "$F/in/optimizer.pt" "$M/g"
	for n in queue storage network; do
		[ "$(metric "load_${n}_seconds_total")" != 0.000000000 ]
		[ "$(metric "save_${n}_seconds_total")" != 0.000000000 ]
		[ "$(figure "load_${n}_ms")" -ge 0 ]
	done
	"$bootseer" ckpt status --run="$W/run" "$M" >"$W/status"
	umount_store
	# Events have the same of each phase, and leave out what is none.
	for kind in load save; do
		for n in queue storage network; do
			[ "$(jq ".[0].${kind}_${n}_ms" "$W/status")" = "$(
				grep "stage=ckpt.$kind ev=end" "$W/events/ckpt.events" | tail -n 1 |
					sed -nE "s/.* ${n}_ms=([0-9]+) .*/\\1/p; t; s/.*/0/p")" ]
		done
	done
}

@test "figures of a mount are served over HTTP, also by its successor" {
	local log port address

	address=$(own_address)
	mount_store --metrics "$address:0"
	log=$(echo "$W"/run/*/log)
	port=$(sed -n 's/.* metrics port=\([0-9]*\)$/\1/p' "$log")
	cp "$F/in/config.json" "$M/f"
	curl -fsS "http://$address:$port/metrics" >"$W/figures"
	grep -x 'bootseer_ckpt_commits_total 1' "$W/figures"
	[ "$(curl -sS -o /dev/null -w '%{http_code}' "http://$address:$port/x")" = 404 ]
	umount_store
	run ! curl -fsS "http://$address:$port/metrics"
	# One that cannot listen is no mount.
	run -2 "$bootseer" ckpt mount --run="$W/run" --metrics nowhere "$STORE" "$M" 3>&-
	[[ $output == *"--metrics"* ]]
	run ! mountpoint -q "$M"
}

is_in_log() # TIMES TEXT
{
	[ "$(grep -c "$2" "$W"/run/*/log)" = "$1" ]
}

is_told() # ADDRESS:PORT
{
	curl -fsS "http://$1/metrics" | grep -qx 'bootseer_ckpt_commits_total 0'
}

is_free() # ADDRESS:PORT
{
	! ss -tlnH src "$1" | grep -q .
}

@test "a successor that can tell no figures serves the mount, and tells them later" {
	local log pid at reader taker sock

	at=$(own_address):9999
	mount_store --metrics "$at"
	log=$(echo "$W"/run/*/log) sock=$(echo "$W"/run/*/mount.sock)
	cp "$F/in/config.json" "$M/f"
	read_later "$M/f" "$W/fifo"
	pid=$(figure pid) holder=$(parent_of "$pid")
	kill -STOP "$holder"
	kill -9 "$pid"
	wait_for has_ended "$pid"
	rm "$sock"
	mkdir "$sock"
	mkfifo "$W/end"
	# Its last thread may end later than that which is waited for.
	wait_for is_free "$at"
	python3 -c 'import socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
host, port = sys.argv[1].split(":")
s.bind((host, int(port)))
s.listen()
print("taken", flush=True)
sys.stdin.read()' "$at" <"$W/end" >"$W/said" 3>&- &
	taker=$!
	exec 7>"$W/end"
	wait_for grep -q taken "$W/said"
	kill -CONT "$holder"
	wait_for grep -q ' ready path=.* restarted=1' "$log"
	[ "$(grep -c 'figures are not told' "$log")" = 2 ]
	grep "figures are not told.* at=\"$at\" reason=.*in use" "$log"
	echo >"$W/fifo"
	wait "$reader"
	cmp "$M/f" "$F/in/config.json"

	exec 7>&-
	wait "$taker"
	rmdir "$sock"
	wait_for is_told "$at"
	wait_for is_restarted
	wait_for is_in_log 2 'figures are told again'
	[ "$(grep -c 'child ended' "$log")" = 1 ]
	umount_store
}

@test "a process that fails leaves the mount to the next one" {
	local log pid reader

	mount_store
	log=$(echo "$W"/run/*/log) pid=$(figure pid)
	cp "$F/in/config.json" "$M/f"
	read_later "$M/f" "$W/fifo"
	# Without descriptors it cannot look, and that is no failure.
	prlimit --pid "$pid" --nofile=3:
	kill -HUP "$pid"
	wait_for grep -q 'cannot see whether it is mounted' "$log"
	prlimit --pid "$pid" --nofile=1024:
	cmp "$M/f" "$F/in/config.json"
	[ "$(figure pid)" = "$pid" ]
	# It may not wait for two at once, either.
	prlimit --pid "$pid" --nofile=1:
	kill -HUP "$pid"
	wait_for grep -q 'child ended code=1' "$log"
	wait_for is_restarted
	echo >"$W/fifo"
	wait "$reader"
	cmp "$M/f" "$F/in/config.json"
	umount_store
}

@test "figures are JSON, wherever the mount is" {
	M=$W/'a "quoted\ folder'
	mkdir "$M"
	mount_store
	[ "$("$bootseer" ckpt status --run="$W/run" "$M" | jq -r '.[0].path')" = "$M" ]
	cp "$F/in/config.json" "$M/f"
	[ "$(figure commits)" = 1 ]
	umount_store
}

@test "the folder of a mount is named from where the command runs" {
	local name

	mkdir "$W/mnt/below" "$W/here"
	ln -s ../mnt "$W/here/link"
	for name in mnt ./mnt/ here/../mnt here/link/../mnt mnt/below/..; do
		cd "$W"
		"$bootseer" ckpt mount --run="$W/run" "$STORE" "$name" 3>&-
		mountpoint -q "$M"
		cd "$W/here"
		[ "$("$bootseer" ckpt status --run="$W/run" ../mnt | jq -r '.[0].path')" = "$M" ]
		"$bootseer" ckpt umount --run="$W/run" ../mnt
		run ! mountpoint -q "$M"
	done
	cd "$M"
	"$bootseer" ckpt mount --run="$W/run" "$STORE" . 3>&-
	mountpoint -q "$M"
	cd "$M"
	run -1 "$bootseer" ckpt umount --run="$W/run" .
	[[ $output == *"'$M' is in use by"* ]]
	cd "$W"
	run -1 "$bootseer" ckpt umount --run="$W/run" ''
	[[ $output == *"is named by no letter"* ]]
	"$bootseer" ckpt umount --run="$W/run" mnt
	# The folder that a program runs in may be gone.
	cd "$W/here"
	rm -r "$W/here"
	run -1 "$bootseer" ckpt umount --run="$W/run" mnt
	[[ $output == *"where this runs"* ]]
	cd "$W"
}

@test "a store may be written file:/DIR" {
	STORE=file:$W/store
	[[ $STORE == file:/[^/]* ]]
	mount_store
	cp "$F/in/config.json" "$M/f"
	# The room of the directory itself.
	[ "$(stat -f -c %b "$M")" = "$(stat -f -c %b "$W/store")" ]
	umount_store
	[ "$(ckpt stat f | jq -r .size)" = "$(stat -c %s "$F/in/config.json")" ]
	"$bootseer" env ls "$STORE"
}

@test "mistakes in a mount are told with what to do" {
	run -2 "$bootseer" ckpt mount --run="$W/run" /tmp "$M"
	[[ $output == *"is no store: say file:///DIR"* ]]
	run -1 "$bootseer" ckpt mount --run="$W/run" "$STORE" "$W/nothing"
	[[ $output == *"nothing': No such file"* ]]
	run -1 "$bootseer" ckpt mount --run="$W/run" "file://$W/no-store" "$M" 3>&-
	[[ $output == *"no-store"* ]]
	[ ! -e "$W/run" ]
	run -1 "$bootseer" ckpt mount --run="$W/run" --selinux-context='u:r:t",dev' "$STORE" "$M" 3>&-
	[[ $output == *"--selinux-context: 'u:r:t\",dev' is none"* ]]
	# The kernel has it, and knows no such option without SELinux.
	if [ ! -e /sys/fs/selinux ]; then
		run -1 "$bootseer" ckpt mount --run="$W/run" --selinux-context=u:r:t:s0 "$STORE" "$M" 3>&-
		[[ $output == *'--selinux-context: this machine has no SELinux: '*'mount FUSE on '*'Invalid argument'* ]]
	fi
	run -1 "$bootseer" ckpt status --run="$W/run" "$M"
	[[ $output == *"no mount of 'bootseer ckpt' answers for '$M'" ]]
	# By another --run nobody is asked what is on its way, and what was lost.
	mount_store --close=buffered
	echo text >"$M/f"
	run -1 "$bootseer" ckpt umount --run="$W/other" "$M"
	[[ $output == *"'$M' was mounted with another --run than '$W/other': say which" ]]
	umount_store
	[ "$(cat "$W/store/f")" = text ]
}

requests() { figure requests; }

# What was asked of the store while a command ran.
asked_by() # COMMAND...
{
	local before
	before=$(requests)
	"$@" >"$W/asked.out"
	echo $(($(requests) - before))
}

# What a list told is old after a second, and a machine may be slow: then some names are
# asked for anew, and one more list is.
asks_little() # MOST COMMAND...: so many questions, and 20 more in each second
{
	local begun=$SECONDS n

	n=$(asked_by "${@:2}")
	echo "$n questions within $((SECONDS - begun + 1)) s"
	[ "$n" -le $(($1 + 20 * (SECONDS - begun))) ]
}

look_at_all() # FOLDER: as ls -l does, each name once, and its size
{
	python3 - "$1" <<-'PY'
		import os, sys
		for e in sorted(os.scandir(sys.argv[1]), key=lambda e: e.name):
		    st = e.stat(follow_symlinks=False)
		    print(e.name, st.st_size, int(st.st_mtime))
	PY
}

@test "a list of a folder is not followed by a question for each name in it" {
	bucket
	mkdir "$W/many"
	for ((i = 0; i < 300; i++)); do
		echo "$i" >"$W/many/f$i"
	done
	ckpt cp -r "$W/many" :many
	mount_store
	# Each name by itself would be two questions at least.
	asks_little 100 look_at_all "$M/many"
	[ "$(wc -l <"$W/asked.out")" = 300 ]
	[ "$(awk '{ n += $2 } END { print n }' "$W/asked.out")" = \
		"$(cat "$W"/many/* | wc -c)" ]
	cp "$W/asked.out" "$W/listed"
	# The same by name, without a list, and anew: the same times, too.
	umount_store
	mount_store
	by_name() { (cd "$M/many" && stat -c '%n %s %Y' $(cut -d' ' -f1 "$W/listed")); }
	asks_little 150 by_name
	cmp "$W/asked.out" "$W/listed"
	umount_store
}

peak() { awk '/^VmHWM/ { print int($2 / 1024) }' "/proc/$(figure pid)/status"; } # MiB

# All at once: each has its folder open until the last one has, too.
list_all_at_once() # N DIR
{
	python3 - "$@" <<-'EOF'
		import os, sys, threading
		n, folder = int(sys.argv[1]), sys.argv[2]
		begin, has = threading.Barrier(n), []
		def open_folder():
		    begin.wait()
		    has.append(os.scandir(folder))
		threads = [threading.Thread(target=open_folder) for _ in range(n)]
		for t in threads:
		    t.start()
		for t in threads:
		    t.join()
		assert len(has) == n
	EOF
}

@test "many who list a long folder at once do not make the process large" {
	local before

	mkdir "$W/store/many"
	(cd "$W/store/many" && seq -f 'file-%08.0f.pt' 25000 | xargs touch)
	mount_store --threads=48
	before=$(peak)
	list_all_at_once 48 "$M/many"
	(($(peak) - before < 150))
	umount_store
}

@test "a list of striped files with their attributes asks for each manifest once" {
	local i

	mount_store
	mkdir "$M/s"
	for ((i = 10; i < 50; i++)); do
		head -c "$i" "$F/in/optimizer.pt" >"$M/s/f$i"
		setfattr -n user.n -v "$i" "$M/s/f$i"
	done
	umount_store
	mount_store
	# Manifest, and plain object of its name: two each.
	asks_little 100 look_at_all "$M/s"
	[ "$(cut -d' ' -f1-2 "$W/asked.out")" = "$(for i in {10..49}; do echo "f$i $i"; done)" ]
	# Names alone ask for no manifest.
	umount_store
	mount_store
	asks_little 10 ls "$M/s"
	umount_store
}
