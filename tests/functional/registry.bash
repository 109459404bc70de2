# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# bootseer-registry on both of its databases: a private PostgreSQL for the file,
# a database of its own for each test and kind.

. "$(dirname "${BASH_SOURCE[0]}")/../wait.bash"

program=${BOOTSEER_BUILD:?}/registry/bootseer-registry
test_clock=$BOOTSEER_BUILD/tests/fakes/test-clock.so
trace_make=$BOOTSEER_BUILD/tests/functional/trace-make
A=sha256:$(printf 'a%.0s' {1..64})
B=sha256:$(printf 'b%.0s' {1..64})

# --- PostgreSQL ---------------------------------------------------------------

pg_bin=$(printf '%s\n' /usr/lib/postgresql/*/bin | tail -n 1)

# It refuses to run as root.
as_postgres() { setpriv --reuid postgres --regid postgres --init-groups "$@"; }

pg_init() { # DIR
	PG=$1
	export PG
	mkdir -p "$PG"
	chown postgres "$PG"
	(cd / && as_postgres "$pg_bin/initdb" -D "$PG/data" -A trust -U postgres \
		--no-sync >"$PG.log" 2>&1)
	pg_start
}

# One for all tests of a file, in $PGTMP; for its setup_file and teardown_file.
pg_of_file() {
	PGTMP=$(mktemp -d /tmp/registry.XXXXXX)
	export PGTMP
	chmod 755 "$PGTMP"
	pg_init "$PGTMP/pg"
}

pg_end_of_file() {
	pg_stop
	rm -rf "$PGTMP"
}

pg_is_up() { psql -qh "$PG" -U postgres -c 'SELECT 1' >/dev/null 2>&1; }

pg_start() {
	(cd / && exec setsid setpriv --reuid postgres --regid postgres --init-groups \
		"$pg_bin/postgres" -D "$PG/data" -k "$PG" -c listen_addresses= \
		-c fsync=off >>"$PG.log" 2>&1 3>&-) &
	wait_for pg_is_up
}

pg_stop() {
	local pid

	pid=$(head -n 1 "$PG/data/postmaster.pid")
	kill -INT "$pid"
	wait_for test ! -e "$PG/data/postmaster.pid"
}

pg_do() { psql -qtAh "$PG" -U postgres -v ON_ERROR_STOP=1 "$@"; } # DB -c SQL

# --- the service --------------------------------------------------------------

services=()
# Without --tokens the tests may do everything, unless one says otherwise.
AUTH=--insecure-no-auth

# Each of the words with a fresh database of either kind in $DB.
on_each_db() { # COMMAND...
	for kind in sqlite postgresql; do
		echo "== $kind"
		W=$BATS_TEST_TMPDIR/$kind
		mkdir -p "$W"
		if [ "$kind" = sqlite ]; then
			DB=sqlite:$W/registry.db
		else
			db_name=t$BATS_TEST_NUMBER
			pg_do postgres -c "CREATE DATABASE $db_name"
			DB="postgresql:///$db_name?host=$PG&user=postgres"
		fi
		"$@"
		stop_all
	done
}

# In the database that on_each_db made.
in_db() # SQL
{
	if [ "$kind" = sqlite ]; then
		python3 -c 'import sqlite3, sys
d = sqlite3.connect(sys.argv[1])
d.execute("PRAGMA foreign_keys = ON")
d.execute(sys.argv[2])
d.commit()' "${DB#sqlite:}" "$1"
	else
		pg_do "$db_name" -c "$1"
	fi
}

# Its base address is then in $U and its process in $pid; $ADDRESS is one of this machine.
# Its database has as long as a busy machine takes, unless an option says otherwise.
ADDRESS=127.0.0.1
service() { # OPTION...
	local log

	log=$(mktemp "$W/log.XXXXXX")
	# shellcheck disable=SC2086 # words
	env ${TEST_CLOCK:+"LD_PRELOAD=$test_clock" "TEST_CLOCK=$TEST_CLOCK"} \
		"$program" --listen "$ADDRESS:0" --db "$DB" --db-timeout 1m $AUTH "$@" \
		2>"$log" 3>&- &
	pid=$!
	services+=("$pid")
	LOG=$log
	wait_for is_ready
	U=http://$ADDRESS:$(sed -n 's/.* ready port=\([0-9]*\).*/\1/p' "$log")
}

is_ready() {
	grep -q ' ready port=' "$LOG" && return
	kill -0 "$pid" && return 1
	cat "$LOG"
	exit 1
}

stop_all() {
	local p

	for p in "${services[@]}"; do
		kill "$p" 2>/dev/null || continue
		wait "$p"
	done
	services=()
}

end_service() { # SIGNAL
	kill "-$1" "$pid"
	wait "$pid" || [ "$1" = KILL ]
	services=()
}

# The clock of services that are started from now on stands still, so that nothing
# expires because the machine is slow, and what is to expire does so at once:
# tests/fakes/clock.c.
clock_hold() {
	TEST_CLOCK=$W/clock clock_ms=0
	clock_step 0
}

clock_step() { # MILLISECONDS
	clock_ms=$((clock_ms + $1))
	looks=0 # of wait_for
	echo "${clock_ms}000000" >"$TEST_CLOCK.new"
	mv "$TEST_CLOCK.new" "$TEST_CLOCK"
}

# --- requests -----------------------------------------------------------------

# Status in $code, headers in $H, body in $O.
ask() { # CURL-OPTION... URL
	H=$W/headers O=$W/body
	: >"$O"
	code=$(curl -sS -m 120 -D "$H" -o "$O" -w '%{http_code}' "$@")
}

header() { sed -n "s/^$1: \(.*\)\r\$/\1/Ip" "$H"; } # NAME

# recording IMAGE WORKLOAD REPO ENTRIES COMMON SEED: a file's name
recording() {
	local f=$W/trace.$1.$2.$4.$5.$6

	"$trace_make" "$@" >"$f"
	echo "$f"
}

post() { # FILE NODE IMAGE WORKLOAD REPO
	ask --data-binary "@$1" -H "Bootseer-Node: $2" ${TOKEN:+-H} \
		${TOKEN:+"Authorization: Bearer $TOKEN"} \
		"$U/v1/traces/$3?workload=$4&repo=$5"
}

# The entries of a start's list.
entries() { # IMAGE WORKLOAD
	curl -fsS -m 120 -H 'Accept: application/json' \
		"$U/v1/traces/$1?workload=$2" | jq '.entries | length'
}

metric() { curl -fsS -m 120 "$U/metrics" | sed -n "s/^bootseer_registry_$1 //p"; }
