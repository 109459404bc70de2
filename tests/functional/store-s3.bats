#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Stores that are buckets, on a real S3 server, and what becomes of faults on the way.

bats_require_minimum_version 1.5.0
load ../noise.bash
load ../wait.bash
load stores.bash

setup_file()
{
	export F=$BATS_FILE_TMPDIR S3
	S3=$("$BATS_TEST_DIRNAME/../stores/build" versitygw)
	noise 30000000 1 >"$F/big"
	noise 100000 2 >"$F/small"
}

setup()
{
	W=$BATS_TEST_TMPDIR
	export HOME=$W no_proxy='*'
	unset AWS_PROFILE AWS_SESSION_TOKEN AWS_REGION AWS_ENDPOINT_URL
	export AWS_EC2_METADATA_DISABLED=true
	s3_server "$W"
}

teardown()
{
	stop_servers
}

store() # COMMAND...
{
	"$BOOTSEER_BUILD/tests/functional/store-test" \
		"s3://bkt/p?endpoint=http://${PROXY:-$AT}" "$@"
}

suite() # OPTIONS
{
	STORE_URL="s3://bkt?$1" timeout 600 \
		"$BOOTSEER_BUILD/tests/unit/objects/test_objects_store" --tap
}

with_proxy()
{
	fault_proxy "$AT" "$W"
}

@test "does all that a store of objects does" {
	suite "endpoint=http://$AT"
}

@test "does so with the bucket in the host's name" {
	suite "endpoint=http://localhost:${AT#*:}&style=host"
}

@test "does so with locks in place of conditions" {
	suite "endpoint=http://$AT&conditions=lock"
}

@test "finds out what the server does" {
	run -0 --separate-stderr store probe
	[[ $output == "new=1 match=1 match_delete=1 rename=0 replace=1 checksum=1 "* ]]
	run -0 --separate-stderr store ls .bootseer
	[ -z "$output" ]
}

@test "a range that was cut goes on where it was" {
	store put a "$F/big"
	with_proxy
	fault match='^GET .*/p/a' kind=cut at=1000000 times=2
	expect_back a "$F/big"
	# A server that is slow is asked by hedges, too, which may be cut.
	grep -E 'retries=2|hedges=[1-9]' "$W/counts"
	proxied '^GET .* 206 cut$' >"$W/cuts"
	[ "$(wc -l <"$W/cuts")" = 2 ]
}

@test "a server that is overloaded is asked again, after as long as it wants" {
	with_proxy
	fault match='^PUT .*/p/a' kind=status code=503 after=1 times=2 \
		body='<Error><Code>SlowDown</Code><Message>slow</Message></Error>'
	run -0 store put a "$F/small"
	[[ $output == *retries=2* ]]
	expect_back a "$F/small"
}

@test "one that stays so is named, with a cure" {
	with_proxy
	fault match='^PUT .*/p/a' kind=status code=503 times=1000 \
		body='<Error><Code>SlowDown</Code><Message>slow</Message></Error>'
	STORE_RETRY_MS=1000 run -1 store put a "$F/small"
	[[ $output == *"s3://bkt/p: commit 'a': http://$PROXY: slow (SlowDown): it asks for fewer"* ]]
}

@test "a folder that a server just makes is in no object's way, and one that is there is" {
	with_proxy
	fault match='^PUT .*/p/a' kind=status code=409 times=2 \
		body='<Error><Code>ExistingObjectIsDirectory</Code><Message>is one</Message></Error>'
	run -0 store put a "$F/small"
	[[ $output == *retries=2* ]]
	expect_back a "$F/small"
	fault match='^PUT .*/p/b' kind=status code=409 times=1000 \
		body='<Error><Code>ExistingObjectIsDirectory</Code><Message>is one</Message></Error>'
	run -1 store put b "$F/small"
	[[ $output == *"is one (ExistingObjectIsDirectory): this server keeps folders"* ]]
	proxied '^PUT /bkt/p/b 409' >"$W/refusals"
	[ "$(wc -l <"$W/refusals")" = 5 ]
	# What finds out what the server does goes on, too.
	curl -sf -d '' "http://$PROXY/clear"
	fault match='^PUT .*/p/[.]bootseer/' kind=status code=409 times=2 \
		body='<Error><Code>ExistingObjectIsDirectory</Code><Message>is one</Message></Error>'
	run -0 --separate-stderr store probe
	[[ $output == "new=1 match=1 match_delete=1 "* ]]
}

@test "bytes that change on their way are refused and sent again" {
	with_proxy
	fault match='^PUT .*/p/a' kind=wrong-sent at=5000
	store put a "$F/small"
	proxied '^PUT /bkt/p/a 400 wrong-sent'
	fault match='^PUT .*partNumber=2' kind=wrong-sent at=5000
	store put b "$F/big"
	proxied '^PUT .*partNumber=2.* 400 wrong-sent'
	expect_back a "$F/small"
	expect_back b "$F/big"
}

@test "a small object is read by one request, and from its begin where that was cut" {
	store put a "$F/small"
	with_proxy
	store whole a "$W/back" 100000 2>"$W/counts"
	cmp "$W/back" "$F/small"
	grep 'requests=1 retries=0' "$W/counts"
	fault match='^GET .*/p/a' kind=cut at=50000 times=2
	store whole a "$W/back" 100000 2>"$W/counts"
	cmp "$W/back" "$F/small"
	grep 'requests=3 retries=2' "$W/counts"
	run -1 store whole a "$W/back" 99999
	[[ $output == *"is longer than 99999 bytes"* ]]
	run -1 proxied '^HEAD '
}

@test "an upload that is cut leaves nothing, and is sent again" {
	with_proxy
	fault match='^PUT .*/p/a' kind=cut-sent at=5000 times=1000
	STORE_RETRY_MS=1000 run -1 store put a "$F/small"
	[[ $output == *"commit 'a'"* ]]
	curl -sf -d '' "http://$PROXY/clear"
	run -1 store stat a
	fault match='^PUT .*partNumber=3' kind=cut-sent at=5000 times=2
	store put b "$F/big"
	# libcurl makes one of the attempts itself, on a connection that was kept.
	proxied '^PUT .*partNumber=3.* gone cut-sent$' >"$W/cuts"
	[ "$(wc -l <"$W/cuts")" = 2 ]
	expect_back b "$F/big"
}

@test "a condition does not fail because of an answer that was lost" {
	with_proxy
	fault match='^PUT .*/p/a' kind=lost
	run -0 --separate-stderr store put a "$F/small" new
	tag=$output
	[[ $(store stat a 2>/dev/null) == "100000 $tag" ]]
	fault match='^POST .*/p/b.uploadId' kind=lost
	store put b "$F/big" new
	expect_back b "$F/big"
	run -1 store put b "$F/big" new
	[[ $output == *"there is one of this name"* ]]
}

@test "a request that hangs gets another beside it" {
	store put a "$F/big"
	with_proxy
	fault match='^GET .*/p/a' kind=hold at=500000
	expect_back a "$F/big"
	grep -E 'hedges=[1-9][0-9]* won=[1-9]' "$W/counts"
}

@test "a link that is slow for all is not asked twice for what it brings" {
	store put a "$F/big"
	with_proxy
	# Each request takes longer than one that hangs is waited for.
	fault match='^GET .*/p/a' kind=drip at=200000 times=1000
	expect_back a "$F/big"
	grep -F 'hedges=0 ' "$W/counts"
}

@test "a put that ends early aborts its upload; one that is killed is swept up" {
	with_proxy
	fault match='^PUT .*partNumber=2' kind=status code=403 times=1000
	run -1 store put a "$F/big"
	[ "$(store sweep 2>/dev/null)" = 0 ]
	curl -sf -d '' "http://$PROXY/clear"
	fault match='^PUT .*partNumber=2' kind=hold times=1000
	"$BOOTSEER_BUILD/tests/functional/store-test" \
		"s3://bkt/p?endpoint=http://$PROXY" put a "$F/big" 3>&- &
	victim=$!
	wait_for proxied '^POST .*uploads='
	kill -9 "$victim"
	wait "$victim" || gone=$?
	[ "$gone" = 137 ]
	PROXY=
	run -1 store stat a
	[ "$(store sweep 2>/dev/null)" = 1 ]
	# The server may be at work on a part that was sent before.
	wait_for nothing_is_left
}

nothing_is_left() { [ "$(store sweep 2>/dev/null)" = 0 ]; }

@test "a probe that is killed leaves an object, which is swept up when it is old" {
	with_proxy
	fault match='^DELETE .*/p/.bootseer/tmp/' kind=hold times=1000
	"$BOOTSEER_BUILD/tests/functional/store-test" \
		"s3://bkt/p?endpoint=http://$PROXY" probe 3>&- &
	victim=$!
	wait_for proxied '^DELETE .*/p/.bootseer/tmp/'
	kill -9 "$victim"
	wait "$victim" || gone=$?
	[ "$gone" = 137 ]
	PROXY=
	left=$(echo "$W"/data/bkt/p/.bootseer/tmp/*)
	[ -f "$left" ]
	[ "$(store sweep 300000 2>/dev/null)" = 0 ]
	# By the server's clock, whatever ours says.
	[ "$(STORE_AHEAD_S=600 store sweep 300000 2>/dev/null)" = 0 ]
	[ -f "$left" ]
	touch -d '6 minutes ago' "$left"
	[ "$(STORE_AHEAD_S=-600 store sweep 300000 2>/dev/null)" = 1 ]
	[ ! -e "$left" ]
	[ "$(store sweep 2>/dev/null)" = 0 ]
}

# What it put for that is gone before it asks.
@test "a probe beside a sweep finds out what the server does all the same" {
	with_proxy
	fault match='^PUT .*/p/.bootseer/tmp/' kind=hold after=1 times=1
	"$BOOTSEER_BUILD/tests/functional/store-test" \
		"s3://bkt/p?endpoint=http://$PROXY" probe >"$W/probed" 3>&- &
	prober=$!
	wait_for proxied '^PUT .*/p/.bootseer/tmp/.* hold'
	rm "$W"/data/bkt/p/.bootseer/tmp/*
	curl -sf -d '' "http://$PROXY/clear"
	wait "$prober"
	[[ $(<"$W/probed") == "new=1 match=1 match_delete=1 "* ]]
}

@test "credentials come from a file, and wrong ones are named with a cure" {
	unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
	run -1 store put a "$F/small"
	[[ $output == *"no credentials: not in AWS_ACCESS_KEY_ID"* ]]
	mkdir "$W/.aws"
	printf '[default]\naws_access_key_id = testkey1234\n' >"$W/.aws/credentials"
	run -1 store put a "$F/small"
	[[ $output == *"has no aws_access_key_id and aws_secret_access_key in [default]"* ]]
	echo 'aws_secret_access_key = testsecret1234' >>"$W/.aws/credentials"
	store put a "$F/small"
	AWS_PROFILE=other run -1 store stat a
	sed -i 's/testsecret/wrong/' "$W/.aws/credentials"
	run -1 store put a "$F/small"
	[[ $output == *"(SignatureDoesNotMatch): check the secret key"* ]]
}

@test "credentials come from the metadata of an instance" {
	unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_EC2_METADATA_DISABLED
	python3 "$tests/functional/metadata-server.py" "$W/meta" 3>&- &
	PIDS+=($!)
	wait_for test -s "$W/meta"
	at=http://127.0.0.1:$(cat "$W/meta")
	AWS_EC2_METADATA_SERVICE_ENDPOINT=$at store put a "$F/small"
	export AWS_EC2_METADATA_DISABLED=true
	AWS_CONTAINER_CREDENTIALS_FULL_URI=$at/agent \
		AWS_CONTAINER_AUTHORIZATION_TOKEN=pod-token store put b "$F/small"
	echo web-token >"$W/token"
	AWS_ENDPOINT_URL_STS=$at \
		AWS_WEB_IDENTITY_TOKEN_FILE=$W/token \
		AWS_ROLE_ARN=arn:aws:iam::1:role/x store put c "$F/small"
}

@test "a bucket that is not there is named" {
	run -1 "$BOOTSEER_BUILD/tests/functional/store-test" \
		"s3://none?endpoint=http://$AT" put a "$F/small"
	[[ $output == *"(NoSuchBucket): create the bucket"* ]]
	run -1 "$BOOTSEER_BUILD/tests/functional/store-test" \
		"s3://bkt?endpoint=http://$AT&colour=red" ls
	[[ $output == *"s3: stores have no option 'colour'"* ]]
}
