#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Environments of a whole system: what a package manager and `make install` changed, where no
# target is named.  A node has a root of its own, this machine's with an overlay above it.

bats_require_minimum_version 1.5.0

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
		for d in usr/share usr/include usr/lib/*; do
			case $d in
			usr/lib/*-linux-gnu* | usr/lib/dpkg) continue ;;
			esac
			[ ! -d "$d" ] || [ -L "$d" ] || mount -t tmpfs -o ro tmpfs "$d"
		done
		exec chroot . "$@"' - "$@"
}

env_run() # NODE [OPTION...]
{
	local node=$1

	shift
	on "$node" env -u PYTHONPATH HOME=/root \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		"$bootseer" env run --store "$STORE" "$@" -- sh "$W/setup.sh"
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
	[[ $output == *'not captured: nothing changed'*'--target DIR'* ]]
	# A volume in a target, which other nodes have empty.
	# shellcheck disable=SC2016
	echo 'mkdir -p /opt/v && mount -t tmpfs tmpfs /opt/v && echo ran >>"$W/store/ran"
		touch /opt/v/tool /opt/new' >"$W/setup.sh"
	run -0 env_run c
	[[ $output == *"not captured: '/opt/v' is on a volume"* ]]
	[ "$(wc -l <"$W/store/ran")" = 3 ]
	[ "$("$bootseer" env ls "$STORE")" = '' ]
}
