#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Debian 13 for Arm: packages made by its cross compiler, units of codecs, installing and converting
# by qemu's emulation of programs, under this machine's kernel; and mounts under Debian's kernels
# for Arm, with pages of 4 and of 16 KiB, on an emulated processor.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/packages.bash"
. "$BATS_TEST_DIRNAME/../wait.bash"

CROSS=$W/cross BINFMT=$W/binfmt

# The kernel starts programs for Arm by the emulator, which it opens here, once for all roots.
emulate() {
	mkdir -p "$BINFMT"
	mount -t binfmt_misc none "$BINFMT"
	# A run that was killed leaves it to the kernel.
	[ ! -e "$BINFMT/bootseer-aarch64" ] || echo -1 >"$BINFMT/bootseer-aarch64"
	printf '%s%s%s' ':bootseer-aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00' \
		'\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe' \
		"\\xff\\xff\\xff:$CROSS/usr/bin/qemu-aarch64:F" >"$BINFMT/register"
}

setup_file() {
	"$TOP/deploy/deb/root" make trixie:arm64 "$CROSS"
	emulate
	"$TOP/dev" package deb "$DEBS" "--root=$CROSS:arm64" '--hook-done=cp -al /build /built'
}

teardown_file() {
	echo -1 >"$BINFMT/bootseer-aarch64" || :
	umount "$BINFMT" || :
	rm -rf --one-file-system "$CROSS" "$W"/vm-*
	packages_teardown_file
}

teardown() { [ ! "${registry:-}" ] || kill "$registry"; }

in_cross() { "$TOP/deploy/deb/root" run "$CROSS" "$@"; }

# By the objects of the packages, in the folder that these were built in.
@test "arm64: units of codecs pass" {
	local units=(crc32c digest hash buf counter blockmap grpc_wire httpd_head recorder_codec recorder_trace
		erofs erofs_layer chunker image_spans tar tar_head pax index trust p2p_wire p2p_rdma_wire
		p2p_capability ckpt_manifest save_plan)

	mv "$CROSS/built" "$CROSS/build"
	git -C "$TOP" ls-files -z tests bench | (cd "$TOP" && tar -c --null -T -) |
		tar -x -C "$CROSS"/build/bootseer-*/
	in_cross apt-get -q -y --no-install-recommends install attr erofs-utils
	run -0 in_cross sh -euc 'cd /build/bootseer-*/
		meson setup --reconfigure -Dtests=true obj-* >&2
		meson test -C obj-* --print-errorlogs "$@"' sh "${units[@]}"
	echo "$output"
	grep -qE "^Ok: +${#units[@]} *\$" <<<"$output"
}

@test "arm64: a root for Arm installs the packages, and the programs run" {
	packages_new_root trixie --architectures=arm64 --skip=check/qemu
	[ "$(in_root uname -m)" = aarch64 ]
	root_installs_them
}

# The compressed bytes are those of each root's version of zstd.
@test "arm64: what Arm converts this machine finds whole, and the other way round" {
	layout=$("$TOP/bench/images/build" busybox)
	cp -r "$layout" "$ROOT/image"
	cp -r "$layout" "$W/image"
	"$BOOTSEER_BUILD/cli/bootseer" image convert --no-sign "oci:$W/image:latest" "oci:$W/image:lazy"
	in_root bootseer image convert --no-sign oci:/image:latest oci:/image:lazy
	"$BOOTSEER_BUILD/cli/bootseer" image check --against-layers "oci:$ROOT/image:lazy"
	cp -r "$W/image" "$ROOT/other"
	in_root bootseer image check --against-layers oci:/other:lazy
}

# A registry of this machine, which the VM has at 10.0.2.2, with a converted image.
serve_image() {
	local cli=$BOOTSEER_BUILD/cli/bootseer

	printf '%s\n' 'version: 0.1' "storage: {filesystem: {rootdirectory: $W/registry}}" \
		'http: {addr: "127.0.0.1:0"}' >"$W/registry.yml"
	docker-registry serve "$W/registry.yml" >"$W/registry.log" 2>&1 3>&- &
	registry=$!
	wait_for grep -q 'listening on' "$W/registry.log"
	port=$(sed -nE 's/.*listening on [^ "]*:([0-9]+).*/\1/p' "$W/registry.log")
	skopeo copy -q --dest-tls-verify=false "oci:$W/image:latest" "docker://127.0.0.1:$port/app:1"
	"$cli" key new "$ROOT/key"
	"$cli" image convert --plain-http --sign "$ROOT/key" --repository "10.0.2.2:$port/app" \
		"docker://127.0.0.1:$port/app:1" "docker://127.0.0.1:$port/app:1"
}

# Pages of FLAVOUR's kernel, what the doctor says of them, and the image's files, on each data path.
mounts_under() { # FLAVOUR PAGES
	"$TOP/tests/conformance/arm64-vm" prepare "$ROOT" "$1" "$W/vm-$1"
	cat >"$ROOT/mounts" <<-END
	set -eu
	getconf PAGESIZE
	bootseer node doctor | grep 'pages  ' || :
	for path in auto fuse; do
		bootseerd --root /var/lib/bootseer/\$path --run /run/b-\$path --datapath \$path \
			--plain-http 10.0.2.2:$port --trust-keys /key.pub >&2 &
		daemon=\$!
		export BOOTSEER_SOCKET=/run/b-\$path/bootseerd.sock
		until [ -S \$BOOTSEER_SOCKET ]; do kill -0 \$daemon; read -r -t 0.5 <> <(:) || :; done
		mkdir -p /run/at-\$path
		bootseer image mount --plain-http 10.0.2.2:$port/app:1 /run/at-\$path
		findmnt -n -o FSTYPE /run/at-\$path
		(cd /run/at-\$path && find . -type f -print0 | sort -z | xargs -0 sha256sum) >/out/\$path
	done
	END
	run -0 --separate-stderr "$TOP/tests/conformance/arm64-vm" run "$ROOT" "$W/vm-$1" bash /mounts
	echo "$output"
	[ "${lines[0]}" = "$2" ]
	grep -q "^ok *pages *pages of $2 bytes" <<<"$output"
	grep -qx erofs <<<"$output"
	for path in auto fuse; do diff "$W/want" "$W/vm-$1/out/$path"; done
}

@test "arm64: kernels with pages of 4 and of 16 KiB mount an image, by EROFS and by FUSE" {
	umoci unpack --image "$W/image:latest" "$W/bundle"
	(cd "$W/bundle/rootfs" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum) >"$W/want"
	serve_image
	mounts_under arm64 4096
	mounts_under arm64-16k 16384
}

@test "arm64: an upgrade and a downgrade keep what an administrator wrote" { upgrade_and_downgrade_keep; }
@test "arm64: removal takes containerd's drop-in along, purge all the rest" { removal_and_purge_leave_nothing; }
