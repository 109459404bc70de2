#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Orders to nodes to fetch an image: bootseer image prefetch --nodes, a real
# bootseer-registry, and nodes that ask it.

bats_require_minimum_version 1.5.0
load node.bash

setup_file() { make_image "$BATS_FILE_TMPDIR"; }
setup() { node_setup; }
teardown() { node_teardown; }

service_start() { # OPTION...
	rm -f "$T/service.log" # an earlier one's says "ready", too
	"$BOOTSEER_BUILD/registry/bootseer-registry" --listen 127.0.0.1:0 \
		--insecure-no-auth --db "sqlite:$T/registry.db" "$@" 2>"$T/service.log" 3>&- &
	service_pid=$!
	pids+=("$service_pid")
	wait_for grep -q ' ready port=' "$T/service.log"
	U=http://127.0.0.1:$(sed -n 's/.* ready port=\([0-9]*\).*/\1/p' \
		"$T/service.log")
}

# A node in a folder of its own.
start_node() { # NAME OPTION...
	local name=$1
	shift
	mkdir -p "$T/$name"
	rm -f "$T/$name/log"
	"$bootseerd" --root "$T/$name/root" --run "$T/$name/run" \
		--node-name "$name" --service "$U" --prefetch off \
		--plain-http "$REGISTRY" --trust "$REGISTRY=registry" \
		--cache-quota 1G "$@" \
		2>"$T/$name/log" 3>&- &
	pids+=($!)
	wait_for grep -q '^info main: ready' "$T/$name/log"
}

on() { # NAME COMMAND...
	BOOTSEER_SOCKET=$T/$1/run/bootseerd.sock "$bootseer" "${@:2}"
}
images_of() { on "$1" node status --json | jq '.images | length'; }

preheat() { "$bootseer" image prefetch --service "$U" "$@" "$IMAGE"; }

@test "the chosen node has the image before it starts, another has not" {
	service_start
	start_node n1
	start_node n2
	run -0 --separate-stderr preheat --nodes n1 --wait --timeout 10m
	[[ $output == 'n1: done, '*' MiB of '*' MiB' ]]
	[ "$(images_of n1)" = 1 ]
	[ "$(images_of n2)" = 0 ]
	# All of it, and nothing is fetched when it starts.
	n=$(fetches)
	on n1 image mount "$IMAGE" "$T/mnt"
	cat "$T/mnt/big" "$T/mnt/top/data" >/dev/null
	[ "$(fetches)" = "$n" ]
	on n1 image umount "$T/mnt"
	# The next order finds it there.
	run -0 --separate-stderr preheat --nodes n1,n2 --wait --timeout 10m
	[ "${#lines[@]}" = 2 ]
	[[ ${lines[0]} == 'n1: done, '* && ${lines[1]} == 'n2: done, '* ]]
	[ "$(images_of n2)" = 1 ]
}

@test "an order to all reaches each node once, also one that starts later" {
	service_start
	start_node n1
	id=$(preheat --nodes all | sed 's/ordered: //')
	start_node n2
	wait_for is_over 2
	[ "$(images_of n1)" = 1 ]
	[ "$(images_of n2)" = 1 ]
	[ "$(curl -fsS "$U/v1/preheats?node=n1" | jq '.preheats | length')" = 0 ]
	[ "$(curl -fsS "$U/v1/preheats?node=n3" | jq '.preheats[0].id')" = "$id" ]
}

is_over() { # N
	[ "$(curl -fsS "$U/v1/preheats/$id" |
		jq '[.nodes[] | select(.state == "done")] | length')" = "$1" ]
}

@test "a node that cannot says why, one that is away is told as such" {
	service_start
	start_node n1
	IMAGE=$REGISTRY/img:nope
	run -1 --separate-stderr preheat --nodes n1 --wait --timeout 10m
	[[ $output == 'n1: failed, '*nope* ]]
	[[ $stderr == *'1 node failed'* ]]
	IMAGE=$REGISTRY/img:v1
	run -1 --separate-stderr preheat --nodes away --wait --timeout 2s
	[[ $output == 'away: waiting, '* ]]
	[[ $stderr == *'1 node not over'* ]]
}

@test "an order outlives the service" {
	service_start
	id=$(preheat --nodes n1 | sed 's/ordered: //')
	kill -9 "$service_pid"
	wait "$service_pid" || :
	service_start
	start_node n1
	wait_for is_over 1
}

@test "orders that are wrong are refused" {
	service_start
	order() { # BODY
		curl -sS -o "$T/answer" -w '%{http_code}' -d "$1" \
			-H 'Content-Type: application/json' "$U/v1/preheats"
	}
	env="{\"folder\":\"f\",\"key\":\"sha256:$(printf '1%.0s' {1..64})\""
	env+=",\"manifest\":\"sha256:$(printf '1%.0s' {1..64})\"}"
	for body in '' '{}' '[]' '{"ref":"h/r:1","what":"all"}' \
		'{"ref":"h/r:1","what":"cold","nodes":"all"}' \
		'{"ref":"s3://b/e","what":"env","nodes":"all"}' \
		"{\"ref\":\"h/r:1\",\"what\":\"env\",\"nodes\":\"all\",\"env\":$env}" \
		"{\"ref\":\"s3://b/e\",\"what\":\"env\",\"nodes\":\"all\",\"env\":${env/sha256:1/sha256:}}" \
		'{"ref":"r:1","what":"all","nodes":"all"}' \
		'{"ref":"oci://h/r","what":"all","nodes":"all"}' \
		'{"ref":"h/r:1","what":"all","nodes":[]}' \
		'{"ref":"h/r:1","what":"all","nodes":["a b"]}' \
		'{"ref":"h/r:1","what":"all","nodes":[7]}' \
		"{\"ref\":\"h/$(printf 'r%.0s' {1..600})\",\"what\":\"all\",\"nodes\":\"all\"}"; do
		code=$(order "$body")
		echo "$body: $code: $(cat "$T/answer")"
		[[ $code == 4?? ]]
	done
	[ "$(order '{"ref":"h/r:1","what":"hot","nodes":["a","a"]}')" = 202 ]
	[ "$(order "{\"ref\":\"s3://b/e\",\"what\":\"env\",\"nodes\":[\"e\"],\"env\":$env}")" = 202 ]
	curl -fsS "$U/v1/preheats?node=e" | jq -e --argjson env "$env" '.preheats[0].env == $env'
	curl -fsS "$U/v1/preheats?node=a" | jq -e '.preheats[0] | has("env") | not'
	report() { # ID BODY
		curl -sS -o "$T/answer" -w '%{http_code}' -d "$2" \
			-H 'Content-Type: application/json' "$U/v1/preheats/$1"
	}
	[ "$(report 1 '{"node":"b","state":"done"}')" = 404 ]
	[ "$(report 9 '{"node":"a","state":"done"}')" = 404 ]
	[ "$(report x '{"node":"a","state":"done"}')" = 400 ]
	[ "$(report 1 '{"node":"a","state":"late"}')" = 400 ]
	[ "$(report 1 '{"node":"a","state":"done","have_bytes":-1}')" = 400 ]
	[ "$(report 1 '{"node":"a","state":"done","have_bytes":5}')" = 200 ]
	[ "$(curl -fsS "$U/v1/preheats/1" | jq -c '[.nodes[].have_bytes]')" = '[5]' ]
	[ "$(curl -sS -o /dev/null -w '%{http_code}' "$U/v1/preheats/3")" = 404 ]
}

@test "what a node says that it lacks is checked, bounded and counted" {
	service_start
	say() { # NODE BODY
		curl -sS -o "$T/answer" -w '%{http_code}' -X PUT --data-binary @- \
			-H 'Content-Type: application/json' "$U/v1/nodes/$1/doctor" <<<"$2"
	}
	check='{"name":"n","ok":false,"needed":false,"detail":"d","cure":"c"}'
	long=$(printf 'x%.0s' {1..1100})
	for body in '' '[]' '{}' '{"checks":[]}' '{"checks":[7]}' '{"checks":{"a":1}}' \
		"{\"checks\":[${check/false/0}]}" "{\"checks\":[${check/\"n\"/\"\"}]}" \
		"{\"checks\":[${check/\"c\"/\"$long\"}]}" \
		"{\"checks\":[${check/\"n\"/\"${long:0:70}\"}]}" \
		"{\"checks\":[$check$(printf ",$check%.0s" {1..200})]}" \
		"$(printf '%70000s' '')"; do
		code=$(say n1 "$body")
		echo "${body:0:100}: $code: $(cat "$T/answer")"
		[[ $code == 4?? ]]
	done
	[ "$(say 'a%20b' "{\"checks\":[$check]}")" = 400 ]
	[ "$(say n1 "{\"checks\":[$check$(printf ",$check%.0s" {1..99})]}")" = 200 ]
	curl -fsS "$U/v1/doctor" | jq -e '.nodes_all == 1 and .nodes_fresh == 1 and
		(.nodes[0] | .advice == 100 and (.failed | length == 50))'
	# A node that has what it needs takes back what it said.
	[ "$(say n1 "{\"checks\":[${check/false/true}]}")" = 200 ]
	curl -fsS "$U/v1/doctor?node=n1" | jq -e '.nodes_advised == 0 and .nodes[0].failed == []'
	curl -fsS "$U/v1/doctor?node=n2" | jq -e '.nodes == []'
}

@test "a node is known by its certificate, also where recordings go" {
	local who f

	openssl req -x509 -newkey ed25519 -keyout "$T/ca.key" -out "$T/ca.pem" \
		-nodes -days 2 -subj /CN=ca 2>/dev/null
	for who in server:IP:127.0.0.1 n1:URI:bootseer://node/n1; do
		f=$T/${who%%:*}
		openssl req -newkey ed25519 -keyout "$f.key" -out "$f.csr" \
			-nodes -subj /CN=x 2>/dev/null
		openssl x509 -req -in "$f.csr" -CA "$T/ca.pem" \
			-CAkey "$T/ca.key" -CAcreateserial -days 2 \
			-extfile <(echo "subjectAltName=${who#*:}") \
			-out "$f.pem" 2>/dev/null
	done
	printf 'boss sha256:%s admin,read\nnodes sha256:%s read,write\n' \
		"$(printf boss | sha256sum | cut -d' ' -f1)" \
		"$(printf nodes | sha256sum | cut -d' ' -f1)" >"$T/tokens"
	echo boss >"$T/boss"
	echo nodes >"$T/token"
	service_start --tls-cert "$T/server.pem" --tls-key "$T/server.key" \
		--tls-client-ca "$T/ca.pem" --tokens "$T/tokens"
	U=https${U#http}
	mkdir "$T/tls"
	mv "$T/n1.pem" "$T/tls/tls.crt"
	mv "$T/n1.key" "$T/tls/tls.key"
	start_node n1 --service-ca-file "$T/ca.pem" --service-token-file "$T/token" \
		--p2p-tls "$T/tls" --record always
	# One that has the token and says that it is n1.
	start_node other --service-ca-file "$T/ca.pem" \
		--service-token-file "$T/token" --node-name n1 --record always
	run -0 --separate-stderr preheat --token-file "$T/boss" \
		--ca-file "$T/ca.pem" --nodes n1 --wait --timeout 10m
	[[ $output == 'n1: done, '* ]]
	digest=$(on n1 node status --json | jq -r '.images[0].manifest')
	# The service knows it by the certificate, too; n1's figures have what it found.
	on n1 node doctor --report >"$T/doctor" || :
	run on other node doctor --report
	[[ $output == *'the result was not reported'* ]]
	curl -fsS --cacert "$T/ca.pem" -H 'Authorization: Bearer boss' "$U/v1/doctor" |
		jq -e --argjson n "$(grep -c '^advice' "$T/doctor")" \
			'.nodes | length == 1 and .[0].node == "n1" and .[0].advice == $n'
	has_runs() { # N
		[ "$(curl -fsS --cacert "$T/ca.pem" -H 'Authorization: Bearer nodes' \
			"$U/v1/traces/$digest" | jq '.traces[0].runs // 0')" = "$1" ]
	}
	record_on() { # NAME
		on "$1" image record "$IMAGE" -- \
			/bin/sh -c 'cat /top/data >/dev/null' 2>/dev/null
	}
	record_on n1
	wait_for has_runs 1
	record_on other
	wait_for grep -q 'not sent.*403.*of no node' "$T/other/log"
	has_runs 1
}

@test "who may order, and of whom" {
	token() { printf %s "$1" | sha256sum | cut -d' ' -f1; }
	cat >"$T/tokens" <<-END
		boss sha256:$(token boss) admin repo=h/mine
		n1 sha256:$(token n1) read,write node=n1
		both sha256:$(token both) read,admin
	END
	chmod 600 "$T/tokens"
	service_start --tokens "$T/tokens"
	as() { # TOKEN CURL-OPTION...
		curl -sS -o "$T/answer" -w '%{http_code}' \
			-H "Authorization: Bearer $1" "${@:2}"
	}
	body='{"what":"all","nodes":["n1"],"ref":'
	[ "$(as boss -d "$body\"h/mine/app:1\"}" "$U/v1/preheats")" = 202 ]
	[ "$(as boss -d "$body\"h/mine@sha256:$(printf '%064d' 1)\"}" "$U/v1/preheats")" = 202 ]
	[ "$(as boss -d "$body\"h/other:1\"}" "$U/v1/preheats")" = 403 ]
	[ "$(as n1 -d "$body\"h/mine/app:1\"}" "$U/v1/preheats")" = 403 ]
	[ "$(as n1 "$U/v1/preheats?node=n1")" = 200 ]
	[ "$(jq '.preheats | length' "$T/answer")" = 2 ]
	[ "$(as n1 "$U/v1/preheats?node=n2")" = 403 ]
	[ "$(as n1 -d '{"node":"n2","state":"done"}' "$U/v1/preheats/1")" = 403 ]
	[ "$(as n1 -d '{"node":"n1","state":"done"}' "$U/v1/preheats/1")" = 200 ]
	# Names and words of nodes are for those who order.
	[ "$(as n1 "$U/v1/preheats/1")" = 200 ]
	jq -e '.counts == {"done": 1} and (has("nodes") | not)' "$T/answer"
	[ "$(as both "$U/v1/preheats/1")" = 200 ]
	jq -e '.counts == {"done": 1} and .nodes[0].node == "n1"' "$T/answer"
}
