# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Nodes that mount one environment: each is a bootseerd of its own, and a mount namespace in
# which $T/site is the node's folder.  On top of node.bash and p2p.bash.
#
#	setup() { env_setup; }
#	teardown() { env_teardown; }

. "$(dirname "${BASH_SOURCE[0]}")/stores.bash"

env_setup()
{
	T=$(mktemp -d /var/tmp/env-nodes.XXXXXX)
	pids=()
	mkdir "$T/site" "$T/store"
	STORE=file://$T/store
	REGISTRY=127.0.0.1:1 # of images: there are none
	export T STORE no_proxy='*'
	unset BOOTSEER_SOCKET
	cat >"$T/setup.sh" <<-'EOT'
		echo ran >>"$T/ran"
		openssl enc -aes-128-ctr -nosalt -K 01 -iv 02 -in /dev/zero 2>/dev/null |
			head -c 6000000 >"$T/site/big.so"
		mkdir "$T/site/pkg"
		cd "$T/site/pkg"
		tail -c 800000 ../big.so | split -b 800 -a 3
	EOT
}

env_teardown()
{
	stop_servers
	node_teardown
}

# A shell command on the node, in whose folder the target is.
in_node() # NODE COMMAND
{
	mkdir -p "$T/$1.site"
	# shellcheck disable=SC2016
	BOOTSEER_SOCKET=$T/$1/run/bootseerd.sock unshare --mount \
		--propagation slave sh -c '
		mount --bind "$T/$1.site" "$T/site" && eval "$2"' sh "$1" "$2"
}

# Where it has what is in it, be it a registry's.
store_folder()
{
	if [ -e "$T/registry" ]; then echo "$T/registry"; else echo "$T/store"; fi
}

# Of all that the store has, what leads to the environment, and no metadata or blocks.
lose_blobs()
{
	find "$(store_folder)" -type f -size +100k -delete
}

# The same of an environment whose metadata is small.
lose_layers()
{
	local digest

	for digest in $(find "$T/store/env/data" -type f -size -100k -exec \
		jq -r '.layers[]?.digest' {} + 2>/dev/null); do
		find "$T/store/env" -name "${digest#sha256:}" -delete
	done
}

# While it has none of them.
without_blobs() # COMMAND...
{
	cp -a "$(store_folder)" "$T/kept"
	lose_blobs
	"$@"
	cp -a "$T/kept/." "$(store_folder)"
}

run_line() # [OPTION...]
{
	printf '%q ' "$bootseer" env run --store "$STORE" --target "$T/site" \
		"$@" -- sh "$T/setup.sh"
}

# Captured by a node without bootseerd.
capture() # [OPTION...]
{
	in_node maker "unset BOOTSEER_SOCKET; $(run_line "$@")"
	[ "$(grep -c . "$T/ran")" = 1 ]
}

# A node that mounts environments of the store.
env_peer() # NAME [OPTION...]
{
	peer_start "$@" --env-store "$STORE"
}

# A tracker that signs, and tokens of nodes: "in" reads the store, "out" none, "else" another.
tracker_with_stores()
{
	local name

	openssl genpkey -algorithm ed25519 -out "$T/sign.key"
	chmod 600 "$T/sign.key"
	openssl pkey -in "$T/sign.key" -pubout -out "$T/keys.pem"
	for name in in out else; do
		openssl rand -hex 32 >"$T/token.$name"
		printf '%s sha256:%s read,write node=*' "$name" \
			"$(tr -d '\n' <"$T/token.$name" | sha256sum | cut -d' ' -f1)"
		case $name in
		in) echo " stores=s3://bkt/x,$STORE" ;;
		out) echo ;;
		else) echo " stores=$STORE/else" ;;
		esac
	done >"$T/tokens"
	: >"$T/tracker.log"
	"$bootseer_registry" --listen 127.0.0.1:0 --tokens "$T/tokens" \
		--db "sqlite:$T/tracker.db" --capability-key "$T/sign.key" \
		"$@" 2>>"$T/tracker.log" 3>&- &
	pids+=("$!")
	wait_for grep -q 'ready port=' "$T/tracker.log"
	TRACKER=http://127.0.0.1:$(sed -n 's/.*ready port=\([0-9]*\).*/\1/p' \
		"$T/tracker.log")
}

# A node whose token is TOKEN.
rightful() # NAME TOKEN [OPTION...]
{
	local name=$1 token=$2

	shift 2
	env_peer "$name" --p2p-rights "$T/keys.pem" \
		--service-token-file "$T/token.$token" "$@"
}
