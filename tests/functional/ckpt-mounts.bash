# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A mount of a test: STORE on the folder M, with what it leaves below W.  A test that stops the
# parent of a mount's process has its id in the global variable `holder`.

export PATH=$BOOTSEER_BUILD/ckpt-fuse/mount:$PATH

# An empty store, and the folder that it is mounted on.
begin_mounts()
{
	W=$BATS_TEST_TMPDIR
	STORE=file://$W/store
	M=$W/mnt
	mkdir "$W/store" "$M"
}

end_mounts()
{
	local mounts

	# Of a test that failed: what is held back, or stopped, would keep its mounts.
	rm -f "$W/hold"
	kill -CONT "${holder-}" 2>/dev/null || :
	cat "$W"/run/*/log >&2 2>/dev/null || :
	cd /
	# What the mounts say of themselves may be what failed.
	mapfile -t mounts < <(awk -v below="$W/" 'index($5, below) == 1 { print $5 }' \
		/proc/self/mountinfo)
	if ((${#mounts[@]})); then
		umount -l "${mounts[@]}" || :
		wait_for is_over || :
	fi
	stop_servers
}

curl_socket() # SOCKET
{
	curl -sS --unix-socket "$1" http://mount/metrics
}

is_over()
{
	[ "$("$bootseer" ckpt status --run="$W/run")" = '[]' ]
}

bucket()
{
	export HOME=$W no_proxy='*' AWS_EC2_METADATA_DISABLED=true
	s3_server "$W/s3"
	STORE="s3://bkt/ckpt?endpoint=http://$AT"
}

mount_store() # [OPTION...]
{
	"$bootseer" ckpt mount --run="$W/run" "$@" "$STORE" "$M" 3>&-
}

umount_store()
{
	"$bootseer" ckpt umount --run="$W/run" "$M"
}

figure() # KEY
{
	"$bootseer" ckpt status --run="$W/run" "$M" | jq ".[0].$1"
}

parent_of() # PID
{
	sed 's/.*) . \([0-9]*\).*/\1/' "/proc/$1/stat"
}

# Whoever adopts it may take its time to look.
has_ended() # PID
{
	[ ! -e "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status"
}

is_stopped() # PID
{
	grep -q '^State:.T' "/proc/$1/status"
}

# Files that tests copy: F/in, and F/few, of what is copied again and again.
make_folders()
{
	make_checkpoint "$F/in"
	mkdir "$F/few"
	cp -a "$F"/in/{model.pt,optimizer.pt,config.json,done} "$F/few"
}

# All that users of folders do, in the mount; STORE is any.
use_as_folder()
{
	mkdir "$M/step-1"
	dd if="$F/few/model.pt" of="$M/step-1/model.pt" bs=300k status=none
	cmp "$M/step-1/model.pt" "$F/few/model.pt"
	[ "$(ckpt stat step-1/model.pt | jq -c '[.layout, .columns, .size]')" = \
		'["striped",8,70000001]' ]

	cp -a "$F/few" "$M/copy"
	diff -r "$F/few" "$M/copy"
	[ "$(stat -c '%a %y' "$M/copy/model.pt")" = \
		"$(stat -c '%a %y' "$F/few/model.pt")" ]
	[ "$(ckpt stat copy/config.json | jq -r .layout)" = plain ]

	tar cf "$M/a.tar" -C "$F" few
	mkdir "$M/untar"
	tar xf "$M/a.tar" -C "$M/untar"
	diff -r "$F/few" "$M/untar/few"

	# Rename over, small over large and large over small.
	cp "$F/few/config.json" "$M/x.tmp"
	mv "$M/x.tmp" "$M/step-1/model.pt"
	cmp "$M/step-1/model.pt" "$F/few/config.json"
	cp "$F/few/optimizer.pt" "$M/x.tmp"
	mv "$M/x.tmp" "$M/step-1/model.pt"
	cmp "$M/step-1/model.pt" "$F/few/optimizer.pt"
	[ ! -e "$M/x.tmp" ]

	# Folders, as trainers do that save to a temporary one.
	mkdir "$M/target" "$M/other"
	cp -r "$F/few" "$M/step-2.tmp"
	mkdir "$M/step-2.tmp/empty"
	mv -T "$M/step-2.tmp" "$M/target"
	rmdir "$M/target/empty"
	diff -r "$F/few" "$M/target"
	[ ! -e "$M/step-2.tmp" ]
	run mv -T "$M/other" "$M/target"
	[[ $output == *"not empty"* ]]
	rm -r "$M/target" "$M/other"

	run rmdir "$M/step-1"
	[[ $output == *"not empty"* ]]
	rm "$M/step-1/model.pt"
	[ -z "$(ls "$M/step-1")" ]
	rmdir "$M/step-1"
	[ ! -e "$M/step-1" ]
	rm -r "$M/copy" "$M/untar" "$M/a.tar"
	[ -z "$(ls "$M")" ]
}

gc_finds_nothing()
{
	ckpt gc --older=0s >&2
	[ "$(ckpt gc --older=0s --dry-run)" = '0 objects, 0 B would be removed' ]
}

remove_while_open()
{
	mount_store
	cp "$F/in/model.pt" "$M/f"
	cp "$F/in/shard/rank-0.pt" "$M/g"
	exec 7<"$M/f" 8<"$M/g"
	rm "$M/f"
	cp "$F/in/config.json" "$M/new"
	mv "$M/new" "$M/g"
	cmp - "$F/in/model.pt" <&7
	cmp - "$F/in/shard/rank-0.pt" <&8
	cmp "$M/g" "$F/in/config.json"
	[ ! -e "$M/f" ]
	exec 7<&- 8<&-
	# One that is written has its name no more, and is not seen again.
	exec 7>"$M/h"
	cat "$F/in/optimizer.pt" >&7
	rm "$M/h"
	exec 7>&-
	[ ! -e "$M/h" ]
	[ "$(ls "$M")" = g ]
	umount_store
}

is_writing()
{
	[ "$(figure bytes_written)" -gt 60000000 ]
}

kill_writer()
{
	local pid

	mount_store
	cp "$F/in/optimizer.pt" "$M/f"
	mkfifo "$W/fifo"
	dd of="$M/f" if="$W/fifo" bs=64k status=none 3>&- &
	pid=$!
	exec 7>"$W/fifo"
	head -c 70000000 "$F/in/model.pt" >&7
	wait_for is_writing
	kill -9 "$pid"
	wait "$pid" || :
	exec 7>&-
	cmp "$M/f" "$F/in/optimizer.pt"
	umount_store
	ckpt cp :f "$W/back"
	cmp "$W/back" "$F/in/optimizer.pt"
}

is_restarted()
{
	[ "$(figure restarted)" = true ]
}

# Is it FILE's bytes from there on?  The file by its name: a process substitution would
# have what this shell has open of the mount, and may outlive the command.
is_rest() # FILE OFFSET [BYTES]
{
	cmp -i "0:$2" ${3:+-n "$3"} - "$1"
}

kill_mount()
{
	mount_store
	grep -qx 512 "/sys/class/bdi/$(mountpoint -d "$M")/read_ahead_kb"
	cp "$F/in/model.pt" "$M/f"
	cp "$F/in/config.json" "$M/old"
	mkdir "$M/d"
	cp "$F/in/config.json" "$M/d/x"
	cd "$M/d"
	exec 7<"$M/f" 8<>"$M/old"
	head -c 1000000 <&7 | cmp -n 1000000 - "$F/in/model.pt"
	echo lost >&8
	kill -9 "$(figure pid)"
	wait_for is_restarted
	is_rest "$F/in/model.pt" 1000000 <&7
	cmp x "$F/in/config.json"
	exec 7<&-
	# It is told that it was lost.
	run bash -c 'echo more >&8'
	[ "$status" != 0 ]
	run -1 python3 -c 'import os; os.ftruncate(8, 3)'
	[[ $output == *"Input/output error"* ]]
	exec 8>&-
	cmp "$M/old" "$F/in/config.json"
	cp "$F/in/optimizer.pt" y
	cmp y "$F/in/optimizer.pt"
	cd /
	umount_store
}
