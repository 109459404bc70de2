# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# A node that starts a job of an image, an environment and a checkpoint, with a proxy before each
# server: job-faults.bats, and tests/soak/jobs.bats.
. "${BASH_SOURCE[0]%/*}/../containerd/lib.bash"
. "${BASH_SOURCE[0]%/*}/stores.bash"
export PATH=$BOOTSEER_BUILD/ckpt-fuse/mount:$PATH

faults_setup_file() {
	make_images "$BATS_FILE_TMPDIR" >/dev/null
	"$bootseer" key new "$BATS_FILE_TMPDIR/key" >/dev/null
	S3=$("${BASH_SOURCE[0]%/*}/../stores/build" versitygw)
	export S3
}

faults_setup() {
	T=$BATS_TEST_TMPDIR I=$BATS_FILE_TMPDIR pids=()
	cd "$T"
	mkdir ckpt vartmp index s3 proxy.{registry,bucket,index}
	unset BOOTSEER_JOB BOOTSEER_SERVICE BOOTSEER_RANK RANK
	export BOOTSEER_EVENTS=$T/none BOOTSEER_ATTEMPT=0
	containerd_setup
}

faults_teardown() {
	cd /
	stop_servers
	containerd_teardown
}

proxied_by() { # NAME ADDRESS: a proxy before it, in $NAME
	fault_proxy "$2" "$T/proxy.$1"
	printf -v "$1" %s "$PROXY"
}

fault_at() { # PROXY KEY=VALUE...
	PROXY=$1 fault "${@:2}"
}

was_at_fault() { # PROXY
	PROXY=$1 proxied ' (refuse|status|wait|late|cut)$' >/dev/null
}

# A file system of its own at DIR, of so many bytes a second each way.
slow_disk() { # DIR BYTES
	[ -e /sys/fs/cgroup/blkio/blkio.throttle.read_bps_device ] ||
		skip "no throttled disks: needs control groups of version 1 with blkio"
	truncate -s 600M "$T/disk"
	slow_loop=$(losetup --find --show "$T/disk") slow_dir=$1
	mkfs.ext4 -q "$slow_loop"
	mkdir "$1"
	mount "$slow_loop" "$1"
	throttle_loop "$2"
}

slow_disk_end() {
	[[ ${slow_loop-} ]] || return 0
	! mountpoint -q "$slow_dir" || umount "$slow_dir"
	throttle_loop 0
	losetup -d "$slow_loop"
	slow_loop=
}

throttle_loop() { # BYTES A SECOND, or 0
	local number what

	number=$(lsblk -dno MAJ:MIN "$slow_loop" | tr -d ' ')
	for what in read write; do
		echo "$number $1" >"/sys/fs/cgroup/blkio/blkio.throttle.${what}_bps_device"
	done
}

# A node, and registry, bucket and index behind proxies.  `ckpt_store`: where the checkpoint is, else
# in the bucket.
start_all() { # [OPTION OF BOOTSEERD...]
	s3_server "$T/s3"
	proxied_by bucket "$AT"
	echo package >index/v
	python3 -m http.server 0 --bind 127.0.0.1 --directory "$T/index" >index.log 2>&1 3>&- &
	PIDS+=($!)
	wait_for has_port "${PIDS[-1]}"
	proxied_by index "127.0.0.1:$(port_of "${PIDS[-1]}")"
	proxied_by registry "$REGISTRY"
	store=s3://bkt/env?endpoint=http://$bucket
	start_daemon service.log "$BOOTSEER_BUILD/registry/bootseer-registry" \
		--listen 127.0.0.1:0 --insecure-no-auth --db "sqlite:$T/service.db"
	wait_for grep -q 'ready port=' service.log
	BOOTSEER_SERVICE=http://127.0.0.1:$(sed -n 's/.*ready port=\([0-9]*\).*/\1/p' service.log)
	export BOOTSEER_SERVICE
	start_node --hold --plain-http "$registry" --env-store "$store" \
		${1+--service "$BOOTSEER_SERVICE"} "$@"
	start_plugin
	start_containerd
	push "$I" lazy
	convert_image lazy --sign "$I/key" --repository "$registry/lazy"
	head -c 9000000 /dev/urandom >model
	: "${ckpt_store:=s3://bkt/ckpt?endpoint=http://$bucket}"
	"$bootseer" ckpt cp "$ckpt_store" model :step/model
	cat >a.toml <<-END
	[image]
	reference = "$registry/lazy:1"
	plain-http = true
	mounts = ["$T/vartmp:/var/tmp"]
	[environment]
	store = "$store"
	command = "until busybox wget -q -O /opt/site/v http://$index/v; do :; done"
	targets = ["/opt/site"]
	[checkpoint.load]
	store = "$ckpt_store"
	dir = "$T/ckpt"
	read-only = true
	prefetch = ["step/"]
	options = ["--run=$T/run"]
	[stages]
	END
}

# All three parts are there, whatever way they came, and the page says so.
starts() {
	BOOTSEER_ATTEMPT=$((BOOTSEER_ATTEMPT + 1))
	timeout 120 "$bootseer" job run a.toml -- /bin/sh -c "cat /srv/one/deep/file \
		/opt/site/v; sha256sum <$T/ckpt/step/model" >out 2>log 3>&- </dev/null || {
		cat log
		return 1
	}
	[ "$(head -n 2 out)" = "one
package" ]
	[ "$(tail -n 1 out)" = "$(sha256sum <model)" ]
	grep -q 'stage=env.* ev=end .*status=0' log
	run ! grep " $T/ckpt " /proc/self/mountinfo
	"$bootseer" stage send log
	"$bootseer" start show a >shown
	cat shown
}
