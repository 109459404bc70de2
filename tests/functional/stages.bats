#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Stage events: said by commands and Python, found in logs, analysed by a real
# bootseer-registry on both of its databases.

bats_require_minimum_version 1.5.0
load ../noise.bash

bootseer=${BOOTSEER_BUILD:?}/cli/bootseer
python=$BATS_TEST_DIRNAME/../../python

load stages.bash

# line SECONDS NODE STAGE EV [FIELD...]: a line as echo in a container writes it, with
# the runtime's time before it.
line()
{
	local at=$1 node=$2 stage=$3 ev=$4

	shift 4
	printf '%s stdout F BOOTSEER stage=%s ev=%s node=%s %s\n' \
		"$(date -u -d "@$((1795000000 + at))" +%Y-%m-%dT%H:%M:%S.000000000Z)" \
		"$stage" "$ev" "$node" "$*"
}

# Four nodes of which n3 installs slowly, and n2 again.
a_start()
{
	local n

	for n in 1 2 3 4; do
		line 0 "n$n" image begin
		line $((10 + n)) "n$n" image end
		line 20 "n$n" env begin
		line 21 "n$n" env.install begin
		[ "$n" != 2 ] || line 30 n2 env.install begin
		line $((n == 3 ? 90 : 40)) "n$n" env.install end status=0
		line $((n == 3 ? 92 : 42)) "n$n" env end
		line 93 "n$n" model begin rank=0
		line 100 "n$n" model end rank=0
		line 101 "n$n" train mark rank=0
	done
}

a_start_is_analysed()
{
	service
	export BOOTSEER_SERVICE=$U
	a_start >"$W/log"
	"$bootseer" stage send --job team/j --attempt 2 "$W/log" >"$W/out"
	grep -qx 'sent: 37 events, 0 known already' "$W/out"
	# Events count once.
	"$bootseer" stage send --job team/j --attempt 2 "$W/log" >"$W/out"
	grep -qx 'sent: 0 events, 37 known already' "$W/out"
	[ "$(metric stage_events_total)" = 37 ]

	"$bootseer" start ls --json >"$W/ls"
	jq -e '.starts | length == 1 and .[0].job == "team/j" and
		.[0].attempt == 2 and .[0].ready and .[0].events == 37 and
		.[0].duration_s == 101 and .[0].begin_ms == 1795000000000' "$W/ls"
	[ "$("$bootseer" start ls other --json | jq '.starts | length')" = 0 ]

	"$bootseer" start show --json team/j >"$W/show"
	jq -e '.duration_s == 101 and .ready and .nodes_all == 4' "$W/show"
	jq -e '.stages[] | select(.stage == "image") | .top and .job_s == 14 and
		.node.median_s == 12.5 and .node.max_s == 14' "$W/show"
	jq -e '.stages[] | select(.stage == "env.install") | (.top | not) and
		.retries == 1 and .open == 1' "$W/show"
	jq -e '.stages[] | select(.stage == "env") | .stragglers == 1 and
		(.node.max_median > 3.2 and .node.max_median < 3.3)' "$W/show"
	jq -e '[.stragglers[] | .node + " " + .stage] | index("n3 env") != null and
		all(startswith("n3 "))' "$W/show"
	jq -e '[.critical_path[].stage] == ["image", "env", "model"]' "$W/show"
	jq -e '.critical_path[1].node == "n3"' "$W/show"
	jq -e '.nodes[0].node == "n3" and .nodes[0].straggler and
		(.nodes[0].runs | length) == 4' "$W/show"
	[ "$("$bootseer" start show --json -n 2 team/j | jq '.nodes | length')" = 2 ]
}

@test "a log with stage events becomes a start with stages, stragglers and a path" {
	on_each_db a_start_is_analysed
}

@test "a start is shown as text with a bar for each node" {
	DB=sqlite:$W/registry.db
	service
	a_start | "$bootseer" stage send --service "$U" --job j -
	"$bootseer" start ls --service "$U" | grep -E '^ +1  j  +0 .* 1 min 41 s  trains +4 +[0-9.]+ +1$'
	"$bootseer" start show --service "$U" 1 >"$W/text"
	grep -qx '1 min 41 s until training began' "$W/text"
	grep -qE '^env +4 +22\.0 s .* 0 +0 +0 +1$' "$W/text"
	grep -qE '^  n3 +env +1 min 12 s, 50\.0 s more than the median$' "$W/text"
	grep -qE '^n3 +1 min 32 s ! A+\.+B+C+\.?$' "$W/text"
	[ "$(grep -cE '^n[1-4] ' "$W/text")" = 4 ]
	[ "$(awk 'length > 100' "$W/text")" = "" ]
	run -1 "$bootseer" start show --service "$U" other
	[[ $output == *"no start of job 'other' is known"* ]]
	run -1 "$bootseer" start show --service "$U" 77
	[[ $output == *"there is no such start"* ]]
	run -2 "$bootseer" start show j
	[[ $output == *--service* ]]
}

clocks_are_laid_side_by_side()
{
	local own now

	service
	# The service's time lies between two readings of the same clock here.
	own=$(date +%s%N)
	now=$(curl -fsS -X POST -H 'Bootseer-Node: n1' -H 'Content-Type: text/plain' \
		--data-binary '' "$U/v1/events" | jq .now_ns)
	[ "$own" -le "$now" ]
	[ "$now" -le "$(date +%s%N)" ]

	# n2's wall clock is 9 s behind, as its exchange says; n1 has none.
	export BOOTSEER_JOB=j
	BOOTSEER_NODE=n1 "$bootseer" stage begin image >"$W/n1"
	grep -oE 'stage=.* ts=[0-9]+' "$W/n1" | sed 's/.*ts=//' >"$W/ts"
	ts=$(cat "$W/ts")
	mk() { # NODE TS EV
		printf 'BOOTSEER stage=image ev=%s ts=%s job=j node=%s\n' "$3" "$2" "$1"
	}
	mk n1 "$ts" begin >"$W/l1"
	mk n1 $((ts + 10000000000)) end >>"$W/l1"
	mk n2 $((ts - 9000000000)) begin >"$W/l2"
	mk n2 $((ts + 2000000000)) end >>"$W/l2"
	for n in 1 2; do
		"$bootseer" stage send --service "$U" "$W/l$n"
	done
	jq -e '.stages[0].job_s == 19' <("$bootseer" start show --service "$U" --json j)
	# The same events again, now with the exchange: its offset is what counts.
	printf 'BOOTSEER stage=done ev=mark ts=%s job=j node=n2 id=5' "$ts" >"$W/l3"
	crc=$(python3 -c 'import sys; sys.path.insert(0, sys.argv[1])
import bootseer_stage as b
print("%08x" % b._crc32c(open(sys.argv[2], "rb").read()))' "$python" "$W/l3")
	echo " crc=$crc" >>"$W/l3"
	ask --data-binary "@$W/l3" -H 'Bootseer-Node: n2' -H 'Content-Type: text/plain' \
		"$U/v1/events?clock=1:0:9000000000:1000"
	[ "$code" = 200 ]
	jq -e '.stored == 1' "$O"
	jq -e '.stages[] | select(.stage == "image") | .job_s == 11' \
		<("$bootseer" start show --service "$U" --json j)
	unset BOOTSEER_JOB
}

@test "an exchange with the service lays the clocks of nodes side by side" {
	on_each_db clocks_are_laid_side_by_side
}

what_is_wrong_is_refused()
{
	service
	put() { # STATUS BODY [QUERY]
		ask --data-binary "$2" -H 'Bootseer-Node: n1' -H 'Content-Type: text/plain' \
			"$U/v1/events${3:-}"
		[ "$code" = "$1" ]
	}
	good=$(BOOTSEER_JOB=j BOOTSEER_NODE=n1 "$bootseer" stage begin a)
	put 200 "$good"
	put 400 "x$good"
	put 400 "${good%?}"
	put 400 "$good$good"
	put 400 "BOOTSEER stage=a ev=begin ts=1 job=j node=n1"
	put 400 "$(BOOTSEER_JOB=j BOOTSEER_NODE=n2 "$bootseer" stage begin a)"
	put 400 "$(BOOTSEER_NODE=n1 "$bootseer" stage begin a)"
	put 400 "$good" "?clock=1:9999999999999999999:0:1"
	jq -e '.error.message | test("no clock is so far off")' "$O"
	[ "$(curl -fsS "$U/v1/starts" | jq '.starts[0].events')" = 1 ]
	ask "$U/v1/starts/99"
	[ "$code" = 404 ]
}

@test "the service refuses what is no event, or another node's" {
	on_each_db what_is_wrong_is_refused
}

@test "a node sends events in its own name, and tokens of a repository none" {
	DB=sqlite:$W/registry.db
	own=$(printf own | sha256sum | cut -d' ' -f1)
	repo=$(printf repo | sha256sum | cut -d' ' -f1)
	printf 'own sha256:%s write,read node=n1\nrepo sha256:%s write,read node=n1 repo=h/a\n' \
		"$own" "$repo" >"$W/tokens"
	AUTH="--tokens $W/tokens"
	service
	event() { BOOTSEER_JOB=j BOOTSEER_NODE=$1 "$bootseer" stage begin a; }
	send() { # TOKEN NODE
		ask -H "Authorization: Bearer $1" -H "Bootseer-Node: $2" \
			--data-binary "$(event "$2")" "$U/v1/events"
	}
	send own n1
	[ "$code" = 200 ]
	send own n2
	[ "$code" = 403 ]
	send repo n1
	[ "$code" = 403 ]
	ask -H "Authorization: Bearer repo" "$U/v1/starts"
	[ "$code" = 403 ]
	ask -H "Authorization: Bearer repo" "$U/v1/starts/1"
	[ "$code" = 403 ]
	ask "$U/v1/starts"
	[ "$code" = 401 ]
	printf own >"$W/token"
	"$bootseer" start ls --service "$U" --token-file "$W/token" | grep -q ' j '
}

a_start_is_bounded()
{
	service
	seq 10001 | awk '{ printf "BOOTSEER stage=s%d ev=mark ts=%d node=n1\n",
		$1 % 1030, 1795000000000000000 + $1 * 1000 }' >"$W/log"
	run -1 "$bootseer" stage send --service "$U" --job j "$W/log"
	[[ $output == *"than 10000 of node 'n1'"* ]]
	# Of the last request nothing is kept, of those before all.
	n=$("$bootseer" start ls --service "$U" --json | jq '.starts[0].events')
	[ "$n" -gt 5000 ]
	[ "$n" -le 10000 ]
	head -n 5000 "$W/log" >"$W/again"
	"$bootseer" stage send --service "$U" --job j "$W/again" |
		grep -qx 'sent: 0 events, 5000 known already'
	# More kinds of stages than are looked at do not hide the others.
	jq -e '.left_out > 0' <("$bootseer" start show --service "$U" --json j)
	sed 's/n1/n2/' "$W/again" >"$W/other"
	"$bootseer" stage send --service "$U" --job j "$W/other" |
		grep -qx 'sent: 5000 events, 0 known already'
}

@test "a node says so much about a start, and no more" {
	on_each_db a_start_is_bounded
}

clocks_are_bounded()
{
	local i n

	service
	BOOTSEER_JOB=j BOOTSEER_NODE=n1 "$bootseer" stage begin a >"$W/event"
	for i in {1..30}; do
		curl -fsS -o "$W/answer" --data-binary "@$W/event" \
			-H 'Bootseer-Node: n1' -H 'Content-Type: text/plain' \
			"$U/v1/events?clock=$(printf %x "$i"):0:0:$((1000 - i))"
	done
	jq -e '.doubles == 1' "$W/answer"
	# One that is known may still be told better.
	curl -fsS -o "$W/answer" --data-binary "@$W/event" \
		-H 'Bootseer-Node: n1' -H 'Content-Type: text/plain' \
		"$U/v1/events?clock=3:7:0:1"
	end_service TERM
	if [ "$kind" = sqlite ]; then
		n=$(python3 -c 'import sqlite3, sys
d = sqlite3.connect(sys.argv[1])
print(*d.execute("SELECT count(*), max(mono_offset) FROM stage_clock").fetchone())' \
			"${DB#sqlite:}")
	else
		n=$(pg_do "$db_name" -F " " -c \
			'SELECT count(*), max(mono_offset) FROM stage_clock')
	fi
	[ "$n" = '16 7' ]
}

@test "a node has so many clocks in a start, and no more" {
	on_each_db clocks_are_bounded
}

# Whatever starts they are of, or others' would be forgotten for them.
events_of_a_node_are_bounded()
{
	local i

	service --max-node-events 50
	for i in 1 2; do
		seq 30 | awk -v n="$i" '{ printf "BOOTSEER stage=a ev=mark ts=%d node=n1\n",
			1795000000000000000 + n * 1000000 + $1 * 1000 }' >"$W/log$i"
		"$bootseer" stage send --service "$U" --job "j$i" "$W/log$i" |
			grep -qx 'sent: 30 events, 0 known already'
	done
	run -1 "$bootseer" stage send --service "$U" --job j3 "$W/log1"
	[[ $output == *"node 'n1' has sent too many events within the hour"* ]]
	sed 's/n1/n2/' "$W/log1" >"$W/other"
	"$bootseer" stage send --service "$U" --job j3 "$W/other" |
		grep -qx 'sent: 30 events, 0 known already'
}

@test "a node sends so many events in an hour, and no more" {
	on_each_db events_of_a_node_are_bounded
}

starts_are_forgotten()
{
	service
	export BOOTSEER_JOB=old
	BOOTSEER_NODE=n1 "$bootseer" stage begin a | "$bootseer" stage send --service "$U" --node n1 -
	end_service TERM
	if [ "$kind" = sqlite ]; then
		python3 -c 'import sqlite3, sys
d = sqlite3.connect(sys.argv[1])
d.execute("UPDATE job_start SET received = 1000")
d.commit()' "${DB#sqlite:}"
	else
		pg_do "$db_name" -c 'UPDATE job_start SET received = 1000'
	fi
	BOOTSEER_JOB=new BOOTSEER_NODE=n1 "$bootseer" stage begin a >"$W/new"
	service
	wait_for grep -q 'sweep forgot starts of jobs=1' "$LOG"
	"$bootseer" stage send --service "$U" "$W/new"
	[ "$(curl -fsS "$U/v1/starts" | jq -r '.starts[].job')" = new ]
	unset BOOTSEER_JOB
}

@test "starts are forgotten with --retention" {
	on_each_db starts_are_forgotten
}

@test "stage run ends as its command does, and passes signals on" {
	export BOOTSEER_JOB=j BOOTSEER_NODE=n1
	run -0 --separate-stderr "$bootseer" stage run a -- sh -c 'cat; echo out' <<<in
	[ "$output" = $'in\nout' ]
	# shellcheck disable=SC2154 # bats sets it
	grep -qE '^BOOTSEER stage=a ev=begin .* job=j node=n1 id=' <<<"$stderr"
	grep -qE '^BOOTSEER stage=a ev=end .* status=0 id=' <<<"$stderr"
	run -7 --separate-stderr "$bootseer" stage run a -- sh -c 'exit 7'
	grep -q ' status=7 ' <<<"$stderr"
	run -127 --separate-stderr "$bootseer" stage run a -- "$W/nothing"
	grep -q ' ev=end .* status=127 ' <<<"$stderr"
	run -137 --separate-stderr "$bootseer" stage run a -- sh -c 'kill -KILL $$'
	grep -q ' status=137 ' <<<"$stderr"

	run -2 "$bootseer" stage run a --
	mkfifo "$W/ready"
	"$bootseer" stage run a -- sh -c 'trap "kill \$!; echo got it; exit 3" TERM
		tail -f /dev/null & echo >"$0"; wait' "$W/ready" \
		>"$W/out" 2>"$W/err" 3>&- &
	child=$!
	read -r _ <"$W/ready"
	kill -TERM "$child"
	rc=0
	wait "$child" || rc=$?
	[ "$rc" = 3 ]
	grep -qx 'got it' "$W/out"
	grep -q ' ev=end .* status=3 ' "$W/err"
}

@test "stage commands take their owner from options, then the environment" {
	export BOOTSEER_JOB=env-job BOOTSEER_ATTEMPT=4 BOOTSEER_NODE=env-node RANK=6
	"$bootseer" stage begin a | grep -q ' job=env-job attempt=4 node=env-node rank=6 '
	"$bootseer" stage end --status 9 --job o/j --attempt 5 --node o --rank 7 a |
		grep -q ' ev=end .* job=o/j attempt=5 node=o rank=7 status=9 id='
	# Slurm counts requeues, torchrun its workers' restarts: the first that is a count.
	export SLURM_RESTART_COUNT=2 TORCHELASTIC_RESTART_COUNT=1
	"$bootseer" stage begin a | grep -q ' attempt=4 '
	unset BOOTSEER_ATTEMPT
	"$bootseer" stage begin a | grep -q ' attempt=2 '
	SLURM_RESTART_COUNT=-1 "$bootseer" stage begin a | grep -q ' attempt=1 '
	unset SLURM_RESTART_COUNT
	"$bootseer" stage begin a | grep -q ' attempt=1 '
	PYTHONPATH=$python python3 -B -c 'import bootseer_stage; bootseer_stage.mark("a")' \
		>"$W/out" 2>&1
	grep -q ' attempt=1 ' "$W/out"
	unset TORCHELASTIC_RESTART_COUNT
	# A start does not fail because of what the environment says.
	BOOTSEER_JOB='a b' RANK=x "$bootseer" stage mark train >"$W/out"
	grep -q '^BOOTSEER stage=train ev=mark ' "$W/out"
	run ! grep -qE ' (job|rank)=' "$W/out"
	run -2 "$bootseer" stage begin 'a b'
	run -2 "$bootseer" stage begin --rank -1 a
	run -2 "$bootseer" stage begin --job 'a b' a
}

@test "Python says the same, also of stages that fail" {
	export BOOTSEER_JOB=j BOOTSEER_NODE=n1 RANK=3 PYTHONPATH=$python
	python3 -B - >"$W/log" <<'EOF'
from bootseer_stage import stage, mark
with stage("model"):
    with stage("model.load"):
        pass
    try:
        with stage("model.rdma"):
            raise ValueError("x")
    except ValueError:
        pass

@stage("warm")
def f(x):
    return x + 1

assert f(1) == 2
mark("train")
stage("a b").__enter__()
EOF
	DB=sqlite:$W/registry.db
	service
	"$bootseer" stage send --service "$U" "$W/log" | grep -qx 'sent: 9 events, 0 known already'
	"$bootseer" start show --service "$U" --json j >"$W/show"
	jq -e '.ready and [.nodes[0].runs[].stage] ==
		["model", "model.load", "model.rdma", "warm"]' "$W/show"
	jq -e '[.nodes[0].runs[] | select(.top).stage] == ["model", "warm"]' "$W/show"
	jq -e '.nodes[0].runs[2] | .status == 1 and .rank == 3' "$W/show"
}

@test "a log that is being written is sent as it comes, and the service may be away" {
	DB=sqlite:$W/registry.db ADDRESS=$(own_address)
	service
	export BOOTSEER_JOB=j BOOTSEER_NODE=n1
	mkfifo "$W/pipe"
	"$bootseer" stage send --service "$U" - <"$W/pipe" >"$W/out" 2>"$W/err" 3>&- &
	child=$!
	exec 7>"$W/pipe"
	echo 'BOOTSEER stage=a ev=begin' >&7
	has() { [ "$(curl -fsS "$U/v1/starts" | jq '.starts[0].events')" = "$1" ]; }
	wait_for has 1
	end_service TERM
	echo 'BOOTSEER stage=a ev=end' >&7
	echo 'noise' >&7
	port=${U##*:}
	# The next one serves where the first did, which the sender knows.
	"$program" --listen "$ADDRESS:$port" --db "$DB" --insecure-no-auth \
		2>"$W/log.second" 3>&- 7>&- &
	services+=($!)
	wait_for grep -q ' ready port=' "$W/log.second"
	echo 'BOOTSEER stage=train ev=mark' >&7
	wait_for has 3
	exec 7>&-
	wait "$child"
	grep -qx 'sent: 3 events, 0 known already' "$W/out"
}

@test "what cannot be sent is counted and told" {
	DB=sqlite:$W/registry.db
	service
	printf '%s\n' 'BOOTSEER stage=a ev=begin' 'BOOTSEER stage=b ev=begi' \
		'BOOTSEER stage=c ev=begin job=j ts=1795000000000000000' >"$W/log"
	run -0 --separate-stderr "$bootseer" stage send --service "$U" --node n1 "$W/log"
	[ "$output" = "sent: 1 event, 0 known already" ]
	[[ $stderr == *"1 event left out: no job is known"* ]]
	[[ $stderr == *"1 event left out: damaged, or no event"* ]]
	run -0 --separate-stderr "$bootseer" stage send --service "$U" --node n1 --job j "$W/log"
	[[ $stderr == *"1 event left out: no time is in the line"* ]]
	end_service KILL
	run -1 "$bootseer" stage send --service "$U" --node n1 "$W/log"
}

@test "the page has nothing from elsewhere, and says so to browsers" {
	DB=sqlite:$W/registry.db
	service --operations "$W/operations.json"
	ask "$U/v1/operations"
	[ "$code" = 404 ]
	grep -q 'bootseer ops report --out' "$O"
	echo '{"made_s": 1}' >"$W/operations.json"
	ask "$U/v1/operations"
	[ "$code" = 200 ]
	cmp "$O" "$W/operations.json"
	for path in / /page/app.js /page/draw.js /page/views.js /page/operations.js /page/style.css /page/chart.js; do
		ask "$U$path"
		[ "$code" = 200 ]
		header Content-Security-Policy | grep -q "^default-src 'none'; script-src 'self';"
		[ "$(header X-Content-Type-Options)" = nosniff ]
		# Chart.js names its home in comments.
		run ! grep -E 'https?:|//[a-z]|innerHTML|style="|onclick' <(grep -vE '^ ?(//|\*) ' "$O")
		etag=$(header ETag)
		ask -H "If-None-Match: $etag" "$U$path"
		[ "$code" = 304 ]
	done
	ask "$U/page/chart.js"
	grep -q '^Permission is hereby granted, free of charge' "$O"
	chart_js=$(meson introspect "$BOOTSEER_BUILD" --buildoptions |
		jq -r '.[] | select(.name == "chart_js").value')
	# Its last line is a whole one there.
	sed '$a\' "$chart_js" >"$W/chart.js"
	tail -c "$(stat -c %s "$W/chart.js")" "$O" | cmp - "$W/chart.js"
}

# Chart.js drew them: it gives a canvas its size.
has_charts() { # ADDRESS FILE
	local label

	browse "$1" >"$2" || return
	for label in 'What the time went to' 'Nodes of each stage' 'Critical path'; do
		grep -qE "<canvas tabindex=\"0\" role=\"group\" aria-label=\"$label\" width=\"[0-9]{3,}\"" \
			"$2" || return
	done
}

@test "a browser shows starts, and one with its nodes, stages and stragglers" {
	DB=sqlite:$W/registry.db
	service
	a_start | "$bootseer" stage send --service "$U" --job team/j -
	wait_for page_shows "$U/" "$W/list" '<a href="#start/1">team/j</a>'
	wait_for has_charts "$U/#start/1" "$W/start"
	grep -q '<h2>team/j, attempt 0</h2>' "$W/start"
	grep -q '<a href="#node/n3" class="slow">n3</a>' "$W/start"
	grep -q '<td>unknown</td>' "$W/start"
	# Image, env and model of the median node, and of the slowest ones.
	[ "$(grep -oE '<li>(median node|slowest of each), ' "$W/start" | wc -l)" = 6 ]
	grep -q '<li>slowest of each, env: 1 min 12 s</li>' "$W/start"
	grep -qE '<li>env: half from 2[0-9.]* s to [0-9.]* s, median [0-9.]* s, all from 22.0 s to 1 min 12 s, ' "$W/start"
	grep -q 'class="axis" aria-label="From 0 to 1 min 41 s"' "$W/start"
	# The critical path as steps: n3 was slow in env.
	grep -q '<li>n3 env: 1 min 12 s, from [0-9.]* s on</li>' "$W/start"
	a_start | "$bootseer" stage send --service "$U" --job team/j --attempt 1 -
	wait_for page_shows "$U/#job/team/j" "$W/job" '#compare/[0-9]+/[0-9]+'
	pair=$(grep -oE '#compare/[0-9]+/[0-9]+' "$W/job")
	wait_for page_shows "$U/$pair" "$W/compare" '<li>env: A 1 min 12 s, B 1 min 12 s</li>'
	grep -q '<td class="number">1 min 12 s</td>' "$W/compare"
	grep -q '<h2>team/j, attempt 0, and attempt 1: 0.0 s</h2>' "$W/compare"
	for view in trends images nodes checkpoints peers; do
		wait_for page_shows "$U/#$view" "$W/$view" '<p class="nothing">(No|Nobody) '
		grep -q "<a href=\"#$view\" aria-current" "$W/$view"
	done
	wait_for page_shows "$U/#start/99" "$W/none" 'there is no such start'
	# What has not begun to train is apart from the others.
	run ! grep -q 'Not begun to train' "$W/list"
	echo "BOOTSEER stage=env ev=begin node=n1 ts=$(date +%s%N)" |
		"$bootseer" stage send --service "$U" --job team/now -
	wait_for page_shows "$U/" "$W/list" \
		'<h3>Not begun to train: 1</h3>.*>team/now</a>.*<h3>Others</h3>.*>team/j</a>'
	# Of a stage that nobody has ended there is no box.
	wait_for page_shows "$U/$(grep -oE '#start/[0-9]+">team/now' "$W/list" | cut -d'"' -f1)" \
		"$W/now" '<h2>team/now, attempt 0</h2>'
	run ! grep -q 'in all</li>' "$W/now"
	run ! grep -i 'content security policy' "$W/browser/said"
	# Each view is named in the browser's list of tabs; where all is open there is nothing to log in to.
	grep -q '<title>team/now, attempt 0 - BootSeer</title>' "$W/now"
	grep -q '<form id="login" hidden' "$W/now"
}

# As of page_shows(): there may be no verdict yet.
are_judged() # THEME
{
	browse "file://$W/charts.html" "$1" >"$W/charts"
	grep -q 'id="told"' "$W/charts"
}

@test "charts in a browser: colours, names on axes, keys" {
	DB=sqlite:$W/registry.db
	service
	ask "$U/"
	sed "s|<meta|<base href=\"$U/\"><meta|; /<\/body>/e cat '$BATS_TEST_DIRNAME/charts.html'" \
		"$O" >"$W/charts.html"
	for theme in dark light; do
		wait_for are_judged "$theme"
		sed -n '/id="told"/,$ { s/.*id="told">//; p }' "$W/charts" >&2
		grep -q '<pre id="told">as wanted: [1-9][0-9]*</pre>' "$W/charts"
	done
}

@test "the page without a token says that one is needed" {
	DB=sqlite:$W/registry.db
	printf 'a sha256:%s read\n' "$(printf a | sha256sum | cut -d' ' -f1)" >"$W/tokens"
	AUTH="--tokens $W/tokens"
	service
	wait_for page_shows "$U/" "$W/page" 'role="status">a valid token is needed: none came</p>'
	run ! grep '<form id="login" hidden' "$W/page"
}

@test "the Python module is installed where Debian's Python looks" {
	path=$(meson introspect "$BOOTSEER_BUILD" --installed |
		jq -r '.[] | select(endswith("/bootseer_stage.py"))')
	/usr/bin/python3 -c 'import os, sys
assert os.path.dirname(sys.argv[1]) in sys.path, sys.path' "$path"
}
