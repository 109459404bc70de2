#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bootseer trace: files, and traces beside their images in Debian's
# docker-registry, which has no referrers API, and in one that misbehaves.

bats_require_minimum_version 1.5.0

setup_file()
{
	export F=$BATS_FILE_TMPDIR PATH=$BOOTSEER_BUILD/cli:$PATH
	mkdir "$F/one" "$F/two"
	echo one >"$F/one/file"
	echo two >"$F/two/file"
	umoci init --layout "$F/images"
	for v in one two; do
		umoci new --image "$F/images:$v"
		umoci insert --image "$F/images:$v" "$F/$v" /data
	done
}

setup()
{
	W=$BATS_TEST_TMPDIR
	PIDS=()
	export HOME=$W no_proxy='*' # no login or proxy of this machine
	unset DOCKER_CONFIG XDG_RUNTIME_DIR
}

teardown()
{
	for pid in "${PIDS[@]}"; do
		kill "$pid" 2>/dev/null || :
		wait "$pid" 2>/dev/null || :
	done
}

# The first line of FIFO that matches REGEX sets BASH_REMATCH.
wait_line() # FIFO REGEX
{
	local line

	exec 9<"$1"
	while IFS= read -r -t 120 -u 9 line; do
		[[ $line =~ $2 ]] || continue
		cat <&9 >"$1.rest" 3>&- &
		PIDS+=($!)
		return 0
	done
	return 1
}

# docker-registry with both images: IMAGE is its repository.
registry() # [delete]
{
	cat >"$W/registry.yml" <<-END
	version: 0.1
	storage:
	  filesystem: {rootdirectory: $W/registry}
	  delete: {enabled: ${1:-true}}
	http: {addr: "127.0.0.1:0"}
	END
	mkfifo "$W/pipe"
	docker-registry serve "$W/registry.yml" >"$W/pipe" 2>&1 3>&- &
	PIDS+=($!)
	REGISTRY_PID=$!
	wait_line "$W/pipe" 'listening on [^ ]*:([0-9]+)'
	IMAGE=127.0.0.1:${BASH_REMATCH[1]}/team/app
	for v in one two; do
		skopeo copy -q --dest-tls-verify=false "oci:$F/images:$v" \
			"docker://$IMAGE:$v"
	done
}

# The registry that does as it is told, with both images.
fake()
{
	cp -r "$F/images" "$W/lay"
	mkfifo "$W/pipe"
	"$BOOTSEER_BUILD/tests/fakes/fake-registry" --dir "$W/lay" \
		--port-file - --log "$W/requests" >"$W/pipe" 3>&- &
	PIDS+=($!)
	wait_line "$W/pipe" '^([0-9]+) ([0-9]+)$'
	IMAGE=127.0.0.1:${BASH_REMATCH[1]}/team/app
	CONTROL=http://127.0.0.1:${BASH_REMATCH[2]}
}

fault() { curl -fsS "$CONTROL/set?$1"; }

digest_of() # VERSION
{
	echo "sha256:$(skopeo inspect --raw "oci:$F/images:$1" | sha256sum |
		cut -d' ' -f1)"
}

# A recording of the start of an image: two files, the second one PATH; of the
# repository IMAGE, if there is one.
recording() # FILE VERSION WORKLOAD CREATED [PATH]
{
	local file=$1 image

	image=$(digest_of "$2")
	shift 2
	"$BATS_TEST_DIRNAME/make-trace" "$image" "$1" "$2" \
		"${3:-/bin/tool}" "${IMAGE:-}" >"$W/json"
	bootseer trace merge -o "$file" "$W/json"
}

# bootseer trace COMMAND in the registry without TLS.
trace() { local c=$1; shift; bootseer trace "$c" --plain-http "$@"; }

@test "what was pushed is listed, shown, pulled and removed" {
	registry
	recording "$W/a" one train-1 1700000000
	run -0 trace push "$IMAGE:one" "$W/a"
	[[ $output == *train-1* ]]
	trace pull -o "$W/got" "$IMAGE:one"
	cmp "$W/a" "$W/got"
	run -0 trace ls "$IMAGE:one"
	[[ $output == *train-1*2023-11-14\ 22:13:20Z*1.50\ s* ]]
	run -0 trace ls --json "$IMAGE:one"
	[ "$(jq -r '.[0].image' <<<"$output")" = "$(digest_of one)" ]
	run -0 trace show "$IMAGE:one"
	[[ ${lines[-2]} == *0.005\ s*100%*/etc/conf ]]
	[[ ${lines[-1]} == *1.200\ s*100%*/bin/tool ]]
	trace rm --workload train-1 "$IMAGE:one"
	run -1 trace pull "$IMAGE:one"
	[[ $output == *"has no trace in its repository"*"image record"* ]]
	run -1 trace rm --workload train-1 "$IMAGE:one"
	# The image itself is as it was.
	skopeo copy -q --src-tls-verify=false "docker://$IMAGE:one" "dir:$W/d"
}

@test "an index of tags shows nothing of traces" {
	registry
	recording "$W/a" one train-1 1700000000
	trace push "$IMAGE:one" "$W/a"
	skopeo list-tags --tls-verify=false "docker://$IMAGE" |
		grep -q bootseer-trace-
	run -0 bootseer image ls --plain-http "$IMAGE:one"
	[ "$(jq -r '.[].tag' <<<"$output" | sort | xargs)" = "one two" ]
}

@test "recordings are merged, whether the registry deletes or not" {
	for delete in true false; do
		W=$BATS_TEST_TMPDIR/$delete
		mkdir "$W"
		registry "$delete"
		recording "$W/a" one train-1 1700000000 /bin/a
		recording "$W/b" one train-1 1700000001 /bin/b
		trace push "$IMAGE:one" "$W/a"
		trace push "$IMAGE:one" "$W/b"
		trace push "$IMAGE:one" "$W/b"
		run -0 trace show --json "$IMAGE:one"
		[ "$(jq .runs <<<"$output")" -ge 2 ]
		[ "$(jq .created_at <<<"$output")" = 1700000001 ]
		jq -e '.entries | map({(.path): .confidence}) | add |
			."/etc/conf" == 1000 and ."/bin/a" < 500 and
			."/bin/b" > 500' <<<"$output"
		[ "$(trace ls --json "$IMAGE:one" | jq length)" = 1 ]
	done
}

@test "of those that push at once none is lost" {
	fake
	for i in 1 2 3 4 5; do
		recording "$W/$i" one train-1 $((1700000000 + i)) "/bin/$i"
	done
	pushes=()
	for i in 1 2 3 4; do
		trace push "$IMAGE:one" "$W/$i" 3>&- &
		pushes+=($!)
	done
	for pid in "${pushes[@]}"; do
		wait "$pid"
	done
	trace push "$IMAGE:one" "$W/5"
	run -0 trace show --json "$IMAGE:one"
	[ "$(jq -r '[.entries[].path | select(startswith("/bin/"))] | sort |
		join(" ")' <<<"$output")" = "/bin/1 /bin/2 /bin/3 /bin/4 /bin/5" ]
	[ "$(trace ls --json "$IMAGE:one" | jq length)" = 1 ]
}

@test "the next image inherits, through one tag" {
	fake
	recording "$W/a" one train-1 1700000000
	recording "$W/s" one serve-1 1700000009 /bin/serve
	trace push "$IMAGE:one" "$W/a"
	: >"$W/requests"
	run -0 --separate-stderr trace show --json --workload train-1 \
		"$IMAGE:two"
	[ "$(jq -r .image <<<"$output")" = "$(digest_of one)" ]
	# The image; the tag; its own traces, of which there are none, asked for in both
	# ways; the blob.
	grep -v ' 401 ' "$W/requests" | grep -c '^GET' >"$W/n"
	[ "$(cat "$W/n")" -le 5 ]
	run -0 trace pull -o "$W/got" --workload train-1 "$IMAGE:two"
	[[ $output == *"of another image of the repository"* ]]
	run -1 trace pull --exact -o "$W/got" --workload train-1 "$IMAGE:two"
	run -1 trace pull -o "$W/got" "$IMAGE:two"
	[[ $output == *"has no trace"* ]]
	# Nearer: another workload of the image itself is not a relative.
	trace push "$IMAGE:one" "$W/s"
	run -0 trace pull -o "$W/got" --workload eval-1 "$IMAGE:one"
	[[ $output == *"of another workload of this image"* ]]
	run -0 trace pull -o "$W/got" --workload eval-1 "$IMAGE:two"
	[[ $output == *"of another image and workload"* ]]
	run -1 trace pull -o "$W/got" "$IMAGE:one"
	[[ $output == *--workload*train-1* ]]
}

@test "wrong bytes from the registry are refused" {
	fake
	recording "$W/a" one train-1 1700000000
	trace push "$IMAGE:one" "$W/a"
	blob=$(sha256sum "$W/a" | cut -d' ' -f1)
	fault "match=$blob&wrong=180"
	run -1 trace pull -o "$W/got" "$IMAGE:one"
	[[ $output == *damaged* ]]
	[ ! -e "$W/got" ]
	fault "wrong=0&match="
	trace pull -o "$W/got" "$IMAGE:one"
	cmp "$W/a" "$W/got"
	# One byte of the file itself: its own sum finds it.
	printf x | dd of="$W/a" bs=1 seek=150 conv=notrunc status=none
	run -1 bootseer trace show "$W/a"
	[[ $output == *"$W/a"* ]]
}

@test "a registry that is down, or needs a login, says what to do" {
	fake
	recording "$W/a" one train-1 1700000000
	fault "basic=1"
	run -1 trace push "$IMAGE:one" "$W/a"
	[[ $output == *"$IMAGE"*--auth-file* ]]
	fault "basic=0&down=1"
	run -1 trace pull -o "$W/got" "$IMAGE:one"
	[[ $output == *"$IMAGE"*"check host, port"* ]]
	run -1 trace pull -o "$W/got" --service http://127.0.0.1:1 \
		"$IMAGE@$(digest_of one)"
	[[ $output == *"trace service"*http://127.0.0.1:1* ]]
}

@test "a trace goes to the image that it is of, and nowhere else" {
	fake
	recording "$W/a" one train-1 1700000000
	run -1 trace push "$IMAGE:two" "$W/a"
	[[ $output == *"$(digest_of one)"*"$(digest_of two)"* ]]
	echo nonsense >"$W/bad"
	run -1 trace push "$IMAGE:one" "$W/bad"
	[[ $output == *"$W/bad"* ]]
	: >"$W/empty"
	run -1 bootseer trace show "$W/empty"
	[[ $output == *"is empty"* ]]
	run -1 trace push "$IMAGE:none" "$W/a"
	run -2 trace push
}

@test "a layout folder keeps traces as a registry does" {
	cp -r "$F/images" "$W/lay"
	recording "$W/a" one train-1 1700000000
	recording "$W/b" two train-1 1700000001
	bootseer trace push "oci:$W/lay:one" "$W/a"
	bootseer trace push "oci:$W/lay:two" "$W/b"
	for v in one:a two:b; do
		bootseer trace pull --exact --workload train-1 -o "$W/got" \
			"oci:$W/lay:${v%:*}"
		cmp "$W/${v#*:}" "$W/got"
	done
	run -0 bootseer trace ls --repository "oci:$W/lay:one"
	[ "${#lines[@]}" = 2 ]
	umoci unpack --image "$W/lay:one" "$W/bundle" >/dev/null
}

@test "files are merged, renamed, and travel through pipes" {
	recording "$W/a" one train-1 1700000000 /bin/a
	recording "$W/b" one train-1 1700000500 /bin/b
	recording "$W/c" one serve-1 1700000000
	bootseer trace merge "$W/a" "$W/b" | cat >"$W/ab"
	bootseer trace merge "$W/b" "$W/a" | cmp - "$W/ab"
	run -0 bootseer trace show "$W/ab"
	[[ $output == *"runs      2,"* ]]
	[ "$(bootseer trace show --json "$W/ab" | jq '.entries | length')" = 3 ]
	run -0 bootseer trace show --limit 1 "$W/ab"
	[[ ${lines[-1]} == */etc/conf ]]
	run -1 bootseer trace merge -o "$W/out" "$W/a" "$W/c"
	[[ $output == *serve-1*--workload* ]]
	bootseer trace merge --workload all -o "$W/out" "$W/a" "$W/c"
	run -0 bootseer trace show - <"$W/out"
	[[ $output == *"workload  all"* ]]
	bootseer trace show --json "$W/out" | bootseer trace merge - |
		cmp - "$W/out"
}

@test "what this node keeps is listed, shown, pushed and removed" {
	fake
	recording "$W/a" one train-1 1700000000
	root=(--local --root "$W/root")
	run -1 trace ls "${root[@]}"
	[[ $output == *"$W/root"*--root* ]]
	mkdir "$W/root"
	image=$IMAGE@$(digest_of one)
	trace push "${root[@]}" "$image" "$W/a"
	run -0 trace ls "${root[@]}"
	[[ $output == *train-1* ]]
	trace pull "${root[@]}" -o "$W/got" "$image"
	cmp "$W/a" "$W/got"
	trace push --root "$W/root" "$IMAGE:one"
	trace pull -o "$W/beside" "$IMAGE:one"
	cmp "$W/a" "$W/beside"
	run -1 trace push --root "$W/root" "$IMAGE:two"
	[[ $output == *"has no trace on this node"* ]]
	trace rm --all "${root[@]}" "$image"
	run -1 trace pull "${root[@]}" "$image"
}

# bootseer-registry, whose tokens are in files named after their roles.
service()
{
	local role

	for role in read write admin; do
		echo "secret-$role" >"$W/$role"
		printf '%s sha256:%s %s node=*\n' "$role" \
			"$(printf 'secret-%s' $role | sha256sum | cut -d' ' -f1)" \
			"$role"
	done >"$W/tokens"
	mkfifo "$W/service"
	"$BOOTSEER_BUILD/registry/bootseer-registry" --listen 127.0.0.1:0 \
		--db "sqlite:$W/db" --tokens "$W/tokens" \
		2>"$W/service" 3>&- &
	PIDS+=($!)
	wait_line "$W/service" 'ready port=([0-9]+)'
	SERVICE=http://127.0.0.1:${BASH_REMATCH[1]}
}

# bootseer trace COMMAND at the service, with the token of ROLE.
at_service() # ROLE COMMAND...
{
	local role=$1 command=$2

	shift 2
	bootseer trace "$command" --service "$SERVICE" \
		--token-file "$W/$role" "$@"
}

@test "the trace service keeps what it is sent" {
	service
	a=reg.example/app@$(digest_of one) b=reg.example/app@$(digest_of two)
	recording "$W/a" one train-1 "$(date +%s)"
	at_service write push "$a" "$W/a"
	run -0 at_service read ls --json "$a"
	[ "$(jq -r '.[0] | "\(.workload) \(.runs) \(.ready_ms)"' \
		<<<"$output")" = "train-1 1 1500" ]
	run -0 at_service read show "$a"
	[[ ${lines[-1]} == */bin/tool ]]
	run -0 at_service read pull --workload eval-1 -o "$W/got" "$a"
	[[ $output == *"of another workload of this image"* ]]
	run -0 at_service read show --workload eval-1 "$a"
	[[ $output == *"of another workload of this image"* ]]
	run -1 at_service read show "$W/none.trace"
	[[ $output == *"there is no trace at '$W/none.trace': "* ]]
	run -1 at_service read pull --exact --workload train-1 -o "$W/got" "$b"
	[[ $output == *"$SERVICE"*404* ]]
	at_service admin rm --workload train-1 "$a"
	run -1 at_service admin rm --workload train-1 "$a"
	[[ $output == *"no such trace"* ]]
	run -0 at_service read ls "$a"
	[ "${#lines[@]}" = 1 ]
}

@test "the next image inherits at the trace service" {
	service
	a=reg.example/app@$(digest_of one) b=reg.example/app@$(digest_of two)
	recording "$W/a" one train-1 "$(date +%s)"
	at_service write push "$a" "$W/a"
	run -0 at_service read pull --workload train-1 -o "$W/got" "$b"
	[[ $output == *"of another image of the repository"* ]]
	run -0 at_service read ls --repository "$b"
	[[ ${lines[1]} == train-1* ]]
}

@test "the trace service's refusals say why and what to do" {
	service
	a=reg.example/app@$(digest_of one)
	recording "$W/a" one train-1 1700000000 /bin/a
	recording "$W/b" one train-1 1700000001 /bin/b
	run -1 bootseer trace push --service "$SERVICE" "$a" "$W/a"
	[[ $output == *"$SERVICE"*401*--token-file* ]]
	run -1 at_service read push "$a" "$W/a"
	[[ $output == *403*"does not allow it"* ]]
	run -1 at_service write rm --all "$a"
	[[ $output == *403* ]]
	run -2 at_service none push "$a" "$W/a"
	[[ $output == *"$W/none"* ]]
	bootseer trace merge -o "$W/ab" "$W/a" "$W/b"
	# A merged one is one vote.
	at_service write push "$a" "$W/ab"
	run -1 bootseer trace ls --service ftp://x "$a"
	[[ $output == *https://HOST* ]]
}

@test "names in a trace cannot write to the terminal" {
	recording "$W/a" one train-1 1700000000 $'/bin/\e[2Jx'
	run -0 bootseer trace show "$W/a"
	[[ $output == *'/bin/\x1b[2Jx'* ]]
	[[ $output != *$'\e'* ]]
}
