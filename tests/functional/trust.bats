#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Whose artifacts a node uses (docs/trust.md): each test plays somebody who has
# no more than an ordinary tenant has, against a real registry, containerd and
# bootseerd.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../call.bash"
. "$BATS_TEST_DIRNAME/../containerd/lib.bash"
. "$BATS_TEST_DIRNAME/../containerd/trust.bash"

setup_file() { make_tenants "$BATS_FILE_TMPDIR"; }
setup() {
	containerd_setup
	push_tenants
}
teardown() {
	umount -l "$T/mnt" 2>/dev/null || :
	containerd_teardown
}

prepare() { call image.prepare "{\"ref\":\"$1\"}"; } # REF

mount_and_read() { # REF
	mkdir -p "$T/mnt"
	"$bootseer" image mount "$1" "$T/mnt" || return
	cat "$T/mnt/srv/one/deep/file"
	"$bootseer" image umount "$T/mnt"
}

refused() { grep -c '^warning trust: image=' "$T/node.log" || :; }

@test "a tenant's forged artifact of a public image reaches nobody" {
	forged_artifact_reaches_nobody
}

@test "what is believed in one repository is not shared with others" {
	what_is_believed_in_one_place_stays_there
}

@test "a signed image starts lazily by the default rules" {
	signed_image_is_lazy
}

@test "a snapshotter of its own has what is believed in its scope only" {
	forge tenant/lazy:1
	EXTRA_CONFIG="[proxy_plugins.tenant]
		type = \"snapshot\"
		address = \"$T/tenant.sock\""
	start_node --trust '*=sign' --trust "$REGISTRY/tenant=registry"
	start_daemon "$T/plugin.log" "$plugin" --root "$T/tenant" \
		--address "$T/tenant.sock" --node "$T/node.sock" \
		--containerd-state "$T/ctd/state" --scope "$REGISTRY/tenant"
	wait_until "$daemon_pid" test -S "$T/tenant.sock"
	start_plugin
	start_containerd
	ctr-remote images rpull --plain-http --snapshotter tenant \
		"$REGISTRY/tenant/lazy:1"
	[ "$(layers_fetched tenant/lazy)" -eq 0 ]
	# He believes himself, and has what he asked for.
	[ "$(in_container tenant tenant/lazy "$WHOSE")" = forged ]
	# An image of somebody else with layers that are not here yet.
	push "$I" plain
	run ctr-remote images rpull --plain-http --snapshotter tenant \
		"$REGISTRY/plain:1"
	[ "$status" -ne 0 ]
	[[ $output == *"is none of '$REGISTRY/tenant'"* ]]
	# The public image by the snapshotter for everybody.
	pull_lazy lazy
	[ "$(in_container bootseer lazy "$WHOSE")" = one ]
}

@test "an artifact that claims to replace the signed one replaces nothing" {
	local digest

	digest=$(manifest_of "$I" lazy)
	forge lazy:1 --replace
	start_node
	[ "$(mount_and_read "$REGISTRY/lazy@$digest")" = one ]
	[ "$(mount_and_read "$REGISTRY/lazy:1")" = one ]
}

@test "of a digest nothing is mounted when only a stranger made an artifact" {
	push "$I" plain
	convert_image plain --no-sign
	start_node
	run ! mount_and_read "$REGISTRY/plain@$(manifest_of "$I" plain)"
	[[ $output == *"not trusted"* ]]
	[ -z "$(find "$T/noderoot/images" -name meta.erofs)" ]
}

@test "a private image is not found by way of a foreign repository" {
	local port foreign

	/usr/bin/python3 "$BATS_TEST_DIRNAME/foreign-registry.py" \
		"$REGISTRY" lazy 1 "$T/foreign.port" >"$T/foreign.log" 2>&1 3>&- &
	pids+=("$!")
	wait_until "$!" test -s "$T/foreign.port"
	foreign=127.0.0.1:$(cat "$T/foreign.port")
	start_node --plain-http "$foreign" --trust '*=sign' \
		--trust "$foreign=registry"
	prepare "$REGISTRY/lazy:1" | jq -e .result.id
	# The foreign one has every JSON text, and not a byte of the image.
	run -0 prepare "$foreign/lazy:1"
	jq -e .error.errno <<<"$output"
	grep -q 'GET .*/blobs/' "$T/foreign.log"
	# By digest the node asks no registry for what it has.
	prepare "$REGISTRY/lazy@$(manifest_of "$I" lazy)" | jq -e .result.id
	run -0 prepare "$foreign/lazy@$(manifest_of "$I" lazy)"
	jq -e .error.errno <<<"$output"
}

@test "a registry that does not say who signed keeps no reload waiting" {
	local artifact

	artifact=$("$bootseer" image inspect --plain-http \
		"docker://$REGISTRY/lazy:1" | jq -r .artifact)
	/usr/bin/python3 "$BATS_TEST_DIRNAME/foreign-registry.py" \
		"$REGISTRY" lazy 1 "$T/foreign.port" "/manifests/${artifact/:/-}" \
		>"$T/foreign.log" 2>&1 3>&- &
	pids+=("$!")
	wait_until "$!" test -s "$T/foreign.port"
	foreign=127.0.0.1:$(cat "$T/foreign.port")
	start_node --plain-http "$foreign" --prepare-timeout 1h \
		--stall-timeout 10m
	prepare "$foreign/lazy:1" >/dev/null 2>&1 3>&- &
	pids+=("$!")
	wait_until "$node_pid" grep -q hangs "$T/foreign.log"
	kill -HUP "$node_pid"
	wait_until "$node_pid" grep -q '^info main: reloaded' "$T/node.log"
	call node.status '{}' | jq -e .result.version
}

@test "a revoked key ends what it allowed, and the next start is ordinary" {
	: >"$T/revoked"
	start_node --trust-revoked-file "$T/revoked"
	start_plugin
	start_containerd
	pull_lazy lazy
	[ "$(in_container bootseer lazy "$WHOSE")" = one ]
	[ "$(layers_fetched lazy)" -eq 0 ]
	"$bootseer" key show "$I/key.pub" |
		grep -oE '[0-9a-f]{64}' | head -n 1 >"$T/revoked.new"
	mv "$T/revoked.new" "$T/revoked"
	kill -HUP "$node_pid"
	wait_until "$node_pid" grep -q '^info main: reloaded' "$T/node.log"
	prepare "$REGISTRY/lazy:1" | jq -e .error.errno
	[ "$(in_container bootseer lazy "$WHOSE")" = one ]
	[ "$(layers_fetched lazy)" -gt 0 ]
	run -0 "$bootseer" image explain "$REGISTRY/lazy:1"
	[[ $output == *"starts the ordinary way"*revoked* ]]
}

@test "an image of an index that is signed anew is lazy again" {
	local digest

	"$BATS_TEST_DIRNAME/make-image.py" "$T/index" index
	"$bootseer" image convert --plain-http --platform all --sign "$I/key" \
		"oci:$T/index:latest" "docker://$REGISTRY/two:1" >/dev/null
	digest=$(skopeo inspect --tls-verify=false --raw \
		"docker://$REGISTRY/two:1" | sha256sum | cut -d' ' -f1)
	"$bootseer" key new "$T/next" >/dev/null
	cat "$I/key.pub" "$T/next.pub" >"$T/keys"
	: >"$T/revoked"
	start_node --trust-keys "$T/keys" --trust-revoked-file "$T/revoked"
	prepare "$REGISTRY/two:1" | jq -e .result.id
	"$bootseer" key show "$I/key.pub" |
		grep -oE '[0-9a-f]{64}' | head -n 1 >"$T/revoked.new"
	mv "$T/revoked.new" "$T/revoked"
	kill -HUP "$node_pid"
	wait_until "$node_pid" grep -q '^info main: reloaded' "$T/node.log"
	prepare "$REGISTRY/two:1" | jq -e .error.errno
	run -0 "$bootseer" image explain "$REGISTRY/two:1"
	[[ $output == *"starts the ordinary way"* ]]
	"$bootseer" image sign --plain-http --key "$T/next" \
		"docker://$REGISTRY/two:1"
	# The tag leads to the index, which the node knows the image by.
	run -0 prepare "$REGISTRY/two:1"
	jq -e .result.id <<<"$output"
	# What is over is told by nobody.
	run -0 "$bootseer" image explain "$REGISTRY/two:1"
	[[ $output != *"starts the ordinary way"* ]]
	"$bootseer" node doctor >"$T/doctor" || :
	run ! grep 'ordinary start' "$T/doctor"
	run -0 prepare "$REGISTRY/two@sha256:$digest"
	jq -e .result.id <<<"$output"
}

@test "what no rule allows starts the ordinary way, and that is said once" {
	forge lazy-copy:1
	start_tenants_node --trust "$REGISTRY/elsewhere=registry"
	cri pull "$REGISTRY/lazy-copy:1"
	cri pull "$REGISTRY/lazy:1"
	prepare "$REGISTRY/lazy:1" | jq -e .error.errno
	prepare "$REGISTRY/lazy:1" | jq -e .error.errno
	[ "$(grep -c "^warning trust: image=\"$REGISTRY/lazy:1\"" \
		"$T/node.log")" = 1 ]
	[ "$(layers_fetched lazy-copy)" -gt 0 ]
	run -0 "$bootseer" image explain "$REGISTRY/lazy-copy:1"
	[[ $output == *"starts the ordinary way"*"no --trust rule"* ]]
	"$bootseer" node doctor >"$T/doctor" || :
	grep -q "ordinary start.*lazy-copy:1.*no --trust rule" "$T/doctor"
}

# lazy:1 in repository NAME of the registry, signed as the options say.
put_signed() { # NAME OPTION...
	"$bootseer" image convert --plain-http "${@:2}" \
		"docker://$REGISTRY/lazy:1" "docker://$REGISTRY/$1:1" >/dev/null
}

@test "doctor names a cure for each reason of an ordinary start" {
	local name words elsewhere=localhost:${REGISTRY##*:}

	"$bootseer" key new "$T/second" >/dev/null
	for name in off unknown expired little; do
		put_signed "$name" --sign "$I/key"
	done
	put_signed revoked --sign "$T/second"
	put_signed other --sign "$I/key" --repository reg.example/other
	"$bootseer" key show "$T/second" |
		grep -oE '[0-9a-f]{64}' | head -n 1 >"$T/revoked"
	cat "$I/key.pub" "$T/second.pub" >"$T/both.pem"
	{ echo 'not-after: 2020-01-01'; cat "$I/key.pub"; } >"$T/old.pem"
	start_node --trust "$REGISTRY=sign:$T/both.pem" \
		--trust "$REGISTRY/off=off" \
		--trust "$REGISTRY/unknown=sign:$T/second.pub" \
		--trust "$REGISTRY/expired=sign:$T/old.pem" \
		--trust "$REGISTRY/little=verified" \
		--trust-revoked-file "$T/revoked"
	for name in evil off unknown expired little revoked other; do
		prepare "$REGISTRY/$name:1" | jq -e .error.errno
	done
	prepare "$elsewhere/lazy:1" | jq -e .error.errno
	"$bootseer" node doctor >"$T/doctor" || :
	while read -r name words; do
		echo "$name: $words"
		grep -A1 "ordinary start.*/$name:1: " "$T/doctor" >"$T/of"
		grep -qF -- "$words" "$T/of"
		[ "$(grep -cF -- "$words" "$T/doctor")" = 1 ]
	done <<-'END'
		lazy add a rule for its repository to trust
		off change that rule and restart bootseerd
		evil sign it with 'bootseer image sign' and a key
		unknown add the signer's .pub file to trust-keys
		revoked sign it with another key;
		expired sign it anew
		other bootseer image sign --repository', if it may
		little bootseer image verify', with a key whose
	END
}

@test "verified wants a comparison with the layers, not only a signature" {
	start_node --trust '*=verified'
	run ! mount_and_read "$REGISTRY/lazy:1"
	[[ $output == *"not trusted"* ]]
	"$bootseer" key new "$T/verify" --uses verify
	cat "$I/key.pub" "$T/verify.pub" >"$T/both.pub"
	"$bootseer" image verify --plain-http --key "$T/verify" \
		"docker://$REGISTRY/lazy:1"
	# Now it was compared, by somebody whom this node does not know.
	run ! mount_and_read "$REGISTRY/lazy:1"
	[[ $output == *"was compared with the layers and signed with key"*"not of the trusted keys"* ]]
	"$bootseer" node doctor >"$T/doctor" || :
	grep -q "add the signer's .pub file to trust-keys" "$T/doctor"
	stop_daemon "$node_pid"
	start_node --trust "*=verified:$T/both.pub"
	[ "$(mount_and_read "$REGISTRY/lazy:1")" = one ]
	# Nobody verifies a forgery.
	forge tenant/lazy:1
	run ! "$bootseer" image verify --plain-http --key "$T/verify" \
		"docker://$REGISTRY/tenant/lazy:1"
	[[ $output == *srv/one/deep/file* ]]
	run ! mount_and_read "$REGISTRY/tenant/lazy:1"
}

@test "a node without keys says so, and what to do" {
	rm -f "$T/none.pem"
	start_node --trust "*=sign:$T/none.pem"
	run ! mount_and_read "$REGISTRY/lazy:1"
	[[ $output == *"no keys"* ]]
	grep -q "^warning trust: no keys file=\"$T/none.pem\".*cure=" "$T/node.log"
	"$bootseer" node doctor >"$T/doctor" || :
	grep -q "^advice *trust .*$T/none.pem" "$T/doctor"
	grep -q 'ordinary start' "$T/doctor"
	# Another policy: the next start of each image says what it makes of it.
	cp "$I/key.pub" "$T/none.pem"
	kill -HUP "$node_pid"
	wait_until "$node_pid" grep -q '^info main: reloaded' "$T/node.log"
	"$bootseer" node doctor >"$T/doctor" || :
	run ! grep 'ordinary start' "$T/doctor"
}
