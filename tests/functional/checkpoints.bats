#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What bootseer-registry and its page tell of loads and saves of checkpoints.

bats_require_minimum_version 1.5.0
load ../noise.bash

bootseer=${BOOTSEER_BUILD:?}/cli/bootseer

load stages.bash
load stores.bash
load ckpt-mounts.bash

# line SECONDS NODE STAGE EV [FIELD...]: seconds since the start, half an hour ago.
line()
{
	local at=$1 node=$2 stage=$3 ev=$4

	shift 4
	printf 'BOOTSEER stage=%s ev=%s node=%s ts=%d000000000 image=h/llm:1 label=team %s\n' \
		"$stage" "$ev" "$node" $((${BEGIN:=$(date +%s) - 1800} + at)) "$*"
}

# Six nodes load, train, and save twice; n3 loads slowly, n5 saves slowly, and n6 is cut
# off as it saves for the second time.
a_job()
{
	local n took

	for n in 1 2 3 4 5 6; do
		line 0 "n$n" ckpt.load begin
		took=$((n == 3 ? 60 : 10 + n))
		line $took "n$n" ckpt.load end origin_bytes=4000000000 wait_ms=8000 \
			queue_ms=500 storage_ms=20000 network_ms=4000
		line 70 "n$n" train mark
		took=$((n == 5 ? 45 : 5))
		line 300 "n$n" ckpt.save begin
		line $((300 + took)) "n$n" ckpt.save end saved_bytes=1000000000 wait_ms=1000
		line 900 "n$n" ckpt.save begin
		[ "$n" = 6 ] || line $((900 + took)) "n$n" ckpt.save end saved_bytes=1000000000
	done
}

send_job() # JOB
{
	"$bootseer" stage send --service "$U" --job "$1" -
}

# What the service never says to its database.
tell_db() # SQL
{
	if [ "$kind" = sqlite ]; then
		python3 -c 'import sqlite3, sys
d = sqlite3.connect(sys.argv[1])
d.execute(sys.argv[2])
d.commit()' "${DB#sqlite:}" "$1"
	else
		pg_do "$db_name" -c "$1"
	fi
}

# As if what was summed up had been so long ago, in the next process.
sum_again()
{
	end_service TERM
	tell_db "UPDATE job_start SET ckpt_summed = 0"
	service
	wait_for is_summed "$1"
}

is_summed() # ROWS
{
	[ "$(curl -fsS "$U/v1/checkpoints" | jq '.checkpoints | length')" = "$1" ]
}

a_start_has_its_loads_and_saves()
{
	service
	BEGIN=$(($(date +%s) - 1800))
	a_job | send_job j1
	# The start ends where training begins.
	ask "$U/v1/starts/1"
	jq -e '[.stages[].stage] == ["ckpt.load"]' "$O"
	ask "$U/v1/starts/1/checkpoints"
	jq -e '.job == "j1" and .left_out == 0 and
		[.checkpoints[].stage] == ["ckpt.load", "ckpt.save"]' "$O"
	jq -e '.checkpoints[0] | .runs == 6 and .open == 0 and .bytes == 24000000000 and
		.job_s == 60 and .rate == 400000000 and .run_s == 128 and .wait_s == 48 and
		.queue_s == 3 and .storage_s == 120 and .network_s == 24 and
		.node.median_s == 14.5 and .node.max_s == 60 and .stragglers == 1' "$O"
	jq -e '.checkpoints[0].nodes[0] | .node == "n3" and .straggler and
		.duration_s == 60 and .bytes == 4000000000 and .rate == 66666666' "$O"
	jq -e '.checkpoints[1] | .runs == 12 and .open == 1 and .rounds_all == 2 and
		.nodes_all == 6 and .job_s == 90 and .bytes == 11000000000 and
		[.nodes[].node] == ["n5", "n1", "n2", "n3", "n4", "n6"] and
		.nodes[0].duration_s == 90 and .nodes[5].open == 1' "$O"
	jq -e --argjson begin "$BEGIN" '.checkpoints[1].rounds |
		[.[].begin_ms / 1000 - $begin] == [300, 900] and
		all(.job_s == 45 and .nodes == 6 and .slowest == "n5" and .median_s == 5 and
			.max_median == 9) and .[1].open == 1 and .[1].bytes == 5000000000' "$O"
	# A terminal is told the same.
	"$bootseer" start checkpoints --service "$U" --json j1 >"$W/json"
	jq -e --slurpfile page "$O" '.checkpoints == $page[0].checkpoints' "$W/json"
	"$bootseer" start checkpoints --service "$U" --limit 1 j1 >"$W/text"
	grep -qx 'job j1, attempt 0, start 1' "$W/text"
	grep -qx 'Loads: 22.4 GiB in 60.0 s, 381.5 MiB/s, 1 time, 6 nodes' "$W/text"
	grep -qx 'Saves: 10.2 GiB in 90.0 s, 116.6 MiB/s, 2 times, 6 nodes, 1 without an end' \
		"$W/text"
	grep -qE '^! n3 +60.0 s +3.7 GiB +63.6 MiB/s +1 +13 % +0$' "$W/text"
	grep -qE '^  20[0-9-]+ [0-9:]+Z +45.0 s +4.7 GiB +6 +9.00 +0 %  n5$' "$W/text"
	[ "$(grep -c 'n1 ' "$W/text")" = 0 ]
	# The slowest nodes, and the last rounds.
	ask "$U/v1/starts/1/checkpoints?limit=1"
	jq -e '.checkpoints[1] | [.nodes[].node] == ["n5"] and .nodes_all == 6 and
		[.rounds[].open] == [1] and .rounds_all == 2' "$O"
	# More of it is there at once.
	line 960 n6 ckpt.save end saved_bytes=1000000000 | send_job j1
	ask "$U/v1/starts/1/checkpoints"
	jq -e '.checkpoints[1] | .open == 0 and .nodes[1].node == "n6"' "$O"
	# One that has neither.
	line 0 n1 env begin | send_job j2
	id=$(curl -fsS "$U/v1/starts?job=j2" | jq '.starts[0].id')
	ask "$U/v1/starts/$id/checkpoints"
	jq -e '.checkpoints == [] and .job == "j2"' "$O"
	"$bootseer" start checkpoints --service "$U" j2 >"$W/text"
	grep -q '^it loaded and saved nothing' "$W/text"
	run -1 "$bootseer" start checkpoints --service "$U" j3
	[[ $output == *"no start of job 'j3' is known"* ]]
	ask "$U/v1/starts/99/checkpoints"
	[ "$code" = 404 ]
}

@test "a start has its loads and saves, also those after training began" {
	on_each_db a_start_has_its_loads_and_saves
}

# Sent in pieces that overlap, across a kill of the service; and then as if a version that
# does not pack events had stored some of them.
parts_say_what_events_say()
{
	service
	a_job >"$W/lines"
	head -n 21 "$W/lines" | send_job j1
	head -n 38 "$W/lines" | send_job j1
	end_service KILL
	service
	send_job j1 <"$W/lines"
	ask "$U/v1/starts/1/checkpoints"
	jq -e '.checkpoints[1].runs == 12' "$O"
	cp "$O" "$W/parts"
	end_service TERM
	tell_db "UPDATE job_start SET ckpt_seen = events - 1"
	# Nothing is read of them any more.
	tell_db "DELETE FROM ckpt_part"
	service
	ask "$U/v1/starts/1/checkpoints"
	cmp "$O" "$W/parts"
	end_service TERM
	tell_db "UPDATE job_start SET ckpt_seen = events"
	service
	ask "$U/v1/starts/1/checkpoints"
	jq -e '.checkpoints == []' "$O"
}

@test "packed loads and saves say what the events say, whatever came twice" {
	on_each_db parts_say_what_events_say
}

starts_are_listed()
{
	local other

	service
	BEGIN=
	a_job | send_job j1
	BEGIN=$(($(date +%s) - 10 * 86400))
	line 0 n1 ckpt.load begin | send_job old
	line 5 n1 ckpt.load end origin_bytes=5000 | send_job old
	line 0 n1 env begin | send_job none
	sum_again 3
	ask "$U/v1/checkpoints"
	jq -e '[.checkpoints[] | .job + " " + .stage] ==
		["j1 ckpt.save", "j1 ckpt.load", "old ckpt.load"]' "$O"
	jq -e '.checkpoints[0] | .id == 1 and .attempt == 0 and .image == "h/llm:1" and
		.label == "team" and .rounds == 2 and .nodes == 6 and .runs == 12 and
		.open == 1 and .bytes == 11000000000 and .job_s == 90 and .rate == 122222222 and
		.median_s == 10 and .max_s == 90 and .max_median == 9 and .stragglers == 1 and
		.slowest == "n5" and .wait_s == 6 and .run_s == 135' "$O"
	for other in "days=9" "job=j1" "job=j1&limit=2&days=400&image=h/llm:1&label=team"; do
		ask "$U/v1/checkpoints?$other"
		jq -e '[.checkpoints[].job] == ["j1", "j1"]' "$O"
	done
	for other in job=j2 image=h/llm:2 label=other; do
		ask "$U/v1/checkpoints?$other"
		jq -e '.checkpoints == []' "$O"
	done
	ask "$U/v1/checkpoints?limit=1"
	jq -e '[.checkpoints[].stage] == ["ckpt.save"]' "$O"
	# What came since is summed up again.
	line 6 n1 ckpt.save begin | send_job old
	line 7 n1 ckpt.save end saved_bytes=7 | send_job old
	sum_again 4
	ask "$U/v1/checkpoints?job=old"
	jq -e '[.checkpoints[] | .stage + " " + (.bytes | tostring)] ==
		["ckpt.save 7", "ckpt.load 5000"]' "$O"
	# Sums go with their start.
	end_service TERM
	tell_db "UPDATE job_start SET received = 1000 WHERE job = 'old'"
	service
	wait_for is_summed 2
}

@test "starts are listed with what they loaded and saved" {
	on_each_db starts_are_listed
}

@test "a clock that is ahead is not the latest for ever" {
	kind=sqlite DB=sqlite:$W/registry.db
	service
	BEGIN=$(($(date +%s) + 10000000))
	line 0 n1 ckpt.load begin | send_job ahead
	line 5 n1 ckpt.load end origin_bytes=5000 | send_job ahead
	sum_again 1
	ask "$U/v1/checkpoints"
	jq -e '.checkpoints[0].last <= now' "$O"
}

@test "tokens that see no starts see no checkpoints" {
	DB=sqlite:$W/registry.db
	for name in all repo; do
		printf '%s sha256:%s read%s\n' $name "$(printf $name | sha256sum | cut -d' ' -f1)" \
			"$([ $name = all ] || echo ' repo=h/a')"
	done >"$W/tokens"
	AUTH="--tokens $W/tokens"
	service
	for path in checkpoints starts/1/checkpoints; do
		ask "$U/v1/$path"
		[ "$code" = 401 ]
		ask -H 'Authorization: Bearer repo' "$U/v1/$path"
		[ "$code" = 403 ]
		ask -H 'Authorization: Bearer all' "$U/v1/$path"
		[ "$code" = "$([ $path = checkpoints ] && echo 200 || echo 404)" ]
	done
}

@test "what a mount counts is what the service tells" {
	DB=sqlite:$W/registry.db
	STORE=file://$W/store
	M=$W/mnt
	mkdir "$W/store" "$M" "$W/events"
	export BOOTSEER_EVENTS=$W/events BOOTSEER_NODE=n1 BOOTSEER_JOB=team/j
	mount_store
	head -c 3000000 /dev/zero >"$M/saved"
	umount_store
	mount_store
	cat "$M/saved" | wc -c >"$W/loaded"
	umount_store
	service
	"$bootseer" stage send --service "$U" "$W/events/ckpt.events"
	ask "$U/v1/starts/1/checkpoints"
	jq -e '[.checkpoints[] | [.stage, .bytes, .runs, .open, .nodes[0].node]] ==
		[["ckpt.load", 3000000, 1, 0, "n1"], ["ckpt.save", 3000000, 1, 0, "n1"]] and
		all(.checkpoints[]; .run_s >= .wait_s and .rate > 0)' "$O"
}

@test "a browser shows what starts loaded and saved, and one with its nodes and times" {
	kind=sqlite DB=sqlite:$W/registry.db
	service
	BEGIN=$(($(date +%s) - 1800))
	a_job | send_job team/j
	sum_again 2
	browse "$U/#checkpoints" >"$W/list"
	grep -q '<a href="#checkpoints" aria-current="page">Checkpoints</a>' "$W/list"
	[ "$(grep -o '<a href="#checkpoints/1">team/j</a></td><td>[a-z]*' "$W/list" |
		sed 's/.*>//' | paste -sd ' ')" = 'save load' ]
	grep -q '<td class="number">24.0 GB</td>.*<td class="number">400 MB/s</td>' "$W/list"
	grep -q '<a href="#node/n3" class="slow">n3</a>' "$W/list"
	grep -q '<td>storage 82 %</td>' "$W/list"
	browse "$U/#checkpoints/days/7" >"$W/week"
	grep -q '<a href="#checkpoints/days/7" aria-current="true" aria-label="7 days">7</a>' "$W/week"
	grep -q '<a href="#checkpoints/1">' "$W/week"
	browse "$U/#checkpoints/job/team/j" >"$W/job"
	grep -q '<h2>Checkpoints of team/j</h2>' "$W/job"
	grep -q '<a href="#checkpoints/1">' "$W/job"

	browse "$U/#checkpoints/1" >"$W/one"
	grep -q '<h2>Checkpoints of team/j, attempt 0</h2>' "$W/one"
	grep -q '<a href="#start/1">its start</a>' "$W/one"
	grep -q '<li>all requests, storage 82 %: ' "$W/one"
	# Six nodes of each as bars; two saves as columns.
	[ "$(grep -oE '<li>n[1-6]: [0-9.]* (s|min)( [0-9]+ s)?, median node [0-9.]* s</li>' "$W/one" | wc -l)" = 12 ]
	[ "$(grep -oE '<li>[-0-9: ]*: median node 5.0 s, slowest n[1-6] [0-9.]* s</li>' "$W/one" | wc -l)" = 2 ]
	grep -q ', slowest n[1-6] 45.0 s</li>' "$W/one"
	grep -q '<dt>No end</dt><dd><span class="slow">1</span></dd>' "$W/one"
	browse "$U/#start/1" >"$W/start"
	grep -q '<a href="#checkpoints/1">checkpoints</a>' "$W/start"
	browse "$U/#checkpoints/99" >"$W/none"
	grep -q 'there is no such start' "$W/none"
	run ! grep -i 'content security policy' "$W/browser/said"
}
