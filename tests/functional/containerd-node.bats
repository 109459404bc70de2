#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The whole way: an image is converted, bootseerd has it from a real registry,
# containerd starts it through bootseer-snapshotter.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../containerd/lib.bash"

setup_file() {
	make_images "$BATS_FILE_TMPDIR" >/dev/null
	"$bootseer" key new "$BATS_FILE_TMPDIR/key" >/dev/null
}
setup() { containerd_setup; }
teardown() { containerd_teardown; }

start_all() { # [OPTION OF BOOTSEERD...]
	start_node "$@"
	start_plugin
	start_containerd
}

have_lazy() {
	push "$I" lazy
	convert_image lazy --sign "$I/key"
	gets_before=$(layer_gets "$I" lazy)
}

# Layer requests since the conversion.
gets() { echo $(($(layer_gets "$I" lazy) - gets_before)); }

@test "a converted image starts lazily by ctr-remote and looks the same" {
	start_all
	have_lazy
	pull_lazy lazy
	in_container bootseer lazy "$LISTING" >"$T/got"
	[ "$(gets)" -eq 0 ]
	pull_full overlayfs lazy
	in_container overlayfs lazy "$LISTING" >"$T/want"
	diff "$T/want" "$T/got"
	[ "$(wc -l <"$T/got")" -gt 20 ]
}

@test "the CRI starts a converted image without a layer" {
	start_all
	have_lazy
	push "$I" pause
	cri pull "$REGISTRY/lazy:1"
	run cri run "$REGISTRY/lazy:1" pod /bin/sh -c 'cat /srv/one/deep/link &&
		echo new >/srv/two/new && ls /srv/two'
	cri stop
	[ "$status" -eq 0 ]
	[ "$output" = "$(printf 'one\ndata\nnew')" ]
	[ "$(gets)" -eq 0 ]
}

@test "a flat image of one layer starts lazily, and without us in full" {
	local layer

	start_all
	push "$I" lazy
	"$bootseer" image convert --plain-http --sign "$I/key" --form flat \
		"docker://$REGISTRY/lazy:1" "docker://$REGISTRY/flat:1"
	pull_lazy flat
	in_container bootseer flat "$LISTING" >"$T/got"
	layer=$(curl -sf -H 'Accept: application/vnd.oci.image.manifest.v1+json' \
		"http://$REGISTRY/v2/flat/manifests/1" |
		jq -r '.layers[].digest')
	run ! grep -q "GET /v2/flat/blobs/$layer .*containerd" "$T/registry.log"
	pull_full overlayfs flat
	grep -q "GET /v2/flat/blobs/$layer .*containerd" "$T/registry.log"
	in_container overlayfs flat "$LISTING" >"$T/want"
	diff "$T/want" "$T/got"
}

@test "an ordinary image that shares layers with a converted one has them" {
	start_all
	have_lazy
	push "$I" other
	pull_lazy lazy
	pull_lazy other
	in_container bootseer other "$LISTING" >"$T/got"
	pull_full overlayfs other
	in_container overlayfs other "$LISTING" >"$T/want"
	diff "$T/want" "$T/got"
}

@test "an image has its layers when the lazy one that shares them is gone" {
	start_all
	have_lazy
	push "$I" other
	pull_lazy lazy
	rm -r "$T/registry/docker/registry/v2/repositories/lazy"
	pull_lazy other
	in_container bootseer other "$LISTING" >"$T/got"
	pull_full overlayfs other
	in_container overlayfs other "$LISTING" >"$T/want"
	diff "$T/want" "$T/got"
}

# ctr does not tell the snapshotter which image it pulls.
@test "a client that names no image is told what keeps its layers from it" {
	start_all
	have_lazy
	push "$I" other
	pull_lazy lazy
	rm -r "$T/registry/docker/registry/v2/repositories/lazy"
	run ! pull_full bootseer other
	[[ $output == *"remove image '$REGISTRY/lazy:1'"* ]]
	ctr images rm --sync "$REGISTRY/lazy:1" "$REGISTRY/other:1"
	pull_full bootseer other
	in_container bootseer other true
}

@test "after everything was killed a container starts again without a layer" {
	start_all
	have_lazy
	pull_lazy lazy
	in_container bootseer lazy true
	stop_daemon "$containerd_pid" KILL
	stop_daemon "$plugin_pid" KILL
	stop_daemon "$node_pid" KILL
	rm "$T/plugin.sock" "$T/ctd/log" "$T/noderun/bootseerd.sock"
	start_all
	run in_container bootseer lazy 'cat /srv/one/deep/file'
	[ "$output" = one ]
	[ "$(gets)" -eq 0 ]
}

# What the kernel read ahead of it while the container started.
forget_data() {
	"$BATS_TEST_DIRNAME/forget-pages.py" "$T"/noderun/carrier/* \
		"$T"/noderun/images/*/fs/srv/two/data
}

@test "a container outlives bootseerd and reads on when it is back" {
	local reader

	start_all --hold
	have_lazy
	pull_lazy lazy
	ctr run -d --snapshotter bootseer "$REGISTRY/lazy:1" long \
		sh -c "busybox mkfifo /wait; read x </wait"
	forget_data
	pkill -KILL -P "$node_pid" # the holder starts another
	exec_in long sha256sum /srv/two/data >"$T/sum" &
	reader=$!
	wait "$reader"
	[ "$(cut -d' ' -f1 "$T/sum")" = \
		"$(sha256sum "$I/two/srv/two/data" | cut -d' ' -f1)" ]
	wait_until "$node_pid" in_container bootseer lazy true
}

# Have the port of a registry that ended refuse connections: without this a test
# beside is given it, and answers.
hold_port() {
	start_daemon "$T/port.log" /usr/bin/python3 -c '
import signal, socket, sys
host, port = sys.argv[1].rsplit(":", 1)
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((host, int(port)))  # not listen(): a registry that starts may
print("held", flush=True)
signal.pause()' "$REGISTRY"
	wait_until "$daemon_pid" grep -q held "$T/port.log"
}

# Start the registry again where it was.
registry_again() {
	sed -i "s/addr: .*/addr: \"$REGISTRY\"}/" "$T/registry.yml"
	start_daemon "$T/registry2.log" docker-registry serve "$T/registry.yml"
	wait_until "$daemon_pid" grep -q 'listening on' "$T/registry2.log"
}

@test "a container reads on when its registry was started again" {
	local reader registry_pid=$daemon_pid

	start_all --prefetch off
	have_lazy
	pull_lazy lazy
	ctr run -d --snapshotter bootseer "$REGISTRY/lazy:1" long \
		sh -c "busybox mkfifo /wait; read x </wait"
	stop_daemon "$registry_pid" KILL
	hold_port
	# After the registry ended: what a container that still starts reads, and the
	# kernel reads ahead with it, would come back before.
	"$bootseer" node gc --cache 0 --socket "$T/node.sock"
	forget_data
	exec_in long cat /srv/two/data >"$T/data" &
	reader=$!
	wait_until "$node_pid" grep -q 'waiting for registry=' "$T/node.log"
	registry_again
	wait "$reader"
	cmp "$T/data" "$I/two/srv/two/data"
	wait_until "$node_pid" grep -q 'answers again' "$T/node.log"
	[ "$(grep -c 'waiting for registry=' "$T/node.log")" -eq 1 ]
	[ "$(grep -c 'answers again' "$T/node.log")" -eq 1 ]
	run ! grep 'read failed' "$T/node.log"
}

@test "removing a converted image takes its mount down" {
	start_all
	have_lazy
	pull_lazy lazy
	in_container bootseer lazy true
	grep -q " $T/noderun/" /proc/self/mountinfo
	ctr images rm --sync "$REGISTRY/lazy:1"
	wait_until "$plugin_pid" gone
}

gone() { ! grep -q " $T/noderun/.* - erofs " /proc/self/mountinfo; }

users() { "$bootseer" node status --json | jq '[.images[].users[]] | length'; }

# ROOT of bootseerd on a disk of its own.
small_disk() { # SIZE
	truncate -s "$1" "$T/disk"
	mkfs.ext4 -q "$T/disk"
	mkdir "$T/small" "$T/noderoot"
	mount -o loop "$T/disk" "$T/small"
	mkdir "$T/small/root"
	mount --bind "$T/small/root" "$T/noderoot"
}

# The last user leaves on a full disk, and is there again after a restart.
leave_on_full_disk() {
	pull_lazy lazy
	[ "$(users)" -eq 1 ]
	dd if=/dev/zero of="$T/small/filler" bs=1k status=none 2>&1 || :
	ctr images rm --sync "$REGISTRY/lazy:1"
	wait_until "$plugin_pid" gone
	rm "$T/small/filler"
	stop_daemon "$node_pid" KILL
	rm "$T/noderun/bootseerd.sock"
	start_node --cache-min-free 0
	[ "$(users)" -eq 1 ]
	run ! gone
}

@test "an image that a full disk kept for nobody is released with the next clean-up" {
	small_disk 64M
	start_all --cache-min-free 0
	have_lazy
	push "$I" plain
	pull_full bootseer plain
	leave_on_full_disk
	ctr images rm --sync "$REGISTRY/plain:1"
	wait_until "$plugin_pid" gone
	[ "$(users)" -eq 0 ]
	grep -q 'released an image that bootseerd kept for nobody' "$T/plugin.log"
	# And no other: this one is there, and works after another clean-up.
	pull_lazy lazy
	pull_full bootseer plain
	ctr images rm --sync "$REGISTRY/plain:1"
	[ "$(users)" -eq 1 ]
	in_container bootseer lazy true
}

@test "an image that a full disk kept for nobody is released at the next start" {
	small_disk 64M
	start_all --cache-min-free 0
	have_lazy
	leave_on_full_disk
	stop_daemon "$plugin_pid" KILL
	rm "$T/plugin.sock"
	start_plugin
	gone
	[ "$(users)" -eq 0 ]
	# containerd connects again after a while.
	wait_until "$containerd_pid" pull_lazy lazy
	in_container bootseer lazy true
}

# An image "suid:1" with a program that gives root, and a device.
have_suid() {
	local d=$T/img

	mkdir -p "$d/suid/srv"
	cp -r "$I/oci" "$I/base" "$d"
	cp /usr/bin/id "$d/suid/srv/id"
	chmod 4755 "$d/suid/srv/id"
	mknod -m 666 "$d/suid/srv/null" c 1 3
	new_image "$d" suid base suid
	push "$d" suid
	"$bootseer" image convert --plain-http --sign "$I/key" \
		"docker://$REGISTRY/suid:1" "docker://$REGISTRY/suid:1"
}

# As user 1000 in a container: id by the image's program, and its device.
in_suid() { # SNAPSHOTTER
	said_by run --rm --snapshotter "$1" --allow-new-privs \
		--mount type=bind,src=/usr,dst=/usr,options=rbind:ro \
		--mount type=bind,src=/lib,dst=/lib,options=rbind:ro \
		--mount type=bind,src=/lib64,dst=/lib64,options=rbind:ro \
		"$REGISTRY/suid:1" "s$RANDOM" /bin/sh -c \
		'/usr/bin/setpriv --reuid 1000 --regid 1000 --clear-groups \
			/srv/id -u
		echo x >/srv/null && cat /srv/null && echo device'
}

@test "set-user-id programs and devices work in a container, as on overlayfs" {
	local want

	start_all
	have_suid
	pull_full overlayfs suid
	want=$(in_suid overlayfs)
	[ "$want" = "$(printf '0\ndevice')" ]
	ctr images rm --sync "$REGISTRY/suid:1"
	pull_lazy suid
	[ "$(in_suid bootseer)" = "$want" ]
}

attributes() { find "$1" -printf '%P %y %m %U %G %l\n' | LC_ALL=C sort; } # DIR

@test "a view of a lazy image is what one on overlayfs is" {
	local chain how s

	# A view that nobody leased is garbage to containerd.
	GC_DELAY=1h
	start_all
	have_suid
	pull_lazy suid
	run ! grep 'starts the ordinary way' "$T/node.log"
	pull_full overlayfs suid
	chain=$(chain_ids_of "$T/img" suid | tail -1)
	for s in bootseer overlayfs; do
		mkdir "$T/$s"
		how=$(ctr snapshots --snapshotter "$s" view --target "$T/$s" \
			"view-$s" "$chain")
		bash -c "$how"
		# From inside: the folders of tests are closed to others.
		[ "$(cd "$T/$s" && setpriv --reuid 1000 --regid 1000 \
			--clear-groups env ./srv/id -u)" = 0 ]
		[ "$(cat "$T/$s/srv/null" && echo device)" = device ]
		run ! touch "$T/$s/new"
	done
	diff <(attributes "$T/overlayfs") <(attributes "$T/bootseer")
	umount "$T/bootseer" "$T/overlayfs"
	ctr snapshots --snapshotter bootseer rm view-bootseer
}

@test "an image that is chowned for a user namespace is read, in folders of root's" {
	start_all
	have_lazy
	pull_lazy lazy
	[ "$(stat -c %a "$T/noderun")" = 700 ]
	# Its root, who is nobody here, comes to its rootfs through these.
	chmod 711 "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR/test" "$T"
	ctr run --rm --log-uri "file://$T/said" --snapshotter bootseer \
		--uidmap 0:100000:65536 --gidmap 0:100000:65536 \
		"$REGISTRY/lazy:1" "u$RANDOM" /bin/sh -c \
		'cat /proc/self/uid_map; sha256sum /srv/two/data; stat -c %u /bin'
	[ "$(sed -n 1p "$T/said" | xargs)" = "0 100000 65536" ]
	[ "$(sed -n 2p "$T/said" | cut -d' ' -f1)" = \
		"$(sha256sum "$I/two/srv/two/data" | cut -d' ' -f1)" ]
	[ "$(sed -n 3p "$T/said")" = 0 ]
}

# Triggers containerd's garbage collector and waits for it.
collect_garbage() { # NAMESPACE
	ctr -n "$1" images tag "$REGISTRY/$2:1" "garbage/$2:1" >/dev/null
	ctr -n "$1" images rm --sync "garbage/$2:1"
}

@test "what was pulled lazily runs under overlayfs when node fetch was there" {
	start_all
	have_lazy
	pull_lazy lazy
	run ! in_container overlayfs lazy true
	[[ $output == *"not found"* ]]
	"$bootseer" node fetch --dry-run --plain-http >"$T/list"
	[ "$(tail -n 1 "$T/list" | cut -d, -f1)" = "3 layers missing" ]
	[ "$(cut -d' ' -f3 "$T/list" | head -n 3)" = "$(layers_of "$I" lazy)" ]
	[ "$(gets)" -eq 0 ]
	stop_daemon "$node_pid"
	run -0 --separate-stderr "$bootseer" node fetch --plain-http
	[[ ${lines[-1]} == "3 layers missing, 3 fetched, "* ]]
	collect_garbage "$CONTAINERD_NAMESPACE" lazy
	run -0 --separate-stderr "$bootseer" node fetch --plain-http
	[ "$output" = "0 layers missing, 0 fetched, 0 B" ]
	stop_daemon "$plugin_pid"
	in_container overlayfs lazy "$LISTING" >"$T/got"
	grep -q '^srv/two/data ' "$T/got"
}

@test "layers that were deleted once they were unpacked are fetched, by whichever name gives them" {
	DOCUMENTED='s/^  disable_snapshot_annotations.*/&\n  discard_unpacked_layers = true/' \
		start_all
	push "$I" plain
	cri pull "$REGISTRY/plain:1"
	CONTAINERD_NAMESPACE=k8s.io
	collect_garbage k8s.io plain
	# A name that no registry has any more.
	ctr images tag "$REGISTRY/plain:1" "$REGISTRY/gone:1"
	run ! in_container overlayfs plain true
	[[ $output == *"not found"* ]]
	run -0 --separate-stderr "$bootseer" node fetch --plain-http
	# One of its three it has twice.
	[[ ${lines[-1]} == "2 layers missing, 2 fetched, "* ]]
	collect_garbage k8s.io plain
	run in_container overlayfs plain 'cat /srv/own/file'
	[ "$output" = own ]
}

@test "layers that no registry gives are told, and which one it asked" {
	start_all
	have_lazy
	pull_lazy lazy
	ctr images tag "$REGISTRY/lazy:1" "$REGISTRY/gone:1"
	ctr images rm --sync "$REGISTRY/lazy:1"
	run -1 --separate-stderr "$bootseer" node fetch --plain-http
	[[ $stderr == *"3 layers still missing: "* ]]
	run -1 --separate-stderr "$bootseer" node fetch --containerd "$T/none.sock"
	[[ $stderr == *"$T/none.sock"* ]]
}

start_service() {
	start_daemon "$T/service.log" "$BOOTSEER_BUILD/registry/bootseer-registry" \
		--listen 127.0.0.1:0 --db "sqlite:$T/registry.db" --insecure-no-auth \
		--registry "$REGISTRY" --registry-plain-http
	wait_until "$daemon_pid" grep -q ' ready port=' "$T/service.log"
	SERVICE=http://127.0.0.1:$(sed -n 's/.* ready port=\([0-9]*\).*/\1/p' \
		"$T/service.log")
}

# The process that makes an index has time when nobody else wants any: on a busy machine never.
offers() {
	local p

	for p in $(pgrep -P "$node_pid"); do
		chrt --other --pid 0 "$p" && renice -n 0 "$p"
	done
	grep -q 'index: offered' "$T/node.log"
}

one_node() { # NAME INDEX-MODE
	start_all --service "$SERVICE" --node-name "$1" --index "$REGISTRY=$2" \
		--containerd-root "$T/ctd/root"
	cri pull "$REGISTRY/lazy:1"
	# The CRI has files of its own in etc.
	cri run "$REGISTRY/lazy:1" pod /bin/sh -c "${LISTING/ etc / }" >"$T/$1"
	cri stop
}

@test "the first node that pulls an ordinary image has the second start it lazily" {
	local before layer

	start_service
	push "$I" lazy
	push "$I" pause
	one_node one "build:$I/key"
	wait_until "$node_pid" offers
	[ "$(wc -l <"$T/one")" -gt 20 ]
	# Another machine has nothing of the first.
	stop_daemon "$containerd_pid"
	stop_daemon "$plugin_pid"
	stop_daemon "$node_pid"
	mv "$T/ctd" "$T/ctd.one"
	rm -r "$T/noderoot" "$T/plugin"
	before=$(wc -l <"$T/registry.log")
	one_node two ask
	diff "$T/one" "$T/two"
	# bootseerd reads parts of the layers, containerd none of them.
	for layer in $(layers_of "$I" lazy); do
		tail -n "+$((before + 1))" "$T/registry.log" |
			grep "GET /v2/lazy/blobs/$layer " >"$T/gets" || :
		run ! grep containerd "$T/gets"
	done
	grep -q 'index: found' "$T/node.log"
}

# --- layers that bootseerd unpacks for containerd ------------------------------

# As containerd asks for it; prints the diff id or the status.
apply() { # DIGEST DIR [LOWER]
	/usr/bin/python3 "$lib_dir/apply.py" "$T/plugin.sock" \
		"${TYPE:-application/vnd.oci.image.layer.v1.tar+gzip}" "$1" \
		"$(stat -c %s "$BLOBS/${1#sha256:}" || echo 1)" "${@:2}"
}

@test "a layer that containerd has is unpacked for it as it unpacks it itself" {
	local layer diffs=() below= i=0

	BLOBS=$T/ctd/root/io.containerd.content.v1.content/blobs/sha256
	start_all --containerd-root "$T/ctd/root"
	push "$I" other
	pull_full overlayfs other
	readarray -t diffs < <(blob "$I" "$(blob "$I" "$(manifest_of "$I" other)" |
		jq -r .config.digest)" | jq -r '.rootfs.diff_ids[]')
	mkdir "$T/want" "$T/got" "$T/up" "$T/work"
	for layer in $(layers_of "$I" other); do
		mkdir -m 755 "$T/l$i"
		[ "$(apply "$layer" "$T/l$i" ${below:+"$below"})" = "${diffs[i]}" ]
		below=$T/l$i${below:+:$below}
		i=$((i + 1))
	done
	[ "$i" -eq 3 ]
	mount -t overlay -o "lowerdir=$below" overlay "$T/got"
	ctr images mount --snapshotter overlayfs "$REGISTRY/other:1" "$T/want"
	list_both
	umount "$T/got" "$T/want"
	diff "$T/want.list" "$T/got.list"
	grep -q 'srv/own/file' "$T/got.list"
	run ! grep -q 'opt/gone' "$T/got.list"
}

# But for the root, whose entry containerd passes over.
list_both() {
	local way

	for way in want got; do
		"$lib_dir/../functional/list-tree.py" "$T/$way" |
			grep -v "^b'/' " >"$T/$way.list"
	done
}

@test "a layer that bootseerd cannot unpack is left to containerd, with an empty folder" {
	local layer bad

	BLOBS=$T/ctd/root/io.containerd.content.v1.content/blobs/sha256
	start_node --containerd-root "$T/ctd/root"
	start_plugin --node-timeout 1s
	start_containerd
	push "$I" other
	pull_full overlayfs other
	layer=$(layers_of "$I" other | head -n 1)
	mkdir "$T/dir"
	TYPE=application/vnd.erofs.layer.v1 run apply "$layer" "$T/dir"
	[ "$output" = UNIMPLEMENTED ]
	TYPE=application/vnd.oci.image.layer.v1.tar+gzip+encrypted run apply "$layer" "$T/dir"
	[ "$output" = UNIMPLEMENTED ]
	run apply "sha256:$(printf '%064d' 0)" "$T/dir"
	[ "${lines[-1]}" = UNIMPLEMENTED ]
	# It has a file before what is refused.
	echo good >"$T/good"
	tar -C "$T" -cf "$T/bad.tar" --transform 's,^ctd/log,../bad,' good ctd/log
	bad=sha256:$(sha256sum "$T/bad.tar" | cut -d' ' -f1)
	cp "$T/bad.tar" "$BLOBS/${bad#sha256:}"
	[ "$(apply "$bad" "$T/dir")" = UNIMPLEMENTED ]
	grep -q "unpacks a layer itself: layer=$bad .*bad" "$T/plugin.log"
	[ -z "$(ls -A "$T/dir")" ]
	# A digest that only containerd knows, and a mount of a part.
	run apply "sha512:$(printf '%0128d' 0)" "$T/dir"
	[ "${lines[-1]}" = UNIMPLEMENTED ]
	TARGET=part run apply "$layer" "$T/dir"
	[ "$output" = UNIMPLEMENTED ]
	# A mount that maps ids, as of a snapshot for a user namespace.
	mkdir "$T/below"
	export OPTIONS='uidmap=0:100000:65536 gidmap=0:100000:65536'
	[ "$(apply "$layer" "$T/dir")" = UNIMPLEMENTED ]
	[ "$(apply "$layer" "$T/dir" "$T/below")" = UNIMPLEMENTED ]
	unset OPTIONS
	[ -z "$(ls -A "$T/dir")" ]
	# Nothing is written where somebody else is at work, by anybody.
	exec {lock}<"$T/dir"
	flock -n "$lock"
	[ "$(apply "$layer" "$T/dir")" = ABORTED ]
	exec {lock}<&-
	[ -z "$(ls -A "$T/dir")" ]
	# What somebody else has there stays.
	: >"$T/dir/other"
	[ "$(apply "$layer" "$T/dir")" = UNIMPLEMENTED ]
	[ "$(ls -A "$T/dir")" = other ]
	rm "$T/dir/other"
	[ "$(apply "$layer" "$T/dir")" != UNIMPLEMENTED ]
	[ -x "$T/dir/bin/busybox" ]
	stop_daemon "$node_pid"
	mkdir "$T/more"
	[ "$(apply "$layer" "$T/more")" = UNIMPLEMENTED ]
}

# Nothing of the layer is left, and containerd is told to do it itself.
has_no_room() {
	[ "$(apply "$big" "$T/small/dir")" = UNIMPLEMENTED ]
	[ -z "$(ls -A "$T/small/dir")" ]
	grep "unpacks a layer itself: layer=$big .*No space left on device" "$T/plugin.log"
}

@test "a layer for which there is no room leaves nothing, and is unpacked when there is some" {
	local big diff_id

	BLOBS=$T/ctd/root/io.containerd.content.v1.content/blobs/sha256
	truncate -s 64M "$T/disk"
	mkfs.ext4 -q "$T/disk"
	mkdir -p "$BLOBS" "$T/img/a" "$T/img/b" "$T/small"
	mount -o loop "$T/disk" "$T/small"
	mkdir "$T/small/dir"
	noise 20000000 7 >"$T/img/a/data"
	echo later >"$T/img/b/file"
	tar -C "$T/img" --sort=name -cf "$T/big.tar" .
	diff_id=sha256:$(sha256sum "$T/big.tar" | cut -d' ' -f1)
	gzip "$T/big.tar"
	big=sha256:$(sha256sum "$T/big.tar.gz" | cut -d' ' -f1)
	mv "$T/big.tar.gz" "$BLOBS/${big#sha256:}"
	start_node --containerd-root "$T/ctd/root"
	start_plugin --node-timeout 1s
	fallocate -l "$(($(stat -f -c '%a * %S' "$T/small") - 10000000))" "$T/small/filler"
	has_no_room
	rm "$T/small/filler"
	[ "$(apply "$big" "$T/small/dir")" = "$diff_id" ]
	diff -r "$T/img" "$T/small/dir"
}
