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

# n3 waits for its disk.
a_start()
{
	local n line="BOOTSEER image=h/llm:1 label=team"

	for n in 1 2 3 4 5 6; do
		echo "$line stage=image ev=begin node=n$n ts=1795000000000000000"
		echo "$line stage=image ev=end node=n$n ts=179500001${n}000000000"
		echo "$line stage=env ev=begin node=n$n ts=1795000020000000000"
		if [ "$n" = 3 ]; then
			echo "$line stage=env ev=end node=n3 ts=1795000080000000000 disk_ms=50000"
		else
			echo "$line stage=env ev=end node=n$n ts=179500003${n}000000000"
		fi
		echo "$line stage=train ev=mark node=n$n ts=1795000090000000000"
	done
}

@test "axe finds nothing in any view, light, dark and as wide as a phone" {
	local attempt second

	(cd "$W" && npm install --silent --no-save --prefix "$W" axe-core >&2)
	for attempt in 0 1; do
		a_start | "$BOOTSEER_BUILD/cli/bootseer" stage send --service "$U" --job team/j \
			--attempt "$attempt" -
	done
	second=$(curl -fsS "$U/v1/starts?job=team/j" | jq '.starts | max_by(.attempt).id')
	run -0 python3 "$BATS_TEST_DIRNAME/page.py" axe \
		"$W/node_modules/axe-core/axe.min.js" "$U" \
		"" start/1 job/team/j "compare/1/$second" trends image/h/llm:1 label/team \
		nodes node/n3 peers
	echo "$output" | sed 's/^/# /' >&3
	[ "$(grep -c '"violations": \[\]' <<<"$output")" = 30 ]
}

@test "2,000 nodes with 50 stages are scrolled through" {
	"$BOOTSEER_BUILD/bench/bench-make-events" 127.0.0.1 "${U##*:}" 1 2000 50 >&2
	run -0 python3 "$BATS_TEST_DIRNAME/page.py" frames - "$U" start/1
	echo "$output" | sed 's/^/# /' >&3
	[ "$(jq '.said.rows' <<<"$output")" = 2000 ]
}
