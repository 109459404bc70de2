#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bootseer-events: logs of pods, files and this node's own processes are followed over
# rotations, kills and outages, and every event arrives once.

bats_require_minimum_version 1.5.0
load ../noise.bash

bootseer=${BOOTSEER_BUILD:?}/cli/bootseer
follower=$BOOTSEER_BUILD/profiler/follow/bootseer-events
here=$BATS_TEST_DIRNAME

setup()
{
	. "$BATS_TEST_DIRNAME/registry.bash"
	W=$BATS_TEST_TMPDIR
	unset RANK BOOTSEER_JOB BOOTSEER_ATTEMPT BOOTSEER_NODE BOOTSEER_RANK \
		BOOTSEER_SERVICE
	followers=()
	mkdir "$W/pods" "$W/own"
}

teardown()
{
	local p

	for p in "${followers[@]}" "${services[@]}"; do
		kill -KILL "$p" 2>/dev/null || :
	done
	[ -n "${BATS_TEST_COMPLETED:-}" ] || ! compgen -G "$W/*log*" >/dev/null ||
		tail -n 20 "$W"/*log* | sed 's/^/# /' >&3
}

flags() # [OPTION...]: those of a follower of this test
{
	flags=(--service "$U" --node n1 --state "$W/state" --pods "$W/pods" \
		--events "$W/own" --max-age 10000h "$@")
}

once() # [OPTION...] [FILE...]
{
	flags "$@"
	"$follower" "${flags[@]}" --once 2>>"$W/follower.log"
}

follow() # [OPTION...] [FILE...]: in the background
{
	flags "$@"
	"$follower" "${flags[@]}" 2>>"$W/follower.log" 3>&- &
	followers+=($!)
}

# cri POD CONTAINER TEXT [TAG]: a line of a container's log.
cri()
{
	mkdir -p "$W/pods/$1/$2"
	cri_at=$((${cri_at:-0} + 1))
	printf '2026-11-23T10:00:%02d.%09dZ stdout %s %s\n' $((cri_at / 10 % 60)) \
		"$cri_at" "${4:-F}" "$3" >>"$W/pods/$1/$2/0.log"
}

# JSON of all events' stages in a start: how often each was seen.
start_of() # JOB
{
	"$bootseer" start show --service "$U" --json "$1"
}

stored_events() # JOB: names of the events' stages as the database has them
{
	python3 - "${DB#sqlite:}" "$1" <<'PY'
import sqlite3, sys
d = sqlite3.connect(sys.argv[1])
for row in d.execute("SELECT e.stage FROM stage_event e JOIN job_start s ON "
                     "e.start = s.id WHERE s.job = ?", (sys.argv[2],)):
    print(row[0])
PY
}

@test "no event is lost or doubled, however often the follower is killed" {
	DB=sqlite:$W/registry.db
	service
	flags
	python3 "$here/follow-events.py" "$W" "${BOOTSEER_SEED:-$RANDOM}" 1500 25 \
		"$follower" "${flags[@]}"
	stored_events team-a/j | sort >"$W/stored"
	sort "$W/written" >"$W/expected"
	diff "$W/expected" "$W/stored"
	grep -qE 'ended .* junk=0 .* no_job=0' "$W/follower.log"
}

@test "a pod speaks for itself alone, whatever its log and its folder hold" {
	DB=sqlite:$W/registry.db
	service
	# Another namespace's job, another node, a runtime's header within the line, an
	# endless line, junk.
	bad=evil_pod-1_uid-9
	cri "$bad" main 'BOOTSEER stage=a ev=mark job=team-a/j node=n7'
	cri "$bad" main '2026-11-23T10:00:00Z stdout F BOOTSEER stage=b ev=mark job=../j'
	cri "$bad" main "$(head -c 300000 /dev/zero | tr '\0' x)" P
	cri "$bad" main 'BOOTSEER stage=c ev=mark'
	head -c 100000 /dev/urandom >>"$W/pods/$bad/main/0.log"
	echo >>"$W/pods/$bad/main/0.log"
	# What is no log of this pod: links, pipes, names that lead elsewhere.
	secret=$W/secret
	echo '2026-11-23T10:00:00Z stdout F BOOTSEER stage=secret ev=mark' >"$secret"
	ln -s "$secret" "$W/pods/$bad/main/1.log"
	mkfifo "$W/pods/$bad/main/2.log"
	mkdir "$W/outside"
	cp "$secret" "$W/outside/0.log"
	ln -s "$W/outside" "$W/pods/$bad/link"
	mkdir "$W/pods/not-a-pod" "$W/pods/team-a_x_y_z"
	cp "$secret" "$W/pods/not-a-pod/0.log"
	# One that floods is cut off, and others are heard.
	flood=evil_flood_uid-8
	mkdir -p "$W/pods/$flood/main"
	seq 5000 | awk '{ printf "2026-11-23T10:00:00Z stdout F BOOTSEER stage=f%d ev=mark\n",
		$1 }' >"$W/pods/$flood/main/0.log"
	cri team-a_pod_uid-1 main 'BOOTSEER stage=good ev=mark job=j'
	once --pod-events 100

	[ "$(stored_events team-a/j)" = good ]
	[ "$(stored_events evil/flood | wc -l)" = 100 ]
	[ "$(stored_events evil/team-a/j)" = a ]
	# What has no job is of the job that the pod named last.
	[ "$(stored_events evil/../j | sort | tr '\n' ' ')" = 'b c ' ]
	"$bootseer" start ls --service "$U" --json >"$W/ls"
	jq -e '[.starts[].job | select(startswith("team-a/") or startswith("evil/")
		| not)] == []' "$W/ls"
	[ "$(python3 -c 'import sqlite3, sys
d = sqlite3.connect(sys.argv[1])
print(*[r[0] for r in d.execute("SELECT DISTINCT node FROM stage_event")])' \
		"${DB#sqlite:}")" = n1 ]
	run ! grep -q secret "$W/state/places"
	grep -qE 'ended .* limited=4900 .* links=[1-9]' "$W/follower.log"
}

# flood NAMESPACE POD CONTAINER N: a container's log of N events, each with a name.
flood()
{
	mkdir -p "$W/pods/$1_$2_u/$3"
	seq "$4" | awk -v c="$3" '{
		printf "2026-11-23T10:00:00Z stdout F BOOTSEER stage=%s%d ev=mark job=j\n", c, $1
	}' >"$W/pods/$1_$2_u/$3/0.log"
}

stored_of() { stored_events "$1" | wc -l; } # JOB
has_stored() { [ "$(stored_of "$1")" = "$2" ]; } # JOB N

@test "a pod has its bound in all its containers, a namespace half of what others leave" {
	DB=sqlite:$W/registry.db
	service
	for c in a b c; do
		flood evil p "$c" 100
	done
	for p in q r s; do
		flood more "$p" "$p" 100
	done
	once --pod-events 150 --node-events 100000
	[ "$(stored_of evil/j)" = 150 ]
	[ "$(stored_of more/j)" = 300 ]
	[ "$(grep -c 'left out pod="evil_p_u"' "$W/follower.log")" = 1 ]
	grep -q 'left out within the hour pod="evil_p_u" events=150' "$W/follower.log"
	grep -qE 'ended .* limited=150 .* left_out_pods=1' "$W/follower.log"

	rm -r "$W/state" "$W/pods" "$W/follower.log"
	for p in q r s; do
		flood worse "$p" "$p" 100
	done
	# The other comes when these have theirs: which of them all a scan finds first is chance,
	# and what is left for these is less when it is the other.
	follow --pod-events 1000 --node-events 200
	wait_for has_stored worse/j 100
	wait_for grep -q 'left out pod="worse_._u" reason=".*--node-events' "$W/follower.log"
	flood good p a 40
	wait_for has_stored good/j 40
	[ "$(stored_of worse/j)" = 100 ]
}

# A line of an event waits on the disk.
waits() { cat "$W"/state/spool*/* 2>/dev/null | grep -q "$1"; } # TEXT

@test "a pod that says much keeps no other's events waiting" {
	DB=sqlite:$W/registry.db
	ADDRESS=$(own_address)
	service
	end_service TERM
	port=${U##*:}
	flood evil p e 6000
	follow
	# All of it is there before the other one speaks.
	wait_for waits 'stage=e6000 '
	cri good_p_u main 'BOOTSEER stage=good ev=mark job=j'
	wait_for waits 'stage=good '
	"$program" --listen "$ADDRESS:$port" --db "$DB" --insecure-no-auth \
		--max-node-events 2000 2>"$W/log.second" 3>&- &
	services+=($!)
	wait_for grep -q ' ready port=' "$W/log.second"
	is_stored() { [ "$(stored_events good/j)" = good ]; }
	wait_for is_stored
	[ "$(stored_of evil/j)" -lt 6000 ]
}

@test "events wait on disk while the service is away, and for another process" {
	DB=sqlite:$W/registry.db
	ADDRESS=$(own_address)
	service
	end_service TERM
	port=${U##*:}
	cri team-a_p_u main 'BOOTSEER stage=a ev=begin job=j'
	follow
	spooled() { compgen -G "$W/state/spool/*" >/dev/null; }
	wait_for spooled
	wait_for grep -q 'action="tried again"' "$W/follower.log"
	kill -KILL "${followers[0]}"
	cri team-a_p_u main 'BOOTSEER stage=a ev=end job=j'
	"$program" --listen "$ADDRESS:$port" --db "$DB" --insecure-no-auth \
		2>"$W/log.second" 3>&- &
	services+=($!)
	wait_for grep -q ' ready port=' "$W/log.second"
	began=$(date +%s%N)
	once
	took=$(($(date +%s%N) - began))
	[ "$(stored_events team-a/j | sort | tr '\n' ' ')" = 'a a ' ]
	run ! spooled
	# Its clocks are the service's: an exchange is with what is sent, and as exact as it
	# is short.
	[ "$(python3 -c 'import sqlite3, sys
d = sqlite3.connect(sys.argv[1])
print(*d.execute("SELECT count(*), max(abs(wall_offset)) <= ? FROM stage_clock",
	(int(sys.argv[2]),)).fetchone())' "${DB#sqlite:}" "$took")" = '1 1' ]
}

@test "files and standard input are followed, also when they are renamed or cut" {
	DB=sqlite:$W/registry.db
	service
	say() { echo "BOOTSEER stage=$1 ev=mark" >>"$W/train.out"; }
	has() { [ "$(stored_events j | wc -l)" = "$1" ]; }
	say a
	follow --job j "$W/train.out"
	wait_for has 1
	mv "$W/train.out" "$W/train.out.1"
	say b
	echo 'BOOTSEER stage=late ev=mark' >>"$W/train.out.1"
	wait_for has 3
	: >"$W/train.out"
	say c
	wait_for has 4
	kill -TERM "${followers[0]}"
	wait "${followers[0]}" || :
	say d
	once --job j "$W/train.out"
	has 5
	printf 'BOOTSEER stage=e ev=mark\nBOOTSEER stage=f ev=mark' |
		once --job j --state "$W/other" -
	[ "$(stored_events j | sort | tr '\n' ' ')" = 'a b c d e f late ' ]
}

@test "this node's own processes are heard, and say which job it is" {
	DB=sqlite:$W/registry.db
	service
	# Its file has no link, and the node is this one whatever is said.
	BOOTSEER_JOB=team/j BOOTSEER_NODE=n9 "$bootseer" stage mark a >"$W/own/ckpt.events"
	BOOTSEER_JOB=team/j "$bootseer" stage mark b >"$W/b"
	ln -s "$W/b" "$W/own/link.events"
	cp "$W/b" "$W/own/no-suffix"
	once
	once
	[ "$(stored_events team/j)" = a ]
	jq -e '[.nodes[].node] == ["n1"]' <(start_of team/j)
}

@test "how long a pod was queued and scheduled is told from its conditions" {
	DB=sqlite:$W/registry.db
	service
	cat >"$W/pods.json" <<-END
	{"kind": "PodList", "items": [{
	  "metadata": {"namespace": "team", "name": "w-0", "uid": "u1",
	    "creationTimestamp": "2026-11-23T10:00:00Z"},
	  "spec": {"nodeName": "n1", "containers": [
	    {"name": "w", "env": [{"name": "BOOTSEER_JOB", "value": "j"}]}]},
	  "status": {"startTime": "2026-11-23T10:01:31Z", "conditions": [
	    {"type": "PodScheduled", "status": "True",
	      "lastTransitionTime": "2026-11-23T10:01:30Z"},
	    {"type": "PodReadyToStartContainers", "status": "True",
	      "lastTransitionTime": "2026-11-23T10:01:40Z"}]}}]}
	END
	# Once, however often it is asked; from a file as from the kubelet.
	once --pod-status "$W/pods.json"
	once --pod-status "$W/pods.json"
	start_of team/j >"$W/start"
	jq -e '[.nodes[0].runs[] | [.stage, .duration_s]] == [["queue", 90], ["schedule", 10]]' \
		"$W/start"
	jq -e '.events == 4' "$W/start"
	sed 's/"value": "j"/"value": "k"/' "$W/pods.json" >"$W/served"
	python3 "$here/serve-pods.py" "$W/served" "$W/served.port" secret &
	followers+=($!)
	wait_for test -s "$W/served.port"
	echo secret >"$W/token"
	once --pod-status "http://127.0.0.1:$(cat "$W/served.port")/pods" \
		--pod-status-token-file "$W/token"
	[ "$(stored_events team/k | sort -u | tr '\n' ' ')" = 'queue schedule ' ]
	# What went wrong is said.
	flags --once --pod-status "http://127.0.0.1:$(cat "$W/served.port")/pods"
	run -1 "$follower" "${flags[@]}"
	[[ $output == *"status 401: the kubelet wants a token"* ]]
	flags --once --pod-status http://192.0.2.1/pods --pod-status-token-file "$W/token"
	run -1 "$follower" "${flags[@]}"
	[[ $output == *"by https:// only"* ]]
	flags --once --pod-status "$W/pods.json" --events ''
	run -2 "$follower" "${flags[@]}"
	[[ $output == *"the folder --events"* ]]
}

@test "the first line of a pattern ends the model's initialisation" {
	DB=sqlite:$W/registry.db
	service
	cri a_p_u main 'starting'
	cri a_p_u main 'BOOTSEER stage=env ev=begin job=j rank=0'
	cri a_p_u main 'BOOTSEER stage=env ev=end job=j rank=0'
	cri a_p_u main 'loading weights'
	cri a_p_u main 'iteration 1 loss 9.2'
	cri a_p_u main 'iteration 2 loss 9.1'
	# One that says it itself is believed.
	cri b_p_u main 'BOOTSEER stage=train ev=mark job=j'
	cri b_p_u main 'iteration 1 loss 9.2'
	once --train-pattern '^\S+ \S+ F iteration [0-9]+ '
	start_of a/j >"$W/a"
	jq -e '.ready and ([.nodes[0].runs[].stage] == ["env", "model"])' "$W/a"
	[ "$(stored_events b/j)" = train ]
	# Once, also after a restart.
	cri a_p_u main 'iteration 3 loss 9.0'
	once --train-pattern '^\S+ \S+ F iteration [0-9]+ '
	[ "$(stored_events a/j | grep -c train)" = 1 ]
	run -1 "$follower" --service "$U" --state "$W/x" --train-pattern '('
	[[ $output == *"--train-pattern '('"* ]]
}
