#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The index of environments in bootseer-registry: its routes on both databases, and
# `bootseer env run --service`. A node is a mount namespace of its own, in which $N/site is
# the node's folder.

bats_require_minimum_version 1.5.0
load ../wait.bash

bootseer=$BOOTSEER_BUILD/cli/bootseer

setup_file()
{
	. "$BATS_TEST_DIRNAME/registry.bash"
	pg_of_file
}

teardown_file()
{
	. "$BATS_TEST_DIRNAME/registry.bash"
	pg_end_of_file
}

setup()
{
	. "$BATS_TEST_DIRNAME/registry.bash"
	N=$BATS_TEST_TMPDIR
	W=$N
	DB=sqlite:$N/registry.db
	STORE=file://$N/store
	mkdir "$N/store" "$N/site"
	export N
	cd "$N"
	mkfifo go
	cat >setup.sh <<-'EOT'
		echo "$1" >>"$N/ran"
		mkdir -p "$N/site/pkg"
		echo hello >"$N/site/pkg/a.py"
	EOT
	# The same, but it says that it runs, and goes on when it is told to.
	cat >slow.sh <<-'EOT'
		. "$N/setup.sh"
		[ -e "$N/once" ] && exit
		touch "$N/once"
		read -r answer <"$N/go"
		exit "$answer"
	EOT
}

teardown()
{
	local p

	cd /
	kill_jobs
	[ -n "${BATS_TEST_COMPLETED:-}" ] || cat "$N"/*.err "$W"/log.* 2>/dev/null | sed 's/^/# /' >&3
}

# `bootseer env run` on the node, in whose folder the target is.
on() # NODE [OPTION...] -- COMMAND...
{
	local node=$1

	shift
	mkdir -p "$N/$node"
	# shellcheck disable=SC2016
	exec unshare --mount sh -c 'mount --bind "$N/$0" "$N/site" && exec "$@"' \
		"$node" "$bootseer" env run --store "$STORE" --target "$N/site" \
		--service "$U" "$@"
}

env_run() { (on "$@"); } # NODE [OPTION...] -- COMMAND...

ls_env() { "$bootseer" env ls --service "$U" "$@" "$STORE"; }

# What the service knows of the store.
known() { curl -fsS -m 60 -G --data-urlencode "repo=$STORE" "$U/v1/env"; }

the_key() { ls_env | cut -d' ' -f1; }

# --- routes -------------------------------------------------------------------

# STATUS METHOD PATH [BODY]; the answer is in $O.
call() # STATUS METHOD PATH [BODY]
{
	ask -X "$2" ${TOKEN:+-H} ${TOKEN:+"Authorization: Bearer $TOKEN"} \
		${4:+-H} ${4:+'Content-Type: application/json'} ${4:+-d} ${4:+"$4"} "$U/v1/env$3"
	[ "$code" = "$1" ] || { echo "$2 $3: $code"; cat "$O"; return 1; }
}

said() { [ "$(jq -c "$1" "$O")" = "$2" ] || { cat "$O"; return 1; }; } # JQ WANTED

K=sha256:$(printf '1%.0s' {1..64})
C1=$(printf '1%.0s' {1..32})
C2=$(printf '2%.0s' {1..32})

a_life()
{
	local first second

	service
	call 200 GET "/$K?repo=s3://b/e"
	said '[.snapshot, .lease, .failures]' '[null,null,0]'
	call 200 POST "/$K/lease?repo=s3://b/e" '{"by": "n1:7", "ttl_ms": 600000}'
	said .state '"yours"'
	first=$(jq .generation "$O")
	call 200 POST "/$K/lease?repo=s3://b/e" '{"by": "n2:7", "ttl_ms": 600000}'
	said '[.state, .lease.by]' '["held","n1:7"]'
	# Another store's is another.
	call 200 POST "/$K/lease?repo=s3://b/other" '{"by": "n2:7", "ttl_ms": 600000}'
	said .state '"yours"'
	call 200 PUT "/$K/lease?repo=s3://b/e&generation=$first"
	said .renewed 1
	call 200 PUT "/$K/lease?repo=s3://b/e&generation=1"
	said .renewed 0
	call 200 DELETE "/$K/lease?repo=s3://b/e&generation=$first&failed=1"
	said .dropped 1
	call 200 POST "/$K/lease?repo=s3://b/e" '{"by": "n2:7", "ttl_ms": 600000, "failures": 0}'
	said .state '"failed"'
	call 200 POST "/$K/lease?repo=s3://b/e" '{"by": "n2:7", "ttl_ms": 600000}'
	said '[.state, .failures]' '["yours",1]'
	second=$(jq .generation "$O")
	[ "$second" -gt "$first" ]
	published="{\"capture\": \"$C1\", \"description\": \"$A\", \"by\": \"n2\",
		\"program\": \"pip\", \"stored\": 5}"
	call 200 PUT "/$K?repo=s3://b/e&generation=$first" "$published"
	said .published 0
	call 200 PUT "/$K?repo=s3://b/e&generation=$second" "$published"
	said .published 1
	call 200 DELETE "/$K/lease?repo=s3://b/e&generation=$second"
	call 200 GET "/$K?repo=s3://b/e"
	said '.snapshot | [.capture, .description, .stored, .bad, .pinned]' \
		"[\"$C1\",\"$A\",5,\"\",false]"
	call 200 POST "/$K/lease?repo=s3://b/e" '{"by": "n1:8", "ttl_ms": 600000}'
	said .state '"made"'
	call 200 POST "/$K?repo=s3://b/e&capture=$C2" '{"what": "bad", "why": "n1: no"}'
	said .noted 0
	call 200 POST "/$K?repo=s3://b/e&capture=$C1" '{"what": "bad", "why": "n1: no"}'
	said .noted 1
	call 200 POST "/$K?repo=s3://b/e&capture=$C1" '{"what": "used"}'
	call 200 PUT "/$K/pin?repo=s3://b/e"
	call 200 GET '?repo=s3://b/e&begins=11'
	said '.environments | map([.key, .bad, .pinned])' "[[\"$K\",\"n1: no\",true]]"
	call 200 GET '?repo=s3://b/e&begins=12'
	said '.environments' '[]'
	call 200 GET "?repo=s3://b/e&after=$K"
	said '.environments' '[]'
	call 200 DELETE "/$K/pin?repo=s3://b/e"
	# One that will not do is replaced, and only that one.
	call 200 POST "/$K/lease?repo=s3://b/e" \
		"{\"by\": \"n1:8\", \"ttl_ms\": 600000, \"instead\": \"$C2\"}"
	said .state '"made"'
	call 200 POST "/$K/lease?repo=s3://b/e" \
		"{\"by\": \"n1:8\", \"ttl_ms\": 600000, \"instead\": \"$C1\"}"
	said .state '"yours"'
	call 200 DELETE "/$K?repo=s3://b/e"
	said .removed 1
	call 200 GET "/$K?repo=s3://b/e"
	said '[.snapshot, .lease]' '[null,null]'
	call 400 POST "/$K/lease?repo=s3://b/e" '{"by": "n1:8", "ttl_ms": 1}'
	call 400 POST "/$K/lease?repo=s3://b/e" '{"by": "n\u001b", "ttl_ms": 600000}'
	call 400 POST "/$K?repo=s3://b/e&capture=$C1" '{"what": "eaten"}'
	call 400 GET "/$K?repo="
}

@test "a snapshot that the store's own index has not got is told of" {
	service
	mkdir -p "$N/store/env"
	: >"$N/store/env/index"
	run -0 --separate-stderr env_run a -- sh "$N/setup.sh" x
	[[ $stderr == *"the store's own index has not got the snapshot, which 'env gc' removes in two days"* ]]
	[[ $stderr == *captured* ]]
	run -0 --separate-stderr env_run b -- sh "$N/setup.sh" x
	[[ $stderr == *restored* ]]
	[ "$(wc -l <"$N/ran")" = 1 ]
}

@test "a key has one captor at a time, and the snapshot that it publishes" {
	on_each_db a_life
}

restarted()
{
	local mine

	service
	call 200 POST "/$K/lease?repo=s3://b/e" '{"by": "n1:7", "ttl_ms": 600000}'
	mine=$(jq .generation "$O")
	end_service KILL
	service
	call 200 POST "/$K/lease?repo=s3://b/e" '{"by": "n2:7", "ttl_ms": 600000}'
	said .state '"held"'
	call 200 PUT "/$K/lease?repo=s3://b/e&generation=$mine"
	said .renewed 1
}

@test "a lease outlives the service that gave it" {
	on_each_db restarted
}

tokens() # LINE...
{
	local name secret rest

	for line; do
		read -r name secret rest <<<"$line"
		echo "$name sha256:$(printf %s "$secret" | sha256sum | cut -c1-64) $rest"
		printf %s "$secret" >"$N/$name.token"
	done >"$N/tokens"
}

@test "tokens say what is done, and with which stores" {
	tokens 'reader r-token read' 'writer w-token read,write repo=h/team' \
		'other o-token read,write' 'boss a-token read,admin'
	service --tokens "$N/tokens"
	TOKEN=r-token
	call 200 GET "/$K?repo=h/team/env"
	call 403 POST "/$K/lease?repo=h/team/env" '{"by": "n1:7", "ttl_ms": 600000}'
	[[ $(jq -r .error.message "$O") == *"'reader' has not the role for this: write"* ]]
	call 403 DELETE "/$K?repo=h/team/env"
	TOKEN=w-token
	call 403 GET "/$K?repo=h/teams/env"
	call 403 GET '?repo=h'
	call 403 PUT "/$K/pin?repo=h/team/env"
	call 200 POST "/$K/lease?repo=h/team/env" '{"by": "n1:7", "ttl_ms": 600000}'
	mine=$(jq .generation "$O")
	# A lease is of the token that took it.
	TOKEN=o-token
	call 200 DELETE "/$K/lease?repo=h/team/env&generation=$mine"
	said .dropped 0
	TOKEN=a-token
	call 403 POST "/$K/lease?repo=h/team/env" '{"by": "n1:7", "ttl_ms": 600000}'
	call 200 DELETE "/$K?repo=h/team/env"
	TOKEN=w-token
	call 200 PUT "/$K/lease?repo=h/team/env&generation=$mine"
	said .renewed 0
}

# --- env run ------------------------------------------------------------------

# $first runs the command until it is told how to end, by `go`, and $second waits for it.
two_captors() # [OPTION OF THE SECOND...]
{
	on a ${first_lease:+--lease "$first_lease"} -- sh slow.sh x 2>a.err &
	first=$!
	wait_for test -e once
	on b "$@" -- sh slow.sh x 2>b.err &
	second=$!
	wait_for grep -qE 'another node \([^ ]+:[0-9]+\) runs the command' b.err
}

@test "of two captors one runs the command, and the other has what it made" {
	local first second

	service
	two_captors
	echo 0 >go
	wait_all "$first" "$second"
	[ "$(cat ran)" = x ]
	grep -q captured a.err
	grep -q restored b.err
	diff -r a b
	[ "$(known | jq '.environments | length')" = 1 ]
	# The store has no lease of its own, and an index for nodes without the service.
	[ ! -e store/env/lease ]
	[ "$(ls store/env/index)" = "$(known | jq -r '.environments[0].key[7:]')" ]
}

@test "those that wait for a command that fails run it at once" {
	local first second

	service
	two_captors
	echo 7 >go
	wait "$second"
	status=0
	wait "$first" || status=$?
	[ "$status" = 7 ]
	[ "$(cat ran)" = $'x\nx' ]
	grep -q 'another node that ran it made no snapshot: the command is run' b.err
	[ "$(known | jq '.environments | length')" = 0 ]
}

@test "a service that is killed while a command runs harms nobody" {
	local first second

	service
	two_captors --lease 1s
	end_service KILL
	# Without the service for a lease's time the second goes by the store.
	wait_for grep -q 'own index is used' b.err
	wait "$second"
	echo 0 >go
	wait "$first"
	diff -r a b
	grep -q captured b.err
	grep -q "own index is used" a.err
	# Who comes now has it by the store's own index.
	run -0 --separate-stderr env_run c -- sh slow.sh x
	[[ $stderr == *"own index is used"*restored* ]]
	[ "$(wc -l <<<"$stderr")" = 2 ]
	diff -r a c
	[ "$(cat ran)" = $'x\nx' ]
	"$bootseer" env verify "$STORE" | grep -q good
}

@test "a service that starts again while a command runs is asked again" {
	local first second port first_lease=10m

	ADDRESS=$(own_address)
	service
	port=${U##*:}
	two_captors --lease 10m
	end_service KILL
	service --listen "$ADDRESS:$port"
	echo 0 >go
	wait_all "$first" "$second"
	[ "$(cat ran)" = x ]
	grep -q restored b.err
	! grep 'own index' a.err b.err || false
	[ "$(known | jq '.environments | length')" = 1 ]
}

@test "a token without the role has the command run, and nothing kept" {
	tokens 'reader r-token read' 'writer w-token read,write'
	service --tokens "$N/tokens"
	run -0 --separate-stderr env_run a --token-file reader.token -- sh setup.sh x
	[[ $stderr == *"'reader' has not the role for this: write"*': the command is run' ]]
	[ "$(wc -l <<<"$stderr")" = 1 ]
	run -0 --separate-stderr env_run b -- sh setup.sh x
	[[ $stderr == *'a valid token is needed'*': the command is run' ]]
	[ ! -e store/env/index ]
	run -0 --separate-stderr env_run c --token-file writer.token -- sh setup.sh x
	[[ $stderr == *captured* ]]
	run -0 --separate-stderr env_run d --token-file reader.token -- sh setup.sh x
	[[ $stderr == 'bootseer env run: restored '* ]]
	[ "$(cat ran)" = $'x\nx\nx' ]
	diff -r a d
	# Nor does it remove or pin anything.
	run -1 --separate-stderr "$bootseer" env rm --service "$U" --token-file writer.token \
		"$STORE" "$(basename store/env/index/*)"
	[[ $stderr == *"'writer' has not the role for this: admin"* ]]
	[ -n "$(ls store/env/index)" ]
}

@test "what somebody puts into the store is not believed beside the service" {
	local index description

	service
	run -0 --separate-stderr env_run a -- sh setup.sh x
	index=$(echo store/env/index/*)
	echo '{}' >"$index"
	run -0 --separate-stderr env_run b -- sh setup.sh x
	[[ $stderr == 'bootseer env run: restored '* ]]
	diff -r a b
	description=store/env/data/$(known | jq -r '.environments[0] |
		"\(.key[7:])/\(.capture)/\(.description[7:])"')
	sed -i 's/"deleted":0/"deleted":1/' "$description"
	run -0 --separate-stderr env_run c -- sh setup.sh x
	[[ $stderr == *'is not the one that the service knows: the command is run' ]]
}

# The answer of the service is what the rules say, and the node that asks is a new one.
told() # NODE [RULE]
{
	local node=$1

	curl -sf -X POST "http://$PROXY/clear"
	[ -z "${2-}" ] || fault $2
	run -0 --separate-stderr env_run "$node" -- sh setup.sh x
	echo "$node: $stderr"
}

@test "a service that is full, busy or broken has nobody's word believed instead" {
	. "$BATS_TEST_DIRNAME/stores.bash"
	service
	fault_proxy "${U#http://}" "$N"
	# Who may write to the store, and knows no service.
	U=http://127.0.0.1:1
	run -0 --separate-stderr env_run evil -- sh setup.sh x
	[[ $stderr == *'captured '* ]]
	U=http://$PROXY
	told full 'match=^POST.*/lease kind=status code=429 times=9'
	[[ $stderr == *'429'*'the command is run'* ]]
	told broken 'match=^GET kind=status code=500 times=9'
	[[ $stderr == *'500'*'the command is run'* ]]
	told busy 'match=^GET kind=status code=503 times=9'
	[[ $stderr == *'503'*'the command is run'* ]]
	[ "$(wc -l <ran)" -eq 4 ]
	# One that is busy for a moment is asked again.
	told moment 'match=^GET kind=status code=503 times=2'
	[[ $stderr == *'captured '* ]]
	told second
	[[ $stderr == *'restored '* ]]
	# Where none answers the store is believed, as it is said.
	told gone 'match=. kind=refuse times=99'
	[[ $stderr == *'restored '* ]]
	[ "$(wc -l <ran)" -eq 5 ]
}

@test "what was removed from the store alone is made again" {
	service
	run -0 --separate-stderr env_run a -- sh setup.sh x
	"$bootseer" env rm "$STORE" "$(basename store/env/index/*)"
	run -0 --separate-stderr env_run b -- sh setup.sh x
	[[ $stderr == 'bootseer env run: captured '* ]]
	run -0 --separate-stderr env_run c -- sh setup.sh x
	[[ $stderr == 'bootseer env run: restored '* ]]
	[ "$(cat ran)" = $'x\nx' ]
}

@test "what has expired is made again, unless it is pinned" {
	service
	# A snapshot of last year.
	change() { sqlite3 -cmd '.timeout 60000' "$N/registry.db" "UPDATE env_key SET $1"; }
	run -0 --separate-stderr env_run a -- sh setup.sh x
	change 'made_ms = 1700000000000'
	"$bootseer" env pin --service "$U" "$STORE" "$(the_key)"
	run -0 --separate-stderr env_run b --ttl 1d -- sh setup.sh x
	[[ $stderr == *restored* ]]
	"$bootseer" env unpin --service "$U" "$STORE" "$(the_key)"
	run -0 --separate-stderr env_run c --ttl 1d -- sh setup.sh x
	[[ $stderr == *captured* ]]
	[ "$(known | jq '.environments[0] | .expires_ms - .made_ms')" = 86400000 ]
	run -0 --separate-stderr env_run d --ttl 1d -- sh setup.sh x
	[[ $stderr == *restored* ]]
	# It says itself when it expires.
	change 'expires_ms = 1700000000000'
	run -0 --separate-stderr env_run e -- sh setup.sh x
	[[ $stderr == *captured* ]]
	[ "$(known | jq '.environments[0].expires_ms')" = 0 ]
}

@test "what is pinned is removed neither from the service nor from the store" {
	local key rm

	service
	run -0 --separate-stderr env_run a -- sh setup.sh x
	key=$(basename store/env/index/*)
	rm=("$bootseer" env rm --service "$U" "$STORE" "$key")
	"$bootseer" env pin --service "$U" "$STORE" "$key"
	run -1 --separate-stderr "${rm[@]}"
	[[ $stderr == *"snapshot ${key:0:12} is pinned"*"'bootseer env unpin'"* ]]
	# The service says no itself, to whoever asks it without the command.
	run -0 curl -s -o said -w '%{http_code}' -X DELETE --get --data-urlencode \
		"repo=$STORE" "$U/v1/env/sha256:$key"
	[ "$output" = 400 ]
	[[ $(jq -r .error.message said) == *"is pinned"*"'bootseer env unpin'" ]]
	# One that was pinned without the service.
	"$bootseer" env unpin --service "$U" "$STORE" "$key"
	"$bootseer" env pin "$STORE" "$key"
	run -1 --separate-stderr "${rm[@]}"
	[[ $stderr == *"is pinned"* ]]
	[ "$(known | jq '.environments | length')" = 1 ]
	[ -e "store/env/index/$key" ]
	"$bootseer" env unpin --service "$U" "$STORE" "$key"
	"${rm[@]}"
	[ "$(known | jq '.environments | length')" = 0 ]
	[ -z "$(find store/env/index store/env/pin -type f)" ]
}

@test "a smoke test that fails marks the snapshot for everybody" {
	service
	run -0 --separate-stderr env_run a -- sh setup.sh x
	run -0 --separate-stderr env_run b --verify 'no-such-program x' -- sh setup.sh x
	[[ $stderr == *'cannot be run here (127): the command is run' ]]
	[ "$(known | jq -r '.environments[0].bad')" = "" ]
	rm -r b
	run -0 --separate-stderr env_run b --verify false -- sh setup.sh x
	[[ $stderr == *'the command is run' ]]
	[[ $(known | jq -r '.environments[0].bad') == "$(hostname): "* ]]
	[[ $(ls_env) == *'  bad by '* ]]
	run -0 --separate-stderr env_run c -- sh setup.sh x
	[[ $stderr == *"was found bad by $(hostname): "*'env rm STORE'*'the command is run' ]]
	"$bootseer" env rm --service "$U" "$STORE" "$(the_key)"
	[ "$(ls_env)" = '' ]
	[ -z "$(find store/env/index store/env/bad -type f)" ]
	run -0 --separate-stderr env_run d -- sh setup.sh x
	[[ $stderr == *captured* ]]
	run -0 --separate-stderr "$bootseer" env inspect --service "$U" "$STORE" "$(the_key)"
	[[ $output == "key       "*"made      "*" by sh on "* ]]
}

@test "without the service, what is listed is the store's own, and nothing is changed" {
	U=http://127.0.0.1:1
	run -0 --separate-stderr env_run a -- sh setup.sh x
	[[ $stderr == *"own index is used"*captured* ]]
	run -0 --separate-stderr ls_env
	[[ $output == *' sh on '* ]]
	[[ $stderr == 'bootseer env ls: '*"own index is used" ]]
	key=$(cut -d' ' -f1 <<<"$output")
	run -1 --separate-stderr "$bootseer" env rm --service "$U" "$STORE" "$key"
	[ -n "$(ls store/env/index)" ]
	run -2 --separate-stderr env_run a --service nonsense -- sh setup.sh x
	[[ $stderr == *"'nonsense' is no address"* ]]
}
