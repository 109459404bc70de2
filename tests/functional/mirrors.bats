# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Mirrors of registries, registries out of reach, and logins that nobody handed over.

bats_require_minimum_version 1.5.0
load node.bash

setup_file() { make_image "$BATS_FILE_TMPDIR"; }
setup() { node_setup; }
teardown() { node_teardown; }

# The fake registry is the mirror of HOST.
mirror_of() { # HOST
	mkdir -p "$T/hosts/$1"
	cat >"$T/hosts/$1/hosts.toml" <<-EOF
		server = "https://$1"
		[host."http://$REGISTRY"]
		  capabilities = ["pull", "resolve"]
	EOF
}

requests() { grep -c '^GET' "$T/requests" || :; }

@test "an image whose registry does not exist comes lazily from its mirror" {
	mirror_of up.invalid
	node_start --hosts-dir "$T/hosts" --trust up.invalid=registry
	"$bootseer" image mount up.invalid/img:v1 "$T/mnt"
	diff <(cd "$T/mnt" && sha256sum top/data) \
		<(cd "$BATS_FILE_TMPDIR/bundle/rootfs" && sha256sum top/data)
	grep -q '/manifests/v1?ns=up.invalid ' "$T/requests"
	grep -q '/blobs/.*?ns=up.invalid ' "$T/requests"
	"$bootseer" image umount "$T/mnt"
}

@test "a hosts.toml that cannot be read is told with its line, and left aside" {
	mkdir -p "$T/hosts/_default"
	printf 'server = "https://a"\n[[x]]\n' >"$T/hosts/_default/hosts.toml"
	node_start --hosts-dir "$T/hosts"
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	grep -q "warning origin: no mirrors .*_default/hosts.toml.*line 2" "$T/log"
	"$bootseer" image umount "$T/mnt"
}

@test "a registry that asks for six hours is asked once, by all images" {
	node_start
	fault status=429 retry_after=21600
	run ! "$bootseer" image mount "$IMAGE" "$T/mnt"
	[ "$(requests)" -le 2 ]
	fault
	run ! "$bootseer" image mount "$REGISTRY/other:v1" "$T/mnt"
	[[ $output == *"asked for no more requests"* ]]
	[ "$(requests)" -le 2 ]
	run "$bootseer" node doctor
	[[ $output == *"registry not asked"*"$REGISTRY"* ]]
	"$bootseer" node status | grep -q "^registry .*$REGISTRY, not asked"
	run -0 "$bootseer" image explain "$REGISTRY/other:v1"
	[[ $output == *"starts the ordinary way"*"cure:"*"reached"* ]]
	kill -HUP "$node_pid"
	wait_for grep -q 'info main: reload' "$T/log"
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	"$bootseer" image umount "$T/mnt"
}

@test "an image that wants a login which the node has not says so, with the cure" {
	node_start
	fault basic=1
	run ! "$bootseer" image mount "$IMAGE" "$T/mnt"
	run -0 "$bootseer" image explain "$IMAGE"
	[[ $output == *"starts the ordinary way"*"cure:"*"login"*"pull secrets"* ]]
	run "$bootseer" node doctor
	[[ $output == *"ordinary start"*"$IMAGE"* ]]
}
