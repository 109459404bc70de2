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
	python3 -c 'import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
sys.stdout.write(s.makefile().read())' "$1"
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
