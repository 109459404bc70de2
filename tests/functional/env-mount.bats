#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Environments that bootseerd mounts instead of their being unpacked.  Each node that
# restores is a mount namespace in which $W/site is the node's folder; it sees what
# bootseerd mounts, and bootseerd does not see its overlays.

bats_require_minimum_version 1.5.0
load ../call.bash
load ../wait.bash
load stores.bash

bootseer=$BOOTSEER_BUILD/cli/bootseer
bootseerd=$BOOTSEER_BUILD/snapshotter/node/bootseerd

setup_file()
{
	export S3
	S3=$("$BATS_TEST_DIRNAME/../stores/build" versitygw)
}

setup()
{
	W=$(mktemp -d /var/tmp/env-mount.XXXXXX)
	STORE=file://$W/store
	mkdir "$W/store" "$W/site"
	export W STORE
	export BOOTSEER_SOCKET=$W/run/bootseerd.sock
	daemons=()
	cd "$W"
}

teardown()
{
	local m pid

	cd /
	for pid in "${daemons[@]}"; do
		kill "$pid" 2>/dev/null || :
		wait "$pid" 2>/dev/null || :
	done
	stop_servers
	while m=$(awk -v t="$W/" 'index($5, t) == 1 { p = $5 } END { print p }' \
		/proc/self/mountinfo) && [ -n "$m" ]; do
		umount -l "$m"
	done
	[ -z "${BATS_TEST_COMPLETED:-}" ] && [ -e "$W/log" ] &&
		sed 's/^/# /' "$W/log" >&3
	rm -rf --one-file-system "$W"
}

node_start() # [OPTION...]
{
	: >"$W/log"
	"$bootseerd" --root "$W/root" --run "$W/run" --cache-quota 1G --env-write-max 64M \
		--stall-timeout 1s --env-store "$STORE" "$@" \
		2>>"$W/log" 3>&- &
	node_pid=$!
	daemons+=("$node_pid")
	wait_for node_is_up
}

node_is_up()
{
	grep -q '^info main: ready' "$W/log" && return
	kill -0 "$node_pid" && return 1
	cat "$W/log"
	exit 1
}

node_stop() # [SIGNAL]
{
	kill "-${1:-TERM}" "$node_pid"
	wait "$node_pid" || [ "${1:-TERM}" = KILL ]
}

# A shell command on the node, in whose folder the target is.
on() # NODE COMMAND
{
	mkdir -p "$W/$1"
	# shellcheck disable=SC2016
	unshare --mount --propagation slave sh -c '
		mount --bind "$W/$1" "$W/site" && eval "$2"' sh "$1" "$2"
}

# The command line of `env run` with the set-up command.
run_line() # [OPTION...]
{
	printf '%q ' "$bootseer" env run --store "$STORE" --target "$W/site" \
		"$@" -- sh "$W/setup.sh"
}

# Capture what make_command() made, on a node without bootseerd.
capture()
{
	on maker "unset BOOTSEER_SOCKET; $(run_line)"
	[ "$(grep -c . "$W/ran")" = 1 ]
}

tree_line() # FOLDER
{
	printf '%q ' python3 "$BATS_TEST_DIRNAME/list-tree.py" "$1"
}

# A base with things that go, and a command that changes things of all kinds.
make_command()
{
	local node

	for node in maker "$@"; do
		mkdir -p "$W/$node/old/gone/below" "$W/$node/was" "$W/$node/empty"
		echo 1 >"$W/$node/old/gone/below/x"
		echo 2 >"$W/$node/old/file"
		echo 3 >"$W/$node/old/kept"
		echo 4 >"$W/$node/old/untouched"
		echo 5 >"$W/$node/kind"
		echo 6 >"$W/$node/was/folder"
		find "$W/$node" -exec touch -h -d '2018-01-01 00:00:00' {} +
	done
	cat >"$W/setup.sh" <<-'EOT'
		set -e
		cd "$W/site"
		echo ran >>"$W/ran"
		mkdir -p pkg/sub deep/a/b
		echo hello >pkg/a.py
		openssl enc -aes-128-ctr -nosalt -K 01 -iv 02 -in /dev/zero 2>/dev/null |
			head -c 3000000 >pkg/big.so
		truncate -s 20M pkg/sparse
		printf x | dd of=pkg/sparse bs=1 seek=5000000 conv=notrunc status=none
		ln pkg/a.py pkg/b.py
		ln -s ../nowhere pkg/link
		mkfifo fifo
		mknod null c 1 3
		chown 12:34 pkg/big.so
		chmod 4755 pkg/big.so
		chmod 0711 pkg/sub
		: >nothing
		setfattr -n user.origin -v pip pkg/a.py
		setfattr -n user.dir -v yes pkg
		touch -d '2020-01-01 00:00:00.123456789' pkg/sub pkg/a.py
		touch -h -d '2019-01-01 00:00:00.987654321' pkg/link
		rm -r old/gone old/file
		echo changed >old/kept
		rm kind
		mkdir kind
		echo in >kind/file
		rm -r was
		echo now >was
		chmod 0750 old .
		setfattr -n user.root -v yes .
		touch -d '2017-01-01 00:00:00.5' .
	EOT
}

# The longest blob of the store.
pack()
{
	find "$W/store/env/data" "$W/store/env/packs" -type f -printf '%s %p\n' | sort -n | tail -n 1 |
		cut -d' ' -f2
}

# So many mounts are known to bootseerd.
is_left_with() # NUMBER
{
	[ "$(find "$W/root/environments" -mindepth 1 -maxdepth 1 | wc -l)" = "$1" ]
}

# Nothing of any mount is left with bootseerd.
is_empty()
{
	[ -z "$(ls "$W/root/environments")" ] &&
		! awk -v t="$W/run/images" 'index($5, t) == 1' \
			/proc/self/mountinfo | grep -q .
}

@test "a mounted environment is what an unpacked one is, and ends without a trace" {
	make_command mounted unpacked
	capture
	node_start
	run -0 on unpacked "$(run_line --unpack)"
	[[ "$output" == *"restored "* ]]
	on mounted "
		$(tree_line "$W/site") >before
		$(run_line) 2>said
		$(tree_line "$W/site") >mounted.out
		grep -c ' overlay bootseer-env:' /proc/self/mountinfo >overlays
		echo more >site/pkg/more
		echo other >site/pkg/a.py
		$(printf '%q ' "$bootseer" env umount "$W/site")
		$(tree_line "$W/site") >after"
	grep '^bootseer env run: mounted ' said
	[ "$(cat overlays)" = 1 ]
	python3 "$BATS_TEST_DIRNAME/list-tree.py" maker >want
	python3 "$BATS_TEST_DIRNAME/list-tree.py" unpacked >unpacked.out
	diff want unpacked.out
	diff want mounted.out
	diff before after
	[ "$(grep -c . ran)" = 1 ]
	is_empty
}

@test "targets that are not there yet are made, and gone after the end" {
	local d=$W/site

	for node in maker next; do
		mkdir -p "$node/same"
		touch -d '2018-01-01' "$node/same" "$node"
	done
	cat >setup.sh <<-'EOT'
		set -e
		umask 0027
		mkdir -p "$W/site/lib/python" "$W/site/bin"
		echo a >"$W/site/lib/python/a"
		echo b >"$W/site/bin/b"
		echo ran >>"$W/ran"
	EOT
	line="$(printf '%q ' "$bootseer" env run --store "$STORE" \
		--target "$d/lib/python" --target "$d/bin" \
		--target "$d/same" -- sh "$W/setup.sh")"
	on maker "unset BOOTSEER_SOCKET; $line"
	node_start
	on next "
		set -e
		$line
		stat -c '%a %u %g' site/lib >lib.out
		$(tree_line "$d/lib/python") >python.out
		$(tree_line "$d/bin") >bin.out
		grep -c ' overlay bootseer-env:' /proc/self/mountinfo >overlays
		$(printf '%q ' "$bootseer" env umount "$d/bin")
		find site >after
		$line
		cat site/bin/b
		$(printf '%q ' "$bootseer" env umount "$d/lib/python")"
	[ "$(cat overlays)" = 2 ]
	[ "$(cat lib.out)" = "$(stat -c '%a %u %g' maker/lib)" ]
	diff python.out \
		<(python3 "$BATS_TEST_DIRNAME/list-tree.py" maker/lib/python)
	diff bin.out <(python3 "$BATS_TEST_DIRNAME/list-tree.py" maker/bin)
	[ "$(sort after)" = "site
site/same" ]
	[ "$(grep -c . ran)" = 1 ]
	is_empty
}

@test "a folder that was made anew has nothing of what was in it" {
	for node in maker next odd; do
		mkdir -p "$node/dir/sub"
		echo below | tee "$node/dir/below" >"$node/dir/sub/below"
		find "$node" -exec touch -d '2018-01-01' {} +
	done
	cat >setup.sh <<-'EOT'
		rm -r "$W/site/dir"
		mkdir "$W/site/dir"
		echo above >"$W/site/dir/above"
		[ -z "$OPAQUE" ] ||
			setfattr -n trusted.overlay.opaque -v y "$W/site/dir"
	EOT
	on maker "unset BOOTSEER_SOCKET; $(run_line)"
	node_start
	run -0 --separate-stderr on next "$(run_line) && ls site/dir"
	[ "$output" = above ]
	[[ "$stderr" == *"mounted "* ]]
	# What the kernel would take for its own word is not captured.
	rm -r maker
	cp -a odd maker
	run -0 on maker "OPAQUE=y $(run_line --key odd=1)"
	[[ "$output" == *"not captured: "*"only overlayfs may set"* ]]
}

@test "where bootseerd does not mount it is unpacked, and a line says why" {
	make_command a b c d also
	capture
	# Nothing is where nothing has to be.
	run -0 --separate-stderr on a "unset BOOTSEER_SOCKET; $(run_line)"
	[[ "$stderr" != *"not mounted"* ]]
	[[ "$stderr" == *"restored "* ]]
	# None listens where one was named.
	run -0 --separate-stderr on b "$(run_line)"
	[[ "$stderr" == *"not mounted: "*"it is unpacked"*"restored "* ]]
	# Another store's are not mounted.
	STORE=file://$W/elsewhere node_start
	run -0 --separate-stderr on c "$(run_line)"
	[[ "$stderr" == *"not mounted: "*"no --env-store 'file://$W/store'"*"restored "* ]]
	node_stop
	# An overlay would hide what is mounted in a target, which counts for nobody's.
	on also "
		unset BOOTSEER_SOCKET
		mount --bind $W/site/empty $W/site/empty
		$(run_line)"
	node_start
	run -0 --separate-stderr on d "
		mount --bind $W/site/empty $W/site/empty
		$(run_line)"
	[[ "$stderr" == *"is mounted in a target"* ]]
	is_empty
}

# A line that mounts an overlay over the target, as a container's rootfs is one.
overlay_line() # NUMBER
{
	mkdir "$W/over$1"{,/upper,/work}
	printf '%q ' mount -t overlay overlay \
		-o "lowerdir=$W/site,upperdir=$W/over$1/upper,workdir=$W/over$1/work" \
		"$W/site"
}

@test "on an overlay it is mounted, and unpacked where overlays are too deep" {
	make_command a b
	capture
	node_start
	on a "$(overlay_line 1) && $(run_line) 2>said
		$(tree_line "$W/site") >a.out
		$(printf '%q ' "$bootseer" node status) >status"
	grep '^bootseer env run: mounted ' said
	on b "$(overlay_line 2) && $(overlay_line 3) && $(run_line) 2>said
		$(tree_line "$W/site") >b.out"
	grep 'not mounted: .*too many file systems are stacked' said
	grep '^bootseer env run: restored ' said
	python3 "$BATS_TEST_DIRNAME/list-tree.py" maker >want
	diff want a.out
	diff want b.out
	grep "$STORE/env/index/" status
	[ "$(grep -c . ran)" = 1 ]
}

@test "what a smoke test found bad is unmounted also where it is in use" {
	make_command a
	capture
	mkfifo hang works
	node_start
	cat >works.sh <<-'EOT'
		cd "$W/site/pkg" || exit 0
		(exec 8<a.py; echo >"$W/works"; read -r _ <"$W/hang") &
		read -r _ <"$W/works"
		exit 1
	EOT
	on a "
		$(run_line --verify "sh $W/works.sh") 2>said
		grep -c ' overlay bootseer-env:' /proc/self/mountinfo >overlays
		echo >hang
		$(tree_line "$W/site") >a.out"
	grep 'verify command failed with 1 (so it is for all .* env rm STORE .*): the command is run' said
	[ "$(cat overlays)" = 0 ]
	[ "$(grep -c . ran)" = 2 ]
	# The command has worked in the folder itself.
	[ "$(cat a/pkg/a.py)" = hello ]
	"$bootseer" env ls "$STORE" | grep -q '  bad by '
}

@test "what was mounted and never found good, of a run that was killed, goes with the next" {
	local line

	make_command a
	capture
	mkfifo on hang
	node_start
	line=$(run_line --verify 'echo >"$W/on"; exec cat "$W/hang"')
	on a "
		$line 2>first.said & pid=\$!
		read -r _ <on
		kill -9 \$pid; wait \$pid
		grep -c ' overlay bootseer-env:' /proc/self/mountinfo >left
		$(run_line) 2>said
		grep -c ' overlay bootseer-env:' /proc/self/mountinfo >overlays
		$(tree_line "$W/site") >a.out"
	[ "$(cat left)" = 1 ]
	grep '^bootseer env run: mounted ' said
	[ "$(cat overlays)" = 1 ]
	diff <(python3 "$BATS_TEST_DIRNAME/list-tree.py" maker) a.out
	[ "$(grep -c . ran)" = 1 ]
}

@test "who waits for a turn in a folder in which it was mounted meanwhile mounts nothing" {
	make_command a
	mkfifo go
	# shellcheck disable=SC2016 # the command expands it
	sed -i '3a [ -e "$W/began" ] || { : >"$W/began"; read -r _ <"$W/go"; }' setup.sh
	node_start
	on maker "$(run_line) 2>maker.said" &
	made=$!
	wait_for test -e began
	on a "
		$(run_line) 2>first.said & first=\$!
		$(run_line) 2>second.said & second=\$!
		until grep -q waiting first.said && grep -q waiting second.said; do :; done
		echo >go
		wait \$first \$second
		grep -c ' overlay bootseer-env:' /proc/self/mountinfo >overlays
		$(tree_line "$W/site") >a.out"
	wait "$made"
	[ "$(cat overlays)" = 1 ]
	[ "$(cat ./*.said | grep -c ' captured ')" = 1 ]
	[ "$(cat ./*.said | grep -c ' mounted ')" = 1 ]
	[ "$(cat ./*.said | grep -c ' found in place ')" = 1 ]
	diff <(python3 "$BATS_TEST_DIRNAME/list-tree.py" maker) a.out
}

@test "a damaged snapshot is an error, and never other bytes" {
	make_command a b
	capture
	node_start --prefetch off
	printf 'DAMAGE%.0s' {1..100000} |
		dd of="$(pack)" bs=1 seek=100000 conv=notrunc status=none \
			iflag=fullblock count=600000 2>/dev/null
	# The metadata is whole, so it is mounted; what is damaged cannot be read.
	run -0 --separate-stderr on a "
		$(run_line)
		cat site/pkg/a.py
		cat site/pkg/big.so >big.out 2>big.err && echo read
		cmp big.out maker/pkg/big.so 2>&1 | grep differ
		true"
	[[ "$stderr" == *"mounted "* ]]
	[ "$output" = hello ]
	grep 'Input/output error' big.err
	# What cannot be mounted is not unpacked, either: the command is run.
	find store/env/data -type f -size -100k -exec sh -c '
		for f; do printf X | dd of="$f" bs=1 conv=notrunc status=none; done' \
		sh {} +
	rm -rf "$W/b2"
	node_stop
	rm -rf root
	node_start
	run -0 --separate-stderr on b "$(run_line)"
	[[ "$stderr" == *"not mounted: "*"the command is run"* ]]
	[ "$(grep -c . ran)" = 2 ]
}

@test "a mounted environment outlives its bootseerd" {
	# As RFC 8089 has it, too.
	STORE=file:$W/store
	make_command a
	capture
	node_start --hold --prefetch off
	holder=$node_pid
	mkfifo go gone
	on a "
		$(run_line)
		exec 8<site/pkg/big.so
		echo mounted >gone
		read -r _ <go
		cat <&8 >big.out
		exec 8<&-
		$(tree_line "$W/site") >a.out
		$(printf '%q ' "$bootseer" env umount "$W/site")" &
	read -r _ <gone
	child=$(pgrep -P "$holder")
	kill -KILL "$child"
	echo >go
	wait $!
	cmp big.out maker/pkg/big.so
	diff <(python3 "$BATS_TEST_DIRNAME/list-tree.py" maker) a.out
	wait_for is_empty
}

@test "other users of the machine neither ask for environments nor see them" {
	make_command a
	capture
	node_start
	chmod 0755 "$W"
	run -0 on a "
		$(run_line)
		setpriv --reuid 65534 --regid 65534 --clear-groups ls $W/run/images $W/root/environments && exit 1
		setpriv --reuid 65534 --regid 65534 --clear-groups $bootseer env umount $W/site && exit 1
		setpriv --reuid 65534 --regid 65534 --clear-groups \
			$bootseer node status && exit 1
		setpriv --reuid 65534 --regid 65534 --clear-groups cat site/pkg/a.py && exit 1
		true"
	[[ "$output" == *"mounted "* ]]
	[[ "$output" == *"Permission denied"* ]]
	[[ "$output" != *hello* ]]
}

@test "what came from one store is not served as another's" {
	make_command a b
	capture
	mkdir other
	node_start --env-store "file://$W/other"
	on a "$(run_line); cat site/pkg/big.so >/dev/null"
	index=$(find store/env/index -type f)
	key=sha256:${index##*/}
	folder=$(jq -r .folder "$index")
	manifest=$(jq -r .manifest "$index")
	ask() # STORE NAME
	{
		call environment.mount "$(jq -nc --arg store "$1" \
			--arg name "$2" --arg key "$key" --arg folder "$folder" \
			--arg manifest "$manifest" '$ARGS.named')"
	}
	name=0123456789abcdef0123456789abcdef
	# All its blocks are on the node, and the asker knows every digest.
	[ "$(ask "file://$W/other" "$name" | jq .error.errno)" = 2 ]
	[ "$(ask "file://$W/third" "$name" | jq .error.errno)" = 13 ]
	[ "$(ask "$STORE" "../$name" | jq .error.errno)" = 22 ]
	# An artifact of another key is not taken for this one's.
	key=sha256:$(printf '0%.0s' {1..64})
	[ "$(ask "$STORE" "$name" | jq .error.errno)" = 2 ]
	[ "$(call environment.umount "{\"name\":\"$name\"}" |
		jq .result.released)" = 0 ]
}

@test "mounts end with their mount namespaces, and with the boot" {
	make_command a b
	capture
	node_start
	on a "$(run_line)"
	is_left_with 1
	mkfifo go gone
	on b "$(run_line); echo mounted >gone; read -r _ <go; cat site/pkg/a.py >b.out" &
	other=$!
	read -r _ <gone
	is_left_with 2
	name=$(ls -t root/environments | head -n 1)
	# One that is in use cannot be ended by its name.
	[ "$(call environment.umount "{\"name\":\"$name\"}" |
		jq .error.errno)" = 16 ]
	# The housekeeper looks at those that are older, first of all at a start.
	touch -d '-1 hour' root/environments/*
	node_stop KILL
	node_start
	wait_for is_left_with 1
	[ "$(ls root/environments)" = "$name" ]
	echo >go
	wait "$other"
	node_stop
	# What was mounted before the machine was started is gone.
	echo other >"root/environments/$name/boot"
	node_start
	wait_for is_empty
}

@test "environments of a bucket are mounted" {
	make_command a
	s3_server "$W/s3"
	STORE="s3://bkt/env?endpoint=http://$AT&region=us-east-1"
	on maker "unset BOOTSEER_SOCKET; $(run_line)"
	node_start
	on a "$(run_line) 2>said; $(tree_line "$W/site") >a.out"
	grep '^bootseer env run: mounted ' said
	diff <(python3 "$BATS_TEST_DIRNAME/list-tree.py" maker) a.out
}
