#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The tracker and the capabilities of bootseer-registry, on both databases.

bats_require_minimum_version 1.5.0

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
	registry_pid=
	. "$BATS_TEST_DIRNAME/registry.bash"
	kind=sqlite W=$BATS_TEST_TMPDIR DB=sqlite:$BATS_TEST_TMPDIR/registry.db
}

teardown()
{
	local p

	for p in "${services[@]}" $registry_pid; do
		kill -KILL "$p" 2>/dev/null || :
	done
	[ -n "${BATS_TEST_COMPLETED:-}" ] || sed 's/^/# /' "$W"/log.* >&3
}

# say NODE [MORE-FIELDS [CURL-OPTION...]]: one announcement
say()
{
	local node=$1 more=${2-}

	shift $(($# < 2 ? $# : 2))
	ask "$@" -d "{\"node\":\"$node\",\"addr\":\"10.0.0.1:7000\",\"zone\":\"z\",
		\"pieces\":1000,\"members\":true${more:+,$more}}" \
		"$U/v1/swarms/$A"
}

# want FIRST LAST: pieces of 64 KiB, as fields
want()
{
	printf '"want":[%s],"want_bytes":[%s]' \
		"$(seq -s, "$1" "$2")" \
		"$(seq -s, "$1" "$2" | sed 's/[0-9]\+/65536/g')"
}

granted() { jq -c '.granted // []' "$O"; }

@test "members see each other, and are told apart by name" {
	clock_hold
	service
	say n1
	[ "$code" = 200 ]
	jq -e '.swarm == 1 and .members == null' "$O"
	say n2
	jq -e '.swarm == 2 and [.members[].node] == ["n1"]' "$O"
	say n1 '"have":1000'
	jq -e '.swarm == 2 and [.members[].node] == ["n2"]' "$O"
	ask "$U/v1/swarms"
	jq -e '.swarms | length == 1 and .[0].members == 2 and
		.[0].complete == 1 and .[0].pieces == 1000' "$O"
	ask "$U/v1/swarms/$A"
	jq -e '[.nodes[].node] | sort == ["n1", "n2"]' "$O"
	ask "$U/v1/swarms/$B"
	[ "$code" = 404 ]
	[ "$(metric swarm_members)" = 2 ]

	say n1 '"leaving":true'
	say n2 '"leaving":true'
	ask "$U/v1/swarms"
	jq -e '.swarms == []' "$O"
}

# Two nodes want so much of one image that it takes nearly 1 MiB: 512 KiB for what
# pages it has, and 6 KiB for each of 75.
share_much()
{
	local node want bytes

	want=$(seq -s, 0 256 19000)
	bytes=$(seq 0 256 19000 | sed 's/.*/65536/' | paste -sd,)
	for node in n1 n2; do
		ask -d "{\"node\":\"$node\",\"addr\":\"10.0.0.1:7000\",
			\"pieces\":16777216,\"want\":[$want],
			\"want_bytes\":[$bytes]}" "$U/v1/swarms/$A"
		[ "$code" = 200 ]
	done
}

@test "who finds no room for an image hears that of this image alone" {
	clock_hold
	service --swarm-memory 1M
	share_much
	ask -d '{"node":"n3","addr":"10.0.0.1:7000","pieces":16777216,
		"want":[1],"want_bytes":[1]}' "$U/v1/swarms/$B"
	[ "$code" = 429 ]
	[ "$(header Retry-After)" = 10 ]
	jq -e '.error.message | test("no memory is left.*--swarm-memory")' "$O"
	# The image that they share goes on, and who only takes part needs no room.
	share_much
	ask -d '{"node":"n3","addr":"10.0.0.1:7000","pieces":16777216}' \
		"$U/v1/swarms/$B"
	[ "$code" = 200 ]
	[ "$(metric answers_5xx_total)" = 0 ]
}

@test "leases are distinct, and end with what their holders say" {
	local first again

	clock_hold
	service
	for n in 1 2 3 4 5 6 7 8; do say "n$n"; done
	for n in 1 2 3 4; do
		say "n$n" "$(want 0 99)"
		jq -e '(.granted | length) > 0 and .ttl_ms >= 1000' "$O"
		cp "$O" "$W/answer.$n"
	done
	# Nobody has a piece that somebody else has.
	jq -se '[.[].granted[]] | length == (unique | length)' "$W"/answer.*

	first=$(jq -c .granted "$W/answer.1")
	say n1 "\"done\":$first"
	say n5 "\"want\":$first,\"want_bytes\":$(jq -c 'map(1)' <<<"$first"),
		\"demand\":1"
	[ "$(granted)" = '[]' ]
	# ... and it is told who read them.
	jq -e '.members[0].node == "n1"' "$O"
	first=$(jq -c .granted "$W/answer.2")
	say n2 "\"failed\":$first,\"origin_wait_ms\":5000"
	again="\"want\":$first,\"want_bytes\":$(jq -c 'map(1)' <<<"$first")"
	say n2 "$again"
	[ "$(granted)" = '[]' ]
	jq -e '.retry_ms >= 50' "$O"
	# Others hear it from the origin themselves.
	say n5 '"want":[500],"want_bytes":[1]'
	[ "$(granted)" = '[500]' ]
	# It wants to be left alone by this one for five seconds, and no longer.
	clock_step 4999
	say n2 "$again"
	[ "$(granted)" = '[]' ]
	clock_step 1
	say n2 "$again"
	[ "$(granted)" = "$first" ]
	[ "$(metric swarm_done_total)" -gt 0 ]
}

say_wants() { say "$1" "$(want 7 7)"; } # NODE

@test "the lease of a node that dies runs out, and so does the node" {
	local ttl

	clock_hold
	service --swarm-interval 300ms
	say_wants n1
	[ "$(granted)" = '[7]' ]
	ttl=$(jq .ttl_ms "$O")
	clock_step $((ttl - 1))
	say_wants n2
	[ "$(granted)" = '[]' ]
	[ "$(metric swarm_expired_total)" = 0 ]
	clock_step 1
	say_wants n2
	[ "$(granted)" = '[7]' ]
	[ "$(metric swarm_expired_total)" = 1 ]
	# A node that is silent for longer than five intervals is gone.
	clock_step $((1500 - ttl))
	say n2
	jq -e '.swarm == 2' "$O"
	clock_step 1
	say n2
	jq -e '.swarm == 1' "$O"
}

@test "a tracker that starts anew has another epoch and learns from calls" {
	local before

	clock_hold
	service
	say_wants n1
	[ "$(granted)" = '[7]' ]
	before=$(jq .epoch "$O")
	end_service KILL
	service
	say n1 '"done":[7]'
	[ "$(jq .epoch "$O")" != "$before" ]
	say n2 "$(want 7 7)"
	[ "$(granted)" = '[]' ]
	jq -e '.members[0].node == "n1"' "$O"
}

@test "what is no announcement is refused and changes nothing" {
	clock_hold
	service
	say n1
	for bad in 'x' '[]' '{}' '{"node":"n2"}' \
		'{"node":"n 2","addr":"a:1","pieces":1000}' \
		'{"node":"n2","addr":"a:1","pieces":16777217}' \
		'{"node":"n2","addr":"a:1","pieces":0}' \
		'{"node":"n2","addr":"a:1","pieces":1000,"have":1001}' \
		'{"node":"n2","addr":"a:1","pieces":1000,"done":[1000]}' \
		'{"node":"n2","addr":"a:1","pieces":1000,"want":[1]}' \
		'{"node":"n2","addr":"a:1","pieces":1000,"demand":1}'; do
		echo "$bad"
		ask -d "$bad" "$U/v1/swarms/$A"
		[ "$code" = 400 ]
		jq -e .error.message "$O"
	done
	head -c 40000 /dev/zero | tr '\0' ' ' >"$W/large"
	ask --data-binary "@$W/large" "$U/v1/swarms/$A"
	[ "$code" = 413 ]
	ask "$U/v1/swarms/$A"
	jq -e '.members == 1' "$O"
}

token() { # NAME ROLES [OPTION]
	echo "$1 sha256:$(printf %s "$1" | sha256sum | cut -c1-64) $2 ${3-}"
}

as() { printf 'Authorization: Bearer %s' "$1"; }

@test "roles hold, and a token or certificate speaks for its node only" {
	{
		token r read
		token w write node=*
		token n7 write node=n7
		token part read,write,admin repo=host/app
	} >"$W/tokens"
	service --tokens "$W/tokens"
	say n1
	[ "$code" = 401 ]
	say n1 '' -H "$(as r)"
	[ "$code" = 403 ]
	say n1 '' -H "$(as w)"
	[ "$code" = 200 ]
	say n1 '' -H "$(as n7)"
	[ "$code" = 403 ]
	say n7 '' -H "$(as n7)"
	[ "$code" = 200 ]
	ask -H "$(as w)" "$U/v1/swarms"
	[ "$code" = 403 ]
	ask -H "$(as part)" "$U/v1/swarms"
	[ "$code" = 403 ]
	ask -H "$(as r)" "$U/v1/swarms"
	[ "$code" = 200 ]
	ask -X DELETE -H "$(as part)" "$U/v1/capabilities?node=n1"
	[ "$code" = 403 ]
	stop_all

	openssl req -x509 -newkey ed25519 -keyout "$W/ca.key" -out "$W/ca.pem" \
		-nodes -days 2 -subj /CN=ca 2>/dev/null
	for who in IP:127.0.0.1 URI:bootseer://node/n7; do
		f=$W/${who%%:*}
		openssl req -newkey ed25519 -keyout "$f.key" -out "$f.csr" \
			-nodes -subj /CN=x 2>/dev/null
		openssl x509 -req -in "$f.csr" -CA "$W/ca.pem" \
			-CAkey "$W/ca.key" -CAcreateserial -days 2 \
			-extfile <(echo "subjectAltName=$who") -out "$f.pem" \
			2>/dev/null
	done
	AUTH=
	service --tls-cert "$W/IP.pem" --tls-key "$W/IP.key" \
		--tls-client-ca "$W/ca.pem"
	U=https${U#http}
	say n1 '' --cacert "$W/ca.pem"
	[ "$code" = 401 ]
	say n1 '' --cacert "$W/ca.pem" --cert "$W/IP.pem" --key "$W/IP.key"
	[ "$code" = 401 ]
	say n1 '' --cacert "$W/ca.pem" --cert "$W/URI.pem" --key "$W/URI.key"
	[ "$code" = 403 ]
	jq -e '.error.message | test("n7")' "$O"
	say n7 '' --cacert "$W/ca.pem" --cert "$W/URI.pem" --key "$W/URI.key"
	[ "$code" = 200 ]
	# A certificate of another CA is no certificate.
	openssl req -x509 -newkey ed25519 -keyout "$W/x.key" -out "$W/x.pem" \
		-nodes -days 2 -subj /CN=x \
		-addext subjectAltName=URI:bootseer://node/n7 2>/dev/null
	run curl -sS -m 120 --cacert "$W/ca.pem" --cert "$W/x.pem" \
		--key "$W/x.key" "$U/healthz"
	[ "$status" != 0 ]
}

# call NODE CERT [URL...]: our own client; its answer is in $output
call()
{
	run "$BOOTSEER_BUILD/tests/functional/tracker-call" "$1" "$A" \
		"$W/ca.pem" "$W/$2.pem" "$W/$2.key" "${@:3}"
	echo "$output"
}

@test "our client is understood, shows its certificate, and goes on to the next" {
	local who f

	openssl req -x509 -newkey ed25519 -keyout "$W/ca.key" -out "$W/ca.pem" \
		-nodes -days 2 -subj /CN=ca 2>/dev/null
	for who in server:IP:127.0.0.1 n7:URI:bootseer://node/n7; do
		f=$W/${who%%:*}
		openssl req -newkey ed25519 -keyout "$f.key" -out "$f.csr" \
			-nodes -subj /CN=x 2>/dev/null
		openssl x509 -req -in "$f.csr" -CA "$W/ca.pem" \
			-CAkey "$W/ca.key" -CAcreateserial -days 2 \
			-extfile <(echo "subjectAltName=${who#*:}") \
			-out "$f.pem" 2>/dev/null
	done
	service --tls-cert "$W/server.pem" --tls-key "$W/server.key" \
		--tls-client-ca "$W/ca.pem"
	U=https${U#http}
	call n7 n7 "$U"
	[[ $output == 'swarm 1 granted 7 8 members' ]]
	call n8 n7 "$U"
	[[ $output == *'the certificate is of node'*n7* ]]
	# Port 9 is nobody's; whichever is asked first, one answers.
	call n7 n7 https://127.0.0.1:9 "$U/"
	[[ $output == 'swarm 1 granted 7 8 members' ]]
	call n7 n7 https://127.0.0.1:9
	[ "$status" = 1 ]
}

# --- capabilities -------------------------------------------------------------

# docker-registry with a password, and one small manifest in it: AT, IMAGE.
registry_with_password()
{
	local line config digest

	mkdir -p "$W/registry"
	python3 - >"$W/htpasswd" <<-END
	import crypt
	print("ann:" + crypt.crypt("secret", crypt.mksalt(crypt.METHOD_BLOWFISH,
	                                                  rounds=16)))
	END
	cat >"$W/registry.yml" <<-END
	version: 0.1
	storage:
	  filesystem: {rootdirectory: $W/registry}
	auth:
	  htpasswd: {realm: test, path: $W/htpasswd}
	http:
	  addr: "127.0.0.1:0"
	END
	docker-registry serve "$W/registry.yml" >"$W/registry.log" 2>&1 3>&- &
	registry_pid=$!
	wait_for grep -q 'listening on' "$W/registry.log"
	AT=127.0.0.1:$(sed -n 's/.*listening on [^ ]*:\([0-9]*\).*/\1/p' \
		"$W/registry.log" | head -n 1)
	config='{}'
	digest=sha256:$(printf %s "$config" | sha256sum | cut -c1-64)
	line=$(curl -fsS -u ann:secret -X POST -D - -o /dev/null \
		"http://$AT/v2/team/app/blobs/uploads/" |
		sed -n 's/^Location: \(.*\)\r$/\1/Ip')
	curl -fsS -u ann:secret -X PUT --data-binary "$config" \
		-H 'Content-Type: application/octet-stream' \
		"$line&digest=$digest"
	printf '{"schemaVersion":2,"mediaType":"%s","config":{"mediaType":"%s",
		"digest":"%s","size":2},"layers":[]}' \
		application/vnd.oci.image.manifest.v1+json \
		application/vnd.oci.image.config.v1+json "$digest" >"$W/manifest"
	IMAGE=sha256:$(sha256sum <"$W/manifest" | cut -c1-64)
	curl -fsS -u ann:secret -X PUT --data-binary "@$W/manifest" \
		-H 'Content-Type: application/vnd.oci.image.manifest.v1+json' \
		"http://$AT/v2/team/app/manifests/v1"
}

# wish NODE AUTHORIZATION [IMAGE [REPO]]
wish()
{
	ask -d "{\"image\":\"${3:-$IMAGE}\",\"repo\":\"${4:-$AT/team/app}\",
		\"node\":\"$1\",\"authorization\":\"$2\"}" "$U/v1/capabilities"
}

capabilities()
{
	local basic first tag

	basic="Basic $(printf ann:secret | base64)"
	openssl genpkey -algorithm ed25519 -out "$W/sign.key"
	chmod 600 "$W/sign.key"
	registry_with_password
	service --capability-key "$W/sign.key" --registry "$AT" \
		--registry-plain-http --capability-time 1h

	wish n1 "$basic"
	[ "$code" = 200 ]
	jq -e '.not_after > now + 3500 and .not_after < now + 3700' "$O"
	# Its signature is good by another program.
	jq -r .capability "$O" | base64 -d >"$W/cap"
	head -c -64 "$W/cap" >"$W/cap.text"
	tail -c 64 "$W/cap" >"$W/cap.sig"
	ask "$U/v1/capability-keys"
	jq -r .keys "$O" >"$W/keys.pem"
	jq -e '.revoked == []' "$O"
	openssl pkeyutl -verify -rawin -pubin -inkey "$W/keys.pem" \
		-in "$W/cap.text" -sigfile "$W/cap.sig"
	# It is of the node and of the repository that was asked for.
	[ "$(tail -c +73 "$W/cap.text")" = "n1$AT/team/app" ]

	wish n1 ''
	[ "$code" = 403 ]
	wish n1 "Basic $(printf ann:wrong | base64)"
	[ "$code" = 403 ]
	wish n1 "$basic" "$A"
	[ "$code" = 403 ]
	wish n1 "$basic" "$IMAGE" other.example/team/app
	[ "$code" = 403 ]
	wish n1 "$basic" "$IMAGE" "$AT/team/../app"
	[ "$code" = 400 ]
	wish n1 'a\r\nb: c'
	[ "$code" = 400 ]
	wish 'n 1' "$basic"
	[ "$code" = 400 ]

	# One replica revokes, the other knows.
	first=$U
	service --capability-key "$W/sign.key" --registry "$AT" \
		--registry-plain-http
	ask -X DELETE "$U/v1/capabilities"
	[ "$code" = 400 ]
	ask -X DELETE "$U/v1/capabilities?node=n1"
	jq -e '.revoked == 1' "$O"
	U=$first
	wish n1 "$basic"
	[ "$code" = 403 ]
	jq -e '.error.message | test("revoked")' "$O"
	wish n2 "$basic"
	[ "$code" = 200 ]
	ask "$U/v1/capability-keys"
	jq -e '.revoked | length == 1 and .[0].node == "n1" and
		.[0].image == ""' "$O"
	tag=$(curl -fsSI "$U/v1/capability-keys" | sed -n 's/^ETag: \(.*\)\r$/\1/p')
	ask -H "If-None-Match: $tag" "$U/v1/capability-keys"
	[ "$code" = 304 ]
	ask -X DELETE "$U/v1/revocations?node=n1"
	jq -e '.restored == 1' "$O"
	ask -H "If-None-Match: $tag" "$U/v1/capability-keys"
	[ "$code" = 200 ]
	ask -X DELETE "$U/v1/capabilities?image=$IMAGE&node=n2"
	wish n1 "$basic"
	[ "$code" = 200 ]
	wish n2 "$basic"
	[ "$code" = 403 ]
	[ "$(metric capabilities_granted_total)" = 3 ]
	kill "$registry_pid"
	wait "$registry_pid" || [ $? = 143 ]
	registry_pid=
}

@test "a capability is given to whom the registry lets pull, until revoked" {
	on_each_db capabilities
}

# A registry that sends whoever asks to another one, which writes down what it is
# shown: AT, and "$W/shown".
registry_that_redirects()
{
	: >"$W/ports" >"$W/shown"
	python3 - "$W" <<-'END' 3>&- &
	import http.server, sys, threading
	W = sys.argv[1]
	class There(http.server.BaseHTTPRequestHandler):
	    def do_HEAD(self):
	        with open(W + "/shown", "a") as f:
	            f.write("asked %s\n" % self.headers.get("Authorization"))
	        self.send_response(200)
	        self.end_headers()
	    def log_message(self, *a): pass
	there = http.server.HTTPServer(("127.0.0.1", 0), There)
	class Here(There):
	    def do_HEAD(self):
	        self.send_response(307)
	        self.send_header("Location",
	            "http://127.0.0.1:%d/v2/x" % there.server_port)
	        self.end_headers()
	here = http.server.HTTPServer(("127.0.0.1", 0), Here)
	threading.Thread(target=there.serve_forever, daemon=True).start()
	with open(W + "/ports", "w") as f:
	    f.write("%d\n" % here.server_port)
	here.serve_forever()
	END
	registry_pid=$!
	wait_for test -s "$W/ports"
	AT=127.0.0.1:$(<"$W/ports")
}

@test "where a registry redirects to, credentials do not go" {
	openssl genpkey -algorithm ed25519 -out "$W/sign.key"
	chmod 600 "$W/sign.key"
	registry_that_redirects
	service --capability-key "$W/sign.key" --registry "$AT" \
		--registry-plain-http
	IMAGE=$A
	wish n1 "Basic c2VjcmV0"
	[ "$(cat "$W/shown")" = "asked None" ]
	kill "$registry_pid"
	wait "$registry_pid" || [ $? = 143 ]
	registry_pid=
}

@test "a capability is not given without a key, or by a registry that is away" {
	openssl genpkey -algorithm ed25519 -out "$W/sign.key"
	chmod 600 "$W/sign.key"
	service
	IMAGE=$A AT=127.0.0.1:9
	wish n1 x
	[ "$code" = 501 ]
	ask "$U/v1/capability-keys"
	[ "$code" = 501 ]
	stop_all
	service --capability-key "$W/sign.key" --registry "$AT" \
		--registry-plain-http
	wish n1 x
	[ "$code" = 503 ]
	[ "$(metric capabilities_failed_total)" = 1 ]

	run -2 "$program" --capability-key "$W/sign.key" --check-config
	[[ $output == *--registry* ]]
	chmod 644 "$W/sign.key"
	run -2 "$program" --capability-key "$W/sign.key" --registry x --check-config
	[[ $output == *"chmod 600"* ]]
}
