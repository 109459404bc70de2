#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Environments that containers have mounted by the socket that they were given.  The
# containers are runc's: user 1000 without a capability, and with a root of their own.

bats_require_minimum_version 1.5.0
load ../wait.bash

bootseer=$BOOTSEER_BUILD/cli/bootseer
bootseerd=$BOOTSEER_BUILD/snapshotter/node/bootseerd

setup_file()
{
	command -v runc >/dev/null || skip "no runc"
}

setup()
{
	W=$(mktemp -d /var/tmp/env-socket.XXXXXX)
	chmod 755 "$W"
	STORE=file://$W/store
	SITE=/srv/site
	mkdir -m 777 "$W/store"
	mkdir "$W/state"
	export W STORE SITE
	export BOOTSEER_SOCKET=$W/run/bootseerd.sock
	daemons=()
	containers=()
	cd "$W"
	cat >"$W/setup.sh" <<-'EOT'
		set -e
		cd "$SITE"
		echo ran >>"$W/store/ran"
		mkdir pkg
		echo hello >pkg/a.py
		chmod 4755 pkg/a.py
		echo new >old/file
		rm old/gone
	EOT
}

teardown()
{
	local c m pid

	cd /
	for c in "${containers[@]}"; do
		runc --root "$W/state" delete -f "$c" 2>/dev/null || :
	done
	for pid in "${daemons[@]}"; do
		kill "$pid" 2>/dev/null || :
		wait "$pid" 2>/dev/null || :
	done
	while m=$(awk -v t="$W/" 'index($5, t) == 1 { p = $5 } END { print p }' \
		/proc/self/mountinfo) && [ -n "$m" ]; do
		umount -l "$m"
	done
	[ -z "${BATS_TEST_COMPLETED:-}" ] && cat "$W"/*.log "$W"/*.said 2>/dev/null |
		sed 's/^/# /' >&3
	rm -rf --one-file-system "$W"
}

node_start() # [OPTION...]
{
	: >"$W/node.log"
	"$bootseerd" --root "$W/root" --run "$W/run" --cache-quota 1G \
		--stall-timeout 1s --attempts 2 --env-store "$STORE" "$@" \
		2>>"$W/node.log" 3>&- &
	node_pid=$!
	daemons+=("$node_pid")
	wait_for grep -q '^info main: ready' "$W/node.log"
}

socket_start() # POD [OPTION...]
{
	local pod=$1

	shift
	: >"$W/$pod.log"
	"$bootseer" env socket --store "$STORE" "$@" "$W/$pod" 2>>"$W/$pod.log" 3>&- &
	socket_pid=$!
	daemons+=("$socket_pid")
	wait_for grep -q 'env socket: ready' "$W/$pod.log"
}

stop() # PID [SIGNAL]
{
	kill "-${2:-TERM}" "$1"
	wait "$1" || :
}

# A bundle whose base is that of all others.
make_bundle() # NAME COMMAND [POD]
{
	local dir=$W/bundle.$1 d mounts=""

	mkdir -p "$dir/rootfs"/{proc,srv,tmp,var/tmp,run/bootseer-env,dev}
	chmod 1777 "$dir/rootfs/tmp" "$dir/rootfs/var/tmp"
	if [ ! -e "$dir/rootfs$SITE" ]; then
		mkdir -p "$dir/rootfs$SITE/old"
		echo 1 >"$dir/rootfs$SITE/old/file"
		echo 2 >"$dir/rootfs$SITE/old/gone"
		echo 3 >"$dir/rootfs$SITE/old/kept"
		chown -R 1000:1000 "$dir/rootfs$SITE"
		find "$dir/rootfs$SITE" -exec touch -d '2018-01-01 00:00:00' {} +
	fi
	for d in /usr /bin /sbin /lib /lib64 "$BOOTSEER_BUILD"; do
		[ ! -e "$d" ] || mounts+=$(bind "$d" "$d" ro)
	done
	mounts+=$(bind "$W/store" "$W/store" rw)$(bind "$W/setup.sh" "$W/setup.sh" ro)
	[ -z "${3:-}" ] || mounts+=$(bind "$W/$3/pod" /run/bootseer-env ro)
	python3 - "$dir/config.json" "$2" "[${mounts%,}]" <<-'EOT'
		import json, os, sys
		path, command, mounts = sys.argv[1:]
		json.dump({
		    "ociVersion": "1.0.2",
		    "process": {
		        "user": {"uid": 1000, "gid": 1000}, "cwd": "/",
		        "args": ["/bin/sh", "-c", command],
		        "env": ["PATH=/usr/bin:/bin"] + [
		            f"{k}={os.environ[k]}" for k in ("W", "SITE", "STORE")],
		        "noNewPrivileges": True},
		    "root": {"path": "rootfs"},
		    "mounts": [{"destination": "/proc", "type": "proc",
		                "source": "proc"}] + json.loads(mounts),
		    "linux": {"namespaces": [{"type": t} for t in
		                             ("pid", "mount", "ipc", "uts")]}},
		    open(path, "w"))
	EOT
}

bind() # SOURCE DESTINATION ro|rw
{
	printf '{"source":"%s","destination":"%s","type":"bind","options":["bind","%s"]},' "$@"
}

in_container() # NAME COMMAND [POD]
{
	make_bundle "$@"
	containers+=("$1")
	runc --root "$W/state" run --bundle "$W/bundle.$1" "$1" 3>&- </dev/null
}

run_line() # [OPTION...]
{
	printf '%q ' "$bootseer" env run --store "$STORE" --target "$SITE" "$@" \
		-- sh "$W/setup.sh"
}

capture()
{
	in_container maker "$(run_line)" 2>maker.said
	[ "$(grep -c . "$W/store/ran")" = 1 ]
}

# shellcheck disable=SC2016 # the container expands it
look='cat $SITE/pkg/a.py $SITE/old/file $SITE/old/kept; test ! -e $SITE/old/gone;
	echo mine >$SITE/pkg/mine; grep " $SITE " /proc/self/mountinfo'

n_environments()
{
	find "$W/root/environments" -mindepth 1 -maxdepth 1 | grep -c . || :
}

@test "a container without a right of its own has its environment mounted" {
	capture
	node_start
	socket_start pod
	in_container user "$(run_line) 2>&1 && $look" pod >user.said
	grep '^bootseer env run: mounted ' user.said
	grep -x hello user.said
	grep -x new user.said
	grep -x 3 user.said
	grep "$SITE rw,nosuid,nodev.* - overlay bootseer-env:" user.said
	[ "$(grep -c . "$W/store/ran")" = 1 ]
	# What it wrote was the mount's.
	[ ! -e "bundle.user/rootfs$SITE/pkg" ]
	# And nothing is left in the namespaces of others.
	run ! grep bootseer-env: /proc/self/mountinfo
	run ! grep bootseer-env: "/proc/$socket_pid/mountinfo"
	run ! grep bootseer-env: "/proc/$node_pid/mountinfo"
}
