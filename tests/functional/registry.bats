#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bootseer-registry: the same on SQLite and on a real PostgreSQL.

bats_require_minimum_version 1.5.0
load ../noise.bash

setup_file()
{
	. "$BATS_TEST_DIRNAME/registry.bash"
	pg_of_file
}

teardown_file()
{
	. "$BATS_TEST_DIRNAME/registry.bash"
	pg_end_of_file
}

setup() { . "$BATS_TEST_DIRNAME/registry.bash"; }

teardown()
{
	local p

	for p in "${services[@]}"; do
		kill -KILL "$p" 2>/dev/null || :
	done
	# Whoever still holds a lock, after a failure, waits to be told.
	[ ! -p "${W:-}/release" ] || echo 1<>"$W/release"
	[ -n "${BATS_TEST_COMPLETED:-}" ] || sed 's/^/# /' "$W"/log.* >&3
}

one_recording()
{
	service
	ask "$U/v1/traces/$A?workload=train"
	[ "$code" = 404 ]
	[ "$(header Bootseer-Wanted)" = 1 ]
	jq -e '.error.code == "no_trace"' "$O"

	f=$(recording "$A" train host/app 500 500 x)
	post "$f" n1 "$A" train host/app
	[ "$code" = 202 ]
	jq -e '.status == "stored"' "$O"
	ask "$U/v1/traces/$A?workload=train&repo=host/app"
	[ "$code" = 200 ]
	[ "$(header Bootseer-Match)" = own ]
	[ "$(header Bootseer-Runs)" = 1 ]
	[ "$(header Bootseer-Wanted)" = 1 ]
	[ "$(header Content-Type)" = application/vnd.bootseer.trace.v1 ]
	etag=$(header ETag)
	ask -H "If-None-Match: $etag" "$U/v1/traces/$A?workload=train"
	[ "$code" = 304 ]
	[ ! -s "$O" ]
	ask -I "$U/v1/traces/$A?workload=train"
	[ "$code" = 200 ]
	[ "$(entries "$A" train)" = 500 ]

	ask "$U/v1/traces/$A"
	jq -e '.traces | length == 1 and .[0].runs == 1 and
		.[0].entries == 500 and .[0].ready_ms == 8000 and
		.[0].wanted and .[0].repo == "host/app"' "$O"
	ask "$U/v1/traces?repo=host/app"
	jq -e '.traces | length == 1' "$O"
	ask -X DELETE "$U/v1/traces/$A?workload=other"
	jq -e '.removed == 0' "$O"
	ask -X DELETE "$U/v1/traces/$A"
	jq -e '.removed == 1' "$O"
	ask "$U/v1/traces/$A?workload=train"
	[ "$code" = 404 ]
}

@test "a recording comes back as a hot list, until it is deleted" {
	on_each_db one_recording
}

forgotten()
{
	service
	post "$(recording "$A" train h/app 500 500 x)" n1 "$A" train h/app
	[ "$(entries "$A" train)" = 500 ]
	ask -X DELETE "$U/v1/traces/$A"
	post "$(recording "$B" train h/app 300 300 y)" n1 "$B" train h/app
	[ "$code" = 202 ]
	[ "$(entries "$B" train)" = 300 ]
}

@test "a start never gets the list of one that was forgotten" {
	on_each_db forgotten
}

votes()
{
	service
	for n in 1 2 3 4; do
		f=$(recording "$A" train h/app 300 300 x)
		post "$f" "good$n" "$A" train h/app
	done
	f=$(recording "$A" train h/app 5000 100 evil)
	post "$f" evil "$A" train h/app
	[ "$code" = 202 ]
	# Nothing of the one that differs is in, nothing that it left out is.
	[ "$(entries "$A" train)" = 300 ]
	ask "$U/v1/traces/$A?workload=train"
	[ "$(header Bootseer-Runs)" = 5 ]
	[ -z "$(header Bootseer-Wanted)" ]
	# A second vote of a node takes the place of its first.
	wait_for voted_again
	ask "$U/v1/traces/$A"
	jq -e '.traces[0].runs == 5' "$O"
	[ "$(metric recordings_replaced_total)" = 1 ]
}

voted_again()
{
	post "$f" evil "$A" train h/app
	[ "$code" != 429 ] || { [ "$(header Retry-After)" = 1 ]; return 1; }
	jq -e '.status == "replaced"' "$O"
}

@test "one hostile node decides nothing against four others" {
	on_each_db votes
}

relatives()
{
	service
	post "$(recording "$A" train h/app 50 50 x)" n1 "$A" train h/app
	post "$(recording "$A" eval h/app 40 40 x)" n1 "$A" eval h/app
	while read -r want url; do
		echo "$want $url"
		ask "$U/v1/traces/$url"
		case $want in
		none) [ "$code" = 404 ] ;;
		*) [ "$(header Bootseer-Match)" = "$want" ] ;;
		esac
	done <<-END
		own $A?workload=train
		own $A?workload=train&repo=h/mirror
		relative $B?workload=train&repo=h/app
		workload $A?workload=other
		far $B?workload=other&repo=h/app
		none $B?workload=train
		none $B?workload=train&repo=h/app&exact=1
		none $A?workload=other&repo=h/app&exact=1
	END
	# Who asks for it has what starts of other images read, of nobody's trace.
	ask -H 'Bootseer-Predict: 1' "$U/v1/traces/$B?workload=train&repo=h/new"
	[ "$code/$(header Bootseer-Match)" = 200/predicted ]
	[ "$(header Bootseer-Wanted)" = 1 ]
	[ "$(head -c 8 "$O")" = BSEERPRD ]
	[ "$(metric predictions_told_total)" = 1 ]
	ask -H 'Bootseer-Predict: 1' \
		"$U/v1/traces/$B?workload=train&repo=h/new&exact=1"
	[ "$code" = 404 ]
	# Wanted is what was asked for, not what was found.
	ask "$U/v1/traces/$B?workload=train&repo=h/app"
	[ "$(header Bootseer-Wanted)" = 1 ]
}

@test "the nearest relative is found" {
	on_each_db relatives
}

hostile()
{
	service --trace-max 128K --max-node-hourly 5
	good=$(recording "$A" train h/app 100 100 x)
	post "$good" n1 "$A" train h/app
	head -c 300 "$good" >"$W/cut"
	noise 3000 12 >"$W/noise"
	: >"$W/empty"
	for bad in "$W/cut" "$W/noise" "$W/empty"; do
		post "$bad" n2 "$A" train h/app
		[ "$code" = 400 ]
	done
	post "$good" n2 "$B" train h/app
	[ "$code" = 400 ]
	grep -q "is of image" "$O"
	post "$good" n2 "$A" other h/app
	[ "$code" = 400 ]
	post "$good" n2 "$A" train h/other
	[ "$code" = 400 ]
	head -c 200000 /dev/zero >"$W/large"
	post "$W/large" n2 "$A" train h/app
	[ "$code" = 413 ]
	ask -X POST -T - -H 'Bootseer-Node: n2' "$U/v1/traces/$A?workload=train" \
		<"$good"
	[ "$code" = 411 ]
	# A flood of starts of one node ends; others go on.
	for i in {1..5}; do
		post "$(recording "$A" "w$i" - 10 10 x)" evil "$A" "w$i" h/app
		[ "$code" = 202 ]
	done
	f=$(recording "$A" w6 - 10 10 x)
	post "$f" evil "$A" w6 h/app
	[ "$code" = 429 ]
	[ "$(header Retry-After)" -gt 1 ]
	post "$f" n3 "$A" w6 h/app
	[ "$code" = 202 ]
	[ "$(entries "$A" train)" = 100 ]
	[ "$(metric recordings_too_many_total)" = 1 ]
	[ "$(metric body_bytes)" = 0 ]
}

@test "bad and hostile recordings are refused, the good one stays" {
	on_each_db hostile
}

bounds()
{
	local i

	service --trace-max 64K --max-repo-bytes 256K --max-bytes 1M
	post "$(recording "$A" train h/app 100 100 x)" n1 "$A" train h/app
	[ "$(entries "$A" train)" = 100 ]
	# Each of another node and for another start, about 30 KB.
	for i in {1..30}; do
		post "$(recording "$A" "w$i" - 800 800 x)" "evil$i" "$A" \
			"w$i" h/app
		[ "$code" = 202 ]
	done
	[ "$(metric evicted_total)" -gt 10 ]
	ask "$U/v1/traces?repo=h/app"
	jq -e '[.traces[].bytes] | add <= 262144' "$O"
	[ "$(entries "$A" train)" = 100 ]
}

@test "a repository that is full gives what nobody asked for" {
	on_each_db bounds
}

total_bound()
{
	local i

	service --trace-max 64K --max-repo-bytes 256K --max-bytes 1M
	post "$(recording "$A" train h/good 100 100 x)" n1 "$A" train h/good
	for i in {1..48}; do
		post "$(recording "$A" "w$i" - 800 800 x)" "n$i" "$A" "w$i" \
			"h/evil$((i / 8))"
	done
	wait_for total_is_bounded
	[ "$(entries "$A" train)" = 100 ]
}

total_is_bounded()
{
	local n

	n=$(metric recording_bytes)
	[ "$(metric evicted_total)" -gt 0 ] && ((n > 0 && n <= 1048576))
}

@test "when all is full the largest repository pays" {
	on_each_db total_bound
}

expiry()
{
	service
	post "$(recording "$A" train h/app 10 10 x)" n1 "$A" train h/app
	stop_all
	service --retention 2160h
	[ "$(entries "$A" train)" = 10 ]
	stop_all
	# As if it was asked for half a year ago.
	if [ "$kind" = sqlite ]; then
		python3 -c 'import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as c:
	c.execute("UPDATE start SET used = used - 180 * 86400")' "$W/registry.db"
	else
		pg_do "$db_name" -c 'UPDATE start SET used = used - 180 * 86400'
	fi
	service --retention 2160h
	wait_for expired
	ask "$U/v1/traces/$A?workload=train"
	[ "$code" = 404 ]
}

expired() { [ "$(metric evicted_total)" -eq 1 ]; }

@test "what nobody asks for any more is forgotten" {
	on_each_db expiry
}

# Recordings of many nodes, one after the other, until the service is gone.
flood()
{
	local i=0

	while curl -fsS -m 120 --data-binary "@$1$((i % 7))" \
		-H "Bootseer-Node: $round.$i" -o "$W/x" 2>"$W/flood.err" \
		"$U/v1/traces/$A?workload=w$((i % 7))&repo=h/app"; do
		i=$((i + 1))
		echo "$i" >"$W/flooded"
	done
}

killed()
{
	local round

	for round in 1 2 3; do
		service
		for i in {0..6}; do
			mv "$(recording "$A" "w$i" - 3000 3000 x)" "$W/f$i"
		done
		rm -f "$W/flooded"
		flood "$W/f" &
		flooder=$!
		wait_for test -s "$W/flooded"
		end_service KILL
		wait "$flooder"
	done
	service
	ask "$U/v1/traces/$A"
	# What was answered is there.
	jq -e --argjson n "$(cat "$W/flooded")" '[.traces[].runs] |
		add >= ([$n, 200] | min)' "$O"
	[ "$(entries "$A" w0)" = 3000 ]
	if [ "$kind" = sqlite ]; then
		stop_all
		python3 -c 'import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute("PRAGMA integrity_check").fetchone()[0])' \
			"$W/registry.db" | grep -qx ok
	fi
}

@test "kill -9 in the middle of writing loses nothing that was answered" {
	on_each_db killed
}

# Hold all writers off until a line comes: the process is then in $holder.
hold_lock()
{
	rm -f "$W/held"
	mkfifo "$W/release"
	if [ "$kind" = sqlite ]; then
		python3 -c 'import sqlite3, sys
c = sqlite3.connect(sys.argv[1], isolation_level=None)
c.execute("BEGIN IMMEDIATE")
open(sys.argv[2], "w").close()
open(sys.argv[3]).read()
c.execute("ROLLBACK")' "$W/registry.db" "$W/held" "$W/release" 3>&- &
	else
		pg_do "$db_name" -c 'BEGIN' \
			-c 'LOCK TABLE start IN EXCLUSIVE MODE' \
			-c "\\! touch $W/held; cat $W/release" -c 'ROLLBACK' 3>&- &
	fi
	holder=$!
	wait_for test -e "$W/held"
}

contention()
{
	service --db-timeout 2s
	f=$(recording "$A" train h/app 10 10 x)
	wait_for is_stored n1
	hold_lock
	post "$f" n2 "$A" train h/app
	[ "$code" = 503 ]
	[ "$(header Retry-After)" = 1 ]
	# Readers do not care, however often it takes on a slow machine.
	wait_for has_entries 10
	wait_for is_ready_again
	echo >"$W/release"
	wait "$holder"
	wait_for is_stored n2
}

has_entries() { [ "$(entries "$A" train)" = "$1" ]; } # N

is_stored() { # NODE
	post "$f" "$1" "$A" train h/app
	[ "$code" = 202 ]
}

@test "a lock that others hold is waited for, but not for ever" {
	on_each_db contention
}

@test "two replicas on one PostgreSQL merge the same list" {
	kind=postgresql W=$BATS_TEST_TMPDIR
	pg_do postgres -c 'CREATE DATABASE two'
	DB="postgresql:///two?host=$PG&user=postgres"
	service
	U1=$U pid1=$pid
	service
	U2=$U
	f=$(recording "$A" train h/app 1000 1000 x)
	for i in {1..24}; do
		to=$([ $((i % 2)) = 0 ] && echo "$U1" || echo "$U2")
		curl -fsS -m 120 --data-binary "@$f" -H "Bootseer-Node: n$i" \
			-o "$W/post.$i" "$to/v1/traces/$A?workload=train&repo=h/app" &
		clients+=("$!")
		curl -sS -m 120 -o "$W/get.$i" "$to/v1/traces/$A?workload=train" &
		clients+=("$!")
	done
	wait_all "${clients[@]}"
	wait_for same_list
	U=$U1
	[ "$(entries "$A" train)" = 1000 ]
	# One goes, the other has everything.
	kill -KILL "$pid1"
	U=$U2
	[ "$(entries "$A" train)" = 1000 ]
}

same_list()
{
	ask "$U1/v1/traces/$A?workload=train"
	local one runs

	one=$(header ETag) runs=$(header Bootseer-Runs)
	ask "$U2/v1/traces/$A?workload=train"
	[ "$runs" = 24 ] && [ "$one" = "$(header ETag)" ]
}

@test "PostgreSQL may be restarted underneath, or fall silent" {
	kind=postgresql W=$BATS_TEST_TMPDIR
	PG_FILE=$PG
	pg_init "$PGTMP/again"
	DB="postgresql:///postgres?host=$PG&user=postgres"
	service --db-timeout 2s
	f=$(recording "$A" train h/app 100 100 x)
	wait_for is_stored n1
	pg_stop
	ask "$U/readyz"
	[ "$code" = 503 ]
	# Anybody may ask; where the database is, and as whom it is used, is in the log.
	grep -q "log says why" "$O"
	run -1 grep -q "$PG" "$O"
	grep -q "ready failed .*$PG" "$LOG"
	ask "$U/healthz"
	[ "$code" = 200 ]
	post "$f" n2 "$A" train h/app
	[ "$code" = 503 ]
	pg_start
	wait_for is_ready_again
	wait_for is_stored n2
	wait_for has_entries 100
	# One that is there but silent costs a deadline, not the service.
	signal_postgresql STOP
	ask "$U/readyz"
	[ "$code" = 503 ]
	post "$f" n3 "$A" train h/app
	[ "$code" = 503 ]
	ask "$U/healthz"
	[ "$code" = 200 ]
	signal_postgresql CONT
	wait_for is_ready_again
	wait_for is_stored n3
	# One that only reads, as a standby does, is away until it writes again.
	pg_do postgres -c 'ALTER DATABASE postgres SET default_transaction_read_only = on' \
		-c "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
	post "$f" n4 "$A" train h/app
	[ "$code" = 503 ]
	pg_do postgres -c 'SET default_transaction_read_only = off' \
		-c 'ALTER DATABASE postgres RESET default_transaction_read_only'
	wait_for is_stored n4
	stop_all
	pg_stop
	PG=$PG_FILE
}

# The server's main process and all that serve its clients.  It stops first and
# goes on last: meanwhile it reaps none of them, so each can be signalled.
signal_postgresql() { # STOP|CONT
	local main

	main=$(head -n 1 "$PG/data/postmaster.pid")
	[ "$1" = CONT ] || kill "-$1" "$main"
	pgrep -P "$main" | xargs -r kill "-$1"
	[ "$1" = STOP ] || kill "-$1" "$main"
}

is_ready_again()
{
	ask "$U/readyz"
	[ "$code" = 200 ]
}

@test "tokens bound what is seen and changed, and are read again" {
	kind=sqlite W=$BATS_TEST_TMPDIR DB=sqlite:$BATS_TEST_TMPDIR/registry.db
	line() { echo "$1 sha256:$(printf %s "$2" | sha256sum | cut -c1-64) ${*:3}"; }
	{ line all root-token read,write,admin
	  line reader read-token read
	  line team team-token read,write repo=h/team node=*
	  line one node-token write node=n1; } >"$W/tokens"
	service --tokens "$W/tokens"
	f=$(recording "$A" train - 10 10 x)
	as() { TOKEN=$1; shift; post "$f" "$@"; }
	as '' n1 "$A" train h/app
	[ "$code" = 401 ]
	[ "$(header WWW-Authenticate)" = Bearer ]
	as wrong n1 "$A" train h/app
	[ "$code" = 401 ]
	as read-token n1 "$A" train h/app
	[ "$code" = 403 ]
	grep -q 'has not the role for this: write' "$O"
	as team-token n1 "$A" train h/app
	[ "$code" = 403 ]
	as team-token n1 "$A" train h/team/app
	[ "$code" = 202 ]
	as node-token n2 "$A" train h/app
	[ "$code" = 403 ]
	as node-token n1 "$A" train h/app
	[ "$code" = 202 ]
	ask -H 'Authorization: Bearer team-token' "$U/v1/traces/$A"
	jq -e '.traces | length == 1 and .[0].repo == "h/team/app"' "$O"
	ask -H 'Authorization: Bearer root-token' "$U/v1/traces/$A"
	jq -e '.traces | length == 2' "$O"
	ask -H 'Authorization: Bearer team-token' "$U/v1/traces?repo=h/app"
	[ "$code" = 403 ]
	ask -X DELETE -H 'Authorization: Bearer team-token' "$U/v1/traces/$A"
	[ "$code" = 403 ]
	ask "$U/healthz"
	[ "$code" = 200 ]
	# A file that is wrong changes nothing; a right one does.
	echo nonsense >>"$W/tokens"
	kill -HUP "$pid"
	wait_for grep -q 'reload failed' "$LOG"
	ask -H 'Authorization: Bearer read-token' "$U/metrics"
	[ "$code" = 200 ]
	line new new-token read >"$W/tokens"
	kill -HUP "$pid"
	wait_for grep -q 'reloaded what' "$LOG"
	ask -H 'Authorization: Bearer read-token' "$U/metrics"
	[ "$code" = 401 ]
	ask -H 'Authorization: Bearer new-token' "$U/metrics"
	[ "$code" = 200 ]
	# Who was refused is told, and not what he showed.
	grep -q '^warning service: refused from=127.0.0.1 call="POST /v1/traces/{digest}" status=401 reason="a valid token is needed: none came"$' "$LOG"
	grep -q 'call="POST .* status=401 .*this one is not known' "$LOG"
	grep -q "call=\"POST .* status=403 .*token 'reader' has not the role" "$LOG"
	grep -q "status=403 .*token 'team' is for h/team only, repo 'h/app'" "$LOG"
	ask -H 'Authorization: Bearer new-token' "$U/metrics"
	grep -qx 'bootseer_registry_denied_total 8' "$O"
	run ! grep 'token-\|-token' "$LOG"
}

# The code for TOKEN of a recording that is of REPO.
sends() # TOKEN REPO NODE
{
	TOKEN=$1 post "$(recording "$A" environment "$2" 10 10 x)" "$3" "$A" \
		environment "$2"
	echo "$code"
}
sees() # TOKEN PATH
{
	ask -H "Authorization: Bearer $1" "$U/v1/$2"
	echo "$code"
}

stores()
{
	line() { echo "$1 sha256:$(printf %s "$2" | sha256sum | cut -c1-64) ${*:3}"; }
	{ line all root-token read,write,admin node=*
	  line in in-token read,write node=* stores=s3://bkt/x,s3://bkt/env
	  line look look-token read stores=s3://bkt/env
	  line named named-token read,write node=* repo=s3://bkt/env
	  line team team-token read,write node=* repo=h/team; } >"$W/tokens"
	service --tokens "$W/tokens"
	H=$W/headers O=$W/body
	[ "$(sends root-token s3://bkt/env n1)" = 403 ]
	[ "$(sends look-token s3://bkt/env n1)" = 403 ]
	[ "$(sends named-token s3://bkt/env n1)" = 403 ]
	[ "$(sends in-token s3://bkt n1)" = 403 ]
	[ "$(sends in-token s3://bkt/env/x n1)" = 403 ]
	[ "$(sends in-token s3://bkt/env n1)" = 202 ]
	[ "$(sends team-token docker://h/env n1)" = 403 ]
	[ "$(sends team-token docker://h/team/env n1)" = 202 ]
	own="traces/$A?workload=environment&repo="
	for t in in look; do
		[ "$(sees $t-token "${own}s3://bkt/env")" = 200 ]
		[ "$(header Bootseer-Match)" = own ]
		[ "$(sees $t-token "traces/$A?repo=s3://bkt/env")" = 200 ]
		jq -e '.traces | length == 1' "$O"
	done
	for t in root named team; do
		[ "$(sees $t-token "${own}s3://bkt/env")" = 403 ]
		[ "$(sees $t-token "traces?repo=s3://bkt/env")" = 403 ]
		[ "$(sees $t-token "traces/$A")" = 200 ]
		jq -e '.traces == []' "$O"
		[ "$(sees $t-token "traces/$A?workload=environment")" = 404 ]
	done
	[ "$(sees in-token "${own}s3://bkt/x")" = 404 ]
	[ "$(sees team-token "${own}docker://h/team/env")" = 200 ]
	[ "$(sees root-token "${own}docker://h/team/env")" = 200 ]
	[ "$(sees team-token "${own}docker://h/env")" = 403 ]
	# An image of that repository is another thing.
	[ "$(sees team-token "${own}h/team/env")" = 404 ]
}

@test "a service that asks nobody for a token serves no page from elsewhere" {
	local send=(-X POST -H 'Bootseer-Node: n1' --data-binary '')

	kind=sqlite W=$BATS_TEST_TMPDIR DB=sqlite:$BATS_TEST_TMPDIR/registry.db
	service --insecure-no-auth
	ask "${send[@]}" -H 'Origin: http://evil.example' "$U/v1/events"
	[ "$code" = 403 ]
	grep -q 'another origin' "$O"
	ask "${send[@]}" -H 'Origin: null' "$U/v1/events"
	[ "$code" = 403 ]
	ask "${send[@]}" -H "Origin: $U" -H 'Content-Type: text/plain' "$U/v1/events"
	[ "$code" = 200 ]
	# A name that was made to lead here has the page's own origin.
	ask -H 'Host: evil.example' -H 'Origin: http://evil.example' "$U/v1/starts"
	[ "$code" = 403 ]
	ask -H "Host: evil.example:${U##*:}" "$U/metrics"
	[ "$code" = 403 ]
	ask -H 'Host: [::1].evil.example' "$U/v1/starts"
	[ "$code" = 403 ]
	for host in localhost "localhost:${U##*:}" a.localhost '[::1]' 127.0.0.1; do
		ask -H "Host: $host" "$U/v1/starts"
		[ "$code" = 200 ]
	done
	end_service TERM
	# Beyond loopback it has other names, which it is told, and says that it trusts everybody.
	ADDRESS=0.0.0.0
	service --insecure-no-auth
	grep -q 'whoever reaches it may do everything' "$LOG"
	U=${U/0.0.0.0/127.0.0.1}
	ask -H 'Host: registry.example' "$U/v1/starts"
	[ "$code" = 403 ]
	grep -q -- --host "$O"
	end_service TERM
	service --insecure-no-auth --host registry.example
	U=${U/0.0.0.0/127.0.0.1}
	for host in registry.example "Registry.Example:${U##*:}" 127.0.0.1; do
		ask -H "Host: $host" "$U/v1/starts"
		[ "$code" = 200 ]
	done
	for host in a.registry.example registry.example.evil registry.exampl; do
		ask -H "Host: $host" "$U/v1/starts"
		[ "$code" = 403 ]
	done
	ask "${send[@]}" -H 'Origin: http://evil.example' "$U/v1/events"
	[ "$code" = 403 ]
	run -0 "$program" --help
	[[ $output == *insecure-no-auth*is\ needed.* ]]
}

@test "a token of a repository has no figures of all of them" {
	kind=sqlite W=$BATS_TEST_TMPDIR DB=sqlite:$BATS_TEST_TMPDIR/registry.db
	{
		printf 'team sha256:%s read repo=h/team\n' "$(printf t | sha256sum | cut -c1-64)"
		printf 'all sha256:%s read\n' "$(printf a | sha256sum | cut -c1-64)"
	} >"$W/tokens"
	AUTH=
	service --tokens "$W/tokens"
	ask -H 'Authorization: Bearer t' "$U/metrics"
	[ "$code" = 403 ]
	run ! grep -q bootseer_ "$O"
	ask -H 'Authorization: Bearer a' "$U/metrics"
	[ "$code" = 200 ]
}

@test "traces of a store are for who may read it" {
	on_each_db stores
}

preheats()
{
	service
	order='{"what":"all","nodes":["n1","n2"],"ref":"h/app:1"}'
	ask -d "$order" "$U/v1/preheats"
	[ "$code" = 202 ]
	id=$(jq .id "$O")
	ask -d '{"what":"hot","nodes":"all","ref":"h/app@'"$A"'"}' "$U/v1/preheats"
	[ "$code" = 202 ]
	ask "$U/v1/preheats?node=n1"
	[ "$(jq -c '[.preheats[].what]' "$O")" = '["all","hot"]' ]
	ask "$U/v1/preheats?node=n9"
	[ "$(jq -c '[.preheats[].what]' "$O")" = '["hot"]' ]
	for state in running done; do
		ask -d '{"node":"n1","state":"'$state'","have_bytes":3,"all_bytes":4}' \
			"$U/v1/preheats/$id"
		[ "$code" = 200 ]
	done
	ask "$U/v1/preheats?node=n1"
	[ "$(jq -c '[.preheats[].what]' "$O")" = '["hot"]' ]
	ask "$U/v1/preheats/$id"
	[ "$(jq -c '[.all_nodes, (.nodes[] | .node, .state, .have_bytes)]' "$O")" = \
		'[false,"n1","done",3,"n2","waiting",0]' ]
	ask -d '{"node":"n9","state":"done"}' "$U/v1/preheats/$id"
	[ "$code" = 404 ]
	ask -d '{"node":"n9","state":"done"}' "$U/v1/preheats/$((id + 1))"
	[ "$code" = 200 ]
}

@test "orders to fetch an image reach their nodes until they are over" {
	on_each_db preheats
}

take_key() # TOKEN STORE NUMBER
{
	ask -X POST -H "Authorization: Bearer $1" -H 'Content-Type: application/json' \
		-d '{"by": "n1", "ttl_ms": 15000}' \
		"$U/v1/env/sha256:$(printf '%064x' "$3")/lease?repo=$2"
}

keys_are_shared_out()
{
	local now name

	for name in greedy other; do
		printf '%s sha256:%s read,write\n' "$name" \
			"$(printf %s "$name" | sha256sum | cut -d' ' -f1)"
	done >"$W/tokens"
	AUTH="--tokens $W/tokens"
	service
	take_key greedy h/gone 1
	[ "$code" = 200 ]
	end_service TERM
	now=$(date +%s)000
	in_db "UPDATE env_key SET touched_ms = 1, until_ms = 1"
	in_db "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 49999)
		INSERT INTO env_key (repo, env, generation, holder, owner, first_owner, ttl_ms,
			until_ms, failures, touched_ms)
		SELECT 'h/' || (i / 9000), 'key ' || i, 1, 'n1', 'greedy', 'greedy', 1, 0, 0, $now FROM n"
	service
	# The one that is swept has all counted.
	wait_for is_logged 'sweep forgot keys of environments=1'
	take_key greedy h/new 1
	[ "$code" = 429 ]
	jq -e '.error.message | contains("50000 environments of this token")' "$O"
	take_key other h/new 1
	[ "$code" = 200 ]
	jq -e '.state == "yours"' "$O"
	# What is known is no new one, and is room of whoever was the first to name it.
	take_key greedy h/new 1
	[ "$code" = 200 ]
	jq -e '.state == "held"' "$O"
	take_key other h/new 2
	jq -e '.state == "yours"' "$O"
}

is_logged() { grep -qF "$1" "$LOG"; }

@test "a token that names all keys of environments leaves room for others" {
	on_each_db keys_are_shared_out
}

@test "TLS: a client that trusts the authority is served, another is not" {
	kind=sqlite W=$BATS_TEST_TMPDIR DB=sqlite:$BATS_TEST_TMPDIR/registry.db
	openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority \
		-keyout "$W/ca.key" -out "$W/ca.pem" 2>/dev/null
	openssl req -newkey rsa:2048 -nodes -subj /CN=service \
		-keyout "$W/key.pem" -out "$W/csr.pem" 2>/dev/null
	openssl x509 -req -in "$W/csr.pem" -CA "$W/ca.pem" -CAkey "$W/ca.key" \
		-days 2 -extfile <(echo subjectAltName=IP:127.0.0.1) \
		-out "$W/cert.pem" 2>/dev/null
	service --tls-cert "$W/cert.pem" --tls-key "$W/key.pem"
	U=https${U#http}
	run ! grep chmod "$LOG"
	f=$(recording "$A" train h/app 3000 3000 x)
	ask --cacert "$W/ca.pem" --data-binary "@$f" -H 'Bootseer-Node: n1' \
		"$U/v1/traces/$A?workload=train&repo=h/app"
	[ "$code" = 202 ]
	ask --cacert "$W/ca.pem" -H 'Accept: application/json' \
		"$U/v1/traces/$A?workload=train"
	[ "$(jq '.entries | length' "$O")" = 3000 ]
	run curl -sS -m 120 "$U/healthz"
	[ "$status" -eq 60 ]
	run curl -sS -m 120 --cacert "$W/ca.pem" --tls-max 1.1 "$U/healthz"
	[ "$status" -ne 0 ]
	run curl -sS -m 120 "http${U#https}/healthz"
	[ "$status" -ne 0 ]
	# The command line names the keys that are of the trace service.
	run -1 "$BOOTSEER_BUILD/cli/bootseer" trace ls --service "$U" \
		"docker://h/app@$A"
	[[ $output == *'--ca-file, or service-ca-file in bootseerd.conf' ]]
	run -1 "$BOOTSEER_BUILD/cli/bootseer" trace ls \
		--service "http${U#https}" "docker://h/app@$A"
	[[ $output == *'give its URL as https://' ]]
	# A key that others may read is used, and named.
	chmod 644 "$W/key.pem"
	kill -HUP "$pid"
	wait_for grep -q "^warning service: the key .*mode 0644: chmod 600 $W/key.pem" \
		"$LOG"
	ask --cacert "$W/ca.pem" "$U/metrics"
	[ "$(sed -n 's/^bootseer_registry_tls_failures_total //p' "$O")" -ge 1 ]
	end=$(openssl x509 -in "$W/cert.pem" -noout -enddate)
	[ "$(sed -n 's/^bootseer_registry_tls_certificate_not_after_seconds //p' \
		"$O")" = "$(date -d "${end#*=}" +%s)" ]
}

@test "TLS: certificate and key that are no pair, or over, are told of" {
	kind=sqlite W=$BATS_TEST_TMPDIR DB=sqlite:$BATS_TEST_TMPDIR/registry.db
	openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=service \
		-keyout "$W/key.pem" -out "$W/cert.pem" 2>/dev/null
	openssl genpkey -algorithm ed25519 -out "$W/other.pem"
	openssl genrsa -out "$W/same.pem" 2048 2>/dev/null
	for key in other same; do
		run -2 "$program" --tls-cert "$W/cert.pem" \
			--tls-key "$W/$key.pem" --check-config
		[[ $output == *"$W/$key.pem"*'does not belong'*"$W/cert.pem"* ]]
	done
	run -2 "$program" --tls-cert "$W/cert.pem" --tls-key "$W/cert.pem" \
		--check-config
	[[ $output == *"--tls-key '$W/cert.pem': there is no PRIVATE KEY in it"* ]]
	"$program" --tls-cert "$W/cert.pem" --tls-key "$W/key.pem" --check-config
	service --tls-cert "$W/cert.pem" --tls-key "$W/key.pem"
	run ! grep expired "$LOG"
	openssl x509 -in "$W/cert.pem" -signkey "$W/key.pem" -days -1 \
		-out "$W/over.pem" 2>/dev/null
	mv "$W/over.pem" "$W/cert.pem"
	run -2 "$program" --tls-cert "$W/cert.pem" --tls-key "$W/key.pem" \
		--check-config
	[[ $output == *"$W/cert.pem"*expired*renew* ]]
	# It runs: its clients may have another clock.
	kill -HUP "$pid"
	wait_for grep -q "^warning service: clients will not .*$W/cert.pem.*expired" \
		"$LOG"
}

@test "a reload that is asked for while the service starts is done when it runs" {
	W=$BATS_TEST_TMPDIR LOG=$BATS_TEST_TMPDIR/log.start
	mkfifo "$W/config"
	: >"$LOG"
	"$program" --config "$W/config" --listen 127.0.0.1:0 --db "sqlite:$W/registry.db" $AUTH \
		2>"$LOG" 3>&- &
	pid=$!
	services+=("$pid")
	exec 9>"$W/config"
	kill -HUP "$pid"
	exec 9>&-
	wait_for is_ready
	U=http://127.0.0.1:$(sed -n 's/.* ready port=\([0-9]*\).*/\1/p' "$LOG")
	wait_for has_reloaded
}

has_reloaded() { [ "$(metric reloads_total)" = 1 ]; }

@test "slow, silent and too many clients hold no place for ever" {
	kind=sqlite W=$BATS_TEST_TMPDIR DB=sqlite:$BATS_TEST_TMPDIR/registry.db
	service --max-connections 16 --request-timeout 1s --idle-timeout 1s \
		--body-memory 1M --trace-max 1M --max-repo-bytes 4M
	python3 "$BATS_TEST_DIRNAME/http-limits.py" "${U##*:}"
	[ "$(metric body_bytes)" = 0 ]
	[ "$(metric connections)" -le 16 ]
}

@test "SIGTERM answers what is under way" {
	kind=sqlite W=$BATS_TEST_TMPDIR DB=sqlite:$BATS_TEST_TMPDIR/registry.db
	service --db-timeout 1m
	f=$(recording "$A" train h/app 10 10 x)
	hold_lock
	curl -sS -m 120 --data-binary "@$f" -H "Bootseer-Node: n1" -o "$W/late" \
		"$U/v1/traces/$A?workload=train&repo=h/app" 3>&- &
	client=$!
	wait_for request_is_in
	kill "$pid"
	wait_for grep -q 'ending' "$LOG"
	echo >"$W/release"
	wait "$holder"
	wait "$client"
	jq -e '.status == "stored"' "$W/late"
	wait "$pid"
	services=()
}

# Questions for its figures have no body.
request_is_in() { [ "$(metric body_bytes)" -gt 0 ]; }

@test "bootseer trace keeps traces here" {
	kind=sqlite W=$BATS_TEST_TMPDIR DB=sqlite:$BATS_TEST_TMPDIR/registry.db
	mkdir "$W/top"
	echo text >"$W/top/file"
	umoci init --layout "$W/image"
	umoci new --image "$W/image:v1"
	umoci insert --image "$W/image:v1" "$W/top" /top
	image=$(jq -r '.manifests[0].digest' "$W/image/index.json")
	printf secret >"$W/token"
	echo "all sha256:$(printf secret | sha256sum | cut -c1-64)" \
		'read,write,admin node=*' >"$W/tokens"
	service --tokens "$W/tokens"
	trace() {
		"$BOOTSEER_BUILD/cli/bootseer" trace "$1" --service "$U" \
			--token-file "$W/token" "oci:$W/image:v1" "${@:2}"
	}
	trace push "$(recording "$image" train - 50 50 x)"
	trace ls | grep -q '^train  *1 '
	trace pull --workload train >"$W/pulled"
	head -c 8 "$W/pulled" | grep -q BSEERTRC
	trace rm --workload train
	run ! trace pull --workload train
}

@test "the service is what its OpenAPI description says" {
	kind=sqlite W=$BATS_TEST_TMPDIR DB=sqlite:$BATS_TEST_TMPDIR/registry.db
	echo "all sha256:$(printf t | sha256sum | cut -c1-64) read,write,admin,notify,convert node=*" \
		>"$W/tokens"
	service --tokens "$W/tokens"
	python3 "$BATS_TEST_DIRNAME/openapi-check.py" "$U" t
	# The document lists the same operations.
	curl -fsS "$U/v1/openapi.json" | jq -r '.paths | keys[]' |
		while read -r path; do
			path=${path/\{digest\}/DIGEST}
			path=${path/\{key\}/KEY}
			path=${path/\{node\}/NODE}
			path=${path/\{part\}/N}
			grep -qF "${path/\{id\}/ID}" \
				"$BATS_TEST_DIRNAME/../../docs/formats/registry-api.md"
		done
}

@test "settings that are not safe or cannot work are refused" {
	W=$BATS_TEST_TMPDIR
	run -2 "$program" --listen 0.0.0.0:0
	[[ $output == *--tokens* ]]
	run -2 "$program" --tls-cert x
	run -2 "$program" --body-memory 1M --trace-max 4M
	run -2 "$program" --db mysql://x --check-config
	[[ $output == *postgresql* ]]
	for at in nowhere 127.0.0.1:97x0 127.0.0.1: :9730; do
		run -2 "$program" --listen "$at" --check-config
		[[ $output == *"$at"*ADDR:PORT* ]]
	done
	run -2 "$program" --registry https://reg.example --check-config
	[[ $output == *https://reg.example*'HOST[:PORT]'* ]]
	run -2 "$program" --tokens "$W/none" --check-config
	[[ $output == *"tokens file '$W/none' is not there: "* ]]
	run -2 "$program" --tls-cert "$W/none" --tls-key x --check-config
	[[ $output == *"$W/none"*'No such file'* ]]
	"$program" --config "$BATS_TEST_DIRNAME/../../deploy/registry.conf" \
		--check-config
	"$program" --list-metrics | grep -q bootseer_registry_merges_total
}

@test "tokens without TLS are for this machine, unless TLS is in front of it" {
	W=$BATS_TEST_TMPDIR
	echo "n1 read,write $(printf t | sha256sum | cut -d' ' -f1)" >"$W/tokens"
	for at in 0.0.0.0:0 192.0.2.1:9730 '[::]:0'; do
		run -2 timeout 120 "$program" --listen "$at" --tokens "$W/tokens" \
			--db "sqlite:$W/db" --check-config
		[[ $output == *"$at"*"in the clear"*--tls-cert*--behind-tls-proxy* ]]
		run -2 timeout 120 "$program" --listen "$at" --tokens "$W/tokens" \
			--db "sqlite:$W/db"
		[[ $output == *"in the clear"* ]]
		run -2 timeout 120 "$program" --listen "$at" --insecure-no-auth \
			--capability-key "$W/key" --registry r.example \
			--db "sqlite:$W/db" --check-config
		[[ $output == *capabilities*"in the clear"* ]]
	done
	for at in 127.0.0.1:0 '[::1]:0'; do
		run timeout 120 "$program" --listen "$at" --tokens "$W/tokens" \
			--db "sqlite:$W/db" --check-config
		[[ $output != *"in the clear"* ]]
	done
	run timeout 120 "$program" --listen 0.0.0.0:0 --tokens "$W/tokens" \
		--db "sqlite:$W/db" --behind-tls-proxy --check-config
	[[ $output != *"in the clear"* ]]
}

@test "what the database has is not for other users, whatever its folder" {
	W=$BATS_TEST_TMPDIR
	services=()
	mkdir -m 755 "$W/open"
	DB=sqlite:$W/open/registry.db
	(umask 022 && service && stop_all)
	[ "$(find "$W/open" -type f -perm /077)" = "" ]
	[ -s "$W/open/registry.db" ]
}

@test "on a full disk the service is not ready, and is again when there is room" {
	[ "$(id -u)" = 0 ] || skip "needs root to mount"
	W=$BATS_TEST_TMPDIR
	services=()
	mkdir "$W/small"
	mount -t tmpfs -o size=40M none "$W/small"
	DB=sqlite:$W/small/registry.db
	service
	ask "$U/readyz"
	[ "$code" = 200 ]
	fallocate -l 30M "$W/small/full"
	ask "$U/readyz"
	[ "$code" = 503 ]
	grep -q "disk of the database is full" "$O"
	ask "$U/healthz"
	[ "$code" = 200 ]
	rm "$W/small/full"
	ask "$U/readyz"
	[ "$code" = 200 ]
	stop_all
	umount "$W/small"
}

@test "a registry that is slow to say who may pull keeps no other call waiting" {
	local at

	W=$BATS_TEST_TMPDIR
	DB=sqlite:$W/registry.db
	"$BATS_TEST_DIRNAME/asking-registry.py" "$W/port" "$W/url" 3>&- &
	services+=("$!")
	wait_for test -e "$W/port"
	at=127.0.0.1:$(cat "$W/port")
	openssl genpkey -algorithm ed25519 -out "$W/key"
	chmod 600 "$W/key"
	service --threads 1 --capability-key "$W/key" --registry "$at" \
		--registry-plain-http
	# It answers only when the service has answered it meanwhile.
	echo -n "$U/v1/trust/revoked" >"$W/url"
	ask -d "{\"image\":\"$A\",\"repo\":\"$at/app\",\"node\":\"n1\"}" \
		"$U/v1/capabilities"
	cat "$O"
	[ "$code" = 200 ]
}

newer()
{
	service
	stop_all
	if [ "$kind" = sqlite ]; then
		python3 -c 'import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as c:
	c.execute("UPDATE schema_version SET version = 99")' "$W/registry.db"
	else
		pg_do "$db_name" -c 'UPDATE schema_version SET version = 99'
	fi
	run -1 "$program" --listen 127.0.0.1:0 --db "$DB"
	[[ $output == *'version 99'* ]]
}

@test "a database of a newer version is left alone" {
	on_each_db newer
}

# PostgreSQL's own bound of a statement would end it.
@test "tables are made by a database that takes longer for one than a statement may" {
	kind=postgresql W=$BATS_TEST_TMPDIR db_name=t$BATS_TEST_NUMBER
	pg_do postgres -c "CREATE DATABASE $db_name"
	DB="postgresql:///$db_name?host=$PG&user=postgres"
	in_db "CREATE FUNCTION slow() RETURNS event_trigger LANGUAGE plpgsql AS
		'BEGIN PERFORM pg_sleep(4) FROM pg_event_trigger_ddl_commands()
			WHERE object_identity = ''public.node_doctor''; END'"
	in_db "CREATE EVENT TRIGGER slow ON ddl_command_end WHEN TAG IN ('CREATE TABLE')
		EXECUTE FUNCTION slow()"
	service --db-timeout 2s
	[ "$(pg_do "$db_name" -c 'SELECT count(*) FROM node_doctor')" = 0 ]
}

both_units() {
	INDEX_DB_URL=$DB "$BOOTSEER_BUILD/tests/unit/registry/test_registry_index_db" --tap
	CONVERSION_DB_URL=$DB "$BOOTSEER_BUILD/tests/unit/registry/test_registry_conversion_db" --tap
}

@test "indexes that nodes offer and conversions are kept the same way by both databases" {
	on_each_db both_units
}
