#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What bootseerd says of starts: a real containerd starts lazy images, and the service
# shows their stages as those of the job.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../containerd/lib.bash"

follower=$BOOTSEER_BUILD/profiler/follow/bootseer-events

setup_file() {
	make_images "$BATS_FILE_TMPDIR" >/dev/null
	"$bootseer" key new "$BATS_FILE_TMPDIR/key" >/dev/null
}

setup() {
	. "$BATS_TEST_DIRNAME/registry.bash"
	containerd_setup
	W=$BATS_TEST_TMPDIR
	DB=sqlite:$W/registry.db
	own=$T/noderun-events # of --run
	mkdir "$own" "$W/pods"
}

teardown() {
	containerd_teardown
	for p in "${services[@]}"; do
		kill -KILL "$p" 2>/dev/null || :
	done
}

start_all() { # [OPTION OF BOOTSEERD...]
	service
	start_node --prefetch hot --wait all "$@"
	start_plugin
	start_containerd
	push "$I" lazy
	convert_image lazy --sign "$I/key"
}

said() { cat "$own/bootseerd.events"; }
has_said() { grep -q "stage=image.start ev=$2 .*job=$1 " "$own/bootseerd.events"; } # JOB EV

# What was said goes to the service; the job's start is in $W/JOB then.
heard() { # JOB
	wait_until "$node_pid" has_said "$1" end
	"$follower" --service "$U" --node n1 --state "$W/state" --pods "$W/pods" \
		--events "$own" --once 2>>"$W/follower.log"
	"$bootseer" start show --service "$U" --json "$1" >"$W/start"
}

under_way() {
	"$bootseer" node status --json --socket "$T/node.sock" |
		jq -e '.starts | length == 1' >/dev/null
}

ready() {
	wait_until "$node_pid" under_way
	"$bootseer" image ready --socket "$T/node.sock" --start \
		"$("$bootseer" node status --json --socket "$T/node.sock" |
			jq .starts[0].start)"
}

# Has the container's first process come to its last program, and that to its sleep?
waits_as_tail() { # ID
	local pid

	pid=$(ctr task ls | awk -v id="$1" '$1 == id { print $2 }')
	tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q '^busybox tail ' &&
		grep -q '^State:[[:space:]]*S' "/proc/$pid/status"
}

# A container of a job that reads, is ready and goes.
start_job() { # JOB [MORE ENVIRONMENT...]
	local job=$1 e=()

	shift
	for v; do e+=(--env "$v"); done
	ctr run -d --snapshotter bootseer --env "BOOTSEER_JOB=$job" "${e[@]}" \
		"$REGISTRY/lazy:1" "c-$job" \
		sh -c 'sha256sum /srv/two/data; exec busybox tail -f /dev/null'
	ctr task exec --exec-id a "c-$job" sha256sum /srv/two/data >/dev/null
	# All that the next start reads is in the recording of this one.
	wait_until "$node_pid" waits_as_tail "c-$job"
	ready
	ctr task rm -f "c-$job"
	ctr container rm "c-$job"
}

stages() { jq -c '[.nodes[0].runs[].stage] | unique' "$W/start"; }
# Without a trace the image itself may say in time what is hot, or not.
first_stages() { jq -c '[.nodes[0].runs[].stage] | unique - ["image.hot"]' "$W/start"; }

@test "a lazy start's image stages are those of the job that its container names" {
	start_all
	pull_lazy lazy
	start_job j1 BOOTSEER_ATTEMPT=2 RANK=3
	heard j1
	said | grep -E 'stage=image.start ev=end .*job=j1 .*miss_ms=[0-9]'
	[ "$(first_stages)" = '["image.prepare","image.resolve","image.start"]' ]
	jq -e '(.image | startswith("'"$REGISTRY"'/lazy")) and .attempt == 2 and
		[.nodes[].node] == ["n1"] and all(.nodes[0].runs[]; .rank == 3)' "$W/start"
	said | grep -E 'stage=image.start ev=end .*origin_bytes=[1-9].* misses=[1-9]'

	# What it read is known now: the next one has it before it begins.
	"$bootseer" image prefetch --hot --wait --socket "$T/node.sock" "$REGISTRY/lazy:1"
	"$bootseer" node gc --cache 0 --socket "$T/node.sock" >/dev/null
	start_job j2
	heard j2
	jq -e 'any(.nodes[0].runs[]; .stage == "image.hot" and .duration_s != null)' \
		"$W/start"
	said | grep -E 'stage=image.hot ev=end .*job=j2 .*origin_bytes=[1-9]'
	run ! grep -E 'stage=image.start ev=end .*job=j2 .*misses=' <(said)
	# One after it has all of it, and asked no registry.
	start_job j3
	heard j3
	[ "$(stages)" = '["image.hot","image.start"]' ]
	said | grep -E 'stage=image.hot ev=end .*job=j3 .*cache_bytes=[1-9]'
	run ! grep -E 'job=j3 .*origin_bytes=' <(said)
}

hears_of() # JOB
{
	curl -fsS "$U/v1/images" >"$W/images"
	jq -e '.images | length == 1' "$W/images" >/dev/null &&
		curl -fsS "$U/v1/images/$(jq -r '.images[0] |
			.image + "?workload=" + .workload + "&repo=" + .repo' "$W/images")" >"$W/image" &&
		jq -e --arg job "$1" 'any(.starts[]; .job == $job)' "$W/image" >/dev/null
}

@test "the service is told how a start of an image went, though nobody follows events" {
	service
	rmdir "$own"
	start_node --prefetch hot --wait all --service "$U"
	start_plugin
	start_containerd
	push "$I" lazy
	convert_image lazy --sign "$I/key"
	pull_lazy lazy
	start_job j1
	wait_until "$node_pid" hears_of j1
	jq -e --arg name "$REGISTRY/lazy:1" '.images[0].name == $name and .images[0].nodes == 1 and
		.images[0].origin_bytes > 0' "$W/images"
	jq -e '.starts[0] | .end == "ready" and (.trace | IN("none", "predicted")) and .missed_bytes > 0 and
		.read_blocks > 0' "$W/image"
	jq -e '.missed_files | length > 0 and all(.path[:1] == "/" and .starts == 1)' "$W/image"
	# Its recording came, too: the next start has a hot set, and misses nothing of it.
	wait_until "$node_pid" has_recording
	start_job j2
	wait_until "$node_pid" hears_of j2
	jq -e '.hot.blocks > 0 and .hot.files_all > 0 and .hot.runs == 1 and
		(.starts[0] | .job == "j2" and .trace != "none")' "$W/image"
}

has_recording() { curl -fsS "$U/v1/traces?repo=$(jq -r '.images[0].repo' "$W/images")" |
	jq -e '.traces | length == 1' >/dev/null; }

@test "a pod's start is of its own namespace, and one of nobody is not told" {
	start_all
	push "$I" pause
	cri pull "$REGISTRY/lazy:1"
	cri run "$REGISTRY/lazy:1" pod /bin/sh -c 'sha256sum /srv/two/data'
	ready
	heard default/pod
	cri stop
	[ "$(first_stages)" = '["image.prepare","image.resolve","image.start"]' ]
	# A container that root starts, and that names no job.
	pull_lazy lazy
	ctr run -d --snapshotter bootseer "$REGISTRY/lazy:1" nobody \
		busybox tail -f /dev/null
	ready
	start_job j1
	heard j1
	run ! grep -vE ' job=(default/pod|j1) ' <(said)
}

@test "nobody who follows, or a folder that fails, keeps no start from its way" {
	rmdir "$own"
	start_all
	pull_lazy lazy
	start_job j1
	[ ! -e "$own" ]
	# A link is not written through.
	mkdir "$own"
	ln -s "$W/elsewhere" "$own/bootseerd.events"
	start_job j2
	wait_until "$node_pid" grep -q 'stages not said' "$T/node.log"
	[ ! -e "$W/elsewhere" ]
}

@test "a start that runs can be looked at" {
	start_all
	pull_lazy lazy
	ctr run -d --snapshotter bootseer --env BOOTSEER_JOB=j1 "$REGISTRY/lazy:1" c1 \
		busybox tail -f /dev/null
	wait_until "$node_pid" has_said j1 begin
	run -1 has_said j1 end
	"$follower" --service "$U" --node n1 --state "$W/state" --pods "$W/pods" \
		--events "$own" --once 2>>"$W/follower.log"
	"$bootseer" start show --service "$U" --json j1 >"$W/start"
	[ "$(first_stages)" = '["image.prepare","image.resolve","image.start"]' ]
	jq -e 'all(.nodes[0].runs[] | select(.stage == "image.start"); .open)' \
		"$W/start"
	ready
	heard j1
	jq -e 'all(.nodes[0].runs[] | select(.stage == "image.start"); .open | not)' \
		"$W/start"
}
