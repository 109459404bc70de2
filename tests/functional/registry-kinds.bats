#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Images, signatures and traces at registries as docs/registries.md has them.

bats_require_minimum_version 1.5.0

. "$BATS_TEST_DIRNAME/../wait.bash"

setup_file()
{
	export PATH=$BOOTSEER_BUILD/cli:$BOOTSEER_BUILD/tests/functional:$PATH
	export HERE=$BATS_TEST_DIRNAME F=$BATS_FILE_TMPDIR
	"$HERE/make-image.py" "$F/image" times 1500000000
	"$HERE/make-image.py" "$F/next" times 1500000001
	bootseer key new "$F/a.key"
	bootseer key new "$F/b.key"
	bootseer key new --uses verify "$F/v.key"
}

setup()
{
	W=$BATS_TEST_TMPDIR
	export HOME=$W/home no_proxy='*'
	unset XDG_CONFIG_HOME DOCKER_CONFIG
	mkdir "$HOME"
	mkfifo "$W/pipe"
	"$BOOTSEER_BUILD/tests/fakes/fake-registry" --dir "$W/lay" \
		--port-file - --log "$W/requests" >"$W/pipe" 3>&- &
	FAKE_PID=$!
	read -r -t 60 port control <"$W/pipe"
	APP=127.0.0.1:$port/team/app CONTROL=http://127.0.0.1:$control
}

teardown()
{
	[ -z "${REGISTRY_PID:-}" ] || stop_distribution
	kill "$FAKE_PID"
	wait "$FAKE_PID" || :
}

# The real one, on the folder of $W/registry.yml; APP is there then.
start_distribution()
{
	rm -f "$W/pipe"
	mkfifo "$W/pipe"
	docker-registry serve "$W/registry.yml" >"$W/pipe" 2>&1 3>&- &
	REGISTRY_PID=$!
	exec 9<"$W/pipe"
	while IFS= read -r -t 120 -u 9 line; do
		[[ $line =~ listening\ on\ [^\ ]*:([0-9]+) ]] || continue
		APP=127.0.0.1:${BASH_REMATCH[1]}/team/app
		cat <&9 >"$W/registry.log" 3>&- &
		return 0
	done
	return 1
}

stop_distribution()
{
	kill "$REGISTRY_PID"
	wait "$REGISTRY_PID" || :
	REGISTRY_PID=
}

fault() { curl -fsS "$CONTROL/set?$1"; }

# bootseer image COMMAND, bootseer trace COMMAND at the registry without TLS.
image() { local c=$1; shift; bootseer image "$c" --plain-http "$@"; }
trace() { local c=$1; shift; bootseer trace "$c" --plain-http "$@"; }

push_trace() # REF CREATED
{
	"$HERE/make-trace" "sha256:$(skopeo inspect --raw --tls-verify=false \
		"docker://$1" | sha256sum | cut -d' ' -f1)" train "$2" >"$W/trace"
	trace push "$1" "$W/trace"
}

# All that is stored beside an image, and read again by whoever has seen nothing of it.
everything()
{
	image convert --sign "$F/a.key" "oci:$F/image:latest" "$APP:1"
	image sign --key "$F/b.key" --trusted "$F/a.key.pub" "$APP:1"
	image verify --key "$F/v.key" --trusted "$F/a.key.pub" "$APP:1"
	image inspect "$APP:1" | jq -e '.signatures | length == 3'
	trust-check "$APP:1" "$F/b.key.pub" signed -
	trust-check "$APP:1" "$F/v.key.pub" verified -
	push_trace "$APP:1" 1600000000
	push_trace "$APP:1" 1700000000
	trace pull -o "$W/pulled" "$APP:1"
	# Nothing is done twice, and what is replaced goes.
	run -0 image convert --sign "$F/a.key" "oci:$F/image:latest" "$APP:1"
	image convert --force --prune --sign "$F/a.key" "oci:$F/image:latest" \
		"$APP:1"
	image inspect "$APP:1" | jq -e '.otherArtifacts == []'
	image rm "$APP:1"
	run -1 image inspect "$APP:1"
	[[ $output == *"was not converted"* ]]
}

@test "a registry with the API, and one without" {
	everything
	fault referrers=0
	everything
}

@test "one that answers 401 without a challenge, 406, other JSON or null" {
	for how in 401 406 2 3; do
		fault "referrers=$how"
		everything
	done
}

@test "one whose lists have no types" {
	fault referrers=4
	everything
}

@test "one where the tag for the list is the image itself" {
	fault 'referrers=0&digest_tags=1'
	everything
	# The tags of the specification were left alone.
	run ! grep -E 'PUT [^ ]*/manifests/sha256-[0-9a-f]{64} [^4]' "$W/requests"
}

@test "one whose tags are immutable says what it cannot keep, and what to do" {
	fault 'referrers=0&immutable=409'
	image convert --sign "$F/a.key" "oci:$F/image:latest" "$APP:1"
	image check "$APP:1"
	trust-check "$APP:1" "$F/a.key.pub" signed -
	run -0 image convert --sign "$F/a.key" "oci:$F/image:latest" "$APP:1"
	for what in "sign --key $F/b.key --trusted $F/a.key.pub" \
		"verify --key $F/v.key --trusted $F/a.key.pub"; do
		# shellcheck disable=SC2086 # words
		run -1 image $what "$APP:1"
		echo "$output"
		[[ $output == *"tags are immutable"*"exempt tags 'sha256-*'"* ]]
	done
	run -1 push_trace "$APP:1" 1600000000
	[[ $output == *"tags are immutable"*"exempt tags 'sha256-*'"* ]]
	# What is needed for a start is there and signed in the flat form, too.
	image convert --form flat --sign "$F/a.key" "oci:$F/next:latest" "$APP:2"
	trust-check "$APP:2" "$F/a.key.pub" signed -
	# The cure.
	fault 'immutable=0'
	image sign --key "$F/b.key" --trusted "$F/a.key.pub" "$APP:1"
	trust-check "$APP:1" "$F/b.key.pub" signed -
	push_trace "$APP:1" 1600000000
}

@test "one whose storage refuses HEAD, and wants to know who led there" {
	fault 'redirect=1&referer=1&no_head=2'
	everything
}

@test "garbage collection of untagged manifests is warned of, and named afterwards" {
	cat >"$W/registry.yml" <<-EOF
	version: 0.1
	log: { level: info }
	storage: { filesystem: { rootdirectory: $W/registry },
	           delete: { enabled: true } }
	http: { addr: "127.0.0.1:0" }
	EOF
	start_distribution
	image convert --sign "$F/a.key" "oci:$F/image:latest" "$APP:1"
	run -0 image check "$APP:1"
	[[ $output == *"would remove them"* ]]
	stop_distribution
	docker-registry garbage-collect "$W/registry.yml" >"$W/gc"
	start_distribution
	image check "$APP:1"
	stop_distribution
	docker-registry garbage-collect --delete-untagged "$W/registry.yml" >"$W/gc"
	start_distribution
	run -1 image check "$APP:1"
	[[ $output == *"listed, but gone"*"convert it anew"* ]]
	image convert --sign "$F/a.key" "oci:$F/image:latest" "$APP:1"
	image check "$APP:1"
}
