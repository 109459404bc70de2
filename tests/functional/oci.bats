#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Our image stores against Debian's docker-registry and skopeo: what one writes,
# the other reads.

bats_require_minimum_version 1.5.0
load ../noise.bash

setup_file()
{
	export F=$BATS_FILE_TMPDIR oci=$BOOTSEER_BUILD/tests/functional/oci-test
	# Two layers, one of them of several upload chunks.
	mkdir -p "$F/one" "$F/two"
	noise 40000000 9 >"$F/one/big"
	noise 3000 10 >"$F/two/small"
	umoci init --layout "$F/image"
	umoci new --image "$F/image:v1"
	umoci insert --image "$F/image:v1" "$F/one" /one
	umoci insert --image "$F/image:v1" "$F/two" /two
	openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test \
		-addext subjectAltName=IP:127.0.0.1 \
		-keyout "$F/key.pem" -out "$F/cert.pem" 2>/dev/null
}

setup()
{
	W=$BATS_TEST_TMPDIR
	PID=
	export HOME=$W no_proxy='*' # no login or proxy of this machine
	unset DOCKER_CONFIG XDG_RUNTIME_DIR
}

teardown()
{
	[ -z "$PID" ] || kill "$PID"
}

# Start docker-registry with further lines of configuration: AT is its address.
registry() # [HTTP-LINES [OTHER-LINES]]
{
	mkdir -p "$W/registry"
	cat >"$W/registry.yml" <<-END
	version: 0.1
	storage:
	  filesystem: {rootdirectory: $W/registry}
	  delete: {enabled: true}
	http:
	  addr: "127.0.0.1:0"
	${1-}
	${2-}
	END
	mkfifo "$W/pipe"
	docker-registry serve "$W/registry.yml" >"$W/pipe" 2>&1 3>&- &
	PID=$!
	exec 9<"$W/pipe"
	while IFS= read -r -t 120 -u 9 line; do
		[[ $line =~ listening\ on\ [^\ ]*:([0-9]+) ]] || continue
		AT=127.0.0.1:${BASH_REMATCH[1]}
		cat <&9 >"$W/registry.log" 3>&- &
		return 0
	done
	return 1
}

# The digest of a layout's manifest and the digests of all its blobs' content.
same_image() # LAYOUT LAYOUT
{
	local a b

	a=$(skopeo inspect --raw "oci:$1:v1" | sha256sum)
	b=$(skopeo inspect --raw "oci:$2:v1" | sha256sum)
	[ "$a" = "$b" ]
	# The copy is whole: skopeo checks every digest that it copies.
	skopeo copy -q "oci:$2:v1" "dir:$W/check"
}

@test "we read what skopeo pushed" {
	registry
	skopeo copy -q --dest-tls-verify=false "oci:$F/image:v1" \
		"docker://$AT/a/b:v1"
	"$oci" --plain-http copy "docker://$AT/a/b:v1" "oci:$W/got:v1"
	same_image "$F/image" "$W/got"
}

@test "skopeo reads what we pushed, and nothing is sent twice" {
	registry
	"$oci" --plain-http copy "oci:$F/image:v1" "docker://$AT/a/b:v1"
	skopeo copy -q --src-tls-verify=false "docker://$AT/a/b:v1" \
		"oci:$W/got:v1"
	same_image "$F/image" "$W/got"
	"$oci" --plain-http copy "oci:$F/image:v1" "docker://$AT/a/b:v2"
	run -0 skopeo list-tags --tls-verify=false "docker://$AT/a/b"
	[[ $output == *v1* && $output == *v2* ]]
}

@test "an archive that skopeo wrote becomes an image in the registry" {
	registry
	skopeo copy -q "oci:$F/image:v1" "docker-archive:$W/image.tar:app:v1"
	"$oci" --plain-http copy "docker-archive:$W/image.tar" \
		"docker://$AT/a/b:v1"
	skopeo copy -q --src-tls-verify=false "docker://$AT/a/b:v1" \
		"oci:$W/got:v1"
	umoci unpack --image "$W/got:v1" "$W/bundle" >/dev/null
	cmp "$F/one/big" "$W/bundle/rootfs/one/big"
	cmp "$F/two/small" "$W/bundle/rootfs/two/small"
}

@test "an artifact is found at a registry without the referrers API" {
	registry
	"$oci" --plain-http copy "oci:$F/image:v1" "docker://$AT/a/b:v1"
	run -0 "$oci" --plain-http referrers "docker://$AT/a/b:v1" x/y
	[ -z "$output" ]
	"$oci" --plain-http attach "docker://$AT/a/b:v1" x/y
	"$oci" --plain-http attach "docker://$AT/a/b:v1" other/type
	run -0 "$oci" --plain-http referrers "docker://$AT/a/b:v1" x/y
	[[ $output =~ ^sha256:[0-9a-f]{64}$ ]]
	"$oci" --plain-http rm "docker://$AT/a/b@$output"
	run -0 "$oci" --plain-http referrers "docker://$AT/a/b:v1" x/y
	[ -z "$output" ]
}

@test "TLS needs the right authority, and says how to name it" {
	registry "  tls: {certificate: $F/cert.pem, key: $F/key.pem}"
	run -1 "$oci" copy "oci:$F/image:v1" "docker://$AT/a/b:v1"
	[[ $output == *"$AT"* && $output == *--ca-file* ]]
	run -1 "$oci" --plain-http copy "docker://$AT/a/b:v1" "oci:$W/got:v1"
	[[ $output == *"leave out --plain-http"* ]]
	"$oci" --ca-file "$F/cert.pem" copy "oci:$F/image:v1" \
		"docker://$AT/a/b:v1"
	"$oci" --ca-file "$F/cert.pem" copy "docker://$AT/a/b:v1" \
		"oci:$W/got:v1"
	same_image "$F/image" "$W/got"
}

@test "a registry without TLS is not spoken to unasked" {
	registry
	run -1 "$oci" copy "docker://$AT/a/b:v1" "oci:$W/got:v1"
	[[ $output == *--plain-http* ]]
}

@test "a password is taken from the auth file" {
	local hash

	hash=$(python3 -W ignore -c 'import crypt; print(crypt.crypt("secret",
		"$2b$05$abcdefghijklmnopqrstuu"))')
	echo "user:$hash" >"$W/htpasswd"
	registry "" "auth: {htpasswd: {realm: test, path: $W/htpasswd}}"
	run -1 "$oci" --plain-http copy "oci:$F/image:v1" "docker://$AT/a/b:v1"
	[[ $output == *--auth-file* ]]
	skopeo login --tls-verify=false --authfile "$W/auth.json" \
		-u user -p secret "$AT" >/dev/null
	"$oci" --plain-http --auth-file "$W/auth.json" copy \
		"oci:$F/image:v1" "docker://$AT/a/b:v1"
	"$oci" --plain-http --auth-file "$W/auth.json" copy \
		"docker://$AT/a/b:v1" "oci:$W/got:v1"
	same_image "$F/image" "$W/got"
}
