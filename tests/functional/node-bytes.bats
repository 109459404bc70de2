#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# No wrong byte and no zeros under a complete mount: what outlives its mount
# point, damaged files of the node, bits that flip on the disk.

bats_require_minimum_version 1.5.0
load node.bash

setup_file() { make_image "$BATS_FILE_TMPDIR"; }
setup() { node_setup; }
teardown() {
	umount -l "$T/over" 2>/dev/null || :
	node_teardown
}

# The image, mounted straight from the cache's files.
mount_complete() {
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	listing "$T/mnt" >/dev/null
	"$bootseer" image umount "$T/mnt"
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	[ "$(status '.images[0].mode')" = complete ]
}

# What containerd makes of it; a container has no mount point of ours.
overlay_on_it() {
	mkdir -p "$T/over" "$T/upper" "$T/work"
	mount -t overlay -o "lowerdir=$T/mnt,upperdir=$T/upper,workdir=$T/work" \
		overlay "$T/over"
}

# All bytes as they are on the disk.
check_over() { # [DIR]
	"$BATS_TEST_DIRNAME/forget-pages.py" "${1:-$T/over}" "$T"/root/cache/segment-*
	listing "${1:-$T/over}" >"$T/got"
	cmp "$D/want" "$T/got"
}

# All blocks that may go, go; then others come.
press() {
	"$bootseer" node gc --images --cache 0
	"$bootseer" node gc --cache 0
}

nothing_is_pinned() { [ "$(status .cache.pinned_bytes)" = 0 ]; }
nothing_is_frozen() { [ "$(status .cache.frozen_files)" = 0 ]; }

@test "an overlay on a complete mount keeps its blocks after the unmount" {
	node_start
	mount_complete
	overlay_on_it
	"$bootseer" image umount "$T/mnt"
	[ "$(status '.images[0].mode')" = none ]
	[ "$(status .cache.mounts_lingering)" = 1 ]
	[ "$(status .cache.pinned_bytes)" -gt 20000000 ]
	press
	check_over
	# The image is one that is in use.
	[ "$(status '.images | length')" = 1 ]
	umount "$T/over"
	wait_for nothing_is_pinned
	press
	[ "$(status .cache.bytes)" = 0 ]
	[ "$(status '.images | length')" = 0 ]
}

# Hold lock number $1 of the mounts by descriptor 9, until that is closed.
hold_mounts() {
	exec 9<>"$T/run/mount.lock"
	python3 -c 'import fcntl, struct, sys
fcntl.fcntl(9, fcntl.F_OFD_SETLK,
            struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, int(sys.argv[1]), 1, 0))' "$1"
}

a_mount_waits() {
	grep -qE -e "-> OFDLCK .*:$(stat -c %i "$T/run/mount.lock") " /proc/locks
}

nobody_has_the_locks() {
	[ -z "$(find /proc/[0-9]*/fd -lname "$T/run/mount.lock" 2>/dev/null)" ]
}

@test "a complete mount that waits when bootseerd is killed is not made" {
	local index client

	node_start
	mount_complete
	"$bootseer" image umount "$T/mnt"
	index=$(jq .index "$T"/root/images/*/state.json)
	hold_mounts "$index"
	"$bootseer" image mount "$IMAGE" "$T/mnt" 3>&- 9>&- &
	client=$!
	wait_for a_mount_waits
	node_stop KILL
	exec 9>&-
	wait_for nobody_has_the_locks
	run ! grep "$T/run/images/" /proc/self/mountinfo
	kill "$client" 2>/dev/null || :
	node_start
	[ "$(status '.images[0].mode')" = lazy ]
	listing "$(echo "$T"/run/images/*/fs)" | cmp "$D/want" -
}

# As by a child of the one before, which opened the metadata image and mounts late.
@test "a complete mount that is made while the next bootseerd starts is adopted" {
	local index fs made

	node_start --hold
	mount_complete
	fs=$(status '.images[0].path')
	index=$(jq .index "$T"/root/images/*/state.json)
	mkdir "$T/late"
	mount --bind "$fs" "$T/late"
	hold_mounts "$index"
	umount "$T/mnt" "$fs"
	# That it is of this carrier: nothing is taken down there first.
	made=$(echo "$T"/run/*.made)
	: >"$made/$index"
	pkill -KILL -P "$node_pid" # the holder starts another
	wait_for a_mount_waits
	mount --bind "$T/late" "$fs"
	exec 9>&-
	wait_for status .pid
	[ "$(status '.images[0].mode')" = complete ]
	[ "$(status .cache.pinned_bytes)" -gt 20000000 ]
	umount "$T/late"
	press
	check_over "$fs"
	"$bootseer" image umount "$T/mnt"
	[ "$(status '.images[0].mode')" = none ]
	wait_for nothing_is_pinned
}

@test "another mount namespace keeps the blocks of a complete mount" {
	local holder

	node_start
	mount_complete
	mkfifo "$T/go"
	unshare --mount --propagation private \
		sh -c 'echo ready; read -r x <"$0"' "$T/go" >"$T/ready" 3>&- &
	holder=$!
	pids+=("$holder")
	wait_for grep -q ready "$T/ready"
	"$bootseer" image umount "$T/mnt"
	[ "$(mounts_left)" -le 1 ]
	press
	check_over "/proc/$holder/root$T/mnt"
	[ "$(status .cache.mounts_lingering)" = 1 ]
	echo >"$T/go"
	wait "$holder"
	wait_for nothing_is_pinned
}

@test "what a dead bootseerd unmounted stays for who reads it yet" {
	node_start
	mount_complete
	overlay_on_it
	"$bootseer" image umount "$T/mnt"
	node_stop KILL
	node_start
	[ "$(status .cache.mounts_lingering)" = 1 ]
	[ "$(status .cache.frozen_files)" = 0 ]
	press
	check_over
	# Mounted anew beside it, and unmounted: still there.
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	[ "$(status '.images[0].mode')" = complete ]
	"$bootseer" image umount "$T/mnt"
	press
	check_over
	umount "$T/over"
	wait_for nothing_is_pinned
}

@test "blocks that come under a quota do not take those of a lingering mount" {
	noise 70000000 9 >"$T/more"
	umoci init --layout "$T/src"
	umoci new --image "$T/src:more"
	mkdir -p "$T/tree/zz"
	mv "$T/more" "$T/tree"
	umoci insert --image "$T/src:more" "$T/tree" /
	cp -r "$D/oci" "$T/oci"
	"$bootseer" image convert "oci:$T/src:more" "oci:$T/oci:more"
	kill "${pids[0]}"
	rm "$T/ports"
	D=$T registry_start
	node_start --cache-quota 64M
	mount_complete
	overlay_on_it
	"$bootseer" image umount "$T/mnt"
	"$bootseer" image mount "$REGISTRY/img:more" "$T/mnt"
	cmp "$T/mnt/more" "$T/tree/more"
	[ "$(status '.cache.evicted + .cache.put_failed')" -gt 0 ]
	check_over
	cmp "$T/mnt/more" "$T/tree/more"
	"$bootseer" image umount "$T/mnt"
	umount "$T/over"
}

# Damage between two lives of bootseerd, with a complete mount all the while.
live_through() { # COMMAND...
	node_start
	mount_complete
	overlay_on_it
	node_stop KILL
	"$@"
	node_start
	press
	check_over
	check_over "$T/mnt"
}

@test "a damaged index takes nothing from a complete mount" {
	live_through dd if=/dev/zero of="$T/root/cache/index" bs=64 count=1 \
		conv=notrunc status=none
	[ "$(status '.images[0].mode')" = complete ]
	[ "$(status .cache.frozen_files)" = 0 ]
	"$bootseer" image umount "$T/mnt"
	press
	check_over
	umount "$T/over"
	wait_for nothing_is_pinned
}

@test "a lost index takes nothing from a complete mount" {
	live_through rm "$T/root/cache/index"
	[ "$(status '.images[0].mode')" = complete ]
}

# Each second record is lost.
damage_records() {
	local f=$T/root/cache/index i

	for ((i = 64; i < $(stat -c %s "$f"); i += 96)); do
		printf damage | dd of="$f" bs=1 seek="$i" conv=notrunc \
			status=none
	done
}

@test "records that are damaged take nothing from a complete mount" {
	live_through damage_records
	[ "$(status '.images[0].mode')" = complete ]
}

damage_state() {
	local f

	for f in "$T"/root/images/*/"$1"; do echo '{' >"$f"; done
}

@test "a damaged state of an image takes nothing from its complete mount" {
	live_through damage_state state.json
	grep -q 'error images: damaged' "$T/log"
	# Prepared again, it takes over what is mounted.
	umount "$T/mnt"
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	[ "$(status '.images[0].mode')" = complete ]
	press
	check_over
	"$bootseer" image umount "$T/mnt"
	umount "$T/over"
	wait_for nothing_is_pinned
}

@test "a lost block map takes nothing from a complete mount" {
	live_through damage_state blockmap
}

damage_list() {
	local f

	for f in "$T"/root/cache/mounts/*.blocks; do
		printf x | dd of="$f" bs=1 seek=100 conv=notrunc status=none
	done
	: >"$T/root/cache/index"
}

@test "what cannot be known of a complete mount freezes the cache's files" {
	live_through damage_list
	grep -q 'error mount: frozen files=1 .*cure=' "$T/log"
	[ "$(status .cache.frozen_files)" = 1 ]
	[ "$(status .cache.frozen_bytes)" -gt 20000000 ]
	"$bootseer" node status | grep -q 'frozen'
	"$bootseer" node doctor | grep -q '^advice *cache *1 files frozen'
	# Other blocks go elsewhere.
	"$bootseer" image prefetch --wait "$IMAGE"
	press
	check_over
	umount "$T/over"
	"$bootseer" image umount "$T/mnt"
	wait_for nothing_is_frozen
	press
	[ "$(status .cache.bytes)" = 0 ]
	[ "$(du -sk "$T"/root/cache | cut -f1)" -lt 2000 ]
}

# Image "two", of other files than v1, in a registry that has v1 too.
two_images() {
	noise 9000000 10 >"$T/two"
	umoci init --layout "$T/src"
	umoci new --image "$T/src:two"
	mkdir -p "$T/tree/zz"
	mv "$T/two" "$T/tree"
	umoci insert --image "$T/src:two" "$T/tree" /
	cp -r "$D/oci" "$T/oci"
	"$bootseer" image convert "oci:$T/src:two" "oci:$T/oci:two"
	kill "${pids[0]}"
	rm "$T/ports"
	D=$T registry_start
}

# Two complete mounts, each with blocks in the one segment; of one, files with these
# suffixes are deleted while no bootseerd runs.
lose_one_of_two() { # SUFFIX...
	local id suffix

	two_images
	node_start
	mount_complete
	id=$(status '.images[0].id')
	mkdir "$T/mnt2"
	"$bootseer" image mount "$REGISTRY/img:two" "$T/mnt2"
	cat "$T/mnt2/two" >/dev/null
	"$bootseer" image umount "$T/mnt2"
	"$bootseer" image mount "$REGISTRY/img:two" "$T/mnt2"
	[ "$(status '[.images[].mode] | unique | join(" ")')" = complete ]
	[ "$(find "$T/root/cache" -name 'segment-*' | wc -l)" = 1 ]
	node_stop KILL
	for suffix; do rm "$T/root/cache/mounts/${id#sha256:}.$suffix"; done
	node_start
	[ "$(status .cache.frozen_files)" = 1 ]
	press
	check_over "$T/mnt"
	cmp "$T/mnt2/two" "$T/tree/two"
	# The same when a successor finds what this one left.
	node_stop KILL
	node_start
	press
	check_over "$T/mnt"
	cmp "$T/mnt2/two" "$T/tree/two"
	"$bootseer" image umount "$T/mnt"
	"$bootseer" image umount "$T/mnt2"
	wait_for nothing_is_frozen
	wait_for nothing_is_pinned
	press
	[ "$(status .cache.bytes)" = 0 ]
}

@test "a lost metadata image takes nothing from its mount, nor from another" {
	lose_one_of_two erofs
}

@test "the loss of all files of a mount takes nothing from it, nor from another" {
	lose_one_of_two erofs json blocks
}

@test "a lost list and layout take nothing from a mount, nor from another" {
	lose_one_of_two json blocks
}

# Nothing but the list that is left says that there is a mount.
@test "a lost metadata image takes nothing from an overlay on another mount's segment" {
	local id

	two_images
	node_start
	mount_complete
	id=$(status '.images[0].id')
	overlay_on_it
	mkdir "$T/mnt2"
	"$bootseer" image mount "$REGISTRY/img:two" "$T/mnt2"
	cat "$T/mnt2/two" >/dev/null
	"$bootseer" image umount "$T/mnt2"
	"$bootseer" image mount "$REGISTRY/img:two" "$T/mnt2"
	[ "$(find "$T/root/cache" -name 'segment-*' | wc -l)" = 1 ]
	"$bootseer" image umount "$T/mnt"
	node_stop KILL
	rm "$T/root/cache/mounts/${id#sha256:}.erofs"
	node_start
	[ "$(status .cache.frozen_files)" = 1 ]
	# Another image of that name answers for another mount.
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	[ "$(status '[.images[].mode] | sort | join(" ")')" = 'complete lazy' ]
	"$bootseer" image umount "$T/mnt"
	press
	check_over
	umount "$T/over"
	"$bootseer" image umount "$T/mnt2"
	wait_for nothing_is_frozen
	wait_for nothing_is_pinned
}

# A mount namespace of another test, which began meanwhile, has a copy of each mount: as long as
# it lives, the mount is not gone.
nobody_has_the_segments() {
	python3 - "$T"/root/cache/segment-* <<-'EOF' 2>/dev/null
		import fcntl, sys
		for path in sys.argv[1:]:
		    with open(path, 'r+b') as f:
		        fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)
	EOF
}

@test "the block lists of mounts that are gone are no matter" {
	node_start
	mount_complete
	node_stop
	umount "$T/mnt"
	umount "$T"/run/images/*/fs
	wait_for nobody_has_the_segments
	damage_list
	node_start
	[ "$(status .cache.frozen_files)" = 0 ]
	check_over "$(status '.images[0].path')"
	"$bootseer" image umount "$T/mnt"
}

# Flip a bit in the middle of what is on the disk.
flip() { # SEGMENT OFFSET
	perl -e 'use Fcntl; my ($f, $at) = @ARGV;
		sysopen(my $h, $f, O_RDWR) or die; sysseek($h, $at, 0);
		sysread($h, my $b, 1); sysseek($h, $at, 0);
		syswrite($h, chr(ord($b) ^ 4))' "$1" "$2"
	"$BATS_TEST_DIRNAME/forget-pages.py" "$T/mnt" "$1"
}

is_mended() { [ "$(status .cache.damaged)" -gt 0 ] && ! is_damaged; }
is_damaged() {
	[ "$(status .cache.blocks)" -lt "$blocks" ]
}

@test "a bit that flips under a complete mount is found and fetched again" {
	node_hold
	node_start
	mount_complete
	blocks=$(status .cache.blocks)
	flip "$T/root/cache/segment-00000000" 9000000
	node_step $((24 * 3600 * 1000)) # once a day
	wait_for later is_mended
	wait_for grep -q 'warning mount: the disk damaged a block' "$T/log"
	check_over "$T/mnt"
	"$bootseer" image umount "$T/mnt"
}

@test "a bit that flips before a restart is found soon after it" {
	node_hold
	node_start
	mount_complete
	blocks=$(status .cache.blocks)
	node_stop KILL
	flip "$T/root/cache/segment-00000000" 9000000
	node_start
	node_step $((5 * 60 * 1000)) # long before a day is over
	wait_for later is_mended
	check_over "$T/mnt"
	"$bootseer" image umount "$T/mnt"
}

@test "a bit that flips under a lazy mount is found and fetched again" {
	node_hold
	node_start
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	listing "$T/mnt" >/dev/null
	flip "$T/root/cache/segment-00000000" 9000000
	found() { [ "$(status .cache.damaged)" -gt 0 ]; }
	node_step $((24 * 3600 * 1000))
	wait_for later found
	check_over "$T/mnt"
	"$bootseer" image umount "$T/mnt"
}
