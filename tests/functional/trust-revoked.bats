#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Keys that sign images and are revoked by bootseer-registry: what the service
# takes and from whom, and what a node keeps of it.

bats_require_minimum_version 1.5.0
load node.bash
load registry.bash

KEY=$(printf '%064x' 1)
KEYS=/v1/trust/revoked

setup_file()
{
	make_image "$BATS_FILE_TMPDIR"
	PG_DIR=$(mktemp -d /var/tmp/trust-pg.XXXXXX)
	export PG_DIR
	chmod 755 "$PG_DIR"
	pg_init "$PG_DIR/pg"
}
teardown_file()
{
	pg_stop
	rm -rf "$PG_DIR"
}
setup() { node_setup; }
teardown()
{
	stop_all
	node_teardown
}

ask() { # CURL-OPTION...
	O=$BATS_TEST_TMPDIR/answer
	code=$(curl -sS -o "$O" -w '%{http_code}' "$@")
}
as() { ask -H "Authorization: Bearer $1" "${@:2}"; } # TOKEN CURL-OPTION...
token() { # NAME ROLES OPTION...
	echo "$1 sha256:$(printf %s "$1" | sha256sum | cut -c1-64) ${*:2}"
}

revoke_and_restore()
{
	local tag

	{ token boss read,write,admin
	  token mine admin repo=h/mine
	  token node read,write; } >"$W/tokens"
	service --tokens "$W/tokens"
	ask "$U$KEYS"
	[ "$code" = 401 ]
	as node "$U$KEYS"
	[ "$code" = 200 ]
	jq -e '.revoked == []' "$O"

	# Of an admin of all repositories alone.
	as node -X PUT "$U$KEYS/$KEY"
	[ "$code" = 403 ]
	as mine -X PUT "$U$KEYS/$KEY"
	[ "$code" = 403 ]
	as node -X DELETE "$U$KEYS/$KEY"
	[ "$code" = 403 ]
	as boss -X PUT "$U$KEYS/${KEY}0"
	[ "$code" = 400 ]
	as boss -X PUT "$U$KEYS/sha256:$KEY"
	[ "$code" = 400 ]
	as node "$U$KEYS"
	jq -e '.revoked == []' "$O"

	as boss -X PUT "$U$KEYS/$KEY"
	[ "$code" = 200 ]
	jq -e '.revoked == 1' "$O"
	as boss -X PUT "$U$KEYS/$KEY"
	[ "$code" = 200 ]
	jq -e '.revoked == 0' "$O"
	# Another replica knows, and says when nothing changed.
	service --tokens "$W/tokens"
	as node "$U$KEYS"
	jq -e --arg key "$KEY" '.revoked | length == 1 and .[0].key == $key and
		.[0].since > now - 600' "$O"
	tag=$(curl -fsSI -H 'Authorization: Bearer node' "$U$KEYS" |
		sed -n 's/^ETag: \(.*\)\r$/\1/p')
	as node -H "If-None-Match: $tag" "$U$KEYS"
	[ "$code" = 304 ]
	as boss -X DELETE "$U$KEYS/$KEY"
	jq -e '.restored == 1' "$O"
	as boss -X DELETE "$U$KEYS/$KEY"
	jq -e '.restored == 0' "$O"
	as node -H "If-None-Match: $tag" "$U$KEYS"
	[ "$code" = 200 ]
	jq -e '.revoked == []' "$O"
}

@test "an admin alone revokes a key and takes it back, on all replicas" {
	on_each_db revoke_and_restore
}

metric() { # NAME
	curl -fsS "http://127.0.0.1:$metrics/metrics" |
		sed -n "s/^bootseer_node_$1 //p"
}
counts() { [ "$(metric trust_revoked_keys)" = "$1" ]; } # N
start_with_metrics() { # OPTION...
	node_start --metrics 127.0.0.1:0 "$@"
	metrics=$(sed -n 's/.*main: metrics port=\([0-9]*\).*/\1/p' "$T/log" |
		tail -n 1)
}

@test "a node keeps what was revoked over a restart without the service" {
	kind=sqlite W=$T DB=sqlite:$T/registry.db
	umask 022
	{ token boss admin
	  token node read; } >"$T/tokens"
	service --tokens "$T/tokens"
	as boss -X PUT "$U$KEYS/$KEY"
	[ "$code" = 200 ]
	echo node >"$T/token"
	start_with_metrics --service "$U" --service-token-file "$T/token"
	wait_for counts 1
	grep -q "$KEY" "$T/root/trust-revoked"
	[ "$(stat -c %a "$T/root/trust-revoked")" = 600 ]
	# What comes meanwhile is there after a reload.
	as boss -X PUT "$U$KEYS/${KEY/0/f}"
	[ "$code" = 200 ]
	kill -HUP "$node_pid"
	wait_for counts 2
	kill "$node_pid"
	wait "$node_pid"

	stop_all
	start_with_metrics --service "$U" --service-token-file "$T/token"
	counts 2
	wait_for grep -q 'which keys are revoked is not told.*reason=' "$T/log"
	# The operator's own list counts besides.
	kill "$node_pid"
	wait "$node_pid"
	printf 'e%.0s' {1..64} >"$T/own"
	start_with_metrics --trust-revoked-file "$T/own"
	counts 3
	echo nonsense >"$T/own"
	kill -HUP "$node_pid"
	wait_for grep -q 'the old list of revoked keys stays reason=.*line 1' "$T/log"
	counts 3
	run -2 "$bootseerd" --trust-revoked-file "$T/own" --check-config
	[[ $output == *--trust-revoked-file*"line 1"* ]]
}

@test "a node that may not read the list says so" {
	kind=sqlite W=$T DB=sqlite:$T/registry.db
	token node write >"$T/tokens"
	service --tokens "$T/tokens"
	echo node >"$T/token"
	start_with_metrics --service "$U" --service-token-file "$T/token"
	wait_for grep -q 'trust: which keys are revoked is not told.*403' "$T/log"
	[ "$(metric trust_revoked_asked_seconds)" = 0 ]
}

@test "no service takes back what another one revoked" {
	local first

	kind=sqlite W=$T AUTH=--insecure-no-auth
	DB=sqlite:$T/first.db
	service
	first=$U
	ask -X PUT "$U$KEYS/$KEY"
	DB=sqlite:$T/second.db
	service
	start_with_metrics --service "$first" --p2p-tracker "$U" \
		--p2p-listen 127.0.0.1:0 --p2p-security open
	wait_for counts 1
	ask -X PUT "$U$KEYS/${KEY/0/f}"
	kill -HUP "$node_pid"
	wait_for counts 2
	# The first one goes; the second one's list is not the whole.
	kill "${services[0]}"
	wait "${services[0]}"
	ask -X DELETE "$U$KEYS/${KEY/0/f}"
	kill -HUP "$node_pid"
	wait_for counts 1
	grep -q "$KEY" "$T/root/trust-revoked"
	kill "$node_pid"
	wait "$node_pid"
	start_with_metrics --service "$first" --p2p-tracker "$U" \
		--p2p-listen 127.0.0.1:0 --p2p-security open
	wait_for grep -q 'which keys are revoked is not told' "$T/log"
	counts 1
	grep -q "$KEY" "$T/root/trust-revoked"
}

@test "a damaged list of revoked keys believes nobody until a service answers" {
	kind=sqlite W=$T DB=sqlite:$T/registry.db
	mkdir -p "$T/root"
	echo 'half a li' >"$T/root/trust-revoked"
	start_with_metrics
	grep -q '^error trust: every key counts as revoked' "$T/log"
	kill "$node_pid"
	wait "$node_pid"
	service --insecure-no-auth
	start_with_metrics --service "$U"
	wait_for grep -q '^# Keys' "$T/root/trust-revoked"
}
