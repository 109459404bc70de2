#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Registries, and the storage that they lead to, are asked as others ask them: the headers of
# containerd and skopeo by a registry that keeps what it was sent, with ours beside.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../containerd/lib.bash"
. "$BATS_TEST_DIRNAME/node.bash"

setup_file() { make_image "$BATS_FILE_TMPDIR"; }

setup() {
	T=$BATS_TEST_TMPDIR D=$BATS_FILE_TMPDIR
	pids=()
	CONTAINERD_NAMESPACE=t$(od -An -N6 -tx1 /dev/urandom | tr -d ' \n')
	export CONTAINERD_NAMESPACE BOOTSEER_SOCKET=$T/run/bootseerd.sock
	mkdir "$T/mnt"
}

teardown() { containerd_teardown; }

# A registry of the layout DIR, which keeps in $T/NAME all that it is sent.
keep_heads() { # NAME DIR
	rm -f "$T/ports"
	"$fake_registry" --dir "$2" --port-file "$T/ports" --log "$T/requests" \
		--heads "$T/$1" 3>&- &
	pids+=($!)
	wait_for test -s "$T/ports"
	read -r port control <"$T/ports"
	REGISTRY=127.0.0.1:$port IMAGE=$REGISTRY/img:v1
	fault redirect=1
}

# Both files above have a function of this name.
fault() { curl -fsS "http://127.0.0.1:$control/set?$*"; }

# Names of headers in those requests of $T/NAME that match.
headers() { # NAME REGEX
	grep -E "^$2" "$T/$1" | cut -sf 2- | tr '\t' '\n' | cut -d : -f 1 |
		tr A-Z a-z | sort -u
}

# Each header of theirs is one of ours, but for those named: who asks, what a client may
# leave out, and what was for registries of the first version.
expect_as() { # NAME REGEX
	[ -n "$(headers ours "$2")" ]
	diff <(headers "$1" "$2" | grep -vxE \
		'user-agent|accept-encoding|connection|docker-distribution-api-version' |
		comm -23 - <(headers ours "$2")) /dev/null
}

# The paths of the registry that requests to the storage say they come from.
led() { grep "^GET /storage/" "$T/$1" | sed -nE 's|.*Referer: http://[^/]*([^?\t]*).*|\1|p' | sort -u; }

@test "an image is read with the headers of containerd's pull" {
	local d

	keep_heads theirs "$D/oci"
	start_containerd
	ctr images pull --plain-http "$IMAGE" >/dev/null
	keep_heads ours "$D/oci"
	node_start
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	cmp "$T/mnt/top/data" "$D/bundle/rootfs/top/data"
	"$bootseer" image umount "$T/mnt"
	expect_as theirs 'GET /v2/img/manifests/'
	expect_as theirs 'GET /v2/img/blobs/'
	expect_as theirs 'GET /storage/'
	# The config is in both; of packs further ranges go to the storage at once.
	d=$(jq -r .config.digest "$D/oci/blobs/sha256/$(jq -r '.manifests[] |
		select(.annotations["org.opencontainers.image.ref.name"] == "v1") |
		.digest[7:]' "$D/oci/index.json")")
	led theirs | grep -qx "/v2/img/blobs/$d"
	led ours | grep -qx "/v2/img/blobs/$d"
	[ "$(grep -c '^GET /storage/' "$T/ours")" -eq \
		"$(grep '^GET /storage/' "$T/ours" | grep -c 'Referer: .*/v2/img/blobs/')" ]
	# No question that costs a quota is asked twice.
	grep -o '^GET /v2/img/manifests/[^ 	]*' "$T/ours" | sort | uniq -d | diff - /dev/null
}

@test "an image is written with the headers of skopeo's copy" {
	local method

	mkdir "$T/one" "$T/two"
	keep_heads theirs "$T/one"
	skopeo copy --quiet --dest-tls-verify=false "oci:$D/src:v1" "docker://$IMAGE"
	keep_heads ours "$T/two"
	"$bootseer" image convert --plain-http "oci:$D/src:v1" "docker://$IMAGE" >/dev/null
	for method in HEAD POST PATCH PUT; do
		expect_as theirs "$method /v2/[a-z]*/blobs/"
	done
	expect_as theirs 'PUT /v2/img/manifests/'
	# Bytes are no text, whatever curl says of bodies by itself.
	! grep -E '^(PATCH|PUT) /v2/[a-z]*/blobs/' "$T/ours" |
		grep -vq 'Content-Type: application/octet-stream'
}
