# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Environments in a store, whichever it is: `bootseer env run` on nodes that are mount
# namespaces, in which $W/site is the node's folder $W/NODE.

bootseer=$BOOTSEER_BUILD/cli/bootseer
test_clock=$BOOTSEER_BUILD/tests/fakes/test-clock.so

# `bootseer env run` on the node, in whose folder the target is.
on() # NODE [OPTION...] -- COMMAND...
{
	local node=$1

	shift
	mkdir -p "$W/$node"
	# shellcheck disable=SC2016
	exec unshare --mount sh -c 'mount --bind "$W/$0" "$W/site" && exec "$@"' \
		"$node" env ${TEST_CLOCK:+"LD_PRELOAD=$test_clock"} \
		"$bootseer" env run --store "$STORE" --target "$W/site" "$@"
}

env_run() # NODE [OPTION...] -- COMMAND...
{
	(on "$@")
}

tree()
{
	python3 "$BATS_TEST_DIRNAME/list-tree.py" "$1"
}

# A command that notes where it ran, and changes things of all kinds.
make_command()
{
	cat >"$W/setup.sh" <<-'EOF'
		set -e
		cd "$W/site"
		echo "$1" >>"$W/ran"
		mkdir -p pkg/sub deep/a/b
		echo hello >pkg/a.py
		openssl enc -aes-128-ctr -nosalt -K 01 -iv 02 -in /dev/zero 2>/dev/null |
			head -c 3000000 >pkg/big.so
		truncate -s 20M pkg/sparse
		printf x | dd of=pkg/sparse bs=1 seek=5000000 conv=notrunc status=none
		ln pkg/a.py pkg/b.py
		ln -s ../nowhere pkg/link
		mkfifo fifo
		python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
		chown 12:34 pkg/big.so
		chmod 4755 pkg/big.so
		chmod 0711 pkg/sub
		: >empty
		setfattr -n user.origin -v pip pkg/a.py
		setfattr -n user.dir -v yes pkg
		touch -d '2020-01-01 00:00:00.123456789' pkg/sub pkg/a.py
		touch -h -d '2019-01-01 00:00:00.987654321' pkg/link
		if [ -e old ]; then
			rm -r old/gone old/file
			echo changed >old/kept
			rm kind
			mkdir kind
			echo in >kind/file
			chmod 0750 old
		fi
	EOF
}

# Two nodes run the command in the same moment, in $STORE.
one_captor_wins()
{
	local first second

	make_command
	on a -- sh "$W/setup.sh" x 2>a.err &
	first=$!
	on b -- sh "$W/setup.sh" x 2>b.err &
	second=$!
	wait_all "$first" "$second"
	cat a.err b.err
	[ "$(cat ran)" = x ]
	[ "$(cat a.err b.err | grep -c captured)" = 1 ]
	[ "$(cat a.err b.err | grep -c restored)" = 1 ]
	diff <(tree a | grep -v "^b'/socket'") <(tree b | grep -v "^b'/socket'")
}

# One of two captors wins in $STORE, and what it made stays until it is removed.  KEY is its
# key, as far as it is shown.
keeps_environments()
{
	one_captor_wins
	KEY=$("$bootseer" env ls "$STORE" | cut -d' ' -f1)
	"$bootseer" env verify "$STORE" | grep -q good
	"$bootseer" env pin "$STORE" "$KEY"
	"$bootseer" env gc --older 0 "$STORE"
	[ "$("$bootseer" env ls "$STORE" | cut -d' ' -f1)" = "$KEY" ]
}

# KEY, which is pinned: not before it is not.
is_removed()
{
	run -1 --separate-stderr "$bootseer" env rm "$STORE" "$KEY"
	[[ $stderr == *"snapshot $KEY is pinned"*"'bootseer env unpin'"* ]]
	[ "$("$bootseer" env ls "$STORE" | cut -d' ' -f1)" = "$KEY" ]
	"$bootseer" env verify "$STORE" | grep -q good
	"$bootseer" env unpin "$STORE" "$KEY"
	"$bootseer" env rm "$STORE" "$KEY"
	[ "$("$bootseer" env ls "$STORE")" = '' ]
	"$bootseer" env gc --older 0 "$STORE"
}
