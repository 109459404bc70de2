#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Environments whose blocks nodes have from each other.

bats_require_minimum_version 1.5.0
load node.bash
load p2p.bash
load env-nodes.bash

setup() { env_setup; }
teardown() { env_teardown; }

# The environment mounted on the node and compared with the one that was captured, all of it.
read_env() # NODE [OPTION...]
{
	in_node "$1" "set -e
		$(run_line "${@:2}") 2>$T/$1.said
		diff -r $T/site $T/maker.site
		$(printf '%q ' "$bootseer" env umount "$T/site")"
	grep -q '^bootseer env run: mounted ' "$T/$1.said"
	[ "$(grep -c . "$T/ran")" = 1 ]
}

@test "what one node has of an environment, the others have from it" {
	# 4,000 names, for metadata of several pieces.
	sed -i 's/split -b 800/split -b 200/' "$T/setup.sh"
	tracker_start
	capture
	env_peer a
	read_env a
	[ "$(peer_bytes a)" = 0 ]
	[ "$(origin_bytes a)" -ge 6000000 ]
	# The store has the manifest left, and no block.
	lose_blobs
	env_peer b
	read_env b
	[ "$(origin_bytes b)" = 0 ]
	[ "$(peer_bytes b)" -ge 6000000 ]
	# So had it the metadata, which is a swarm of its own.
	[ "$(p2p b '.images[] | select(.metadata) | .peer_bytes')" -ge 262144 ]
	# A third has them from both, or either; the first may be gone.
	peer_stop a
	env_peer c
	read_env c
	[ "$(origin_bytes c)" = 0 ]
	[[ $(p2p c '.images[0].name') == "$STORE/env/index/"* ]]
}

is_closed() # NODE
{
	[ -z "$(ls "$T/$1/root/environments")" ]
}

@test "an environment that was ordered is on the nodes that were named, all of it" {
	tracker_start
	capture
	env_peer a --service "$TRACKER"
	order() { # STORE OPTION...
		run --separate-stderr "$bootseer" env prefetch --service "$TRACKER" --wait 10m \
			"${@:2}" "$1" "$(ls "$T/store/env/index")"
		echo "$output $stderr"
	}
	order "$STORE" --nodes a
	[[ $status == 0 && $output == 'a: done, '* ]]
	# The node closes it when the service has its report.
	wait_for is_closed a
	# The store has the manifest left, and no block.
	lose_blobs
	read_env a
	# A node takes nothing of a store that nobody told it of.
	cp -a "$T/store" "$T/other"
	order "file://$T/other" --nodes a
	[[ $status == 1 && $output == *'a: failed'*env-store* ]]
	run -2 "$bootseer" env prefetch --nodes a "$STORE" 1
	run -2 "$bootseer" env prefetch --nodes all --wait 1s --service "$TRACKER" "$STORE" 1
}

# The same, unpacked by bootseerd's blocks; ended without a trace at bootseerd.
unpack_env() # NODE [OPTION...]
{
	in_node "$1" "set -e
		$(run_line --unpack "${@:2}") 2>$T/$1.said
		diff -r $T/site $T/maker.site"
	grep -q '^bootseer env run: restored ' "$T/$1.said"
	run -1 grep 'not of bootseerd' "$T/$1.said"
	[ "$(grep -c . "$T/ran")" = 1 ]
	[ -z "$(ls "$T/$1/root/environments")" ]
}

@test "an environment that is unpacked comes from other nodes, too" {
	tracker_start
	capture
	env_peer a
	unpack_env a
	[ "$(origin_bytes a)" -ge 6000000 ]
	lose_blobs
	env_peer b
	unpack_env b
	[ "$(origin_bytes b)" = 0 ]
	[ "$(peer_bytes b)" -ge 6000000 ]
	# Of one that is mounted, and by one that unpacked.
	peer_stop a
	env_peer c
	read_env c
	[ "$(origin_bytes c)" = 0 ]
	rm -rf "$T/c.site"
	unpack_env c
}

@test "a small environment is read of the store once, but for what leads to it" {
	tracker_start
	echo 'mkdir "$T/site/pkg"; echo 1 >"$T/site/pkg/a"; echo ran >>"$T/ran"' >"$T/setup.sh"
	capture
	env_peer a
	read_env a
	lose_layers
	env_peer b
	read_env b
	env_peer c
	unpack_env c
}

# bootseerd of the node, behind somebody who does something to what it says.
between() # NODE FAULT
{
	rm -f "$T/between" # says ready, of the one before
	python3 "$BATS_TEST_DIRNAME/between-node.py" "$T/$1.between" \
		"$T/$1/run/bootseerd.sock" "$2" >"$T/between" 2>&1 3>&- &
	pids+=("$!")
	wait_for grep -q ready "$T/between"
}

unpack_between() # NODE
{
	in_node "$1" "set -e
		BOOTSEER_SOCKET=$T/$1.between $(run_line --unpack) 2>$T/$1.said
		diff -r $T/site $T/maker.site"
	grep -q '^bootseer env run: restored ' "$T/$1.said"
	[ "$(grep -c . "$T/ran")" = 1 ]
}

@test "wrong bytes of bootseerd are not unpacked: the store has them right" {
	tracker_start
	capture
	env_peer a
	between a ""
	unpack_between a
	run -1 grep 'not of bootseerd' "$T/a.said"
	[ "$(grep -c environment.read "$T/between")" -ge 2 ]
	env_peer b
	between b blocks
	unpack_between b
	grep -q 'not of bootseerd: .*: the store is read' "$T/b.said"
	env_peer c
	between c metadata
	unpack_between c
	grep -q 'not of bootseerd: the metadata that is given is wrong: the store is read' "$T/c.said"
	run -1 grep environment.read "$T/between"
	# A bootseerd of before gives nothing, and nobody expects it to.
	env_peer d
	between d before
	unpack_between d
	run -1 grep 'not of bootseerd' "$T/d.said"
}

@test "when bootseerd is killed meanwhile the rest comes from the store" {
	tracker_start
	capture
	env_peer a
	between a "kill:${node_pids[a]}"
	unpack_between a
	grep -q 'not of bootseerd: .*: the store is read' "$T/a.said"
	[ "$(grep -c environment.read "$T/between")" = 1 ]
}

has_no_peers() { [ "$(p2p "$1" '[.peers[] | select(.up)] | length')" = 0 ]; } # NAME

@test "a node that may not read the store gets no block of it from those that may" {
	local served

	tracker_with_stores
	capture
	rightful a in
	read_env a
	rightful b in
	# A node that is slow would read it there, too.
	without_blobs read_env b
	[ "$(origin_bytes b)" = 0 ]
	# Whom it gave them to is gone: what was on its way counts for nobody else.
	peer_stop b
	wait_for has_no_peers a
	served=$(p2p a .totals.served_bytes)
	[ "$served" -ge 6000000 ]
	# It knows store and snapshot, and even has another way to the blocks.  The tracker gives
	# it no capability, and nodes nothing without one.
	rightful x out
	read_env x
	[ "$(peer_bytes x)" = 0 ]
	wait_for grep -q "p2p: no capability, the registry is read $(
	)image=\"$STORE/env/index/.*does not say for out: stores=$STORE" "$T/x/log"
	run -0 on x p2p status
	[[ $output == *"does not say for out: stores=$STORE"* ]]
	# A capability of another store is none: the same snapshot, by another name.
	ln -s . "$T/store/else"
	STORE=$STORE/else rightful y else
	STORE=$STORE/else read_env y
	[ "$(peer_bytes y)" = 0 ]
	[ "$(p2p a .totals.served_bytes)" = "$served" ]
}

# What the tracker answers a node that wants a capability for the snapshot.
wish() # REPO [AUTHORIZATION]
{
	local image

	image=$(p2p a '.images[0].id')
	curl -sS -H "Authorization: Bearer $(cat "$T/token.in")" -d "{
		\"image\": \"$image\", \"node\": \"a\", \"repo\": \"$1\",
		\"authorization\": \"${2-}\"}" "$TRACKER/v1/capabilities"
}

@test "of a store that is a registry's, the registry says which node may read it" {
	local hash

	hash=$(python3 -W ignore -c 'import crypt; print(crypt.crypt("secret",
		"$2b$05$abcdefghijklmnopqrstuu"))')
	echo "user:$hash" >"$T/htpasswd"
	repo_server "$T" true "$T/htpasswd"
	printf '{"auths":{"%s":{"auth":"%s"}}}' "$AT" \
		"$(printf user:secret | base64)" >"$T/auth.json"
	tracker_with_stores --registry "$AT" --registry-plain-http
	STORE="docker://$AT/team/env?plain-http=yes&auth-file=$T/auth.json"
	capture
	rightful a out
	read_env a
	[ "$(origin_bytes a)" -ge 6000000 ]
	rightful b out
	without_blobs read_env b
	[ "$(origin_bytes b)" = 0 ]
	[ "$(peer_bytes b)" -ge 6000000 ]
	# Neither without credentials, nor where the registry has no such snapshot; the tokens
	# file has no say in it.
	[[ $(wish "docker://$AT/team/env" "Basic $(printf user:secret | base64)") == *'"capability"'* ]]
	[[ $(wish "docker://$AT/team/env") == *"does not let it pull"* ]]
	[[ $(wish "docker://$AT/team/env" "Basic $(printf user:no | base64)") == *"does not let it pull"* ]]
	[[ $(wish "docker://$AT/team/x" "Basic $(printf user:secret | base64)") == *"no such image"* ]]
	# Options, in which there may be secrets, are told nobody.
	run -1 grep auth-file "$T/tracker.log"
	curl -fsS -H "Authorization: Bearer $(cat "$T/token.in")" "$TRACKER/v1/swarms" >"$T/swarms"
	run -1 grep auth-file "$T/swarms"
}

@test "of a second version a node fetches what changed, from a node that has the first" {
	local before

	tracker_start
	capture
	env_peer a
	read_env a
	before=$(origin_bytes a)
	# As the first, but for one file more of 100,000 bytes.
	rm "$T/ran"
	echo 'head -c 100000 "$T/site/big.so" | tac >"$T/site/new"' >>"$T/setup.sh"
	in_node second "unset BOOTSEER_SOCKET; $(run_line --key version=2)"
	rm -r "$T/maker.site"
	mv "$T/second.site" "$T/maker.site"
	rm -rf "$T/a.site"
	read_env a --key version=2
	[ "$(origin_bytes a)" -lt $((before + 1000000)) ]
	# Who has nothing has all of it from there, also what came with the first.
	lose_blobs
	env_peer b
	read_env b --key version=2
	[ "$(origin_bytes b)" = 0 ]
	[ "$(peer_bytes b)" -ge 6000000 ]
}

@test "what bootseerd opened and nobody heard of is ended" {
	capture
	env_peer a
	between a silent
	unpack_between a
	grep -q 'not of bootseerd: .*: the store is read' "$T/a.said"
	[ "$(cat "$T/between")" = "$(printf '%s\n' ready environment.open environment.umount)" ]
	[ -z "$(ls "$T/a/root/environments")" ]
}

# Of the environment that was captured, by a node without peers.
ask() # METHOD NAME
{
	local index

	index=$(ls "$T/store/env/index")
	call "environment.$1" "$(jq -c --arg store "$STORE" --arg key "sha256:$index" \
		--arg name "$2" --arg method "$1" 'if $method == "umount" then {$name}
		else {$store, $key, folder, manifest, shared_packs: true, $name} end' \
		"$T/store/env/index/$index")"
}

image() { status ".images[0]$1"; } # FILTER
is_fetched() { [ "$(image .prefetch.phase)" = cold ]; }
noted() { jq -r '.prefetch // "none"' "$T"/root/images/*/state.json; }

@test "what nobody unpacks any more is not fetched on, unless it was ordered" {
	local one=11111111111111111111111111111111 two=22222222222222222222222222222222

	capture
	export BOOTSEER_SOCKET=$T/run/bootseerd.sock
	# A piece comes at once, the next one would after a quarter of an hour.
	node_start --env-store "$STORE" --cold-rate 4096
	ask open "$one" | grep '"meta"'
	wait_for is_fetched
	ask open "$two" | grep '"meta"'
	# A restart does not go on with it.
	[ "$(noted)" = none ]
	ask umount "$one" | grep '"released": *1'
	is_fetched
	ask umount "$two" | grep '"released": *1'
	[ "$(image .prefetch.phase)" = stopped ]
	# It begins again for the next one.
	ask open "$one" | grep '"meta"'
	wait_for is_fetched
	call image.prefetch "{\"id\":\"$(image .id)\",\"what\":\"all\"}" | grep '"result"'
	ask umount "$one" | grep '"released": *1'
	is_fetched
	[ "$(noted)" = all ]
	# Nor does whoever comes behind an order take it along.
	ask open "$two" | grep '"meta"'
	ask umount "$two" | grep '"released": *1'
	is_fetched
	[ "$(noted)" = all ]
}
