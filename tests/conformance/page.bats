#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The page of starts as axe judges it, from the package registry, and how a browser
# draws 2,000 nodes with 50 stages.  Frame times are told, not judged.

bats_require_minimum_version 1.5.0
load ../wait.bash

setup()
{
	. "$BATS_TEST_DIRNAME/../functional/registry.bash"
	W=$BATS_TEST_TMPDIR
	DB=sqlite:$W/registry.db
	unset BOOTSEER_JOB BOOTSEER_ATTEMPT BOOTSEER_NODE BOOTSEER_RANK RANK
	service
}

teardown()
{
	local p

	for p in "${services[@]}"; do
		kill -KILL "$p" 2>/dev/null || :
	done
}

is_summed() { [ "$(curl -fsS "$U/v1/checkpoints" | jq '.checkpoints | length')" = 2 ]; }

say() # NUMBER STAGE EV SECONDS [FACT...]
{
	echo "BOOTSEER image=h/llm:1 label=team stage=$2 ev=$3 node=n$1" \
		"ts=$((BEGIN + $4))000000000 ${*:5}"
}

# n3 waits for its disk; all save twice.
a_start()
{
	local n at

	for n in 1 2 3 4 5 6; do
		say $n image begin 0
		say $n image end $((10 + n))
		say $n env begin 20
		if [ "$n" = 3 ]; then
			say $n env end 80 disk_ms=50000
		else
			say $n env end $((30 + n))
		fi
		say $n train mark 90
		for at in 100 200; do
			say $n ckpt.save begin $at
			say $n ckpt.save end $((at + n)) saved_bytes=1000 queue_ms=10 \
				storage_ms=30 network_ms=10
		done
	done
}

# What n1 says of its start of the image, which was recorded.
image_start()
{
	post "$(recording "$A" train h/llm 50 50 x)" n1 "$A" train h/llm
	jq -n '{name: "h/llm:1", job: "team/j", attempt: 0, peer_bytes: 9, origin_bytes: 9,
		peers: [["n2", 5], ["n3", 4]], start: {trace: "own", end: "ready", ready_ms: 900,
			hot: {used_bytes: 7, unused_bytes: 3}, fetched: {demand: 1, hot: 9},
			missed_files: [{path: "/a.so", bytes: 400}]}}' >"$W/report"
	curl -fsS --data-binary "@$W/report" -H 'Bootseer-Node: n1' \
		"$U/v1/images/$A?workload=train&repo=h/llm" >&2
}

# Two nodes that lack something, and an image that waits and one whose conversion failed; words
# are markup, which the page is to show as they are.
export MARKUP='<img src=x><script>1</script><b>'
a_shortage()
{
	local event id n

	for n in 1 3; do
		jq -n --arg m "$MARKUP" '{checks: [
			{name: ("disk" + $m), ok: false, needed: false, detail: $m, cure: ("make room " + $m)},
			{name: ("fuse" + $m), ok: false, needed: true, detail: $m, cure: ("modprobe fuse " + $m)}]}' |
			curl -fsS -X PUT --data-binary @- "$U/v1/nodes/n$n/doctor" >&2
	done
	for n in "$A" "$B"; do
		event=$(jq -nc --arg d "$n" '{events: [{action: "push", target: {repository: "team/app",
			mediaType: "application/vnd.oci.image.manifest.v1+json", digest: $d, tag: "1"}}]}')
		curl -fsS --data-binary "$event" "$U/v1/notifications?registry=reg.example" >&2
	done
	id=$(curl -fsS -X POST -d '' "$U/v1/conversions?repo=reg.example&worker=w" | jq .conversion.id)
	jq -n --arg m "$MARKUP" '{worker: "w", state: "failed", error: $m}' |
		curl -fsS -X PUT --data-binary @- "$U/v1/conversions/$id?try=1" >&2
}

# What bootseer ops report writes, with each part.
a_report()
{
	jq -n --argjson t "$BEGIN" --arg m "$MARKUP" '
		{n: 1, min: 60, p25: 60, median: 60, p75: 60, max: 60} as $spread |
		{interval_s: 8000, save: 0.002, lost: 0.03} as $now | {interval_s: 4000, save: 0.004, lost: 0.01} as $best |
		{requests: 9, wait_s: 1.5, serve_s: 0.1, wait_share: 0.9, bytes: 1, in_flight: 1} as $rpc |
		{made_s: $t, sources: [{name: "peers", is_there: false, why: $m, costs: "nothing is known"}],
		sessions: [{job: "1", name: $m, state: "FAILED", begin_s: $t, end_s: ($t + 500), nodes: 60, failed: true}],
		phases: {from_s: $t, to_s: ($t + 900), loads: [{begin_s: $t, end_s: ($t + 60), bytes: 9}],
			saves: [{begin_s: ($t + 100), end_s: ($t + 130), bytes: 9}]},
		cost: {jobs: 1, failed: 1, failed_early: 0, gpu_s: 9, mtbf_s: 500, mtbf_low_s: 1, mtbf_high_s: null,
			settings: [{now: $now, best: $best}], losses: {sum_s: 5, lost_s: [5, null]}},
		restart: {loads: 1, median_s: 60, max_s: 60, rate: 9, used_share: null, save_requests: $rpc, load_requests: $rpc},
		nodes: {jobs: 1, run_s: 500, nodes: [{node: "n1", left_out: 1, excluded_s: 500, held_s: 100}]},
		chains: {n: 1, tries: 3, trained: 0, wasted_node_s: 9, gap_automatic_s: $spread, gap_other_s: ($spread + {n: 0}),
			chains: [{name: $m, user: $m, begin: $t, tries: 3, outcome: "given up", wasted_node_s: 9, alike: 3,
				alike_state: "FAILED", alike_exit: "1:0"}]},
		precursors: {compared: 1, preceded: 1, by_chance: 0.1, alarms: 0, days: 1, alarms_a_day_low: 0, alarms_a_day_high: 3,
			failures: [{node: "n1", at_s: ($t + 400), xid: 79, is_known: true,
				metrics: [{metric: "m", is_before: true, lead_s: 60}]}],
			slow: [{node: "n2", metric: $m, share: -0.2, from_s: $t, to_s: $t}]}}'
}

@test "axe finds nothing in any view, light, dark and as wide as a phone" {
	local attempt second view

	BEGIN=$(($(date +%s) - 1000))
	(cd "$W" && npm install --silent --no-save --prefix "$W" axe-core >&2)
	for attempt in 0 1; do
		a_start | "$BOOTSEER_BUILD/cli/bootseer" stage send --service "$U" --job team/j \
			--attempt "$attempt" -
	done
	image_start
	second=$(curl -fsS "$U/v1/starts?job=team/j" | jq '.starts | max_by(.attempt).id')
	# What was saved is summed up when the service starts.
	end_service TERM
	a_report >"$W/report.json"
	# A member is one for five.
	service --swarm-interval 1m --operations "$W/report.json" --convert reg.example=index
	a_shortage
	wait_for is_summed
	curl -fsS -d '{"node":"n1","addr":"10.0.0.1:7000","zone":"z","pieces":9,"members":true}' \
		"$U/v1/swarms/$A" >&2
	run -0 --separate-stderr python3 "$BATS_TEST_DIRNAME/page.py" axe \
		"$W/node_modules/axe-core/axe.min.js" "$U" \
		"swarm/$A" "" start/1 job/team/j "compare/1/$second" trends image/h/llm:1 label/team \
		nodes node/n3 checkpoints checkpoints/1 checkpoints/job/team/j peers peers/start/1 \
		images "hot/$A/h%2Fllm/train" conversions operations
	echo "$output" | sed 's/^/# /' >&3
	[ "$(grep -c '"violations": \[\]' <<<"$output")" = 57 ]
	for view in nodes node/n3 conversions operations; do
		jq -se --arg v "$view" '[.[] | select(.view == $v).said | .is_text and .elements == 0] ==
			[true, true, true]' <<<"$output" >&2
	done
}

@test "2,000 nodes with 50 stages are scrolled through" {
	"$BOOTSEER_BUILD/bench/bench-make-events" 127.0.0.1 "${U##*:}" 1 2000 50 >&2
	run -0 python3 "$BATS_TEST_DIRNAME/page.py" frames - "$U" start/1
	echo "$output" | sed 's/^/# /' >&3
	[ "$(jq '.said.rows' <<<"$output")" = 2000 ]
}
