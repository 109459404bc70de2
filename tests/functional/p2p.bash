# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Several bootseerds that exchange blocks, one registry that misbehaves when told
# to, one tracker.  On top of node.bash; node NAME has its state in $T/NAME.

bootseer_registry=$BOOTSEER_BUILD/registry/bootseer-registry

declare -gA node_pids
TOKEN= # of token_allow

tracker_start() { # OPTION...
	local address=${TRACKER_ADDRESS:-127.0.0.1}

	: >"$T/tracker.log"
	env ${TRACKER_CLOCK:+"LD_PRELOAD=$test_clock" "TEST_CLOCK=$TRACKER_CLOCK"} \
		"$bootseer_registry" --listen "$address:0" --insecure-no-auth \
		--db "sqlite:$T/tracker.db" "$@" 2>>"$T/tracker.log" 3>&- &
	tracker_pid=$!
	pids+=("$tracker_pid")
	wait_for grep -q 'ready port=' "$T/tracker.log"
	TRACKER=http://$address:$(sed -n 's/.*ready port=\([0-9]*\).*/\1/p' \
		"$T/tracker.log")
}

# The tracker that is started next has a clock that stands still: it takes nobody for late or
# gone, and what somebody has read it lets nobody read once more, however slow they are.
tracker_hold() {
	node_hold
	TRACKER_CLOCK=$NODE_CLOCK
}

# All nodes may do so much with $TOKEN, as soon as the tracker reads $T/tokens.
token_allow() { # ROLES
	: "${TOKEN:=$(openssl rand -hex 32)}"
	printf 'nodes sha256:%s %s node=*\n' \
		"$(printf %s "$TOKEN" | sha256sum | cut -d' ' -f1)" "$1" \
		>"$T/tokens"
}

# What nodes show; never half of it, which would be told, too.
token_show() { # TOKEN
	printf %s "$1" >"$T/token.new"
	mv "$T/token.new" "$T/token"
}

tracker_kill() {
	kill -KILL "$tracker_pid"
	wait "$tracker_pid" || :
}

# A node that serves on a port of the kernel's choice; it knows the tracker, when
# there is one.  Its clock, and a tracker's, is that of node_hold where that is said.
peer_start() { # NAME OPTION...
	local name=$1 dir=$T/$1

	shift
	mkdir -p "$dir"
	: >"$dir/log"
	env ${PEER_CLOCK:+"LD_PRELOAD=$test_clock" "TEST_CLOCK=$PEER_CLOCK"} \
		"$bootseerd" --root "$dir/root" --run "$dir/run" --node-name "$name" \
		--plain-http "$REGISTRY" --trust "$REGISTRY=registry" \
		--cache-quota 1G --env-write-max 64M --stall-timeout 5m \
		--record off --trace-oci no \
		--p2p-listen 127.0.0.1:0 \
		${TRACKER:+--p2p-tracker "$TRACKER"} \
		${SECURITY---p2p-security open} "$@" 2>>"$dir/log" 3>&- &
	node_pids[$name]=$!
	pids+=("$!")
	wait_for peer_is_up "$name"
}

peer_is_up() { # NAME
	grep -q '^info main: ready' "$T/$1/log" && return
	kill -0 "${node_pids[$1]}" && return 1
	cat "$T/$1/log"
	exit 1
}

peer_stop() { # NAME [SIGNAL]
	kill "-${2:-TERM}" "${node_pids[$1]}"
	wait "${node_pids[$1]}" || [ "${2:-TERM}" = KILL ]
}

reloads_of() { grep -c '^info main: reloaded' "$T/$1/log" || :; } # NAME
has_reloaded() { [ "$(reloads_of "$1")" -gt "$2" ]; }

# A reload, to its end: what it has to say is in the log before that.
reload_peer() { # NAME
	local before

	before=$(reloads_of "$1")
	kill -HUP "${node_pids[$1]}"
	wait_for has_reloaded "$1" "$before"
}

# bootseer on a node.
on() { # NAME COMMAND...
	local name=$1

	shift
	BOOTSEER_SOCKET=$T/$name/run/bootseerd.sock "$bootseer" "$@"
}

p2p() { on "$1" p2p status --json | jq -r "$2"; } # NAME FILTER
has_peers() { [ "$(p2p "$1" '[.peers[] | select(.up)] | length')" -ge "$2" ]; }
fetch_all() { on "$1" image prefetch --wait "$IMAGE"; } # NAME
prepare_on() { on "$1" image prefetch --stop "$IMAGE"; } # NAME
# All of it, of peers alone: on a machine that is busy enough a node asks the registry too,
# which has manifests for it, as rights are asked for by them, and no blobs.
fetch_from_peers() { # NAME
	prepare_on "$1"
	fault match=/blobs/ status=503
	fetch_all "$1"
	fault
}
origin_bytes() { p2p "$1" .totals.origin_bytes; } # NAME
peer_bytes() { # NAME
	p2p "$1" '.totals | .rack_bytes + .zone_bytes + .remote_bytes'
}

# Of blocks alone, without metadata and block map.
from_peers() { # NAME
	p2p "$1" '[.images[] | select(.metadata | not) | .peer_bytes] | add // 0'
}
from_origin() { # NAME
	p2p "$1" '[.images[] | select(.metadata | not) | .origin_bytes] | add // 0'
}

# What the registry was asked for, of packs: they are read in ranges, and so are metadata and
# block map, where peers may have them.
pack_bytes() {
	"$bootseer" image inspect "oci:$D/oci:v1" |
		jq -r '.metadata.digest, .blockmap.digest' >"$T/metadata"
	grep -vFf "$T/metadata" "$T/requests" |
		awk '/^GET \/v2\/.*\/blobs\/.* 206 / { n += $4 } END { print n + 0 }'
}

# Bytes that all packs of the image have.
all_bytes() { # NAME
	on "$1" node status --json | jq '.images[0].prefetch.all_bytes'
}

# Every byte of the image through a mount of the node.
read_on() { # NAME
	mkdir -p "$T/$1/mnt"
	on "$1" image mount "$IMAGE" "$T/$1/mnt"
	cmp "$T/$1/mnt/big" "$D/rootfs/big"
	listing "$T/$1/mnt" >"$T/$1/have"
	on "$1" image umount "$T/$1/mnt"
	diff "$D/want" "$T/$1/have"
}

# --- certificates -------------------------------------------------------------

# An authority NAME, and certificates of nodes by it.
authority() { # NAME
	openssl req -x509 -newkey ed25519 -nodes -days 2 -subj "/CN=$1" \
		-keyout "$T/$1.key" -out "$T/$1.pem" 2>/dev/null
}

certificate() { # AUTHORITY NODE [DAYS]
	openssl req -new -newkey ed25519 -nodes -subj "/CN=$2" \
		-keyout "$T/$2.key" -out "$T/$2.csr" 2>/dev/null
	openssl x509 -req -in "$T/$2.csr" -CA "$T/$1.pem" -CAkey "$T/$1.key" \
		-days "${3:-2}" -out "$T/$2.pem" -extfile <(echo \
		"subjectAltName=URI:bootseer://node/$2") 2>/dev/null
}

# The options of a node with its certificate, which trusts AUTHORITY, and every node
# that this one made a certificate for.
with_tls() { # AUTHORITY NODE
	echo "$(with_certificate "$@") --p2p-rights cluster"
}
with_certificate() { # AUTHORITY NODE
	local dir=$T/$2.by-$1

	mkdir -p "$dir"
	ln -sfn "$T/$1.pem" "$dir/ca.crt"
	ln -sfn "$T/$2.pem" "$dir/tls.crt"
	ln -sfn "$T/$2.key" "$dir/tls.key"
	echo "--p2p-tls $dir"
}
