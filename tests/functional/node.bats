#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bootseerd with a registry that behaves: mounts, restarts, the command line.

bats_require_minimum_version 1.5.0
load node.bash

setup_file() { make_image "$BATS_FILE_TMPDIR"; }
setup() { node_setup; }
teardown() { node_teardown; }

@test "a mounted image is what an ordinary unpack gives" {
	node_start
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	[ "$(fetches)" -lt 8 ]
	listing "$T/mnt" | diff "$D/want" -
	"$bootseer" image umount "$T/mnt"
	[ "$(mounts_left)" -le 1 ]
	node_stop
	[ "$(mounts_left)" -eq 0 ]
}

@test "every data path serves the same files" {
	local kind

	for kind in erofs-fuse erofs-loop fuse; do
		node_start --datapath "$kind"
		[ "$(status .datapath)" = "$kind" ]
		"$bootseer" image mount "$IMAGE" "$T/mnt"
		listing "$T/mnt" | diff "$D/want" -
		"$bootseer" image umount "$T/mnt"
		"$bootseer" node gc --images --cache 0
		node_stop
	done
}

# A thread that held its lock as another one forked has it for ever in the child.
@test "the child that mounts leaves the allocator alone" {
	local kind NODE_PRELOAD=$BOOTSEER_BUILD/tests/fakes/test-fork-alloc.so
	local -A modes=([auto]=complete [erofs-fuse]=lazy [erofs-loop]=lazy [fuse]=lazy)

	for kind in auto erofs-fuse erofs-loop fuse; do
		node_start --datapath "$kind"
		"$bootseer" image mount "$IMAGE" "$T/mnt"
		[ "$(status '.images[0].mode')" = lazy ]
		cmp "$T/mnt/big" "$D/rootfs/big"
		"$bootseer" node doctor >"$T/doctor"
		"$bootseer" image umount "$T/mnt"
		"$bootseer" image prefetch --wait "$IMAGE"
		"$bootseer" image mount "$IMAGE" "$T/mnt"
		# Whole on the node, and by the way that was asked for all the same.
		[ "$(status '.images[0].mode')" = "${modes[$kind]}" ]
		"$bootseer" image umount "$T/mnt"
		"$bootseer" node gc --images --cache 0
		node_stop
		run ! grep test-fork-alloc "$T/log" "$T/doctor"
	done
}

@test "one mount serves all users and goes with the last" {
	mkdir "$T/two"
	node_start
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	"$bootseer" image mount "$IMAGE" "$T/two"
	"$bootseer" image mount "$IMAGE" "$T/two"
	[ "$(status '.images | length')" = 1 ]
	[ "$(status '.images[0].users | length')" = 2 ]
	"$bootseer" image umount "$T/mnt"
	[ "$(status '.images[0].mode')" = lazy ]
	cmp "$T/two/big" "$D/rootfs/big"
	"$bootseer" image umount "$T/two"
	[ "$(status '.images[0].mode')" = none ]
	run ! "$bootseer" image umount "$T/two"
}

@test "umount leaves what others mounted" {
	node_start
	mount -t tmpfs none "$T/mnt"
	run ! "$bootseer" image umount "$T/mnt"
	[[ $output == *"no image is mounted at"* ]]
	mountpoint "$T/mnt"
	umount "$T/mnt"
}

@test "an image that is whole is mounted without a daemon in the path" {
	node_start
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	cat "$T/mnt/big" "$T/mnt/top/data" "$T/mnt/bin/busybox" >/dev/null
	listing "$T/mnt" >/dev/null
	"$bootseer" image umount "$T/mnt"
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	[ "$(status '.images[0].mode')" = complete ]
	[ "$(status .cache.pinned_bytes)" -gt 0 ]
	listing "$T/mnt" | diff "$D/want" -
	"$bootseer" image umount "$T/mnt"
	[ "$(status .cache.pinned_bytes)" = 0 ]
	# Something is missing: lazy again, by itself.
	"$bootseer" node gc --cache 0
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	[ "$(status '.images[0].mode')" = lazy ]
	cmp "$T/mnt/big" "$D/rootfs/big"
	"$bootseer" image umount "$T/mnt"
}

@test "a complete mount outlives bootseerd and is adopted" {
	node_start
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	listing "$T/mnt" >/dev/null
	"$bootseer" image umount "$T/mnt"
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	[ "$(status '.images[0].mode')" = complete ]
	node_stop KILL
	listing "$T/mnt" | diff "$D/want" -
	node_start
	[ "$(status '.images[0].mode')" = complete ]
	[ "$(status .cache.pinned_bytes)" -gt 0 ]
	"$bootseer" node gc --cache 0
	"$BATS_TEST_DIRNAME/forget-pages.py" "$T/mnt" "$T"/root/cache/segment-*
	listing "$T/mnt" | diff "$D/want" -
	"$bootseer" image umount "$T/mnt"
}

# Kill it twice while a file is read through the given data path.
kill_while_reading() { # KIND
	local reader child

	node_start --hold --datapath "$1"
	child=$(child_of "$node_pid")
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	fault delay_ms=300 match=/blobs/
	sha256sum <"$T/mnt/big" >"$T/sum" 3>&- &
	reader=$!
	wait_for read_is_under_way
	kill -KILL "$child"
	wait_for successor_is_up "$child"
	kill -KILL "$(child_of "$node_pid")"
	fault
	wait "$reader"
	[ "$(cat "$T/sum")" = "$(sha256sum <"$D/rootfs/big")" ]
	wait_for "$bootseer" node status
	listing "$T/mnt" | diff "$D/want" -
	"$bootseer" image umount "$T/mnt"
	node_stop
	[ "$(mounts_left)" -eq 0 ]
}

@test "reads wait over kills of bootseerd and succeed: erofs-fuse" {
	kill_while_reading erofs-fuse
}

@test "reads wait over kills of bootseerd and succeed: erofs-loop" {
	kill_while_reading erofs-loop
}

@test "reads wait over kills of bootseerd and succeed: fuse" {
	kill_while_reading fuse
}

read_is_under_way() { (($(fetches) > 4)); }

successor_is_up() { # PID
	local now

	now=$(child_of "$node_pid") && [ "$now" ] && [ "$now" != "$1" ]
}

@test "mounts are there again before the first call is answered" {
	node_start
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	umount "$T/mnt"
	node_stop
	[ "$(mounts_left)" -eq 0 ]
	fault down=1
	node_start
	[ "$(status '.images[0].mode')" = lazy ]
	[ "$(status '.images[0].users[0]')" = "dir:$T/mnt" ]
	[ -L "$(status '.images[0].path')/bin/sh" ]
	"$bootseer" image umount "$T/mnt"
}

@test "a second bootseerd on the same folder is refused" {
	node_start
	run -1 "$bootseerd" --root "$T/root" --run "$T/run2"
	[[ $output == *cache* ]]
}

@test "a second bootseerd with the same --run is refused and breaks nothing" {
	node_start --datapath erofs-fuse
	run -1 "$bootseerd" --root "$T/root2" --run "$T/run"
	[[ $output == *"another bootseerd uses '$T/run'"* ]]
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	listing "$T/mnt" | diff "$D/want" -
	"$bootseer" image umount "$T/mnt"
}

@test "prepare tells the image's chain and where it came from" {
	local reply

	node_start
	reply=$(call image.prepare "{\"ref\":\"$IMAGE\"}")
	[ "$(jq -r .result.source <<<"$reply")" = registry ]
	[ "$(jq '.result.chain_ids | length' <<<"$reply")" = \
		"$(jq '.rootfs.diff_ids | length' <(config_of))" ]
	[ "$(jq -r .result.manifest <<<"$reply")" = "$(manifest_of)" ]
	reply=$(call image.prepare "{\"ref\":\"$IMAGE\"}")
	[ "$(jq -r .result.source <<<"$reply")" = node ]
}

manifest_of() {
	jq -r '.manifests[] | select(.annotations[
		"org.opencontainers.image.ref.name"] == "v1") | .digest' \
		"$D/src/index.json"
}
blob() { cat "$D/src/blobs/sha256/${1#sha256:}"; } # DIGEST
config_of() { blob "$(blob "$(manifest_of)" | jq -r .config.digest)"; }

@test "an artifact counts for its own repository only" {
	local first=$REGISTRY first_image=$IMAGE

	# The same image elsewhere, where nobody put an artifact beside it.
	cp -r "$D/src" "$T/oci"
	rm "$T/ports"
	D=$T registry_start
	node_start --plain-http "$first"
	call image.prepare "{\"ref\":\"$first_image\"}" | jq -e .result.id
	[ "$(call image.prepare "{\"ref\":\"$IMAGE\",\"plain_http\":true,
		\"manifest\":\"$(manifest_of)\"}" | jq .error.errno)" = 2 ]
	[ "$(call image.prepare "{\"ref\":\"$IMAGE\",\"plain_http\":true}" |
		jq .error.errno)" = 2 ]
}

@test "many prepares of one image fetch it once" {
	local i p=()

	node_start
	fault delay_ms=100 match=/blobs/
	for i in {1..8}; do
		call image.prepare "{\"ref\":\"$IMAGE\"}" >"$T/reply$i" 3>&- &
		p+=($!)
	done
	wait_all "${p[@]}"
	for i in {1..8}; do
		[ "$(jq -r .result.id "$T/reply$i")" = \
			"$(jq -r .result.id "$T/reply1")" ]
	done
	# Configs are small and asked for by each who comes early enough;
	# metadata and map are fetched once.
	[ "$(grep '^GET .*/blobs/' "$T/requests" | sort | uniq -c |
		awk '$1 == 1' | wc -l)" -ge 2 ]
}

@test "an ordinary layer is unpacked as overlayfs wants it" {
	local reply n i

	node_start
	n=$(blob "$(manifest_of)" | jq '.layers | length')
	for ((i = 0; i < n; i++)); do
		mkdir "$T/l$i"
		reply=$(call layer.apply "{\"ref\":\"$IMAGE\",\"layer\":$i,
			\"dir\":\"$T/l$i\"}")
		[ "$(jq '.result.bytes > 0' <<<"$reply")" = true ]
	done
	mkdir "$T/upper" "$T/work"
	mount -t overlay -o "lowerdir=$T/l3:$T/l2:$T/l1:$T/l0" overlay "$T/mnt"
	listing "$T/mnt" | diff "$D/want" -
	umount "$T/mnt"
	reply=$(call layer.apply "{\"ref\":\"$IMAGE\",\"layer\":9,\"dir\":\"$T\"}")
	[[ $(jq -r .error.message <<<"$reply") == *"layer 9 of"* ]]
}

@test "requests that are wrong are refused and harm nothing" {
	node_start
	[ "$(call no.such '{}' | jq .error.errno)" = 38 ]
	[ "$(call image.mount '{"id":"sha256:x","user":"u"}' | jq .error.errno)" = 22 ]
	[ "$(call image.mount '{"user":"u"}' | jq .error.errno)" = 22 ]
	[ "$(call node.status '{"x":1}' | jq .error.errno)" = 22 ]
	[ "$(call image.prepare '{"ref":"oci:/tmp/x"}' | jq .error.errno)" = 22 ]
	[ "$(call image.umount '{"user":"nobody"}' | jq .result.released)" = 0 ]
	[[ $(call image.prepare "{\"ref\":\"$REGISTRY/img:nope\"}" |
		jq -r .error.message) == *"$REGISTRY/img:nope"* ]]
	status .pid
}

@test "only root may speak to it" {
	node_start
	chmod 755 "$T" "$T/run"
	chmod 666 "$BOOTSEER_SOCKET"
	run ! as_nobody "$bootseer" node status
	grep -q 'refused uid=65534' "$T/log"
}

as_nobody() { setpriv --reuid 65534 --clear-groups "$@"; }

@test "somebody without the rights is told to be root" {
	node_start
	chmod 755 "$T" "$T/run"
	for words in "node status" "image umount $T/mnt" \
		"image ready --user x" "trace ls --local --root $T/root"; do
		run -1 as_nobody "$bootseer" $words
		echo "$words: $output"
		[[ $output == *'run it as root, for example with sudo' ]]
	done
	run -2 as_nobody "$bootseerd" --root "$T/new" --run "$T/run"
	[[ $output == *'user 65534 may not: run it as root (sudo bootseerd'* ]]
	# Root itself is not told so.
	run ! "$bootseerd" --root "$T/log/x" --run "$T/run"
	[[ $output != *'as root'* ]]
}

@test "a folder whose parent is not there is not made but told" {
	run -2 "$bootseerd" --root "$T/var/lbi/x" --run "$T/run"
	[[ $output == *"'$T/var/lbi/x': there is no '$T/var/lbi':"* ]]
	run -2 "$bootseerd" --root "$T/root" --run "$T/rnu/x"
	[[ $output == *"there is no '$T/rnu':"* ]]
	[ ! -e "$T/var" ] && [ ! -e "$T/rnu" ]
}

@test "metrics are Prometheus text" {
	local port

	node_start --metrics 127.0.0.1:0
	port=$(sed -nE 's/.*metrics port=([0-9]+).*/\1/p' "$T/log")
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	cat "$T/mnt/big" >/dev/null
	curl -fsS "http://127.0.0.1:$port/metrics" >"$T/metrics"
	grep -q '^bootseer_node_images_mounted 1$' "$T/metrics"
	[ "$(awk '/^bootseer_node_fetched_bytes_total/ { print $2 }' \
		"$T/metrics")" -gt 20000000 ]
	run -1 grep -vE '^(# (HELP|TYPE) |)bootseer_node_[a-z0-9_]+(\{le="[0-9+Inf]+"\})? ' \
		"$T/metrics"
	"$bootseer" image umount "$T/mnt"
	[ "$(curl -s -o /dev/null -w '%{http_code}' \
		"http://127.0.0.1:$port/other")" = 404 ]
	curl -fsSI "http://127.0.0.1:$port/metrics" | grep -q '^Content-Length: [1-9]'
	curl -sS -D "$T/refused" -X DELETE "http://127.0.0.1:$port/metrics"
	grep -q '^HTTP/1.1 405 ' "$T/refused"
	grep -q '^Allow: GET, HEAD' "$T/refused"
	[ "$(curl -s -o /dev/null -w '%{http_code}' -X GET -d body \
		"http://127.0.0.1:$port/metrics")" = 413 ]
}

# 80 connections, until a line comes by FIFO; then the first ten have ended, without a word.
say_nothing() { # PORT FIFO
	perl -MIO::Socket::INET -e '
		$| = 1;
		my @all = map { IO::Socket::INET->new("127.0.0.1:$ARGV[0]")
			or die "connect: $!\n" } 1 .. 80;
		print "there\n";
		open(my $go, "<", $ARGV[1]) or die "$ARGV[1]: $!\n";
		<$go>;
		for (@all[0 .. 9]) {
			my $n = sysread($_, my $text, 1);
			die "it does not end\n" unless defined $n && $n == 0;
		}' "$@"
}

@test "metrics are there while others hold connections and say nothing" {
	local port

	node_hold # silence is borne for 30 s
	node_start --metrics 127.0.0.1:0
	port=$(sed -nE 's/.*metrics port=([0-9]+).*/\1/p' "$T/log")
	mkfifo "$T/go"
	aside others say_nothing "$port" "$T/go" >"$T/others"
	wait_for grep -q there "$T/others"
	curl -fsS "http://127.0.0.1:$port/metrics" | grep -q '^bootseer_node_'
	# Of 64 places, the longest silent gave theirs.
	echo >"$T/go"
	wait_for has_ended others
	ended others well
}

@test "a prepare that fails is counted, what is not there is none" {
	local port

	node_start --metrics 127.0.0.1:0 \
		--trust 127.0.0.1:1=registry
	port=$(sed -nE 's/.*metrics port=([0-9]+).*/\1/p' "$T/log")
	failed() {
		curl -fsS "http://127.0.0.1:$port/metrics" |
			sed -n 's/^bootseer_node_prepares_failed_total //p'
	}
	"$bootseer" image prefetch --stop "$IMAGE"
	run -1 "$bootseer" image prefetch "${IMAGE%:*}:none"
	[ "$(failed)" = 0 ]
	run -1 "$bootseer" image prefetch --plain-http 127.0.0.1:1/a:1
	[ "$(failed)" = 1 ]
}

@test "every metric is in the documents" {
	"$bootseerd" --list-metrics | grep '^bootseer_node_' >"$T/has"
	[ -s "$T/has" ]
	sed -n '/^.SH METRICS/,/^.SH SEE/p' "$BOOTSEER_BUILD/docs/bootseerd.8" |
		grep -o 'bootseer_node_[a-z0-9_]*' | diff "$T/has" -
}

@test "a file that the configuration names and that is not there is told" {
	for option in ca-file service-token-file service-ca-file; do
		run -2 "$bootseerd" --root "$T/root" --run "$T/run" \
			"--$option" "$T/none" --check-config
		[[ $output == *"'--$option': '$T/none': No such file"* ]]
	done
	run -2 "$bootseerd" --root "$T/root" --run "$T/run" \
		--auth-file "$T/none" --check-config
	[[ $output == *"'--auth-file': '$T/none' is not there: "* ]]
}

@test "gc wants to know what to give back" {
	run -2 "$bootseer" node gc
	[[ $output == *--images*--cache* ]]
}

@test "doctor names what is there, what is not, and the cure" {
	echo 'version = 2' >"$T/containerd.toml"
	node_start
	run -0 "$bootseer" node doctor --registry "$REGISTRY" \
		--containerd "$T/containerd.toml"
	grep -q '^ok *datapath erofs-fuse *works; in use' <<<"$output"
	grep -q '^ok *registry' <<<"$output"
	grep -q '^advice *containerd proxy plugin' <<<"$output"
	grep -q 'cure: *\[proxy_plugins.bootseer\]' <<<"$output"
	fault down=1
	run ! "$bootseer" node doctor --registry "$REGISTRY"
	grep -q '^missing *registry' <<<"$output"
}

@test "doctor works without bootseerd and says how to start it" {
	mkdir "$T/bin"
	# A service manager that knows one unit.
	cat >"$T/bin/systemctl" <<-'END'
		#!/bin/sh
		case $* in
		*bootseerd) echo LoadState=loaded ActiveState=failed ;;
		*) echo LoadState=not-found ActiveState=inactive ;;
		esac
	END
	chmod +x "$T/bin/systemctl"
	PATH=$T/bin:$PATH run -1 "$bootseer" node doctor
	grep -q '^missing *bootseerd .*does not answer' <<<"$output"
	grep -q 'cure: *systemctl start bootseerd' <<<"$output"
	grep -q '^ok *overlay' <<<"$output"
	grep -q '^advice *unit bootseerd *does not run' <<<"$output"
	grep -q '^advice *unit bootseer-snapshotter *is not installed' <<<"$output"
	[[ $output == *'see what is missing'* ]]
	[ "$(grep -c '^[a-z]*  *bootseerd ' <<<"$output")" = 1 ]
	run -1 --separate-stderr "$bootseer" node doctor --json
	jq -e '.checks[] | select(.name == "fuse") | .ok' <<<"$output"
}

@test "doctor finds the configuration of a containerd that runs" {
	mkdir "$T/conf.d"
	cat >"$T/containerd.toml" <<-END
		version = 2
		imports = ["$T/conf.d/*.toml"]
		root = "$T/c-root"
		state = "$T/c-state"
		disabled_plugins = ["io.containerd.grpc.v1.cri"]
		[grpc]
		address = "$T/c.sock"
	END
	cat >"$T/conf.d/bootseer.toml" <<-END
		[proxy_plugins.bootseer]
		type = "snapshot"
		address = "$T/nobody.sock"
	END
	containerd --config "$T/containerd.toml" >/dev/null 2>&1 3>&- &
	pids+=($!)
	wait_for test -S "$T/c.sock"
	run -1 "$bootseer" node doctor
	grep -q "^ok *containerd proxy plugin *$T/containerd.toml names" \
		<<<"$output"
	grep -q "^advice *bootseer-snapshotter *nobody answers at $T/nobody" \
		<<<"$output"
}

@test "options are checked, dumped and read back" {
	"$bootseerd" --help | grep -q -- --cache-quota
	"$bootseerd" --cache-quota 7G --plain-http a:1 --plain-http b:2 \
		--dump-config >"$T/conf"
	"$bootseerd" --config "$T/conf" --check-config
	"$bootseerd" --config "$T/conf" --dump-config | diff "$T/conf" -
	run -2 "$bootseerd" --cache-quota lots
	run -2 "$bootseerd" --root relative
	run -2 "$bootseerd" --metrics 9720 --check-config
	run -2 "$bootseerd" --plain-http http://a:1 --check-config
	[[ $output == *"'http://a:1' is not HOST:PORT"* ]]
	run -2 "$bootseerd" --p2p-listen 0.0.0.0:9740 --p2p-security open \
		--check-config
	[[ $output == *"say with --p2p-advertise"* ]]
	"$bootseerd" --p2p-listen '[::]:9740' --p2p-advertise '[::1]:9740' \
		--p2p-security open --check-config
	echo 'no-such-key = "1";' >>"$T/conf"
	run -2 "$bootseerd" --config "$T/conf" --check-config
}

@test "a check of the configuration names a file of keys that is not there" {
	set -- "$bootseerd" --root "$T/root" --run "$T/run" --check-config \
		--trust-keys "$T/none.pem"
	run -0 "$@"
	[[ $output == *"warning trust: no keys file=\"$T/none.pem\""* ]]
	# Where no rule needs it, that is as meant.
	run -0 "$@" --trust reg.example=registry
	[ -z "$output" ]
}

@test "a location has three parts at most, and each may be unknown" {
	local at

	for at in r12 a/r12 eu/a/r12 eu//r12 eu/a/ a/ ''; do
		"$bootseerd" --location "$at" --check-config
	done
	run -2 "$bootseerd" --location eu/a/r12/4 --check-config
	[[ $output == *"'eu/a/r12/4' is not REGION/ZONE/RACK"* ]]
	run -2 "$bootseerd" --location "$(printf '%0192d' 0)" --check-config
}

@test "an image without any block is mounted too" {
	local reply

	mkdir -p "$T/tiny/zz"
	echo small >"$T/tiny/file"
	umoci init --layout "$T/src"
	umoci new --image "$T/src:tiny"
	umoci insert --image "$T/src:tiny" "$T/tiny" /
	D=$T
	"$bootseer" image convert "oci:$T/src:tiny" "oci:$T/oci:tiny"
	kill "${pids[0]}"
	rm "$T/ports"
	registry_start
	node_start
	"$bootseer" image mount "$REGISTRY/img:tiny" "$T/mnt"
	[ "$(cat "$T/mnt/file")" = small ]
	"$bootseer" image umount "$T/mnt"
	"$bootseer" image mount "$REGISTRY/img:tiny" "$T/mnt"
	[ "$(cat "$T/mnt/file")" = small ]
	"$bootseer" image umount "$T/mnt"
}

@test "a flat image leads to its artifact" {
	"$bootseer" image convert --form flat "oci:$D/src:v1" "oci:$T/oci:flat"
	kill "${pids[0]}"
	rm "$T/ports"
	D=$T registry_start
	node_start
	"$bootseer" image mount "$REGISTRY/img:flat" "$T/mnt"
	listing "$T/mnt" | diff "$D/want" -
	"$bootseer" image umount "$T/mnt"
}

figure() { # NAME -> its value now
	local port

	port=$(sed -nE 's/.*metrics port=([0-9]+).*/\1/p' "$T/log" | tail -n 1)
	curl -fsS "http://127.0.0.1:$port/metrics" |
		sed -n "s/^bootseer_node_$1 //p"
}

fetched_more_than() { (($(fetches) > $1)); } # NUMBER

ready_twice() { (($(grep -c '^info main: ready' "$T/log") > 1)); }

type_of() { findmnt -rno FSTYPE "$1"; } # MOUNT POINT

# One image has xattrs, the other has none: the kernel asks for those of the one only,
# also after both were taken over by another bootseerd while they were read.
@test "the data path fuse is asked for xattrs of images that have some" {
	local asked child fetched readers=() want=$D/want big=$D/rootfs/big

	mkdir -p "$T/bare/many" "$T/bare/zz" "$T/two"
	noise 24000000 9 >"$T/bare/big"
	for asked in {1..200}; do echo "$asked" >"$T/bare/many/$asked"; done
	umoci init --layout "$T/src"
	umoci new --image "$T/src:bare"
	umoci insert --image "$T/src:bare" "$T/bare" /
	"$bootseer" image convert "oci:$T/src:bare" "oci:$T/oci:bare"
	"$bootseer" image convert "oci:$D/src:v1" "oci:$T/oci:v1"
	kill "${pids[0]}"
	rm "$T/ports"
	D=$T registry_start
	node_start --hold --datapath fuse --metrics 127.0.0.1:0
	child=$(child_of "$node_pid")
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	"$bootseer" image mount "$REGISTRY/img:bare" "$T/two"
	[ "$(type_of "$T/mnt")" = fuse.bootseer ]
	[ "$(type_of "$T/two")" = fuse.bootseer-noxattr ]
	[ "$(figure images_no_xattr)" = 1 ]
	ls -lR "$T/two" >/dev/null
	asked=$(figure xattr_requests_total)
	[ "$asked" -le 2 ]
	ls -l "$T/mnt/many" >/dev/null
	[ "$(figure xattr_requests_total)" -ge $((asked + 200)) ]
	fault delay_ms=300 match=/blobs/
	fetched=$(($(fetches) + 1))
	sha256sum <"$T/mnt/big" >"$T/sum1" 3>&- &
	readers+=($!)
	sha256sum <"$T/two/big" >"$T/sum2" 3>&- &
	readers+=($!)
	wait_for fetched_more_than "$fetched"
	kill -KILL "$child"
	wait_for successor_is_up "$child"
	fault
	wait_all "${readers[@]}"
	[ "$(cat "$T/sum1")" = "$(sha256sum <"$big")" ]
	[ "$(cat "$T/sum2")" = "$(sha256sum <"$T/bare/big")" ]
	wait_for ready_twice
	listing "$T/mnt" | diff "$want" -
	[ "$(figure images_no_xattr)" = 1 ]
	asked=$(figure xattr_requests_total)
	ls -lR "$T/two" >/dev/null
	[ "$(figure xattr_requests_total)" = "$asked" ]
	diff -r "$T/bare" "$T/two"
	"$bootseer" image umount "$T/mnt"
	"$bootseer" image umount "$T/two"
	[ "$(figure images_no_xattr)" = 0 ]
	node_stop
	[ "$(mounts_left)" -eq 0 ]
}

@test "a token goes to no other machine without TLS" {
	local at

	echo secret >"$T/token"
	for at in http://192.0.2.1:9730 http://traces.internal http://127.0.0.1@h; do
		run -2 "$bootseerd" --service "$at" \
			--service-token-file "$T/token" --check-config
		[[ $output == *"$at"*"in the clear"*--plain-http* ]]
		run ! "$bootseer" image prefetch --service "$at" --nodes all \
			--token-file "$T/token" "$IMAGE"
		[[ $output == *"$at"*https://* ]]
	done
	for at in http:// 'http://traces internal' traces.internal:9730; do
		run -2 "$bootseerd" --service "$at" --check-config
		[[ $output == *"'$at' is no http:// or https:// URL"* ]]
	done
	for at in http://127.0.0.1:1 'http://[::1]:1' https://traces.internal \
		'http://[0:0:0:0:0:0:0:1]:1' HTTPS://traces.internal; do
		"$bootseerd" --service "$at" --service-token-file "$T/token" \
			--check-config
	done
	for at in 192.0.2.1 192.0.2.1:80; do
		"$bootseerd" --service http://192.0.2.1 --plain-http "$at" \
			--service-token-file "$T/token" --check-config
	done
	for at in 192.0.2.1:443 192.0.2.10 192.0.2; do
		run -2 "$bootseerd" --service http://192.0.2.1 --plain-http "$at" \
			--service-token-file "$T/token" --check-config
	done
	"$bootseerd" --service 'http://[FE80::1]:9730' \
		--plain-http '[fe80::1]:9730' --service-token-file "$T/token" \
		--check-config
	"$bootseerd" --service http://192.0.2.1 --check-config
}
