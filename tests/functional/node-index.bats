#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The number by which the kernel knows an image, when the disk loses or damages
# what bootseerd wrote down of it while the image stays mounted.

bats_require_minimum_version 1.5.0
load node.bash

setup_file() {
	local d=$BATS_FILE_TMPDIR

	make_image "$d"
	mkdir -p "$d/fs/zz"
	noise 24000000 11 >"$d/fs/big"
	umoci new --image "$d/src:v2"
	umoci insert --image "$d/src:v2" "$d/fs" /
	"$bootseer" image convert "oci:$d/src:v2" "oci:$d/oci:v2" >/dev/null
}

setup() {
	node_setup
	mkdir "$T/other"
	OTHER=$REGISTRY/img:v2
}

teardown() { node_teardown; }

# Kill bootseerd, run COMMAND while none runs, and have the holder go on.
between_lives() { # COMMAND...
	local child

	child=$(child_of "$node_pid")
	kill -STOP "$node_pid"
	kill -KILL "$child"
	wait_for is_dead "$child"
	"$@"
	kill -CONT "$node_pid"
	wait_for answers_as_another "$child"
}

# With all of its threads: the first may be dead while another has the locks yet.
is_dead() { # PID
	! kill -0 "$1" 2>/dev/null ||
		{ [ "$(ps -o stat= -p "$1" | cut -c1)" = Z ] &&
			[ "$(ps -o nlwp= -p "$1")" -le 1 ]; }
}

answers_as_another() { # PID
	local pid

	pid=$("$bootseer" node status --json 2>/dev/null | jq .pid) &&
		[ "$pid" ] && [ "$pid" != "$1" ]
}

image_folder() { # REF
	local id

	id=$(call image.prepare "{\"ref\":\"$1\"}" | jq -r .result.id)
	echo "$T/root/images/${id#sha256:}"
}

# Right bytes or an error, nothing else.
never_differs() { # FILE WANT
	run cmp "$1" "$2"
	[[ $output != *differ* && $output != *EOF* ]]
}

lose_all_images() { rm -r "$T"/root/images/*; }

@test "an image never gets the number that the kernel knows another by: all lost" {
	node_start --hold --datapath erofs-fuse
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	cmp -n 100000 "$T/mnt/big" "$D/rootfs/big"
	between_lives lose_all_images
	"$bootseer" image mount "$OTHER" "$T/other"
	cmp "$T/other/big" "$D/fs/big"
	never_differs "$T/mnt/big" "$D/rootfs/big"
	"$bootseer" image umount "$T/other"
}

@test "an image never gets the number that the kernel knows another by: a bit flipped" {
	local dir other

	node_start --hold --datapath erofs-fuse
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	dir=$(image_folder "$IMAGE")
	other=$(image_folder "$OTHER")
	cmp -n 100000 "$T/mnt/big" "$D/rootfs/big"
	between_lives exchange_numbers "$dir" "$other"
	"$bootseer" image mount "$OTHER" "$T/other"
	cmp "$T/other/big" "$D/fs/big"
	never_differs "$T/mnt/big" "$D/rootfs/big"
	"$bootseer" image umount "$T/other"
}

# The second has the first's number, and the first is not there any more.
exchange_numbers() { # DIR OTHER
	local n

	n=$(jq .index "$1/state.json")
	jq ".index = $n" "$2/state.json" >"$T/state"
	cp "$T/state" "$2/state.json"
	rm -r "$1"
}

@test "an image whose state is lost while it is mounted is read again when prepared anew" {
	local dir

	node_start --hold --datapath erofs-fuse
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	dir=$(image_folder "$IMAGE")
	cmp -n 100000 "$T/mnt/big" "$D/rootfs/big"
	between_lives rm "$dir/state.json"
	"$bootseer" image mount "$IMAGE" "$T/other"
	cmp "$T/other/big" "$D/rootfs/big"
	# Those who had it before read on.
	cmp "$T/mnt/big" "$D/rootfs/big"
	"$bootseer" image umount "$T/other"
	"$bootseer" image umount "$T/mnt"
}

@test "a mount on a carrier that is gone is not taken for a good one two lives later" {
	local dir child

	node_start --hold --datapath erofs-fuse
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	dir=$(image_folder "$IMAGE")
	child=$(child_of "$node_pid")
	kill -KILL "$node_pid" "$child"
	wait_for is_dead "$node_pid"
	wait_for is_dead "$child"
	umount -l "$T/mnt"
	# Nobody knows that it is mounted.
	rm "$dir/state.json"
	node_start --hold --datapath erofs-fuse
	between_lives :
	"$bootseer" image mount "$IMAGE" "$T/other"
	cmp "$T/other/big" "$D/rootfs/big"
	"$bootseer" image umount "$T/other"
}
