#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bootseer ops on a real VictoriaMetrics, by its API and by its export.

bats_require_minimum_version 1.5.0

. "$BATS_TEST_DIRNAME/../wait.bash"

setup()
{
	W=$(mktemp -d)
	PATH=$BOOTSEER_BUILD/cli:$PATH
}

teardown()
{
	kill_jobs
	rm -rf --one-file-system "$W"
}

@test "saves of a real VictoriaMetrics are the true ones, and so are those of its export" {
	local now begin port=$((20000 + RANDOM % 10000))

	now=$(date +%s)
	begin=$((now - 3 * 86400))
	"$BATS_TEST_DIRNAME/../functional/ops-metrics.py" --begin "$begin" --truth "$W/truth" \
		--saves 1800x12 >"$W/m"
	victoria-metrics -storageDataPath="$W/data" -httpListenAddr="127.0.0.1:$port" \
		-retentionPeriod=1y >"$W/log" 2>&1 &
	wait_for curl -sf -o "$W/health" "http://127.0.0.1:$port/health"
	# Its import takes milliseconds.
	awk '!/^#/ { printf "%s %s %d\n", $1, $2, $3 * 1000 }' "$W/m" |
		curl -sf --data-binary @- "http://127.0.0.1:$port/api/v1/import/prometheus"
	has_all() {
		curl -sf "http://127.0.0.1:$port/api/v1/export" -d 'match[]={job="node"}' >"$W/export" &&
			[ "$(wc -l <"$W/export")" = "$(grep -v '^#' "$W/m" | cut -d' ' -f1 | sort -u | wc -l)" ]
	}
	wait_for has_all
	for from in --prometheus="http://127.0.0.1:$port" --prometheus-data="$W/export"; do
		bootseer ops phases "$from" --from "$begin" --to "$now" --json >"$W/json"
		jq -n --slurpfile t "$W/truth" --slurpfile p "$W/json" -e '$t[0] as $t | $p[0] as $p |
			($p.saves | length) == ($t.saves | length) and ($p.loads | length) == 1 and
			all(range($t.saves | length); $p.saves[.].begin_s - $t.saves[.] | . < 45 and . > -45) and
			all($p.settings[]; .takes_s - $t.save_s | . < 15 and . > -15)'
	done
}
