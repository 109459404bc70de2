#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Nobody converts: a node makes the index of an ordinary image that was pulled, others have it by
# bootseer-registry and start lazily.  With a real containerd: containerd-node.bats.

bats_require_minimum_version 1.5.0
load node.bash
load registry.bash

setup_file() {
	export HERE=$BATS_TEST_DIRNAME
	make_image "$BATS_FILE_TMPDIR"
	# The ordinary image alone.
	rm -r "$BATS_FILE_TMPDIR/oci"
	cp -r "$BATS_FILE_TMPDIR/src" "$BATS_FILE_TMPDIR/oci"
	"$bootseer" key new "$BATS_FILE_TMPDIR/key" >/dev/null
	"$bootseer" key new "$BATS_FILE_TMPDIR/other" >/dev/null
}

setup() {
	node_setup
	W=$T DB=sqlite:$T/registry.db
	DIGEST=$(jq -r '.manifests[] | select(.annotations[
		"org.opencontainers.image.ref.name"] == "v1") | .digest' \
		"$D/src/index.json")
	INDEXES=/v1/indexes/$DIGEST?repo=$REGISTRY/img
}

teardown() {
	stop_all
	node_teardown
}

share() { # OPTION...
	service --registry "$REGISTRY" --registry-plain-http "$@"
}

# A bootseerd NAME, with all of its state below $T/NAME.
node() { # NAME INDEX-MODE [OPTION...]
	local name=$1 mode=$2

	shift 2
	mkdir -p "$T/$name"
	: >"$T/log"
	env ${NODE_CLOCK:+"LD_PRELOAD=$test_clock" "TEST_CLOCK=$NODE_CLOCK"} \
		"$bootseerd" --root "$T/$name/root" --run "$T/run" --node-name "$name" \
		--plain-http "$REGISTRY" --service "$U" --prefetch off \
		--trust "*=${TRUST:-sign}" --trust-keys "${KEYS:-$D/key.pub}" \
		--containerd-root "$T/$name/containerd" \
		--index "$REGISTRY=$mode" "$@" 2>>"$T/log" 3>&- &
	node_pid=$!
	pids+=("$node_pid")
	wait_for node_is_up
}

# As containerd has it once it has pulled the image.
pulled() { # NAME
	mkdir -p "$T/$1/containerd/io.containerd.content.v1.content"
	cp -r "$D/oci/blobs" "$T/$1/containerd/io.containerd.content.v1.content/"
	chmod 444 "$T/$1"/containerd/*/blobs/sha256/*
}

prepare() { call image.prepare "{\"ref\":\"$IMAGE\",\"plain_http\":true}"; }

said() { grep -q "$1" "$T/log"; } # REGEX

# The process that makes an index has time when nobody else wants any: on a busy machine never.
hurry() { # COMMAND...
	local p

	for p in $(pgrep -P "$node_pid" || :); do
		chrt --other --pid 0 "$p" && renice -n 0 "$p"
	done >/dev/null 2>&1
	"$@"
}

# Node "one" makes the index.
make_one() { # [OPTION...]
	node one "build:$D/key" "$@"
	prepare | grep -q 'not converted'
	pulled one
	wait_for hurry said 'info index: offered\|warning index'
	said 'info index: offered'
	node_stop
}

@test "the second node starts lazily by the index of the first, and reads what is there" {
	share
	make_one
	[ ! -e "$T/one/root/indexing" ]
	node two ask
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	[ "$(status '.images[0].mode')" = lazy ]
	listing "$T/mnt" | diff "$D/want" -
	"$bootseer" image umount "$T/mnt"
	# After a restart it needs the service no more.
	node_stop
	end_service TERM
	node two ask
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	listing "$T/mnt" | diff "$D/want" -
	"$bootseer" image umount "$T/mnt"
}

# The index is the one that is made of the layers alone.
@test "what unpacking the layers found is used for the index, which is the same" {
	local at=containerd/io.containerd.content.v1.content/blobs/sha256 layer config i=0
	local unpacked artifact

	share
	node one "build:$D/key"
	prepare | grep -q 'not converted'
	pulled one
	config=$(blob_of "$DIGEST" | jq -r .config.digest)
	# The pull has not ended: one blob is not there.
	mv "$T/one/$at/${config#sha256:}" "$T/config"
	for layer in $(blob_of "$DIGEST" | jq -c '.layers[]'); do
		mkdir "$T/l$i"
		unpacked=$(call layer.unpack "$(jq -c --arg dir "$T/l$i" \
			'. + {media_type: .mediaType, dir: $dir, lower: [], sync: false} |
			{digest, size, media_type, dir, lower, sync}' <<<"$layer")")
		[ "$(jq -r .result.diff_id <<<"$unpacked")" = \
			"$(jq -r ".rootfs.diff_ids[$i]" "$T/config")" ]
		i=$((i + 1))
	done
	mv "$T/config" "$T/one/$at/${config#sha256:}"
	wait_for hurry said 'info index: offered\|warning index'
	said "info index: making .* readings=$i"
	[ "$i" -gt 1 ]
	artifact=$(curl -fsS "$U$INDEXES" | jq -r '.indexes[0].artifact')
	cp -r "$D/src" "$T/alone"
	"$bootseer" image convert --form index "oci:$T/alone:v1" "oci:$T/alone:v1"
	[ -e "$T/alone/blobs/sha256/${artifact#sha256:}" ]
	node_stop
	node two ask
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	listing "$T/mnt" | diff "$D/want" -
	"$bootseer" image umount "$T/mnt"
}

blob_of() { cat "$D/src/blobs/sha256/${1#sha256:}"; } # DIGEST

@test "an index is taken by a trusted signature alone, whoever else offers what" {
	local artifact at

	share
	make_one
	# Of a key that the second node does not have.
	KEYS=$D/other.pub node two ask
	prepare | grep -q 'not converted'
	said 'none from the service.*key'
	node_stop
	# Nobody compared it, and nobody pushed it.
	TRUST=verified node two ask
	prepare | grep -q 'not converted'
	said 'none from the service'
	node_stop
	# A rule may believe the registry: what the service says is not the registry's.
	node two ask --trust "$REGISTRY/img=registry"
	prepare | grep -q 'not converted'
	said 'counts by its signature'
	node_stop
	# Without a rule nobody is asked.
	node two off
	prepare | grep -q 'not converted'
	run ! said 'none from the service'
	node_stop
	# Bytes of another index below the name of the good one.
	artifact=$(curl -fsS "$U$INDEXES" | jq -r '.indexes[0].artifact')
	node two ask
	for at in 200 -1; do # in its manifest, in its last blob
		spoil "$at"
		prepare | grep -q 'not converted'
		said "none from the service.*signed"
		spoil "$at"
		: >"$T/log"
	done
	# A larger one is refused before its other parts, which there are none of, are asked for.
	swell
	prepare | grep -q 'not converted'
	said "none from the service.*size that was signed"
	[ "$(curl -fsS "$U$INDEXES" | jq -r '.indexes[0].artifact')" = "$artifact" ]
}

# Have an offer say that its last blob has 8 MiB more, in two more parts.
swell() {
	python3 -c 'import sqlite3, struct, sys
d = sqlite3.connect(sys.argv[1])
b = bytearray(d.execute("SELECT data FROM image_index_part WHERE part = 0").fetchone()[0])
at, more = 8 + 8 * 4, 8 << 20
struct.pack_into("<Q", b, at, struct.unpack_from("<Q", b, at)[0] + more)
d.execute("UPDATE image_index_part SET data = ? WHERE part = 0", (bytes(b),))
d.execute("UPDATE image_index SET parts = parts + 2, bytes = bytes + ?", (more,))
d.commit()' "${DB#sqlite:}"
}

# Flip a bit of what the service keeps, or flip it back.
spoil() { # BYTE
	python3 -c 'import sqlite3, sys
d = sqlite3.connect(sys.argv[1])
b = bytearray(d.execute("SELECT data FROM image_index_part WHERE part = 0").fetchone()[0])
b[int(sys.argv[2])] ^= 1
d.execute("UPDATE image_index_part SET data = ? WHERE part = 0", (bytes(b),))
d.commit()' "${DB#sqlite:}" "$1"
}

# What only a token of another repository, or nobody's login, may do.
@test "an index is had by nobody whom the registry does not let pull the image" {
	local call

	{
		token mine read,write "node=* repo=$REGISTRY/img"
		token theirs read,write "node=* repo=$REGISTRY/theirs"
		token boss read "node=*"
	} >"$T/tokens"
	chmod 600 "$T/tokens"
	AUTH="--tokens $T/tokens" share
	fault basic=1
	for call in "GET $INDEXES" "POST $INDEXES" \
		"GET ${INDEXES/\?//parts/0?}&artifact=$A&offer=1" \
		"PUT ${INDEXES/\?//wrong?}&artifact=$A"; do
		# Without the registry's login, with a wrong one, with the right one.
		asked mine "" 403
		asked mine "Basic d3Jvbmc6d3Jvbmc=" 403
		asked mine "Basic dXNlcjpzZWNyZXQ=" "20.\|404"
		# The right login does not make another's token good.
		asked theirs "Basic dXNlcjpzZWNyZXQ=" 403
	done
	# A registry that it was not told of is asked nothing.
	call="GET /v1/indexes/$DIGEST?repo=elsewhere.example/img"
	asked boss "" 403
}

token() { # NAME ROLES WORDS
	echo "$1 sha256:$(printf %s "secret-$1" | sha256sum | cut -c1-64) $2 $3"
}

asked() { # TOKEN LOGIN CODE
	local body=()

	[[ $call == GET* ]] || body=(-d '')
	ask -X "${call%% *}" ${body[@]+"${body[@]}"} -H "Authorization: Bearer secret-$1" \
		-H 'Bootseer-Node: n1' ${2:+-H} ${2:+"Bootseer-Pull: $2"} \
		"$U${call#* }"
	echo "$call as $1 with '$2': $code $(cat "$O")"
	grep -qx "$3" <<<"$code"
}

@test "an index that is wrong gives errors, is withdrawn, and is taken by no other node" {
	share
	make_one
	node_hold
	node two ask
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	# Wrong is what does not fit the digests, whoever spoilt it.
	fault wrong=300000 match=blobs
	run ! cmp "$T/mnt/big" "$D/rootfs/big"
	[[ $output != *differ* ]]
	fault
	"$bootseer" image umount "$T/mnt"
	wait_for later said 'warning index: withdrawn'
	[ ! -e "$T"/two/root/images/*/wrong ]
	[ "$(curl -fsS "$U$INDEXES" | jq '.indexes | length')" = 0 ]
	prepare | grep -q 'not converted'
	node_stop
	unset NODE_CLOCK
	node three "build:$D/key"
	prepare | grep -q 'not converted'
	pulled three
	wait_for said 'claim.*state=withdrawn'
}
