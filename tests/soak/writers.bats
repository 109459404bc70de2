#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A node under quota whose pods write all that they can, while another tenant's images are
# read: docs/testing.md, "Long runs". BOOTSEER_SOAK says for how many seconds (600).

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../functional/node.bash"

follower=$BOOTSEER_BUILD/profiler/follow/bootseer-events

setup_file() { make_image "$BATS_FILE_TMPDIR"; }

setup() {
	node_setup
	# ROOT, the pods' logs, the store of checkpoints and what the follower keeps have one
	# disk, as on a node.
	truncate -s 1500M "$T/disk"
	mkfs.ext4 -q "$T/disk"
	mkdir "$T/small"
	mount -o loop "$T/disk" "$T/small"
	chmod 711 "$T"
	mkdir "$T/small"/{root,pods,state,own,store} "$T/site"
	ROOT=$T/small/root
	STORE=file://$T/small/store CKPT=file:$T/small/ckpt
	END=$((SECONDS + ${BOOTSEER_SOAK:-600}))
}

teardown() { node_teardown; }

# A part of the soak, again and again until the end: what fails ends all of them.
again() { # NAME COMMAND...
	local name=$1 n=0

	shift
	while ((SECONDS < END)) && [ ! -e "$T/failed" ]; do
		"$@" >"$T/said.$name" 2>&1 || {
			{ cat "$T/said.$name"; echo "$name failed in round $n"; } >"$T/failed"
			return 1
		}
		n=$((n + 1))
		echo "$n" >"$T/n.$name"
	done
}

# The other tenant: the image is mounted and every byte is read, from the registry each time.
read_image() {
	"$bootseer" image mount "$IMAGE" "$T/mnt" &&
		(cd "$T/mnt" && sha256sum --quiet -c "$T/sums") &&
		"$bootseer" image umount "$T/mnt" &&
		"$bootseer" node gc --cache 0 >/dev/null
}

env_run() { # OPTION...
	"$bootseer" env run --store "$STORE" --target "$T/site" "$@" \
		-- sh -c "mkdir $T/site/pkg && echo hello >$T/site/pkg/a.py"
}

on_node() { # NAME COMMAND
	mkdir -p "$T/$1"
	unshare --mount --propagation slave bash -euc 'mount --bind "$T/$0" "$T/site"
		eval "$1"' "$1" "$2"
}

# A pod without rights writes bytes and names until there is no space for either.
write_environment() { # NAME
	on_node "$1" '
		env_run 2>"$T/run.'"$1"'" && cat "$T/run.'"$1"'"
		grep -q "mounted " "$T/run.'"$1"'"
		chmod 777 "$T/site/pkg"
		grep -q hello "$T/site/pkg/a.py"
		as_pod python3 -c "$fill" "$T/site/pkg"
		"$bootseer" env umount "$T/site"'
}
as_pod() { setpriv --reuid 1000 --regid 1000 --clear-groups --bounding-set=-all env "$@"; }
fill='
import errno, os, sys
def fill(write):
    try:
        for n in range(1 << 20):
            write(n)
        sys.exit("there is no end")
    except OSError as e:
        if e.errno != errno.ENOSPC:
            raise
big = os.open(sys.argv[1] + "/big", os.O_CREAT | os.O_WRONLY)
fill(lambda n: os.write(big, b"x" * 65536))
fill(lambda n: os.mknod(f"{sys.argv[1]}/{n}"))'

# Into a store of its own, as what is removed from one goes a day later only.
write_checkpoint() {
	mkdir "$T/small/ckpt" &&
		"$bootseer" ckpt cp "$CKPT" "$T/shard" :step/shard &&
		"$bootseer" ckpt cp "$CKPT" :step/shard "$T/back" &&
		cmp "$T/shard" "$T/back" && rm -r "$T/back" "$T/small/ckpt"
}

# A log that is full of stages, a line without end, and rubbish; the kubelet rotates it.
write_log() {
	local log=$T/small/pods/evil_pod_uid/main/0.log

	mkdir -p "${log%/*}"
	{
		printf '2026-11-23T10:00:00.000000001Z stdout F BOOTSEER stage=s%d ev=mark job=j\n' \
			{1..2000}
		head -c 1M /dev/urandom
		head -c 1M /dev/zero | tr '\0' x
		echo
	} >>"$log"
	[ "$(stat -c %s "$log")" -lt 10000000 ] || mv "$log" "$log.20261123-100000"
	kill -0 "$follower_pid"
}

# Nobody answers: what it keeps for the service is bounded as well.
follower_start() {
	"$follower" --service http://127.0.0.1:1 --node n1 --state "$T/small/state" \
		--pods "$T/small/pods" --events "$T/small/own" --max-age 10000h \
		--spool-max 16M 2>"$T/follower.log" 3>&- &
	follower_pid=$!
	pids+=("$follower_pid")
}

@test "whatever pods write, no read of another tenant's image fails" {
	local parts=() part

	(cd "$D/bundle/rootfs" && find . -type f -print0 | xargs -0 sha256sum) >"$T/sums"
	noise 40000000 9 >"$T/shard"
	export T STORE bootseer fill
	export -f env_run as_pod
	(unset BOOTSEER_SOCKET && on_node maker env_run)
	node_start --cache-quota 600M --env-write-max 64M --env-store "$STORE"
	follower_start
	again reads read_image 3>&- &
	parts+=($!)
	again first write_environment first 3>&- &
	parts+=($!)
	again second write_environment second 3>&- &
	parts+=($!)
	again checkpoints write_checkpoint 3>&- &
	parts+=($!)
	again logs write_log 3>&- &
	parts+=($!)
	for part in "${parts[@]}"; do
		wait "$part" || :
	done
	grep -H . "$T"/n.* | sed "s|$T/n.|# rounds of |" >&3
	[ ! -e "$T/failed" ] || { cat "$T/failed"; return 1; }
	for part in reads first second checkpoints logs; do
		[ "$(cat "$T/n.$part")" -gt 0 ]
	done
	[ "$(du -sm --one-file-system "$ROOT" | cut -f 1)" -le 600 ]
	[ "$(du -sm "$T/small/state" | cut -f 1)" -le 20 ]
	run ! grep -E '^(warning|error) .*(read|No space)' "$T/log"
	node_stop
	kill "$follower_pid"
	wait "$follower_pid" || :
	umount "$T/small"
}
