#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Process snapshots of an environment's daemons, with a criu that does as it is told
# (fake-criu.py); tests/conformance/criu.bats has the real one.  A node is a mount
# namespace of its own, in which $W/here is the node's folder.

bats_require_minimum_version 1.5.0
load ../wait.bash

bootseer=$BOOTSEER_BUILD/cli/bootseer

setup()
{
	W=$BATS_TEST_TMPDIR
	STORE=file://$W/store
	FAKE_CRIU=$W/criu
	export W FAKE_CRIU
	mkdir "$W/store" "$W/here" "$W/criu" "$W/bin"
	ln -s "$BATS_TEST_DIRNAME/fake-criu.py" "$W/bin/criu"
	PATH=$W/bin:$PATH
	cd "$W"
	: >"$W/pids"
	# Ends by itself when its FIFO goes.
	cat >"$W/daemon.sh" <<-'EOF'
		echo "${RESTORED:+re}started"
		echo $$ >>"$W/here/inner"
		[ -p "$W/here/ready" ] || mkfifo "$W/here/ready"
		exec 3<>"$W/here/ready"
		while [ -e "$W/here/ready" ] && ! read -r -t 0.2 line <&3; do :; done
	EOF
}

teardown()
{
	local file pid

	cd /
	rm -f "$W"/*/ready
	# Daemons may end by that, and their files go, before they are killed.
	for file in "$W"/*/d/srv.pid; do
		! read -r pid 2>/dev/null <"$file" || kill -9 "$pid" || :
	done
	kill_jobs
}

# `bootseer env run` on the node, with a daemon that may be dumped.
on() # NODE [OPTION...] -- COMMAND...
{
	local node=$1

	shift
	mkdir -p "$W/$node"
	# shellcheck disable=SC2016
	exec unshare --mount sh -c 'mount --bind "$W/$0" "$W/here" && exec "$@"' \
		"$node" env ${NODE_PATH:+"PATH=$NODE_PATH"} ${NODE_AS:+$NODE_AS} \
		"$bootseer" env run --store "$STORE" --target "$W/here/site" \
		--daemon-dir "$W/here/d" --daemon-timeout 10m --daemon-snapshot-timeout 10m \
		--daemon "srv=PATH=/usr/bin:/bin exec ${SHELL_OF_DAEMON:-bash} $W/daemon.sh" \
		--daemon-ready 'srv=test -p "$W/here/ready"' --daemon-snapshot srv "$@"
}

env_run() # NODE [OPTION...] [-- COMMAND...]
{
	case " $* " in
	*" -- "*) (on "$@") ;;
	*) (on "$@" -- /bin/sh -c "/bin/mkdir -p $W/here/site; : >$W/here/site/a") ;;
	esac
}

# The daemon of the node ends, as it does by itself.
end_daemon() # NODE
{
	rm "$W/$1/ready"
	wait_for lock_is_free "$1"
}

lock_is_free() { flock --nonblock "$W/$1/d/srv.lock" true; }

lines() # FILE
{
	if [ -e "$1" ]; then wc -l <"$1"; else echo 0; fi
}

has_lines() { [ "$(lines "$1")" = "$2" ]; } # FILE N

# Where are the process namespaces of the node's daemon?
is_alone() # NODE
{
	[ "$(readlink "/proc/$(cat "$W/$1/d/srv.pid")/ns/pid")" != "$(readlink /proc/self/ns/pid)" ]
}

@test "a daemon is dumped once it is ready, and restored on other nodes instead of started" {
	run -0 --separate-stderr env_run a
	[[ $stderr == *"daemon 'srv' dumped: "* ]]
	[ "$(lines criu/dumps)" = 1 ]
	[ "$(cat a/d/srv.log)" = started ]
	# In namespaces of its own, where it is not the first: signals reach it.
	is_alone a
	[ "$(cat a/inner)" != 1 ]
	[ "$(readlink "/proc/$(cat a/d/srv.pid)/ns/time")" != "$(readlink /proc/self/ns/time)" ]
	# The memory of a process is left nowhere, and only root may read it in the store.
	[ ! -e a/d/srv.dump ]
	key=$("$bootseer" env ls "$STORE" | sed -n 's/ .*daemon srv on .*//p')
	[ -n "$key" ]
	[ "$(jq .version "store/env/index/$key"*)" = 3 ] # no pack of it is shared
	run -0 find store/env/data store/env/index -path "*$key*" -type f -perm /077
	[ -z "$output" ]
	# What a run that was killed left is in nobody's way.
	mkdir -p -m 700 b/d b/d/srv.dump/old
	: >b/d/srv.dump/core.img
	run -0 --separate-stderr env_run b
	[[ $stderr == *"daemon 'srv' restored: "* ]]
	[[ $stderr != *dumped* ]]
	[ "$(cat b/d/srv.log)" = restarted ]
	[ ! -e b/d/srv.dump ]
	# What the log was called there is what it is restored as.
	[ "$(sed 's/^fd\[[0-9]*\]://' criu/restores)" = "$(cat criu/external)" ]
	# It runs already.
	run -0 --separate-stderr env_run b -- true
	[ "$(lines criu/restores)" = 1 ]
	[ "$(cat b/d/srv.log)" = restarted ]
	end_daemon b
	[ ! -e b/d/srv.pid ]
	# At a restart of the node.
	rm -r b/site
	run -0 --separate-stderr env_run b
	[ "$(lines criu/restores)" = 2 ]
	[ "$(lines criu/dumps)" = 1 ]
}

@test "the first process of its namespace passes on signals, and ends with the last of it" {
	run -0 --separate-stderr env_run a
	kill "$(cat a/d/srv.pid)"
	wait_for lock_is_free a
	[ ! -e a/d/srv.pid ]
	# In the background: what is left keeps the lock, and gets them.
	rm -r a/ready a/inner
	cat >back.sh <<-'EOF'
		bash "$W/daemon.sh" &
	EOF
	# Before it says that it is ready.
	sed -i '1s/^/trap "echo told; exit" TERM\n/' daemon.sh
	run -0 --separate-stderr env_run a --daemon "back=bash $W/back.sh" \
		--daemon-ready 'back=test -p "$W/here/ready"' --daemon-snapshot back
	[ -s a/d/back.pid ]
	run ! flock --nonblock a/d/back.lock true
	kill "$(cat a/d/back.pid)"
	wait_for flock --nonblock a/d/back.lock true
	grep told a/d/back.log
}

@test "without a criu that works, or without root, it is started the ordinary way" {
	mkdir none
	NODE_PATH=$W/none run -0 --separate-stderr env_run a
	[[ $stderr == *"daemon 'srv': there is no criu in PATH: it is started the ordinary way"* ]]
	[ "$(cat a/d/srv.log)" = started ]
	[ ! -e a/d/srv.pid ]
	: >criu/check-fails
	run -0 --separate-stderr env_run b
	[[ $stderr == *"daemon 'srv': 'criu check' says that it does not work here: Kernel lacks ptrace: it is started"* ]]
	[ "$(cat b/d/srv.log)" = started ]
	rm criu/check-fails
	# Where the store is no use, what is installed is no snapshot's.
	STORE=file://$W/nostore run -0 --separate-stderr env_run c
	[[ $stderr == *"daemon 'srv': the environment here is no snapshot's: it is started"* ]]
	[ "$(cat c/d/srv.log)" = started ]
	mkdir -p u
	chown 65534:65534 u store criu
	chmod o+x "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR/test" "$W"
	chmod -R a+rwX store
	NODE_AS="setpriv --reuid 65534 --regid 65534 --clear-groups" \
		run -0 --separate-stderr env_run u
	[[ $stderr == *"daemon 'srv': only root can dump and restore processes: it is started"* ]]
	[ "$(cat u/d/srv.log)" = started ]
	[ ! -e criu/dumps ]
}

@test "a dump that fails, hangs or kills leaves a daemon that runs, and no snapshot" {
	: >criu/dump-fails
	run -0 --separate-stderr env_run a
	[[ $stderr == *"daemon 'srv' is not dumped: dump: criu ended with 1: Can't dump file 3 of that type ($W/here/d/srv.criu.log)"* ]]
	[ "$(cat a/d/srv.log)" = started ]
	is_alone a
	rm criu/dump-fails
	: >criu/dump-hangs
	run -0 --separate-stderr env_run b --daemon-snapshot-timeout 1s
	[[ $stderr == *"daemon 'srv': dump: criu: did not end in time: it is started the ordinary way"* ]]
	# The one that criu had stopped is gone, and the other one is not in a namespace.
	wait_for has_lines b/inner 2
	[ "$(cat b/d/srv.log)" = "$(printf 'started\nstarted')" ]
	run -0 cat b/inner
	[ "${lines[0]}" -lt 10 ]
	[ "$(readlink "/proc/${lines[1]}/ns/pid")" = "$(readlink /proc/self/ns/pid)" ]
	run ! lock_is_free b
	rm criu/dump-hangs
	: >criu/dump-kills
	run -0 --separate-stderr env_run c
	[[ $stderr == *"daemon 'srv': after the dump: it died of signal 9: it is started the ordinary way"* ]]
	rm criu/dump-kills
	[ "$("$bootseer" env ls "$STORE" | grep -c daemon)" = 0 ]
	run ! ls -d ./*/d/srv.dump
	# The next node makes it.
	run -0 --separate-stderr env_run d
	[[ $stderr == *"daemon 'srv' dumped"* ]]
}

@test "where a restore fails or hangs it is started the ordinary way, and nothing of it is left" {
	run -0 --separate-stderr env_run a
	: >criu/restore-fails
	run -0 --separate-stderr env_run b
	[[ $stderr == *"daemon 'srv': restore: criu ended with 1: Can't fork for 2: File exists ($W/here/d/srv.criu.log): it is started the ordinary way"* ]]
	[ "$(cat b/d/srv.log)" = started ]
	rm criu/restore-fails
	: >criu/restore-hangs
	run -0 --separate-stderr env_run c --daemon-snapshot-timeout 10s
	[[ $stderr == *"daemon 'srv': restore: criu: did not end in time: it is started the ordinary way"* ]]
	[ "$(cat c/d/srv.log)" = started ]
	[ ! -e "/proc/$(cat criu/half)" ]
	rm criu/restore-hangs
	# One node's failure is its own.
	run -0 --separate-stderr env_run d
	[[ $stderr == *"daemon 'srv' restored"* ]]
	run ! ls -d ./*/d/srv.dump
}

@test "a dump after whose restore the daemon is not ready is bad for everybody" {
	run -0 --separate-stderr env_run a
	: >criu/restore-broken
	run -0 --separate-stderr env_run b --daemon-snapshot-timeout 10s
	[[ $stderr == *"daemon 'srv': restored: it is not ready within --daemon-snapshot-timeout, by its --daemon-ready command: it is started the ordinary way"* ]]
	[ "$(cat b/d/srv.log)" = started ]
	[ ! -e b/d/srv.pid ]
	rm criu/restore-broken
	run -0 --separate-stderr env_run c
	[[ $stderr == *"daemon 'srv': "*"not ready within --daemon-snapshot-timeout"*": it is started the ordinary way"* ]]
	[ "$(lines criu/restores)" = 1 ]
	# Until it is removed; then the next node dumps it again.
	run -0 "$bootseer" env ls "$STORE"
	key=$(sed -n 's/ .*daemon srv on .*bad.*//p' <<<"$output")
	run -0 "$bootseer" env rm "$STORE" "$key"
	run -0 --separate-stderr env_run d
	[[ $stderr == *"daemon 'srv' dumped"* ]]
}

@test "another kernel, criu, command or environment does not find the dump" {
	run -0 --separate-stderr env_run a
	NODE_AS="setarch --uname-2.6" run -0 --separate-stderr env_run b
	[[ $stderr == *"daemon 'srv' dumped"* ]]
	echo 2.0 >criu/version
	run -0 --separate-stderr env_run c
	[[ $stderr == *"daemon 'srv' dumped"* ]]
	rm criu/version
	SHELL_OF_DAEMON=/bin/bash run -0 --separate-stderr env_run d
	[[ $stderr == *"daemon 'srv' dumped"* ]]
	run -0 --separate-stderr env_run e --key driver=2
	[[ $stderr == *"daemon 'srv' dumped"* ]]
	[ "$(lines criu/dumps)" = 5 ]
	[ ! -e criu/restores ]
	# And the first one does.
	run -0 --separate-stderr env_run f
	[[ $stderr == *"daemon 'srv' restored"* ]]
}

@test "of two nodes that start it at once, one dumps it" {
	local first

	# The environment is there, the dump is not.
	: >criu/check-fails
	run -0 --separate-stderr env_run a
	rm criu/check-fails
	mkfifo criu/dump-waits
	env_run b 2>b.err &
	first=$!
	exec 7>criu/dump-waits # it is at its dump
	run -0 --separate-stderr env_run c
	[[ $stderr != *dumped* ]]
	[ "$(cat c/d/srv.log)" = started ]
	exec 7>&-
	wait "$first"
	grep "daemon 'srv' dumped" b.err
	[ "$(lines criu/dumps)" = 1 ]
	rm criu/dump-waits
	run -0 --separate-stderr env_run d
	[[ $stderr == *"daemon 'srv' restored"* ]]
}

@test "a daemon that is dumped has to say when it is ready" {
	run -2 --separate-stderr "$bootseer" env run --store "$STORE" --target "$W/here/site" \
		--daemon x=true --daemon-snapshot x -- true
	[[ $stderr == *"--daemon-snapshot 'x': it takes a --daemon and a --daemon-ready of this name"* ]]
	run -2 --separate-stderr "$bootseer" env run --store "$STORE" --target "$W/here/site" \
		--daemon x=true --daemon-ready x=true --daemon-snapshot y -- true
	[[ $stderr == *"--daemon-snapshot 'y': it takes"* ]]
}

# Which of the words are in the memory of the processes that can be read?
in_memory() # PID WORD...
{
	python3 - "$@" <<-'EOF'
		import sys
		words = sys.argv[2:]
		with open(f"/proc/{sys.argv[1]}/maps") as maps, \
		        open(f"/proc/{sys.argv[1]}/mem", "rb", 0) as mem:
		    for line in maps:
		        where, mode = line.split()[:2]
		        if mode[0] != "r" or "[v" in line:
		            continue
		        begin, end = (int(x, 16) for x in where.split("-"))
		        mem.seek(begin)
		        data = mem.read(end - begin)
		        words = [w for w in words if w.encode() not in data or print(w)]
	EOF
}

@test "what env run knows is not in the memory that is dumped" {
	local init

	printf 'tell-%s\n' nobody-this >token
	chmod 600 token
	run -0 --separate-stderr env_run a --service http://127.0.0.1:9 --token-file "$W/token"
	[[ $stderr == *"daemon 'srv' dumped"* ]]
	init=$(cat a/d/srv.pid)
	run -0 in_memory "$init" "$W/daemon.sh" tell-nobody-this
	[ "$output" = "$W/daemon.sh" ]
	run -0 in_memory "$(pgrep -f "daemon-watch [0-9]* $W/here/d/srv.pid")" srv.pid tell-nobody-this
	[ "$output" = srv.pid ]
	run -0 in_memory "$(pgrep -P "$init")" "$W/daemon.sh" tell-nobody-this
	[ "$output" = "$W/daemon.sh" ]
}
