#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Who may do what at bootseer-registry: a node writes as itself alone, an admin's
# calls are an admin's, and with no word on it nobody does anything.

bats_require_minimum_version 1.5.0

setup()
{
	. "$BATS_TEST_DIRNAME/registry.bash"
	kind=sqlite W=$BATS_TEST_TMPDIR DB=sqlite:$BATS_TEST_TMPDIR/registry.db
	AUTH=
}

teardown()
{
	local p

	for p in "${services[@]}"; do
		kill -KILL "$p" 2>/dev/null || :
	done
	[ -n "${BATS_TEST_COMPLETED:-}" ] || sed 's/^/# /' "$W"/log.* >&3
}

token() { # NAME ROLES [OPTION...]
	echo "$1 sha256:$(printf %s "$1" | sha256sum | cut -c1-64) ${*:2}"
}

# An authority, and certificates by it of the service, nodes n1 and n2.
certificates()
{
	local who f

	openssl req -x509 -newkey ed25519 -keyout "$W/ca.key" -out "$W/ca.pem" \
		-nodes -days 2 -subj /CN=ca 2>/dev/null
	for who in server:IP:127.0.0.1 n{1,2}:URI:bootseer://node/; do
		f=$W/${who%%:*}
		[[ $who != n* ]] || who+=${who%%:*}
		openssl req -newkey ed25519 -keyout "$f.key" -out "$f.csr" \
			-nodes -subj /CN=x 2>/dev/null
		openssl x509 -req -in "$f.csr" -CA "$W/ca.pem" \
			-CAkey "$W/ca.key" -CAcreateserial -days 2 \
			-extfile <(echo "subjectAltName=${who#*:}") \
			-out "$f.pem" 2>/dev/null
	done
}

# What a node lacks, as `bootseer node doctor --json` says it.
LACKS='{"checks":[{"name":"kernel","ok":true,"needed":true,"detail":"6.12","cure":""},
	{"name":"fuse","ok":false,"needed":true,"detail":"no /dev/fuse","cure":"modprobe fuse"},
	{"name":"disk","ok":false,"needed":false,"detail":"81 %","cure":"make room"}]}'

# Everything that a node does in its own name, as NODE; who it is, is in "${me[@]}".
# Each call's name and status are added to $answers.
node_calls() { # NODE
	local f

	f=$(recording "$A" train h/app 10 10 "$1")
	answers=
	call trace --data-binary "@$f" -H "Bootseer-Node: $1" \
		"$U/v1/traces/$A?workload=train&repo=h/app"
	call announce -d "{\"node\":\"$1\",\"addr\":\"10.0.0.1:7000\",\"pieces\":9,
		\"want\":[1],\"want_bytes\":[65536]}" "$U/v1/swarms/$A"
	call done -d "{\"node\":\"$1\",\"addr\":\"10.0.0.1:7000\",\"pieces\":9,
		\"done\":[1]}" "$U/v1/swarms/$A"
	call leave -d "{\"node\":\"$1\",\"addr\":\"10.0.0.1:7000\",\"pieces\":9,
		\"leaving\":true}" "$U/v1/swarms/$A"
	call capability -d "{\"image\":\"$A\",\"repo\":\"h.example/app\",
		\"node\":\"$1\"}" "$U/v1/capabilities"
	call orders "$U/v1/preheats?node=$1"
	call report -d "{\"node\":\"$1\",\"state\":\"done\"}" "$U/v1/preheats/$order"
	call lacks -X PUT -d "$LACKS" "$U/v1/nodes/$1/doctor"
}

# What an admin does.
admin_calls()
{
	answers=
	call forget -X DELETE "$U/v1/traces/$B"
	call revoke -X DELETE "$U/v1/capabilities?node=n9"
	call restore -X DELETE "$U/v1/revocations?node=n9"
	call order -d '{"what":"all","nodes":"all","ref":"h/app:1"}' \
		"$U/v1/preheats"
	order=$(jq '.id // 1' "$O")
	call distrust -X PUT "$U/v1/trust/revoked/$(printf '%064d' 1)"
	call trust -X DELETE "$U/v1/trust/revoked/$(printf '%064d' 1)"
}

call() { # NAME CURL-OPTION...
	ask "${me[@]}" "${@:2}"
	answers+="$1=$code "
	echo "$1: $code $(cat "$O")"
}

all_are() { # STATUS
	[ -n "$answers" ] && [ -z "$(sed "s/[a-z]*=$1 //g" <<<"$answers")" ]
}

# A registry that says yes to everything, so that a capability may be had.
say_yes()
{
	openssl genpkey -algorithm ed25519 -out "$W/sign.key"
	chmod 600 "$W/sign.key"
	rights=(--capability-key "$W/sign.key" --registry h.example)
}

@test "a service that was told of nobody does nothing for anybody" {
	local order=1 me=()

	service
	grep -q '^warning service: nobody may call it.*--tokens.*--insecure-no-auth' \
		"$LOG"
	node_calls n1
	all_are 401
	grep -q -- '--tokens or --tls-client-ca, or say --insecure-no-auth' "$O"
	admin_calls
	all_are 401
	ask "$U/v1/traces/$A"
	[ "$code" = 401 ]
	ask "$U/metrics"
	[ "$code" = 401 ]
	ask "$U/readyz"
	[ "$code" = 200 ]
	# Another user of the machine is nobody, too.
	[ "$(setpriv --reuid 65534 --regid 65534 --clear-groups curl -sS \
		-o /dev/null -w '%{http_code}' -X DELETE "$U/v1/traces/$A")" = 401 ]
	stop_all
	# It is said, and then so.
	service --insecure-no-auth
	admin_calls
	[ "$answers" = "forget=200 revoke=200 restore=200 \
order=202 distrust=200 trust=200 " ]
	run -2 "$program" --listen 0.0.0.0:0 --check-config
	[[ $output == *--tokens*--tls-client-ca*--insecure-no-auth* ]]
}

@test "a token of one node does nothing in the name of another" {
	local order me

	say_yes
	{ token boss admin
	  token chief read,write,admin
	  token n1 read,write node=n1
	  token n2 read,write node=n2
	  token shared read,write
	  token reader read
	  token any read,write node=*; } >"$W/tokens"
	service --tokens "$W/tokens" "${rights[@]}"
	me=(-H 'Authorization: Bearer boss')
	admin_calls
	[ "$answers" = "forget=200 revoke=200 restore=200 order=202 \
distrust=200 trust=200 " ]
	# n1 is itself; the image's registry is not there to be asked.
	me=(-H 'Authorization: Bearer n1')
	node_calls n1
	[ "$answers" = "trace=202 announce=200 done=200 leave=200 \
capability=503 orders=200 report=200 lacks=200 " ]
	me=(-H 'Authorization: Bearer n2')
	node_calls n1
	all_are 403
	grep -q "token 'n2' is for node 'n2' only" "$O"
	admin_calls
	all_are 403
	# A token that says nothing of nodes speaks for none, and reads no node's
	# orders; an admin's does.
	me=(-H 'Authorization: Bearer shared')
	node_calls n1
	[ "$answers" = "trace=403 announce=403 done=403 leave=403 \
capability=403 orders=403 report=403 lacks=403 " ]
	grep -q "token 'shared' is of no node: .*node=n1.*node=\*.*--tls-client-ca" \
		"$O"
	ask "${me[@]}" "$U/v1/traces/$A"
	[ "$code" = 200 ]
	me=(-H 'Authorization: Bearer chief')
	node_calls n1
	[ "$answers" = "trace=403 announce=403 done=403 leave=403 \
capability=403 orders=200 report=403 lacks=403 " ]
	me=(-H 'Authorization: Bearer any')
	node_calls n2
	[ "$answers" = "trace=202 announce=200 done=200 leave=200 \
capability=503 orders=200 report=200 lacks=200 " ]
	# What the wrong one sent is nowhere.
	ask -H 'Authorization: Bearer n1' "$U/v1/traces/$A"
	jq -e '.traces | length == 1 and .[0].runs == 2' "$O"
	# Nor is a node shown what others lack, by its own token or by one of all nodes.
	for t in n1 any shared; do
		ask -H "Authorization: Bearer $t" "$U/v1/doctor"
		[ "$code" = 403 ]
	done
	ask -H 'Authorization: Bearer chief' "$U/v1/doctor"
	[ "$code" = 200 ]
	ask -H 'Authorization: Bearer reader' "$U/v1/doctor"
	jq -e '[.nodes[] | .node] == ["n1", "n2"] and .nodes_missing == 2 and (.nodes[0] |
		.fresh and .checks == 3 and .missing == 1 and .advice == 1 and
		(.failed | map(.name) == ["fuse", "disk"] and .[0].cure == "modprobe fuse"))' "$O"
}

# n1's certificate anew, of an authority that is another one's.
certificate_from_below()
{
	openssl req -x509 -newkey ed25519 -keyout "$W/root.key" -out "$W/root.pem" \
		-nodes -days 2 -subj /CN=root 2>/dev/null
	openssl req -newkey ed25519 -keyout "$W/below.key" -out "$W/below.csr" \
		-nodes -subj /CN=below 2>/dev/null
	openssl x509 -req -in "$W/below.csr" -CA "$W/root.pem" -CAkey "$W/root.key" \
		-days 2 -extfile <(echo basicConstraints=critical,CA:TRUE) \
		-out "$W/below.pem" 2>/dev/null
	openssl x509 -req -in "$W/n1.csr" -CA "$W/below.pem" -CAkey "$W/below.key" -days 2 \
		-extfile <(echo subjectAltName=URI:bootseer://node/n1) -out "$W/n1.pem" \
		2>/dev/null
	# The file has the chain too; the root's other certificates are of strangers.
	cat "$W/root.pem" >>"$W/below.pem"
	openssl x509 -req -in "$W/n1.csr" -CA "$W/root.pem" -CAkey "$W/root.key" -days 2 \
		-extfile <(echo subjectAltName=URI:bootseer://node/n1) \
		-out "$W/stranger.pem" 2>/dev/null
}

@test "a certificate of one node does nothing in the name of another" {
	local order=1 me

	say_yes
	certificates
	certificate_from_below
	service --tls-cert "$W/server.pem" --tls-key "$W/server.key" \
		--tls-client-ca "$W/below.pem" --tls-client-ca "$W/ca.pem" "${rights[@]}"
	U=https${U#http}
	me=(--cacert "$W/ca.pem" --cert "$W/n1.pem" --key "$W/n1.key")
	node_calls n1
	[ "$answers" = "trace=202 announce=200 done=200 leave=200 \
capability=503 orders=200 report=404 lacks=200 " ]
	node_calls n2
	all_are 403
	grep -q "the certificate is of node 'n1'" "$O"
	# Nodes are no admins.
	admin_calls
	all_are 403
	grep -q 'has not the role for this: admin' "$O"
	run -35 curl -sS --tls-max 1.2 --cacert "$W/ca.pem" --cert "$W/stranger.pem" --key "$W/n1.key" \
		"$U/v1/traces/$A"
	# Without a certificate, or with one that names no node, it is nobody.
	for me in "--cacert $W/ca.pem" \
		"--cacert $W/ca.pem --cert $W/server.pem --key $W/server.key"; do
		# shellcheck disable=SC2206 # words
		me=($me)
		order=1
		node_calls n1
		all_are 401
	done
}

@test "a certificate alone shows no names of other nodes" {
	certificates
	AUTH=--insecure-no-auth service
	ask -d '{"what":"all","nodes":["n1","n2"],"ref":"h/app:1"}' "$U/v1/preheats"
	[ "$code" = 202 ]
	ask -d '{"node":"n2","state":"done"}' "$U/v1/preheats/1"
	[ "$code" = 200 ]
	ask "$U/v1/preheats/1"
	jq -e '.counts.done == 1 and any(.nodes[]; .node == "n2")' "$O"
	# Another replica, of the same database.
	service --tls-cert "$W/server.pem" --tls-key "$W/server.key" \
		--tls-client-ca "$W/ca.pem"
	ask --cacert "$W/ca.pem" --cert "$W/n1.pem" --key "$W/n1.key" \
		"https${U#http}/v1/preheats/1"
	jq -e '.counts.done == 1 and (has("nodes") | not)' "$O"
	# Nor what they lack.
	ask --cacert "$W/ca.pem" --cert "$W/n1.pem" --key "$W/n1.key" "https${U#http}/v1/doctor"
	[ "$code" = 403 ]
}

@test "a shared token speaks for whom the certificate names" {
	local order=1 me

	say_yes
	certificates
	token shared read,write >"$W/tokens"
	service --tls-cert "$W/server.pem" --tls-key "$W/server.key" \
		--tls-client-ca "$W/ca.pem" --tokens "$W/tokens" "${rights[@]}"
	U=https${U#http}
	me=(--cacert "$W/ca.pem" -H 'Authorization: Bearer shared')
	node_calls n1
	[ "$answers" = "trace=403 announce=403 done=403 leave=403 \
capability=403 orders=403 report=403 lacks=403 " ]
	me+=(--cert "$W/n1.pem" --key "$W/n1.key")
	node_calls n1
	[ "$answers" = "trace=202 announce=200 done=200 leave=200 \
capability=503 orders=200 report=404 lacks=200 " ]
	node_calls n2
	all_are 403
	# The certificate alone is no token, where tokens are asked for.
	me=(--cacert "$W/ca.pem" --cert "$W/n1.pem" --key "$W/n1.key")
	node_calls n1
	all_are 401
}

@test "a recording does not come in for a repository that the token is not for" {
	local me f

	token part read,write repo=h/mine node=n1 >"$W/tokens"
	service --tokens "$W/tokens"
	f=$(recording "$A" train - 10 10 x)
	me=(-H 'Authorization: Bearer part')
	answers=
	for repo in h/mine h/other ''; do
		call "to" --data-binary "@$f" -H 'Bootseer-Node: n1' \
			"$U/v1/traces/$A?workload=train&repo=$repo"
	done
	[ "$answers" = "to=202 to=403 to=403 " ]
	# What it says of itself is not believed over the address.
	f=$(recording "$A" test h/other 10 10 y)
	call said --data-binary "@$f" -H 'Bootseer-Node: n1' \
		"$U/v1/traces/$A?workload=test&repo=h/mine"
	[ "$code" = 400 ]
}

@test "a revocation that there is no room for is no silent one" {
	local me=()

	service --insecure-no-auth
	python3 - "$W/registry.db" <<-'END'
	import sqlite3, sys
	with sqlite3.connect(sys.argv[1]) as c:
	    c.executemany("INSERT INTO revocation VALUES ('', ?, 1)",
	                  [("n%d" % i,) for i in range(10000)])
	    c.executemany("INSERT INTO trust_revoked VALUES (?, 1)",
	                  [("%064x" % i,) for i in range(10000)])
	END
	answers=
	call new -X DELETE "$U/v1/capabilities?node=other"
	call known -X DELETE "$U/v1/capabilities?node=n7"
	call new -X PUT "$U/v1/trust/revoked/$(printf 'f%.0s' {1..64})"
	call known -X PUT "$U/v1/trust/revoked/$(printf '%064x' 7)"
	[ "$answers" = "new=429 known=200 new=429 known=200 " ]
	ask "$U/v1/trust/revoked"
	[ "$(jq '.revoked | length' "$O")" = 10000 ]
}
