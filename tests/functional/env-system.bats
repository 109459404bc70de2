#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Environments of a whole system: what a package manager and `make install` changed, where no
# target is named.  A node has a root of its own, this machine's with an overlay above it.

bats_require_minimum_version 1.5.0

load ../wait.bash

bootseer=$BOOTSEER_BUILD/cli/bootseer

setup()
{
	W=$(mktemp -d /var/tmp/env-system.XXXXXX)
	STORE=file://$W/store
	mkdir "$W/store"
	export W
	make_package
	# What an image has above its packages.
	cat >"$W/setup.sh" <<-'EOF'
		set -e
		echo ran >>"$W/store/ran"
		dpkg -i "$W/tool.deb"
		rm /etc/debian_version
		install -D -m 755 "$W/tool/usr/bin/bootseer-tool" /usr/local/bin/made
	EOF
}

teardown()
{
	[ -z "${MUTE-}" ] || kill "$MUTE"
	rm -rf --one-file-system "$W"
}

make_package()
{
	mkdir -p "$W/tool"/{DEBIAN,usr/bin,etc,opt/tool/lib}
	cat >"$W/tool/DEBIAN/control" <<-'EOF'
		Package: bootseer-tool
		Version: 1.0
		Architecture: all
		Maintainer: nobody <nobody@example.org>
		Description: a tool of a test
	EOF
	printf '#!/bin/sh\necho works\n' >"$W/tool/usr/bin/bootseer-tool"
	chmod 755 "$W/tool/usr/bin/bootseer-tool"
	echo /etc/tool.conf >"$W/tool/DEBIAN/conffiles"
	echo setting >"$W/tool/etc/tool.conf"
	head -c 300000 /dev/urandom >"$W/tool/opt/tool/lib/tool.so"
	dpkg-deb --build --root-owner-group "$W/tool" "$W/tool.deb" >/dev/null
}

# A store's server that notes what it is asked, and answers nothing: AT is its address.
mute_server()
{
	python3 -c '
import os, socketserver, sys
class Mute(socketserver.StreamRequestHandler):
    def handle(self):
        line = self.rfile.readline()
        with open(sys.argv[1] + "/asked", "ab") as log:
            log.write(line)
        while self.rfile.read(1):
            pass
server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Mute)
server.daemon_threads = True
with open(sys.argv[1] + "/port.new", "w") as f:
    f.write(str(server.server_address[1]))
os.rename(sys.argv[1] + "/port.new", sys.argv[1] + "/port")
server.serve_forever()' "$W" 3>&- &
	MUTE=$!
	wait_for test -s "$W/port"
	AT=127.0.0.1:$(cat "$W/port")
}

# COMMAND... on the node.  Folders that are large, and nothing to the test, are hidden: what
# is mounted is none of the system's.
on() # NODE COMMAND...
{
	mkdir -p "$W/$1"/{upper,work,root}
	# shellcheck disable=SC2016
	unshare --mount bash -ec '
		at=$W/$1
		shift
		mount -t overlay overlay "$at/root" \
			-o "lowerdir=/,upperdir=$at/upper,workdir=$at/work"
		cd "$at/root"
		for d in proc dev "$W" "$BOOTSEER_BUILD"; do
			mkdir -p "./$d"
			mount --rbind "/$d" "./$d"
		done
		for d in usr/share usr/include usr/lib/* usr/local/*; do
			case $d in
			usr/lib/*-linux-gnu* | usr/lib/dpkg | usr/local/bin) continue ;;
			esac
			[ ! -d "$d" ] || [ -L "$d" ] || mount -t tmpfs -o ro tmpfs "$d"
		done
		exec chroot . "$@"' - "$@"
}

# As root of a machine whose PATH is that of a machine.
as_root() # NODE COMMAND...
{
	local node=$1

	shift
	on "$node" env -u PYTHONPATH HOME=/root \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

env_run() # NODE [SCRIPT]
{
	as_root "$1" "$bootseer" env run --store "$STORE" -- sh "$W/${2:-setup}.sh"
}

@test "what a package manager installed is restored where no target is named" {
	run -0 env_run a
	[[ $output == *captured* ]]
	run -0 env_run b
	echo "$output"
	[[ $output == *restored* ]]
	[ "$(wc -l <"$W/store/ran")" = 1 ]
	[ "$(on b bootseer-tool)" = works ]
	[ "$(on b made)" = works ]
	[ "$(on b dpkg-query -W -f '${db:Status-Status} ${Version}' bootseer-tool)" = \
		'installed 1.0' ]
	[ -z "$(on b dpkg --verify bootseer-tool)" ]
	[ "$(on b cat /etc/tool.conf)" = setting ]
	run -1 on b test -e /etc/debian_version
}

@test "the usual targets are said, and a user has those that he may write to" {
	run -0 on a env PATH=/usr/bin:/bin HOME=/nowhere "$bootseer" env key --explain -- true
	[[ $output == *'/usr'* && $output == *'/etc'* && $output == *'/var/lib/dpkg'* ]]
	mkdir -p "$W/a/upper/home/tester/.local/bin"
	chmod 755 "$W" "$W/a"
	chown -R 1000 "$W/a/upper/home/tester"
	run -0 on a setpriv --reuid 1000 --clear-groups env PATH=/usr/bin:/bin \
		HOME=/home/tester "$bootseer" env key --explain -- true
	[[ $output == *'/home/tester/.local/bin'* && $output != *'/etc'* ]]
	run -1 on a setpriv --reuid 1000 --clear-groups env PATH=/usr/bin:/bin \
		HOME=/nowhere "$bootseer" env key -- true
	[[ $output == *'--target DIR'* ]]
}

@test "what is this machine's own, or lies elsewhere, is not captured" {
	# shellcheck disable=SC2016
	echo 'echo ran >>"$W/store/ran"; echo key >/etc/ssh/ssh_host_test_key' >"$W/setup.sh"
	mkdir -p "$W/a/upper/etc/ssh"
	run -0 env_run a
	echo "$output"
	[[ $output == *"not captured: '/etc/ssh/ssh_host_test_key'"*'--target DIR'* ]]
	# shellcheck disable=SC2016
	echo 'echo ran >>"$W/store/ran"; mkdir /srv/elsewhere' >"$W/setup.sh"
	run -0 env_run b
	[[ $output == *'not captured: nothing changed where programs are installed'*'--target DIR'* ]]
	# A volume in a target, which other nodes have empty.
	# shellcheck disable=SC2016
	echo 'mkdir -p /opt/v && mount -t tmpfs tmpfs /opt/v && echo ran >>"$W/store/ran"
		touch /opt/v/tool /opt/new' >"$W/setup.sh"
	run -0 env_run c
	[[ $output == *"not captured: '/opt/v' is on a volume"* ]]
	[ "$(wc -l <"$W/store/ran")" = 3 ]
	[ "$("$bootseer" env ls "$STORE")" = '' ]
}

@test "what starts daemons is captured though it changes nothing, also where no target is named" {
	echo true >"$W/setup.sh"
	run -0 as_root a "$bootseer" env run --store "$STORE" --daemon true=true -- sh "$W/setup.sh"
	echo "$output"
	[[ $output == *'captured '*': 0 names'* ]]
}

# A command that does nothing until it may go on.
make_slow()
{
	mkfifo "$W/began" "$W/go"
	cat >"$W/slow.sh" <<-'EOF'
		set -e
		echo ran >>"$W/store/ran"
		mkdir -p /usr/local/bin
		echo >"$W/began"
		read -r _ <"$W/go"
		echo 1 >/usr/local/bin/slow
	EOF
	cat >"$W/quick.sh" <<-'EOF'
		echo ran >>"$W/store/ran"
		mkdir -p /usr/local/bin
		echo 3 >/usr/local/bin/quick
	EOF
}

# On one node the slow command, and once that runs another one: until that waits for it,
# or ends.
# shellcheck disable=SC2016 # the node expands it
both='
	run() { "$1" env run --store "$2" -- sh "$W/$3.sh" 2>"$W/$4.said"; }
	run "$1" "$2" slow first &
	read -r _ <"$W/began"
	{ run "$1" "$2" "$3" second; echo over >>"$W/second.said"; } &
	timeout 300 sh -c "until grep -q -e works -e over \"$W/second.said\"; do :; done"
	echo >"$W/go"
	wait'

env_both() # NODE SECOND
{
	as_root "$1" timeout 600 sh -c "$both" - "$bootseer" "$STORE" "$2"
}

@test "of two commands at once on one system none is captured with half of the other" {
	make_slow
	env_both a quick
	cat "$W/first.said" "$W/second.said"
	grep '^bootseer env run: captured ' "$W/first.said"
	grep 'works on this system: waiting' "$W/second.said"
	grep '^bootseer env run: captured ' "$W/second.said"
	run -0 env_run b slow
	[[ $output == *restored* ]]
	[ "$(on b cat /usr/local/bin/slow)" = 1 ]
	run -1 on b test -e /usr/local/bin/quick
	run -0 env_run b quick
	[[ $output == *restored* ]]
	[ "$(on b cat /usr/local/bin/quick)" = 3 ]
	[ "$(wc -l <"$W/store/ran")" = 2 ]
}

@test "the second of two that run the same on one system finds it in place" {
	make_slow
	env_both a slow
	cat "$W/first.said" "$W/second.said"
	grep '^bootseer env run: captured ' "$W/first.said"
	grep 'works on this system: waiting' "$W/second.said"
	grep '^bootseer env run: found in place ' "$W/second.said"
	[ "$(wc -l <"$W/store/ran")" = 1 ]
}

@test "a command that runs another one by us does not wait for itself" {
	make_slow
	cat >"$W/setup.sh" <<-EOF
		"$bootseer" env run --wait 1m --store "$STORE" -- sh "$W/quick.sh"
		echo outer >/usr/local/bin/outer
	EOF
	run -0 env_run a
	echo "$output"
	[ "$(grep -c '^bootseer env run: captured ' <<<"$output")" = 2 ]
	[[ $output != *waiting* ]]
	run -0 env_run b
	[[ $output == *restored* ]]
	[ "$(on b cat /usr/local/bin/outer /usr/local/bin/quick)" = $'outer\n3' ]
}

@test "a command that has a manager run another one by us does not wait for itself" {
	make_slow
	# Who runs it is gone: it is below none of ours.
	cat >"$W/setup.sh" <<-EOF
		setsid --fork sh -c '"$bootseer" env run --wait 1m --store "$STORE" -- \
			sh "$W/quick.sh"; echo >"$W/go"'
		read -r _ <"$W/go"
	EOF
	run -0 env_run a
	echo "$output"
	[ "$(grep -c '^bootseer env run: captured ' <<<"$output")" = 2 ]
	[[ $output != *waiting* ]]
}

# Nothing is left in the node's targets but what belongs there.
has_no_stage() # NODE
{
	[ -z "$(find "$W/$1/upper" -name '.bootseer-env.*' ! -type c)" ]
}

@test "what the command had last is noted, and restored" {
	run -0 env_run a
	[ "$(cat "$W"/store/env/near/*)" = "sha256:$(basename "$W"/store/env/index/*)" ]
	run -0 env_run b
	[[ $output == *restored* ]]
	has_no_stage b
	[ "$(on b bootseer-tool)" = works ]
	# Once the snapshot is gone nobody needs to be told of it.
	"$bootseer" env rm "$STORE" "$(basename "$W"/store/env/index/*)"
	touch -d '-5 days' "$W"/store/env/near/*
	"$bootseer" env gc "$STORE"
	[ -z "$(ls "$W/store/env/near")" ]
}

# Whoever restored a snapshot of its folders' times would not run the command.
@test "a guess keeps out of what another command changes" {
	make_slow
	run -0 env_run b quick
	[[ $output == *captured* ]]
	cat >"$W/slow.sh" <<-'EOF'
		echo >"$W/began"
		read -r _ <"$W/go"
		echo 1 >"$W/elsewhere"
	EOF
	env_both a quick
	cat "$W/first.said" "$W/second.said"
	grep 'not captured: nothing changed where programs are installed' "$W/first.said"
	grep 'works on this system: waiting' "$W/second.said"
	grep '^bootseer env run: restored ' "$W/second.said"
	[ "$(on a cat /usr/local/bin/quick)" = 3 ]
	has_no_stage a
}

@test "a guess that is wrong changes nothing" {
	local near key

	run -0 env_run a
	near=$(echo "$W"/store/env/near/*)
	key=$(cat "$near")
	# Of another base: it is dropped, and the command is run.
	mkdir -p "$W/b/upper/opt"
	echo mine >"$W/b/upper/opt/mine"
	run -0 env_run b
	echo "$output"
	[[ $output == *captured* ]]
	has_no_stage b
	[ "$(cat "$near")" != "$key" ]
	[ "$(wc -l <"$W/store/ran")" = 2 ]
	# It leads to nothing, to a snapshot of another command, or says nothing.
	for said in "sha256:$(printf '%064d' 7)" noise ''; do
		printf %s "$said" >"$near"
		rm -rf "$W/c"
		run -0 env_run c
		[[ $output == *restored* ]]
		has_no_stage c
	done
	make_slow
	run -0 env_run d quick
	[[ $output == *captured* ]]
	cp "$(grep -l "$(basename "$(ls -t "$W"/store/env/index/* | head -1)")" \
		"$W"/store/env/near/*)" "$near.new"
	mv "$near.new" "$near"
	run -0 env_run e
	[[ $output == *restored* ]]
	[ "$(on e bootseer-tool)" = works ]
	run -1 on e test -e /usr/local/bin/quick
	has_no_stage e
}

@test "a store that hangs is waited for once, and the command is run" {
	mute_server
	run -0 as_root a env AWS_ACCESS_KEY_ID=k AWS_SECRET_ACCESS_KEY=s "$bootseer" env run \
		--store-timeout 2s --store "s3://bkt/env?endpoint=http://$AT" -- sh "$W/setup.sh"
	echo "$output"
	[[ $output == *': the command is run'* ]]
	[ "$(wc -l <"$W/store/ran")" = 1 ]
	# What it would have been asked next, it is not.
	wait_for grep -q env/made "$W/asked"
	run ! grep -q env/near "$W/asked"
	run ! grep -q env/index "$W/asked"
}
