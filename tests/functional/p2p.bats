#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Blocks from other nodes, with the real programs: one copy from the registry, and
# a node that always finishes, whatever of tracker, peers and registry is lost.

bats_require_minimum_version 1.5.0
load node.bash
load p2p.bash

setup_file() { make_image "$BATS_FILE_TMPDIR"; }
setup() {
	node_setup
	TRACKER=
}
teardown() {
	[ -n "${BATS_TEST_COMPLETED:-}" ] ||
		tail -n 20 "$T"/*/log "$T/tracker.log" 2>/dev/null |
		sed 's/^/# /' >&3
	node_teardown
}

@test "the second node has everything from the first" {
	local all

	tracker_hold
	tracker_start
	peer_start a
	fetch_all a
	all=$(all_bytes a)
	[ "$(pack_bytes)" = "$all" ]
	peer_start b
	fetch_from_peers b
	[ "$(pack_bytes)" = "$all" ]
	[ "$(origin_bytes b)" = 0 ]
	[ "$(from_peers b)" = "$all" ]
	[ "$(p2p a .totals.served_bytes)" -ge "$all" ]
	read_on b
}

@test "nodes that begin at once read the registry about once" {
	local name all waiting=()

	tracker_hold
	tracker_start
	for name in a b c d; do
		peer_start "$name"
		prepare_on "$name"
	done
	for name in a b c d; do
		fetch_all "$name" >/dev/null 3>&- &
		waiting+=($!)
	done
	wait_all "${waiting[@]}"
	all=$(all_bytes a)
	[ "$(pack_bytes)" -ge "$all" ]
	[ "$(pack_bytes)" -le $((all * 12 / 10)) ]
	for name in a b c d; do
		read_on "$name"
	done
}

@test "the service is the tracker where none is named, with its token" {
	local service

	token_allow read,write
	token_show "$TOKEN"
	tracker_start --tokens "$T/tokens"
	service=$TRACKER TRACKER=
	peer_start a --service "$service" --service-token-file "$T/token"
	fetch_all a
	[ "$(p2p a .totals.tracker)" = true ]
	[ "$(p2p a '.trackers[0].url')" = "$service" ]
	peer_start b --service "$service/" --service-token-file "$T/token"
	fetch_from_peers b
	[ "$(origin_bytes b)" = 0 ]
	# Named, it gets the same token.
	peer_start c --service "$service" --service-token-file "$T/token" \
		--p2p-tracker "$service"
	fetch_from_peers c
	[ "$(p2p c .totals.tracker)" = true ]
}

@test "a reader's blocks come from peers too" {
	tracker_start
	peer_start a
	fetch_all a
	peer_start b --prefetch off
	mkdir "$T/b/mnt"
	on b image mount "$IMAGE" "$T/b/mnt"
	wait_for has_peers b 1
	# On a machine that is busy enough it would ask the registry too.
	fault down=1
	cmp "$T/b/mnt/big" "$D/rootfs/big"
	[ "$(peer_bytes b)" -gt 0 ]
	[ "$(origin_bytes b)" = 0 ]
	fault
	on b image umount "$T/b/mnt"
	read_on b
}

reported() { # REPORTS
	[ "$(curl -fsS "$TRACKER/v1/peers" | jq .reports)" = "$1" ]
}

# A start on the mounted image that is ready at once.
start_on() { # NAME
	local id

	id=$(on "$1" node status --json | jq -r '.images[0].id')
	BOOTSEER_SOCKET=$T/$1/run/bootseerd.sock call start.begin \
		"{\"id\":\"$id\",\"user\":\"c\",\"workload\":\"w\",\"wait\":\"none\"}" >/dev/null
	BOOTSEER_SOCKET=$T/$1/run/bootseerd.sock call start.ready '{"user":"c"}' >/dev/null
}

@test "the service is told which nodes gave blocks of a start's image" {
	local gave

	tracker_start
	peer_start a --service "$TRACKER"
	fetch_all a
	mkdir "$T/a/mnt"
	on a image mount "$IMAGE" "$T/a/mnt"
	start_on a
	wait_for reported 1
	peer_start b --service "$TRACKER" --prefetch off
	mkdir "$T/b/mnt"
	on b image mount "$IMAGE" "$T/b/mnt"
	wait_for has_peers b 1
	fault down=1
	cmp "$T/b/mnt/big" "$D/rootfs/big"
	# Who has gone has given all the same, and gives no more: what was asked for ahead of
	# the reader may come after it.
	peer_stop a
	wait_for has_no_peers b
	# Its metadata may have come from there, too, which is no start's.
	gave=$(p2p b "[.images[] | select(.metadata | not) | .peer_bytes] | add")
	start_on b
	wait_for reported 2
	curl -fsS "$TRACKER/v1/peers" >"$T/flow"
	jq -e --argjson gave "$gave" '.pairs == [["a", "b", $gave]] and .peer_bytes == $gave and
		(.nodes | map(select(.[0] == "a")) | .[0] | .[1] == 0 and .[2] > 0 and
			.[3] == $gave)' "$T/flow"
	# The next start tells of what came since.
	start_on b
	wait_for is_told_again
	curl -fsS "$TRACKER/v1/images?limit=1" | jq -e '.images[0].repo | length > 0'
}

has_no_peers() { [ "$(p2p "$1" '[.peers[] | select(.up)] | length')" = 0 ]; }

# One node's start of no job is known by the last time that it was told.
is_told_again() { [ "$(curl -fsS "$TRACKER/v1/peers" | jq .peer_bytes)" = 0 ]; }

@test "without any tracker a node reads the registry" {
	TRACKER=http://127.0.0.1:1
	peer_start a
	fetch_all a
	[ "$(p2p a .totals.tracker)" = false ]
	read_on a
}

@test "without any peer a node reads the registry, with the tracker's leave" {
	tracker_start
	peer_start a
	fetch_all a
	[ "$(p2p a .totals.tracker)" = true ]
	[ "$(from_origin a)" = "$(all_bytes a)" ]
	read_on a
}

# Node b fetches all, at RATE, in process $waiting; some of it is there.
begin_fetch() { # RATE
	peer_start b --p2p-rate "$1"
	prepare_on b
	fetch_all b >/dev/null 3>&- &
	waiting=$!
	wait_for some_came b
}

@test "when the tracker dies, neighbours go on" {
	tracker_start
	peer_start a
	fetch_all a
	peer_start b --p2p-rate 8M
	prepare_on b
	# How much a busy node would ask of the registry, too, nobody can say: it gives nothing.
	fault match=/blobs/ status=503
	fetch_all b >/dev/null 3>&- &
	waiting=$!
	wait_for some_came b
	tracker_kill
	wait "$waiting"
	[ "$(from_peers b)" = "$(all_bytes b)" ]
	fault
	read_on b
}

@test "when the registry dies, the swarm has what it holds" {
	tracker_hold
	tracker_start
	peer_start a
	fetch_all a
	peer_start b
	fetch_from_peers b
	[ "$(from_peers b)" = "$(all_bytes b)" ]
	read_on b
}

@test "a peer that is killed while it serves is left" {
	tracker_start
	peer_start a
	fetch_all a
	begin_fetch 1M
	peer_stop a KILL
	wait "$waiting"
	[ "$(origin_bytes b)" -gt 0 ]
	read_on b
}
some_came() { [ "$(peer_bytes "$1")" -gt 0 ]; } # NAME

@test "a peer that is stopped in the middle is left" {
	tracker_start
	peer_start a
	fetch_all a
	begin_fetch 1M # so that it is stopped before it gave all
	kill -STOP "${node_pids[a]}"
	# Not before a goes on, if b waited for it.
	wait "$waiting"
	kill -CONT "${node_pids[a]}"
	[ "$(origin_bytes b)" -gt 0 ]
	read_on b
}

@test "a node serves what it had before it was restarted" {
	tracker_hold
	tracker_start
	peer_start a
	fetch_all a
	peer_stop a
	peer_start a
	fault down=1
	peer_start b
	fault
	fetch_from_peers b
	read_on b
}

@test "an image that is removed is not served any more" {
	local all

	tracker_start
	peer_start a
	fetch_all a
	all=$(all_bytes a)
	on a node gc --images
	peer_start b
	fetch_all b
	[ "$(from_origin b)" = "$all" ]
	read_on b
}

# shellcheck disable=SC2120 # one has none
exchange_by_tls() { # OPTION...
	SECURITY=$*
	tracker_hold
	tracker_start
	authority ca
	certificate ca a
	certificate ca b
	# shellcheck disable=SC2046 # words
	peer_start a $(with_tls ca a)
	fetch_all a
	# shellcheck disable=SC2046
	peer_start b $(with_tls ca b)
	fetch_from_peers b
	[ "$(from_peers b)" = "$(all_bytes b)" ]
	read_on b
}

# For wait_for: the tracker's clock goes on when nothing came to b since the last look, so that
# the work of a slow machine takes no time.
as_b_waits() { # COMMAND...
	local now

	now=$(origin_bytes b)
	[ "$now" != "${came-}" ] || node_step 200
	came=$now
	"$@"
}

@test "TLS: who can reach none of those who have it does not wait for them" {
	SECURITY=
	tracker_hold
	tracker_start
	authority ca
	authority other
	certificate ca a
	certificate other b
	# shellcheck disable=SC2046 # words
	peer_start a $(with_tls ca a)
	fetch_all a
	# shellcheck disable=SC2046
	peer_start b $(with_tls other b)
	aside fetch fetch_all b
	wait_for as_b_waits has_ended fetch
	ended fetch well
	# Before a minute is over the tracker lets nobody read what a has read.
	[ "$node_ms" -lt 60000 ]
	[ "$(peer_bytes b)" = 0 ]
	[ "$(from_origin b)" = "$(all_bytes b)" ]
	read_on b
	# Both say so, and what mends it.
	wait_for grep -q '^warning p2p: link refused node="a at 127.*'$(
	)'reason=".*--p2p-tls' "$T/b/log"
	wait_for grep -q '^warning p2p: link refused node="127.*'$(
	)'reason=".*--p2p-tls' "$T/a/log"
	[ "$(p2p b .failures.untrusted)" -ge 1 ]
	run -0 on b p2p status
	[[ $output == *untrusted*"127.0.0.1:"*"--p2p-tls"* ]]
	wait_for is_missed b a
	run on b node doctor
	grep -q "^advice *peers' links *none is up; 1 of 1 not trusted, .*: a at 127.0.0.1:" <<<"$output"
	grep -q 'cure: *have certificates of all nodes' <<<"$output"
}

@test "a node of another p2p-security, and one that is away, are told" {
	tracker_start
	authority ca
	certificate ca b
	peer_start a
	fetch_all a
	SECURITY=
	# shellcheck disable=SC2046 # words
	peer_start b $(with_tls ca b)
	fetch_all b
	wait_for grep -q 'p2p: link refused .*--p2p-security' "$T/a/log"
	wait_for grep -q 'p2p: link refused .*--p2p-security' "$T/b/log"
	[ "$(p2p b .failures.unlike)" -ge 1 ]
	# One that says where it is not.
	unset SECURITY
	peer_start c --p2p-advertise 127.0.0.1:1
	fetch_all c
	wait_for grep -q 'p2p: node unreachable node="c at 127.0.0.1:1" '$(
	)'reason="connect: .*--p2p-advertise' "$T/b/log"
	[ "$(p2p b .failures.unreachable)" -ge 1 ]
	wait_for is_missed b c
	run -0 on b p2p status
	[[ $output == *unreachable*"c "*"failed "*" times: connect: "* ]]
	run -0 on b node status
	[[ $output == *"peers     "*" links did not come about"*"p2p status"* ]]
	# Nobody is left, for a reason each.
	wait_for is_missed b a
	run on b node doctor
	grep -q "^advice *peers' links *none is up; 1 of 2 out of reach: c at 127.0.0.1:1: connect: " <<<"$output"
	grep -q 'cure: *let the port of --p2p-listen through' <<<"$output"
	grep -q "^advice *peers' links *none is up; 1 of 2 of another --p2p-security, .*: a at " <<<"$output"
	grep -q 'cure: *give all nodes one --p2p-security' <<<"$output"
}
# NODE lists OTHER as one that fails.
is_missed() {
	[ "$(p2p "$1" '.peers[] | select(.node == "'"$2"'") | .failures > 0')" = true ]
}

@test "TLS: nodes of one authority exchange blocks" {
	exchange_by_tls
}

@test "TLS for control and signed blocks: the same" {
	exchange_by_tls --p2p-security signed
}

# A tracker that gives rights to images of $REGISTRY, and $KEYS to check them with.
tracker_with_rights() {
	openssl genpkey -algorithm ed25519 -out "$T/sign.key"
	chmod 600 "$T/sign.key"
	openssl pkey -in "$T/sign.key" -pubout -out "$T/keys.pem"
	KEYS="--p2p-rights $T/keys.pem"
	tracker_start --capability-key "$T/sign.key" --registry "$REGISTRY" \
		--registry-plain-http
}

@test "blocks are for those who may pull the image, until that is revoked" {
	tracker_with_rights
	# shellcheck disable=SC2086 # words
	peer_start a $KEYS
	fetch_all a
	# shellcheck disable=SC2086
	peer_start b $KEYS
	fetch_from_peers b
	[ "$(from_peers b)" = "$(all_bytes b)" ]
	[ "$(p2p a '.images[0].peers')" = 1 ]
	curl -fsS -X DELETE "$TRACKER/v1/capabilities?node=b"
	kill -HUP "${node_pids[a]}"
	wait_for is_alone a
	wait_for is_alone b
	# Each says it of the other; b is sent to the log of a.
	wait_for grep -q 'p2p: denied another node node="b" '$(
	)'reason="capability: it was revoked' "$T/a/log"
	[[ $(p2p a .last_failure.error) == *revoked* ]]
	# Its next image gets no capability, and the log says why.
	peer_stop b
	# shellcheck disable=SC2086
	peer_start b $KEYS
	prepare_on b
	wait_for grep -q 'p2p: no capability.*image=.*revoked' "$T/b/log"
	# So does who is asked, of the blocks as of the metadata, which may have been told of first.
	wait_for is_told_revoked b
	run -0 on b p2p status
	[[ $output == *"no right  the registry is read: "*revoked* ]]
	run on b node doctor
	[[ $output == *"advice   capability "*revoked* ]]
}

@test "the image of another repository is not to be had from who has a private one" {
	local private=$REGISTRY/private/img:v1 public=$IMAGE

	tracker_with_rights
	# shellcheck disable=SC2086 # words
	peer_start a $KEYS
	IMAGE=$private
	fetch_all a
	# The same artifact, by its digest, from where everybody may pull.
	# shellcheck disable=SC2086
	peer_start b $KEYS
	IMAGE=$public
	fetch_all b
	[ "$(p2p a '.images[0].id')" = "$(p2p b '.images[0].id')" ]
	[ "$(peer_bytes b)" = 0 ]
	[ "$(p2p a .totals.served_bytes)" = 0 ]
	# Who pulls it from there has it from a.
	# shellcheck disable=SC2086
	peer_start c $KEYS
	IMAGE=$private
	fetch_from_peers c
	[ "$(from_peers c)" = "$(all_bytes c)" ]
	[ "$(p2p b .totals.served_bytes)" = 0 ]
}

@test "who shows no capability is told of it, and so is who wants one" {
	tracker_with_rights
	# shellcheck disable=SC2086 # words
	peer_start a $KEYS
	fetch_all a
	peer_start b
	fetch_all b
	[ "$(peer_bytes b)" = 0 ]
	wait_for grep -q 'p2p: denied another node node="b" '$(
	)'reason="it showed no capability' "$T/a/log"
	wait_for grep -q 'p2p: denied by another node node="a" '$(
	)'reason=".*--p2p-rights names no keys' "$T/b/log"
	[ "$(p2p b .failures.denied)" -ge 1 ]
	run -0 on a p2p status
	[[ $output == *"failures  "*" denied; the last "*" b at "*"it showed no capability"* ]]
}

@test "the log says when a tracker is lost and when it is back" {
	local TRACKER_ADDRESS

	TRACKER_ADDRESS=$(own_address)
	tracker_start
	peer_start a
	fetch_all a
	tracker_kill
	wait_for grep -q "^warning p2p: tracker lost url=\"$TRACKER\" reason" \
		"$T/a/log"
	"$bootseer_registry" --listen "${TRACKER#http://}" --insecure-no-auth \
		--db "sqlite:$T/tracker.db" 2>>"$T/tracker.log" 3>&- &
	pids+=("$!")
	wait_for grep -q "^info p2p: tracker back url=\"$TRACKER\"\$" "$T/a/log"
	# Once each, however many calls there were.
	[ "$(grep -c 'p2p: tracker lost' "$T/a/log")" = \
		"$(grep -c 'p2p: tracker back' "$T/a/log")" ]
}

@test "the log and status say that a tracker refuses, and what mends it" {
	token_allow read
	token_show wrong
	tracker_start --tokens "$T/tokens"
	peer_start a --service-token-file "$T/token"
	# Before any image.
	wait_for grep -q "^warning p2p: tracker refuses url=\"$TRACKER\" reason=\"401: .*--service-token-file" "$T/a/log"
	[ "$(p2p a '.trackers[0].state')" = refuses ]
	[ "$(p2p a .totals.tracker)" = false ]
	run -0 on a p2p status
	[[ $output == *"$TRACKER: refuses this node: 401: "* ]]
	fetch_all a
	# Without the role for it.
	token_show "$TOKEN"
	wait_for grep -q 'p2p: tracker refuses .*403: .*read,write' "$T/a/log"
	token_allow read,write
	kill -HUP "$tracker_pid"
	wait_for grep -q "^info p2p: tracker back url=\"$TRACKER\"\$" "$T/a/log"
	[ "$(grep -c 'p2p: tracker refuses' "$T/a/log")" = 2 ]
	run -0 on a p2p status
	[[ $output == *"$TRACKER: answers"* ]]
}

@test "a token that is mended is seen at a reload, without any image" {
	token_allow read,write
	token_show wrong
	tracker_start --tokens "$T/tokens"
	peer_start a --service-token-file "$T/token"
	wait_for grep -q 'p2p: tracker refuses .*401' "$T/a/log"
	token_show "$TOKEN"
	kill -HUP "${node_pids[a]}"
	wait_for grep -q "^info p2p: tracker back url=\"$TRACKER\"\$" "$T/a/log"
	[ "$(p2p a .totals.tracker)" = true ]
	[ "$(curl -fsS -H "Authorization: Bearer $TOKEN" "$TRACKER/v1/swarms" |
		jq '.swarms | length')" = 0 ]
}

@test "doctor checks what peers need" {
	local url

	SECURITY=
	authority ca
	certificate ca a
	tracker_start
	url=$TRACKER
	# shellcheck disable=SC2046 # words
	peer_start a $(with_tls ca a) --p2p-tracker http://127.0.0.1:9
	run on a node doctor
	grep -q '^ok *peers *certificate: good until 20' <<<"$output"
	grep -q "^ok *peers' address *127.0.0.1:0" <<<"$output"
	grep -q "^ok *peers' links *0 up, 0 do not come about" <<<"$output"
	grep -q "^ok *tracker *$url answers" <<<"$output"
	grep -q '^advice *tracker *.*http://127.0.0.1:9: .*connect' <<<"$output"
	# It says what there is now, not what was at the start.
	certificate ca a 0
	tracker_kill
	run on a node doctor
	grep -q '^advice *peers *.*expired' <<<"$output"
	grep -q "^advice *tracker *.*$url" <<<"$output"
	grep -q 'cure: *mend that file' <<<"$output"
	# A key that others may read is used, and named.
	certificate ca a
	run on a node doctor
	grep -q '^ok *peers ' <<<"$output"
	[[ $output != *"peers' key"* ]]
	chmod 644 "$T/a.key"
	run on a node doctor
	grep -q "^advice *peers' key *'$T/a.by-ca/tls.key' .*everybody, mode 0644" \
		<<<"$output"
	grep -q "cure: *chmod 600 $T/a.by-ca/tls.key" <<<"$output"
	run ! grep alone "$T/a/log"
	kill -HUP "${node_pids[a]}"
	wait_for grep -q "^warning p2p: the key .*: chmod 600 $T/a.by-ca/tls.key" "$T/a/log"
	TRACKER=
	SECURITY='--p2p-security open'
	peer_start b --p2p-advertise 192.0.2.7:9740
	run on b node doctor
	grep -q '^ok *peers *certificate: none' <<<"$output"
	grep -q "^advice *peers' address *.*192.0.2.7:9740.*no address of" \
		<<<"$output"
	grep -q '^advice *tracker *none is named' <<<"$output"
}

@test "what is no tracker is told, and that none is named" {
	TRACKER=$REGISTRY
	[[ $TRACKER == http* ]] || TRACKER=http://$REGISTRY
	peer_start a
	wait_for grep -q 'p2p: tracker refuses .*404.*it is no tracker' "$T/a/log"
	TRACKER=
	peer_start b
	run -0 on b p2p status
	[[ $output == *"none is named"*"--p2p-tracker"* ]]
	grep -q '^warning p2p: no tracker is named .*--p2p-tracker' "$T/b/log"
	run ! grep 'no tracker is named' "$T/a/log"
}

@test "certificates that no other node would believe are told" {
	authority ca
	authority other
	certificate ca a
	check() { # PATTERN OPTION...
		local want=$1

		shift
		run -2 "$bootseerd" --p2p-listen 127.0.0.1:0 --node-name a \
			"$@" --check-config
		[[ $output == *$want* ]]
	}
	# shellcheck disable=SC2046 # words
	"$bootseerd" --p2p-listen 127.0.0.1:0 --node-name a \
		$(with_tls ca a) --check-config
	# shellcheck disable=SC2046
	check "is of node 'a'" $(with_tls ca a) --node-name b
	# shellcheck disable=SC2046
	check 'no authority in ca.crt of --p2p-tls' $(with_tls other a)
	: >"$T/empty"
	# shellcheck disable=SC2046
	check "'$T/empty' is empty" $(with_tls ca a) --service-token-file "$T/empty"
	# shellcheck disable=SC2046
	check "'$T/empty'" $(with_certificate ca a) --p2p-rights "$T/empty"
	# shellcheck disable=SC2046
	check 'a private key' $(with_certificate ca a) --p2p-rights "$T/a.key"
	# shellcheck disable=SC2046
	check "'$T/empty'" $(with_tls ca a) --service-ca-file "$T/empty"
}
is_alone() { [ "$(p2p "$1" '.images[0].peers')" = 0 ]; } # NAME
is_told_revoked() { # NAME
	[[ $(p2p "$1" '.images[] | select(.metadata | not) | .error') == *revoked* ]]
}

@test "a reload onto a certificate that is over is told, and until when one is" {
	SECURITY=
	authority ca
	certificate ca a
	# shellcheck disable=SC2046 # words
	peer_start a --metrics 127.0.0.1:0 $(with_tls ca a)
	[ "$(p2p a .certificate_not_after)" -gt "$(date +%s)" ]
	run -0 on a p2p status
	[[ $output == *"cert      good until "*" day"* ]]
	certificate ca a 0
	reload_peer a
	wait_for grep -q "p2p: others will not believe this node .*expired" "$T/a/log"
	run -0 on a p2p status
	[[ $output == *"cert      over since "* ]]
	certificate ca a
	reload_peer a
	wait_for grep -q '^info p2p: certificate is good again' "$T/a/log"
	echo broken >"$T/a.key"
	kill -HUP "${node_pids[a]}"
	wait_for grep -q '^warning p2p: not all is reloaded' "$T/a/log"
	port=$(sed -nE 's/.*metrics port=([0-9]+).*/\1/p' "$T/a/log")
	wait_for failed_reloads_are 1
	[ "$(reloads_of a)" = 2 ]
}

failed_reloads_are() {
	curl -fsS "http://127.0.0.1:$port/metrics" |
		grep -qx "bootseer_node_reloads_failed_total $1"
}

@test "two nodes of one name are told, here and by the tracker" {
	tracker_start
	peer_start a
	fetch_all a
	peer_start b --node-name a
	fetch_all b
	wait_for grep -q "p2p: another node has this node's name node=\"127" \
		"$T/a/log"
	wait_for grep -q "p2p: another node has this node's name node=\"127" \
		"$T/b/log"
	grep -q 'swarms: two nodes have one name node="a"' "$T/tracker.log"
	run -0 on b p2p status
	[[ $output == *"namesake; the last "*"give each its own --node-name"* ]]
	curl -fsS "$TRACKER/metrics" | grep -q '_swarm_namesakes_total [1-9]'
}

@test "status shows nodes, images and where blocks came from" {
	tracker_start
	peer_start a
	fetch_all a
	peer_start b
	fetch_all b
	wait_for has_peers b 1
	run -0 on b p2p status
	[[ $output == *"$TRACKER: answers"* ]]
	[[ $output == *"$IMAGE"* ]]
	[[ $output == *"a "*"127.0.0.1:"*"tcp"* ]]
	run -0 on b node status
	[[ $output == *"peers     1 node"* ]]
	node_start
	run -0 "$bootseer" p2p status
	[[ $output == *"--p2p-listen"* ]]
	run -0 "$bootseer" node status
	[[ $output == *"peers     off"* ]]
}

@test "addresses that lead nobody here, and others' paths, are refused" {
	refused() { # PATTERN OPTION...
		local want=$1

		shift
		run -2 "$bootseerd" --p2p-security open "$@" --check-config
		# shellcheck disable=SC2053 # a pattern
		[[ $output == *$want* ]]
	}
	refused '--p2p-listen*localhost:9740*in digits' --p2p-listen localhost:9740
	refused '--p2p-listen*is every address*--p2p-advertise' \
		--p2p-listen 0.0.0.0:9740
	refused '--p2p-advertise*is every address' --p2p-listen 0.0.0.0:9740 \
		--p2p-advertise 0.0.0.0:9740
	refused '--p2p-advertise*port 0' --p2p-listen 0.0.0.0:9740 \
		--p2p-advertise 10.0.0.1:0
	refused '--p2p-advertise*n1:9740*in digits' --p2p-listen 0.0.0.0:9740 \
		--p2p-advertise n1:9740
	refused '--p2p-tracker*no path' --p2p-listen 127.0.0.1:0 \
		--p2p-tracker http://127.0.0.1:1/v1
	"$bootseerd" --p2p-security open --p2p-listen 0.0.0.0:9740 \
		--p2p-advertise '[fd00::1]:9740' \
		--p2p-tracker https://traces.internal:9730/ --check-config
}

@test "a port that is taken, and an address that is not here, are told" {
	local dir=$T/x

	mkdir "$dir"
	peer_start a
	run -1 "$bootseerd" --root "$dir/root" --run "$dir/run" \
		--p2p-security open --p2p-listen "127.0.0.1:$(p2p a .port)"
	[[ $output == *--p2p-listen*"listens there already"* ]]
	run -1 "$bootseerd" --root "$dir/root" --run "$dir/run" \
		--p2p-security open --p2p-listen 192.0.2.1:9740
	[[ $output == *--p2p-listen*"no address of this machine"* ]]
}

@test "options of peers that do not fit together are refused" {
	run -2 "$bootseerd" --p2p-listen 127.0.0.1:0
	[[ $output == *"--p2p-tls"* ]]
	run -2 "$bootseerd" --p2p-tracker http://127.0.0.1:1
	[[ $output == *"--p2p-listen"* ]]
	run -2 "$bootseerd" --p2p-listen 127.0.0.1:0 --p2p-security open \
		--p2p-tracker 127.0.0.1:1
	[[ $output == *"http://"* ]]
	: >"$T/token"
	run -2 "$bootseerd" --p2p-listen 127.0.0.1:0 --p2p-security open \
		--p2p-tracker http://10.0.0.1:1 --service-token-file "$T/token"
	[[ $output == *"in the clear"*"https://"*"--plain-http"* ]]
	run -2 "$bootseerd" --p2p-listen 127.0.0.1:0 --p2p-security open \
		--p2p-tracker http://10.0.0.1:1 --p2p-rights "$T/token"
	[[ $output == *"registry credentials"* ]]
	echo secret >"$T/token"
	"$bootseerd" --p2p-listen 127.0.0.1:0 --p2p-security open \
		--p2p-tracker http://10.0.0.1:1 --service-token-file "$T/token" \
		--plain-http 10.0.0.1:1 --check-config
	# Another one's leave is not this one's.
	run -2 "$bootseerd" --p2p-listen 127.0.0.1:0 --p2p-security open \
		--p2p-tracker http://10.0.0.1:1 --p2p-tracker http://10.0.0.2:1 \
		--service-token-file "$T/token" --plain-http 10.0.0.1:1 --check-config
	[[ $output == *"'http://10.0.0.2:1' would get"* ]]
}

@test "that every node may have every image is said, and is no empty setting" {
	authority ca
	certificate ca a
	openssl genpkey -algorithm ed25519 | openssl pkey -pubout -out "$T/keys.pem"
	config() { # OPTION...
		# shellcheck disable=SC2046 # words
		"$bootseerd" --p2p-listen 127.0.0.1:0 --node-name a \
			$(with_certificate ca a) "$@" --check-config
	}
	run -2 config
	[[ $output == *"--p2p-rights FILE"*"--p2p-rights cluster"* ]]
	run -2 config --p2p-security signed
	[[ $output == *"--p2p-rights FILE"*"--p2p-rights cluster"* ]]
	# Nor does bootseerd start so.
	mkdir "$T/x"
	# shellcheck disable=SC2046
	run -2 "$bootseerd" --root "$T/x/root" --run "$T/x/run" \
		--p2p-listen 127.0.0.1:0 --node-name a $(with_certificate ca a)
	[[ $output == *"--p2p-rights cluster"* ]]
	config --p2p-rights cluster
	config --p2p-rights "$T/keys.pem"
	run -2 config --p2p-rights capability
	[[ $output == *"'capability' is not there: "*"public keys, or say cluster"* ]]
	# A lab says it by what it says already.
	"$bootseerd" --p2p-listen 127.0.0.1:0 --p2p-security open --check-config
}

@test "alerts are about figures that are there" {
	local rules=$BATS_TEST_DIRNAME/../../deploy/alerts.yml

	grep -o 'bootseer_[a-z0-9_]*' "$rules" | sort -u >"$T/wanted"
	[ "$(wc -l <"$T/wanted")" -ge 10 ]
	{
		"$bootseerd" --list-metrics
		"$bootseer_registry" --list-metrics
	} | grep -o '^bootseer_[a-z0-9_]*' | sort -u >"$T/there"
	run -0 comm -23 "$T/wanted" "$T/there"
	[ -z "$output" ]
}
