#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Stores that are folders of HDFS, on real name and data nodes and a real HttpFS, and
# what becomes of faults on the way.

bats_require_minimum_version 1.5.0
load ../noise.bash
load ../wait.bash
load stores.bash
load ckpt.bash
load ckpt-mounts.bash
load ckpt-saves.bash
load ckpt-steps.bash

# The servers take a minute to start, and much of what they cost is that: all tests of HDFS
# share them, each in its folder.
setup_file()
{
	export F=$BATS_FILE_TMPDIR HDFS HTTPFS NAMENODE HTTPFS_AT SERVERS
	HDFS=$("$BATS_TEST_DIRNAME/../stores/build" hadoop-hdfs)
	HTTPFS=$("$BATS_TEST_DIRNAME/../stores/build" hadoop-hdfs-httpfs)
	export no_proxy='*'
	hdfs_block=6291456 hdfs_server "$F/hdfs" 2
	httpfs_server "$F/httpfs"
	SERVERS=${PIDS[*]}
	noise 70000000 1 >"$F/big"
	noise 100000 2 >"$F/small"
	make_step_files
	make_folders
}

teardown_file()
{
	read -ra PIDS <<<"$SERVERS"
	stop_servers
}

setup()
{
	W=$BATS_TEST_TMPDIR
	ME=$BATS_TEST_NUMBER
	PROXY=
}

# A test's mount ends before its proxy.
teardown()
{
	end_mounts
}

# A mount of the test's own folder of HDFS.
begin_hdfs_mount()
{
	begin_mounts
	STORE="hdfs://$NAMENODE/$ME?user=root"
}

store() # COMMAND...
{
	"$BOOTSEER_BUILD/tests/functional/store-test" \
		"hdfs://${PROXY:-$NAMENODE}/$ME?user=root" "$@"
}

suite() # URL
{
	STORE_URL=$1 STORE_PAGE=100 timeout 900 \
		"$BOOTSEER_BUILD/tests/unit/objects/test_objects_store" --tap
}

with_proxy()
{
	fault_proxy "$NAMENODE" "$W"
}

@test "does all that a store of objects does" {
	suite "hdfs://$NAMENODE/t$ME?user=root"
}

@test "does so by HttpFS" {
	suite "hdfs://$HTTPFS_AT/t$ME?user=root"
}

@test "finds out what the servers do" {
	run -0 --separate-stderr store probe
	[[ $output == "new=1 match=0 match_delete=0 rename=1 replace=1 "* ]]
	NAMENODE=$HTTPFS_AT run -0 --separate-stderr store probe
	[[ $output == "new=1 match=0 match_delete=0 rename=1 replace=0 "* ]]
}

@test "an upload that is cut leaves no short object, and is sent again" {
	with_proxy
	fault match='^PUT /@.*CREATE' kind=cut-sent at=50000
	store put a "$F/small"
	expect_back a "$F/small"
	fault match='^PUT /@.*CREATE' kind=cut-sent at=1000000 times=2
	store put b "$F/big"
	# Not by the retries: libcurl makes some of the attempts itself, on a connection
	# that was kept.
	proxied '^PUT /@.*CREATE.* gone cut-sent$' >"$W/cuts"
	[ "$(wc -l <"$W/cuts")" = 3 ]
	expect_back b "$F/big"
	fault match='^PUT /@.*CREATE' kind=cut-sent at=50000 times=1000
	STORE_RETRY_MS=2000 run -1 store put c "$F/small"
	[[ $output == *"commit 'c'"* ]]
	PROXY= run -1 store stat c
	# A data node may make what was cut after it was removed: a sweep is for that.
	wait_for nothing_is_left
}

nothing_is_left() { [ "$(store sweep 2>/dev/null)" = 0 ]; }

# Bytes of a block, as the name node has it.
block_size_of() # NAME
{
	curl -sf "http://$NAMENODE/webhdfs/v1/$ME/$1?op=GETFILESTATUS&user.name=root" |
		jq .FileStatus.blockSize
}

# Otherwise a data node is asked for what others have, which it has to get from them.
@test "an object of parts has blocks that are as long, where the cluster takes them" {
	store put a "$F/big"
	[ "$(block_size_of a)" = 8388608 ]
	store put small "$F/small"
	[ "$(block_size_of small)" = 6291456 ]
	with_proxy
	fault match='^PUT /@.*blocksize=' kind=status code=403 times=1000 \
		body='{"RemoteException":{"exception":"IOException","javaClassName":"java.io.IOException","message":"Specified block size 8388608 is less than configured minimum value dfs.namenode.fs-limits.min-block-size=33554432"}}'
	store put b "$F/big"
	[ "$(block_size_of b)" = 6291456 ]
	expect_back b "$F/big"
	# Once by each of its parts at most.
	proxied '^PUT /@.*blocksize=' >"$W/with-size"
	[ "$(wc -l <"$W/with-size")" -le 9 ]
}

# "BYTES BLOCK" of each file below.
hdfs_files() # FOLDER
{
	local kind name

	curl -sf "http://$NAMENODE/webhdfs/v1$1?op=LISTSTATUS&user.name=root" |
		jq -r '.FileStatuses.FileStatus[] | [.type, .pathSuffix, .length, .blockSize] | @tsv' |
		while read -r kind name rest; do
			[ "$kind" = FILE ] && tr '\t' ' ' <<<"$rest" ||
				hdfs_files "$1/$name"
		done
}

@test "what is appended has the blocks of the cluster" {
	with_proxy
	fault match='^POST /webhdfs.*CONCAT' kind=status code=403 times=1000 \
		body='{"RemoteException":{"exception":"IOException","javaClassName":"java.io.IOException","message":"concat can not be called for files in an encryption zone."}}'
	"$BOOTSEER_BUILD/cli/bootseer" ckpt cp --columns 1 \
		"hdfs://$PROXY/$ME?user=root" "$F/big" :a
	hdfs_files "/$ME" >"$W/sizes"
	grep -x '70[0-9]* 6291456' "$W/sizes"
	proxied '^POST /@.*APPEND' >"$W/appends"
}

@test "a range that was cut goes on where it was, at another node" {
	store put a "$F/big"
	with_proxy
	fault match='^GET /@.*OPEN' kind=cut at=1000000 times=3
	expect_back a "$F/big"
	# A server that is slow is asked by hedges, too, which may be cut.
	grep -E 'retries=3|hedges=[1-9]' "$W/counts"
	proxied '^GET /@.*offset=(1|15|29|43|57)000000'
}

@test "a request that hangs gets another beside it, of another node" {
	store put a "$F/big"
	with_proxy
	fault match='^GET /@.*OPEN' kind=hold at=500000
	expect_back a "$F/big"
	grep -E 'hedges=[1-9][0-9]* won=[1-9]' "$W/counts"
	proxied 'GET /webhdfs.*OPEN'
}

@test "a name node that fails by an exception without a rule is asked again" {
	with_proxy
	fault match='^PUT /webhdfs.*CREATE' kind=status code=500 \
		body='{"RemoteException":{"exception":"QueueFullException","javaClassName":"x","message":"later"}}'
	run -0 store put a "$F/small"
	[[ $output == *retries=1* ]]
	expect_back a "$F/small"
}

@test "a name node that is standby is left for the next" {
	with_proxy
	fault match='^[A-Z]* /webhdfs' kind=status code=403 times=1000 \
		body='{"RemoteException":{"exception":"StandbyException","javaClassName":"x","message":"not active"}}'
	two=$PROXY,$NAMENODE
	PROXY=$two run -0 store put a "$F/small"
	[[ $output == *retries=1* ]]
	PROXY=$two expect_back a "$F/small"
	STORE_RETRY_MS=500 run -1 store stat a
	[[ $output == *"http://$PROXY: not active (StandbyException): no name node is active"* ]]
}

@test "one that fails over in the middle of a file is left for the next" {
	with_proxy
	fault match='^PUT /webhdfs.*CREATE' kind=refuse skip=1 times=1000
	fault match='^[A-Z]* /webhdfs.*(CONCAT|RENAME|STATUS)' kind=refuse \
		times=1000
	PROXY=$PROXY,$NAMENODE run -0 store put a "$F/big"
	[[ $output == *retries=[1-9]* ]]
	PROXY= expect_back a "$F/big"
}

@test "an answer that was lost is no failure" {
	with_proxy
	fault match='^PUT /webhdfs.*RENAME' kind=lost
	store put a "$F/small" new
	expect_back a "$F/small"
	fault match='^POST /webhdfs.*CONCAT' kind=lost
	store put b "$F/big"
	expect_back b "$F/big"
}

@test "a put that was killed is swept up" {
	with_proxy
	fault match='^PUT /@.*CREATE' kind=hold skip=1 times=1000
	"$BOOTSEER_BUILD/tests/functional/store-test" \
		"hdfs://$PROXY/$ME?user=root" put a "$F/big" 3>&- &
	victim=$!
	wait_for proxied '^PUT /@.*CREATE.* 201'
	kill -9 "$victim"
	wait "$victim" || gone=$?
	[ "$gone" = 137 ]
	PROXY=
	run -1 store stat a
	[ "$(store sweep 2>/dev/null)" = 1 ]
	# A data node may make what was sent before only now.
	wait_for nothing_is_left
}

@test "a proxy user acts for another, whose rights count" {
	at=$NAMENODE/$ME
	test_as() { "$BOOTSEER_BUILD/tests/functional/store-test" "$@"; }
	run -1 test_as "hdfs://$at?user=alice" put a "$F/small"
	[[ $output == *"(AccessControlException): give this user the right"* ]]
	curl -sf -X PUT "http://$NAMENODE/webhdfs/v1/$ME?op=MKDIRS&user.name=root"
	curl -sf -X PUT \
		"http://$NAMENODE/webhdfs/v1/$ME?op=SETOWNER&owner=alice&user.name=root"
	test_as "hdfs://$at?user=proxy&doas=alice" put a "$F/small"
	curl -sf "http://$NAMENODE/webhdfs/v1/$ME/a?op=GETFILESTATUS&user.name=root" |
		jq -e '.FileStatus.owner == "alice"'
	run -1 test_as "hdfs://$at?user=nobody&doas=alice" put b "$F/small"
	[[ $output == *"hadoop.proxyuser"* || $output == *"impersonate"* ]]
}

@test "a URL that is none of a name node is refused with a cure" {
	run -1 "$BOOTSEER_BUILD/tests/functional/store-test" hdfs://host/x ls
	[[ $output == *"'host' is not a name node: want HOST:PORT"* ]]
	run -1 "$BOOTSEER_BUILD/tests/functional/store-test" \
		"hdfs://$NAMENODE/x?auth=kerberos&user=me" ls
	[[ $output == *"a ticket or a token says who the user is"* ]]
}

@test "checkpoint files go in and come back, large ones striped" {
	STORE="hdfs://$NAMENODE/$ME?user=root"
	round_trip "$F/in" "$W"
}

@test "a checkpoint file is old or new at each request of its writer" {
	STORE="hdfs://$NAMENODE/$ME?user=root"
	killed_at_each_step striped other-striped 3
}

@test "a folder of HDFS is used as a folder: dd, cp -a, tar, mv, rm" {
	begin_hdfs_mount
	mount_store
	use_as_folder
	umount_store
	wait_for gc_finds_nothing
}

@test "a file on a mount that is removed or replaced stays with those who have it open" {
	begin_hdfs_mount
	remove_while_open
}

# HDFS compares nothing by itself, and mounts of several nodes know nothing of each other.
@test "of two mounts of HDFS that append to a file, or make one, the second is told" {
	begin_hdfs_mount
	mkdir "$W/second"
	mount_store
	M=$W/second mount_store
	python3 - "$M" "$W/second" <<-'END'
	import errno, os, sys

	def is_told(fd):
	    try:
	        os.close(fd)
	    except OSError as e:
	        assert e.errno == errno.ESTALE, e
	    else:
	        raise AssertionError("nobody was told")

	def append(at, line):
	    fd = os.open(f"{at}/log", os.O_WRONLY | os.O_APPEND)
	    os.write(fd, line)
	    return fd

	first, second = sys.argv[1:]
	a, b = (os.open(f"{at}/log", os.O_CREAT | os.O_EXCL | os.O_WRONLY) for at in sys.argv[1:])
	os.write(a, b"first\n")
	os.write(b, b"lost\n")
	os.close(a)
	is_told(b)
	for i in range(5):
	    a, b = append(first, b"first %d\n" % i), append(second, b"second %d\n" % i)
	    os.close(a)
	    is_told(b)
	    os.close(append(second, b"second %d\n" % i))
	with open(f"{first}/log") as f:
	    assert f.read() == "first\n" + "".join(f"first {i}\nsecond {i}\n" for i in range(5))
	END
	umount_store
	M=$W/second umount_store
}

# The name node gets the request that stores the file when the process that sent it is dead,
# and its successor has removed the file.
@test "what a killed process had sent to HDFS does not bring a file back" {
	local pid victim failed=0

	begin_hdfs_mount
	fault_proxy "$NAMENODE" "$W"
	STORE=${STORE/$NAMENODE/$PROXY}
	mount_store
	printf before >"$M/f"
	fault match='^PUT /webhdfs.*RENAME.*/f&' kind=late
	cp "$F/in/config.json" "$M/f" 2>"$W/said" 3>&- &
	victim=$!
	wait_for proxied 'RENAME.* late late$'
	pid=$(figure pid)
	kill -9 "$pid"
	wait "$victim" || failed=$?
	[ "$failed" = 1 ]
	[ "$(cat "$M/f")" = before ]
	rm "$M/f"
	curl -sf -d '' "http://$PROXY/go"
	wait_for proxied 'RENAME.* [0-9]+ late$'
	run -1 cat "$M/f"
	run -1 ckpt stat f
	cp "$F/in/config.json" "$M/g"
	cmp "$M/g" "$F/in/config.json"
	umount_store
	[ "$(ckpt ls)" = g ]
}

@test "a program that is killed while it writes to a mount leaves the file before" {
	begin_hdfs_mount
	kill_writer
}

@test "a mount whose process is killed goes on: its readers, and the files before" {
	begin_hdfs_mount
	kill_mount
}

@test "what no step of a job changes is stored in HDFS once, and outlives the steps before" {
	begin_hdfs_mount
	begin_saves
	steps_share_columns
}
