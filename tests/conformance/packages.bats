#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Debian packages of this tree: lintian has nothing to say, and in a fresh root they are
# installed, upgraded, downgraded, removed and purged.  The build and the root take minutes,
# so this is not in ./dev test.  With BOOTSEER_DEBS, a folder of packages built in a root of
# another release, BOOTSEER_SUITE is that release.

bats_require_minimum_version 1.5.0

setup_file() {
	TOP=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	W=$(mktemp -d)
	export TOP W DEBS=${BOOTSEER_DEBS:-$W/debs} ROOT=$W/root
	if [[ ! ${BOOTSEER_DEBS:-} ]]; then "$TOP/dev" package deb "$DEBS"; fi
	new_root "$ROOT"
}

teardown_file() {
	rm -rf --one-file-system "$W"
}

# A root with containerd, as a node has it, and this tree's packages in /debs.
new_root() { # DIR
	mmdebstrap --quiet --mode=root --variant=minbase \
		--include=containerd,runc,python3-minimal --skip=cleanup/apt/lists \
		"${BOOTSEER_SUITE:-$(. /etc/os-release && echo "$VERSION_CODENAME")}" "$1" 2>&1
	mkdir "$1/debs"
	cp "$DEBS"/*.deb "$1/debs"
	rm -f "$1"/debs/*dbgsym*
	# The next version, and the one before: the same programs by another number.
	for version in 0.0.9 9.9.9; do
		mkdir "$1/debs/$version"
		for deb in "$1"/debs/*.deb; do
			dpkg-deb -R "$deb" "$W/unpacked"
			sed -i "s/^Version: .*/Version: $version/; s/(= [^)]*)/(= $version)/" \
				"$W/unpacked/DEBIAN/control"
			dpkg-deb --root-owner-group -b "$W/unpacked" "$1/debs/$version" >/dev/null
			rm -r "$W/unpacked"
		done
	done
}

in_root() {
	unshare --mount --propagation private -- sh -c '
		mount -t proc proc "$0/proc"; mount -t tmpfs tmp "$0/run"
		mount --rbind /dev "$0/dev"
		exec chroot "$0" "$@"' "$ROOT" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
		DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"
}

apt_() { in_root apt-get -q -y --no-install-recommends --allow-downgrades "$@"; }

# What dpkg knows of the packages, and every file that has our name.
version_of() { in_root dpkg-query -W -f '${Version}' "$1"; }

our_files() {
	(cd "$ROOT" && find . \( -path ./proc -o -path ./debs -o -path ./dev -o -path ./var/lib/apt \
		-o -path ./var/log -o -path ./var/cache -o -path ./sys \) -prune -o -name '*bootseer*' -print)
}

@test "packages: lintian finds nothing" {
	run lintian --allow-root --fail-on error,warning "$DEBS"/*.changes
	echo "$output"
	[ "$status" -eq 0 ]
	[ -z "$(grep -v '^N:\|^running with root' <<<"$output")" ]
}

@test "packages: a fresh root installs them, and the programs run" {
	in_root sh -c 'apt-get -q -y --no-install-recommends install /debs/*.deb'
	for program in bootseerd bootseer-snapshotter bootseer-registry bootseer-events; do
		in_root "$program" --version
	done
	in_root bootseer node join --help >/dev/null
	in_root bootseerd --config /etc/bootseer/bootseerd.conf --check-config
	in_root python3 -c 'import bootseer_stage'
	# Nothing is started, or enabled, before somebody says so.
	[ -z "$(find "$ROOT"/etc/systemd -name 'bootseer*')" ]
}

@test "packages: an upgrade and a downgrade keep what an administrator wrote" {
	echo 'cache-quota = "7G";' >"$ROOT/etc/bootseer/bootseerd.conf"
	mkdir -p "$ROOT/var/lib/bootseer"
	echo block >"$ROOT/var/lib/bootseer/block"
	for version in 9.9.9 0.0.9; do
		in_root sh -c "apt-get -q -y --no-install-recommends --allow-downgrades \
			install /debs/$version/*.deb"
		[ "$(version_of bootseer)" = "$version" ]
		[ "$(cat "$ROOT/etc/bootseer/bootseerd.conf")" = 'cache-quota = "7G";' ]
		[ "$(cat "$ROOT/var/lib/bootseer/block")" = block ]
	done
}

@test "packages: removal takes containerd's drop-in along, purge all the rest" {
	in_root containerd config dump >"$W/before"
	in_root bootseer node join
	[ -e "$ROOT/etc/containerd/conf.d/bootseer.toml" ]
	apt_ remove bootseer bootseer-csi bootseer-registry python3-bootseer libbootseer-dev \
		libbootseer0
	[ ! -e "$ROOT/etc/containerd/conf.d" ]
	in_root containerd config dump | diff "$W/before" -
	[ -e "$ROOT/var/lib/bootseer/block" ]
	in_root dpkg --purge bootseer bootseer-csi bootseer-registry
	[ "$(our_files)" = '' ] || { our_files; false; }
}
