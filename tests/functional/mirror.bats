#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Ordinary images by bootseerd's registry mirror, with containerds of Debian: layers leave the
# registry once, a node that lies is found out, and without a mirror containerd goes on.

bats_require_minimum_version 1.5.0
load node.bash
load p2p.bash

setup_file() { make_image "$BATS_FILE_TMPDIR"; }
setup() {
	node_setup
	TRACKER=
	tracker_hold
	tracker_start
}
teardown() {
	[ -n "${BATS_TEST_COMPLETED:-}" ] ||
		tail -n 20 "$T"/*/log "$T"/*/ctd.log "$T/tracker.log" 2>/dev/null |
		sed 's/^/# /' >&3
	node_teardown
}

# bootseerd with a mirror, and a containerd that is told of it; the registry speaks http.
mirror_start() { # NAME OPTION...
	local name=$1 dir=$T/$1 hosts=$T/$1/hosts/$REGISTRY

	shift
	mkdir -p "$hosts"
	peer_start "$name" --mirror 127.0.0.1:0 --hosts-dir "$dir/hosts" \
		--log-level debug "$@"
	{
		echo "server = \"http://$REGISTRY\""
		cat "$dir/root/mirror/hosts.toml"
	} >"$hosts/hosts.toml"
	cat >"$dir/ctd.toml" <<-END
	version = 2
	root = "$dir/ctd/root"
	state = "$dir/ctd/state"
	disabled_plugins = ["io.containerd.grpc.v1.cri"]
	[grpc]
	  address = "$dir/ctd.sock"
	[ttrpc]
	  address = "$dir/ctd.ttrpc"
	END
	containerd --config "$dir/ctd.toml" >"$dir/ctd.log" 2>&1 3>&- &
	pids+=("$!")
	wait_for grep -q 'successfully booted' "$dir/ctd.log"
}

pull_on() { # NAME
	ctr --address "$T/$1/ctd.sock" images pull --hosts-dir "$T/$1/hosts" \
		--snapshotter native "$IMAGE" >"$T/$1/pull" 2>&1
}

layers() {
	jq -r '.layers[].digest' "$D/oci/blobs/sha256/$(manifest | cut -d: -f2)"
}
manifest() {
	jq -r '.manifests[] | select(.annotations[
		"org.opencontainers.image.ref.name"] == "v1") | .digest' \
		"$D/oci/index.json"
}
layer_bytes() {
	jq '[.layers[].size] | add' \
		"$D/oci/blobs/sha256/$(manifest | cut -d: -f2)"
}

# Bytes of layers that the registry was asked for so far.
registry_bytes() {
	layers >"$T/layers"
	grep -Ff "$T/layers" "$T/requests" |
		awk '/^GET / { n += $4 } END { print n + 0 }'
}

@test "containerds that begin at once pull about one copy" {
	local name waiting=()

	for name in a b; do
		mirror_start "$name"
	done
	for name in a b; do
		pull_on "$name" 3>&- &
		waiting+=($!)
	done
	wait_all "${waiting[@]}"
	[ "$(registry_bytes)" -ge "$(layer_bytes)" ]
	[ "$(registry_bytes)" -le $(($(layer_bytes) * 12 / 10)) ]
}

# The nameless files of layers that a node keeps.
kept_layers() { # NAME
	find "/proc/${node_pids[$1]}/fd" -lname "$T/$1/root/mirror/*deleted*"
}

@test "a node that sends wrong bytes is found out, and the image is right" {
	local file

	mirror_start a
	pull_on a
	for file in $(kept_layers a); do
		[ "$(stat -L -c %s "$file")" -lt 20000000 ] ||
			dd if=/dev/zero of="$file" bs=1M seek=1 count=15 \
				conv=notrunc status=none
	done
	mirror_start b
	pull_on b
	grep -q 'mirror: wrong bytes of a layer node="a"' "$T/b/log"
}

@test "a mirror that dies leaves containerd to the registry, also within a layer" {
	local puller

	mirror_start a
	fault match=/blobs/ hang=2000000
	pull_on a 3>&- &
	puller=$!
	wait_for grep -q 'mirror: layer begins' "$T/a/log"
	# What hangs goes on to hang; what is asked for from here on does not.
	fault
	peer_stop a KILL
	wait "$puller"
}

# At least 5 leases, before 18 pieces came.
swarm_is_wide() {
	curl -fsS "$TRACKER/metrics" | awk '
		/^bootseer_registry_swarm_leases / { leases = $2 }
		/^bootseer_registry_swarm_done_total / { done = $2 }
		END { exit !(leases >= 5 && done < 18) }'
}

# The tracker's clock stands still, so each piece that came makes its window a piece larger: a
# quarter of that, which is what a member of many has, is no five pieces before 18 came.
@test "a node that is alone in its swarm reads several pieces beside each other" {
	local puller

	mirror_start a
	fault match=/blobs/ drip=65536 drip_ms=100
	pull_on a 3>&- &
	puller=$!
	wait_for swarm_is_wide
	peer_stop a KILL
	fault
	wait "$puller"
}

mirror_url() { sed -n 's/^\[host."\(.*\)"\]/\1/p' "$T/$1/root/mirror/hosts.toml"; } # NAME

# A request as containerd makes it, with the key that root can read; prints the status.
ask_mirror() { # NAME PATH [OPTION...]
	local dir=$T/$1/root/mirror path=$2

	shift 2
	curl -s -o "$T/body" -w '%{http_code}' --cacert "$dir/node.pem" \
		--cert "$dir/node.pem" --key "$dir/node.key" "$@" \
		"$MIRROR$path?ns=$REGISTRY"
}

@test "a mirror is known by the address that it listens on" {
	local address

	for address in 127.0.0.2 '[::1]'; do
		peer_start a --mirror "$address:0"
		MIRROR=$(mirror_url a)
		[[ $MIRROR == "https://$address:"[1-9]* ]]
		[ "$(ask_mirror a "/v2/img/manifests/$(manifest)")" = 404 ]
		peer_stop a
	done
}

@test "layers are for containerd, and of a repository whose manifest the node may have" {
	local layer size manifest

	layer=$(layers | head -n 1)
	size=$(stat -c %s "$D/oci/blobs/sha256/${layer#sha256:}")
	manifest=$(manifest)
	peer_start a --mirror 127.0.0.1:0
	MIRROR=$(mirror_url a)
	[ "$(stat -c %a "$T/a/root/mirror/node.key")" = 400 ]
	[ "$(curl -sk -o "$T/body" -w '%{http_code}' \
		"$MIRROR/v2/img/blobs/$layer?ns=$REGISTRY")" = 403 ]
	# Nobody asked for a manifest; then one that wants a login.
	[ "$(ask_mirror a "/v2/img/blobs/$layer")" = 404 ]
	fault basic=1
	[ "$(ask_mirror a "/v2/img/manifests/$manifest")" = 404 ]
	[ "$(ask_mirror a "/v2/img/blobs/$layer")" = 404 ]
	fault
	[ "$(ask_mirror a "/v2/img/manifests/v1")" = 404 ]
	[ "$(ask_mirror a "/v2/img/manifests/$manifest")" = 404 ]
	[ "$(ask_mirror a "/v2/other/blobs/$layer")" = 404 ]
	[ "$(ask_mirror a "/v2/img/blobs/$layer")" = 200 ]
	cmp "$T/body" "$D/oci/blobs/sha256/${layer#sha256:}"
	[ "$(ask_mirror a "/v2/img/blobs/$layer" -H 'Range: bytes=100-')" = 206 ]
	cmp "$T/body" <(tail -c +101 "$D/oci/blobs/sha256/${layer#sha256:}")
	[ "$(ask_mirror a "/v2/img/blobs/$layer" -H "Range: bytes=$size-")" = 416 ]
	# A range that is none is left aside, with its end.
	[ "$(ask_mirror a "/v2/img/blobs/$layer" -H 'Range: bytes=5-3')" = 200 ]
	[ "$(stat -c %s "$T/body")" = "$size" ]
	# A name that is a digest is resolved by HEAD, which no login was shown for.
	[ "$(ask_mirror a "/v2/img/blobs/$layer" --head)" = 404 ]
	[ "$(ask_mirror a "/v2/other/blobs/$layer")" = 404 ]
}
