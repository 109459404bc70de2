#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Environments that containers have mounted by the socket that they were given.  The
# containers are runc's: user 1000 without a capability, and with a root of their own.

bats_require_minimum_version 1.5.0
load ../wait.bash

bootseer=$BOOTSEER_BUILD/cli/bootseer
bootseerd=$BOOTSEER_BUILD/snapshotter/node/bootseerd

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
	# Those that a test runs beside itself, too: what waits for it would wait for ever.
	for c in $(runc --root "$W/state" list -q 2>/dev/null); do
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
	"$bootseerd" --root "$W/root" --run "$W/run" --cache-quota 1G --env-write-max 64M \
		--stall-timeout 1s --env-store "$STORE" "$@" \
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
	mounts+=$(bind "$BATS_TEST_DIRNAME/ask-env-socket.py" /ask.py ro)
	[ -z "${3:-}" ] || mounts+=$(bind "$W/$3/pod" /run/bootseer-env ro)
	python3 - "$dir/config.json" "$2" "[${mounts%,}]" <<-'EOT'
		import json, os, sys
		path, command, mounts = sys.argv[1:]
		own = ["user"] if "USER_NAMESPACE" in os.environ else []
		ids = [{"containerID": 0, "hostID": 0, "size": 65536}]
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
		    "linux": dict({"namespaces": [{"type": t} for t in
		                                  ["pid", "mount", "ipc", "uts"] + own]},
		                  **({"uidMappings": ids, "gidMappings": ids}
		                     if own else {}))},
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

# A folder of root's in one in which the container's user may rename.
roots_folder() # NAME
{
	mkdir -p "bundle.$1/rootfs/srv/roots/old"
	chown 1000 "bundle.$1/rootfs/srv"
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

# Root of the node, who has the other socket.
@test "who is in no container is told so once it has asked" {
	socket_start pod
	# An answer before the question finds the asker writing, and it never reads why.
	python3 - >said 3>&- <<-'EOT'
		import os, select, socket
		s = socket.socket(socket.AF_UNIX)
		s.connect(os.environ['W'] + '/pod/pod/env.sock')
		print('early' if select.select([s], [], [], 0.5)[0] else 'waits')
		s.sendall(b'{"bootseer":1,"method":"environment.open","params":{}}\n')
		print(s.makefile().readline())
	EOT
	grep -x waits said
	grep 'is in none' said
	grep 'this socket is for containers' said
}

@test "a container is mounted nothing where it may not write, nor of other stores" {
	capture
	node_start
	socket_start pod
	socket_start other --store file:///nowhere
	make_bundle hostile true pod
	roots_folder hostile
	# shellcheck disable=SC2016 # the container expands it
	in_container hostile 'ask() { python3 /ask.py $STORE keep "$@"; }
		ask /srv/../srv/site srv/site $SITE,$SITE/old noise
		mv $SITE /srv/was; ask $SITE
		ln -s was $SITE; ask $SITE
		rm $SITE; mv /srv/roots $SITE; ask $SITE
		! grep bootseer-env: /proc/self/mountinfo' pod >answers
	[ "$(grep -c '"error"' answers)" = 7 ]
	run ! grep '"result"' answers
	# Without the socket it is unpacked.
	in_container without "$(run_line)" 2>without.said
	grep '^bootseer env run: restored ' without.said
	# Users of the node do not come to it.
	chmod 711 "$W"
	run ! setpriv --reuid 1000 --regid 1000 --clear-groups test -e "$W/pod/pod/env.sock"
}

# A file that has blocks.
with_blocks()
{
	# shellcheck disable=SC2016 # the command expands it
	echo 'seq 100000 >$SITE/big' >>"$W/setup.sh"
}

@test "a container with a user namespace of its own unpacks what bootseerd has" {
	with_blocks
	capture
	node_start
	socket_start pod
	# The node has it of the store, which has no blocks then.
	in_container first "$(run_line)" pod 2>first.said
	grep '^bootseer env run: mounted ' first.said
	wait_for grep -q '^info prefetch: done' node.log
	rm -r store/env/packs
	export USER_NAMESPACE=yes
	in_container own "$(run_line)" pod 2>own.said
	grep 'not mounted: .*it is unpacked' own.said
	grep '^bootseer env run: restored ' own.said
	run ! grep 'not of bootseerd' own.said
	cmp "bundle.own/rootfs$SITE/big" "bundle.maker/rootfs$SITE/big"
	[ "$(grep -c . "$W/store/ran")" = 1 ]
	# bootseerd hears a moment later that the second has gone.
	wait_for has_one
}

@test "by its socket a container has blocks of its stores only, and nothing else" {
	with_blocks
	capture
	node_start
	socket_start pod
	in_container asker 'python3 /ask.py $STORE open file:///nowhere '"'$(
		)"'{"bootseer":1,"method":"environment.read","params":{"at":[0,4096]}}'"' '$(
		)"'{"bootseer":1,"method":"environment.read","params":{"at":[0,99999999]}}'"' '$(
		)"'{"bootseer":1,"method":"environment.read","params":{"name":"x","at":[0,1]}}'"' '$(
		)"'{"bootseer":1,"method":"environment.mount","params":{}}'"' '$(
		)"'{"bootseer":1,"method":"node.status"}'"'"'' pod >answers
	grep -q "has no --store 'file:///nowhere'" answers
	# Its blocks, no more at once than others have memory for, and those of no other name.
	[ "$(grep -c '"meta"' answers)" = 5 ]
	[ "$(grep -cx '{"bootseer":1,"result":{}}' answers)" = 1 ]
	grep -q 'more than 8388608 bytes' answers
	grep -q 'parameters: at, and nothing else' answers
	[ "$(grep -c 'only environment.read is answered' answers)" = 2 ]
	# What it left is nobody's any more.
	wait_for has_none
}
has_one() { [ "$(n_environments)" = 1 ]; }
has_none() { [ "$(n_environments)" = 0 ]; }

@test "others' files of a folder such as /tmp are not hidden by an environment" {
	capture
	node_start
	socket_start pod
	make_bundle sticky true pod
	chown root:root "$W/bundle.sticky/rootfs/srv"
	chmod 755 "$W/bundle.sticky/rootfs/srv"
	chown root:root "$W/bundle.sticky/rootfs$SITE"
	chmod 1777 "$W/bundle.sticky/rootfs$SITE"
	# shellcheck disable=SC2016 # the container expands it
	in_container sticky 'touch $SITE/mine; python3 /ask.py $STORE keep $SITE
		! grep bootseer-env: /proc/self/mountinfo' pod >answers
	[[ "$(cat answers)" == *'is no folder that user 1000 may write to: Permission denied'* ]]
	# Its owner may.
	chown 1000 "$W/bundle.sticky/rootfs$SITE"
	# shellcheck disable=SC2016 # the container expands it
	in_container sticky 'python3 /ask.py $STORE keep $SITE' pod >answers
	grep '"result"' answers
}

@test "a folder that is swapped for a link leads nowhere else" {
	capture
	node_start
	socket_start pod
	make_bundle racer true pod
	roots_folder racer
	# shellcheck disable=SC2016 # the container expands it
	in_container racer 'python3 -c "
import os
os.chdir(\"/srv\")
while True:
    os.rename(\"site\", \"was\")
    os.symlink(\"roots\", \"site\")
    os.unlink(\"site\")
    os.rename(\"was\", \"site\")" &
		python3 /ask.py $STORE keep $SITE/old $SITE/old $SITE/old \
			$SITE/old $SITE/old $SITE/old
		kill $!; grep bootseer-env: /proc/self/mountinfo | cut -d" " -f5 || :' \
		pod >answers
	[ "$(grep -c '"bootseer"' answers)" = 6 ]
	run ! grep -e '^/srv/roots' answers
}

# For another container, which leaves, too.
has_a_place()
{
	places=$((${places:-0} + 1))
	in_container "next$places" "python3 /ask.py $STORE leave $SITE" pod >answers
	grep '"result"' answers || { grep -e '--most' answers; return 1; }
}

@test "what a container does not keep is unmounted, and places are given back" {
	capture
	node_start
	socket_start pod --most 1
	in_container leaver "python3 /ask.py $STORE leave $SITE" pod >answers
	grep '"result"' answers
	# The kernel may take its time to end the mounts of a namespace; until then the one
	# place is taken, and is looked at again by whoever wants one.
	wait_for has_a_place
	# A snapshot that its smoke test finds bad is taken back, and the command is run.
	in_container bad "$(run_line --verify false) ; ! grep bootseer-env: /proc/self/mountinfo" \
		pod 2>bad.said
	[ "$(grep -c . "$W/store/ran")" = 2 ]
}

# What reads has ended; bootseerd and the socket may take a moment to know.
reads_again()
{
	reads=$((${reads:-0} + 1))
	in_container "reader$reads" "python3 /ask.py $STORE open hold" pod >answers
	grep '"meta"' answers || { grep -e '--most' answers; return 1; }
}

@test "who only reads blocks has one of the places, and gives it back" {
	with_blocks
	capture
	node_start
	socket_start pod --most 2
	# One that holds on to what it began does not have the node bring more and more.
	# shellcheck disable=SC2016 # the container expands it
	in_container hostile 'python3 /ask.py $STORE open hold hold hold hold' pod >answers
	[ "$(grep -c '"meta"' answers)" = 2 ]
	[ "$(grep -c 'has 2 environments .*--most' answers)" = 2 ]
	wait_for has_none
	wait_for reads_again
	# One that is mounted counts as one that is read.
	in_container both 'python3 /ask.py $STORE keep $SITE; python3 /ask.py $STORE open hold hold' \
		pod >answers
	[ "$(grep -c '"result"' answers)" = 2 ]
	[ "$(grep -c 'has 2 environments .*--most' answers)" = 1 ]
}

@test "a place is not taken from a mount that is being made" {
	local name=0123456789abcdef0123456789abcdef holder

	capture
	node_start
	socket_start pod --most 1
	mkfifo hold
	touch pod/mounts.lock
	# One that bootseerd has not got yet: whoever makes it has its byte locked.
	echo "$name" >pod/mounts
	python3 -c 'import fcntl, sys
with open(sys.argv[1], "r+b") as f:
    fcntl.lockf(f, fcntl.LOCK_EX, 1, int(sys.argv[2][:15], 16))
    print("held", flush=True)
    open("hold").read()' pod/mounts.lock "$name" >held 3>&- &
	holder=$!
	wait_for grep -q held held
	in_container first "python3 /ask.py $STORE leave $SITE" pod >answers
	grep -e '--most' answers
	grep -x "$name" pod/mounts
	echo >hold
	wait "$holder"
	in_container second "python3 /ask.py $STORE leave $SITE" pod >answers
	grep '"result"' answers
	run ! grep -x "$name" pod/mounts
}

@test "what a container had mounted when its asker was killed is unmounted" {
	capture
	node_start
	socket_start pod
	mkfifo -m 666 "$W/store/on" "$W/store/hang"
	# shellcheck disable=SC2016 # the container expands it
	in_container dead "$(run_line --verify 'echo >"$W/store/on"; exec cat "$W/store/hang"') &
"'pid=$!
		read -r _ <"$W/store/on"
		grep -c bootseer-env: /proc/self/mountinfo
		kill -9 "$pid"; wait "$pid"
		timeout 300 sh -c "while grep -q bootseer-env: /proc/self/mountinfo; do :; done" &&
			echo ended' pod >dead.said 2>&1
	grep -x 1 dead.said
	grep -x ended dead.said
}

@test "a bootseerd that was killed, and a socket that was started again, are no matter" {
	capture
	node_start
	socket_start pod --most 1
	stop "$node_pid" KILL
	in_container first "$(run_line)" pod 2>first.said
	grep 'not mounted: .*it is unpacked' first.said
	node_start
	in_container second "$(run_line)" pod 2>second.said
	grep '^bootseer env run: mounted ' second.said
	stop "$socket_pid" KILL
	socket_start pod --most 1
	# Its one place is free as soon as the kernel has ended what the container before had.
	wait_for is_mounted_anew
}

is_mounted_anew()
{
	tries=$((${tries:-0} + 1))
	in_container "third$tries" "$(run_line)" pod 2>third.said
	grep '^bootseer env run: mounted ' third.said || { grep -e '--most' third.said; return 1; }
}

# Bytes on the disk of what mounted environments may take.
of_environments()
{
	"$bootseer" node status --json | jq .disk.environments
}

is_ready_again()
{
	[ "$(grep -c '^info main: ready' node.log)" = 2 ]
}

has_no_environment()
{
	[ "$(n_environments)" = 0 ] && [ -z "$(ls run/environments)" ] &&
		! losetup -nO BACK-FILE | grep -F "$W/root"
}

@test "what a container writes into its environment ends at its bound, and takes nothing of others" {
	local most=$((64 << 20)) fill pid

	capture
	node_start --hold
	socket_start pod
	socket_start other
	mkfifo -m 666 store/full store/go
	# Bytes until there are no more, and names until there are none.
	fill='import errno, os
def fill(write):
    try:
        for n in range(1 << 20):
            write(n)
    except OSError as e:
        print(errno.errorcode[e.errno])
os.makedirs(os.environ["SITE"] + "/pkg/many")
big = os.open(os.environ["SITE"] + "/pkg/big", os.O_CREAT | os.O_WRONLY)
fill(lambda n: os.write(big, b"x" * 65536))
fill(lambda n: os.mknod(os.environ["SITE"] + f"/pkg/many/{n}"))'
	echo "$fill" >store/fill.py
	# shellcheck disable=SC2016 # the container expands it
	in_container hostile "$(run_line)"'; python3 $W/store/fill.py
		echo >$W/store/full; read -r _ <$W/store/go; stat -c %s $SITE/pkg/big >$W/store/size' \
		pod >hostile.said 2>&1 &
	pid=$!
	read -r _ <store/full
	[ "$(grep -cx ENOSPC hostile.said)" = 2 ]
	[ "$(du -s --block-size=1 root/environments | cut -f1)" -lt $((most + (1 << 20))) ]
	[ "$(of_environments)" -ge "$most" ]
	[ "$("$bootseer" node status --json | jq '.environments[0].free_bytes')" -lt 65536 ]
	"$bootseer" node doctor | grep -E '^ok +environments +can be mounted and written to$'
	# The space of another was set aside when it was mounted.
	in_container good "$(run_line); $look; head -c 40000000 /dev/zero >\$SITE/pkg/mine &&
		stat -c %s \$SITE/pkg/mine" other >good.said 2>&1
	grep '^bootseer env run: mounted ' good.said
	grep -x hello good.said
	grep -x 40000000 good.said
	# What was written outlives bootseerd.
	kill -KILL "$(pgrep -P "$node_pid")"
	wait_for is_ready_again
	echo >store/go
	wait "$pid"
	[ "$(cat store/size)" -gt $((50 << 20)) ]
	# A full one ends as any other, and all of its space is given back.
	touch -d '-1 hour' root/environments/*
	stop "$node_pid"
	node_start
	wait_for has_no_environment
	[ "$(of_environments)" -lt 65536 ]
}

@test "where environments have their part of the quota, the next one is unpacked" {
	capture
	# Half of 1G is for environments.
	node_start --env-write-max 300M
	socket_start pod
	mkfifo -m 666 store/mounted store/go
	# shellcheck disable=SC2016 # the container expands it
	in_container first "$(run_line)"'; echo >$W/store/mounted; read -r _ <$W/store/go' \
		pod >first.said 2>&1 &
	read -r _ <store/mounted
	grep '^bootseer env run: mounted ' first.said
	in_container second "$(run_line) && cat \$SITE/pkg/a.py" pod >second.said 2>&1
	grep 'not mounted: .*half of --cache-quota.*--env-write-max' second.said
	grep -x hello second.said
	echo >store/go
	wait $!
	# Where none can be mounted at all, doctor says so beforehand.
	stop "$node_pid"
	node_start --env-write-max 600M
	"$bootseer" node doctor |
		grep -E '^advice +environments +--env-write-max is more than half of --cache-quota'
}
