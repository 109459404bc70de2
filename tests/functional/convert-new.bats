#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Convert on push: Debian's docker-registry says what was pushed, bootseer-registry queues it, and
# a worker converts and signs it.

bats_require_minimum_version 1.5.0
load registry.bash

setup() {
	kind=sqlite W=$BATS_TEST_TMPDIR DB=sqlite:$BATS_TEST_TMPDIR/registry.db
	AUTH= ADDRESS=$(own_address) REGISTRY_PID=
	export HOME=$W/home no_proxy='*'
	unset XDG_CONFIG_HOME DOCKER_CONFIG XDG_RUNTIME_DIR BOOTSEER_SERVICE
	mkdir "$HOME"
	bootseer=$BOOTSEER_BUILD/cli/bootseer
	for p in "hub notify" "work read,convert" "node read,write node=*"; do
		echo "${p%% *} sha256:$(printf %s "${p%% *}" | sha256sum | cut -c1-64) ${p#* }"
		printf %s "${p%% *}" >"$W/${p%% *}.token"
	done >"$W/tokens"
}

teardown() {
	[ -z "$REGISTRY_PID" ] || kill "$REGISTRY_PID"
	stop_all
	[ -n "${BATS_TEST_COMPLETED:-}" ] || sed 's/^/# /' "$W"/log.* "$W/registry.log" >&3
}

# docker-registry at $ADDRESS: its port in $PORT, which the next one at this address has again.
serve_registry() { # PORT [URL]
	cat >"$W/registry.yml" <<-END
	version: 0.1
	log: { level: info }
	storage: { filesystem: { rootdirectory: $W/registry }, delete: { enabled: true } }
	http: { addr: "$ADDRESS:$1" }
	END
	[ -z "${2:-}" ] || cat >>"$W/registry.yml" <<-END
	notifications:
	  endpoints:
	    - name: bootseer
	      url: $2
	      headers: { Authorization: [Bearer hub] }
	      timeout: 60s
	      threshold: 1000
	      backoff: 100ms
	END
	docker-registry serve "$W/registry.yml" >"$W/registry.log" 2>&1 3>&- &
	REGISTRY_PID=$!
	wait_for grep -q 'listening on' "$W/registry.log"
	PORT=$(sed -n 's/.*listening on [^ ]*:\([0-9]*\).*/\1/p' "$W/registry.log" | head -n 1)
}

# Both, each of which knows the other: $REGISTRY and $U.
serve_both() { # RULE... with @ for the registry
	local rule rules=()

	serve_registry 0
	kill "$REGISTRY_PID"
	wait "$REGISTRY_PID" || :
	REGISTRY=$ADDRESS:$PORT
	for rule; do
		rules+=(--convert "${rule/@/$REGISTRY}")
	done
	service --tokens "$W/tokens" "${rules[@]}"
	serve_registry "$PORT" "$U/v1/notifications?registry=$REGISTRY"
}

push() { # LAYOUT REPOSITORY:TAG
	skopeo copy --quiet --dest-tls-verify=false "oci:$1:latest" "docker://$REGISTRY/$2"
}

conversions() { curl -fsS -H "Authorization: Bearer work" "$U/v1/conversions" | jq -r "$1"; }
is_count() { [ "$(conversions ".counts.$1")" = "$2" ]; } # STATE N
worker() { # [OPTION...]
	"$bootseer" image convert-new --drain --service "$U" --token-file "$W/work.token" \
		--plain-http "$@" "$REGISTRY"
}

notify() { # TOKEN REGISTRY BODY
	ask -H "Authorization: Bearer $1" --data-binary "$3" "$U/v1/notifications?registry=$2"
}

event() { # REPOSITORY DIGEST TAG
	jq -nc --arg r "$1" --arg d "$2" --arg t "$3" '{events: [{action: "push", target: {
		mediaType: "application/vnd.oci.image.manifest.v1+json", repository: $r, digest: $d,
		tag: $t}, request: {host: "evil.example"}}]}'
}

@test "what is pushed is converted and signed by rule, and what conversions push is not" {
	"$BATS_TEST_DIRNAME/make-image.py" "$W/image" good 1 gzip
	"$BATS_TEST_DIRNAME/make-image.py" "$W/none" none
	serve_both @=index @/team=referrer @/team/off=off
	push "$W/image" app:1
	push "$W/image" team/app:1
	push "$W/image" team/off/app:1
	push "$W/none" team/none:1
	wait_for is_count waiting 3
	# The queue is the database's.
	end_service KILL
	rules=(--convert "$REGISTRY=index" --convert "$REGISTRY/team=referrer")
	service --tokens "$W/tokens" --listen "$ADDRESS:${U##*:}" "${rules[@]}"
	worker | tee "$W/said"
	[ "$(grep -c ': converted, ' "$W/said")" = 2 ]
	grep -q 'team/none:1: not converted, .*no layers' "$W/said"
	is_count waiting 0
	is_count done 2
	[ "$(conversions '.conversions[] | select(.state == "failed") | .error')" != "" ]
	# Blocks of an index lie in the layers, in what is unpacked of them (format 2).
	for p in app:true team/app:false; do
		"$bootseer" image inspect --plain-http "docker://$REGISTRY/${p%:*}:1" |
			jq -e --arg r "$REGISTRY/${p%:*}" --argjson is_index "${p#*:}" \
			'.signatures[0].repository == $r and (.format == 2) == $is_index'
	done
	# Notifications come in order: those of the worker's pushes were before this one's.
	push "$W/image" app2:1
	wait_for is_count waiting 1
	is_count done 2
	[ "$(conversions '[.conversions[].repo] | length')" = 4 ]
	worker
	is_count done 3
}

@test "nobody else notifies, and what is said of other registries is not believed" {
	REGISTRY=reg.example
	service --tokens "$W/tokens" --convert reg.example/team=index
	notify work reg.example "$(event team/a "$A" 1)"
	[ "$code" = 403 ]
	notify node reg.example "$(event team/a "$A" 1)"
	[ "$code" = 403 ]
	notify nobody reg.example "$(event team/a "$A" 1)"
	[ "$code" = 401 ]
	notify hub evil.example "$(event team/a "$A" 1)"
	[ "$code" = 403 ]
	notify hub reg.example 'no JSON'
	[ "$code" = 400 ]
	for p in ../team/a team/../../a other/a evil.example/team/a teams/a; do
		notify hub reg.example "$(event "$p" "$A" 1)"
		[ "$code" = 200 ]
		[ "$(jq .queued "$O")" = 0 ]
	done
	is_count waiting 0
	notify hub reg.example "$(event team/a "$A" 1)"
	[ "$(jq .queued "$O")" = 1 ]
	notify hub reg.example "$(event team/a "$A" 2)"
	[ "$(jq .known "$O")" = 1 ]
	# A node takes none, and nobody takes those of elsewhere.
	ask -X POST -d '' -H 'Authorization: Bearer node' "$U/v1/conversions?repo=reg.example&worker=w"
	[ "$code" = 403 ]
	ask -X POST -d '' -H 'Authorization: Bearer work' "$U/v1/conversions?repo=reg.example/b&worker=w"
	[ "$(jq .conversion "$O")" = null ]
}

# The service at $U by what a test says: a conversion of an image elsewhere.
@test "a worker goes to no registry but its own, whatever the service says" {
	python3 - "$W/port" "$W/told" 3>&- <<-'END' &
	import http.server, json, sys
	class Liar(http.server.BaseHTTPRequestHandler):
	    protocol_version = "HTTP/1.1"
	    n = 0
	    def do_POST(self):
	        self.answer({"conversion": None if Liar.n else {
	            "id": 1, "tries": 1, "repo": "127.0.0.1:1/x", "tag": "1", "form": "index",
	            "image": "sha256:" + "a" * 64}})
	        Liar.n += 1
	    def do_PUT(self):
	        body = self.rfile.read(int(self.headers["Content-Length"]))
	        open(sys.argv[2], "wb").write(body)
	        self.answer({"noted": 1})
	    def answer(self, o):
	        body = json.dumps(o).encode()
	        self.send_response(200)
	        self.send_header("Content-Length", str(len(body)))
	        self.end_headers()
	        self.wfile.write(body)
	s = http.server.HTTPServer(("127.0.0.1", 0), Liar)
	open(sys.argv[1] + ".new", "w").write(str(s.server_port))
	import os
	os.rename(sys.argv[1] + ".new", sys.argv[1])
	s.serve_forever()
	END
	services+=($!)
	wait_for test -e "$W/port"
	U=http://127.0.0.1:$(cat "$W/port") REGISTRY=reg.example
	# One without room for its files takes no image, which would have failed for good.
	run -1 worker --temp-dir "$W/none"
	[[ $output == *"--temp-dir"* && ! -e "$W/told" ]]
	worker
	jq -e '.state == "failed" and (.error | contains("not below reg.example"))' "$W/told"
	kill -KILL "${services[@]}"
	services=()
	touch "$W/log.none" "$W/registry.log"
}
