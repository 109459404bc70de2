#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A node whose programs were made of an older commit of this repository gets those of this one, and
# the older ones again, while a container and a mount of checkpoints are in use.  What the service
# kept in its database before 2026-11-30 is of no release, and not read.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../containerd/lib.bash"

OLD=a2f235e3 # the last of 2026-11-28
PROGRAMS=(cli/bootseer snapshotter/node/bootseerd containerd-plugin/bootseer-snapshotter
	ckpt-fuse/mount/bootseer-ckpt)

# A build with the older programs, which are compiled once; prints its folder.
old_build() {
	local cache=${BOOTSEER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bootseer} out work program
	local top=$BATS_TEST_DIRNAME/../..

	out=$cache/programs-$OLD
	mkdir -p "$cache"
	exec 8>"$out.lock"
	flock 8
	if [ ! -d "$out" ]; then
		work=$(mktemp -d "$out.XXXXXX")
		mkdir "$work/source"
		git -C "$top" archive "$OLD" | tar -x -C "$work/source"
		{
			meson setup -Dtests=false -Dbuildtype=debugoptimized "$work/build" "$work/source"
			ninja -C "$work/build" "${PROGRAMS[@]}"
		} >&2
		for program in "${PROGRAMS[@]}"; do
			install -D "$work/build/$program" "$work/out/$program"
		done
		mv "$work/out" "$out"
		rm -r "$work"
	fi
	exec 8>&-
	echo "$out"
}

setup_file() {
	local i

	OLD_BUILD=$(old_build)
	export OLD_BUILD
	make_images "$BATS_FILE_TMPDIR" >/dev/null
	mkdir -p "$BATS_FILE_TMPDIR/files/srv/files"
	for i in 1 2 3; do
		noise 3000000 "$i" >"$BATS_FILE_TMPDIR/files/srv/files/$i"
	done
	new_image "$BATS_FILE_TMPDIR" big base files
	"$bootseer" key new "$BATS_FILE_TMPDIR/key" >/dev/null
}

# Programs are where a package has them: all in one folder.
setup() {
	containerd_setup
	mkdir "$T/bin"
	bootseer=$T/bin/bootseer bootseerd=$T/bin/bootseerd plugin=$T/bin/bootseer-snapshotter
	PATH=$T/bin:$PATH
}

teardown() {
	umount -l "$T/mnt" 2>/dev/null || :
	containerd_teardown
}

# As dpkg does: a file takes the place of the one that runs.
put_programs() { # BUILD
	local program

	for program in "${PROGRAMS[@]}"; do
		install "$1/$program" "$T/bin/${program##*/}.new"
		mv "$T/bin/${program##*/}.new" "$T/bin/${program##*/}"
	done
}

node_runs() { # BUILD
	cmp "/proc/$(pgrep -P "$node_pid")/exe" "$1/snapshotter/node/bootseerd" &&
		"$bootseer" node status
}

# bootseerd's holder stays, as systemd would, and starts the program that is there now.
replace_node() { # BUILD
	put_programs "$1"
	pkill -KILL -P "$node_pid"
	wait_until "$node_pid" node_runs "$1"
	stop_daemon "$plugin_pid"
	rm -f "$T/plugin.sock"
	start_plugin
}

digest() { sha256sum <"$1" | cut -d' ' -f1; }

container_reads() { # NUMBER
	[ "$(exec_in long sha256sum "/srv/files/$1" | cut -d' ' -f1)" = \
		"$(digest "$I/files/srv/files/$1")" ]
}

@test "a container outlives an upgrade and a downgrade of the node, which start others" {
	local pid

	put_programs "$OLD_BUILD"
	start_node --hold
	start_plugin
	start_containerd
	push "$I" big
	convert_image big --sign "$I/key"
	pull_lazy big
	ctr run -d --snapshotter bootseer "$REGISTRY/big:1" long \
		sh -c "busybox mkfifo /wait; read x </wait"
	pid=$(ctr task ls | awk '$1 == "long" { print $2 }')
	container_reads 1

	replace_node "$BOOTSEER_BUILD"
	container_reads 1
	container_reads 2
	wait_until "$node_pid" in_container bootseer big true
	push "$I" lazy
	convert_image lazy --sign "$I/key"
	pull_lazy lazy
	in_container bootseer lazy "$LISTING" >"$T/got"

	replace_node "$OLD_BUILD"
	container_reads 2
	container_reads 3
	wait_until "$node_pid" in_container bootseer big true
	in_container bootseer lazy "$LISTING" | diff "$T/got" -
	pull_full overlayfs lazy
	in_container overlayfs lazy "$LISTING" | diff - "$T/got"
	push "$I" other
	convert_image other --sign "$I/key"
	pull_lazy other
	in_container bootseer other 'cat /srv/own/file' | grep -qx own
	[ "$(ctr task ls | awk '$1 == "long" { print $2, $3 }')" = "$pid RUNNING" ]
	ctr task rm -f long
	ctr container rm long
	ctr images rm --sync "$REGISTRY/big:1" "$REGISTRY/lazy:1" "$REGISTRY/other:1"
}

ckpt() { "$bootseer" ckpt "$1" "${@:2}"; }
mount_ckpt() { ckpt mount --run="$T/ckpt" "file://$T/store" "$T/mnt" 3>&-; }
umount_ckpt() { ckpt umount --run="$T/ckpt" "$T/mnt"; }

@test "checkpoints of either are read by the other, and a mount serves on" {
	mkdir "$T/store" "$T/mnt"
	noise 5000000 1 >"$T/file"
	put_programs "$OLD_BUILD"
	ckpt cp "file://$T/store" "$T/file" :copied
	mount_ckpt
	cp "$T/file" "$T/mnt/written"

	put_programs "$BOOTSEER_BUILD"
	for name in copied written; do
		ckpt cp "file://$T/store" ":$name" "$T/back.$name"
		cmp "$T/file" "$T/back.$name"
		cmp "$T/file" "$T/mnt/$name"
	done
	cp "$T/file" "$T/mnt/on" # by the process of before
	ckpt status --run="$T/ckpt"
	umount_ckpt
	mount_ckpt
	cmp "$T/file" "$T/mnt/on"
	cp "$T/file" "$T/mnt/new"
	ckpt cp "file://$T/store" "$T/file" :copied-new
	umount_ckpt

	put_programs "$OLD_BUILD"
	mount_ckpt
	for name in copied written on new copied-new; do
		cmp "$T/file" "$T/mnt/$name"
	done
	umount_ckpt
}

# The command notes that it ran.
env_run() {
	rm -rf "$T/site"
	mkdir "$T/site"
	"$bootseer" env run --store "file://$T/store" --target "$T/site" -- \
		sh -c 'echo ran >>"$1"; mkdir "$2/a"; echo text >"$2/a/file"' sh "$T/ran" "$T/site"
	[ "$(cat "$T/site/a/file")" = text ]
}

@test "environments of either serve the other, or are made again" {
	mkdir "$T/store"
	put_programs "$OLD_BUILD"
	env_run
	put_programs "$BOOTSEER_BUILD"
	env_run
	put_programs "$OLD_BUILD"
	env_run
	[ "$(wc -l <"$T/ran")" -le 2 ]
}
