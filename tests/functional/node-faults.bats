#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bootseerd when the registry or the disk misbehaves: what docs/operations.md
# declares, and that nothing wrong is ever read.

bats_require_minimum_version 1.5.0
load node.bash

setup_file() { make_image "$BATS_FILE_TMPDIR"; }
setup() { node_setup; }
teardown() { node_teardown; }

mount_it() { "$bootseer" image mount "$IMAGE" "$T/mnt"; }
read_all() { cmp "$T/mnt/big" "$D/rootfs/big"; }

prepare() { # [PARAMETERS-AFTER-REF]
	call image.prepare "{\"ref\":\"$IMAGE\"${1:-}}"
}

message() { jq -r .error.message; }

@test "a registry that is down fails a first prepare and names the image" {
	node_start
	fault down=1
	run ! mount_it
	[[ $output == *"$IMAGE"* ]]
	fault
	mount_it
	read_all
}

@test "with the registry down a known tag is served as it was last seen" {
	local reply

	node_start
	mount_it
	read_all
	"$bootseer" image umount "$T/mnt"
	fault down=1
	reply=$(prepare)
	[ "$(jq -r .result.source <<<"$reply")" = stale ]
	[[ $(jq -r .result.warning <<<"$reply") == *"$REGISTRY"* ]]
	grep -q "warning prepare: stale image=\"$IMAGE\"" "$T/log"
	# By digest there is nothing to ask.
	reply=$(prepare ",\"manifest\":\"$(jq -r .result.manifest <<<"$reply")\"")
	[ "$(jq -r .result.source <<<"$reply")" = node ]
	run -0 mount_it
	[[ $output == *"warning: '$IMAGE' may name another image"* ]]
	read_all
	"$bootseer" image umount "$T/mnt"
}

# Its artifact does not name the image: form F1 has no subject.
@test "a flat image of a registry that is down is still known by its manifest" {
	local known reply

	"$bootseer" image convert --form flat "oci:$D/src:v1" "oci:$T/oci:flat"
	kill "${pids[0]}"
	rm "$T/ports"
	D=$T registry_start
	IMAGE=$REGISTRY/img:flat
	node_start
	known=$(prepare | jq -r .result.manifest)
	jq -e --arg d "$known" 'any(.manifests[]; .digest == $d)' \
		"$T/oci/index.json"
	fault down=1
	reply=$(prepare)
	[ "$(jq -r .result.source <<<"$reply")" = stale ]
	[ "$(jq -r .result.manifest <<<"$reply")" = "$known" ]
	# What containerd asks with next is that.
	reply=$(prepare ",\"manifest\":\"$known\"")
	[ "$(jq -r .result.source <<<"$reply")" = node ]
}

@test "a registry that says no is obeyed, also for a known tag" {
	node_start
	mount_it
	"$bootseer" image umount "$T/mnt"
	fault status=404 match=/manifests/
	[ "$(prepare | jq .error.errno)" = 2 ]
	fault status=403 match=/manifests/
	[ "$(prepare | jq .error.errno)" = 13 ]
	fault
	[ "$(prepare | jq -r .result.source)" = node ]
}

@test "a registry that had the image only when it was asked for is asked again" {
	local digest reply

	digest=$(jq -r '.manifests[] | select(.annotations[
		"org.opencontainers.image.ref.name"] == "v1") | .digest' "$D/oci/index.json")
	node_start
	# What asks beside the manifest, as a mirror has nothing yet.
	fault status=404 match=/referrers/ times=1
	reply=$(prepare ",\"manifest\":\"$digest\"")
	jq -e .result.manifest <<<"$reply"
	[ "$(grep -c "/referrers/$digest 404" "$T/requests")" -eq 1 ]
}

@test "reads wait for a registry that comes back" {
	local reader

	node_start
	mount_it
	fault down=1
	read_all 3>&- &
	reader=$!
	# It is waiting: the daemon has the request, and no answer.
	wait_for reads_wait
	fault
	wait "$reader"
}

reads_wait() { [ "$(status '.images[0].device.misses')" -gt 0 ]; }

waits_told() { [ "$(grep -c 'origin: waiting for registry=' "$T/log")" -eq "$1" ]; } # N
backs_told() { [ "$(grep -c 'origin: .* answers again' "$T/log")" -eq "$1" ]; } # N

# Megabytes 4N and 4N + 1 of the file, which nobody has read yet.
read_part() { # N
	cmp <(dd if="$T/mnt/big" bs=1M skip=$((4 * $1)) count=2 status=none) \
		<(dd if="$D/rootfs/big" bs=1M skip=$((4 * $1)) count=2 status=none)
}

@test "a load balancer that is started again is noticed by no reader" {
	local n=0 what first second

	node_start --fetch-window-max 256K
	mount_it
	for what in down=1 drop=1 status=502 'status=503 retry_after=1' \
		'status=429 retry_after=1'; do
		# shellcheck disable=SC2086 # two of them
		fault $what
		read_part "$n" 3>&- &
		first=$!
		read_part "$n" 3>&- &
		second=$! # wait_for has processes, too
		n=$((n + 1))
		wait_for waits_told "$n"
		"$bootseer" node doctor | grep -q "registry away.*$REGISTRY"
		"$bootseer" node status | sed q | grep -q "^registry .*$REGISTRY, away for "
		fault
		wait_all "$first" "$second"
		wait_for backs_told "$n"
		waits_told "$n"
	done
	run ! grep 'read failed' "$T/log"
	[ "$(status '.images[0].device.errors')" -eq 0 ]
	call node.doctor '{}' | jq -e '[.result.checks[] |
		select(.name == "registry away")] == []'
}

more_requests() { [ "$(fetches)" -gt "$1" ]; } # N

@test "a registry that refuses is waited for until --read-timeout" {
	local i n

	node_hold
	node_start
	mount_it
	fault status=503
	aside read cat "$T/mnt/big" >"$T/got" 2>/dev/null
	# Four minutes of the five.
	for i in {1..24}; do
		n=$(fetches)
		node_step 10000
		# The answer before may be looked at only now, and its back-off begin here.
		wait_for slowly more_requests "$n"
	done
	run ! has_ended read
	run ! grep 'read failed' "$T/log"
	node_step $((299500 - node_ms)) # just before, so that the answer is the last
	wait_for slowly grep -q 'read failed.*503' "$T/log"
	# The kernel asks once more, with a time-out of its own.
	fault
	wait_for later has_ended read
}

@test "a registry that says no is not waited for" {
	local what

	node_hold # no --read-timeout ends
	node_start
	mount_it
	for what in status=403 status=404; do
		fault "$what"
		run ! cat "$T/mnt/big"
	done
	waits_told 0
}

# Readers of as many places of a file as there are buffers, and more.
flood() { # FILE
	local i

	for i in {0..299}; do
		dd if="$1" of=/dev/null bs=4k count=1 skip=$((i * 19)) \
			status=none 2>/dev/null 3>&- &
		pids+=($!)
	done
}

@test "a registry that is down does not hold up other images" {
	local good=$REGISTRY good_image=$IMAGE other

	mkdir "$T/fs" "$T/other"
	noise 24000000 11 >"$T/fs/big"
	umoci init --layout "$T/src"
	umoci new --image "$T/src:v1"
	umoci insert --image "$T/src:v1" "$T/fs" /
	"$bootseer" image convert "oci:$T/src:v1" "oci:$T/oci:v1" >/dev/null
	rm "$T/ports"
	D=$T registry_start
	other=$IMAGE IMAGE=$good_image
	node_start --plain-http "$good"
	mount_it
	read_all
	"$bootseer" image mount --plain-http "$other" "$T/other"
	fault down=1
	flood "$T/other/big"
	wait_for has_all_it_gets "$other"
	# Blocks that are on the node are read as ever.
	dd if="$T/mnt/big" iflag=nocache count=0 status=none
	timeout 120 cmp "$T/mnt/big" "$D/rootfs/big"
	fault
	wait_all "${pids[@]:3}"
	"$bootseer" image umount "$T/other"
	"$bootseer" image umount "$T/mnt"
}

# Of 128 buffers for short replies, one half is for replies that may wait, and of that a
# quarter for images that have few.
has_all_it_gets() { # IMAGE
	[ "$(status ".images[] | select(.name == \"$1\") | .device.misses")" -ge 48 ]
}

# For wait_for, as later.
much_later() { # COMMAND...
	node_step 60000
	"$@"
}

# What had failed before may wait to be asked for again.
all_comes() {
	aside all read_all
	wait_for later has_ended all
	ended all well
}

@test "reads fail when the registry stays away, and say what they wanted" {
	node_hold
	node_start --read-timeout 1h
	mount_it
	fault down=1
	aside read cat "$T/mnt/big" >/dev/null
	wait_for much_later has_ended read
	ended read badly
	grep -q "read failed image=\"$IMAGE\"" "$T/log"
	[ "$(status '.images[0].device.errors')" -gt 0 ]
	[ "$(status '.images[0].last_error.errno')" -gt 0 ]
	[[ $(status '.images[0].last_error.message') == *[a-z]* ]]
	[ "$(status '.images[0].last_error.at')" -gt 0 ]
	fault
	all_comes
}

@test "a slow registry is only slow" {
	node_start
	mount_it
	fault drip=400000 drip_ms=30 match=/blobs/
	cmp "$T/mnt/top/data" "$D/top/data"
}

@test "a transfer that is cut goes on where it ended" {
	node_start
	mount_it
	fault cut=100000 times=3 match=/blobs/
	read_all
}

@test "a transfer that stalls is begun again" {
	node_start --stall-timeout 1s
	mount_it
	fault delay_ms=20000 times=1 match=/blobs/
	cmp "$T/mnt/top/data" "$D/top/data"
}

# Who has to be made to end logs no such failure.
end_while_waiting() { # PART-OF-URL
	local waiting

	node_start --stall-timeout 10m
	fault delay_ms=3600000 "match=$1"
	mount_it >"$T/mounted" 2>&1 3>&- &
	waiting=$!
	wait_for grep -q "$1" "$T/requests"
	node_stop
	wait_fails "$waiting"
	grep 'failed method=image.prepare.*not wanted any more' "$T/log"
}

@test "who waits for a manifest from a registry that hangs ends when it is told to" {
	end_while_waiting /manifests/
}

@test "who waits for metadata from a registry that hangs ends when it is told to" {
	end_while_waiting /blobs/
}

@test "429 is waited for" {
	node_start
	fault status=429 retry_after=1 times=2
	mount_it
	fault status=429 retry_after=1 times=2 match=/blobs/
	read_all
}

@test "a token that expires is replaced" {
	# As often as requests are under way at once, or one is refused again and again.
	fault bearer=1 token_uses=10
	node_start
	mount_it
	read_all
	[ "$(grep -c ' /token' "$T/requests")" -ge 2 ]
}

@test "wrong credentials are told, right ones are read at SIGHUP" {
	echo '{"auths":{}}' >"$T/auth.json"
	fault basic=1
	node_start --auth-file "$T/auth.json"
	[ "$(prepare | jq .error.errno)" = 13 ]
	[[ $(prepare | message) == *"$IMAGE"* ]]
	printf '{"auths":{"%s":{"auth":"%s"}}}' "$REGISTRY" \
		"$(printf user:secret | base64)" >"$T/auth.json"
	kill -HUP "$node_pid"
	wait_for grep -q 'info main: reloaded' "$T/log"
	mount_it
	read_all
}

@test "new credentials reach images that are mounted" {
	fault basic=1
	printf '{"auths":{"%s":{"auth":"%s"}}}' "$REGISTRY" \
		"$(printf user:secret | base64)" >"$T/auth.json"
	node_start --auth-file "$T/auth.json"
	mount_it
	echo '{"auths":{}}' >"$T/auth.json"
	kill -HUP "$node_pid"
	wait_for grep -q 'info main: reloaded' "$T/log"
	run ! cat "$T/mnt/big"
	"$bootseer" node status >"$T/status"
	head -n 2 "$T/status" | grep -q "^failed .*$REGISTRY.* ago: .*the registry wants a login"
	printf '{"auths":{"%s":{"auth":"%s"}}}' "$REGISTRY" \
		"$(printf user:secret | base64)" >"$T/auth.json"
	kill -HUP "$node_pid"
	wait_for reloaded_twice
	read_all
}

# start_by_fifo [OPTION...]: a bootseerd that reads its configuration, and has no handler yet.
start_by_fifo() {
	mkfifo "$T/config"
	: >"$T/log"
	"$bootseerd" --config "$T/config" --root "$T/root" --run "$T/run" "$@" 2>"$T/log" 3>&- &
	node_pid=$!
	pids+=("$node_pid")
	exec 9>"$T/config"
}

@test "a reload that is asked for while bootseerd starts is done when it runs" {
	start_by_fifo
	kill -HUP "$node_pid"
	exec 9>&-
	wait_for node_is_up
	wait_for grep -q 'info main: reloaded' "$T/log"
}

@test "so is one that its holder passes on" {
	start_by_fifo --hold
	exec 9>&-
	wait_for child_of "$node_pid"
	exec 9>"$T/config"
	kill -HUP "$node_pid"
	exec 9>&-
	wait_for node_is_up
	wait_for grep -q 'info main: reloaded' "$T/log"
}

reloaded_twice() { [ "$(grep -c 'info main: reloaded' "$T/log")" = 2 ]; }

@test "wrong bytes of a block are never read" {
	node_hold
	node_start --read-timeout 1h
	mount_it
	fault wrong=300000 match="$(pack)"
	aside read read_all >"$T/said" 2>&1
	wait_for much_later has_ended read
	# Read errors are allowed, other bytes are not.
	ended read badly
	run ! grep -E 'differ|EOF' "$T/said"
	grep -q "read failed image=\"$IMAGE\".*block" "$T/log"
	fault
	all_comes
}

# Digest of the artifact's largest blob.
pack() {
	find "$D/oci/blobs/sha256" -size +15M -printf '%f\n' | while read -r f; do
		[ -e "$D/src/blobs/sha256/$f" ] || echo "$f"
	done | head -n 1
}

@test "wrong bytes of the metadata are refused and nothing is kept" {
	node_start
	fault wrong=20 match=/blobs/
	run ! mount_it
	[[ $output == *"$IMAGE"* ]]
	[ "$(status '.images | length')" = 0 ]
	[ -z "$(ls "$T/root/images")" ]
	fault
	mount_it
	read_all
}

small_disk() { # SIZE
	truncate -s "$1" "$T/disk"
	mkfs.ext4 -q "$T/disk"
	mkdir "$T/small"
	mount -o loop "$T/disk" "$T/small"
	ROOT=$T/small/root
	mkdir "$ROOT"
}

@test "a full disk fails a prepare with the reason, and nothing is left" {
	small_disk 16M
	node_start --cache-min-free 0
	dd if=/dev/zero of="$T/small/filler" bs=4k status=none 2>&1 || :
	run ! mount_it
	[[ $output == *"$IMAGE"*"disk of '$ROOT'"*'is full: '*' wanted'* ]]
	rm "$T/small/filler"
	mount_it
	cmp "$T/mnt/bin/busybox" "$D/rootfs/bin/busybox"
	"$bootseer" image umount "$T/mnt"
	node_stop
}

@test "a full disk does not disturb readers: blocks are served and not kept" {
	small_disk 24M
	node_start --cache-min-free 0
	mount_it
	dd if=/dev/zero of="$T/small/filler" bs=4k status=none 2>&1 || :
	read_all
	[ "$(status '.images[0].device.errors')" = 0 ]
	"$bootseer" image umount "$T/mnt"
	node_stop
}

@test "a full disk does not keep an image from being there after a reboot" {
	small_disk 80M
	node_start --cache-min-free 0
	mount_it
	find "$T/mnt" -type f -exec cat {} + >/dev/null
	"$bootseer" image umount "$T/mnt"
	mount_it
	[ "$(status '.images[0].mode')" = complete ]
	node_stop KILL
	umount "$T/mnt"
	umount "$T"/run/images/*/fs
	dd if=/dev/zero of="$T/small/filler" bs=1k status=none 2>&1 || :
	node_start --cache-min-free 0
	[ "$(status '.images[0].mode')" = lazy ]
	mount_it
	read_all
	# It still says on the disk that it is complete: it is looked at.
	umount "$T/mnt"
	node_stop KILL
	node_start --cache-min-free 0
	[ "$(status '.images[0].mode')" = lazy ]
	node_stop
}

@test "a full disk does not keep a complete mount from being adopted" {
	small_disk 80M
	node_start --cache-min-free 0
	mount_it
	find "$T/mnt" -type f -exec cat {} + >/dev/null
	"$bootseer" image umount "$T/mnt"
	mount_it
	[ "$(status '.images[0].mode')" = complete ]
	node_stop KILL
	# As if it had been mounted while the disk was full, too.
	sed -i 's/"complete": true/"complete": false/' "$ROOT"/images/*/state.json
	grep -q '"complete": false' "$ROOT"/images/*/state.json
	dd if=/dev/zero of="$T/small/filler" bs=1k status=none 2>&1 || :
	node_start --cache-min-free 0
	[ "$(status '.images[0].mode')" = complete ]
	read_all
	"$bootseer" image umount "$T/mnt"
	node_stop
}

@test "metadata that the disk damaged is fetched again" {
	local dir

	node_start
	mount_it
	umount "$T/mnt"
	dir=$(echo "$T"/root/images/*/)
	node_stop
	printf x | dd of="$dir/meta.erofs" bs=1 seek=5000 conv=notrunc status=none
	truncate -s 100 "$dir/blockmap"
	node_start
	grep -q 'warning mount: damaged' "$T/log"
	mount_it
	read_all
	"$bootseer" image umount "$T/mnt"
}

@test "an image folder that is damaged is left out and prepared again" {
	local dir

	node_start
	mount_it
	"$bootseer" image umount "$T/mnt"
	dir=$(echo "$T"/root/images/*/)
	node_stop
	echo '{' >"$dir/artifact.json"
	mkdir "$T/root/images/tmp.leftover"
	node_start
	grep -q 'error images: damaged' "$T/log"
	[ ! -e "$T/root/images/tmp.leftover" ]
	[ "$(status '.images | length')" = 0 ]
	mount_it
	read_all
	"$bootseer" image umount "$T/mnt"
}

@test "blocks that the disk damaged are fetched again" {
	node_start
	mount_it
	read_all
	"$bootseer" image umount "$T/mnt"
	node_stop
	find "$T/root/cache" -type f -size +1M | while read -r f; do
		printf damage | dd of="$f" bs=1 seek=100000 conv=notrunc \
			status=none
	done
	node_start
	mount_it
	read_all
	[ "$(status .cache.damaged)" -gt 0 ]
	"$bootseer" image umount "$T/mnt"
}

@test "a holder that was killed is an error in the log, and in doctor" {
	local child

	node_start --hold
	child=$(child_of "$node_pid")
	pids+=("$child") # nobody else ends it
	run -0 "$bootseer" node doctor
	[[ $output != *"was killed"* ]]
	kill -KILL "$node_pid"
	wait "$node_pid" || :
	wait_for grep -q '^error main: the holder ended.*cure=.*--hold' "$T/log"
	run -1 "$bootseer" node doctor
	[[ $output == *"crash safety"*"the holder (--hold) was killed"*"--hold"* ]]
	kill "$child"
	wait_for test ! -e "/proc/$child"
}

@test "a holder that ends before bootseerd looks is missed too" {
	# As its child would be, with another parent than the one that is named.
	BOOTSEER_HELD=1 node_start
	wait_for grep -q '^error main: the holder ended' "$T/log"
}

mounts_of() { awk -v p="$1" '$5 == p' /proc/self/mountinfo | wc -l; } # PATH

# An image beside the one that is mounted: the same content in another repository.
other_image() { "$bootseer" image mount "$REGISTRY/other:v1" "$T/other"; }

@test "a carrier that somebody unmounted is mounted again, and the log says so" {
	local kind carrier

	mkdir "$T/other"
	for kind in erofs-fuse:carrier erofs-loop:carrier-loop fuse:fuse; do
		carrier=$T/run/${kind#*:}
		node_start --datapath "${kind%:*}"
		mount_it
		# By the way that leaves the mounted image as it is.
		umount -l "$carrier"
		other_image
		[ "$(mounts_of "$carrier")" -eq 1 ]
		[ "$(grep -c "^warning datapath: mounted again path=\"$carrier\"" \
			"$T/log")" -eq 1 ]
		cmp "$T/other/big" "$D/rootfs/big"
		read_all
		run ! grep 'read failed' "$T/log"
		# Nothing holds it now but bootseerd; and doctor mends it, too.
		"$bootseer" image umount "$T/other"
		"$bootseer" image umount "$T/mnt"
		umount -l "$carrier"
		call node.doctor '{}' | jq -e '.result.checks[] |
			select(.name == "mounting") | .ok'
		[ "$(mounts_of "$carrier")" -eq 1 ]
		mount_it
		read_all
		"$bootseer" image umount "$T/mnt"
		node_stop
	done
}

# As /var/run is on most machines: the kernel knows mounts by the real path.
@test "a run folder behind a symlink is no reason to mount again" {
	local child

	mkdir "$T/other" "$T/third" "$T/real"
	ln -s real "$T/run"
	node_start --hold --datapath erofs-fuse
	mount_it
	other_image
	"$bootseer" image mount "$IMAGE" "$T/third"
	[ "$(mounts_of "$T/real/carrier")" -eq 1 ]
	run ! grep ' mount[a-z]* again' "$T/log"
	child=$(child_of "$node_pid")
	kill -KILL "$child"
	wait_for another_child "$child"
	read_all
	wait_for other_image
	[ "$(mounts_of "$T/real/carrier")" -eq 1 ]
	run ! grep ' mount[a-z]* again' "$T/log"
	"$bootseer" image umount "$T/other"
	"$bootseer" image umount "$T/third"
	"$bootseer" image umount "$T/mnt"
}

@test "a carrier that is gone is mounted again by the next bootseerd" {
	local child

	mkdir "$T/other"
	node_start --hold
	mount_it
	umount -l "$T/run/carrier"
	child=$(child_of "$node_pid")
	kill -KILL "$child"
	wait_for another_child "$child"
	wait_for other_image
	read_all
	cmp "$T/other/big" "$D/rootfs/big"
	"$bootseer" image umount "$T/other"
	"$bootseer" image umount "$T/mnt"
}

@test "a bootseerd whose RUN and mounts lie in its ROOT goes on after a kill" {
	local child root=$T/new

	"$bootseerd" --root "$root" --run "$root/run" --check-config
	run -2 "$bootseerd" --root "$root" --run "$root/a/run" --check-config
	[[ $output == *"--run: make folder '$root/a/run'"*"make that first"* ]]
	export ROOT=$root BOOTSEER_SOCKET=$root/run/bootseerd.sock
	node_start --hold --run "$root/run"
	mkdir "$root/mnt"
	"$bootseer" image mount "$IMAGE" "$root/mnt"
	child=$(child_of "$node_pid")
	kill -KILL "$child"
	wait_for another_child "$child"
	wait_for "$bootseer" node status
	cmp "$root/mnt/big" "$D/rootfs/big"
	"$bootseer" image umount "$root/mnt"
}

another_child() { [[ $(child_of "$node_pid" | head -n 1) != "$1" ]]; } # PID

@test "a carrier that cannot be mounted again is named by doctor" {
	node_start
	umount -l "$T/run/carrier"
	mount -t tmpfs none "$T/run/carrier"
	run ! "$bootseer" image mount "$IMAGE" "$T/mnt"
	[[ $output == *"something else is mounted"*"unmount it"* ]]
	grep -q '^warning control: failed method=image.mount' "$T/log"
	call node.doctor '{}' | jq -e '.result.checks[] |
		select(.name == "mounting") |
		(.ok | not) and .needed and (.detail | contains("something else"))'
	umount "$T/run/carrier"
	mount_it
	read_all
	"$bootseer" image umount "$T/mnt"
}

@test "an image that somebody unmounted is mounted again for the next start" {
	local path id

	node_start
	id=$(call image.prepare "{\"ref\":\"$IMAGE\"}" | jq -r .result.id)
	path=$(call image.mount "{\"id\":\"$id\",\"user\":\"one\"}" |
		jq -r .result.path)
	exec 7<"$path/big" # as a container that runs
	umount -l "$path"
	call image.mount "{\"id\":\"$id\",\"user\":\"two\"}" |
		jq -e '.result.path'
	cmp "$path/big" "$D/rootfs/big"
	cmp - "$D/rootfs/big" <&7
	exec 7<&-
	grep -q '^warning mount: mounting again' "$T/log"
	call image.umount '{"user":"one"}'
	call image.umount '{"user":"two"}'
	[ "$(mounts_of "$path")" -eq 0 ]
}
