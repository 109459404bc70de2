# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What tests with a real containerd share. Everything a test starts has its state
# in $T and ends with the test:
#
#	setup_file() { make_images "$BATS_FILE_TMPDIR"; }
#	setup() { containerd_setup; }
#	teardown() { containerd_teardown; }

lib_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$lib_dir/../noise.bash"
. "$lib_dir/../wait.bash"
plugin=${BOOTSEER_BUILD:?}/containerd-plugin/bootseer-snapshotter
fake_node=${BOOTSEER_BUILD:?}/tests/fakes/fake-node
bootseerd=$BOOTSEER_BUILD/snapshotter/node/bootseerd
bootseer=$BOOTSEER_BUILD/cli/bootseer

say() { printf '# %s\n' "$*" >&3; }

# --- images -------------------------------------------------------------------

# OCI layouts in DIR: "lazy:1" of three layers, "other:1" which shares the lower
# two and has a top of its own, "plain:1" which shares none.
make_images() { # DIR
	local d=$1 base=$1/base one=$1/one two=$1/two own=$1/own

	mkdir -p "$base"/{bin,etc,tmp,root,opt,srv} "$one/srv/one/deep" \
		"$two/srv/two" "$own/srv/own"
	cp /bin/busybox "$base/bin/busybox"
	for applet in sh cat ls echo sleep find stat sha256sum sort; do
		ln -s busybox "$base/bin/$applet"
	done
	echo root:x:0:0:root:/root:/bin/sh >"$base/etc/passwd"
	chmod 1777 "$base/tmp"
	echo gone >"$base/opt/gone"
	echo one >"$one/srv/one/deep/file"
	ln "$one/srv/one/deep/file" "$one/srv/one/deep/link"
	chmod 4750 "$one/srv/one/deep/file"
	mknod "$one/srv/one/null" c 1 3
	chown 1000:1001 "$one/srv/one/deep"
	noise 100000 1 >"$two/srv/two/data"
	setfattr -n user.test -v value "$two/srv/two/data"
	echo own >"$own/srv/own/file"
	mkdir "$own/opt"
	: >"$own/opt/.wh.gone"

	umoci init --layout "$d/oci"
	new_image "$d" lazy base one two
	new_image "$d" other base one own
	new_image "$d" plain own base own
	new_image "$d" pause own base own
	umoci config --image "$d/oci:pause" --clear=config.cmd \
		--config.cmd /bin/sleep --config.cmd 100000
}

new_image() { # DIR TAG LAYER...
	local d=$1 tag=$2 layer

	shift 2
	umoci new --image "$d/oci:$tag"
	umoci config --image "$d/oci:$tag" --config.cmd /bin/sh
	for layer; do
		add_layer "$d" "$tag" "$d/$layer"
	done
}

add_layer() { # DIR TAG FOLDER
	# The same folder gives the same layer, whichever image it is for.
	[[ -e $3.tar ]] || tar -C "$3" -cf "$3.tar" --xattrs \
		--numeric-owner --sort=name .
	umoci raw add-layer --image "$1/oci:$2" "$3.tar"
}

push() { # DIR TAG
	skopeo copy --quiet --dest-tls-verify=false "oci:$1/oci:$2" \
		"docker://$REGISTRY/$2:1"
}

# The blob of a manifest or config, by its digest.
blob() { cat "$1/oci/blobs/sha256/${2#sha256:}"; } # DIR DIGEST

manifest_of() { # DIR TAG
	jq -r --arg t "$2" '.manifests[] | select(.annotations[
		"org.opencontainers.image.ref.name"] == $t) | .digest' \
		"$1/oci/index.json"
}

layers_of() { blob "$1" "$(manifest_of "$1" "$2")" | jq -r '.layers[].digest'; }

chain_ids_of() { # DIR TAG
	local chain= diff

	for diff in $(blob "$1" "$(blob "$1" "$(manifest_of "$1" "$2")" |
		jq -r .config.digest)" | jq -r '.rootfs.diff_ids[]'); do
		if [[ $chain ]]; then
			chain=sha256:$(printf '%s %s' "$chain" "$diff" |
				sha256sum | cut -d' ' -f1)
		else
			chain=$diff
		fi
		echo "$chain"
	done
}

# --- daemons ------------------------------------------------------------------

# Start a daemon with its output in LOG; $daemon_pid is its process.
start_daemon() { # LOG COMMAND...
	local out=$1

	shift
	setsid "$@" >>"$out" 2>&1 3>&- 4>&- </dev/null &
	daemon_pid=$!
	pids+=("$daemon_pid")
}

# Until COMMAND succeeds; fails when process PID ends or after five minutes.
wait_until() { # PID COMMAND...
	local pid=$1 end=$((SECONDS + 300))

	shift
	until "$@" >/dev/null 2>&1; do
		kill -0 "$pid" && ((SECONDS < end)) || return 1
		pause_for 0.05
	done
}

stop_daemon() { # PID [SIGNAL]
	kill "-${2:-TERM}" "$1"
	timeout 120 tail --pid="$1" -f /dev/null
	wait "$1" || :
}

start_registry() {
	cat >"$T/registry.yml" <<-END
	version: 0.1
	log: {level: info, accesslog: {disabled: false}}
	storage:
	  filesystem: {rootdirectory: $T/registry}
	  delete: {enabled: true}
	http: {addr: "${REGISTRY_ADDRESS:-127.0.0.1}:${REGISTRY_PORT:-0}"}
	${REGISTRY_AUTH:-}
	END
	start_daemon "$T/registry.log" docker-registry serve "$T/registry.yml"
	wait_until "$daemon_pid" grep -q 'listening on' "$T/registry.log"
	REGISTRY=127.0.0.1:$(sed -nE \
		's/.*listening on [^ "]*:([0-9]+).*/\1/p' "$T/registry.log")
}

# How many of the image's layers were asked for so far.
layer_gets() { # DIR TAG
	local n=0 digest

	for digest in $(layers_of "$1" "$2"); do
		n=$((n + $(grep -c "GET /v2/$2/blobs/$digest" \
			"$T/registry.log" || :)))
	done
	echo "$n"
}

# bootseerd, which believes $I/key.
start_node() { # [OPTION...]
	export BOOTSEER_SOCKET=$T/noderun/bootseerd.sock
	start_daemon "$T/node.log" "$bootseerd" --root "$T/noderoot" \
		--run "$T/noderun" --plain-http "$REGISTRY" \
		--trust-keys "$I/key.pub" "$@"
	node_pid=$daemon_pid
	wait_until "$node_pid" test -S "$BOOTSEER_SOCKET"
	ln -sf "$BOOTSEER_SOCKET" "$T/node.sock"
}

# The documented lines for layers that bootseerd unpacks.
unpacking() {
	awk '/^## Unpacking/ { on = 1 } on && /^```/ { n++ } on && n == 1 && !/^```/' \
		"$lib_dir/../../docs/containerd.md" |
		sed "s,/run/bootseer/snapshotter.sock,$T/plugin.sock,"
}

# How many layers bootseerd has unpacked.
unpacked() {
	curl -sf --unix-socket "$BOOTSEER_SOCKET" http://bootseerd/metrics |
		sed -n 's/^[^#].*layers_applied_total //p'
}

convert_image() { # TAG OPTION...
	"$bootseer" image convert --plain-http "${@:2}" \
		"docker://$REGISTRY/$1:1" "docker://$REGISTRY/$1:1" >/dev/null
}

start_fake_node() {
	[[ -e $T/node/images.json ]] || echo '[]' >"$T/node/images.json"
	start_daemon "$T/node.log" "$fake_node" "$T/node.sock" "$T/node"
	node_pid=$daemon_pid
	wait_until "$node_pid" test -S "$T/node.sock"
}

# Have the fake serve an image of DIR as bootseerd would: unpacked by hand.
fake_lazy() { # DIR TAG
	local out=$T/node/$2 layer i=0 wh

	mkdir -p "$out"
	umoci unpack --image "$1/oci:$2" "$out/bundle" >/dev/null
	for layer in $(layers_of "$1" "$2"); do
		mkdir -p "$out/layers/$i"
		blob "$1" "$layer" | tar -xzpf - --xattrs \
			--xattrs-include='*' -C "$out/layers/$i"
		for wh in $(find "$out/layers/$i" -name '.wh.*'); do
			rm "$wh"
			mknod "${wh/.wh./}" c 0 0
		done
		i=$((i + 1))
	done
	jq --arg ref "$REGISTRY/$2:1" --arg out "$out" \
		--arg manifest "$(manifest_of "$1" "$2")" \
		--arg id "sha256:$(printf %s "$2" | sha256sum | cut -d' ' -f1)" \
		--argjson chain "$(chain_ids_of "$1" "$2" | jq -R . | jq -s .)" '
		. + [{ref: $ref, manifest: $manifest, id: $id,
		chain_ids: $chain, tree: "\($out)/bundle/rootfs",
		layers: [range(0; $chain | length) |
			"\($out)/layers/\(.)"]}]' \
		"$T/node/images.json" >"$T/node/images.new"
	mv "$T/node/images.new" "$T/node/images.json"
}

calls() { grep -c "^$1 " "$T/node/calls" || :; } # METHOD

fault() { echo "$*" >"$T/node/fault"; }
no_fault() { rm -f "$T/node/fault"; }

start_plugin() { # [OPTION...]
	start_daemon "$T/plugin.log" "$plugin" --root "$T/plugin" \
		--address "$T/plugin.sock" --node "$T/node.sock" \
		--containerd-state "$T/ctd/state" --log-level debug "$@"
	plugin_pid=$daemon_pid
	wait_until "$plugin_pid" test -S "$T/plugin.sock"
}

# The documented lines for containerd VERSION, with this test's socket.
documented() { # VERSION
	awk -v want="## containerd $1" 'index($0, "## ") == 1 { on = index($0,
		want) == 1 } on && /^```/ { n++ } on && n == 1 && !/^```/' \
		"$lib_dir/../../docs/containerd.md" |
		sed "s,/run/bootseer/snapshotter.sock,$T/plugin.sock,
			s,/var/lib/bootseer-snapshotter,$T/plugin,
			/^version/d;${DOCUMENTED:-}"
}

start_containerd() {
	local v=2 cri=grpc.v1.cri doc=1.6 sandbox=sandbox_image

	if containerd --version | grep -q ' v\?2\.'; then
		v=3 cri=cri.v1.runtime doc=2.x
		sandbox='[plugins."io.containerd.cri.v1.images".pinned_images]
			sandbox'
	fi
	mkdir -p "$T/ctd"
	cat >"$T/ctd/config.toml" <<-END
	version = $v
	root = "$T/ctd/root"
	state = "$T/ctd/state"
	[grpc]
	  address = "$T/ctd/containerd.sock"
	[ttrpc]
	  address = "$T/ctd/containerd.ttrpc"
	[plugins."io.containerd.gc.v1.scheduler"]
	  schedule_delay = "${GC_DELAY:-0s}"
	  startup_delay = "${GC_DELAY:-10ms}"
	[plugins."io.containerd.$cri"]
	  restrict_oom_score_adj = true # for a root without CAP_SYS_RESOURCE
	  ${EXTRA_CRI:-}
	  $sandbox = "$REGISTRY/pause:1"
	END
	documented "$doc" >>"$T/ctd/config.toml"
	printf '%s\n' "${EXTRA_CONFIG:-}" >>"$T/ctd/config.toml"
	start_daemon "$T/ctd/log" containerd --config "$T/ctd/config.toml"
	containerd_pid=$daemon_pid
	export CONTAINERD_ADDRESS=$T/ctd/containerd.sock
	wait_until "$containerd_pid" grep -q 'successfully booted' "$T/ctd/log"
}

cri() { # METHOD [ARGUMENT...]
	/usr/bin/python3 "$lib_dir/cri.py" "$CONTAINERD_ADDRESS" "$@"
}

# --- set-up and end -----------------------------------------------------------

containerd_setup() {
	T=$BATS_TEST_TMPDIR
	I=$BATS_FILE_TMPDIR
	pids=()
	# runc's state is the machine's: /run/containerd/runc/NAMESPACE/ID.
	CONTAINERD_NAMESPACE=t$(od -An -N6 -tx1 /dev/urandom | tr -d ' \n')
	export CONTAINERD_NAMESPACE
	mkdir -p "$T/node"
	start_registry
}

# Processes that work for this test's containerd: its shims.
shims() { pgrep -f "containerd-shim-runc-v2 .*$T/ctd/" || :; }

containerd_teardown() {
	local ns id pid m

	if [[ ${CONTAINERD_ADDRESS:-} ]] && kill -0 "$containerd_pid"; then
		for ns in $(timeout 10 ctr ns ls -q || :); do
			for id in $(timeout 10 ctr -n "$ns" task ls -q || :); do
				timeout 20 ctr -n "$ns" task rm -f "$id" || :
			done
		done
	fi
	for pid in "${pids[@]}"; do
		kill "$pid" 2>/dev/null || :
	done
	for pid in "${pids[@]}"; do
		timeout 20 tail --pid="$pid" -f /dev/null || kill -9 "$pid" || :
		wait "$pid" || :
	done
	# Only after a failure is anything left.
	for pid in $(shims); do
		kill -9 "$pid" || :
	done
	while m=$(awk -v t="$T/" 'index($5, t) == 1 { p = $5 } END { print p }' \
		/proc/self/mountinfo) && [[ $m ]]; do
		umount -l "$m"
	done
	if [[ ${BATS_TEST_COMPLETED:-} != 1 ]]; then
		tail -n 30 "$T"/plugin.log "$T"/node.log "$T"/node/calls \
			"$T"/ctd/log 2>/dev/null || :
	fi
}

# --- what a container sees ----------------------------------------------------

# Every path of the root with its attributes and content. Sizes, times and
# numbers of links of folders are not of the image alone.
LISTING='cd / && for p in $(find bin etc opt root srv tmp | sort); do
	stat -c "%n %F %a %u %g %t:%T" "$p"
	[ -d "$p" ] || stat -c "%h %s %Y" "$p"
	[ -f "$p" ] && sha256sum "$p"
done; :'

# ctr with what the container says, which the shim writes into a file: ctr itself can
# lose what is said last, which is all of a word.
said_by() { # run|"task exec" OPTION OF CTR...
	local said rc=0

	said=$(mktemp "$BATS_TEST_TMPDIR/said.XXXXXX")
	# shellcheck disable=SC2086 # words
	ctr $1 --log-uri "file://$said" "${@:2}" || rc=$?
	cat "$said"
	return "$rc"
}

# Run a shell command in a new container.
in_container() { # SNAPSHOTTER TAG COMMAND
	said_by run --rm --snapshotter "$1" "$REGISTRY/$2:1" \
		"c$BATS_TEST_NUMBER-$RANDOM" /bin/sh -c "$3"
}

# Run a command in a container that runs.
exec_in() { # ID COMMAND...
	said_by "task exec" --exec-id "e$RANDOM" "$@"
}

pull_full() { # SNAPSHOTTER TAG
	ctr images pull --plain-http --snapshotter "$1" "$REGISTRY/$2:1"
}

pull_lazy() { # TAG
	ctr-remote images rpull --plain-http --snapshotter bootseer \
		"$REGISTRY/$1:1"
}
