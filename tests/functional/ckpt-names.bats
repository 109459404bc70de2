#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Stores that other programs fill: each name is shown and can be used, or `ckpt ls` says that it
# is not shown.

bats_require_minimum_version 1.5.0
load ../noise.bash
load ../wait.bash
load stores.bash
load ckpt.bash
load ckpt-mounts.bash

setup()
{
	begin_mounts
}

teardown()
{
	end_mounts
}

# STORE is a bucket of any keys, at http://$AT/bkt/.
any_bucket()
{
	export HOME=$W no_proxy='*' AWS_EC2_METADATA_DISABLED=true
	python3 "$BATS_TEST_DIRNAME/plain-s3.py" "$W/port" 3>&- &
	PIDS+=($!)
	wait_for test -s "$W/port"
	AT=127.0.0.1:$(cat "$W/port")
	STORE="s3://bkt/p?endpoint=http://$AT&anonymous=yes"
}

key() # KEY, as a URL has it: an object of other programs
{
	curl -sf --path-as-is -X PUT --data-binary "${2-}" "http://$AT/bkt/$1"
}

keys() # how many the bucket has below p/
{
	curl -sf "http://$AT/bkt/?list-type=2&prefix=p/$1" | grep -o '<Key>' | wc -l
}

@test "folders that other tools mark are there, are renamed, and can be removed" {
	any_bucket
	key p/
	key p/empty/
	key p/full/
	key p/full/sub/
	key p/full/a x
	[ "$(ckpt ls | tr '\n' ' ')" = 'empty/ full/ ' ]
	run -0 ckpt ls empty
	[ "$output" = "" ]
	mount_store
	[ -d "$M/empty" ]
	[ "$(ls "$M/full")" = "$(printf 'a\nsub')" ]
	[ -z "$(ls "$M/full/sub")" ]
	mv "$M/full" "$M/moved"
	[ ! -e "$M/full" ]
	[ "$(cat "$M/moved/a")" = x ]
	[ -d "$M/moved/sub" ]
	rmdir "$M/empty"
	[ ! -e "$M/empty" ]
	rm -r "$M/moved"
	[ -z "$(ls "$M")" ]
	umount_store
	key p/again/below/
	ckpt rm -r again
	[ "$(keys)" = 1 ]
}

@test "objects that no file can be are left out, and said" {
	local long name

	any_bucket
	long=$(printf '%0252d' 0)
	key p/good fine
	key p/d//b x
	key p/d/a%01b x
	key "p/d/$long" x
	key p/d/...bsm x
	key p/x.bsm/y x
	run -0 --separate-stderr ckpt ls
	[ "$output" = "$(printf 'd/\ngood')" ]
	[[ $stderr == *"1 object not shown, which no file here can be: 'x.bsm'" ]]
	run -0 --separate-stderr ckpt ls d
	[ "$output" = "" ]
	[[ $stderr == *"4 objects not shown"*", ..." ]]
	[[ $stderr != *$'\x01'* ]]
	mount_store
	for name in "$M"/*; do
		stat "$name" >/dev/null
	done
	[ "$(ls "$M")" = "$(printf 'd\ngood')" ]
	[ -z "$(ls -A "$M/d")" ]
	# What is not shown is not lost.
	run ! rmdir "$M/d"
	run ! mv "$M/d" "$M/e"
	umount_store
	[ "$(keys d/)" = 4 ]
}

@test "a folder of another program's .bsm does not hide the rest" {
	any_bucket
	key p/good fine
	key p/model.bsm "$(printf '%0200d' 0)"
	run -0 --separate-stderr ckpt ls -l
	[[ $output == *damaged*model*good* || $output == *good*damaged*model* ]]
	[[ $stderr == *"model.bsm"* ]]
	mkdir "$W/links"
	STORE=file://$W/links
	ln -s /etc/passwd "$W/links/secret"
	run -0 --separate-stderr ckpt ls
	[ "$output" = "" ]
	[[ $stderr == *"'secret'" ]]
}

@test "a copy that is ended leaves no part of a file" {
	any_bucket
	noise 20000000 5 >"$W/in"
	key p/hangs "@$W/in"
	mkdir "$W/out"
	end_copy TERM 143
	end_copy HUP 129
}

end_copy() # SIGNAL STATUS
{
	local pid rc=0

	# A program that nohup began, this suite too, ignores HUP.
	env --default-signal=HUP "$bootseer" ckpt cp "$STORE" :hangs "$W/out/file" 3>&- &
	pid=$!
	wait_for has_temporary
	kill "-$1" "$pid"
	wait "$pid" || rc=$?
	[ "$rc" = "$2" ]
	[ -z "$(ls -A "$W/out")" ]
}

has_temporary()
{
	[ "$(ls "$W/out")" ]
}
