#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What goes wrong in the middle of a job's start: it starts all the same, and says what was
# wrong.  tests/soak/jobs.bats does so many times.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../containerd/lib.bash"
. "$BATS_TEST_DIRNAME/stores.bash"
export PATH=$BOOTSEER_BUILD/ckpt-fuse/mount:$PATH

setup_file() {
	make_images "$BATS_FILE_TMPDIR" >/dev/null
	"$bootseer" key new "$BATS_FILE_TMPDIR/key" >/dev/null
	S3=$("$BATS_TEST_DIRNAME/../stores/build" versitygw)
	export S3
}

setup() {
	T=$BATS_TEST_TMPDIR I=$BATS_FILE_TMPDIR pids=()
	cd "$T"
	mkdir ckpt vartmp index s3 proxy.{registry,bucket,index}
	unset BOOTSEER_JOB BOOTSEER_SERVICE BOOTSEER_RANK RANK
	export BOOTSEER_EVENTS=$T/none BOOTSEER_ATTEMPT=0
	containerd_setup
	start_all
}
teardown() {
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

# A node, and registry, bucket and index behind proxies.
start_all() {
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
	start_node --hold --plain-http "$registry" --env-store "$store"
	start_plugin
	start_containerd
	push "$I" lazy
	convert_image lazy --sign "$I/key" --repository "$registry/lazy"
	head -c 9000000 /dev/urandom >model
	"$bootseer" ckpt cp "s3://bkt/ckpt?endpoint=http://$bucket" model :step/model
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
	store = "s3://bkt/ckpt?endpoint=http://$bucket"
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

@test "an index that throttles" {
	fault_at "$index" match=GET kind=status code=429 after=1 times=4
	starts
	was_at_fault "$index"
	grep -q ' env.install ' shown # what its time went to
	# Nobody asks it again.
	fault_at "$index" match=GET kind=refuse times=1000
	starts
	grep -Eq 'env run: (mounted|restored)' log
}

@test "a registry that goes away and comes back" {
	fault_at "$registry" 'match=/(blobs|manifests)/' kind=refuse skip=4 times=12
	starts
	was_at_fault "$registry"
	grep -q '^failed at first: .*: image.pull ended with status 1 after' shown
}

@test "a registry that is gone when the job starts again" {
	starts
	grep -q 'image.pull .* 0$' shown
	fault_at "$registry" match=. kind=refuse times=100000
	starts
	was_at_fault "$registry"
	grep -q '^failed: .*: image.pull ended with status 1 after' shown
}

@test "a bucket that asks for less" {
	fault_at "$bucket" 'match=^(GET|HEAD|PUT)' kind=status code=503 times=8 skip=2
	starts
	was_at_fault "$bucket"
	fault_at "$bucket" 'match=^(GET|HEAD)' kind=status code=503 times=8 skip=2
	starts
}

@test "a bootseerd that is killed while the image loads" {
	local child

	fault_at "$registry" 'match=/blobs/' kind=wait times=1
	starts &
	pid=$!
	wait_for was_at_fault "$registry"
	child=$(pgrep -P "$node_pid")
	kill -KILL $child
	curl -sf -X POST "http://$registry/go"
	wait "$pid"
}
