#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Snapshots of one store share their packs: what a second version stores, what may be
# referred to, and when a pack goes.

bats_require_minimum_version 1.5.0
load ../noise.bash
load ../wait.bash
load stores.bash

bootseer=$BOOTSEER_BUILD/cli/bootseer

setup_file()
{
	export S3
	S3=$("$BATS_TEST_DIRNAME/../stores/build" versitygw)
}

setup()
{
	W=$BATS_TEST_TMPDIR
	STORE=file://$W/store
	mkdir "$W/store" "$W/site"
	export W
	cd "$W"
	# 30 packages of 130 KB, of which $1 counts for the last.
	cat >setup.sh <<-'EOF'
		echo "$1" >>"$W/ran"
		for n in $(seq 29) "$1"; do
			mkdir -p "$W/site/pkg$n"
			openssl enc -aes-128-ctr -nosalt -K "$(printf %03d "$n")" -iv 02 -in /dev/zero \
				2>/dev/null | head -c 130000 >"$W/site/pkg$n/lib.so"
		done
	EOF
}

teardown()
{
	local pid

	cd /
	stop_servers
	kill_jobs
}

# Version V on a node of its own.
on() # NODE V [OPTION...]
{
	local node=$1 version=$2

	shift 2
	mkdir -p "$W/$node"
	# shellcheck disable=SC2016
	exec unshare --mount sh -c 'mount --bind "$W/$0" "$W/site" && exec "$@"' \
		"$node" "$bootseer" env run --store "$STORE" --target "$W/site" "$@" \
		-- sh "$W/setup.sh" "$version"
}

env_run() # NODE V [OPTION...]
{
	(on "$@")
}

tree()
{
	python3 "$BATS_TEST_DIRNAME/list-tree.py" "$1"
}

same() # NODE NODE
{
	diff <(tree "$W/$1") <(tree "$W/$2")
}

key_of() # VERSION
{
	cat "$W/key.$1"
}

# Capture a version, and keep its key in key.VERSION.
capture() # NODE VERSION [OPTION...]
{
	local before

	before=$(find store/env/index -type f -printf '%f\n' 2>/dev/null | sort || :)
	env_run "$@"
	comm -13 <(echo "$before") <(find store/env/index -type f -printf '%f\n' | sort) |
		grep . >"key.$2"
}

packs()
{
	find store/env/packs -type f -printf '%f\n' | sort
}

doomed()
{
	find store/env/doomed -type f -printf '%f\n' 2>/dev/null | sort
}

bytes()
{
	find store/env -type f -printf '%s\n' | awk '{ n += $1 } END { print n + 0 }'
}

# All that the store has was put, or doomed, so long ago.
aged() # TIME
{
	find store/env -type f -exec touch -d "$1" {} +
}

verify()
{
	run -0 "$bootseer" env verify "$STORE"
	[[ $output != *damaged* ]]
}

@test "a second version stores what changed, and both are whole" {
	local first second

	capture a 100
	first=$(bytes)
	[ "$first" -gt 3900000 ]
	capture b 101
	second=$(($(bytes) - first))
	echo "$second bytes more"
	# 130,000 bytes changed; the rest is of the two texts, the map and the names.
	[ "$second" -lt 150000 ]
	[ "$(packs | wc -l)" = 2 ]
	[ "$(jq .version store/env/index/"$(key_of 101)")" = 4 ]
	[ "$(jq .stored store/env/index/"$(key_of 101)")" -lt 150000 ]
	env_run c 101
	same b c
	env_run d 100
	same a d
	[ "$(wc -l <ran)" = 2 ]
	verify
}

# The command of docs/environments.md, "Commands whose versions share".
@test "two versions share the bytecode of compileall by hashes" {
	local first second node

	mkdir wheels
	python3 "$BATS_TEST_DIRNAME/make-wheel.py" wheels demo 1.0
	cat >setup.sh <<-'EOF'
		echo "$1" >>"$W/ran"
		python3 -m pip install -q --disable-pip-version-check --root-user-action ignore \
			--no-index --find-links "$W/wheels" --no-compile --target "$W/site" demo &&
			{ python3 -m compileall -qq -j 0 --invalidation-mode unchecked-hash "$W/site" || :; }
		echo "$1" >"$W/site/version"
	EOF
	capture a 100
	first=$(bytes)
	capture b 101
	second=$(($(bytes) - first))
	echo "$second bytes more than $first"
	[ "$(find b -name '*.pyc' | wc -l)" -ge 60 ]
	for node in a b; do
		(cd "$node" && find . -name '*.pyc' -exec sha256sum {} +) | sort >"$node.sums"
	done
	diff a.sums b.sums
	# What changed is a line, and the names and texts that each has; not a pack of bytecode.
	[ "$second" -lt 20000 ]
	env_run c 101
	same b c
	# No source is looked at, nor its time.
	echo 'raise SystemExit("read")' >>c/demo/sub/m7.py
	PYTHONPATH=$W/c python3 -c 'import demo.sub.m7'
}

@test "a bucket shares packs as a directory does, and they are collected" {
	export HOME=$W no_proxy='*' AWS_EC2_METADATA_DISABLED=true
	s3_server "$W/s3"
	STORE="s3://bkt/env?endpoint=http://$AT"
	in_bucket() { find s3 -path "*env/$1/*" -type f | grep -c '/[0-9a-f]\{64\}$' || :; }
	env_run a 100
	env_run b 101
	[ "$(in_bucket packs)" = 2 ]
	# Small objects by one request each, and not asked for by another one before.
	fault_proxy "$AT" "$W"
	STORE="s3://bkt/env?endpoint=http://$PROXY" env_run c 101
	same b c
	run -1 proxied '^HEAD .*/env/(index|pin)/'
	proxied '^GET .*/env/index/' >indexes
	[ "$(wc -l <indexes)" = 1 ]
	manifest=$(jq -r .manifest "$(find s3 -path '*env/index/*' -type f -exec ls -t {} + | head -1)")
	proxied "^GET .*/${manifest#*:} 200"
	run -1 proxied "^HEAD .*/${manifest#*:} "
	for key in $("$bootseer" env ls "$STORE" | cut -d' ' -f1); do
		"$bootseer" env rm "$STORE" "$key"
		verify
	done
	find s3 -type f -exec touch -d '3 days ago' {} +
	"$bootseer" env gc "$STORE"
	[ "$(in_bucket doomed)" = 2 ]
	[ "$(in_bucket packs)" = 2 ]
	find s3 -type f -exec touch -d '3 days ago' {} +
	"$bootseer" env gc "$STORE"
	[ "$(in_bucket packs)" = 0 ]
}

@test "the first version is removed, and the second stays whole" {
	local shared

	capture a 100
	capture b 101
	shared=$(packs)
	"$bootseer" env rm "$STORE" "$(key_of 100)"
	[ "$(packs)" = "$shared" ]
	verify
	aged '3 days ago'
	"$bootseer" env gc "$STORE"
	aged '3 days ago'
	"$bootseer" env gc "$STORE"
	[ "$(packs)" = "$shared" ]
	env_run c 101
	same b c
}

@test "a pack of no snapshot is doomed, and deleted two days later" {
	local all

	capture a 100
	all=$(packs)
	"$bootseer" env rm "$STORE" "$(key_of 100)"
	# It may be of a capture under way.
	run -0 "$bootseer" env gc "$STORE"
	[[ ${lines[0]} == '1 object, '*' stay: of no snapshot, but younger than two days: '* ]]
	[ "$(doomed)" = '' ]
	aged '3 days ago'
	run -0 "$bootseer" env gc -n "$STORE"
	[[ ${lines[0]} == '1 pack, '*' stay: no snapshot needs them, and an '*' two days after '* ]]
	[ "$(doomed)" = '' ]
	"$bootseer" env gc "$STORE"
	[ "$(doomed)" = "$all" ]
	[ "$(packs)" = "$all" ]
	# Not at once.
	"$bootseer" env gc "$STORE"
	[ "$(packs)" = "$all" ]
	aged '49 hours ago'
	run -0 "$bootseer" env gc "$STORE"
	[[ ${lines[-1]} == 'removed: 0 snapshots and 1 leftover object, '*'; the snapshots that stay have 0 B' ]]
	[ "$(packs)" = '' ]
	[ "$(doomed)" = "$all" ]
	aged '49 hours ago'
	"$bootseer" env gc "$STORE"
	[ "$(doomed)" = '' ]
}

@test "what is doomed is not referred to, and its bytes lie with the snapshot" {
	capture a 100
	"$bootseer" env rm "$STORE" "$(key_of 100)"
	aged '3 days ago'
	"$bootseer" env gc "$STORE"
	[ "$(doomed)" = "$(packs)" ]
	# The same bytes are the same pack; nobody relies on the doomed one.
	capture b 100
	[ "$(find "store/env/data/$(key_of 100)" -type f -size +1M | wc -l)" = 1 ]
	aged '3 days ago'
	"$bootseer" env gc "$STORE"
	[ "$(packs)" = '' ]
	verify
	env_run c 100
	same b c
}

@test "a capture that was under way when its pack was doomed keeps it" {
	local all one

	capture a 100
	capture b 101
	all=$(packs)
	# As a captor that looked before, and put its index after the collection.
	mv "store/env/index/$(key_of 100)" index.100
	mv "store/env/index/$(key_of 101)" index.101
	aged '3 days ago'
	find store/env/data -type f -exec touch {} +
	"$bootseer" env gc "$STORE"
	[ "$(doomed)" = "$all" ]
	mv index.101 "store/env/index/$(key_of 101)"
	aged '3 days ago'
	"$bootseer" env gc --older 100d "$STORE"
	[ "$(doomed)" = '' ]
	[ "$(packs)" = "$all" ]
	verify
}

# Whatever moment of the capture it is, that is stopped here and goes on there.
@test "a snapshot whose capture met a collection is whole" {
	local n pid

	for n in 1 2 3; do
		rm -rf store/env a b c
		mkdir -p store/env
		capture a 100
		aged '3 days ago'
		: >stamp
		on b 101 2>err &
		pid=$!
		wait_for grep -q 101 ran
		wait_for find_new "$n"
		kill -STOP "$pid" || : # it may be through
		"$bootseer" env rm "$STORE" "$(key_of 100)"
		"$bootseer" env gc "$STORE"
		kill -CONT "$pid" || :
		wait_all "$pid"
		sed -i '/101/d' ran
		aged '3 days ago'
		"$bootseer" env gc --older 100d "$STORE"
		verify
		[ "$(find store/env/index -type f | wc -l)" = 1 ]
		env_run c 101
		same b c
		[ "$(grep -c 101 ran)" = 0 ]
	done
}

# So much of a capture is there: its folder, a pack, its index.
find_new() # 1 to 3
{
	local what

	what=$(echo data packs index | cut -d' ' -f"$1")
	[ -n "$(find "store/env/$what" -type f -newer stamp 2>/dev/null)" ]
}

@test "a pack that rotted in the store is not referred to" {
	local pack

	capture a 100
	pack=store/env/packs/$(packs)
	printf '\377\376\375' | dd of="$pack" bs=1 seek=3000000 conv=notrunc status=none
	capture b 101
	[ "$(find store/env/packs -type f -size +1M | wc -l)" = 2 ]
	env_run c 101
	same b c
	run "$bootseer" env verify "$STORE"
	[ "$(grep -c good <<<"$output")" = 1 ]
	# After it was removed, the same bytes are the same pack: it is put right.
	"$bootseer" env rm "$STORE" "$(key_of 100)"
	rm "key.100"
	capture d 100
	verify
	env_run e 100
	same d e
}

@test "a pack that is missing or short in the store is not referred to" {
	local pack

	capture a 100
	pack=store/env/packs/$(packs)
	truncate -s 1000000 "$pack"
	capture b 101
	rm "$pack"
	capture c 102
	env_run d 101
	same b d
	env_run e 102
	same c e
}

@test "a snapshot that cannot be read keeps all packs" {
	local all

	capture a 100
	capture b 101
	all=$(packs)
	find "store/env/data/$(key_of 100)" -type f -delete
	"$bootseer" env rm "$STORE" "$(key_of 101)"
	aged '3 days ago'
	run -0 --separate-stderr "$bootseer" env gc --older 100d "$STORE"
	[[ $stderr == *"cannot be read"*"'bootseer env rm'"*": snapshot $(key_of 100 | cut -c1-12): "* ]]
	aged '3 days ago'
	run -0 "$bootseer" env gc --older 100d "$STORE"
	[ "$(packs)" = "$all" ]
}

@test "--keep-bytes counts a pack once" {
	capture a 100
	capture b 101
	aged '1 hour ago'
	touch -d '2 hours ago' "store/env/index/$(key_of 100)"
	# 4.05 MB in all; each by itself is 3.9.
	"$bootseer" env gc --keep-bytes 5M "$STORE"
	[ "$("$bootseer" env ls "$STORE" | wc -l)" = 2 ]
	# The first one's removal alone frees next to nothing.
	"$bootseer" env gc --keep-bytes 3900K "$STORE"
	[ "$("$bootseer" env ls "$STORE")" = '' ]
}

@test "a snapshot of other packs is taken elsewhere, with all that it needs" {
	mkdir out other
	capture a 100
	capture b 101
	"$bootseer" env export "$STORE" out "$(key_of 101)" | grep -q copied
	[ "$(find out/env/packs -type f | wc -l)" = 2 ]
	"$bootseer" env export "$STORE" out "$(key_of 100)" | grep -q copied
	[ "$(find out/env/packs -type f | wc -l)" = 2 ]
	STORE=file://$W/other
	"$bootseer" env import "$STORE" out | grep -q copied
	verify
	env_run c 101
	same b c
	# A copy with a pack of other bytes is none.
	"$bootseer" env rm "$STORE" "$(key_of 101)"
	find other/env/packs -type f -delete
	printf '\377\376' | dd of="$(find out/env/packs -type f -size +1M)" bs=1 \
		seek=1000000 conv=notrunc status=none
	run -1 "$bootseer" env import "$STORE" out
	[[ $output == *damaged* ]]
}

@test "snapshots of before are read, and are no base for others" {
	capture a 100
	# As a program that shares none left it.
	mv store/env/packs/* "$(dirname "$(find "store/env/data/$(key_of 100)" -type f | head -n 1)")"
	jq -c '.version = 3' "store/env/index/$(key_of 100)" >index
	cp index "store/env/index/$(key_of 100)"
	env_run b 100
	same a b
	verify
	capture c 101
	[ "$(find store/env/packs -type f -size +3M | wc -l)" = 1 ]
	aged '3 days ago'
	"$bootseer" env gc --older 100d "$STORE"
	verify
}

@test "a store in which nobody may share has snapshots that are whole" {
	capture a 100
	# What is no folder takes no pack.
	rm -r store/env/packs
	echo >store/env/packs
	capture b 101
	[ "$(jq .version store/env/index/"$(key_of 101)")" = 3 ]
	env_run c 101
	same b c
}

# Looks that do not get rarer: the capture soon ends.
find_new_packs() { looks=0; find_new 2; }

@test "what a killed capture left is collected, and harms no other" {
	local n pid

	capture a 100
	# More than one pack.
	echo 'head -c 50000000 /dev/urandom >"$W/site/large"; : >"$W/written"' >>setup.sh
	for n in 1 2 3; do
		rm -f written
		: >stamp
		on "b$n" "10$n" --lease 2s 2>err &
		pid=$!
		wait_for test -e written
		wait_for find_new_packs
		kill -9 "$pid"
		wait "$pid" || :
	done
	capture c 104
	aged '3 days ago'
	"$bootseer" env gc --older 100d "$STORE"
	aged '3 days ago'
	"$bootseer" env gc --older 100d "$STORE"
	verify
	env_run d 104
	same c d
	# What is left is what the indexes need, and no more.
	[ "$(find store/env/packs -type f -printf '%s\n' | awk '{ n += $1 } END { print n }')" \
		-lt 55000000 ]
}

@test "two captures at once share what was there, and are both whole" {
	local first second

	capture a 100
	env_run b 101 2>b.err &
	first=$!
	env_run c 102 2>c.err &
	second=$!
	wait_all "$first" "$second"
	[ "$(cat b.err c.err | grep -c captured)" = 2 ]
	[ "$(packs | wc -l)" = 3 ]
	verify
	env_run d 101
	same b d
	env_run e 102
	same c e
}

@test "what replaces an expired snapshot stores what changed" {
	local before

	capture a 100
	aged '3 days ago'
	before=$(bytes)
	echo 'echo more >"$W/site/more"' >>setup.sh
	env_run b 100 --ttl 1d
	[ "$(wc -l <ran)" = 2 ]
	[ $(($(bytes) - before)) -lt 100000 ]
	env_run c 100
	same b c
}
