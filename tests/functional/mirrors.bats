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
	"$bootseer" node status | sed q | grep -q "^registry .*$REGISTRY, not asked"
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
	[[ $output == *"starts the ordinary way"*"cure:"*"pull secrets"*"login"* ]]
	run "$bootseer" node doctor
	[[ $output == *"ordinary start"*"$IMAGE"* ]]
}

make_certs() {
	local f

	mkdir -p "$T/hosts/up.invalid"
	openssl req -x509 -newkey ed25519 -keyout "$T/ca.key" -out "$T/ca.pem" \
		-nodes -days 2 -subj /CN=ca 2>/dev/null
	for f in server client; do
		openssl req -newkey ed25519 -keyout "$T/$f.key" -out "$T/$f.csr" \
			-nodes -subj /CN=x 2>/dev/null
		openssl x509 -req -in "$T/$f.csr" -CA "$T/ca.pem" -CAkey "$T/ca.key" \
			-CAcreateserial -days 2 -out "$T/$f.pem" \
			-extfile <(echo subjectAltName=IP:127.0.0.1) 2>/dev/null
	done
	cp "$T/ca.pem" "$T/hosts/up.invalid/authority.pem"
}

# A registry by TLS before the fake one: its port, and what it is reached with in $T/up.
tls_start() {
	make_certs
	"$BATS_TEST_DIRNAME/tls-front.py" "$REGISTRY" "$T/tls.port" "$T/server.pem" \
		"$T/server.key" "$T/ca.pem" 3>&- &
	pids+=($!)
	wait_for test -s "$T/tls.port"
	FRONT=https://127.0.0.1:$(cat "$T/tls.port")
	cat "$T/client.pem" "$T/client.key" >"$T/both.pem"
}

tls_hosts() { # LINE...
	{
		echo 'server = "https://up.invalid"'
		echo "[host.\"$FRONT\"]"
		printf '%s\n' "$@"
	} >"$T/hosts/up.invalid/hosts.toml"
}

@test "a host of hosts.toml is spoken to by its ca, client, skip_verify and header" {
	local ca='ca = "authority.pem"' pair="client = [[\"$T/client.pem\", \"$T/client.key\"]]"
	local key='header = { "X-Key" = "open" }' gets

	tls_start
	tls_hosts "$ca" "$pair" "$key"
	node_start --hosts-dir "$T/hosts" --trust up.invalid=registry
	"$bootseer" image mount up.invalid/img:v1 "$T/mnt"
	cmp "$T/mnt/top/data" "$BATS_FILE_TMPDIR/bundle/rootfs/top/data"
	"$bootseer" image umount "$T/mnt"
	gets=$(grep -c '^GET' "$T/requests")
	# Without any of them it is not reached, nor is the one before it heard.
	for without in "$pair|$key" "$ca|$key" "$ca|$pair"; do
		tls_hosts "${without%%|*}" "${without##*|}"
		kill -HUP "$node_pid"
		wait_for grep -q 'info main: reload' "$T/log"
		: >"$T/log"
		run ! "$bootseer" image mount up.invalid/other:v1 "$T/mnt"
	done
	[ "$(grep -c '^GET' "$T/requests")" -eq "$gets" ]
	# One file with both, and a certificate that nobody looks at.
	tls_hosts 'skip_verify = true' "client = \"$T/both.pem\"" "$key"
	kill -HUP "$node_pid"
	wait_for grep -q 'info main: reload' "$T/log"
	"$bootseer" image mount up.invalid/other:v1 "$T/mnt"
	"$bootseer" image umount "$T/mnt"
}

# nginx by TLS and HTTP/2 before the fake registry.  Every second answer ends its
# connection: by GOAWAY, beside other transfers, where HTTP/2 is spoken.
h2_start() {
	make_certs
	cat >"$T/nginx.conf" <<-EOF
		daemon off;
		user root;
		pid $T/nginx.pid;
		error_log stderr;
		events {}
		http {
			log_format said '\$server_protocol \$request_method \$uri';
			access_log $T/said.h2 said;
			keepalive_requests 2;
			client_body_temp_path $T/body;
			proxy_temp_path $T/proxy;
			fastcgi_temp_path $T/fastcgi;
			uwsgi_temp_path $T/uwsgi;
			scgi_temp_path $T/scgi;
			server {
				listen 127.0.0.1:PORT ssl http2;
				ssl_certificate $T/server.pem;
				ssl_certificate_key $T/server.key;
				location / { proxy_pass http://$REGISTRY; }
			}
		}
	EOF
	# It takes no port of the kernel's choice, but a socket that listens.
	python3 -c '
import os, socket, sys
conf, port_file = sys.argv[1:]
s = socket.create_server(("127.0.0.1", 0))
s.set_inheritable(True)
port = str(s.getsockname()[1])
text = open(conf).read().replace("PORT", port)
open(conf, "w").write(text)
open(port_file, "w").write(port + "\n")
os.environ["NGINX"] = f"{s.fileno()};"
os.execvp("nginx", ["nginx", "-e", "stderr", "-c", conf])' \
		"$T/nginx.conf" "$T/h2.port" 2>"$T/nginx.log" 3>&- &
	pids+=($!)
	wait_for test -s "$T/nginx.pid"
	FRONT=https://127.0.0.1:$(cat "$T/h2.port")
}

@test "a registry that prefers HTTP/2, and ends its connections, is read by HTTP/1.1" {
	h2_start
	curl -sf --http2 --cacert "$T/ca.pem" -o /dev/null "$FRONT/v2/"
	wait_for grep -q '^HTTP/2.0 GET /v2/' "$T/said.h2"
	tls_hosts 'ca = "authority.pem"'
	node_start --hosts-dir "$T/hosts" --trust up.invalid=registry
	"$bootseer" image mount up.invalid/img:v1 "$T/mnt"
	diff -r --no-dereference "$T/mnt/many" "$BATS_FILE_TMPDIR/bundle/rootfs/many"
	cmp "$T/mnt/big" "$BATS_FILE_TMPDIR/bundle/rootfs/big"
	cmp "$T/mnt/top/data" "$BATS_FILE_TMPDIR/bundle/rootfs/top/data"
	"$bootseer" image umount "$T/mnt"
	[ "$(grep -c '^HTTP/1.1 GET .*/blobs/' "$T/said.h2")" -gt 2 ]
	[ "$(grep -vc '^HTTP/1.1' "$T/said.h2")" = 1 ]
}

@test "doctor looks at each hosts.toml: hosts, files, and what is not heeded" {
	tls_start
	tls_hosts 'ca = "authority.pem"' "client = \"$T/both.pem\"" 'dial_timeout = "1s"'
	mkdir -p "$T/hosts/a.invalid" "$T/hosts/b.invalid_5000_" "$T/hosts/_default"
	echo '[host."https://127.0.0.1:1"]' >"$T/hosts/_default/hosts.toml"
	printf '[host."%s"]\nca = "none.pem"\n' "$FRONT" >"$T/hosts/a.invalid/hosts.toml"
	printf '[host."%s"]\nskip_verify = "yes"\n' "$FRONT" \
		>"$T/hosts/b.invalid_5000_/hosts.toml"
	node_start --hosts-dir "$T/hosts"
	run "$bootseer" node doctor
	[[ $output == *"hosts.toml"*"a.invalid/hosts.toml: left aside: "*"none.pem"* ]]
	[[ $output == *"b.invalid_5000_/hosts.toml: left aside: "*"'skip_verify'"* ]]
	[[ $output == *"_default/hosts.toml: no answer: "*"127.0.0.1:1"* ]]
	[[ $output == *"up.invalid/hosts.toml: not heeded here: 'dial_timeout'"* ]]
	# Its TLS is right, so any answer is one; up.invalid itself does not exist.
	[[ $output != *"up.invalid/hosts.toml: no answer: "*"$FRONT"* ]]
	[[ $output == *"up.invalid/hosts.toml: no answer: "*"up.invalid"* ]]
}

# As containerd's CRI asks: by the digest of the image whose manifest it has pulled.
prepare() { call image.prepare "{\"ref\":\"$1\",\"manifest\":\"$2\"}"; } # REFERENCE DIGEST

@test "Docker Hub counts nothing for an ordinary image, and gives a lazy one" {
	local content=$T/ctd/io.containerd.content.v1.content plain lazy

	mkdir -p "$content" "$T/hosts/docker.io" "$T/own"
	cp -r "$D/src" "$T/own/oci"
	rm "$T/ports"
	D=$T/own registry_start
	fault referrers=404
	"$bootseer" image convert --plain-http "oci:$D/src:v1" "$REGISTRY/library/img:v1"
	lazy=$(jq -r '.manifests[0].digest' "$D/src/index.json")
	# Without artifact: another manifest of the same layers.
	jq -c '.annotations.other = "yes"' "$D/src/blobs/sha256/${lazy#*:}" >"$T/other"
	plain=sha256:$(sha256sum "$T/other" | cut -d' ' -f1)
	cp -r "$D/src/blobs" "$content/blobs"
	cp "$T/other" "$content/blobs/sha256/${plain#*:}"
	: >"$T/requests"
	echo "server = \"http://$REGISTRY\"" >"$T/hosts/docker.io/hosts.toml"
	node_start --hosts-dir "$T/hosts" --trust docker.io=registry --containerd-root "$T/ctd"
	run prepare docker.io/library/img:v1 "$plain"
	[[ $output == *"no artifact"* ]]
	run ! grep '^GET .*/manifests/' "$T/requests"
	grep -q '^HEAD .*/manifests/sha256-' "$T/requests"
	# The list has to be read, and the artifact, but not the manifest that is here.
	run prepare docker.io/library/img:v1 "$lazy"
	[[ $output == *'"result"'* ]]
	run ! grep "^GET .*/manifests/$lazy" "$T/requests"
	# Nothing of it is believed unless its digest says so.
	echo x >>"$content/blobs/sha256/${plain#*:}"
	prepare docker.io/library/new:v1 "$plain" >"$T/answer"
	grep -q "^GET .*/new/manifests/$plain" "$T/requests"
}

@test "a registry, and a token service, that refuses is asked once by each image, and found again" {
	node_start --plain-http 127.0.0.1:1
	run ! "$bootseer" image mount 127.0.0.1:1/img:v1 "$T/mnt"
	[[ $output != *"is away"* ]]
	run ! "$bootseer" image mount 127.0.0.1:1/other:v1 "$T/mnt"
	[[ $output == *"Couldn't connect"* ]]
	"$bootseer" node status | grep -q '^registry .*127.0.0.1:1, not asked'
	fault bearer=1 token_port=1
	run ! "$bootseer" image mount "$IMAGE" "$T/mnt"
	[[ $output == *"token service"* ]]
	kill -HUP "$node_pid"
	wait_for grep -q 'info main: reload' "$T/log"
	run ! "$bootseer" image mount "$IMAGE" "$T/mnt"
	[[ $output == *"token service http://127.0.0.1:1/token"* ]]
	run ! "$bootseer" image mount "$REGISTRY/other:v1" "$T/mnt"
	[[ $output == *"token service http://127.0.0.1:1/token"* ]]
	# The registry itself is not taken for away.
	fault
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	"$bootseer" image umount "$T/mnt"
}

says_silent() { # COMMAND...
	"$@" >"$T/said" || :
	grep -q "$REGISTRY.*silent for .* the longest for blob " "$T/said"
}

@test "a registry that takes a read and is silent is named long before --stall-timeout" {
	node_start --stall-timeout 10m
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	fault delay_ms=600000 match=/blobs/
	aside read cat "$T/mnt/top/data" >"$T/data"
	wait_for says_silent "$bootseer" node status
	says_silent "$bootseer" image explain "$IMAGE"
	"$bootseer" node doctor >"$T/doctor" || :
	grep -q "registry silent .*$REGISTRY" "$T/doctor"
	wait_for grep -q "warning origin: silent registry=.*$REGISTRY" "$T/log"
	[ ! -s "$T/aside.read" ]
	run ! grep 'waiting for registry' "$T/log"
	kill -KILL "$node_pid"
	wait_for has_ended read
}
