#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Blocks that are on the node before they are read: order, cost, limits, faults.

bats_require_minimum_version 1.5.0
load node.bash

setup_file() { make_image "$BATS_FILE_TMPDIR"; }
setup() { node_setup; }
teardown() { node_teardown; }

prefetch() { "$bootseer" image prefetch "$@"; }
mount_it() { "$bootseer" image mount "$IMAGE" "$T/mnt"; }
read_all() { cmp "$T/mnt/big" "$D/rootfs/big"; }
image_id() { call image.prepare "{\"ref\":\"$IMAGE\"}" | jq -r .result.id; }

# A figure of the image's prefetch.
of_prefetch() { status ".images[0].prefetch.$1"; } # KEY
is_phase() { [ "$(of_prefetch phase)" = "$1" ]; } # PHASE

# Bytes and requests of packs so far: large, and only they are read in ranges.
pack_requests() {
	grep '^GET /v2/.*/blobs/.* 206 ' "$T/requests" || :
}
pack_bytes() { pack_requests | awk '{ n += $4 } END { print n + 0 }'; }

# Give the image a hot set, of block numbers, as a bootseerd left it behind.  Where
# blocks end depends on what is in the image, which is the same each time: see noise.
leave_hot() { # STATE BLOCK...
	local what=$1 dir=$T/root/images/$id blocks

	shift
	blocks=$(IFS=,; echo "$*")
	echo "{\"format\":1,\"blocks\":[$blocks]}" >"$dir/hot.json"
	jq ".prefetch = \"$what\"" "$dir/state.json" >"$T/state"
	cp "$T/state" "$dir/state.json"
}

@test "an image is fetched whole without a mount, each byte once" {
	local all

	node_start
	# What it tells meanwhile goes to stderr, where it takes long.
	run -0 --separate-stderr prefetch --wait "$IMAGE"
	[[ $output == "done: "*" of "*" are on the node" ]]
	all=$(of_prefetch all_bytes)
	[ "$(of_prefetch all_have_bytes)" = "$all" ]
	[ "$(of_prefetch fetched_bytes)" = "$all" ]
	[ "$(pack_bytes)" = "$all" ]
	# All is there: a mount has no need of the daemon, nor of the registry.
	fault down=1
	mount_it
	[ "$(status '.images[0].mode')" = complete ]
	read_all
	run -0 prefetch --wait "$IMAGE"
	[ "$(pack_bytes)" = "$all" ]
	run -0 "$bootseer" node status
	[[ $output == *"prefetch  done, "* ]]
}

@test "each byte comes once though a reader, hot and cold want it at once" {
	local readers=() all

	node_start
	id=$(image_id | cut -d: -f2)
	node_stop
	leave_hot all 20 21 22 23 10 11 12 15 16 3 2 1
	# Slow enough for the readers to be first now and then.
	node_start --cold-rate 8M
	mount_it
	cat "$T/mnt/top/data" >/dev/null 3>&- &
	readers+=($!)
	read_all 3>&- &
	readers+=($!)
	prefetch --wait "$IMAGE"
	wait_all "${readers[@]}"
	all=$(of_prefetch all_bytes)
	[ "$(status .fetched_bytes)" = "$all" ]
	[ "$(status '.images[0].device.fetched_bytes')" -gt 0 ]
	[ "$(of_prefetch fetched_bytes)" -gt 0 ]
	[ "$(of_prefetch all_have_bytes)" = "$all" ]
	[ "$(of_prefetch hot_bytes)" -gt 0 ]
}

@test "the hot set comes first, then the rest" {
	node_start
	id=$(image_id | cut -d: -f2)
	node_stop
	# What lies behind first, which no order of packs would give.
	leave_hot all 21 22 23 10
	: >"$T/requests"
	node_start
	wait_for is_phase done
	pack_requests | sed 's/.*range=bytes=//' >"$T/ranges"
	[ "$(wc -l <"$T/ranges")" -gt 2 ]
	# Two requests of the hot set, side by side.
	[ "$(sed -n 1p "$T/ranges" | cut -d- -f1)" -gt 0 ]
	[ "$(sed -n 2p "$T/ranges" | cut -d- -f1)" -gt 0 ]
	sed -n '3,$p' "$T/ranges" | cut -d- -f1 | grep -qx 0
	[ "$(of_prefetch fetched_bytes)" = "$(of_prefetch all_bytes)" ]
	# What is done is not remembered.
	wait_for test ! -e "$T/root/images/$id/hot.json"
	[ "$(jq .prefetch "$T/root/images/$id/state.json")" = null ]
}

@test "a hot set that does not fit the image is dropped, with a warning" {
	node_start
	id=$(image_id | cut -d: -f2)
	node_stop
	leave_hot all 3 1000000
	node_start
	wait_for is_phase done
	[ "$(of_prefetch hot_bytes)" = 0 ]
	[ "$(of_prefetch all_have_bytes)" = "$(of_prefetch all_bytes)" ]
	grep -q 'warning prefetch: image=.* hot set lost reason=' "$T/log"
}

@test "--hot fetches the hot set alone, and needs a trace" {
	node_start
	id=$(image_id | cut -d: -f2)
	node_stop
	leave_hot hot 7 8 9
	node_start
	wait_for is_phase done
	[ "$(of_prefetch hot_have_bytes)" = "$(of_prefetch hot_bytes)" ]
	[ "$(of_prefetch fetched_bytes)" = "$(of_prefetch hot_bytes)" ]
	[ "$(of_prefetch all_have_bytes)" -lt "$(of_prefetch all_bytes)" ]
	run -0 prefetch --hot --wait "$IMAGE"
	node_stop
	node_start
	run ! prefetch --hot "$IMAGE"
	[[ $output == *"no trace of a start"* ]]
}

@test "a rate limit holds" {
	local begin=$EPOCHREALTIME

	# 27 MB, of which all but the last request are paid for.
	node_start --cold-rate 8M
	prefetch --wait "$IMAGE"
	awk -v b="$begin" -v e="$EPOCHREALTIME" -v n="$(pack_bytes)" \
		'BEGIN { exit !(e - b >= (n - 4194304) / 8388608) }'
}

@test "--stop stops it, and it begins again where it was" {
	local all

	begin_some
	run -0 prefetch --stop "$IMAGE"
	[[ $output == "stopped: "* ]]
	is_phase stopped
	[ "$(jq .prefetch "$T"/root/images/*/state.json)" = null ]
	all=$(of_prefetch all_bytes)
	[ "$(of_prefetch all_have_bytes)" -lt "$all" ]
	run ! prefetch --hot --all "$IMAGE"
	[[ $output == *"only one of"* ]]
	node_stop
	NODE_CLOCK=
	node_start
	prefetch --wait "$IMAGE"
	[ "$(of_prefetch all_have_bytes)" = "$all" ]
}

# Some of the image comes, a range that nobody has to pay for; no more before the clock goes
# on, however slow the test is.
begin_some() {
	node_hold
	node_start --cold-rate 4M
	prefetch "$IMAGE"
	wait_for some_is_there
}

some_is_there() { [ "$(of_prefetch all_have_bytes)" -gt 2000000 ]; }

@test "after kill -9 the next bootseerd goes on, and fetches nothing again" {
	local all had

	begin_some
	node_stop KILL
	NODE_CLOCK=
	node_start
	wait_for is_phase done
	grep -q 'info prefetch: resumed image=' "$T/log"
	all=$(of_prefetch all_bytes)
	[ "$(of_prefetch all_have_bytes)" = "$all" ]
	# At most what was on its way, three ranges at this rate, came twice.
	[ "$(of_prefetch fetched_bytes)" -lt "$all" ]
	[ "$(pack_bytes)" -le $((all + 3 * 4194304)) ]
	node_stop
	node_start
	is_phase idle
}

@test "on a full disk it pauses, says so, and goes on when there is room" {
	local disk=$T/disk

	mkdir "$disk"
	mount -t tmpfs -o size=80M none "$disk"
	head -c 75M /dev/zero >"$disk/full"
	node_hold
	ROOT=$disk/root node_start
	prefetch "$IMAGE"
	wait_for is_phase paused
	[[ $(of_prefetch error) == *"the disk is full"* ]]
	[ "$(of_prefetch all_have_bytes)" = 0 ]
	[[ $("$bootseer" node status) == *"the disk is full"* ]]
	rm "$disk/full"
	wait_for later is_phase done
	prefetch --wait "$IMAGE"
	grep -q 'info prefetch: goes on' "$T/log"
	node_stop
}

@test "with the registry down a start goes on, and the prefetch is tried again" {
	local pid status=0

	node_hold
	node_start
	image_id
	fault down=1
	"$bootseer" image prefetch --wait "$IMAGE" 3>&- &
	pid=$!
	wait_for later is_phase failed
	wait "$pid" || status=$?
	[ "$status" = 1 ]
	[[ $(of_prefetch error) == *"$REGISTRY"* ]]
	wait_for grep -q "warning prefetch: failed image=.*$REGISTRY.* again_s=" "$T/log"
	aside mount mount_it # its requests are tried anew, too
	wait_for later has_ended mount
	ended mount well
	fault
	wait_for later is_phase done
	read_all
}

@test "transfers that hang are asked for again where they were, in pull and prefetch" {
	local all

	fault hang=500 times=9 match=/blobs/
	# More attempts than hang: a busy machine makes transfers stand for as long, too.
	node_start --stall-timeout 500ms
	prefetch --wait "$IMAGE"
	all=$(of_prefetch all_bytes)
	[ "$(of_prefetch fetched_bytes)" = "$all" ]
	[ "$(grep -c '^GET .*range=bytes=[0-9]*500-' "$T/requests")" -ge 1 ]
	mount_it
	read_all
}

# That a prefetch failed so often, as a transfer hung.
hangs_told() { # N
	[ "$(grep -c 'warning prefetch: failed .*the transfer hangs' "$T/log")" -ge "$1" ]
}

@test "a registry that says nothing makes a prefetch wait, which says why, not fail" {
	local pid

	node_hold # so that it is not tried again
	node_start --stall-timeout 10s
	image_id
	fault delay_ms=3600000 match=/blobs/
	prefetch "$IMAGE"
	wait_for later is_phase retrying
	[[ $(of_prefetch error) == *"the transfer hangs"* ]]
	[[ $("$bootseer" node status) == *"retrying, "*"the transfer hangs"* ]]
	"$bootseer" image prefetch --wait "$IMAGE" 2>"$T/said" 3>&- &
	pid=$!
	wait_for later hangs_told 2 # it was tried at once
	wait_for grep -q "^retrying: .*the transfer hangs" "$T/said"
	kill "$pid" 2>/dev/null || : # or it has failed meanwhile
	wait "$pid" || :
	grep -q "warning prefetch: failed image=.*hangs.* again_s=" "$T/log"
	node_stop
	fault
	fault delay_ms=3600000 match=/blobs/
	node_start --stall-timeout 10s
	prefetch "$IMAGE"
	wait_for later is_phase retrying
	fault
	wait_for later is_phase done
	grep -q "warning prefetch: failed image=.*hangs.* again_s=" "$T/log"
}

@test "an image that is removed ends its prefetch" {
	begin_some
	"$bootseer" node gc --images
	[ "$(status '.images | length')" = 0 ]
	[ "$(status '.fetched_bytes')" -gt 0 ]
	# The node can forget and take it up again.
	prefetch "$IMAGE"
	wait_for is_phase cold
	node_stop
}
