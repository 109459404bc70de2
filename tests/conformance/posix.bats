#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Testers of file systems, which know nothing of the mount, on a mount of checkpoints:
# pjdfstest, and fsx with files of 40 MB.  What docs/checkpoints.md refuses fails, and no more.

bats_require_minimum_version 1.5.0
load ../wait.bash
load ../functional/stores.bash
load ../functional/ckpt.bash
load ../functional/ckpt-mounts.bash

setup_file()
{
	local build=$BATS_TEST_DIRNAME/../stores/build

	export S3 FSX PJDFSTEST
	S3=$("$build" versitygw)
	FSX=$("$build" fsx)/bin/fsx
	PJDFSTEST=$("$build" pjdfstest)/bin/pjdfstest
}

setup() { begin_mounts; }
teardown() { end_mounts; }

# Each test that failed, and what it says, on a line.
list_failed()
{
	awk '/^[^ ]+::[^ ]+ +FAILED/ { name = $1; next }
		name { sub(/^\t/, ""); print name "\t" $0; name = "" }' "$W/out" | LC_ALL=C sort
}

pjdfstest_on()
{
	cat >"$W/pjdfstest.toml" <<-'END'
	[features]
	posix_fallocate = {}
	[settings]
	naptime = 0.001
	allow_remount = false
	[dummy_auth]
	entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
	END
	chmod 755 "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR/test" "$W"
	mount_store
	mkdir "$M/w"
	run -1 --separate-stderr "$PJDFSTEST" \
		-c "$W/pjdfstest.toml" -p "$M/w"
	echo "$output" >"$W/out"
	list_failed >"$W/failed"
	# Links, FIFOs, sockets and devices, which most tests make.
	[ "$(grep -c 'EPERM$' "$W/failed")" = 200 ]
	diff <(grep -v 'EPERM$' "$W/failed" | cut -f 1) \
		<(grep -v '^#' "$BATS_TEST_DIRNAME/pjdfstest.refused" | LC_ALL=C sort)
	grep -q '116 passed' "$W/out"
	rm -rf "$M/w"
	umount_store
}

on_hdfs()
{
	export no_proxy='*' HDFS
	HDFS=$("$BATS_TEST_DIRNAME/../stores/build" hadoop-hdfs)
	hdfs_server "$W/hdfs" 2
	STORE="hdfs://$NAMENODE/ckpt?user=root"
}

@test "pjdfstest: what is refused is refused by EPERM, or in the list" {
	pjdfstest_on
}

@test "pjdfstest: the same on a folder of HDFS" {
	on_hdfs
	pjdfstest_on
}

fsx_on() # [OPTION OF THE MOUNT...]
{
	local seed

	cat >"$W/fsx.toml" <<-'END'
	flen = 41943040
	nomsyncafterwrite = true
	[opsize]
	max = 1048576
	[weights]
	close_open = 1
	read = 10
	write = 10
	mapread = 0
	mapwrite = 0
	truncate = 1
	fsync = 0.3
	fdatasync = 0.3
	posix_fallocate = 1
	sendfile = 1
	posix_fadvise = 1
	copy_file_range = 1
	END
	mount_store "$@"
	seed=${BOOTSEER_SEED:-$(date +%s)}
	"$FSX" -f "$W/fsx.toml" -N "${BOOTSEER_OPERATIONS:-3000}" \
		-S "$seed" -P "$W" "$M/f" >"$W/out" 2>&1 || {
		tail -n 40 "$W/out"
		echo "seed $seed"
		return 1
	}
	sync "$M" # what is buffered
	# As the store has it, without the mount.
	ckpt cp :f "$W/back"
	cmp "$W/back" "$M/f"
	rm "$M/f"
	umount_store
	ckpt verify >&2
}

@test "fsx: a file of 40 MB that is written anywhere, on a directory" {
	fsx_on
	fsx_on --close=buffered --memory=64M
}

@test "fsx: the same on a bucket" {
	bucket
	fsx_on
}

@test "fsx: the same on a folder of HDFS" {
	on_hdfs
	BOOTSEER_OPERATIONS=${BOOTSEER_OPERATIONS:-1000} fsx_on # each costs requests
}
