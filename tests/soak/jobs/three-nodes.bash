# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Three nodes that start a job, with a proxy before each server: tests/soak/jobs.bats.
#
#	nodes_servers		what is beside the nodes, once
#	nodes_start		nodes without anything
#	start_with FAULT N	the job on all of them; fails unless those that are left start
#	nodes_remove		the nodes, and what they leave

FAULTS=(node-killed index-throttles registry-gone hdfs-standby slow-disk)
NODES="1 2 3"
# In a container: between two questions to the index, and until the mark of a program is seen.
SECOND="if busybox timeout 1 busybox tail -f /dev/null; then :; fi"

nodes_servers() {
	local place

	[ -e /sys/fs/cgroup/blkio/blkio.throttle.read_bps_device ] || unset 'FAULTS[4]'
	mkdir proxy.one proxy.two
	proxied_by one "$NAMENODE"
	proxied_by two "$NAMENODE"
	ckpt_store="hdfs://$one,$two/job-$$?user=root"
	start_all --node-name a
	place=$(own_address):29600
	(umask 077 && openssl rand -hex 32 >group.key)
	sed -i "s|^mounts.*|mounts = [\"NODE/vartmp:/var/tmp\"]|
		s|^options = .*|options = [\"--run=NODE/run\", \"--group=$place\", \"--group-key=$T/group.key\"]|
		s|^targets.*|&\nkeys = [\"start=START\"]|
		s|do :; done|do $SECOND; done|
		s|^dir = .*|dir = \"NODE/ckpt\"|" a.toml
	echo 'ready-file = "/tmp/ready"' >>a.toml # behind [stages]
	model_sum=$(sha256sum <model)
	# The node that made all this is none of the three.
	stop_daemon "$containerd_pid"
	stop_daemon "$plugin_pid"
	stop_daemon "$node_pid"
}

# COMMAND with the node's own folder as $T, as the functions that start daemons want it, and its
# daemons' addresses.
on_node() { # NODE COMMAND...
	local T=$S/$1 I=$BATS_FILE_TMPDIR

	export CONTAINERD_ADDRESS=$T/ctd/containerd.sock BOOTSEER_NODE=n$1 \
		CONTAINERD_NAMESPACE=$namespace-$1 BOOTSEER_SOCKET=$T/noderun/bootseerd.sock
	"${@:2}"
}

node_start() { # NODE
	mkdir -p "$T"/{node,ckpt,vartmp}
	start_node --plain-http "$registry" --node-name "n$1" --env-store "$store" \
		--service "$BOOTSEER_SERVICE" --p2p-listen 127.0.0.1:0 --p2p-security open
	start_plugin
	start_containerd
	sed "s|NODE|$T|; s|START|$BOOTSEER_ATTEMPT|" "$S/../a.toml" >"$T/a.toml"
}

nodes_start() { # NUMBER
	local k starting=()

	S=$BATS_TEST_TMPDIR/nodes BOOTSEER_ATTEMPT=$1
	: "${namespace:=$CONTAINERD_NAMESPACE}"
	mkdir -p "$S/2"
	[[ $fault != slow-disk ]] || on_node 2 slow_disk "$S/2/noderoot" 262144
	for k in $NODES; do
		on_node "$k" node_start "$k" &
		starting+=($!)
	done
	for k in "${starting[@]}"; do wait "$k"; done
}

# By their command lines: the numbers of those that were killed are others' by now.
nodes_remove() {
	local end=$((SECONDS + 60))

	[[ ${S-} && -d $S ]] || return 0
	pkill -KILL -f "$S/" || :
	[[ ! ${slow_loop-} ]] || throttle_loop 0 # else what waits for the disk lives on
	while pgrep -f "$S/" >/dev/null && ((SECONDS < end)); do pause 100; done
	awk -v s="$S/" 'index($5, s) == 1 { print $5 }' /proc/self/mountinfo | tac |
		xargs -rn1 umount -l
	slow_disk_end
	rm -rf --one-file-system "$S"
}

# --- a start ------------------------------------------------------------------------------------

node_run() {
	cd "$T"
	exec timeout 600 "$bootseer" job run a.toml -- /bin/sh -c "cat /srv/one/deep/file \
		/opt/site/v; sha256sum <$T/ckpt/step/model; : >/tmp/ready; $SECOND" \
		>out 2>log 3>&- </dev/null
}

node_has_started() {
	[ "$(<"$T/out")" = "one
package
$model_sum" ]
	grep -q 'stage=env.* ev=end .*status=0' "$T/log"
	run ! grep " $T/ckpt " /proc/self/mountinfo
}

pause() { read -r -t "$(printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)))" <> <(:) || :; } # MS

before_node_killed() { :; }
before_index_throttles() {
	fault_at "$index" match=GET kind=status code=429 after=1 times=$((RANDOM % 6 + 1))
}
before_registry_gone() {
	fault_at "$registry" match=. kind=refuse skip=$((RANDOM % 30)) times=$((RANDOM % 40 + 1))
}
before_hdfs_standby() {
	local body='{"RemoteException":{"exception":"StandbyException","javaClassName":"x",'
	local at

	body+='"message":"not active"}}'

	for at in "$one" "$two"; do
		fault_at "$at" match=/webhdfs kind=status code=403 body="$body" \
			skip=$((RANDOM % 6)) times=$((RANDOM % 12 + 1))
	done
}
before_slow_disk() { :; }

# The page says what this start waited for, where the fault came in time to be waited for.
is_named() { # FAULT
	case $1 in
	node-killed) # has no end, where its start had not ended before: then it said as much as others
		[ "$(grep '^sent: ' "$S/3/log")" = "$(grep '^sent: ' "$S/1/log")" ] ||
			grep -Eq '^(waiting for n3: |n3 .*\?)' shown
		;;
	registry-gone)
		! grep -q 'ordinary way' "$S"/*/log ||
			grep -q '^failed.*: image.pull ended' shown
		;;
	index-throttles) sed -n '/^Critical path/,/^$/p' shown | grep -q ' env.install ' ;;
	hdfs-standby) grep -q '^ckpt.mount ' shown ;;
	slow-disk) : ;;
	esac
}

# The machine is gone: all of its processes at once.
kill_node() { pkill -KILL -f "$S/$1/"; }

start_with() { # FAULT
	local k pids=() failed=

	for k in "$registry" "$index" "$bucket" "$one" "$two"; do
		curl -sf -X POST "http://$k/clear"
	done
	"before_${1//-/_}"
	for k in $NODES; do
		on_node "$k" node_run "$k" &
		pids[k]=$!
	done
	if [ "$1" = node-killed ]; then
		wait_for grep -q BOOTSEER "$S/3/log"
		pause $((RANDOM % 2500))
		kill_node 3
		wait "${pids[3]}" || :
	fi
	for k in $NODES; do
		[[ $1 != node-killed || $k != 3 ]] || continue
		wait "${pids[k]}" && on_node "$k" node_has_started || failed+=" n$k"
	done
	for k in $NODES; do
		"$bootseer" stage send "$S/$k/log" || failed+=" events"
	done
	"$bootseer" start show a >shown || failed+=" page"
	[ ! "$failed" ] || { tail -n 30 "$S"/*/log shown; echo "failed:$failed"; return 1; }
	is_named "$1" || { tail -n 30 "$S"/*/log; cat shown; return 1; }
}
