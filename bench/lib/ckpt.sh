# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Stores of checkpoints that are as slow as real ones, and mounts on them.
#
#	start_store s3|hdfs|file	$url; ON, what its clients are run by
#	with_mount NAME START COMMAND...	a mount of ours or of a peer, while it runs
#	measure_mounted COMMAND...	as measure, with what the mount took
#
# s3: versitygw; each connection passes $rate MiB/s in each direction.  hdfs: a name node
# and $n_servers data nodes; the link of each data node passes $rate MiB/s in each
# direction.  file: a directory of the disk, as fast as it is.

. "$bench_dir/lib/services.sh"
. "$bench_dir/lib/net.sh"
# shellcheck disable=SC1091
. "$bench_dir/../tests/wait.bash"
# shellcheck disable=SC1091
. "$bench_dir/../tests/functional/stores.bash"

ON=()
url= rate=24 n_servers=8
mount_pid=

listens() { ss -ltnpH | grep -q "pid=$1,"; }

cached() { "$bench_dir/../tests/stores/build" "$1"; } # NAME: a program or packages

# --- S3 -----------------------------------------------------------------------------

# The server, and the proxy before it: AT.
start_s3() {
	local dir=$W/s3 server

	export AWS_ACCESS_KEY_ID=testkey1234 AWS_SECRET_ACCESS_KEY=testsecret1234
	export AWS_EC2_METADATA_DISABLED=true no_proxy='*' AWS_REGION=us-east-1
	unset AWS_CA_BUNDLE AWS_PROFILE
	mkdir -p "$dir/data/bkt" "$dir/data/jfs"
	ROOT_ACCESS_KEY=$AWS_ACCESS_KEY_ID \
		ROOT_SECRET_KEY=$AWS_SECRET_ACCESS_KEY start_daemon "$dir/log" \
		"$(cached versitygw)/versitygw" \
		--keep-alive --port 127.0.0.1:0 posix "$dir/data"
	wait_until "$daemon_pid" "$dir/log" listens "$daemon_pid"
	server=$(ss -ltnpH | grep "pid=$daemon_pid," |
		grep -o '127.0.0.1:[0-9]*' | head -n 1)
	start_daemon "$dir/proxy" "$(bench_tool shape_proxy)" $((rate << 20)) \
		"$server" "$dir/port"
	wait_until "$daemon_pid" "$dir/proxy" test -s "$dir/port"
	AT=127.0.0.1:$(cat "$dir/port")
	url="s3://bkt/ckpt?endpoint=http://$AT"
}

# --- HDFS ---------------------------------------------------------------------------

# A data node has a network namespace of its own, and a link of $rate in each direction to
# the bridge at which the name node and the clients are.
add_data_node() { # NUMBER
	local ns=$net_reg-$1 end

	ip netns add "$ns"
	defer ip netns del "$ns"
	ip -n "$net_reg" link add "data$1" type veth peer name eth0 netns "$ns"
	ip -n "$net_reg" link set "data$1" master bridge
	ip -n "$net_reg" link set "data$1" up
	ip -n "$ns" addr add "10.213.0.$((10 + $1))/24" dev eth0
	ip -n "$ns" link set lo up
	ip -n "$ns" link set eth0 up
	for end in "$net_reg data$1" "$ns eth0"; do
		tc -n "${end% *}" qdisc add dev "${end#* }" root tbf \
			rate "$((rate << 23))bit" burst 256kb latency 50ms
	done
}

add_data_nodes() {
	local i

	ip -n "$net_reg" link add bridge type bridge
	ip -n "$net_reg" addr del 10.213.0.1/24 dev bsl0
	ip -n "$net_reg" link set bsl0 master bridge
	ip -n "$net_reg" addr add 10.213.0.1/24 dev bridge
	ip -n "$net_reg" link set bridge up
	for ((i = 1; i <= n_servers; i++)); do add_data_node "$i"; done
}

stop_hdfs() {
	local pid

	for pid in "${PIDS[@]}"; do stop_daemon "$pid"; done
}

start_hdfs() {
	export no_proxy='*'
	HDFS=$(cached hadoop-hdfs)
	net_begin
	HDFS_AT=10.213.0.1
	hdfs_data_node() {
		host=10.213.0.$((10 + $1))
		HDFS_IN=(nsenter "--net=/run/netns/$net_reg-$1")
	}
	HDFS_IN=(nsenter "--net=/run/netns/$net_reg")
	ON=(nsenter "--net=/run/netns/$net_node")
	add_data_nodes
	defer stop_hdfs
	# As clusters have it, and not as small as for tests.
	hdfs_block=$((128 << 20)) hdfs_server "$W/hdfs" "$n_servers"
	AT=$NAMENODE
	url="hdfs://$AT/ckpt?user=root"
}

start_file() {
	mkdir "$W/store"
	url="file://$W/store"
}

start_store() { # s3|hdfs|file
	"start_$1"
}

on() { ${ON[@]+"${ON[@]}"} "$@"; }

# --- mounts -------------------------------------------------------------------------

# The process and its children.
tree_of() { # PID
	local child

	echo "$1"
	for child in $(pgrep -P "$1" || :); do tree_of "$child"; done
}

tree_cpu() { # PID: seconds
	local pid

	for pid in $(tree_of "$1"); do
		sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null || :
	done | awk -v hz="$(getconf CLK_TCK)" '{n += $12 + $13} END {print n / hz}'
}

tree_rss() { # PID: bytes, the most of its largest process
	local pid

	for pid in $(tree_of "$1"); do
		cat "/proc/$pid/status" 2>/dev/null || :
	done | awk '/^VmHWM/ && $2 > n {n = $2} END {printf "%.0f", n * 1024}'
}

mount_ours() { # [OPTION...]
	local bootseer

	bootseer=$(program bootseer)
	PATH=$(dirname "$(program bootseer-ckpt)"):$PATH on "$bootseer" ckpt mount \
		--run="$W/run" "$@" "$url" "$W/mnt" >&2
	mount_pid=$("$bootseer" ckpt status --run="$W/run" "$W/mnt" |
		jq -r '.[0].pid')
}

start_mount() { # LOG COMMAND...: a peer's, in the foreground
	start_daemon "$@"
	mount_pid=$daemon_pid
	wait_until "$daemon_pid" "$1" mountpoint -q "$W/mnt"
}

# As much memory as JuiceFS is given here.
mount_large() { mount_ours --memory=1G; }

mount_rclone() {
	start_mount "$W/rclone.log" rclone --config /dev/null mount \
		":s3,provider=Other,env_auth,endpoint='http://$AT',region=us-east-1:bkt" \
		"$W/mnt" --vfs-cache-mode off --s3-upload-concurrency 16 \
		--s3-chunk-size 8M --buffer-size 64M --dir-cache-time 0
}

mount_s3fs() {
	echo "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" >"$W/s3fs.key"
	chmod 600 "$W/s3fs.key"
	start_mount "$W/s3fs.log" s3fs bkt "$W/mnt" -f -o "passwd_file=$W/s3fs.key" \
		-o "url=http://$AT,use_path_request_style,parallel_count=16" \
		-o "multipart_size=10,tmpdir=$W,endpoint=us-east-1"
}

mount_juicefs() {
	local juicefs

	juicefs=$(cached juicefs)/bin/juicefs
	[[ -e $W/jfs.db ]] || "$juicefs" format --storage s3 \
		--bucket "http://$AT/jfs" --access-key "$AWS_ACCESS_KEY_ID" \
		--secret-key "$AWS_SECRET_ACCESS_KEY" --trash-days 0 --no-update \
		"sqlite3://$W/jfs.db" jfs >"$W/jfs.log" 2>&1
	start_mount "$W/juicefs.log" "$juicefs" mount --no-usage-report \
		--no-syslog --cache-size 0 --cache-dir "$W/jfs-cache" \
		--buffer-size 1024 --max-uploads 32 "sqlite3://$W/jfs.db" "$W/mnt"
}

is_unmounted() { ! mountpoint -q "$W/mnt" && ! kill -0 "$mount_pid" 2>/dev/null; }

end_mount() {
	mountpoint -q "$W/mnt" || return 0
	umount "$W/mnt" 2>/dev/null || umount -l "$W/mnt"
	wait_for is_unmounted
}

with_mount() { # ours|large|rclone|s3fs|juicefs COMMAND...
	mkdir -p "$W/mnt"
	defer end_mount
	"mount_$1"
	"${@:2}"
	end_mount
}

# $m_cpu is of the mount and the command, $m_rss of the mount.
measure_mounted() { # COMMAND...
	local before

	before=$(tree_cpu "$mount_pid")
	measure "$@"
	m_cpu=$(calc "$m_cpu + $(tree_cpu "$mount_pid") - $before")
	m_rss=$(tree_rss "$mount_pid")
}
