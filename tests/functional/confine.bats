#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What bootseerd may do, and hostile artifacts whose digests are right.

bats_require_minimum_version 1.5.0
load node.bash

setup_file() {
	make_image "$BATS_FILE_TMPDIR"
	keep_files "$BATS_FILE_TMPDIR"
}
setup() { node_setup; }
teardown() { node_teardown; }

# The unpacked files of the artifact, for forge.
keep_files() { # DIR
	local BATS_FILE_TMPDIR=$1

	node_setup
	node_start
	call image.prepare "{\"ref\":\"$IMAGE\"}" | jq -e .result
	cp "$T"/root/images/*/{meta.erofs,blockmap} "$1"
	node_stop
	BATS_TEST_COMPLETED=1 node_teardown
}

# A registry with a hostile artifact instead.
forge() { # KIND
	cp -r "$D/oci" "$T/oci"
	python3 "$BATS_TEST_DIRNAME/forge-artifact.py" "$T/oci" \
		"$D/meta.erofs" "$D/blockmap" "$1"
	kill "${pids[0]}"
	wait "${pids[0]}" || :
	rm "$T/ports"
	D=$T registry_start
}

# Digest of the packed metadata image.
meta_blob() {
	local artifact

	artifact=$(jq -r '.manifests[] | select(.artifactType) | .digest' \
		"$D/oci/index.json")
	jq -r '.layers[0].digest' "$D/oci/blobs/sha256/${artifact#*:}"
}

process_is_gone() { # PID
	[[ $(proc "$1" State 2>/dev/null) == [ZX]* ]] || [ ! -e "/proc/$1" ]
}

prepare() { call image.prepare "{\"ref\":\"$IMAGE\"}"; }

# Of a process: FIELD of /proc/PID/status.
proc() { # PID FIELD
	awk -v f="$2:" '$1 == f { print $2 }' "/proc/$1/status"
}

# A parser that is begun anew has the filter of bootseerd from its first moment, and gives up
# its capabilities after its user.
is_confined() { # PID
	[ "$(proc "$1" Seccomp)" = 2 ] && [ "$(proc "$1" CapEff)" = 0000000000000000 ]
}

# The parser of bootseerd, when it has given up what it began with: it is a process of its own,
# for which bootseerd does not wait, and the filter is the last of it.
parser_of() { # PID
	local parser

	parser=$(child_of "$1")
	wait_for is_confined "$parser" >&2 || return
	echo "$parser"
}

# The capabilities that docs/decisions/0014-confinement.md names, as a mask.
CAPS=00000000882044ff

# Of the same document.
PARSER_UID=2063621869

other_user_namespace() { # PID
	[ "$(readlink "/proc/$1/ns/user")" != "$(readlink /proc/self/ns/user)" ]
}

# Are all of a mask in another?  (A test machine may have fewer.)
within() { (((0x$1 & ~0x$2) == 0)); } # MASK OF

@test "bootseerd has the capabilities that it needs, a filter, and no way to more" {
	local field

	node_start
	for field in CapEff CapPrm CapBnd; do
		within "$(proc "$node_pid" $field)" "$CAPS"
	done
	((0x$(proc "$node_pid" CapEff) & 1 << 21)) # mounts
	[ "$(proc "$node_pid" CapInh)" = 0000000000000000 ]
	[ "$(proc "$node_pid" NoNewPrivs)" = 1 ]
	[ "$(proc "$node_pid" Seccomp)" = 2 ]
	"$bootseer" node doctor >"$T/doctor" || :
	grep -q 'ok *confinement .*no more can be got, seccomp filter' "$T/doctor"
	run ! grep -q 'not wholly confined' "$T/log"
}

@test "every thread of bootseerd is confined" {
	local t

	node_start
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	for t in /proc/"$node_pid"/task/*; do
		within "$(proc "$node_pid/task/${t##*/}" CapEff)" "$CAPS"
		[ "$(proc "$node_pid/task/${t##*/}" Seccomp)" = 2 ]
	done
	"$bootseer" image umount "$T/mnt"
}

@test "the holder has no capabilities, and gives its bootseerd those it needs" {
	local child

	node_start --hold
	child=$(child_of "$node_pid")
	[ "$(proc "$node_pid" CapEff)" = 0000000000000000 ]
	[ "$(proc "$node_pid" CapPrm)" = 0000000000000000 ]
	within "$(proc "$node_pid" CapBnd)" "$CAPS"
	[ "$(proc "$node_pid" Seccomp)" = 2 ]
	((0x$(proc "$child" CapEff) & 1 << 21))
	[ "$(proc "$child" NoNewPrivs)" = 1 ]
}

@test "the parser is nobody, has nothing and may do nothing" {
	local parser

	node_start
	parser=$(parser_of "$node_pid")
	[ "$(proc "$parser" Uid)" = "$PARSER_UID" ]
	[ "$(proc "$parser" Gid)" = "$PARSER_UID" ]
	[ "$(proc "$parser" CapEff)" = 0000000000000000 ]
	[ "$(proc "$parser" CapPrm)" = 0000000000000000 ]
	[ "$(proc "$parser" NoNewPrivs)" = 1 ]
	[ "$(proc "$parser" Seccomp)" = 2 ]
	# /dev/null, the log and its socket.
	[ "$(find "/proc/$parser/fd" -mindepth 1 | wc -l)" -le 5 ]
	[ -z "$(find "/proc/$parser/fd" -lname "$T/root*")" ]
	"$bootseer" node doctor >"$T/doctor" || :
	grep -q "ok *parser .*uid $PARSER_UID, which nothing else has" "$T/doctor"
}

# Whoever has a process's uid may signal it.
@test "no other user of the machine can stop the parser" {
	local parser uid first last

	node_start
	parser=$(parser_of "$node_pid")
	uid=$(proc "$parser" Uid)
	for last in 1 1000 65534; do
		run -1 setpriv --reuid "$last" --regid "$last" --clear-groups \
			kill -STOP "$parser"
	done
	[ "$(proc "$parser" State)" != T ]
	# Nobody has it by name, and nothing gives it away: distributions,
	# systemd (dynamic users, containers, foreign ids), subuids, SSSD.
	run -2 getent passwd "$uid"
	run -2 getent group "$uid"
	while read -r first last; do
		((uid < first || uid > last))
	done <<-'END'
		0 60577
		61184 65535
		100000 600100000
		200000 2000200000
		524288 1879048191
		2147352576 2147418111
		2147483648 4294967295
	END
}

@test "a user namespace without the parser's uid gets another one, and doctor says so" {
	local pid

	mkdir "$T/root" "$T/run"
	mkfifo "$T/go"
	: >"$T/log"
	# shellcheck disable=SC2016 # the inner shell's
	unshare --user --mount --propagation private bash -c \
		'read -r _ <"$0"; exec "$@"' "$T/go" "$bootseerd" \
		--root "$T/root" --run "$T/run" 2>>"$T/log" 3>&- &
	pid=$! node_pid=$!
	pids+=("$pid")
	wait_for other_user_namespace "$pid"
	echo 0 0 65536 >"/proc/$pid/uid_map"
	echo 0 0 65536 >"/proc/$pid/gid_map"
	echo >"$T/go"
	wait_for node_is_up
	[ "$(proc "$(parser_of "$pid")" Uid)" = 65534 ]
	"$bootseer" node doctor >"$T/doctor" || :
	grep -q 'advice *parser .*uid 65534, which others may have' "$T/doctor"
	grep -q "cure: .*maps uid and gid $PARSER_UID" "$T/doctor"
}

@test "a hostile artifact whose digests are right is refused by name" {
	local kind why

	while read -r kind why; do
		forge "$kind"
		node_start
		prepare >"$T/reply"
		jq -r .error.message "$T/reply" | grep -F "$why" ||
			{ echo "$kind:"; cat "$T/reply"; false; }
		# Nothing of it is there, and nothing was mounted.
		[ -z "$(find "$T/root/images" -name '*.erofs')" ]
		run ! "$bootseer" image mount "$IMAGE" "$T/mnt"
		run ! grep -q " $T/run/images" /proc/self/mountinfo
		[ "$(status '.images | length')" = 0 ]
		node_stop
		rm -rf "$T/oci" "$T/root"
		pids=("${pids[@]: -2:1}")
	done <<-'END'
		cycle a folder with two names
		two-parents a folder with two names
		name impossible name
		type an entry of another type
		links wrong number of links
		size chunk indexes leave the image
		device leave
		feature unknown features 0x4
		hidden bytes near 512 that belong to nothing
		inodes inodes, the artifact says
		map block map:
		bomb it unpacks to more than
		window damaged zstd: Frame requires too much memory
	END
}

# An older bootseerd took an artifact whose superblock alone was good.
@test "an image that was taken unchecked is checked before it is mounted" {
	local good bad name

	node_start
	prepare | jq -e .result
	node_stop
	cp -r "$D/oci" "$T/oci"
	bad=$(python3 "$BATS_TEST_DIRNAME/forge-artifact.py" "$T/oci" \
		"$D/meta.erofs" "$D/blockmap" cycle)
	# As docs/formats/control.md has it.
	bad=$(python3 -c 'import hashlib, sys
print(hashlib.sha256(b"bootseer-image-id-v1\0" + bytes.fromhex(sys.argv[1]) +
    sys.argv[2].encode()).hexdigest())' "$bad" "${IMAGE%:*}")
	good=$(basename "$T"/root/images/*/)
	mv "$T/root/images/$good" "$T/root/images/$bad"
	for name in artifact.json config.json meta.erofs blockmap; do
		cp "$T/oci/forged-$name" "$T/root/images/$bad/$name"
	done
	node_start
	[ "$(status '.images | length')" = 1 ]
	call image.mount "{\"id\":\"sha256:$bad\",\"user\":\"u\"}" >"$T/reply"
	jq -r .error.message "$T/reply" | grep -F 'a folder with two names'
	run ! grep -q " $T/run/images" /proc/self/mountinfo
}

@test "a metadata image that the disk damaged never reaches the kernel" {
	local meta

	node_start
	prepare | jq -e .result
	node_stop
	meta=$(echo "$T"/root/images/*/meta.erofs)
	printf 'x' | dd of="$meta" bs=1 seek=6000 conv=notrunc status=none
	node_start
	# It is fetched again, as the registry has it.
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	grep -q 'mount: damaged' "$T/log"
	listing "$T/mnt" | diff "$D/want" -
	"$bootseer" image umount "$T/mnt"
	cmp "$meta" "$D/meta.erofs"
}

@test "a parser that was killed is run again" {
	local parser

	node_start
	parser=$(parser_of "$node_pid")
	kill -KILL "$parser"
	prepare | jq -e .result
	[ "$(child_of "$node_pid")" != "$parser" ]
	grep -q 'parser: ended' "$T/log"
}

# Another may end by itself as it is found.
kill_jobs() # PARSER
{
	local pid has_killed=

	for pid in $(child_of "$1"); do
		! kill -KILL "$pid" || has_killed=1
	done
	[ "$has_killed" ]
}

@test "a job of the parser that is killed is an error, and no other job's" {
	local parser

	node_hold # the job is there for as long as it takes to find it
	node_start --stall-timeout 10s
	parser=$(parser_of "$node_pid")
	fault hang=1 "match=/blobs/$(meta_blob)"
	aside prepare prepare >"$T/reply"
	wait_for pgrep -P "$parser"
	wait_for kill_jobs "$parser"
	fault
	# The registry is asked again, and what comes finds nobody.
	wait_for later has_ended prepare
	jq -r .error.message "$T/reply" | grep -F 'the process that parses it died'
	[ -z "$(find "$T/root/images" -name '*.erofs')" ]
	prepare | jq -e .result
	[ "$(child_of "$node_pid")" = "$parser" ]
}

@test "a job of the parser that may not have the memory it needs is an error" {
	node_start
	setpriv --reuid "$PARSER_UID" --regid "$PARSER_UID" --clear-groups \
		prlimit --pid "$(parser_of "$node_pid")" --data=1048576
	prepare >"$T/reply"
	jq -e .error.message "$T/reply"
	[ -z "$(find "$T/root/images" -name '*.erofs')" ]
}

@test "a parser that somebody stopped does not outlive bootseerd" {
	local parser

	node_start
	parser=$(parser_of "$node_pid")
	kill -STOP "$parser"
	node_stop
	[ ! -e "/proc/$parser" ]
}

@test "a stopped parser holds nothing up" {
	local parser

	node_start
	parser=$(parser_of "$node_pid")
	kill -STOP "$parser"
	prepare | jq -e '.result.source == "registry"'
	[ ! -e "/proc/$parser" ]
	grep -q "parser: does not answer pid=$parser action=" "$T/log"
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	listing "$T/mnt" | diff "$D/want" -
	"$bootseer" image umount "$T/mnt"
}

# Stop the jobs that are there, one or two; a job may also end as it is found.
stop_jobs() # PARSER
{
	local pid

	jobs=()
	for pid in $(child_of "$1"); do
		! kill -STOP "$pid" || [ "$(proc "$pid" State)" != T ] || jobs+=("$pid")
	done
	[ "${#jobs[@]}" != 0 ]
}

@test "what a job has left goes with bootseerd" {
	local parser jobs job

	node_start
	parser=$(parser_of "$node_pid")
	fault delay_ms=3600000 "match=/blobs/$(meta_blob)"
	prepare >"$T/reply" 2>/dev/null 3>&- &
	pids+=($!)
	# They wait for ever, as one does that a stranger took over.
	wait_for stop_jobs "$parser"
	node_stop KILL
	for job in "${jobs[@]}" "$parser"; do
		wait_for process_is_gone "$job"
	done
	fault
}

# More than the threads that wait for nothing but the disk.
# Descriptors that are sent and not taken yet count for the user.
descriptors_under_way() # UID NUMBER
{
	exec python3 -c '
import array, os, socket, sys
os.setgroups([])
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
kept = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for _ in range(int(sys.argv[2]))]
for a, _ in kept:
    a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                        array.array("i", [0]))])
print("there", flush=True)
os.read(0, 1)' "$1" "$2"
}

@test "jobs of the parser begin when its user has many descriptors under way" {
	local parser

	node_start
	parser=$(parser_of "$node_pid")
	mkfifo "$T/until"
	descriptors_under_way "$(proc "$parser" Uid)" 100 \
		<>"$T/until" >"$T/there" 3>&- &
	pids+=("$!")
	wait_for test -s "$T/there"
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	"$bootseer" image umount "$T/mnt"
	[ "$(child_of "$node_pid")" = "$parser" ]
}

@test "mounts that wait for a stopped parser leave node.status its answer" {
	local i id calls_pid

	node_start
	for i in {1..24}; do
		call image.prepare "{\"ref\":\"$REGISTRY/r$i:v1\"}" |
			jq -r .result.id >>"$T/ids"
	done
	node_stop
	node_start
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	kill -STOP "$(parser_of "$node_pid")"
	while read -r id; do
		echo "{\"id\":\"$id\",\"user\":\"u\"}"
	done <"$T/ids" | call_all image.mount "$T/sent" >"$T/replies" 3>&- &
	calls_pid=$!
	pids+=("$calls_pid")
	wait_for test -e "$T/sent"
	# Neither of these waits for the parser, and no mount has come by it.
	[ "$(status '.images | length')" = 25 ]
	"$bootseer" image umount "$T/mnt"
	[ ! -s "$T/replies" ]
	# It is run again, and they go on.
	wait_all "$calls_pid"
	[ "$(jq -r .result.mode "$T/replies" | grep -cx 'lazy\|complete')" = 24 ]
	call image.umount '{"user":"u"}' | jq -e '.result.released == 24'
}
