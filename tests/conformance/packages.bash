# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Debian packages of this tree in a fresh root of RELEASE: built, looked at by lintian,
# installed, upgraded, downgraded, removed and purged.  To compile them and to fetch the root takes
# minutes; ./dev test (tests/functional/packages.bats) does with neither.

TOP=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
W=${BATS_FILE_TMPDIR:-}
DEBS=$W/debs ROOT=$W/root

packages_teardown_file() {
	rm -rf --one-file-system "$W/root" "$W/debs"
}

# A root with containerd, as a node has it, and this tree's packages in /debs.
packages_new_root() { # RELEASE [OPTION OF MMDEBSTRAP...]
	mmdebstrap --quiet --mode=root --variant=minbase \
		--include=containerd,runc,python3-minimal --skip=cleanup/apt/lists \
		"${@:2}" "$1" "$ROOT" 2>&1
	packages_put_in_root
}

packages_put_in_root() {
	mkdir "$ROOT/debs"
	cp "$DEBS"/*.deb "$ROOT/debs"
	rm -f "$ROOT"/debs/*dbgsym*
	# The next version, and the one before: the same programs by another number.
	for version in 0.0.9 9.9.9; do
		mkdir "$ROOT/debs/$version"
		for deb in "$ROOT"/debs/*.deb; do
			dpkg-deb -R "$deb" "$W/unpacked"
			sed -i "s/^Version: .*/Version: $version/; s/(= [^)]*)/(= $version)/" \
				"$W/unpacked/DEBIAN/control"
			dpkg-deb --root-owner-group -Znone -b "$W/unpacked" "$ROOT/debs/$version" \
				>/dev/null
			rm -r "$W/unpacked"
		done
	done
}

in_root() { "$TOP/deploy/deb/root" run "$ROOT" "$@"; }

# What dpkg knows of the packages, and every file that has our name.
version_of() { in_root dpkg-query -W -f '${Version}' "$1"; }

our_files() {
	(cd "$ROOT" && find . \( -path ./proc -o -path ./debs -o -path ./dev -o -path ./var/lib/apt \
		-o -path ./var/log -o -path ./var/cache -o -path ./sys \) -prune -o -name '*bootseer*' -print)
}

lintian_finds_nothing() {
	run lintian --allow-root --fail-on error,warning "$DEBS"/*.changes
	echo "$output"
	[ "$status" -eq 0 ]
	[ -z "$(grep -v '^N:\|^running with root' <<<"$output")" ]
}

root_installs_them() {
	in_root sh -c 'apt-get -q -y --no-install-recommends install /debs/*.deb'
	for program in bootseerd bootseer-snapshotter bootseer-registry bootseer-events \
		bootseer-csi bootseer-ckpt; do
		in_root "$program" --version
	done
	in_root bootseer node join --help >/dev/null
	in_root bootseerd --config /etc/bootseer/bootseerd.conf --check-config
	in_root python3 -c 'import bootseer_stage'
	# Nothing is started, or enabled, before somebody says so.
	[ -z "$(find "$ROOT"/etc/systemd -name 'bootseer*')" ]
}

upgrade_and_downgrade_keep() {
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

removal_and_purge_leave_nothing() {
	in_root containerd config dump >"$W/before"
	in_root bootseer node join
	[ -e "$ROOT/etc/containerd/conf.d/bootseer.toml" ]
	in_root apt-get -q -y remove bootseer bootseer-csi bootseer-registry python3-bootseer \
		libbootseer-dev libbootseer0
	[ ! -e "$ROOT/etc/containerd/conf.d" ]
	in_root containerd config dump | diff "$W/before" -
	[ -e "$ROOT/var/lib/bootseer/block" ]
	in_root dpkg --purge bootseer bootseer-csi bootseer-registry
	[ "$(our_files)" = '' ] || { our_files; false; }
}
