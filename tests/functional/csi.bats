#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bootseer-csi with a kubelet that is emulated (kubelet.py); a real one has it in
# tests/conformance/kubelet.bats.

bats_require_minimum_version 1.5.0
load node.bash

csi=$BOOTSEER_BUILD/csi/bootseer-csi

setup_file() { make_image "$BATS_FILE_TMPDIR"; }

setup()
{
	node_setup
	K=$T/kubelet csi_starts=0
	# Control groups are the machine's, and named by the pod's UID.
	export POD_UIDS=uid-${T##*.}
	mkdir -p "$K" "$T/programs"
	ln -s "$bootseer" "$T/programs/"
}

teardown()
{
	local id

	# Processes of volumes, of a test that failed.
	for id in "$T"/state/*/; do
		id=$(basename "$id")
		cat /sys/fs/cgroup{,/*}/"bootseer/$id/cgroup.procs" 2>/dev/null |
			sort -u | xargs -r kill -9 2>/dev/null || :
	done
	[ -z "${BATS_TEST_COMPLETED:-}" ] && sed 's/^/# /' "$T/csi.log" >&3
	node_teardown
}

csi_start() # [OPTION...]
{
	PATH=$BOOTSEER_BUILD/ckpt-fuse/mount:$PATH \
		"$csi" --kubelet-dir "$K" --state "$T/state" --node "$BOOTSEER_SOCKET" \
		--node-name node-1 --programs "$T/programs" \
		--allow "namespace=a kind=image image=$REGISTRY" "$@" 2>>"$T/csi.log" 3>&- &
	csi_pid=$!
	pids+=("$csi_pid")
	csi_starts=$((csi_starts + 1))
	wait_for csi_is_up
}

csi_is_up()
{
	kill -0 "$csi_pid" || exit 1
	# A killed one left its sockets.
	[ "$(grep -c 'main: listening' "$T/csi.log")" -ge "$csi_starts" ]
}

kubelet() { /usr/bin/python3 "$BATS_TEST_DIRNAME/kubelet.py" "$K" "$@"; }

# Where the pod's volume is.
volume() { echo "$K/pods/$POD_UIDS-${1#*/}/volumes/kubernetes.io~csi/$2/mount"; } # POD VOLUME

# What bootseerd keeps mounted for volumes.
users() { call image.users '{"prefix":"csi:"}' | jq -c .result.users; }

refused() # STATUS PATTERN COMMAND...
{
	run kubelet "${@:3}"
	echo "$output"
	[ "$status" -eq 1 ]
	[[ $output == "$1: "*$2* ]]
}

# It was never larger than 20 MiB.
csi_is_small()
{
	grep VmHWM "/proc/$csi_pid/status"
	[ "$(awk '/^VmHWM/ { print $2 }' "/proc/$csi_pid/status")" -lt 20480 ]
}

@test "the kubelet finds the plugin, and forgets it when it ends" {
	csi_start
	run -0 kubelet register
	[ "$output" = "CSIPlugin csi.bootseer 1.0.0 node-1" ]
	grep -q 'the kubelet has the plugin' "$T/csi.log"
	csi_is_small
	# One at a time, whose sockets stay.
	run -1 "$csi" --kubelet-dir "$K" --state "$T/state" --programs "$T/programs"
	[[ $output == *"another bootseer-csi uses --state"* ]]
	kubelet register
	kill "$csi_pid"
	wait "$csi_pid"
	[ ! -e "$K/plugins_registry/csi.bootseer-reg.sock" ]
	[ ! -e "$K/plugins/csi.bootseer/csi.sock" ]
	# Nothing was under way, so the end waited for nothing.
	run -1 grep 'ending with calls under way' "$T/csi.log"
}

@test "csi-sanity finds nothing" {
	local sanity

	sanity=$("$BATS_TEST_DIRNAME/../stores/build" csi-sanity)
	csi_start
	# Without those that make their volume by a controller first.
	"$sanity/csi-sanity" --csi.endpoint="$K/plugins/csi.bootseer/csi.sock" \
		--csi.mountdir="$T/m" --csi.stagingdir="$T/s" --ginkgo.no-color \
		--ginkgo.focus='Identity Service|Node Service' \
		--ginkgo.skip='should remove target path|on the specified path' >"$T/sanity"
	cat "$T/sanity"
	grep -q 'Ran 1[0-9] of .* Specs' "$T/sanity"
}

@test "an image is a volume, and gone with it" {
	node_start
	csi_start
	kubelet publish a/p v kind=image "image=$IMAGE"
	listing "$(volume a/p v)" >"$T/got"
	diff "$D/want" "$T/got"
	# Read only, and none of its files is a device or gives a right.
	options=$(findmnt -no OPTIONS "$(volume a/p v)")
	[[ ,$options, == *,ro,*nosuid,nodev,* ]]
	[ "$(users)" = "[\"csi:$POD_UIDS-p/v\"]" ]
	[ "$(kubelet stats a/p v | jq -c '[.abnormal, .bytes > 1000000]')" = '[false,true]' ]
	# Again is no error, and nothing is done.
	requests=$(wc -l <"$T/requests")
	kubelet publish a/p v kind=image "image=$IMAGE"
	[ "$(wc -l <"$T/requests")" -eq "$requests" ]
	kubelet unpublish a/p v
	[ ! -e "$(volume a/p v)" ]
	[ "$(users)" = '[]' ]
	kubelet unpublish a/p v
	refused NOT_FOUND "no volume is at" stats a/p v
	[ "$(grep -c " $K/" /proc/self/mountinfo)" -eq 0 ]
}

@test "who is refused is told why, and how that is mended" {
	local url=file://$T/store

	mkdir "$T/store"
	csi_start --allow "namespace=b kind=ckpt store=$url"
	refused PERMISSION_DENIED "namespace=b kind=image image=$IMAGE" \
		publish b/p v kind=image "image=$IMAGE"
	refused PERMISSION_DENIED "add access=write" publish b/p v kind=ckpt "store=$url"
	refused PERMISSION_DENIED "takes no secret" publish b/p v kind=ckpt "store=$url" \
		@secret.AWS_ACCESS_KEY_ID=b @readonly=1
	refused INVALID_ARGUMENT "leave it out" publish a/p v kind=image "image=$IMAGE" \
		@secret.a=b
	refused INVALID_ARGUMENT "no block" publish a/p v kind=image "image=$IMAGE" @block=1
	refused UNAVAILABLE bootseerd publish a/p v kind=image "image=$IMAGE"
	refused INVALID_ARGUMENT "seLinuxMount: false" publish a/p v kind=image "image=$IMAGE" \
		@flag=context=u:r:t
	[ -e /sys/fs/selinux ] || refused INVALID_ARGUMENT "this node has no SELinux" publish b/p v \
		kind=ckpt "store=$url" @readonly=1 '@flag=context="u:r:t:s0:c1,c2"'
	# Whose it is a pod does not say itself.
	refused INVALID_ARGUMENT "podInfoOnMount: true" publish b/p v kind=image \
		"image=$IMAGE" @bare=1 @raw=csi.storage.k8s.io/pod.namespace=a \
		@raw=csi.storage.k8s.io/ephemeral=true @raw=csi.storage.k8s.io/pod.uid=made-up
	# Nothing is left of any.
	[ -z "$(ls "$T/state")" ]
	[ ! -e "$(volume b/p v)" ]
}

# Attributes of the volumes of both examples, a volume a line, as words, each once.
volumes_of_example()
{
	sed -nE 's/^ *volumeAttributes: \{ (.*) \}$/\1/p' \
		"$BATS_TEST_DIRNAME"/../../deploy/kubernetes-{job,pytorchjob}.yaml |
		sed -E 's/: /=/g; s/,? (\w+=)/ \1/g; s/"//g' | sort -u
}

@test "the volumes of the jobs that docs/kubernetes.md shows lack nothing but a rule" {
	local line
	local -a words

	csi_start
	[ "$(volumes_of_example | grep -c ^kind=)" = 3 ]
	while read -r line; do
		read -ra words <<<"$line"
		refused PERMISSION_DENIED "no rule of this node" publish b/p v "${words[@]}"
	done < <(volumes_of_example)
}

@test "a hostile pod gets nothing, and nowhere" {
	csi_start --allow "namespace=a kind=ckpt store=s3://bucket/a access=write" \
		--allow "namespace=a kind=env store=s3://bucket/env"
	[ "$(kubelet hostile 300 1)" = 300 ]
	kill -0 "$csi_pid"
	[ -z "$(ls "$T/state")" ]
	# Links that somebody planted lead nowhere.
	mkdir -p "$T/elsewhere/v" "$K/pods/$POD_UIDS-l/volumes"
	ln -s "$T/elsewhere" "$K/pods/$POD_UIDS-l/volumes/kubernetes.io~csi"
	refused INVALID_ARGUMENT "a link is in it" publish a/l v kind=image "image=$IMAGE"
	refused INVALID_ARGUMENT "a link is in it" unpublish a/l v
	mkdir -p "$K/pods/$POD_UIDS-m/volumes/kubernetes.io~csi/v"
	ln -s "$T/elsewhere" "$(volume a/m v)"
	node_start
	run -1 kubelet publish a/m v kind=image "image=$IMAGE"
	[ -z "$(ls "$T/elsewhere/v")" ]
	[ "$(grep -c " $T/elsewhere" /proc/self/mountinfo)" -eq 0 ]
	[ "$(users)" = '[]' ]
}

# Processes of a control group of a volume, one a line.
group_of() # ID
{
	cat /sys/fs/cgroup{,/*}/bootseer/"$1"/cgroup.procs 2>/dev/null | sort -un
}

id_of() { printf %s "$POD_UIDS-${1#*/}/$2" | sha256sum | cut -c 1-16; } # POD VOLUME

read_by_pod() # NAME
{
	local rc=0

	kubelet publish "a/$1" v kind=ckpt "store=file://$T/store" @readonly=1 || return
	cmp "$T/model" "$(volume "a/$1" v)/model" || rc=1
	kubelet unpublish "a/$1" v
	return "$rc"
}

# A machine that is busy may take its disk for a slow one, and keep the rest another time.
is_kept_whole()
{
	read_by_pod p && [ "$(du -sB1 "$T/kept" | cut -f 1)" -ge 20000000 ]
}

@test "what a checkpoint volume has read is on the node's disk for the next one" {
	mkdir "$T/store"
	head -c 20000000 /dev/urandom >"$T/model"
	"$bootseer" ckpt cp "file://$T/store" "$T/model" :model
	csi_start --allow "namespace=a kind=ckpt store=file://$T/store cache=$T/kept cache-size=64Mi"
	wait_for is_kept_whole
	# The bytes are nowhere else.
	mv "$T/store/.bootseer/data" "$T/data"
	read_by_pod q
}

@test "a checkpoint mount outlives the plugin, and is mounted anew when all of it died" {
	local url=file://$T/store id m

	mkdir "$T/store"
	csi_start --allow "namespace=a kind=ckpt store=$url access=write uid=5-6 gid=7"
	m=$(volume a/p v) id=$(id_of a/p v)
	kubelet publish a/p v kind=ckpt "store=$url" uid=6 @group=7 @flag=noexec
	[ "$(stat -c %u:%g "$m")" = 6:7 ]
	[[ ,$(findmnt -no OPTIONS "$m"), == *,nosuid,nodev,noexec,* ]]
	echo one >"$m/file"
	# The process below it is in no group of the plugin's, which is killed.
	[ "$(group_of "$id" | wc -l)" -ge 2 ]
	run -1 grep -qx "$csi_pid" <(group_of "$id")
	kill -9 "$csi_pid"
	wait "$csi_pid" || :
	[ "$(cat "$m/file")" = one ]
	csi_start --allow "namespace=a kind=ckpt store=$url access=write uid=5-6 gid=7"
	kubelet publish a/p v kind=ckpt "store=$url" uid=6 @group=7 @flag=noexec
	[ "$(cat "$m/file")" = one ]
	# With its holder dead nobody answers, which the kubelet is told, and mends.
	group_of "$id" | xargs kill -9
	wait_for is_dead "$m"
	[ "$(kubelet stats a/p v | jq .abnormal)" = true ]
	kubelet publish a/p v kind=ckpt "store=$url" uid=6 @group=7 @flag=noexec
	[ "$(cat "$m/file")" = one ]
	[ "$(kubelet stats a/p v | jq .abnormal)" = false ]
	kubelet unpublish a/p v
	[ ! -e "$m" ]
	[ -z "$(ls "$T/state")" ]
	[ -z "$(compgen -G "/sys/fs/cgroup/*/bootseer/$id")" ]
	# What was a pod's is gone with it when the node comes back.
	kubelet publish a/p v kind=ckpt "store=$url" uid=6 @readonly=1 @group=7
	run -1 touch "$m/new"
	kill -9 "$csi_pid"
	wait "$csi_pid" || :
	umount -l "$m"
	rm -r "$K/pods/$POD_UIDS-p"
	csi_start --allow "namespace=a kind=ckpt store=$url"
	wait_for is_empty "$T/state"
	[ -z "$(group_of "$id")" ]
}

# The programs' `bootseer`, whose `ckpt umount` waits for a line in $T/go first.
slow_umounts()
{
	mkfifo "$T/go"
	rm "$T/programs/bootseer"
	cat >"$T/programs/bootseer" <<-END
	#!/bin/bash
	if [ "\$2" = umount ]; then
		echo "\$\$" >"$T/umount.pid"
		read -r _ <"$T/go"
	fi
	exec "$bootseer" "\$@"
	END
	chmod +x "$T/programs/bootseer"
}

has_gone() { ! kill -0 "$1" 2>/dev/null; } # PID

@test "what a killed plugin was waiting for does not go on beside the next one" {
	local url=file://$T/store m pid

	mkdir "$T/store"
	slow_umounts
	csi_start --allow "namespace=a kind=ckpt store=$url access=write"
	m=$(volume a/p v)
	kubelet publish a/p v kind=ckpt "store=$url"
	echo one >"$m/file"
	aside end kubelet unpublish a/p v
	wait_for test -s "$T/umount.pid"
	pid=$(cat "$T/umount.pid")
	kill -9 "$csi_pid"
	wait "$csi_pid" || :
	wait_for has_gone "$pid"
	wait_for has_ended end
	# The volume is wanted once more: its mount is as it was, and gone in the end.
	csi_start --allow "namespace=a kind=ckpt store=$url access=write"
	kubelet publish a/p v kind=ckpt "store=$url"
	[ "$(cat "$m/file")" = one ]
	ln -sf "$bootseer" "$T/programs/bootseer"
	kubelet unpublish a/p v
	[ -z "$(ls "$T/state")" ]
}

is_dead() { ! stat -f "$1" 2>/dev/null; } # FOLDER
is_empty() { [ -z "$(ls "$1")" ]; } # FOLDER

@test "a mount that does not answer is told of, and leaves no process of the question" {
	local url=file://$T/store id

	mkdir "$T/store"
	csi_start --allow "namespace=a kind=ckpt store=$url access=write"
	id=$(id_of a/p v)
	kubelet publish a/p v kind=ckpt "store=$url"
	group_of "$id" | xargs kill -STOP
	[[ $(kubelet stats a/p v | jq -r .message) == "it does not answer"* ]]
	group_of "$id" | xargs kill -CONT
	wait_for has_no_child "$csi_pid"
	kubelet unpublish a/p v
}

# Holes that are refused, asked for by one thread, and by a thread for each.
ask_for_holes() # FILE BY-ONE BY-EACH
{
	/usr/bin/python3 - "$@" <<-'EOF'
	import ctypes, os, sys, threading

	libc = ctypes.CDLL(None, use_errno=True)
	fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)

	def ask():
	    # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
	    assert libc.fallocate(fd, 3, ctypes.c_long(0), ctypes.c_long(4096)) == -1

	for i in range(int(sys.argv[2])):
	    ask()
	for i in range(int(sys.argv[3])):
	    thread = threading.Thread(target=ask)
	    thread.start()
	    thread.join()
	EOF
}

@test "a pod that is refused again and again does not fill the node's memory by a log" {
	local url=file://$T/store id m log part

	mkdir "$T/store"
	csi_start --allow "namespace=a kind=ckpt store=$url access=write"
	m=$(volume a/p v) id=$(id_of a/p v)
	kubelet publish a/p v kind=ckpt "store=$url"
	log=$(compgen -G "$T/state/$id/run/*/log")
	part=$(printf 'x%.0s' {1..240})
	mkdir -p "$m/$part/$part/$part"
	ask_for_holes "$m/$part/$part/$part/file" 100 0
	[ "$(grep -c 'fallocate failed' "$log")" -eq 1 ]
	ask_for_holes "$m/$part/$part/$part/file" 0 1500
	[ "$(stat -c %s "$log")" -gt 1048576 ]
	[ "$(stat -c %s "$log")" -lt 1052672 ]
	kubelet unpublish a/p v
}

has_no_child() { [ -z "$(ps -o pid= --ppid "$1")" ]; } # PID

@test "an environment's socket is a volume, and is served again when its process died" {
	local url=file://$T/store id m

	mkdir "$T/store"
	node_start --env-store "$url"
	csi_start --allow "namespace=a kind=env store=$url"
	m=$(volume a/p v) id=$(id_of a/p v)
	kubelet publish a/p v kind=env "store=$url" most=3
	[ -S "$m/env.sock" ]
	run -1 touch "$m/new"
	# The folder is no part of the node's /run, and holds little.
	[[ $(findmnt -no FSTYPE,OPTIONS "$m") == tmpfs*ro*nosuid*nodev*size=64k*nr_inodes=16* ]]
	[ "$(stat -c %a "$m")" = 755 ]
	run -1 dd if=/dev/zero "of=$T/state/$id/env/pod/full" bs=1k count=100 status=none
	rm "$T/state/$id/env/pod/full"
	[ "$(ps -o args= "$(group_of "$id")" | grep -c -- "--store $url --most 3")" = 1 ]
	# A pod captures what there is not yet, and the next one has it by the socket.
	for i in 1 2; do
		rm -rf "$T/site"
		BOOTSEER_ENV_SOCKET=$m/env.sock "$bootseer" env run --unpack --store "$url" \
			--target "$T/site" -- sh -c 'mkdir "$0"; echo hi >"$0/a"; echo x >>"$1"' \
			"$T/site" "$T/ran"
		[ "$(cat "$T/site/a")" = hi ]
	done
	[ "$(wc -l <"$T/ran")" -eq 1 ]
	group_of "$id" | xargs kill -9
	wait_for is_unserved a/p v
	kubelet publish a/p v kind=env "store=$url" most=3
	[ "$(kubelet stats a/p v | jq .abnormal)" = false ]
	# A link that a container put there leads nowhere.
	mv "$T/state/$id/env/pod/"{env.sock,old}
	ln -s "$BOOTSEER_SOCKET" "$T/state/$id/env/pod/env.sock"
	[ "$(kubelet stats a/p v | jq .abnormal)" = true ]
	kubelet publish a/p v kind=env "store=$url" most=3
	[ ! -L "$m/env.sock" ]
	[ "$(kubelet stats a/p v | jq .abnormal)" = false ]
	kubelet unpublish a/p v
	[ -z "$(ls "$T/state")" ]
	[ -z "$(group_of "$id")" ]
	[ ! -e "$m" ]
	[ "$(grep -c " $T/state" /proc/self/mountinfo)" -eq 0 ]
}

is_unserved() { [ "$(kubelet stats "$@" | jq .abnormal)" = true ]; } # POD VOLUME

# Bounds of the memory of a volume's control group, where there are any.
memory_of() # ID
{
	cat /sys/fs/cgroup{,/*}/bootseer/"$1"/memory.{max,limit_in_bytes} 2>/dev/null || :
}

@test "a namespace has so much memory in volumes as its rule says, and no more" {
	local url=file://$T/store bound
	local -a rule words

	mkdir "$T/store"
	rule=(--allow "namespace=* kind=ckpt store=$url access=write memory=64M total=128M")
	words=(kind=ckpt "store=$url")
	csi_start "${rule[@]}"
	kubelet publish a/p v "${words[@]}"
	kubelet publish a/q v "${words[@]}"
	bound=$(memory_of "$(id_of a/p v)")
	[ "${bound:-1140850688}" = 1140850688 ]
	refused RESOURCE_EXHAUSTED "raise total=" publish a/r v "${words[@]}"
	# The other namespace has its own, and a plugin that is started again knows.
	kubelet publish b/s v "${words[@]}"
	kill -9 "$csi_pid"
	wait "$csi_pid" || :
	csi_start "${rule[@]}"
	refused RESOURCE_EXHAUSTED "raise total=" publish a/r v "${words[@]}"
	[ "$(find "$T/state" -mindepth 1 -maxdepth 1 | wc -l)" -eq 3 ]
	# Volumes that are there are looked after as before; an end gives the share back.
	kubelet publish a/p v "${words[@]}"
	kubelet unpublish a/q v
	kubelet publish a/r v "${words[@]}"
	for pod in a/p a/r b/s; do
		kubelet unpublish "$pod" v
	done
	[ -z "$(ls "$T/state")" ]
}

@test "ends of one namespace's volumes that hang leave threads to the others" {
	local url=file://$T/store i
	local -a ids=()

	mkdir "$T/store"
	csi_start --allow "namespace=* kind=ckpt store=$url access=write total=2G"
	kubelet many publish 17 v kind=ckpt "store=$url" memory=64Mi
	for i in {1..17}; do
		ids+=("$(id_of "a/$i" v)")
		group_of "${ids[-1]}" | xargs kill -STOP
	done
	aside ends kubelet many unpublish 17 v >"$T/ends"
	# The seventeenth is refused, and the other namespace served.
	wait_for grep -q RESOURCE_EXHAUSTED "$T/ends"
	kubelet publish b/p v kind=ckpt "store=$url" memory=64Mi
	kubelet unpublish b/p v
	for i in "${ids[@]}"; do
		group_of "$i" | xargs -r kill -CONT
	done
	wait_for has_ended ends
	# An end that a stopped process kept waiting may have found its mount in use.
	[ "$(grep -c RESOURCE_EXHAUSTED "$T/ends")" -eq 1 ]
	[ -z "$(kubelet many unpublish 17 v)" ]
	[ -z "$(ls "$T/state")" ]
	csi_is_small
}

@test "a secret of a pod is in no log, command line or environment" {
	local pid id

	# Nobody listens there: what the mount says of that is what the pod is told.
	csi_start --log-level debug --allow "namespace=a kind=ckpt access=write \
		store=s3://bkt/a?endpoint=http://127.0.0.1:9" --allow "namespace=a kind=ckpt \
		access=write store=s3://bkt/b?endpoint=http://127.0.0.1:9 role=arn:r"
	id=$(id_of a/p v)
	aside mount kubelet publish a/p v kind=ckpt store=s3://bkt/a/run \
		@secret.AWS_ACCESS_KEY_ID=the-key-id @secret.AWS_SECRET_ACCESS_KEY=the-secret-word
	wait_for has_group "$id"
	[ "$(stat -c %a "$T/state/$id" "$T/state/$id/credentials" | xargs)" = "700 600" ]
	grep -q the-secret-word "$T/state/$id/credentials"
	for pid in "$csi_pid" $(group_of "$id"); do
		run -1 grep -aqE 'the-(secret-word|key-id)' "/proc/$pid/cmdline" "/proc/$pid/environ"
	done
	# Whoever takes the pod away meanwhile asks again.
	refused ABORTED "under way" unpublish a/p v
	# One of them may have ended by itself since it was listed.
	group_of "$id" | xargs kill -9 || :
	wait_for has_ended mount
	kubelet unpublish a/p v
	[ -z "$(ls "$T/state")" ]
	refused PERMISSION_DENIED "nodePublishSecretRef with AWS" publish a/p v kind=ckpt \
		store=s3://bkt/a
	refused PERMISSION_DENIED "gives no token for 'sts.amazonaws.com'" publish a/p v \
		kind=ckpt store=s3://bkt/b
	run -1 grep -E 'the-(secret-word|key-id)' "$T/csi.log"
	[ -z "$(ls "$T/state")" ]
}

has_group() { [ "$(group_of "$1" | wc -l)" -ge 2 ]; } # ID

# The plugin, again and again, as the kubelet has it; its process is in csi.pid.
keep_csi() # OPTION...
{
	local pid=

	trap '[ -z "$pid" ] || { kill "$pid" && wait "$pid"; } 2>/dev/null; exit' TERM
	while :; do
		PATH=$BOOTSEER_BUILD/ckpt-fuse/mount:$PATH \
			"$csi" --kubelet-dir "$K" --state "$T/state" --node "$BOOTSEER_SOCKET" \
			--programs "$T/programs" "$@" 2>>"$T/csi.log" 3>&- &
		pid=$!
		echo "$pid" >"$T/csi.pid"
		wait "$pid" || :
	done
}

# BOOTSEER_CYCLES calls with a kill in each seventh, from BOOTSEER_SEED.
@test "calls in any order, with the plugin killed among them, leave nothing" {
	local keeper url=file://$T/store

	mkdir "$T/store"
	node_start
	keep_csi --allow "namespace=a kind=image image=$REGISTRY" \
		--allow "namespace=a kind=ckpt store=$url access=write" 3>&- &
	keeper=$!
	pids+=("$keeper")
	wait_for test -S "$K/plugins_registry/csi.bootseer-reg.sock"
	export PLUGIN_PID_FILE=$T/csi.pid
	[ "$(kubelet cycle "${BOOTSEER_CYCLES:-30}" "${BOOTSEER_SEED:-7}" kind=image \
		"image=$IMAGE")" = "done" ]
	[ "$(kubelet cycle "${BOOTSEER_CYCLES:-8}" "${BOOTSEER_SEED:-7}" kind=ckpt \
		"store=$url" memory=64Mi)" = "done" ]
	kill "$keeper"
	wait "$keeper" || :
	[ "$(grep -c " $K/\| $T/state" /proc/self/mountinfo)" -eq 0 ]
	[ -z "$(ls "$T/state")" ]
	[ -z "$(find "$K/pods" -name mount)" ]
	# What a killed call had asked of bootseerd ends with the pod, at the next start.
	rm -r "$K/pods"
	csi_starts=$(grep -c 'main: listening' "$T/csi.log")
	csi_start
	wait_for no_users
	kill "$csi_pid"
	wait "$csi_pid"
}

no_users() { [ "$(users)" = '[]' ]; }
