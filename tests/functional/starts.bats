#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What bootseer-registry makes of the stage events of jobs' starts: causes, comparison,
# history, trends, exports; and the commands that show these.

bats_require_minimum_version 1.5.0
load ../noise.bash

bootseer=${BOOTSEER_BUILD:?}/cli/bootseer

load stages.bash

# line SECONDS NODE STAGE EV [FIELD...]: the time is of a second ago at 100 s.
line()
{
	local at=$1 node=$2 stage=$3 ev=$4

	shift 4
	printf 'BOOTSEER stage=%s ev=%s node=%s ts=%d000000000 %s\n' "$stage" "$ev" "$node" \
		$((${BEGIN:=$(date +%s) - 101} + at)) "$*"
}

# A start of five nodes; n3 waits for its disk as long as is said.
a_start() # SECONDS
{
	local n

	for n in 1 2 3 4 5; do
		line 0 "n$n" image begin image=h/a:1 label=team
		line 10 "n$n" image end gpus=8 origin_bytes=1000000000 disk_ms=100
		line 20 "n$n" env begin
		if [ "$n" = 3 ]; then
			line $((40 + $1)) n3 env end "disk_ms=${1}000"
		else
			line 40 "n$n" env end disk_ms=200
		fi
		line 100 "n$n" train mark
	done
}

send_start() # JOB SECONDS
{
	a_start "$2" | "$bootseer" stage send --service "$U" --job "$1" -
}

# What was heard last is as if heard two minutes ago, so that the starts are over.
make_old()
{
	end_service TERM
	in_db "UPDATE job_start SET received = received - 120"
	service
	wait_for grep -q 'summed up starts of jobs' "$LOG"
}

causes_and_changes()
{
	service
	BEGIN=
	send_start j1 0
	send_start j2 40
	export BOOTSEER_SERVICE=$U
	"$bootseer" start show --json j2 >"$W/show"
	jq -e '.image == "h/a:1" and .label == "team"' "$W/show"
	jq -e '.stragglers == [.stragglers[0]] and (.stragglers[0] | .node == "n3" and
		.stage == "env" and .cause == "slow_disk" and
		(.why | test("^waited 40.0 s for its disk, the median node 0.2 s$")))' \
		"$W/show"
	jq -e '.lost.node_s == 500 and .lost.gpu_s == 4000' "$W/show"
	"$bootseer" start show j2 >"$W/text"
	grep -q '^ *slow_disk: waited 40.0 s for its disk' "$W/text"
	grep -qE '^[2-9] nodes: median ' "$W/text"
	a_start 0 | grep ' node=n1 ' |
		"$bootseer" stage send --service "$U" --job alone -
	"$bootseer" start show alone >"$W/text"
	grep -q '^1 node: median ' "$W/text"

	"$bootseer" start compare --json j1 j2 >"$W/compare"
	jq -e '.a.job == "j1" and .b.job == "j2" and .change_s == 0 and
		(.stages[] | select(.stage == "env") | .change_s == 40 and
		 .a.max_s == 20 and .b.max_s == 60)' "$W/compare"
	"$bootseer" start compare j1 j2 >"$W/text"
	grep -qE '^env +20\.0 s +60\.0 s +\+40\.0 s' "$W/text"
	run -1 "$bootseer" start compare j1 other
	[[ $output == *"no start of job 'other' is known"* ]]
	# Of what is asked for again the analysis is there.
	n=$(metric start_reports_made_total)
	"$bootseer" start show --json j2 | cmp - "$W/show"
	[ "$(metric start_reports_made_total)" = "$n" ]
	unset BOOTSEER_SERVICE
}

@test "a straggler has a cause, and starts are compared" {
	on_each_db causes_and_changes
}

history_is_kept()
{
	local i

	service
	for i in 1 2 3 4; do
		BEGIN=
		send_start "j$i" 40
	done
	make_old
	ask "$U/v1/nodes?days=2"
	jq -e '.nodes == [.nodes[0]] and (.nodes[0] | .node == "n3" and .slow == 4 and
		.starts == 4 and .excess_s == 160)' "$O"
	ask "$U/v1/nodes/n3"
	jq -e '.starts | length == 4 and all(.slow and .cause == "slow_disk" and
		.stage == "env" and .busy_s == 70 and .median_s == 30)' "$O"
	ask "$U/v1/nodes/n1"
	jq -e '.starts | length == 4 and all(.slow | not)' "$O"
	ask "$U/v1/trends?by=label&days=2"
	jq -e '.rows[] | select(.key == "team" and .stage == "env") | .starts == 4 and
		.median_s == 20 and .worst_s == 60 and .job_s == 60 and .stragglers == 4' "$O"
	ask "$U/v1/trends?by=image&image=h/b:1"
	jq -e '.rows == []' "$O"
	ask "$U/v1/trends"
	jq -e '[.rows[] | select(.stage == "") | .starts] | add == 4' "$O"
	# A start is added once, also by the next process.
	end_service TERM
	service
	ask "$U/v1/nodes/n3"
	jq -e '.starts | length == 4' "$O"
	# A namespace that makes slow nodes up does not push others' off the list.
	for i in 1 2 3 4 5; do
		for n in {1..12}; do
			line 0 "b$n" env begin
			line $((n > 8 ? 300 : 10)) "b$n" env end
			line 400 "b$n" train mark
		done | "$bootseer" stage send --service "$U" --job "evil/j$i" -
	done
	make_old
	ask "$U/v1/nodes?days=2&limit=3"
	jq -e '[.nodes[].node] | length == 3 and index("n3") and .[0] == "b10"' "$O"
	# Who was slow before is named when nothing else explains it.
	BEGIN=
	a_start 40 | sed 's/disk_ms=[0-9]*//' |
		"$bootseer" stage send --service "$U" --job j5 -
	jq -e '.stragglers[0] | .cause == "slow_node" and .slow_before == 4' \
		<("$bootseer" start show --service "$U" --json j5)
}

starts_are_compared_by_size()
{
	local i

	service
	for i in 1 2 3; do
		BEGIN=
		a_start 40 | "$bootseer" stage send --service "$U" --job big --attempt "$i" -
	done
	BEGIN=
	a_start 0 | grep ' node=n1 ' | "$bootseer" stage send --service "$U" --job small -
	# Neither placed nor pulled: the job's nodes stayed.
	a_start 0 | grep -v ' stage=image ' |
		"$bootseer" stage send --service "$U" --job big --attempt 4 -
	make_old
	"$bootseer" start ls --service "$U" big >"$W/ls"
	[ "$(awk '{ print $3 $4 }' "$W/ls" | tr '\n' ' ')" = 'TRYCLASS 4hot 3full 2full 1full ' ]
	"$bootseer" start show --service "$U" big >"$W/show"
	grep -q '^job big, attempt 4 (hot update), start ' "$W/show"
	ask "$U/v1/trends?by=class"
	jq -e '[.rows[] | select(.stage == "") | [.key, .starts, .median_s]] ==
		[["full", 4, 30], ["hot_update", 1, 20]]' "$O"
	ask "$U/v1/trends?class=hot_update&label=team"
	jq -e '.rows == []' "$O"
	ask "$U/v1/trends?class=hot_update"
	jq -e '[.rows[].stage] == ["", "env"]' "$O"
	ask "$U/v1/scales?class=full"
	# Five nodes of eight GPUs, and one.
	jq -e '.unit == "gpus" and .starts == 4 and .jobs == 2 and (.ranges | length) == 16 and
		[.ranges[] | select(.job_s) | [.from, .to, .job_s.n, .job_s.median]] ==
			[[8, 15, 1, 100], [32, 63, 3, 100]]' "$O"
	jq -e '.ranges[5] | .node_s.median == 30 and .max_median.max > 2.3 and
		.starts_of_job == {"n": 1, "min": 3, "p25": 3, "median": 3, "p75": 3, "max": 3}' "$O"
	jq -e '.stages | map(select(.stage == "env")) | .[0] | .node_s.n == 4 and
		.node_s.median == 20 and .job_s.max == 60 and .max_median[5].median == 3 and
		.max_median[3] == null' "$O"
	ask "$U/v1/scales?label=none"
	jq -e '.starts == 0 and .stages == [] and all(.ranges[]; .job_s == null)' "$O"
	ask "$U/v1/scales?image=h/a:1&label=team&days=1"
	jq -e '.starts == 4' "$O"
	[ "$(rows_of start_scale)" = 5 ]
	# Beyond the bound those of the fewest nodes leave, the oldest first.
	end_service TERM
	in_db "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
		INSERT INTO start_scale (start, stage, at, job, image, label, nodes, gpus, job_ms,
			median_ms, max_ms)
		SELECT 1000000 + i, s, $(date +%s), 'made', 'up', 'x', 1, 0, 1, 1, 1 FROM n, (SELECT '' AS s UNION SELECT 'b' UNION SELECT 'c' UNION SELECT 'd'
		UNION SELECT 'e') AS t"
	service
	wait_for is_trimmed
	ask "$U/v1/scales?label=team"
	jq -e '.ranges[5].job_s.n == 3' "$O"
	# Newer ones that a node made up push out none of several nodes, nor their stages.
	ask "$U/v1/scales"
	jq -e '.unit == "gpus" and .ranges[5].job_s.n == 3 and .starts > 1000 and
		.starts_of_no_size > 1000 and any(.stages[]; .stage == "env")' "$O"
}

@test "a start that cannot be summed up keeps none of the others from it" {
	kind=sqlite DB=sqlite:$W/registry.db
	service
	for job in bad good; do
		BEGIN=
		send_start "$job" 0
		{
			line 50 n1 ckpt.save begin
			line 51 n1 ckpt.save end saved_bytes=5
		} | "$bootseer" stage send --service "$U" --job "$job" -
	done
	end_service TERM
	in_db "UPDATE job_start SET received = received - 121 + id"
	in_db "CREATE TRIGGER no_times BEFORE INSERT ON start_node WHEN NEW.job = 'bad'
		BEGIN SELECT RAISE(ABORT, 'not this one'); END"
	in_db "CREATE TRIGGER no_saves BEFORE INSERT ON ckpt_sum WHEN NEW.start = 1
		BEGIN SELECT RAISE(ABORT, 'not this one'); END"
	in_db "INSERT INTO start_scale (start, stage, at, job, image, label, nodes, gpus, job_ms,
		median_ms, max_ms) VALUES (9, '', 1, 'of long ago', '', '', 1, 0, 1, 1, 1)"
	service
	wait_for grep -q 'summed up starts of jobs=1' "$LOG"
	grep -q 'summing up times of a start .* start=1 reason=".*not this one' "$LOG"
	[ "$(rows_of start_scale)" = 1 ]
	wait_for has_saves_of good
	grep -q 'summing up checkpoints of a start .* start=1 reason=".*not this one' "$LOG"
}

# The one that costs more time than a statement has is the first of those due.
a_slow_start_lets_others_by()
{
	local begun

	service
	for job in slow good; do
		BEGIN=
		send_start "$job" 0
	done
	end_service TERM
	in_db "UPDATE job_start SET received = received - 121 + id"
	in_db "INSERT INTO start_scale (start, stage, at, job, image, label, nodes, gpus, job_ms,
		median_ms, max_ms) VALUES (9, '', 1, 'of long ago', '', '', 1, 0, 1, 1, 1)"
	in_db "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN PERFORM pg_sleep(600); RETURN NEW; END'"
	in_db "CREATE TRIGGER slow BEFORE INSERT ON start_scale FOR EACH ROW
		WHEN (NEW.job = 'slow') EXECUTE FUNCTION slow()"
	begun=$(date +%s)
	service --db-timeout 5s
	wait_for grep -q 'summed up starts of jobs=1' "$LOG"
	grep -q 'summing up times of a start .* start=1 reason=".*timeout' "$LOG"
	wait_for is_swept
	# Tried again a minute later, not at once: for each time that it failed.
	[ "$(pg_do "$db_name" -c "SELECT sum_tries > 0, sum_after >= $begun + 60 * sum_tries
		FROM job_start WHERE job = 'slow'")" = 't|t' ]
}

is_swept() { [ "$(rows_of start_scale)" = 1 ]; }

@test "a start that takes too long to sum up keeps none of the others from it" {
	kind=postgresql W=$BATS_TEST_TMPDIR db_name=t$BATS_TEST_NUMBER
	pg_do postgres -c "CREATE DATABASE $db_name"
	DB="postgresql:///$db_name?host=$PG&user=postgres"
	a_slow_start_lets_others_by
}

@test "starts that can never be summed up are set aside, however many there are" {
	kind=sqlite DB=sqlite:$W/registry.db
	service
	BEGIN=
	send_start good 0
	end_service TERM
	# As many as are summed up at once, before the good one, the last of five tries due.
	in_db "UPDATE job_start SET received = received - 121"
	in_db "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
		INSERT INTO job_start (job, attempt, first_ns, last_ns, ready_ns, events, received,
			revision, sum_tries)
		SELECT 'bad' || i, 0, 1, 1, 1, 1, 1700000000, 1, 4 FROM n"
	in_db "CREATE TRIGGER no_times BEFORE INSERT ON start_scale WHEN NEW.job LIKE 'bad%'
		BEGIN SELECT RAISE(ABORT, 'not this one'); END"
	service --retention 87600h
	wait_for are_aside 1000
	grep -q 'a start is set aside for a day, .* 5 times start=' "$LOG"
	end_service TERM
	service --retention 87600h
	wait_for grep -q 'summed up starts of jobs=1' "$LOG"
	run ! grep -q 'summing up times' "$LOG"
	# A day later they are tried again.
	end_service TERM
	in_db "UPDATE job_start SET sum_after = sum_after - 86400 WHERE job = 'bad7'"
	service --retention 87600h
	wait_for grep -q 'summing up times of a start ' "$LOG"
	[ "$(grep -c 'summing up times' "$LOG")" = 1 ]
}

are_aside() { [ "$(metric starts_set_aside_total)" = "$1" ]; } # NUMBER

@test "a node that makes stages up takes no place of those that all nodes have" {
	kind=sqlite DB=sqlite:$W/registry.db
	service
	BEGIN=$(($(date +%s) - 1000))
	for i in $(seq 1 100); do
		line 1 n1 "made$i" begin
		line 25 n1 "made$i" end
	done | "$bootseer" stage send --service "$U" --job j -
	for n in n1 n2 n3; do
		line 2 "$n" env begin
		line 20 "$n" env end
		line 30 "$n" train mark
	done | "$bootseer" stage send --service "$U" --job j -
	end_service TERM
	in_db "UPDATE job_start SET received = received - 121"
	service
	wait_for grep -q 'summed up starts of jobs=1' "$LOG"
	ask "$U/v1/scales"
	jq -e '(.stages | length) == 64 and any(.stages[]; .stage == "env")' "$O"
}

has_saves_of() { # JOB
	[ "$(curl -fsS "$U/v1/checkpoints" | jq -r '.checkpoints[].job')" = "$1" ]
}

is_trimmed() { [ "$(rows_of start_scale)" -lt 500000 ]; }

rows_of() # TABLE
{
	if [ "$kind" = sqlite ]; then
		python3 -c 'import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute("SELECT count(*) FROM " + sys.argv[2]).fetchone()[0])' \
			"${DB#sqlite:}" "$1"
	else
		pg_do "$db_name" -c "SELECT count(*) FROM $1"
	fi
}

@test "starts that are over are told by the size of their jobs" {
	on_each_db starts_are_compared_by_size
}

@test "a browser shows starts by size, and the nodes of a stage by their time" {
	local n

	kind=sqlite DB=sqlite:$W/registry.db
	service
	BEGIN=$(($(date +%s) - 101))
	for n in {1..12}; do
		line 0 "n$n" env begin image=h/a:1
		line $((n == 7 ? 60 : 10)) "n$n" env end
		line 100 "n$n" train mark
	done | "$bootseer" stage send --service "$U" --job j1 -
	{
		line 0 n1 queue begin
		line 1 n1 queue end
	} | "$bootseer" stage send --service "$U" --job j1 -
	for n in {1..12}; do
		line 0 "n$n" env begin
		line 10 "n$n" env end
		line 20 "n$n" train mark
	done | "$bootseer" stage send --service "$U" --job j1 --attempt 1 -
	make_old
	wait_for page_shows "$U/#trends" "$W/trends" '<td>env</td><td class="number">6</td>'
	grep -q '<h2>By the size of the job: 1 start of 1 job</h2>' "$W/trends"
	grep -q '<td>hot update</td><td class="number">1</td>' "$W/trends"
	grep -q '<li>8 to 15 nodes: half from 1 min 40 s to 1 min 40 s, .*, 1 in all</li>' "$W/trends"
	wait_for page_shows "$U/#image/h/a:1" "$W/image" \
		'<h2>By the size of the job: 1 start of 1 job</h2>'
	wait_for page_shows "$U/#start/1" "$W/start" '<h2>Nodes by their time in env</h2>'
	grep -q '<li>10 s to 12 s: 11 nodes</li><li>1 min to 1 min 2 s: 1 node</li>' "$W/start"
}

@test "a day's stages add up to its mean start, whatever lies within them or is not in all" {
	local i

	kind=sqlite DB=sqlite:$W/registry.db
	service
	BEGIN=$(($(date +%s) - 101))
	for i in 1 2 3 4; do
		{
			line 0 n1 env begin
			line 10 n1 env.pip begin
			line 30 n1 env.pip end
			line 40 n1 env end
			if [ "$i" = 1 ]; then
				line 40 n1 fetch begin
				line 100 n1 fetch end
			fi
			line 100 n1 train mark
		} | "$bootseer" stage send --service "$U" --job "j$i" -
	done
	make_old
	wait_for page_shows "$U/#trends" "$W/trends" '<li>[^<]*, env: 40.0 s</li>'
	# The stage that one of four has, for a minute, is a quarter of one in the mean.
	grep -qE '<li>[^<]*, fetch: 15.0 s</li>' "$W/trends"
	run ! grep -qE '<li>[^<]*, env.pip: ' "$W/trends"
	ask "$U/v1/trends"
	jq -e '[.rows[] | {(.stage): [.top, .starts]}] | add |
		.["env.pip"] == [0, 4] and .env == [4, 4] and .fetch == [1, 1]' "$O"
}

@test "nodes, days, images and labels have a history when starts are over" {
	on_each_db history_is_kept
}

@test "stages are histograms of Prometheus without jobs" {
	DB=sqlite:$W/registry.db
	kind=sqlite
	service
	send_start j1 40
	make_old
	curl -fsS "$U/metrics" >"$W/metrics"
	promtool check metrics <"$W/metrics"
	grep -qx 'bootseer_stage_duration_seconds_bucket{stage="env",le="20"} 4' "$W/metrics"
	grep -qx 'bootseer_stage_duration_seconds_bucket{stage="env",le="60"} 5' "$W/metrics"
	grep -qx 'bootseer_stage_duration_seconds_count{stage="env"} 5' "$W/metrics"
	grep -qx 'bootseer_start_duration_seconds_sum{} 100.000' "$W/metrics"
	run ! grep -E 'job="|node="' "$W/metrics"
}

@test "a start is exported as Chrome's trace, OTLP and CSV" {
	DB=sqlite:$W/registry.db
	service
	BEGIN=$(($(date +%s) - 101))
	send_start j1 40
	export BOOTSEER_SERVICE=$U
	"$bootseer" start export --format chrome j1 >"$W/chrome"
	jq -e '[.traceEvents[] | select(.ph == "X" and .cat == "stage")] | length == 10 and
		all(.ts >= 0 and .dur > 0 and .pid > 0)' "$W/chrome"
	jq -e '.traceEvents[] | select(.name == "env" and .dur == 60000000) | .ts == 20000000' \
		"$W/chrome"
	"$bootseer" start export --format csv j1 >"$W/csv"
	[ "$(wc -l <"$W/csv")" = 11 ]
	grep -qx "j1,0,n3,,env,1,20.000000,60.000000,,0,1,$((BEGIN + 20)).000,slow_disk,40.000,full" "$W/csv"
	grep -qx "j1,0,n1,,env,1,20.000000,20.000000,,0,1,$((BEGIN + 20)).000,,,full" "$W/csv"
	jq -e '[.traceEvents[] | select(.args.cause) | .name + " " + .args.cause] ==
		["env slow_disk"]' "$W/chrome"
	"$bootseer" start export --format otlp j1 >"$W/otlp"
	grep -q '"bootseer.cause","value":{"stringValue":"slow_disk"}' "$W/otlp"
	python3 "$BATS_TEST_DIRNAME/otlp-check.py" "$W/otlp" >"$W/spans"
	grep -qx 'start spans=1 parent=' "$W/spans"
	grep -qx 'node spans=5 parent=start' "$W/spans"
	grep -qx 'env spans=5 parent=node' "$W/spans"
	run -2 "$bootseer" start export --format xml j1
	[[ $output == *chrome* ]]
}

@test "a start is watched until training begins" {
	DB=sqlite:$W/registry.db
	service
	export BOOTSEER_SERVICE=$U
	BEGIN=
	a_start 40 >"$W/all"
	grep -v 'stage=train' "$W/all" | "$bootseer" stage send --job j1 -
	"$bootseer" start watch --json --interval 100ms j1 >"$W/watch" 3>&- &
	child=$!
	wait_for grep -q '"ready":false' "$W/watch"
	grep 'stage=train' "$W/all" | "$bootseer" stage send --job j1 -
	wait "$child"
	tail -n 1 "$W/watch" | jq -e '.ready and .duration_s == 100'
	"$bootseer" start watch j1 >"$W/text"
	grep -qx 'training began after 1 min 40 s' "$W/text"
}

# A service takes connections and never answers.
silent_service()
{
	python3 -c 'if True:
		import pathlib, socket, sys
		s = socket.create_server(("127.0.0.1", 0))
		pathlib.Path(sys.argv[1]).write_text(str(s.getsockname()[1]))
		taken = []
		while True:
			taken.append(s.accept())' "$W/port" 3>&- &
	silent=$!
	services+=("$silent")
	wait_for test -s "$W/port"
}

@test "a service that is silent is named while it is waited for, with the end of that" {
	local asked

	silent_service
	"$bootseer" start show --service "http://127.0.0.1:$(cat "$W/port")" j1 2>"$W/said" 3>&- &
	asked=$!
	wait_for test -s "$W/said"
	kill "$asked" "$silent"
	grep -qx "http://127.0.0.1:$(cat "$W/port") has not answered for 3 s; waiting for 30 s in all" \
		"$W/said"
}

# Six nodes load a model, and one of them hangs in it since ten minutes.
a_hung_start()
{
	local n

	BEGIN=$(($(date +%s) - 700))
	for n in 1 2 3 4 5 6; do
		line 0 "n$n" env begin
		line $((n == 2 ? 95 : 90)) "n$n" env end
		line 100 "n$n" model.load begin rank=0
		[ "$n" = 4 ] || line 120 "n$n" model.load end rank=0
		[ "$n" = 4 ] || line 121 "n$n" dist.init begin rank=0
	done
}

a_hung_node_is_named()
{
	local waits='n4, rank 0: in model.load for 1[0-9] min( [0-9]+ s)?, which 5 of 6 have ended; last heard 1[0-9] min( [0-9]+ s)? ago: model.load begin'

	service
	export BOOTSEER_SERVICE=$U
	a_hung_start | "$bootseer" stage send --job hung -
	"$bootseer" start show hung >"$W/text"
	head -n 1 "$W/text" | grep -qE "^waiting for $waits\$"
	grep -qE '^1[0-9] min( [0-9]+ s)? so far: training has not begun' "$W/text"
	"$bootseer" start ls >"$W/text"
	grep -qE '^ *1  hung .* starting +6 ' "$W/text"
	grep -qE "^ +waiting for $waits\$" "$W/text"
	run -1 "$bootseer" start watch --timeout 1s hung
	grep -qE "^waiting for $waits\$" <<<"$output"
	# Each time counts to now, also that of the open stage.
	"$bootseer" start show --json hung >"$W/show"
	jq -e '.state == "open" and .duration_s >= 700 and .waiting.nodes[0].node == "n4" and
		.waiting.nodes[0].for_s >= 600 and .nodes[0].node == "n4" and
		.nodes[0].busy_s >= 690 and (.nodes[0].runs[] | select(.open) | .duration_s >= 600)' \
		"$W/show"
	ask "$U/v1/starts/1/bars"
	jq -e '.duration_s >= 700 and .nodes[0][0] == "n4" and
		(.nodes[0][3] | .[-1] == 23 and .[-2] >= 600000)' "$O"
	# Prometheus hears of it, after the next sweep.
	end_service TERM
	service
	wait_for is_counted 1
	[ "$(metric starts_not_training)" = 1 ]
	[ "$(metric start_silence_seconds)" -ge 570 ]
	# Nobody waits for it any more when the job is started again.
	BEGIN=
	send_again=$(line 0 n1 env begin; line 1 n1 env end; line 2 n1 train mark)
	"$bootseer" stage send --service "$U" --job hung --attempt 1 - <<<"$send_again"
	"$bootseer" start show --service "$U" --json 1 |
		jq -e '.state == "stopped" and .duration_s < 200'
	"$bootseer" start show --service "$U" 1 | head -n 1 | grep -q '^waited for n4, rank 0: '
	end_service TERM
	service
	wait_for is_counted 0
	unset BOOTSEER_SERVICE
}

is_counted() { [ "$(metric starts_silent)" = "$1" ]; } # NUMBER

@test "a start that hangs says first whom it waits for, on each of its views" {
	on_each_db a_hung_node_is_named
}

@test "a stage that failed is shown with its status, the first one first" {
	kind=sqlite DB=sqlite:$W/registry.db
	service
	export BOOTSEER_SERVICE=$U
	BEGIN=$(($(date +%s) - 60))
	{
		for n in 0 1 2 3; do
			line 0 n1 model.load begin rank=$n
		done
		line 10 n1 model.load end rank=2 status=137
		for n in 0 1 3; do
			line 12 n1 model.load end rank=$n status=1
		done
	} | "$bootseer" stage send --job j -
	"$bootseer" start show j >"$W/text"
	first='failed: n1, rank 2: model.load ended with status 137 (killed, often for memory) after 10.0 s, before 3 others'
	[ "$(head -n 1 "$W/text")" = "$first" ]
	grep -qE '^model.load .* 4 +0$' "$W/text"
	"$bootseer" start ls >"$W/text"
	grep -qE '^ *1  j .* failed ' "$W/text"
	grep -qF "        $first" "$W/text"
	"$bootseer" start show --json j | jq -e '.failed.all == 4 and .failed.runs[0].rank == 2 and
		.failed.runs[0].status == 137 and (.stages[0].failed == 4)'
}

# Starts of one node that says what it likes: when it was, which stages.
made_up()
{
	python3 - "$1" <<'P'
import sys, time
at = (int(time.time()) + 10 ** 8) * 10 ** 9
for job in range(int(sys.argv[1])):
    for i in range(125):
        for ev in ('begin', 'end'):
            print('BOOTSEER stage=a.%d.%d ev=%s node=bad ts=%d job=m%d image=0 label=0' %
                (job, i, ev, at, job))
        at += 1
    print('BOOTSEER stage=train ev=mark node=bad ts=%d job=m%d' % (at, job))
P
}

history_is_bounded()
{
	service
	made_up 82 >"$W/made-up"
	"$bootseer" stage send --service "$U" "$W/made-up" >/dev/null
	BEGIN=
	send_start j1 40
	ask "$U/v1/starts?limit=1"
	jq -e '.starts[0].begin_ms < (now + 60) * 1000' "$O"
	make_old
	ask "$U/v1/trends?by=label"
	jq -e '(.rows | length | . > 5000 and . <= 10000) and
		(.rows[] | select(.key == "team" and .stage == "env") | .starts == 1)' "$O"
	# Nothing is of a day to come, which would be kept until then.
	ask "$U/v1/trends?by=day"
	jq -e '.rows | all((.key | tonumber) * 86400 <= now)' "$O"
	ask "$U/v1/nodes/bad"
	jq -e '.starts | length == 82 and all(.at <= now)' "$O"
}

@test "one node that makes stages and times up does not fill the history" {
	on_each_db history_is_bounded
}

# Begun before a pod made up others, on one node and on several, and in another namespace.
made_up_jobs_hide_nothing()
{
	service
	export BOOTSEER_SERVICE=$U
	BEGIN=$(($(date +%s) - 900))
	line 0 n1 env begin | "$bootseer" stage send --job good/alone -
	for n in 1 2 3; do line 1 "n$n" env begin; done |
		"$bootseer" stage send --job good/wide -
	for i in $(seq 1 30); do
		for n in 1 2; do line 2 "n$n" env begin "job=busy/j$i"; done
	done | "$bootseer" stage send -
	for i in $(seq 1 2000); do
		line 3 bad env begin "job=evil/made-up-$i"
	done | "$bootseer" stage send -
	ask "$U/v1/starts?limit=40"
	jq -e '(.starts | length == 40) and
		([.starts[].job | select(startswith("evil/"))] | length <= 18) and
		([.starts[].job | select(startswith("busy/"))] | length >= 20) and
		([.starts[].job | select(startswith("good/"))] | length == 2)' "$O"
	# Where there are no others each has all of it.
	ask "$U/v1/starts?limit=1000"
	jq -e '.starts | length == 1000' "$O"
	ask "$U/v1/starts?limit=10&job=evil/made-up-7"
	jq -e '.starts | length == 1' "$O"
	unset BOOTSEER_SERVICE
}

@test "a pod that makes jobs up hides no start of the others" {
	on_each_db made_up_jobs_hide_nothing
}

# As many as a day may have, of fifty starts each of one node: more nodes in all than the
# start of five has, whose rows stay.
history_of_one_gives_way()
{
	service
	BEGIN=$(($(date +%s) - 101))
	send_start j1 40
	in_db "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
		INSERT INTO start_day SELECT $((BEGIN / 86400)), 'made', 'up', 0, 's' || i,
		50, 50, 0, 0, 0, 0, 0, 0, 50 FROM n"
	make_old
	ask "$U/v1/trends?by=label"
	jq -e '(.rows | length | . > 5000 and . <= 10000) and
		([.rows[] | select(.key == "team") | .stage] | sort) == ["", "env", "image"]' "$O"
}

@test "what one node says again and again takes no place in the history from many nodes" {
	on_each_db history_of_one_gives_way
}
