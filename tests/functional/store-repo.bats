#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Stores that are repositories of a registry, on Debian's docker-registry, and what becomes
# of faults on the way.

bats_require_minimum_version 1.5.0
load ../noise.bash
load ../wait.bash
load stores.bash

setup_file()
{
	export F=$BATS_FILE_TMPDIR
	noise 30000000 1 >"$F/big"
	noise 100000 2 >"$F/small"
}

setup()
{
	W=$BATS_TEST_TMPDIR
	export HOME=$W no_proxy='*' DOCKER_CONFIG=$W/docker TMPDIR=$W
	unset XDG_RUNTIME_DIR
}

teardown()
{
	stop_servers
}

store() # COMMAND...
{
	"$BOOTSEER_BUILD/tests/functional/store-test" \
		"docker://${PROXY:-$AT}/p${PATH_IN-}?plain-http=yes" "$@"
}

with_proxy()
{
	fault_proxy "$AT" "$W"
}

@test "does all that a store of objects does" {
	repo_server "$W"
	STORE_PAGE=100 STORE_ROUNDS=1 STORE_URL="docker://$AT/suite?plain-http=yes" timeout 900 \
		"$BOOTSEER_BUILD/tests/unit/objects/test_objects_store" --tap
}

@test "finds out what the registry does" {
	repo_server "$W"
	run -0 --separate-stderr store probe
	[[ $output == "new=0 match=0 match_delete=0 rename=0 replace=1 checksum=1 "* ]]
	run -0 --separate-stderr store ls .bootseer
	[ -z "$output" ]
}

@test "objects are what other programs of registries see" {
	repo_server "$W"
	store put dir/a_b "$F/small"
	run -0 skopeo list-tags --tls-verify=false "docker://$AT/p"
	[[ $output == *'"o.dir__a_5fb"'* ]]
	skopeo copy -q --src-tls-verify=false "docker://$AT/p:o.dir__a_5fb" "dir:$W/copy"
	cmp "$W/copy/$(sha256sum <"$F/small" | cut -d' ' -f1)" "$F/small"
}

@test "a copy of an object's tag is not listed as that object" {
	repo_server "$W"
	store put a "$F/small"
	store put d/x "$F/small"
	skopeo copy -q --src-tls-verify=false --dest-tls-verify=false \
		"docker://$AT/p:o.a" "docker://$AT/p:o.b"
	skopeo copy -q --src-tls-verify=false --dest-tls-verify=false \
		"docker://$AT/p:o.d__x" "docker://$AT/p:o.d__y"
	echo new | store put a /dev/stdin
	run -0 --separate-stderr store ls ''
	[ "${#lines[@]}" = 2 ]
	run -0 --separate-stderr store ls d
	[ "${#lines[@]}" = 1 ]
}

@test "tags of others are no objects, and one in the way is named" {
	repo_server "$W"
	store put a "$F/small"
	skopeo copy -q --src-tls-verify=false --dest-tls-verify=false \
		"docker://$AT/p:o.a" "docker://$AT/p:latest"
	run -0 --separate-stderr store ls ''
	[ "${#lines[@]}" = 1 ]
	image=$W/image
	"$BATS_TEST_DIRNAME/make-image.py" "$image" good
	skopeo copy -q --dest-tls-verify=false "oci:$image" "docker://$AT/p:o.b"
	run -1 store get b "$W/back"
	[[ $output == *"docker://$AT/p: open 'b': its tag leads to a manifest that is not one of an object: delete the tag 'o.b'"* ]]
	# Whoever needs all objects must not take it for gone.
	run -0 --separate-stderr store ls ''
	[ "${#lines[@]}" = 2 ]
}

@test "a range that was cut goes on where it was" {
	repo_server "$W"
	store put a "$F/big"
	with_proxy
	fault match='^GET .*/blobs/' kind=cut at=1000000 times=2
	expect_back a "$F/big"
	proxied '^GET .* 206 cut$' >"$W/cuts"
	[ "$(wc -l <"$W/cuts")" = 2 ]
}

@test "a registry that removes nothing is named, with a cure" {
	repo_server "$W" false
	run -1 store probe
	[[ $output == *"the registry removes nothing, which an operator can allow (storage.delete.enabled"* ]]
	store put a "$F/small"
	expect_back a "$F/small"
}

@test "credentials are those of docker login" {
	command -v openssl
	mkdir -p "$W/docker"
	htpasswd_line >"$W/htpasswd"
	repo_server "$W" true "$W/htpasswd"
	run -1 store put a "$F/small"
	[[ $output == *"docker://$AT/p: commit 'a'"* ]]
	printf '{"auths":{"%s":{"auth":"%s"}}}' "$AT" "$(printf u:secret | base64)" \
		>"$W/docker/config.json"
	store put a "$F/small"
	expect_back a "$F/small"
}

# docker-registry knows passwords by bcrypt only.
htpasswd_line()
{
	python3 - <<-'END'
	import crypt
	print("u:" + crypt.crypt("secret", crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=16)))
	END
}

@test "a registry without TLS is named, with what the URL has to say" {
	repo_server "$W"
	run -1 "$BOOTSEER_BUILD/tests/functional/store-test" "docker://$AT/p" probe
	[[ $output == *"it speaks no TLS: add ?plain-http=yes to the URL of the store"* ]]
}

@test "what a URL says wrong is refused, with what it wants" {
	AT=127.0.0.1:1
	run -1 "$BOOTSEER_BUILD/tests/functional/store-test" "docker://$AT/p:tag" probe
	[[ $output == *"want docker://HOST[:PORT]/REPOSITORY, with no tag"* ]]
	run -1 "$BOOTSEER_BUILD/tests/functional/store-test" "docker://$AT/p?plain-http=1" probe
	[[ $output == *"option 'plain-http=1' of the URL: want 'yes' or 'no'"* ]]
	run -1 "$BOOTSEER_BUILD/tests/functional/store-test" "docker://$AT/p?x=1" probe
	[[ $output == *"'x'"* ]]
}
