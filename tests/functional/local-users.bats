#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What a user of the machine, who may run programs and nothing else, comes to: the
# images of bootseerd hold set-user-id programs and files that are not for him.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/node.bash"

setup_file() {
	local d=$BATS_FILE_TMPDIR

	mkdir -p "$d"/rootfs/{bin,etc,zz}
	cp /usr/bin/id "$d/rootfs/bin/id"
	chmod 4755 "$d/rootfs/bin/id"
	echo secret >"$d/rootfs/etc/shadow"
	mknod -m 666 "$d/rootfs/etc/null" c 1 3
	umoci init --layout "$d/src"
	umoci new --image "$d/src:v1"
	umoci insert --image "$d/src:v1" "$d/rootfs" /
	"$bootseer" image convert "oci:$d/src:v1" "oci:$d/oci:v1" >/dev/null
}

setup() {
	node_setup
	# Nothing but bootseerd's own folders keeps the user out.
	chmod 711 "$T"
}
teardown() { node_teardown; }

# By way of env: setpriv itself still opens what it runs with root's rights.
as_user() { setpriv --reuid 65534 --regid 65534 --clear-groups env "$@"; }

# Where bootseerd mounted the image.
image_path() {
	awk -v t="$T/run/images/" 'index($5, t) == 1 { print $5 }' \
		/proc/self/mountinfo
}

options_of() { findmnt -no OPTIONS "$1"; } # PATH

closed() { # PATH
	[ "$(stat -c %a "$1")" = 700 ]
	run ! as_user ls "$1"
}

@test "a user of the machine comes to no image through the folders of bootseerd" {
	local fs

	node_start
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	fs=$(image_path)
	[ "$(cat "$fs/etc/shadow")" = secret ]
	run ! as_user cat "$fs/etc/shadow"
	run ! as_user "$fs/bin/id"
	closed "$T/run"
	closed "$T/run/images"
	closed "$T/root"
	closed "$T/root/images"
	[[ ,$(options_of "$fs"), == *,nosuid,* ]]
	[[ ,$(options_of "$fs"), == *,nodev,* ]]
	"$bootseer" image umount "$T/mnt"
}

@test "folders that an earlier version left open are closed at start" {
	local fs

	node_start
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	fs=$(image_path)
	node_stop KILL
	chmod 755 "$T/root" "$T/root/images" "$T/run" "$T/run/images" \
		"$(dirname "$fs")"
	mount -o remount,bind,suid,dev "$fs"
	node_start
	run ! as_user ls "$fs"
	closed "$T/run"
	closed "$T/run/images"
	closed "$T/root"
	closed "$T/root/images"
	# The mount is the one from before.
	[[ ,$(options_of "$fs"), == *,nosuid,* ]]
	[[ ,$(options_of "$fs"), == *,nodev,* ]]
	"$bootseer" image umount "$T/mnt"
}

@test "in a folder that a person chose, no program gives root and no device works" {
	node_start
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	[ "$(stat -c %a "$T/mnt/bin/id")" = 4755 ]
	[ "$(as_user "$T/mnt/bin/id" -u)" = 65534 ]
	run ! dd if="$T/mnt/etc/null" count=0 status=none
	# A mount from before gets what it lacks when it is asked for again.
	mount -o remount,bind,suid,dev "$T/mnt"
	[ "$(as_user "$T/mnt/bin/id" -u)" = 0 ]
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	[ "$(as_user "$T/mnt/bin/id" -u)" = 65534 ]
	"$bootseer" image umount "$T/mnt"
}

@test "a complete mount is as closed as a lazy one" {
	node_start
	"$bootseer" image prefetch --all --wait "$IMAGE"
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	[ "$(status '.images[0].mode')" = complete ]
	[ "$(as_user "$T/mnt/bin/id" -u)" = 65534 ]
	run ! as_user ls "$(image_path)"
	"$bootseer" image umount "$T/mnt"
}

@test "a folder that holds things of others is not taken over" {
	mkdir -m 755 "$T/shared"
	: >"$T/shared/theirs"
	run -1 timeout 120 "$bootseerd" --root "$T/root" --run "$T/shared"
	[[ $output == *"'$T/shared' holds things of others"*"chmod 700"* ]]
	[ "$(stat -c %a "$T/shared")" = 755 ]
	run -1 timeout 120 "$bootseerd" --root "$T/shared" --run "$T/run"
	[[ $output == *"'$T/shared' holds things of others"* ]]
	mkdir -m 755 "$T/foreign"
	chown 65534 "$T/foreign"
	run -1 timeout 120 "$bootseerd" --root "$T/foreign" --run "$T/run"
	[[ $output == *"belongs to user 65534"* ]]
}

# Say "ready" on the socket PATH, as the user.
user_says_ready() { # PATH
	as_user curl -sS --unix-socket "$1" -d '' http://bootseer/v1/ready
}

@test "ready.sock is for whom it was mounted for, whatever user that is" {
	node_start
	run -7 user_says_ready "$T/run/ready.sock"
	: >"$T/mnt/sock"
	mount --bind "$T/run/ready.sock" "$T/mnt/sock"
	chmod 711 "$T/mnt"
	[[ $(user_says_ready "$T/mnt/sock") == "error: no start of this container"* ]]
	umount "$T/mnt/sock"
}

# As the user, send "x" on the socket PATH, and with it the only descriptor of a
# connection whose close waits for as long as this runs (SO_LINGER).  The file SENT is
# there when that is done, or the kernel does not let it.
send_what_lingers() { # PATH SENT
	as_user /usr/bin/python3 -c '
import array, signal, socket, struct, sys
listening = socket.create_server(("127.0.0.1", 0))
c = socket.create_connection(listening.getsockname())
peer, _ = listening.accept()
c.setblocking(False)
try:
    while True:
        c.send(bytes(65536))
except BlockingIOError:
    pass
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
try:
    s.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                        array.array("i", [c.fileno()]))])
except PermissionError:
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
print("sent", flush=True)
c.close()  # waits, too, when the other one is closed already
signal.pause()' "$1" >"$2" 2>&1 3>&- &
	pids+=("$!")
	wait_for grep -q sent "$2"
}

@test "descriptors that a container sends on ready.sock keep nothing waiting" {
	node_start
	: >"$T/mnt/sock"
	mount --bind "$T/run/ready.sock" "$T/mnt/sock"
	chmod 711 "$T/mnt"
	for i in 1 2 3; do send_what_lingers "$T/mnt/sock" "$T/sent.$i"; done
	LEAVE_AFTER=60 call node.status '{}' | jq -e .result
	[[ $(user_says_ready "$T/mnt/sock") == "error: no start of this container"* ]]
	umount "$T/mnt/sock"
	node_stop
}
