# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the tests of bootseerd share: a converted image in a registry that
# misbehaves when told to, and bootseerd with its state in $T.
#
#	setup_file() { make_image "$BATS_FILE_TMPDIR"; }
#	setup() { node_setup; }
#	teardown() { node_teardown; }

. "$(dirname "${BASH_SOURCE[0]}")/../noise.bash"
. "$(dirname "${BASH_SOURCE[0]}")/../call.bash"
. "$(dirname "${BASH_SOURCE[0]}")/../wait.bash"

bootseer=${BOOTSEER_BUILD:?}/cli/bootseer
bootseerd=$BOOTSEER_BUILD/snapshotter/node/bootseerd
fake_registry=$BOOTSEER_BUILD/tests/fakes/fake-registry
test_clock=$BOOTSEER_BUILD/tests/fakes/test-clock.so

# --- the image ----------------------------------------------------------------

# DIR/src, an ordinary image "v1" of two layers, and DIR/oci, the same with its
# artifact; DIR/want is what a container of it sees.
make_image() { # DIR
	local d=$1 i

	# umoci leaves the padding of a last file out, so a folder is the last.
	mkdir -p "$d"/rootfs/{bin,etc,many,zz} "$d/top"
	cp /bin/busybox "$d/rootfs/bin/busybox"
	ln -s busybox "$d/rootfs/bin/sh"
	noise 24000000 7 >"$d/rootfs/big"
	for i in {1..200}; do echo "$i" >"$d/rootfs/many/$i"; done
	echo gone >"$d/rootfs/etc/gone"
	mkdir "$d/rootfs/etc/old"
	echo old >"$d/rootfs/etc/old/file"
	noise 3000000 8 >"$d/top/data"
	ln "$d/top/data" "$d/top/again"
	mknod "$d/top/null" c 1 3
	setfattr -n user.note -v text "$d/top/data"
	touch -d '2001-02-03 04:05:06.789' "$d/top/data"
	umoci init --layout "$d/src"
	umoci new --image "$d/src:v1"
	umoci insert --image "$d/src:v1" "$d/rootfs" /
	umoci insert --image "$d/src:v1" "$d/top" /top
	umoci insert --image "$d/src:v1" --whiteout /etc/gone
	umoci insert --image "$d/src:v1" --opaque "$d/top" /etc/old
	umoci unpack --image "$d/src:v1" "$d/bundle" >/dev/null
	listing "$d/bundle/rootfs" >"$d/want"
	"$bootseer" image convert --form "${BOOTSEER_FORM:-referrer}" \
		"oci:$d/src:v1" "oci:$d/oci:v1" >/dev/null
}

# Everything below DIR: attributes, and digests of files.  Times of folders are
# left out: umoci changes them when it applies a whiteout.
listing() { # DIR
	(cd "$1" &&
		find . -type d -printf '%P %y %m %U %G\n' | LC_ALL=C sort &&
		find . ! -type d -printf '%P %y %m %U %G %n %s %T@ %l\n' |
		LC_ALL=C sort &&
		find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum &&
		getfattr -R -h -m '^user' -d . | LC_ALL=C sort)
}

# --- daemons ------------------------------------------------------------------

node_setup() {
	D=$BATS_FILE_TMPDIR T=$(mktemp -d /var/tmp/node.XXXXXX)
	pids=()
	mkdir "$T/mnt"
	export BOOTSEER_SOCKET=$T/run/bootseerd.sock
	registry_start
}

node_teardown() {
	local pid m

	for pid in "${pids[@]}"; do
		kill "$pid" 2>/dev/null || :
	done
	for pid in "${pids[@]}"; do
		wait "$pid" 2>/dev/null || :
	done
	# Only after a failure is there anything left.
	while m=$(awk -v t="$T/" 'index($5, t) == 1 { p = $5 } END { print p }' \
		/proc/self/mountinfo) && [ -n "$m" ]; do
		umount -l "$m"
	done
	[ -z "${BATS_TEST_COMPLETED:-}" ] && [ -e "$T/log" ] &&
		sed 's/^/# /' "$T/log" >&3
	rm -rf --one-file-system "$T"
}

registry_start() {
	"$fake_registry" --dir "$D/oci" --port-file "$T/ports" \
		--log "$T/requests" 3>&- &
	pids+=($!)
	wait_for test -s "$T/ports"
	read -r port control <"$T/ports"
	REGISTRY=127.0.0.1:$port IMAGE=$REGISTRY/img:v1
}

# fault NAME=VALUE...; none: all off
fault() {
	local IFS='&'

	if (($#)); then
		curl -fsS "http://127.0.0.1:$control/set?$*"
	else
		curl -fsS "http://127.0.0.1:$control/reset"
	fi
}

# GETs of blobs so far.
fetches() { grep -c '^GET /v2/.*/blobs/' "$T/requests" || :; }

# The clock of the node that is started next stands still: tests/fakes/clock.c.
node_hold() {
	NODE_CLOCK=$T/node.clock node_ms=0
	node_step 0
}

node_step() { # MILLISECONDS
	node_ms=$((node_ms + $1))
	looks=0 # of wait_for
	echo "${node_ms}000000" >"$NODE_CLOCK.new"
	mv "$NODE_CLOCK.new" "$NODE_CLOCK"
}

# For wait_for: a second later by that clock at each look, or so little that it is behind
# every other: what the machine has to do meanwhile takes no time that counts.
later() { # COMMAND...
	node_step 1000
	"$@"
}
slowly() { # COMMAND...
	node_step 5
	"$@"
}

# COMMAND in the background, where a clock has to go on for it to end.
aside() { # NAME COMMAND...
	local end=$T/aside.$1

	shift
	: >"$end"
	if "$@"; then echo well >"$end"; else echo badly >"$end"; fi 3>&- &
	pids+=($!)
}
has_ended() { [ -s "$T/aside.$1" ]; } # NAME
ended() { [ "$(cat "$T/aside.$1")" = "$2" ]; } # NAME well|badly

# Whoever may push to a registry of a test is believed: what signatures are for is
# in trust.bats.
believed() { # OPTION...
	while (($#)); do
		[ "$1" != --plain-http ] || printf '%s\n' --trust "$2=registry"
		shift
	done
}

node_start() { # OPTION...
	local trust

	mapfile -t trust < <(believed --plain-http "$REGISTRY" "$@")
	: >"$T/log"
	env ${NODE_PRELOAD:+"LD_PRELOAD=$NODE_PRELOAD"} \
		${NODE_CLOCK:+"LD_PRELOAD=$test_clock" "TEST_CLOCK=$NODE_CLOCK"} \
		"$bootseerd" --root "${ROOT:-$T/root}" --run "$T/run" \
		--plain-http "$REGISTRY" "${trust[@]}" \
		--cache-quota 1G --stall-timeout 5m \
		"$@" 2>>"$T/log" 3>&- &
	node_pid=$!
	pids+=("$node_pid")
	wait_for node_is_up
}

node_is_up() {
	grep -q '^info main: ready' "$T/log" && return
	kill -0 "$node_pid" && return 1
	cat "$T/log"
	exit 1
}

node_stop() { # [SIGNAL]
	kill "-${1:-TERM}" "$node_pid"
	wait "$node_pid" || [ "${1:-TERM}" = KILL ]
}

# The bootseerd itself, below --hold.
child_of() { pgrep -P "$1"; } # PID

status() { "$bootseer" node status --json | jq -r "$1"; } # FILTER

mounts_left() { grep -c " $T/" /proc/self/mountinfo; }
