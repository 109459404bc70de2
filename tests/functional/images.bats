#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What bootseer-registry and its page tell of images and of peers, as nodes report it.

bats_require_minimum_version 1.5.0
load ../noise.bash

bootseer=${BOOTSEER_BUILD:?}/cli/bootseer

load stages.bash

# report NAME JOB [JQ-PROGRAM]: what a node says of a start, changed by the program, for
# tell.
report()
{
	jq -nc --arg name "$1" --arg job "$2" '{name: $name, job: $job, attempt: 0,
		peer_bytes: 700, origin_bytes: 300, peers: [["n9", 400], ["n8", 250]],
		start: {start: 5, started_at: 1795000000, workload: "w", trace: "own",
			end: "ready", ready_ms: 8000, waited_ms: 500, watched_ms: 8000,
			watched: true, recorded: false, reads: 90, read_bytes: 5000,
			read_blocks: 40, missed_blocks: 4, missed_bytes: 600,
			fetched: {demand: 600, hot: 9000, cold: 100, cache: 50},
			hot: {blocks: 50, bytes: 10000, fetched_blocks: 45,
				fetched_bytes: 9000, used_blocks: 40, used_bytes: 8000,
				unused_blocks: 5, unused_bytes: 1000},
			missed_files: [{path: "/opt/a.so", bytes: 400},
				{path: "/opt/b.py", bytes: 200}]}} | '"${3:-.}" >"$W/report"
}

# Status in $code, as ask.
tell() # NODE IMAGE WORKLOAD REPO
{
	ask --data-binary "@$W/report" -H "Bootseer-Node: $1" ${TOKEN:+-H} \
		${TOKEN:+"Authorization: Bearer $TOKEN"} \
		"$U/v1/images/$2?workload=$3&repo=$4"
}

# As bootseer-registry is told of it in $code, with a token.
get() # PATH
{
	ask ${TOKEN:+-H} ${TOKEN:+"Authorization: Bearer $TOKEN"} "$U$1"
}

an_image_has_its_starts()
{
	service
	post "$(recording "$A" train h/app 100 100 x)" n1 "$A" train h/app
	[ "$code" = 202 ]
	for n in 1 2 3; do
		report h/app:1 j1 ".start.ready_ms = ${n}000"
		tell "n$n" "$A" train h/app
		[ "$code" = 200 ]
	done
	# What a node says again of its start counts once.
	report h/app:1 j1 '.start.ready_ms = 9000 | .start.missed_files[0].path = "/opt/<b>"'
	tell n3 "$A" train h/app
	get "/v1/images/$A?workload=train&repo=h/app"
	[ "$code" = 200 ]
	jq -e '.name == "h/app:1" and .hot.blocks == 100 and .hot.files_all == 100 and
		.hot.runs == 1 and .hot.ready_ms == 8000 and .hot.last_ms == 297 and
		(.hot.stored_by_time | length == 40 and .[39] > .[0]) and
		.hot.stored_by_time[39] == .hot.stored and
		(.hot.files | length == 100 and .[0].stored >= .[99].stored and
			.[0].confidence == 1000)' "$O"
	jq -e '.sum | .starts == 3 and .ready == 3 and .ready_median_ms == 2000 and
		.waited_median_ms == 500 and .missed_bytes == 1800 and .read_blocks == 120 and
		.traces.own == 3 and .traces.none == 0 and .fetched.hot == 27000 and
		.hot.unused_bytes == 3000 and .hot.used_bytes == 24000' "$O"
	jq -e '.missed_files == [{"path": "/opt/a.so", "bytes": 800, "starts": 2},
		{"path": "/opt/b.py", "bytes": 600, "starts": 3},
		{"path": "/opt/<b>", "bytes": 400, "starts": 1}]' "$O"
	jq -e '[.starts[].node] == ["n3", "n2", "n1"] and
		(.starts[0] | .ready_ms == 9000 and .job == "j1" and .end == "ready" and
			.peer_bytes == 700 and (has("missed_files") | not) and
			.hot.blocks == 50)' "$O"
	# The largest files, the newest starts; sums are of all.
	get "/v1/images/$A?workload=train&repo=h/app&limit=1"
	jq -e '(.hot.files | length) == 1 and [.starts[].node] == ["n3"] and .sum.starts == 3 and
		(.missed_files | length) == 1' "$O"
	# One that is only recorded, one that is only started, and neither.
	post "$(recording "$B" train h/app 10 10 x)" n1 "$B" train h/app
	get "/v1/images/$B?workload=train&repo=h/app"
	jq -e '.hot.blocks == 10 and .sum.starts == 0 and .name == "" and .starts == []' "$O"
	report h/app:2 ""
	tell n1 "$B" other h/app
	get "/v1/images/$B?workload=other&repo=h/app"
	jq -e '.hot == null and .sum.starts == 1' "$O"
	get "/v1/images/$B?workload=none&repo=h/app"
	[ "$code" = 404 ]
	get "/v1/images?repo=h/app"
	jq -e '[.images[] | .image[7:8] + " " + .workload + " " + .name +
			" \(.starts) \(.nodes) \(.peer_bytes)"] | sort ==
		["a train h/app:1 3 3 2100", "b other h/app:2 1 1 700"]' "$O"
	get "/v1/images?repo=h/none"
	jq -e '.images == []' "$O"
	# All of it outlives the process.
	end_service TERM
	service
	get "/v1/images?limit=1"
	jq -e '.images | length == 1' "$O"
}

@test "an image has its hot set, what was missed and of what use the prefetch was" {
	on_each_db an_image_has_its_starts
}

peers_are_summed_up()
{
	service
	echo "BOOTSEER stage=image.start ev=begin node=n1 ts=$(date +%s)000000000" |
		"$bootseer" stage send --service "$U" --job j1 -
	report h/app:1 j1
	tell n1 "$A" train h/app
	report h/app:1 j1 '.peers = [["n1", 1000]] | .peer_bytes = 1000 | .origin_bytes = 0'
		tell n2 "$A" train h/app
	report h/b:1 j2 '.peers = [["n1", 5]] | .peer_bytes = 5'
	tell n3 "$B" train h/b
	get /v1/peers
	jq -e '.reports == 3 and .peer_bytes == 1705 and .origin_bytes == 600 and
		.left_out == 0 and .nodes_all == 5 and .pairs_all == 4 and
		.nodes == [["n1", 700, 300, 1005, 2, 2], ["n9", 0, 0, 400, 0, 1],
			["n8", 0, 0, 250, 0, 1], ["n2", 1000, 0, 0, 1, 0], ["n3", 5, 300, 0, 1, 0]] and
		.pairs == [["n1", "n2", 1000], ["n9", "n1", 400], ["n8", "n1", 250],
			["n1", "n3", 5]]' "$O"
	# What a node says that it had from itself is not told.
	report h/c:1 j3 '.peers = [["n4", 100]] | .peer_bytes = 0 | .origin_bytes = 0'
	tell n4 "$B" train h/c
	report h/c:1 j4 '.peers = [["n4", 100]] | .peer_bytes = 100 | .origin_bytes = 0'
	tell n4 "$B" train h/c
	get /v1/peers
	jq -e '.reports == 5 and .pairs_all == 4 and .peer_bytes == 1805' "$O"
	in_db "DELETE FROM image_start WHERE node = 'n4'"
	get "/v1/peers?image=$B"
	jq -e '.pairs == [["n1", "n3", 5]]' "$O"
	get "/v1/peers?node=n2&limit=5"
	jq -e '.pairs == [["n1", "n2", 1000]] and .nodes_all == 5' "$O"
	get "/v1/peers?limit=1"
	jq -e '.pairs == [["n1", "n2", 1000]] and .pairs_all == 4' "$O"
	id=$(curl -fsS "$U/v1/starts?job=j1" | jq '.starts[0].id')
	get "/v1/starts/$id/peers"
	jq -e --arg a "$A" '.job == "j1" and .reports == 2 and .pairs_all == 3 and
		.images == [{"image": $a, "repo": "h/app", "workload": "train"}]' "$O"
	get /v1/starts/99/peers
	[ "$code" = 404 ]
}

@test "who gave whom how much is told, of a start and of all" {
	on_each_db peers_are_summed_up
}

@test "a report that is none is refused, and says why" {
	local p

	DB=sqlite:$W/registry.db
	service
	while IFS=@ read -r p why; do
		report h/app:1 j1 "$p"
		tell n1 "$A" train h/app
		[ "$code" = 400 ] || { echo "$p: $code"; false; }
		jq -e --arg why "$why" '.error.message | contains($why)' "$O"
	done <<-'EOF'
		.start.ready_ms = -1@ready_ms is no number
		.start.ready_ms = 1125899906842625@ready_ms is no number
		.peer_bytes = 8796093022209@peer_bytes is no number up to 2^43
		.origin_bytes = 8796093022209@origin_bytes is no number up to 2^43
		.start.hot.bytes = "1"@bytes is no number
		.start.hot = []@start.hot is no object
		.start.end = "late"@start.end is none
		del(.start.trace)@start.trace is none
		del(.start)@start is no object
		.start.missed_files = {}@start.missed_files is no list
		.start.missed_files = [range(21) | {path: "/a", bytes: 1}]@missed_files is no list of 20
		.start.missed_files[1].path = "relative"@missed_files[1].path is none
		.peers = [["a b", 1]]@peers[0] is no [NODE, BYTES]
		.peers = [["n1", -1]]@peers[0] is no [NODE, BYTES]
		.peers = [range(33) as $i | ["n\($i)", 1]]@peers is no list of 32
		.name = "a b"@name is none
		.job = "a\nb"@job is none
		.attempt = -1@attempt is no number
		[]@it is no object
	EOF
	echo '{"name": "a", "name": "b"}' >"$W/report"
	tell n1 "$A" train h/app
	[ "$code" = 400 ]
	report h/app:1 j1 '.more = ("x" * 17000)'
	tell n1 "$A" train h/app
	[ "$code" = 413 ]
	# What is not known is left out; nothing of all that was kept.
	report h/app:1 j1 '.more = 1 | .start.more = 2'
	tell n1 "$A" train h/app
	[ "$code" = 200 ]
	get "/v1/images/$A?workload=train&repo=h/app"
	jq -e '.sum.starts == 1 and (.starts[0] | has("more") | not)' "$O"
}

sums_have_an_end()
{
	service
	report h/app:1 j1 '.peer_bytes = 8796093022208 | .origin_bytes = 8796093022208 |
		.peers = [["n9", 8796093022208]]'
	tell n1 "$A" train h/app
	[ "$code" = 200 ]
	end_service TERM
	# As many as are kept, of 2^50 bytes each, which no report of today may say.
	in_db "INSERT INTO image_start (image, repo, workload, node, job, attempt, name, received,
			peer_bytes, origin_bytes)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 99999)
		SELECT image, repo, workload, node, 'many', i, name, received, 1125899906842624,
			1125899906842624 FROM image_start, n"
	in_db "INSERT INTO image_start_text (start, figures, peers)
		SELECT id, figures, 'n9 1125899906842624
' FROM image_start, image_start_text
		WHERE job = 'many'"
	service
	get /v1/images
	[ "$code" = 200 ]
	jq -e '.images | length == 1 and .[0].starts == 100000 and
		.[0].peer_bytes == 879609302220800000 and .[0].origin_bytes == 879609302220800000' "$O"
	get /v1/peers
	jq -e '.peer_bytes == 9223372036854775807 and .origin_bytes == .peer_bytes and
		.pairs[0][2] == .peer_bytes' "$O"
}

@test "no number of reports, and no report, takes the lists away" {
	on_each_db sums_have_an_end
}

@test "a page whose images cannot be listed has the rest" {
	kind=sqlite DB=sqlite:$W/registry.db
	service
	printf 'BOOTSEER stage=image.start ev=begin node=n1 ts=%s000000000 image=h/app:1\n' \
		"$(date +%s)" | "$bootseer" stage send --service "$U" --job team/j -
	report h/app:1 j1
	tell n1 "$A" train h/app
	# A name that is no UTF-8, which no answer can have.
	in_db "UPDATE image_start SET name = CAST(x'ff' AS TEXT)"
	get /v1/images
	[ "$code" = 503 ]
	browse "$U/#image/h/app:1" >"$W/group"
	grep -q 'What is known of the image cannot be had now: ' "$W/group"
	grep -q '<h2>Its starts</h2>' "$W/group"
	grep -q '<a href="#start/1">' "$W/group"
}

@test "a token sees and says what is of its repository and its node alone" {
	local name

	DB=sqlite:$W/registry.db
	while read -r name rights; do
		printf '%s sha256:%s %s\n' "$name" \
			"$(printf %s "$name" | sha256sum | cut -d' ' -f1)" "$rights"
	done >"$W/tokens" <<-'EOF'
		all read
		mine read,write repo=h/mine node=n1
		other read,write repo=h/other node=n2
		reader read repo=h/mine
		any read,write node=n1
		stored read,write node=n1 stores=s3://bkt/env
	EOF
	AUTH="--tokens $W/tokens"
	service
	TOKEN=mine
	report h/mine/app:1 j1
	tell n1 "$A" train h/mine/app
	[ "$code" = 200 ]
	# Not in another's name, not of another's image, not to read only, and not unknown.
	report h/mine/app:1 j1
	tell n2 "$A" train h/mine/app
	[ "$code" = 403 ]
	report h/other/app:1 j1
	tell n1 "$A" train h/other/app
	[ "$code" = 403 ]
	report h/app:1 j1
	tell n1 "$A" train ""
	[ "$code" = 403 ]
	TOKEN=reader
	report h/mine/app:1 j1
	tell n1 "$A" train h/mine/app
	[ "$code" = 403 ]
	TOKEN=none
	report h/mine/app:1 j1
	tell n1 "$A" train h/mine/app
	[ "$code" = 401 ]
	TOKEN=other
	report h/other/app:1 j1
	tell n2 "$B" train h/other/app
	[ "$code" = 200 ]
	get "/v1/images/$A?workload=train&repo=h/mine/app"
	[ "$code" = 403 ]
	get "/v1/images/$A?workload=train&repo=h/other/app"
	[ "$code" = 404 ]
	get "/v1/images?repo=h/mine/app"
	[ "$code" = 403 ]
	get /v1/images
	jq -e '[.images[].repo] == ["h/other/app"]' "$O"
	for path in /v1/peers /v1/starts/1/peers; do
		get $path
		[ "$code" = 403 ]
	done
	TOKEN=all
	get /v1/images
	jq -e '[.images[].repo] | sort == ["h/mine/app", "h/other/app"]' "$O"
	get /v1/peers
	jq -e '.reports == 2' "$O"
	TOKEN=reader
	get "/v1/images/$A?workload=train&repo=h/mine/app"
	jq -e '.sum.starts == 1' "$O"
	what_is_of_a_store_is_for_who_has_it
}

what_is_of_a_store_is_for_who_has_it()
{
	TOKEN=any
	report s3://bkt/env:1 j1
	tell n1 "$A" train s3://bkt/env
	[ "$code" = 403 ]
	TOKEN=stored
	tell n1 "$A" train s3://bkt/env
	[ "$code" = 200 ]
	get "/v1/images?repo=s3://bkt/env"
	jq -e '[.images[].repo] == ["s3://bkt/env"]' "$O"
	TOKEN=any
	get "/v1/images?repo=s3://bkt/env"
	[ "$code" = 403 ]
	get /v1/images
	jq -e '[.images[].repo] | any(startswith("s3:")) | not' "$O"
}

one_node_is_bounded()
{
	local i

	service
	report h/app:1 j1
	tell n1 "$A" train h/app
	in_db "UPDATE image_start SET received = received - 60"
	for i in {1..105}; do
		report h/app:1 "made-up-$i"
		cat "$W/report"
	done >"$W/many"
	i=0
	while read -r line; do
		i=$((i + 1))
		printf 'next\nurl = "%s/v1/images/%s?workload=w%s&repo=h/app"\n' "$U" "$B" "$i"
		printf 'header = "Bootseer-Node: bad"\noutput = /dev/null\ndata-binary = "%s"\n' \
			"${line//\"/\\\"}"
	done <"$W/many" | tail -n +2 >"$W/config"
	curl -fsS -K "$W/config"
	get "/v1/images?limit=1000"
	jq -e '[.images[] | select(.image[7:8] == "b")] | length == 100' "$O"
	jq -e '[.images[] | select(.image[7:8] == "a")] | length == 1' "$O"
	# Also where fewer are asked for: n1's is older than all of these.
	get /v1/images
	jq -e '.images | length == 100 and ([.[] | select(.image[7:8] == "a")] | length == 1)' "$O"
	get "/v1/images?limit=17"
	jq -e '[.images[].image[7:8]] | sort | unique == ["a", "b"]' "$O"
	# Nor is it all that is told of an image of others.
	sed 's/workload=w[0-9]*/workload=train/; s/'"$B/$A/" "$W/config" >"$W/config.same"
	curl -fsS -K "$W/config.same"
	get "/v1/images/$A?workload=train&repo=h/app"
	jq -e '.sum.starts == 9 and ([.starts[].node] | . == [range(8) | "bad"] + ["n1"])' "$O"
}

@test "a node that makes starts up pushes none of others out" {
	on_each_db one_node_is_bounded
}

reports_are_forgotten()
{
	service
	report h/app:1 j1
	tell n1 "$A" train h/app
	report h/app:1 j2
	tell n2 "$A" train h/app
	end_service TERM
	in_db "UPDATE image_start SET received = 1000 WHERE job = 'j1'"
	service
	wait_for is_left 1
	# Their texts go with them.
	in_db "DELETE FROM image_start"
	[ "$(count_in_db image_start_text)" = 0 ]
}

is_left() { [ "$(curl -fsS "$U/v1/peers?days=400" | jq .reports)" = "$1" ]; }

count_in_db() # TABLE
{
	if [ "$kind" = sqlite ]; then
		python3 -c 'import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute("SELECT count(*) FROM " + sys.argv[2]).fetchone()[0])' \
			"${DB#sqlite:}" "$1"
	else
		pg_do "$db_name" -c "SELECT count(*) FROM $1"
	fi
}

@test "what nodes said is forgotten after the retention" {
	on_each_db reports_are_forgotten
}

@test "a browser shows an image, its peers, and ways between these and a start" {
	kind=sqlite DB=sqlite:$W/registry.db
	service
	"$trace_make" "$A" 'train/x%<b>' h/app 100 100 x >"$W/trace"
	post "$W/trace" n1 "$A" 'train/x%25%3Cb%3E' h/app
	[ "$code" = 202 ]
	printf 'BOOTSEER stage=image.start ev=begin node=n1 ts=%s000000000 image=h/app:1\n' \
		"$(date +%s)" | "$bootseer" stage send --service "$U" --job team/j -
	for n in 1 2 3; do
		report h/app:1 team/j '.start.missed_files[0].path = "/opt/<img src=x>"'
		tell "n$n" "$A" 'train/x%25%3Cb%3E' h/app
	done
	hot="#hot/$A/h%2Fapp/train%2Fx%25%3Cb%3E"
	browse "$U/#images" >"$W/images"
	grep -qF "<a href=\"$hot\">h/app:1</a>" "$W/images"
	grep -q '<a href="#images" aria-current="page">Images</a>' "$W/images"
	browse "$U/#image/h/app:1" >"$W/group"
	grep -qF "<a href=\"$hot\">h/app:1</a>" "$W/group"
	browse "$U/#start/1" >"$W/start"
	grep -q '<a href="#image/h/app:1">h/app:1</a>' "$W/start"
	grep -q '<a href="#peers/start/1">peers</a>' "$W/start"

	browse "$U/$hot" >"$W/hot"
	grep -qF '<h2>h/app:1, workload train/x%&lt;b&gt;</h2>' "$W/hot"
	grep -qF '<a href="#image/h/app:1">starts of jobs with this image</a>' "$W/hot"
	grep -q '<dt>Blocks</dt><dd>100</dd>' "$W/hot"
	grep -q '<dt>Prefetched and not read</dt><dd>11 %</dd>' "$W/hot"
	grep -qF '<span class="path">/opt/&lt;img src=x&gt;</span>' "$W/hot"
	run ! grep -q '<img' "$W/hot"
	grep -q '<li>hot set, read 89 %: 24.0 kB</li><li>hot set, not read 11 %: 3.00 kB</li>' "$W/hot"
	grep -qE '<p>Half of the hot set is read within [12][0-9]+ ms, all of it within 297 ms.</p>' "$W/hot"
	[ "$(grep -o '<li>until [0-9]* ms: ' "$W/hot" | wc -l)" = 40 ]
	grep -q '<button>Show all 100</button>' "$W/hot"
	grep -q '<a href="#job/team/j">team/j</a>' "$W/hot"

	browse "$U/#peers" >"$W/peers"
	grep -q '<dt>Share of peers</dt><dd>70 %</dd>' "$W/peers"
	[ "$(grep -oE '<li>n[0-9]+ to n[0-9]+: ' "$W/peers" | sort -u | wc -l)" = 6 ]
	grep -q '<li>n9 to n2: 400 B</li>' "$W/peers"
	grep -q '<a href="#peers/days/7" aria-current="true" aria-label="7 days">7</a>' "$W/peers"
	browse "$U/#peers/start/1" >"$W/of-start"
	grep -q '<h2>Peers in team/j, attempt 0</h2>' "$W/of-start"
	grep -q '<a href="#start/1">its start</a>' "$W/of-start"
	grep -qF "<a href=\"$hot\">h/app@sha256:aaaaaaaaaaaa, workload train/x%&lt;b&gt;</a>" "$W/of-start"
	# One below a view of the menu is of that view.
	grep -q '<a href="#peers" aria-current="true">Peers</a>' "$W/of-start"
	browse "$U/#hot/../starts" >"$W/none"
	grep -q 'there is no such view' "$W/none"
	# An address that is none of a text, either.
	browse "$U/#hot/%" >"$W/none"
	grep -q 'there is no such view' "$W/none"
	run ! grep -i 'content security policy' "$W/browser/said"
}
