#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The benchmarks' own instruments: what they print is quoted in documents.

setup()
{
	top=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	export BOOTSEER_CACHE=$BATS_TEST_TMPDIR/cache
	export BOOTSEER_BENCH_TMP=$BATS_TEST_TMPDIR
}

# Run the body of a benchmark, with its options.
bench()
{
	local body=$1

	shift
	cat >"$BATS_TEST_TMPDIR/body" <<-END
	. "$top/bench/lib.sh"
	. "\$bench_dir/lib/services.sh"
	. "\$bench_dir/lib/net.sh"
	bench_begin test "\$@"
	$body
	bench_end
	END
	bash "$BATS_TEST_TMPDIR/body" "$@"
}

@test "two builds of an image have the same digest" {
	first=$(SOURCE_DATE_EPOCH=1 "$top/bench/images/build" busybox)
	cp "$first/index.json" "$BATS_TEST_TMPDIR/first"
	rm -r "$first"
	SOURCE_DATE_EPOCH=1 "$top/bench/images/build" busybox
	cmp "$BATS_TEST_TMPDIR/first" "$first/index.json"
}

@test "an image that is there is not built again" {
	"$top/bench/images/build" busybox
	layout=$("$top/bench/images/build" --path busybox)
	touch -d @7 "$layout/index.json"
	"$top/bench/images/build" busybox
	[ "$(stat -c %Y "$layout/index.json")" = 7 ]
}

@test "a result holds samples, goals and the machine" {
	bench 'for n in 3 1 20; do sample time a $n s; sample time b 2 s; done
		goal "a by b" "$(median_ratio time a b)" x "<=" 1' \
		--json "$BATS_TEST_TMPDIR/r"
	jq -e '.name == "test" and (.machine.cores | . > 0) and
		(.samples | length == 6) and .goals == [{name: "a by b",
		value: 1.5, unit: "x", goal: "<= 1", met: false}]' \
		"$BATS_TEST_TMPDIR/r"
	"$top/bench/tools/report" "$BATS_TEST_TMPDIR/r" |
		grep -F '| time | a | 3 | 3 | 1 | 20 | s |'
}

@test "what is attempted may fail, and says why" {
	bench 'one() { defer echo cleaned; sample time a 1 s; "$@"; echo done; }
		two() { own_shell one "$@"; echo done; }
		attempt "first" one die "no such thing"
		[[ ! $attempt_failed ]] || echo went on
		attempt "second" two false
		attempt "third" two true' \
		--json "$BATS_TEST_TMPDIR/r" >"$BATS_TEST_TMPDIR/out"
	[ "$(grep -c cleaned "$BATS_TEST_TMPDIR/out")" = 3 ]
	[ "$(grep -c done "$BATS_TEST_TMPDIR/out")" = 2 ]
	grep -x "went on" "$BATS_TEST_TMPDIR/out"
	jq -e '(.samples | length == 3) and (.failures | length == 2) and
		.failures[0] == {what: "first", why: "no such thing"} and
		.failures[1].what == "second" and (.failures[1].why |
			test("^body, line [0-9]+: \"\"\\$@\"\" failed with 1$"))' \
		"$BATS_TEST_TMPDIR/r"
}

@test "ratios are of one round, where a round lacks a variant too" {
	bench 'for bench_round in 1 2 3; do
			sample time a $((bench_round * 10)) s
			((bench_round == 2)) || sample time b $bench_round s
		done
		goal "a by b" "$(ratios time a b | sort -u)" x "<=" 10' \
		--json "$BATS_TEST_TMPDIR/r"
	jq -e '.goals[0].value == 10' "$BATS_TEST_TMPDIR/r"
}

@test "starts are measured, and a variant that fails is not the end" {
	cp -r "$top/bench" "$BATS_TEST_TMPDIR/bench"
	cat >"$BATS_TEST_TMPDIR/bench/lib/variants/broken.sh" <<-'END'
	broken_start() { die "broken on purpose"; }
	END
	"$BATS_TEST_TMPDIR/bench/lazy-start" --quick --delays 0 \
		--only "native broken overlayfs bootseer bootseer-trace" \
		--json "$BATS_TEST_TMPDIR/r"
	jq -e '(.samples | map(select(.series == "busybox 200mbit+0ms: ready")
			| .variant) | sort) ==
			["bootseer", "bootseer-trace", "native", "overlayfs"] and
		(.failures | map(.why)) == ["broken on purpose"]' \
		"$BATS_TEST_TMPDIR/r"
	[ -z "$(findmnt -rno TARGET | grep -F "$BATS_TEST_TMPDIR/bench.")" ]
	[ -z "$(pgrep -f "$BATS_TEST_TMPDIR/bench[.]")" ]
}

@test "a measured command gives its time, memory and failure" {
	bench 'measure head -c 50000000 /dev/zero
		sample wall head "$m_wall" s
		sample rss head "$m_rss" bytes' --json "$BATS_TEST_TMPDIR/r"
	jq -e '.samples | map(.value > 0) | all' "$BATS_TEST_TMPDIR/r"
	run bench 'measure false; echo not reached'
	[ "$status" -ne 0 ]
	[[ $output != *"not reached"* ]]
}

@test "the link's latency is added both ways and what crosses it is counted" {
	bench 'net_begin
		RUN_IN=(nsenter "--net=/run/netns/$net_reg")
		start_registry "$W/registry"
		RUN_IN=()
		net_proxy 20 "$REGISTRY"
		net_shape 100mbit
		took=$(in_node curl -sSf -o "$W/out" -w "%{time_total}" \
			"http://$LINK_REGISTRY/v2/")
		goal latency "$took" s ">=" 0.04
		read -r conns requests up down < <(net_counters)
		sample counted conns $conns ""
		sample counted requests $requests ""
		goal up $up bytes ">" 50
		goal down $down bytes ">" 100' --json "$BATS_TEST_TMPDIR/r"
	jq -e '(.goals | map(.met) | all) and
		(.samples | map(.value == 1) | all)' "$BATS_TEST_TMPDIR/r"
}

@test "a benchmark leaves no process, mount or namespace behind" {
	bench 'net_begin; start_registry "$W/registry"
		echo "$daemon_pid $net_reg $W" >"$BOOTSEER_BENCH_TMP/was"'
	read -r pid ns dir <"$BATS_TEST_TMPDIR/was"
	! kill -0 "$pid"
	! ip netns list | grep -w "$ns"
	[ ! -e "$dir" ]
}
