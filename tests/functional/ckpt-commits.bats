#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# While a file is being committed, which may take minutes: what gives it another name or takes
# it away does not lose what was written, and nobody else in the mount waits for it.

bats_require_minimum_version 1.5.0
load ../noise.bash
load ../wait.bash
load stores.bash
load ckpt.bash
load ckpt-mounts.bash

setup_file()
{
	export F=$BATS_FILE_TMPDIR S3
	S3=$("$BATS_TEST_DIRNAME/../stores/build" versitygw)
	noise 5000000 51 >"$F/large"
	noise 6000000 52 >"$F/other"
	echo small >"$F/small"
}

setup()
{
	begin_mounts
	bucket
	DIRECT=$STORE
	fault_proxy "$AT" "$W"
	STORE="s3://bkt/ckpt?endpoint=http://$PROXY"
}

teardown()
{
	exec 5>&-
	go || :
	end_mounts
}

go() { curl -sf -d '' "http://$PROXY/go" >/dev/null; }

@test "what another node puts in place of a file that is renamed stays" {
	local mover

	mount_store
	cp "$F/large" "$M/f"
	fault match='^PUT .*/g\.bsm' kind=wait
	mv "$M/f" "$M/g" 3>&- &
	mover=$!
	wait_for proxied '^PUT .*/g\.bsm.* wait$'
	STORE=$DIRECT ckpt cp "$F/other" :f
	go
	wait_all "$mover"
	cmp "$M/g" "$F/large"
	ckpt cp :f "$W/back"
	cmp "$W/back" "$F/other"
	umount_store
}
