#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The container image of ./dev package: what is in it, of which package, and who runs it.

bats_require_minimum_version 1.5.0

setup_file() {
	TOP=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	W=$BATS_FILE_TMPDIR
	export TOP W
	"$TOP/dev" package image "$W/one"
	umoci unpack --image "$W/one/oci:latest" "$W/bundle"
}

manifest() { jq -r '.manifests[0].digest' "$W/$1/oci/index.json"; } # BUILD
blob() { cat "$W/one/oci/blobs/sha256/${1#sha256:}"; } # DIGEST

# Bytes after the end of a program or library do not change what it does.
@test "image: a build on a machine with other libraries and certificates has the same digest" {
	local file

	for file in /bin/busybox /usr/bin/curl /etc/ssl/certs/ca-certificates.crt \
		"$(echo /usr/lib/*-linux-gnu/libcurl.so.4)" "$(echo /usr/lib/*-linux-gnu/libzstd.so.1)"; do
		file=$(readlink -f "$file")
		cp -p "$file" "$W/${file##*/}"
		echo other >>"$W/${file##*/}"
		echo "mount --bind $W/${file##*/} $file"
	done >"$W/mounts"
	unshare --mount sh -euc '. "$W/mounts" && exec "$TOP/dev" package image "$W/two"'
	[ "$(manifest one)" = "$(manifest two)" ]
	diff "$W/one/bootseer.spdx.json" "$W/two/bootseer.spdx.json"
}

@test "image: its programs run as a user who may nothing" {
	local program n=0

	[ "$(blob "$(blob "$(manifest one)" | jq -r .config.digest)" | jq -r .config.User)" = 65532:65532 ]
	for program in "$W"/bundle/rootfs/opt/bootseer/image/bin/bootseer*; do
		chroot --userspec=65532:65532 "$W/bundle/rootfs" \
			"${program#"$W/bundle/rootfs"}" --version
		n=$((n + 1))
	done
	[ "$n" -eq 7 ]
	chroot --userspec=65532:65532 "$W/bundle/rootfs" /bin/sh -euc 'PATH=/opt/bootseer/image/bin:/bin
		curl --version && openssl version && echo "{}" | jq . && ls /etc/ssl/certs'
	[ -z "$(find "$W/bundle/rootfs" -perm /6000)" ]
}

# Files of the same names, and so their packages, are on this machine.
@test "image: the package of each library, program and certificate is named with its version" {
	local lib

	jq -r '.packages[] | "\(.name) \(.versionInfo)"' "$W/one/bootseer.spdx.json" >"$W/packages"
	for lib in "$W"/bundle/rootfs/opt/bootseer/image/lib/*; do
		dpkg -S "*/${lib##*/}" | sed 's/:.*//' | grep -qf <(sed 's/ .*//; s/.*/^&$/' "$W/packages")
	done
	for name in busybox-static ca-certificates curl jq openssl; do
		grep -q "^$name [0-9]" "$W/packages"
	done
}
