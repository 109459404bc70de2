#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bootseer ops on the metrics of a real Prometheus, of a cluster whose saves are known.

bats_require_minimum_version 1.5.0

. "$BATS_TEST_DIRNAME/../wait.bash"

BEGIN=1760000000
dashboard=$BATS_TEST_DIRNAME/../../deploy/dashboard-ops.json

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

# The metrics of ops-metrics.py into a Prometheus, whose address is U.
serve_metrics() # OPTION...
{
	kill_jobs
	rm -rf "$W/data"
	"$BATS_TEST_DIRNAME/ops-metrics.py" --begin "$BEGIN" --truth "$W/truth" "$@" >"$W/m"
	promtool tsdb create-blocks-from openmetrics "$W/m" "$W/data" >"$W/promtool" 2>&1
	serve
}

serve() # OPTION...
{
	rm -f "$W/prometheus.log" # which tells of the server before
	echo 'global: {}' >"$W/prometheus.yml"
	prometheus --config.file="$W/prometheus.yml" --storage.tsdb.path="$W/data" \
		--storage.tsdb.retention.time=100y --web.listen-address=127.0.0.1:0 \
		"$@" >"$W/prometheus.log" 2>&1 &
	wait_for grep -qs 'msg="Server is ready' "$W/prometheus.log"
	U=http://$(sed -n 's/.*msg="Listening on" address=//p' "$W/prometheus.log")
}

phases() { bootseer ops phases --prometheus "$U" --from 1759990000 --to 1760200000 "$@"; }

# Each save of the truth is there and no other, within a sample and a half.
expect_saves() # JSON SAMPLE
{
	jq -n --slurpfile t "$W/truth" --slurpfile p "$1" --argjson s "$2" -e '
		def near($d): . < $d and . > -$d;
		$t[0] as $t | $p[0] as $p |
		($p.saves | length) == ($t.saves | length) and
		($p.loads | length) == ($t.loads | length) and
		all(range($t.saves | length); $p.saves[.].begin_s - $t.saves[.] | near(1.5 * $s)) and
		all(range($t.loads | length); $p.loads[.].begin_s - $t.loads[.] | near(2 * $s)) and
		all($p.saves[]; .bytes / .nodes / $t.bytes - 1 | near(0.05)) and
		all($p.settings[]; .takes_s - $t.save_s | near($s / 2))'
}

@test "saves and loads of a real Prometheus are the true ones, where scrapes are late and lost" {
	local direct

	serve_metrics --saves 1800x16 --saves 900x12 --lost 0.01 --jitter 1
	phases --json >"$W/json"
	cat "$W/json"
	expect_saves "$W/json" 30
	jq -e '.sample_s == 30 and .nodes == 4 and (.settings | length) == 2 and
		(.settings[0].interval_s - 1790 | . < 30 and . > -30) and
		(.settings[1].interval_s - 900 | . < 15 and . > -15)' "$W/json"
	run -0 --separate-stderr phases
	echo "$output"
	[[ $output == *"a sample each 30 s of 4 nodes"*"28 saves, 2 loads"*" 17 "*"29."*" min"* ]]
	[[ $output == *"fullest file system of NFS went from 409.3 TiB to 411.4 TiB"* ]]
	[[ $output != *missing* ]]
	# A time without metrics is told from one without saves.
	run -1 bootseer ops phases --prometheus "$U" --from 2025-11-01 --to 2025-11-02
	[[ $output == *"$U has no node_mountstats_nfs_total_write_bytes_total in this time"* ]]
	# So do its data without it, and an export of VictoriaMetrics; nothing of them changes, or stays.
	mkdir "$W/tmp"
	find "$W/data" -path '*/01*' | sort >"$W/before"
	TMPDIR=$W/tmp bootseer ops phases --prometheus-data "$W/data" --from 1759990000 --to 1760200000 \
		--json | diff <(jq 'del(.requests)' "$W/json") <(jq 'del(.requests)' -)
	find "$W/data" -path '*/01*' | sort | cmp - "$W/before"
	python3 - "$W/m" >"$W/lines" <<-'END'
	import json, re, sys
	rows = {}
	for line in open(sys.argv[1]):
	    if line[0] != "#":
	        series, v, t = line.rsplit(" ", 2)
	        rows.setdefault(series, []).append((float(v), round(float(t) * 1000)))
	for series, r in rows.items():
	    labels = dict(re.findall(r'(\w+)="([^"]*)"', series), __name__=series.split("{")[0])
	    print(json.dumps({"metric": labels, "values": [v for v, _ in r], "timestamps": [t for _, t in r]}))
	END
	TMPDIR=$W/tmp bootseer ops phases --prometheus-data "$W/lines" --from 1759990000 --to 1760200000 \
		--json | diff <(jq 'del(.requests)' "$W/json") <(jq 'del(.requests)' -)
	[ -z "$(ls "$W/tmp")" ]
	echo '{"metric": {"__name__": "a b"}, "values": [1], "timestamps": [1]}' >"$W/lines"
	run -1 bootseer ops phases --prometheus-data "$W/lines"
	[[ $output == *"line 1 is none of an export of VictoriaMetrics"* ]]
	run -1 bootseer ops phases --prometheus-data "$W/tmp"
	[[ $output == *"has no blocks of a Prometheus"* ]]
	# A server that is busy and takes few points gives the same.
	direct=$U
	"$BATS_TEST_DIRNAME/ops-proxy.py" "$direct" "$W/port" "$W/log" &
	wait_for test -s "$W/port"
	U=http://127.0.0.1:$(<"$W/port")
	phases --json >"$W/json2"
	diff <(jq 'del(.requests)' "$W/json") <(jq 'del(.requests)' "$W/json2")
	[ "$(sort -n "$W/log" | tail -1)" -gt 500 ]
	[ "$(wc -l <"$W/log")" = "$(jq .requests "$W/json2")" ]
	# One whose samples of all nodes are too many for an answer leaves saves unmeasured, and says so.
	"$BATS_TEST_DIRNAME/ops-proxy.py" "$direct" "$W/port3" "$W/log3" samples &
	wait_for test -s "$W/port3"
	U=http://127.0.0.1:$(<"$W/port3")
	run -1 phases
	[[ $output == *"--scrape-interval"*"answered 422: too many samples"* ]]
	phases --scrape-interval 30 --json >"$W/json3"
	jq -e '.too_large >= 28 and (.saves | length) == 28 and all(.saves[]; .nodes == 0)' "$W/json3"
	run -0 --separate-stderr phases --scrape-interval 30
	[[ $output == *"missing: the counters of single nodes, "*"28 saves, 2 loads"* ]]
	run -0 --separate-stderr bootseer ops restart --prometheus "$U" --from 1759990000 \
		--to 1760200000 --scrape-interval 30
	[[ $output == *"missing: counters around a save or load, "*"--match"* ]]
}

# sacct of the truth's sessions: each but the last failed; a name that is HTML and Markdown.
write_jobs() # FILE
{
	{
		echo 'JobID|User|State|ExitCode|Start|End|NodeList|AllocTRES|JobName'
		jq -r '.sessions | to_entries[] | [.key + 1, "u",
			(if .key + 1 < $n then "FAILED" else "CANCELLED" end), "1:0", .value[0], .value[1],
			"gpu[000-003]", "gres/gpu=32", "</pre><script>x</script>```"] | join("|")' \
			--argjson n "$(jq '.sessions | length' "$W/truth")" "$W/truth"
	} >"$1"
}

@test "what failures lost, and a report of all in one file" {
	local f

	serve_metrics --saves 1800x6 --saves 900x8 --saves 900x4
	write_jobs "$W/jobs"
	run -0 --separate-stderr bootseer ops cost --sacct "$W/jobs" --prometheus "$U" \
		--from 1759990000 --to 1760200000
	echo "$output"
	[[ $output == *"2 failures lost "*" since the last save before them"*"GPU hours"* ]]
	[[ $output == *"saves from "*" take "*now*best*"by the bounds of both"* ]]
	bootseer ops cost --sacct "$W/jobs" --prometheus "$U" --from 1759990000 --to 1760200000 \
		--json >"$W/json"
	jq -n --slurpfile t "$W/truth" --slurpfile p "$W/json" -e '$t[0] as $t | $p[0] as $p |
		[$t.sessions[:2][][1] as $stop | $stop - ([$t.saves[] | select(. < $stop)] | last) - $t.save_s]
			as $lost |
		$p.losses.failures == 2 and $p.losses.unknown == 0 and
		all(range(2); $p.losses.lost_s[.] - $lost[.] | . < 20 and . > -20)'
	for f in html md json; do
		bootseer ops report --sacct "$W/jobs" --prometheus "$U" --from 1759990000 \
			--to 1760200000 --out "$W/r.$f"
	done
	python3 - "$W/r.html" <<-'END'
	import html.parser, sys
	class P(html.parser.HTMLParser):
	    open, seen = [], []
	    def handle_starttag(self, tag, attrs):
	        assert tag not in ("script", "img", "link", "iframe"), tag
	        self.seen.append(tag)
	        if tag not in ("meta", "rect", "line", "polyline"):
	            self.open.append(tag)
	    def handle_endtag(self, tag):
	        if tag not in ("rect", "line", "polyline"):
	            assert self.open.pop() == tag, tag
	p = P()
	p.feed(open(sys.argv[1]).read())
	assert p.open == [] and p.seen.count("section") == 5 and p.seen.count("svg") >= 7, p.seen
	END
	[ "$(grep -c '<rect class="f".*<title>&lt;/pre&gt;' "$W/r.html")" = 2 ] # on the axis of phases
	grep -q '^## Chains of retries' "$W/r.md"
	run ! grep -E '^[^ ].*(script|```)' "$W/r.md"
	jq -e '(.sources | map(.is_there)) == [true, true, false] and .precursors == null and
		(.sources[2].why | test("ask for more days")) and .cost.losses.failures == 2 and .chains.n == 1 and
		(.phases.saves | length) == 18 and
		(.sessions | map(.failed)) == [true, true, false] and .nodes.jobs == 3' "$W/r.json"
	# One source is enough, and what the other would tell is named.
	printf '#!/bin/sh\necho "error: no slurmdbd" >&2; exit 1\n' >"$W/sacct"
	chmod +x "$W/sacct"
	PATH=$W:$PATH run -0 bootseer ops report --prometheus "$U" \
		--from 1759990000 --to 1760200000 --out "$W/p.json"
	[[ $output == *"no jobs: sacct: error: no slurmdbd"* ]]
	jq -e '.cost == null and .phases.nodes == 4 and (.sources[0].costs | test("retries"))' "$W/p.json"
	run -0 bootseer ops report --sacct "$W/jobs" --prometheus http://127.0.0.1:1 --out "$W/p.html"
	[[ $output == *"no metrics: http://127.0.0.1:1"* ]]
	grep -q '<strong>No metrics</strong>: saves, loads,' "$W/p.html"
	run -2 bootseer ops report --sacct "$W/jobs" --out "$W/p.txt"
	[[ $output == *"--out NAME.html"* ]]
}

@test "requests of saves wait for slots, as in the paper, and what that says" {
	serve_metrics --saves 1800x6 --nodes 2
	restart() { bootseer ops restart --prometheus "$U" --from 1759990000 --to 1760200000 "$@"; }
	run -0 --separate-stderr restart --rpc-slots 128 --node-bandwidth 25G
	echo "$output"
	[[ $output == *"1 load: "*" min in the mean"*"% of their links"* ]]
	[[ $output == *"saves: "*" requests of 1.0 MiB; each waits 1495.0 ms for a slot (92 %) and 126.0 ms"* ]]
	[[ $output == *"more bandwidth would help little: 92 %"*"of 128 slots"*"they allow 1015.9 MiB/s a node, 4 % of its link"* ]]
	[[ $output == *"loads: "*"each waits 32.0 ms for a slot (54 %) and 27.0 ms"* ]]
	restart --json | jq -e '.save_requests.wait_share - 0.9223 | . < 0.001 and . > -0.001'
	serve_metrics --saves 1800x6 --nodes 2 --without node_mountstats_nfs_operations_requests
	run -0 --separate-stderr restart
	[[ $output == *"saves: unknown, for the counters of requests are missing"* ]]
}

@test "copies of two servers count once; other names and 15 s; what is missing is named" {
	serve_metrics --saves 900x8 --replicas 2 --scrape 15 --nodes 3 \
		--rename node_mountstats_nfs_total_write_bytes=nas_written_bytes \
		--without DCGM_FI_DEV_GPU_UTIL --without node_filesystem_size_bytes
	run -1 phases
	[[ $output == *"check --from, --to, --match and --metric-nfs-write"* ]]
	printf 'metric-nfs-write = "nas_written_bytes_total";\n' >"$W/ops.conf"
	phases --config "$W/ops.conf" --json >"$W/json"
	cat "$W/json"
	expect_saves "$W/json" 15
	jq -e '.sample_s == 15 and .nodes == 3 and all(.saves[]; .nodes == 3)' "$W/json"
	run -0 --separate-stderr phases --config "$W/ops.conf" --match 'job="node"'
	[[ $output == *"missing: the GPUs' utilisation (--metric-gpu)"*"missing: size and free"* ]]
	run -0 --separate-stderr phases --config "$W/ops.conf" --save-above 1T
	[[ $output == *"saves: more than 1.0 TiB/s, as given"*"0 saves"* ]]
}

# Rules as Prometheus runs them: gpu002 leaves its peers in the second hour, and gpu003 is slow.
write_rule_test() # RULES
{
	local n

	{
		printf 'rule_files: [%s]\nevaluation_interval: 2m\ntests:\n' "$1"
		printf '  - interval: 2m\n    input_series:\n'
		for n in 0 1 2 3 4 5 6; do
			printf '      - {series: "DCGM_FI_DEV_GPU_UTIL{instance=\\"gpu00%s:9400\\"}", values: "98x300"}\n' $n
			printf '      - {series: "node_procs_running{instance=\\"gpu00%s:9100\\"}", values: "%s"}\n' $n \
				"$([ $n = 2 ] && echo "64x60 10x240" || echo "6${n}x300")"
			printf '      - {series: "DCGM_FI_DEV_SM_CLOCK{instance=\\"gpu00%s:9400\\"}", values: "%sx300"}\n' $n \
				"$([ $n = 3 ] && echo 1400 || echo 1830)"
		done
		cat <<-'END'
		    alert_rule_test:
		      - {eval_time: 118m, alertname: BootseerNodeLeftPeers}
		      - {eval_time: 130m, alertname: BootseerNodeLeftPeers,
		         exp_alerts: [{exp_labels: {node: gpu002, signal: node_procs_running, severity: warning},
		         exp_annotations: {summary: "gpu002: node_procs_running is 12.9 deviations from where it usually is among its peers"}}]}
		      - {eval_time: 590m, alertname: BootseerNodeSlow,
		         exp_alerts: [{exp_labels: {node: gpu003, signal: DCGM_FI_DEV_SM_CLOCK, severity: warning},
		         exp_annotations: {summary: "gpu003 is slow: DCGM_FI_DEV_SM_CLOCK is 23.5% behind its peers"}}]}
		END
	} >"$W/rule-test.yml"
}

# The kernel's files of a machine with NFS, InfiniBand, sensors and ECC memory.
write_kernel_files() # FOLDER
{
	local ib=$1/sys/class/infiniband/mlx5_0 hw=$1/sys/class/hwmon/hwmon0 f
	local mc=$1/sys/devices/system/edac/mc/mc0

	mkdir -p "$1/proc/1" "$ib/ports/1/counters" "$hw" "$mc"
	ln -s 1 "$1/proc/self"
	echo '53 1 0:53 / /ckpt rw - nfs4 nas:/ckpt rw,vers=4.2,mountaddr=10.0.0.1,proto=tcp' \
		>"$1/proc/1/mountinfo"
	cat >"$1/proc/1/mountstats" <<-'END'
	device nas:/ckpt mounted on /ckpt with fstype nfs4 statvers=1.1
		opts:	rw,vers=4.2,rsize=1048576,wsize=1048576,proto=tcp,mountaddr=10.0.0.1
		age:	5400
		events:	52 226 0 0 1 13 398 0 0 331 0 47 0 0 77 0 0 77 0 0 0 0 0 0 0 0 0
		bytes:	10 20 0 0 1234 5678 3 4
		RPC iostats version: 1.1  p/v: 100003/4 (nfs)
		xprt:	tcp 832 0 1 0 11 17 17 0 17 0 2 0 0
		per-op statistics
		        READ: 1298 1298 0 207680 1210292152 6 79386 79407
	END
	echo 4 >"$ib/ports/1/counters/link_downed"
	echo 5 >"$ib/ports/1/counters/link_error_recovery"
	echo '4: ACTIVE' >"$ib/ports/1/state"
	echo '5: LinkUp' >"$ib/ports/1/phys_state"
	echo '400 Gb/sec (4X NDR)' >"$ib/ports/1/rate"
	for f in board_id fw_ver hca_type; do echo 1 >"$ib/$f"; done
	echo coretemp >"$hw/name"
	echo 42000 >"$hw/temp1_input"
	for f in ce_count ue_count ce_noinfo_count ue_noinfo_count; do echo 3 >"$mc/$f"; done
}

# What a real node_exporter calls things.
export_names() # OPTION...
{
	local log=$W/exporter.$RANDOM

	prometheus-node-exporter --web.listen-address=127.0.0.1:0 "$@" >"$log" 2>&1 &
	wait_for grep -qs 'Listening on' "$log"
	curl -sf "$(sed -n 's|.*Listening on" address=|http://|p' "$log")/metrics" | sed -n 's/^# TYPE \([^ ]*\) .*/\1/p'
}

@test "metrics have the names that exporters give them" {
	local name

	write_kernel_files "$W/fs"
	{
		export_names
		export_names --collector.disable-defaults --collector.mountstats --collector.infiniband \
			--collector.edac --collector.hwmon --path.procfs="$W/fs/proc" --path.sysfs="$W/fs/sys"
		sed -n 's/^\(#+ \)\?\(DCGM[^,]*\),.*/\2/p' "$BATS_TEST_DIRNAME/dcgm-counters.csv"
	} >"$W/names"
	# Those of options, and those that are compared.
	bootseer ops precursors --help >"$W/wanted"
	grep -o '"[a-z]* [a-z]* [A-Za-z_]*' "$BATS_TEST_DIRNAME/../../cli/ops_signals.c" >>"$W/wanted"
	cat "$dashboard" >>"$W/wanted"
	[ "$(grep -oE '\b(node|DCGM)_[A-Za-z_]*[a-zA-Z]\b' "$W/wanted" | sort -u | tee "$W/list" | wc -l)" -ge 30 ]
	for name in $(<"$W/list"); do
		grep -qx "$name" "$W/names" || { echo "no exporter has $name"; false; }
	done
}

@test "what moved before failures, who is slow, and rules that say so" {
	BEGIN=$(($(date +%s) - 172800)) # it goes on after now
	"$BATS_TEST_DIRNAME/ops-peers.py" "$BEGIN" "$W/truth" >"$W/m"
	promtool tsdb create-blocks-from openmetrics "$W/m" "$W/data" >"$W/promtool" 2>&1
	serve
	precursors() {
		bootseer ops precursors --prometheus "$U" --from "$BEGIN" --to $((BEGIN + 165600)) \
			--before 1h "$@"
	}
	precursors --rules "$W/rules.yml" --json >"$W/json"
	jq -c 'del(.metrics)' "$W/json"
	jq -n --slurpfile t "$W/truth" --slurpfile p "$W/json" -e '$t[0] as $t | $p[0] as $p |
		($p.failures | length) == 3 and $p.compared == 3 and $p.preceded == 2 and $p.alarms == 0 and
		all(range(3); $t.failures[.] as $f | $p.failures[.] as $g |
			$g.node == $f.node and $g.xid == $f.xid and ($g.at_s - $f.at | . >= 0 and . <= 120) and
			([$g.metrics[] | select(.is_before)] as $m | if $f.metric then
				($m | length) == 1 and ($m[0].metric | startswith($f.metric)) and
				($m[0].lead_s - $f.lead | . >= -120 and . <= 240) else $m == [] end)) and
		($p.slow | length) == 1 and $p.slow[0].node == "gpu003" and
		($p.slow[0].share + 0.2 | . < 0.01 and . > -0.01)'
	# A proxy that lets no question for names through changes nothing but the number of requests.
	"$BATS_TEST_DIRNAME/ops-proxy.py" "$U" "$W/port" "$W/log" &
	wait_for test -s "$W/port"
	U=http://127.0.0.1:$(<"$W/port") precursors --json >"$W/json2"
	diff <(jq 'del(.requests)' "$W/json") <(jq 'del(.requests)' "$W/json2")
	run -0 --separate-stderr precursors
	echo "$output"
	[[ $output == *"gpu005  XID 79 (call support): preceded by"*"40 min  node_procs_running -"* ]]
	[[ $output == *"gpu008  XID 94 (start the program again): nothing preceded it"*"with it node_"* ]]
	[[ $output == *"failures by kind: "*"GPU lost 1 (33.3 %; Minder's clusters 2.0 %)"* ]]
	[[ $output == *"false alarms: 0 in "*"slow: gpu003 from "*"DCGM_FI_DEV_SM_CLOCK is -20 %"* ]]
	# The report has the same, as far as there are sources.
	echo 'JobID|User|State|ExitCode|Start|End|NodeList|AllocTRES|JobName' >"$W/jobs"
	for f in html json; do
		bootseer ops report --sacct "$W/jobs" --prometheus "$U" --from "$BEGIN" \
			--to $((BEGIN + 165600)) --before 1h --out "$W/r.$f"
	done
	jq -e '.phases == null and .precursors.preceded == 2' "$W/r.json"
	grep -q '<strong>No metrics</strong>.*has no node_mountstats' <(tr -d '\n' <"$W/r.html")
	grep -q 'Z gpu005</text>' "$W/r.html"
	promtool check rules "$W/rules.yml"
	# The dashboard's panels are whole, and its queries are some.
	jq -e '([.panels[].id] | length == (unique | length)) and .uid == "bootseer-ops" and .id == null and
		all(.panels[]; .type == "timeseries" and .datasource.uid == "${datasource}" and .gridPos.w == 8 and
			([.targets[].refId] | length > 0 and length == (unique | length)))' "$dashboard"
	jq '{groups: [{name: "d", rules: [.panels[].targets[].expr | gsub("\\$__rate_interval"; "2m") |
		gsub("\\$node"; ".*") | {record: "r", expr: .}]}]}' "$dashboard" >"$W/dashboard.yml"
	promtool check rules "$W/dashboard.yml"
	write_rule_test "$W/rules.yml"
	promtool test rules "$W/rule-test.yml"
	# Live, and to a real Alertmanager.
	printf 'route: {receiver: none}\nreceivers: [{name: none}]\n' >"$W/am.yml"
	prometheus-alertmanager --config.file="$W/am.yml" --storage.path="$W/am" \
		--web.listen-address=127.0.0.1:0 --cluster.listen-address= >"$W/am.log" 2>&1 &
	wait_for grep -qs 'Listening.*address=127' "$W/am.log"
	A=http://$(grep -o '127.0.0.1:[0-9]*' "$W/am.log" | tail -1)
	bootseer ops watch --prometheus "$U" --from "$BEGIN" --to $((BEGIN + 165600)) --before 1h \
		--alertmanager "$A" >"$W/watch" 2>&1 &
	alerts() { curl -sf "$A/api/v2/alerts" | jq -e "$@"; }
	wait_for eval 'alerts "length > 0" >/dev/null'
	alerts -c 'map([.labels.alertname, .labels.node, .labels.signal, .labels.severity])
		== [["BootseerNodeLeftPeers", "gpu006", "node_procs_running", "warning"]]'
	grep 'gpu006 node_procs_running left its peers: -.*(outside from ' "$W/watch"
	# Failures of a file, of which one has no node that is known; metrics of another one.
	printf '# from the vendor\n%s gpu005 kernel: NVRM: Xid (PCI:0000:4b:00): 79, pid=1\n%s gpu077\n' \
		"$(date -u -d "@$((BEGIN + 50000))" +%FT%T%z)" $((BEGIN + 90000)) >"$W/failures"
	printf '%s value node_procs_running\n' max min >"$W/signals"
	run -0 --separate-stderr precursors --failures "$W/failures" --signals "$W/signals" --rules "$W/two.yml"
	[ "$(grep -c 'signal: "node_procs_running:[12]"' "$W/two.yml")" = 4 ]
	[[ $output == *"gpu005  XID 79"* ]]
	[[ $output == *"2 of 2 metrics"*"2 failures, 1 of nodes that can be compared; 1 had a warning in the 1 h"* ]]
	[[ $output == *"gpu077: its metrics are unknown"* ]]
	echo 'mean value node_procs_running' >"$W/signals"
	run -1 precursors --signals "$W/signals"
	[[ $output == *"$W/signals: line 1: wanted is {sum|min|max} {value|rate|errors} METRIC"* ]]
	echo 'yesterday gpu005' >"$W/failures"
	run -1 precursors --failures "$W/failures"
	[[ $output == *"$W/failures: line 1: 'yesterday' is no time"* ]]
	run -1 bootseer ops precursors --prometheus "$U" --from "$BEGIN" --to $((BEGIN + 20000)) --before 1h
	[[ $output == *"ask for more days"* ]]
}

@test "a password goes to a server by TLS or to this machine only, and its refusals have cures" {
	local auth=$W/auth

	openssl req -x509 -newkey ed25519 -nodes -days 2 -subj /CN=localhost \
		-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout "$W/key.pem" -out "$W/cert.pem"
	# The password is "test".
	cat >"$W/web.yml" <<-END
	tls_server_config: { cert_file: $W/cert.pem, key_file: $W/key.pem }
	basic_auth_users:
	  alice: \$2b\$12\$hNf2lSsxfm0.i4a.1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay
	END
	serve --web.config.file="$W/web.yml"
	U=https${U#http}
	run -1 phases
	[[ $output == *"--prometheus-ca"* ]]
	run -1 phases --prometheus-ca "$W/cert.pem"
	[[ $output == *"$U answered 401"*"--prometheus-auth"* ]]
	echo alice:test >"$auth"
	run -1 phases --prometheus-ca "$W/cert.pem" --prometheus-auth "$auth"
	[[ $output == *"$U has no node_mountstats"* ]]
	echo a-token >"$auth"
	run -1 phases --prometheus-ca "$W/cert.pem" --prometheus-auth "$auth"
	[[ $output == *"answered 401"* ]]
	run -1 bootseer ops phases --prometheus http://192.0.2.1:9090 --prometheus-auth "$auth"
	[[ $output == *"would get --prometheus-auth in the clear: say https://"* ]]
	run -1 bootseer ops watch --prometheus "$U" --alertmanager http://192.0.2.1:9093 \
		--alertmanager-auth "$auth"
	[[ $output == *"would get --alertmanager-auth in the clear: say https://"* ]]
}

@test "what is no metric, time or Prometheus is refused with what is wanted" {
	run -2 bootseer ops phases
	[[ $output == *"--prometheus URL"* ]]
	run -2 bootseer ops phases --prometheus http://127.0.0.1:1 --metric-gpu 'x}) or vector(1'
	[[ $output == *"is no name of a metric"* ]]
	run -2 bootseer ops phases --prometheus http://127.0.0.1:1 --replica-labels 'a)(b'
	[[ $output == *"--replica-labels"* ]]
	run -2 bootseer ops phases --prometheus http://127.0.0.1:1 --from yesterday
	[[ $output == *"'yesterday' is no time: wanted is 2025-10-01"* ]]
	run -1 bootseer ops phases --prometheus http://127.0.0.1:1
	[[ $output == *"http://127.0.0.1:1"*"check host, port"* ]]
	echo '{"status": "success", "data": {"resultType": "vector", "result": []}}' >"$W/query_range"
	python3 - "$W/query_range" "$W/port" <<-'END' &
	import http.server, os, sys
	body = open(sys.argv[1], "rb").read()
	class H(http.server.BaseHTTPRequestHandler):
	    def do_GET(self):
	        self.send_response(200)
	        self.end_headers()
	        self.wfile.write(body)
	    def log_message(self, *a): pass
	s = http.server.HTTPServer(("127.0.0.1", 0), H)
	open(sys.argv[2] + ".tmp", "w").write(str(s.server_address[1]))
	os.rename(sys.argv[2] + ".tmp", sys.argv[2])
	s.serve_forever()
	END
	wait_for test -s "$W/port"
	run -1 bootseer ops phases --prometheus "http://127.0.0.1:$(<"$W/port")"
	[[ $output == *"the answer is none of Prometheus's HTTP API"* ]]
}
