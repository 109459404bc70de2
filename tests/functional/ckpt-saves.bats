#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Ranks of several nodes that save one file together: it has each byte once, and is there whole or
# not at all, whoever dies.  What is stored by whom is in test_save_plan.c.

bats_require_minimum_version 1.5.0
load ../noise.bash
load ../wait.bash
load stores.bash
load ckpt.bash
load ckpt-mounts.bash
load ckpt-saves.bash

setup_file()
{
	export S3
	S3=$("$BATS_TEST_DIRNAME/../stores/build" versitygw)
}

setup()
{
	begin_mounts
	begin_saves
}

teardown()
{
	kill -9 "${ranks[@]-}" 2>/dev/null || :
	end_mounts
}

kill_node() # I
{
	local pid

	pid=$(node "$1" figure pid)
	kill -9 "$(parent_of "$pid")" "$pid"
}

has_step() # NODES
{
	ckpt cp :step "$W/step"
	ranks check "$W/step" $((2 * $1))
}

has_no_step()
{
	! "$bootseer" ckpt ls "$STORE" | grep -q step
}

# Bytes of one node do not come to the bucket.
mount_with_slow() # I N [WAIT]
{
	local direct=$STORE STORE i

	fault_proxy "$AT" "$W"
	fault match='^PUT .*/data/.*/c[0-9]' times=99 kind=late
	for ((i = 1; i <= $2; i++)); do
		STORE=$direct
		((i != $1)) || STORE=${direct/"$AT"/$PROXY}
		mount_node "$i" --group-wait="${3:-10s}"
	done
}

events_say() # N LINE
{
	[ "$(cat "$W"/events/* | grep -c "$2")" = "$1" ]
}

@test "ranks of three nodes save one file, in which each byte is once" {
	local i stored=0

	mkdir "$W/events"
	export BOOTSEER_JOB=saves BOOTSEER_EVENTS=$W/events BOOTSEER_NODE=n
	for i in 1 2 3; do mount_node "$i"; done
	begin_put 3
	wait "$ranks"
	said buffered
	said durable
	has_step 3
	for i in ranks plan buffer store; do
		wait_for events_say 3 "stage=ckpt.save.$i ev=end"
	done
	grep -h "durable id=.*last_rank=.*last_staged=.*stored=" "$W"/run/*/log
	curl_socket "$W"/run/*/mount.sock | grep '^bootseer_ckpt_group_saves_durable_total 1'
	for i in 1 2 3; do
		stored=$((stored + $(node "$i" figure group.saves.stored)))
		[ "$(node "$i" figure group.saves.memory_used)" = 0 ]
		[ "$(node "$i" figure group.saves.durable)" = 1 ]
		[ "$(node "$i" figure restarted)" = false ]
		(($(node "$i" figure group.saves.stored) > 4000000))
	done
	echo "# $stored bytes" >&2
	# 27 MB, and what is in the units at the ends of the zeros.
	((stored > 27000000 && stored < 36000000))
	[ "$stored" = "$(sed -n 's/^durable //p' "$W/said")" ]
	[[ $(getfattr --only-values -n user.bootseer.save "$W/m1/step") =~ ^[0-9a-f]{32}-1$ ]]
}

has_come() # I RANKS [BYTES]: have handed in their tensors, beyond so many bytes
{
	(($(node "$1" figure group.saves.given) >= ${3:-0} + $2 * 30000000))
}

holds_nothing() # I
{
	[ "$(node "$1" figure group.saves.memory_used)" = 0 ]
}

@test "without a rank, or with a node that dies, a step is not there, or whole" {
	for i in 1 2; do mount_node "$i" --group-wait=10s; done
	ABSENT=3 TIMEOUT=1 ranks put step "$W"/ranks[12] >"$W/said"
	[ "$(grep -c '^failed' "$W/said")" = 3 ]
	said "failed.*1 of this node's 2 ranks"
	has_no_step
	export JOB=killed
	# Ranks that came too late for the step before count for nothing.
	before=("$(node 1 figure group.saves.given)" "$(node 2 figure group.saves.given)")
	ABSENT=3 begin_put 2
	wait_for has_come 1 2 "${before[0]}"
	wait_for has_come 2 1 "${before[1]}"
	kill -9 "$(pgrep -P "$ranks")"
	wait_for holds_nothing 1
	wait_for holds_nothing 2
	grep -h "reason=.*ended before all had handed in" "$W"/run/*/log
	export JOB=again
	before=("$(node 2 figure group.saves.given)")
	begin_put 2
	wait_for has_come 2 2 "${before[0]}"
	kill_node 2
	wait "$ranks"
	cat "$W/said" >&2
	if said durable || said buffered; then
		has_step 2
	else
		has_no_step || has_step 2
	fi
}

holds() # I: most of its memory is of saves
{
	(($(node "$1" figure group.saves.memory_used) > 60000000))
}

@test "a save that a rank leaves out, or nodes plan differently, fails; jobs share memory" {
	for i in 1 2; do mount_node "$i" --group-staging=80M; done
	ranks leave step "$W"/ranks[12] >"$W/said"
	cat "$W/said" >&2
	[ "$(grep -c '^left.*left.* out' "$W/said")" = 3 ]
	[ "$(grep -c '^durable' "$W/said")" = 4 ]
	has_step 2
	export JOB=other
	ranks differ path "$W"/ranks[12] >"$W/said"
	cat "$W/said" >&2
	[ "$(grep -c 'its ranks said another path' "$W/said")" = 4 ]
	run -0 "$bootseer" ckpt ls "$STORE"
	[[ $output != *path* ]]
	export JOB=jobs
	mkfifo "$W/go"
	ranks jobs step "$W"/ranks[12] <"$W/go" >"$W/said" &
	ranks=$!
	exec 7>"$W/go"
	wait_for said early
	# A node of each of the two jobs has most of what memory there is.
	wait_for holds 1
	wait_for holds 2
	echo >&7
	exec 7>&-
	wait "$ranks"
	cat "$W/said" >&2
	[ "$(grep -c '^durable' "$W/said")" = 8 ]
}

# The first node commits; what the second was to write is asked of others by the first.
done_without() # I [WAIT]
{
	local i

	mount_with_slow "$1" 3 "${2-}"
	begin_put 3
	wait_for said buffered
	kill_node "$1"
	wait "$ranks"
	# Its own two ranks are told to look, the four others that it is there.
	[ "$(grep -c '^lost.*look whether it is' "$W/said")" = 2 ]
	[ "$(wc -l <"$W/said")" = 3 ]
	has_step 3
	for i in 1 2 3; do
		((i == $1)) || [ "$(node "$i" figure restarted)" = false ]
	done
}

changes() { "$BATS_TEST_DIRNAME/ckpt-changes.py" "$@" 3>&-; }

# Files of 64 MiB that a group has saved are in units of 1 MiB.
@test "eight programs change eight files of a group's at once, in the memory that a mount has" {
	local M=$W/m1 changer

	mount_nodes 1
	changes save "$W/ranks1" 8 67100000
	[ "$(ckpt stat f0 | jq .unit)" = 1048576 ]
	changes change "$M" 8
	(($(figure memory_peak) <= 256 << 20))
	ckpt verify
	(cd "$M" && sha256sum f?) >"$W/sums"
	# What is killed before it closes loses nothing that is stored.
	mkfifo "$W/go"
	changes leave "$M" 8 >"$W/said" <"$W/go" &
	changer=$!
	exec 6>"$W/go"
	wait_for said written
	kill -9 "$(figure pid)"
	wait_for is_restarted
	echo >&6
	exec 6>&-
	wait_all "$changer"
	(cd "$M" && sha256sum -c "$W/sums")
	umount_nodes 1
	ckpt verify
}

@test "a node that dies when the step is buffered is done without" {
	bucket
	done_without 1
}

@test "what a dead node was to write, others write that have its copies" {
	bucket
	# The save has a minute: its end is known long before a node's silence would count.
	done_without 2 100s
	cat "$W"/run/*/log | grep "node gone"
	cat "$W"/run/*/log | grep "writes for a node that is gone"
}

@test "a node whose store refuses its bytes is done without, once the step is buffered" {
	bucket
	local mount direct=$STORE status=0

	fault_proxy "$AT" "$W"
	fault match='^PUT .*/data/.*/c[0-9]' times=99 kind=status code=403
	for i in 2 3; do mount_node "$i"; done
	STORE=${direct/"$AT"/$PROXY} mount_node 1 --foreground 3>&- &
	mount=$!
	wait_for test -S "$W/ranks1"
	begin_put 3
	wait "$ranks"
	cat "$W/said" >&2
	said buffered
	[ "$(grep -c '^lost' "$W/said")" = 2 ]
	[ "$(wc -l <"$W/said")" = 3 ]
	STORE=$direct has_step 3
	# What was lost is in the status that the mount ends with.
	node 1 umount_store
	wait "$mount" || status=$?
	[ "$status" = 3 ]
}

@test "steps of one path follow one another in memory for one" {
	# Two ranks of 33 MB.
	mount_node 1 --group-staging=80M
	ranks twice step "$W/ranks1" >"$W/said"
	cat "$W/said" >&2
	[ "$(grep -c '^durable' "$W/said")" = 4 ]
	has_step 1
	# A job that is begun anew by the same name would find its steps saved.
	ranks twice step "$W/ranks1" >"$W/said"
	cat "$W/said" >&2
	[ "$(grep -c 'same job and number' "$W/said")" = 4 ]
	export JOB=third
	mount_node 2 --group-staging=50M
	ranks put large "$W/ranks2" >"$W/said"
	cat "$W/said" >&2
	[ "$(grep -c '^failed.*--group-staging is' "$W/said")" = 2 ]
}

@test "what no step changes is stored once, and outlives the steps before" {
	steps_share_columns
	# As a mount does that is told to.
	umount_nodes 2
	mount_nodes 2 --group-full
	save_steps 5 6
	[ "$(unchanged 2)" = 0 ]
	is_step 6
}

@test "... in a bucket" {
	bucket
	steps_share_columns
}

# The second node's units do not come to the bucket before `go_on`.
hold_step() # N
{
	fault match='^PUT .*/data/.*/c[0-9]' times=99 kind=late
	export JOB=held STEP=$1
	begin_put 2 "run/step$1"
	wait_for said buffered
}

go_on() { curl -sf -d '' "http://$PROXY/go"; }

# All nodes' steps 1 to 3, and a fourth that is in memory.
begin_held_step()
{
	local direct

	bucket
	direct=$STORE
	fault_proxy "$AT" "$W"
	mount_node 1
	STORE=${direct/"$AT"/$PROXY} mount_node 2 --group-wait=20s
	save_steps 1 3
	hold_step 4
}

@test "steps are removed, and gc runs, while the next one is saved: it is whole" {
	local data

	begin_held_step
	data=$W/s3/data/bkt/ckpt/.bootseer/data
	ckpt rm -r run
	find "$data" -name 'c[0-9][0-9]' -exec touch -d '2 hours ago' {} +
	ckpt gc --older=1h
	find "$data" -name unnamed | grep -q .
	go_on
	wait "$ranks"
	said durable
	ckpt gc --older=0s
	ckpt gc --older=0s
	is_step 4
	ckpt verify
	(($(unchanged 2) >= 16000000))
}

@test "a step whose columns gc took, against its rules, is no file, and that is said" {
	begin_held_step
	ckpt rm -r run
	ckpt gc --older=0s
	ckpt gc --older=0s
	go_on
	wait "$ranks"
	cat "$W/said" >&2
	[ "$(grep -c '^lost.*was removed while it was written' "$W/said")" = 4 ]
	run ! ckpt stat run/step4
	# The next one stores all of it.
	STEP=5 JOB=next ranks put run/step5 "$W"/ranks[12] >"$W/said"
	said durable
	is_step 5
}

# The store keeps to itself whether columns are there, TIMES times: begin_put() is next.
refuse_looks() # TIMES
{
	bucket
	fault_proxy "$AT" "$W"
	STORE=${STORE/"$AT"/$PROXY} mount_node 1
	fault match='^HEAD .*/data/.*/c[0-9]' times="$1" kind=status code=403
	begin_put 1
	wait "$ranks"
	cat "$W/said" >&2
}

@test "a step of which nobody saw that its columns are there is not called durable" {
	refuse_looks 999
	said buffered
	[ "$(grep -c '^lost .*step' "$W/said")" = 2 ]
}

@test "... and is, when a second look finds them" {
	refuse_looks 1
	said durable
	has_step 1
}

@test "units that a dead node was to name, others store that have its copies" {
	begin_held_step
	kill_node 2
	wait "$ranks"
	cat "$W/said" >&2
	go_on
	is_step 4
	ckpt rm run/step1
	ckpt rm run/step2
	ckpt rm run/step3
	ckpt gc --older=0s
	ckpt gc --older=0s
	is_step 4
}

user_metric() { curl_socket "$W/user/run$1/mount.sock" | sed -n "s/^bootseer_ckpt_$2 //p"; } # I NAME

has_member() { [ "$(user_metric "$1" group_members)" = 1 ]; }

# Ranks of two nodes have the step by the group: the store, each byte once.  What they may not read
# they are not given.
read_without_mount() # AS-NOBODY...
{
	local n

	for n in 1 2; do wait_for has_member "$n"; done
	install -m 600 "$W/step" "$W/secret"
	ckpt cp "$W/secret" :secret
	# Its group is kept out, though all others may read it.
	install -m 604 -g 65534 "$W/step" "$W/others"
	ckpt cp "$W/others" :others
	"$@" /usr/bin/python3 - "$W/step" "$W"/user/ranks[12] <<-'END'
	import sys, threading, bootseer_group
	like, *sockets = sys.argv[1:]
	like, good = open(like, "rb").read(), []
	def read(socket):
	    file = bootseer_group.GroupFile(socket, "/ckpt/step")
	    assert file.size == len(like)
	    for at, n in (0, len(like)), (5_000_001, 77), (len(like) - 1, 1):
	        assert file.read(at, n)[:] == like[at:at + n]
	    for _ in range(20):
	        try:
	            file.read(len(like) - 5, 6)
	        except OSError as why:
	            good.append(why.errno)
	ranks = [threading.Thread(target=read, args=(s,)) for s in sockets]
	for r in ranks: r.start()
	for r in ranks: r.join()
	assert good == 40 * [34], good
	members = [bootseer_group.address_of(s) for s in sockets]
	mine = bootseer_group.Group(sockets[1], 1, members, "reads").get("/ckpt/step")
	assert sorted(mine) == ["mine", "none", "step", "tied", "world", "zeros"], mine
	assert bytes(mine["world"].numpy()) == bytes(mine["tied"].numpy())
	def hold():
	    while True:
	        try:
	            return bootseer_group.GroupFile(sockets[0], "/ckpt/step")
	        except bootseer_group.SaveError as said:  # those above may not be closed there yet
	            assert "32 files" in str(said), said
	held = [hold() for _ in range(32)]
	for _ in range(32):
	    held.append(bootseer_group._ask(sockets[0], {"op": "blocks", "cache": "c"}, "blocks")[0])
	try:
	    bootseer_group.GroupFile(sockets[0], "/ckpt/step")
	    raise AssertionError("33 files")
	except bootseer_group.SaveError as said:
	    assert "32 files" in str(said), said
	# Saves have places of their own.
	one = [bootseer_group.address_of(sockets[0])]
	bootseer_group.Group(sockets[0], 0, one, "held").put("/ckpt/held", {}).durable.wait()
	for h in held: h.close()
	for path, why in (("/ckpt/secret", "another user"), ("/ckpt/others", "another user"),
	                  ("/ckpt/absent", "absent"), ("../x", "x")):
	    try:
	        bootseer_group.GroupFile(sockets[0], path)
	        raise AssertionError(path)
	    except bootseer_group.SaveError as said:
	        assert why in str(said), said
	END
	(($(grep -c "a rank's read failed" "$W/log1") < 20))
	n=$(($(user_metric 1 group_fetched_bytes_total) + $(user_metric 2 group_fetched_bytes_total)))
	echo "# the store gave $n bytes" >&2
	((n > 0 && n <= $(stat -c %s "$W/step")))
}

@test "ranks without rights save by processes that mount nothing, and end by a signal" {
	local i as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs
		--bounding-set=-all)

	chmod 755 "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR" "$W" || :
	mkdir "$W/user"
	chown 65534 "$W/user" "$W/store" "$W/key"
	ranks=()
	for i in 1 2; do
		"${as_nobody[@]}" bootseer-ckpt --ranks-only --run="$W/user/run$i" --group="$PLACE" \
			--group-key="$W/key" --group-socket="$W/user/ranks$i" --group-blocks=4M \
			--group-blocks-store=64M "$STORE" /ckpt >"$W/log$i" 2>&1 3>&- &
		ranks+=($!)
	done
	for i in 1 2; do wait_for test -S "$W/user/ranks$i"; done
	"${as_nobody[@]}" "$BATS_TEST_DIRNAME/save-ranks.py" put /ckpt/step "$W"/user/ranks[12] >"$W/said"
	said durable
	has_step 2
	# Another user of the pod is not whom they serve.
	run ! setpriv --reuid=65533 --regid=65533 --clear-groups \
		"$BATS_TEST_DIRNAME/save-ranks.py" put /ckpt/other "$W"/user/ranks[12]
	[[ $output == *PermissionError* ]]
	curl_socket "$W/user/run1/mount.sock" | grep '^bootseer_ckpt_group_saves_durable_total 1'
	read_without_mount "${as_nobody[@]}"
	kill "${ranks[@]}"
	wait_all "${ranks[@]}"
	run -1 "${as_nobody[@]}" bootseer-ckpt --ranks-only --run="$W/user/run1" "$STORE" /ckpt
	[[ $output == *"--ranks-only needs --group-socket"* ]]
}

@test "a read that is refused keeps no place" {
	bootseer-ckpt --ranks-only --run="$W/run" --group="$PLACE" --group-key="$W/key" \
		--group-socket="$W/ranks" "$STORE" /ckpt >"$W/log" 2>&1 3>&- &
	ranks=$!
	wait_for test -S "$W/ranks"
	# It ends, though the rank does not.
	/usr/bin/python3 - "$W/ranks" <<-'END'
	import select, sys, bootseer_group
	sock = bootseer_group._call(sys.argv[1], {"op": "read", "path": "/ckpt/absent"})
	with sock.makefile() as lines:
	    assert "absent" in lines.readline()
	ended = select.poll()
	ended.register(sock, 0)
	assert ended.poll(60_000)
	END
	kill "$ranks"
	wait "$ranks"
}

@test "files are read where no other node can be, and waits for one run side by side" {
	noise 5000000 7 >"$W/file"
	ckpt cp "$W/file" :file
	bootseer-ckpt --ranks-only --run="$W/run" --group=absent.invalid:29600 --group-key="$W/key" \
		--group-socket="$W/ranks" "$STORE" /ckpt >"$W/log" 2>&1 3>&- &
	ranks=$!
	wait_for test -S "$W/ranks"
	/usr/bin/python3 - "$W/ranks" "$W/file" <<-'END'
	import sys, threading, time, bootseer_group
	address, like = sys.argv[1], open(sys.argv[2], "rb").read()
	ended = []
	def hello():
	    try:
	        bootseer_group.address_of(address)
	    except bootseer_group.SaveError as why:
	        assert "no address of --group" in str(why), why
	        ended.append(time.monotonic())
	waits = [threading.Thread(target=hello) for _ in range(8)]
	for w in waits: w.start()
	assert bootseer_group._said(address, {"op": "reads"}, "reads")
	assert bootseer_group.GroupFile(address, "/ckpt/file").read(0, len(like))[:] == like
	assert not ended
	for w in waits: w.join()
	# Of half a minute each.
	assert len(ended) == 8 and max(ended) - min(ended) < 30, ended
	END
	kill "$ranks"
	wait "$ranks"
}

@test "of two nodes that die nothing is left, and it is said" {
	bucket
	mount_with_slow 1 3
	begin_put 3
	wait_for said buffered
	kill_node 1
	kill_node 2
	wait "$ranks"
	[ "$(grep -c '^lost.*2 nodes are gone' "$W/said")" = 2 ]
	[ "$(node 3 figure group.saves.failed)" = 1 ]
	has_no_step
}

@test "who is no member, or lies or keeps silent, stores nothing" {
	local at host=${PLACE%:*} key=$W/key

	mount_node 1 --group-wait=3s
	chmod 755 "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR" "$W" || :
	run ! setpriv --reuid=65534 --regid=65534 --clear-groups \
		"$BATS_TEST_DIRNAME/save-ranks.py" raw "$W/ranks1"
	[[ $output == *PermissionError* ]]
	ranks raw "$W/ranks1" >"$W/said"
	cat "$W/said" >&2
	[ "$(grep -c '"failed"' "$W/said")" = 7 ]
	[ "$(grep -c "the memory is not sealed" "$W/said")" = 2 ]
	# Whoever shows no certificate of the group is told nothing.
	at=$(sed -n 's/.*save: listens addr="\(.*\)".*/\1/p' "$W"/run/*/log)
	run curl -sk "https://$at/v1/saves/00000000000000000000000000000000/table"
	[ "$output" = "no member of the group" ]
	ranks lie "$key" "$host" "$W/ranks1" bytes length rank cut bundle silence part durable >"$W/said"
	cat "$W/said" >&2
	grep -q "^bytes .*other bytes of 'a' than it had said" "$W/said"
	grep -q "^length .*'a' has not its shape, type or digests" "$W/said"
	grep -q "^rank .*which is not its" "$W/said"
	grep -q "^cut .*a table that is none" "$W/said"
	grep -q "^bundle .*it has not the tables of all nodes" "$W/said"
	# What it would have written or committed, this node does instead.
	grep -q "^part None" "$W/said"
	grep -q "^durable None" "$W/said"
	"$bootseer" ckpt stat "$STORE" :lie-part
	"$bootseer" ckpt stat "$STORE" :lie-durable
	grep -q "^silence .*it is gone" "$W/said"
	[ "$(node 1 figure group.saves.wrong)" = 1 ]
	[ "$(node 1 figure group.saves.memory_used)" = 0 ]
	[ "$(node 1 figure restarted)" = false ]
	run ! "$bootseer" ckpt stat "$STORE" :lie-bytes
}
