#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Mounts of one store that read together: what several read at the same time leaves the store
# once.  Who asks whom, and members that lie, are in test_group.c.

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
	noise 60000001 41 >"$F/model"
	noise 60000001 42 >"$F/other"
}

setup()
{
	begin_mounts
	PLACE=$(own_address):29600
	openssl rand -hex 32 >"$W/key"
	chmod 600 "$W/key"
	readers=()
}

teardown()
{
	exec 5>&- 6>&-
	ip netns del "${NS-}" 2>/dev/null || :
	pkill -CONT -f "^bootseer-ckpt .*$W/" || :
	kill -9 "${readers[@]}" 2>/dev/null || :
	end_mounts
}

member() # I COMMAND...: with that mount's folder
{
	local M=$W/m$1

	shift
	"$@"
}

mount_member() # I [OPTION...]
{
	local M=$W/m$1

	shift
	mkdir -p "$M"
	mount_store --group="$PLACE" --group-key="$W/key" "$@"
}

members_are() # N: linked with all others
{
	local i

	for ((i = 1; i <= $1; i++)); do
		[ "$(member "$i" figure group.members)" = $(($1 - 1)) ] || return
	done
}

mount_members() # N [OPTION...]
{
	local i n=$1

	shift
	for ((i = 1; i <= n; i++)); do
		mount_member "$i" "$@"
	done
	wait_for members_are "$n"
}

sum_of() # KEY N
{
	local i sum=0

	for ((i = 1; i <= $2; i++)); do
		sum=$((sum + $(member "$i" figure "group.$1")))
	done
	echo "$sum"
}

read_all() # N NAME LIKE: at the same time
{
	local i pids=()

	for ((i = 1; i <= $1; i++)); do
		cmp "$W/m$i/$2" "$3" 3>&- &
		pids+=($!)
	done
	wait_all "${pids[@]}"
}

is_one_copy() # BYTES of the file
{
	echo "# $1 bytes of 60000001" >&2
	(($1 >= 60000001 && $1 <= 63000000))
}

@test "two, four and eight mounts read a file from the store once" {
	local n readers

	ckpt cp "$F/model" :model
	for n in 2 4 8; do
		PLACE=$(own_address):29600 readers=()
		mount_members "$n" --readahead=4M
		begin_reads "$n"
		go_on $(seq "$n")
		is_one_copy "$(sum_of bytes_fetched "$n")"
		[ "$(sum_of bytes_received "$n")" -ge $(((n - 1) * 59000000)) ]
		for ((i = 1; i <= n; i++)); do
			member "$i" umount_store
		done
		rm "$W"/go*
	done
}

# Each of four ranks reads its quarter of the file, of each of N parts of it, MiB by MiB.
read_quarters() # N
{
	/usr/bin/python3 - "$W" "$F/model" "$1" 3>&- <<-'END'
	import os, sys, threading
	folder, like, parts = sys.argv[1], open(sys.argv[2], "rb").read(), int(sys.argv[3])
	part, bad = len(like) // parts, []
	def read(rank):
	    fd = os.open("%s/m%d/model" % (folder, rank + 1), os.O_RDONLY)
	    for p in range(parts):
	        at, end = (p * part + part * r // 4 for r in (rank, rank + 1))
	        while at < end:
	            got = os.pread(fd, min(1 << 20, end - at), at)
	            if not got or like[at:at + len(got)] != got:
	                return bad.append((rank, at))
	            at += len(got)
	ranks = [threading.Thread(target=read, args=(r,)) for r in range(4)]
	for r in ranks: r.start()
	for r in ranks: r.join()
	sys.exit(bool(bad))
	END
}

moved() # what came to the four from the store and from each other
{
	echo $(($(sum_of bytes_fetched 4) + $(sum_of bytes_received 4)))
}

# Units of 4 MiB at the ends of slices are wanted by two: up to 138 MB move for one slice each, 172
# for three.  All of the file at each would be 240.
@test "ranks that want slices of a file are sent little else" {
	local n

	ckpt cp "$F/model" :model
	for n in 1 3; do
		PLACE=$(own_address):29600
		mount_members 4
		read_quarters "$n"
		echo "# $n: store $(sum_of bytes_fetched 4), moved $(moved)" >&2
		is_one_copy "$(sum_of bytes_fetched 4)"
		(($(moved) < 180000000))
		for ((i = 1; i <= 4; i++)); do member "$i" umount_store; done
	done
}

# Who opens it a moment before others are told of may read some units for itself.
@test "mounts that open a file in the same moment share it" {
	ckpt cp "$F/model" :model
	mount_members 4
	read_all 4 model "$F/model"
	(($(sum_of bytes_fetched 4) < 120000000))
}

@test "mounts that begin, and read, in the same moment share what they read" {
	local i pids=()

	ckpt cp "$F/model" :model
	mount_member 1
	for i in 2 3 4 5 6; do
		(mount_member "$i" && cmp "$W/m$i/model" "$F/model") 3>&- &
		pids+=($!)
	done
	wait_all "${pids[@]}"
	(($(sum_of bytes_fetched 6) < 80000000))
}

# The server counts what it sends, by whatever way it was asked for.
served() { awk '/^wchar/ { print $2 }' "/proc/${PIDS[0]}/io"; }

@test "a bucket sends a striped file and a plain object once to four mounts" {
	local before name

	bucket
	ckpt cp "$F/model" :striped
	ckpt cp --columns=1 "$F/other" :plain
	ckpt adopt --plain --drop-attributes plain
	mount_members 4
	for name in striped:model plain:other; do
		before=$(served)
		read_all 4 "${name%:*}" "$F/${name#*:}"
		before=$(($(served) - before))
		echo "# the server sent $before" >&2
		((before < 120000000))
	done
}

@test "what the mounts have in memory is not read from the store again" {
	local before

	ckpt cp "$F/model" :model
	mount_members 2
	read_all 2 model "$F/model"
	before=$(sum_of bytes_fetched 2)
	mv "$W/store" "$W/away"
	mkdir "$W/store"
	mkdir "$W/store/.bootseer"
	cp "$W/away/model.bsm" "$W/store"
	"$BATS_TEST_DIRNAME/forget-pages.py" "$W"/m?/model
	read_all 2 model "$F/model"
	[ "$(sum_of bytes_fetched 2)" = "$before" ]
}

# Everybody has the file open, and has read a part.
begin_reads() # N
{
	local i

	for ((i = 1; i <= $1; i++)); do
		mkfifo "$W/go$i"
		perl -e '
			my ($path, $like, $go) = @ARGV;
			open(my $in, "<", $path) or die "open $path: $!";
			open(my $same, "<", $like) or die "open $like: $!";
			my ($a, $b, $n);
			for (my $at = 0; ($n = sysread($in, $a, 1 << 20)); $at += $n) {
				sysread($same, $b, $n) == $n && $a eq $b or
					die "$path differs behind $at\n";
				next if $at;
				open(my $begun, ">", "$go.begun") or die;
				open(my $wait, "<", $go) or die "open $go: $!";
				<$wait>;
			}
			defined($n) or die "read $path: $!\n";
			eof($same) && sysseek($in, 0, 1) == -s $like or die "$path is short\n";
		' "$W/m$i/model" "$F/model" "$W/go$i" 3>&- &
		readers[i]=$!
		wait_for test -e "$W/go$i.begun"
	done
}

go_on() # I...
{
	local i

	for i; do
		echo >"$W/go$i"
	done
	for i; do
		wait "${readers[i]}"
	done
}

@test "a member that is killed while others read from it takes nothing from them" {
	local readers=() pid

	ckpt cp "$F/model" :model
	# Only what is asked for is read, so that much is left to be read by each.
	mount_members 4 --readahead=4M
	begin_reads 4
	pid=$(member 3 figure pid)
	kill -9 "$(parent_of "$pid")" "$pid"
	echo >"$W/go3"
	wait_fails "${readers[3]}"
	go_on 1 2 4
}

@test "a member that stands still is left out, and holds nobody up for longer than it may" {
	local readers=() pid

	ckpt cp "$F/model" :model
	mount_members 3 --readahead=4M --group-wait=300ms
	begin_reads 3
	pid=$(member 3 figure pid)
	kill -STOP "$pid"
	go_on 1 2
	(($(sum_of late 2) >= 1))
	kill -CONT "$pid"
	go_on 3
	wait_for members_are 3
}

@test "a member that comes late gets what others have, and the rest" {
	ckpt cp "$F/model" :model
	mount_members 2
	read_all 2 model "$F/model"
	mount_member 3
	wait_for members_are 3
	read_all 3 model "$F/model"
	(($(sum_of bytes_fetched 3) < 120000000))
}

@test "who reads a file that is replaced has one version of it" {
	local readers=()

	ckpt cp "$F/model" :model
	mount_members 3 --readahead=4M
	begin_reads 2
	ckpt cp "$F/other" :model
	cmp "$W/m3/model" "$F/other"
	go_on 1 2
	read_all 3 model "$F/other"
}

@test "a file that was cut is read, and nobody is blamed for it" {
	mount_members 2
	cp "$F/model" "$W/m1/model"
	truncate -s 10000001 "$W/m1/model"
	head -c 10000001 "$F/model" >"$W/cut"
	"$BATS_TEST_DIRNAME/forget-pages.py" "$W"/m?/model
	read_all 2 model "$W/cut"
	[ "$(sum_of wrong 2)" = 0 ]
	members_are 2
}

# A network of the test's own, where nothing but mounts of a group talks by TCP.
begin_network()
{
	NS=class$$
	ip netns add "$NS"
	ip -n "$NS" link set lo up
	printf '#!/bin/sh\nexec nsenter --net=/run/netns/%s "%s" "$@"\n' "$NS" "$bootseer" \
		>"$W/bootseer"
	chmod +x "$W/bootseer"
	bootseer=$W/bootseer
}

kv()
{
	RUN=$W/run PYTHONPATH=$BATS_TEST_DIRNAME/../../python PYTHONDONTWRITEBYTECODE=1 \
		"$BATS_TEST_DIRNAME/kv-replay.py" "$@" >&2 3>&- 6>&-
}

asks_for_blocks() { [ "$(member 1 figure group.blocks.members)" = 1 ]; }

# Two mounts at PLACE read a file together, and one has a block of the other: packets by class.
watch_classes() # [OPTION...]
{
	local i pid

	mkfifo "$W/end"
	nsenter --net="/run/netns/$NS" "$BATS_TEST_DIRNAME/packet-classes.py" "$W/begun" \
		<"$W/end" >"$W/classes" 3>&- &
	pid=$!
	exec 6>"$W/end"
	wait_for test -e "$W/begun"
	for i in 1 2; do
		mount_member "$i" --group-socket="$W/ranks$i" --group-blocks=4M "$@"
		kv get 0 "$W/ranks$i"
	done
	wait_for members_are 2
	read_all 2 model "$F/model"
	wait_for asks_for_blocks
	kv put 8 "$W/ranks1"
	kv get 8 "$W/ranks1" "$W/ranks2"
	for i in 1 2; do member "$i" umount_store; done
	exec 6>&-
	wait "$pid"
	rm "$W/end" "$W/begun"
	cat "$W/classes" >&2
}

@test "all packets between mounts have the class that was asked for, of both families" {
	ckpt cp "$F/model" :model
	begin_network
	for PLACE in 127.0.0.1:29600 '[::1]:29600'; do
		watch_classes --group-dscp=10
		# All of one family and class, a half of the file among them.
		[ "$(wc -l <"$W/classes")" = 1 ]
		awk -v family="$([[ $PLACE = 127* ]] && echo 4 || echo 6)" \
			'$1 == family && $2 == 10 && $4 > 50000000 { n++ }
			END { exit !n }' "$W/classes"
	done
	watch_classes
	awk '$2 { exit 1 }' "$W/classes"
}

@test "a mount sends others no more in a second than it was told" {
	local begun took

	ckpt cp "$F/other" :model
	mount_members 2 --group-rate=8M
	begun=$EPOCHREALTIME
	read_all 2 model "$F/other"
	took=$(((${EPOCHREALTIME/./} - ${begun/./}) / 1000))
	echo "# 60 MB in $took ms" >&2
	# Each sends the other a half; a burst of a second is left out.
	((took > 3000))
}

@test "whoever has another key is not let in, and is given nothing" {
	ckpt cp "$F/model" :model
	mount_members 2
	openssl rand -hex 32 >"$W/other"
	chmod 600 "$W/other"
	mount_member 3 --group-key="$W/other"
	wait_for grep -q "not let in" "$W"/run/*/log
	read_all 3 model "$F/model"
	[ "$(member 3 figure group.members)" = 0 ]
	[ "$(member 3 figure group.bytes_fetched)" = 60000001 ]
	members_are 2
	(($(sum_of bytes_fetched 2) < 120000000))
}

@test "a key that others may read, or that is short, is refused, and says what mends it" {
	chmod 644 "$W/key"
	run ! mount_member 1
	[[ $output == *"$W/key"* ]]
	[[ $output == *"chmod 600"* ]]
	chmod 600 "$W/key"
	echo short >"$W/key"
	run ! mount_member 1
	[[ $output == *"openssl rand -hex 32"* ]]
	run ! mount_store --group="$PLACE"
	[[ $output == *"--group and --group-key belong together"* ]]
	openssl rand -hex 32 >"$W/key"
	run ! mount_store --group=nowhere --group-key="$W/key"
	[[ $output == *"HOST:PORT"* ]]
}

@test "a user of the machine reads by the group what the file's mode lets it, and no key" {
	ckpt cp "$F/model" :model
	install -m 600 "$F/other" "$W/secret"
	ckpt cp "$W/secret" :secret
	mount_members 2
	chmod 755 "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR" "$W" || :
	read_all 2 secret "$F/other"
	setpriv --reuid=65534 --regid=65534 --clear-groups \
		cmp "$W/m1/model" "$F/model"
	run ! setpriv --reuid=65534 --regid=65534 --clear-groups cat "$W/m2/secret"
	run ! setpriv --reuid=65534 --regid=65534 --clear-groups cat "$W/key"
}

knock() # TIMES: as a stranger that speaks something else
{
	local i

	for ((i = 0; i < $1; i++)); do
		exec 5<>"/dev/tcp/${PLACE%:*}/${PLACE#*:}"
		printf 'GET / HTTP/1.0\r\n\r\n' >&5
		cat <&5 >/dev/null || :
		exec 5>&-
	done
}

told() { cat "$W"/run/*/log | grep -c "not let in"; }

listens() { cat "$W"/run/*/log | grep -q "group: listens"; }

@test "strangers that knock all the time fill no log" {
	mount_members 1
	wait_for listens
	knock 20
	wait_for told
	knock 20
	[ "$(told)" = 1 ]
}

@test "figures tell what came from the store, from other mounts and from memory" {
	local all i sockets

	ckpt cp "$F/model" :model
	mount_members 2
	read_all 2 model "$F/model"
	"$BATS_TEST_DIRNAME/forget-pages.py" "$W"/m?/model
	read_all 1 model "$F/model"
	sockets=("$W"/run/*/mount.sock)
	all=$(curl_socket "${sockets[0]}")
	for i in members {fetched,received,sent}_bytes_total read_seconds_total memory_bytes; do
		grep -E "^bootseer_ckpt_group_$i [0-9.e+]*[1-9]" <<<"$all"
	done
	grep "^bootseer_ckpt_group_memory_read_bytes_total" <<<"$all"
}

# bootseer.load_file on both, by Debian's torch.
load_files() # LIKE FILE...
{
	PYTHONPATH=$BATS_TEST_DIRNAME/../../python /usr/bin/python3 - "$@" <<-'END'
	import concurrent.futures, json, struct, sys, torch, bootseer
	like = torch.load(sys.argv[1])
	with concurrent.futures.ThreadPoolExecutor() as pool:
	    for got in pool.map(bootseer.load_file, sys.argv[2:]):
	        assert got.keys() == like.keys()
	        assert all(got[k].dtype == v.dtype and torch.equal(got[k], v)
	                   for k, v in like.items())
	def refused(path, head, data=b""):
	    with open(path, "wb") as f:
	        f.write(struct.pack("<Q", len(head)) + head + data)
	    try:
	        bootseer.load_file(path)
	    except ValueError:
	        return True
	one = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
	bad = sys.argv[1] + ".bad"
	assert not refused(bad, json.dumps({"a": one}).encode(), bytes(8))
	assert refused(bad, json.dumps({"a": one}).encode(), bytes(7))
	assert refused(bad, json.dumps({"a": {**one, "shape": [3]}}).encode(), bytes(12))
	assert refused(bad, json.dumps({"a": {**one, "data_offsets": [-8, 0]}}).encode(), bytes(8))
	with open(bad, "wb") as f:
	    f.write(struct.pack("<Q", 1 << 60))
	try:
	    bootseer.load_file(bad)
	    assert False
	except ValueError:
	    pass
	END
}

@test "bootseer.load_file loads safetensors from mounts of a group, once from the store" {
	PYTHONPATH=$("$BATS_TEST_DIRNAME/../stores/build" safetensors) /usr/bin/python3 - "$W" <<-'END'
	import sys, torch
	from safetensors.torch import save_file
	torch.manual_seed(1)
	state = {f"w{i}": torch.randn(1000, 1500 + i) for i in range(8)}
	state["odd"] = torch.arange(3, dtype=torch.int8)
	state["half"] = torch.randn(7, 5).bfloat16()
	state["none"] = torch.empty(0, 4)
	state["one"] = torch.tensor(5)
	torch.save(state, sys.argv[1] + "/like")
	save_file(state, sys.argv[1] + "/model.safetensors")
	END
	ckpt cp "$W/model.safetensors" :model.safetensors
	mount_members 2
	load_files "$W/like" "$W/m1/model.safetensors" "$W/m2/model.safetensors"
	(($(sum_of bytes_fetched 2) < 2 * $(stat -c %s "$W/model.safetensors")))
}
