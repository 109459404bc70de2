#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Debian packages of the programs that are built already, in a root of this machine's release.
# tests/conformance/packages.bats compiles them as a distribution does, and has lintian look.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../conformance/packages.bash"

setup_file() {
	DEB_BUILD_OPTIONS=noautodbgsym "$TOP/dev" package deb "$DEBS" -d -nc \
		"--hook-init=cat '$BATS_TEST_DIRNAME/packages.rules' >>debian/rules"
	cached_root "$(. /etc/os-release && echo "$VERSION_CODENAME")"
	packages_put_in_root
}

teardown_file() { packages_teardown_file; }

# A root with containerd and all that the packages depend on, so that apt asks no archive; it is
# made anew when they depend on others.
cached_root() { # RELEASE
	local cache=${BOOTSEER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bootseer} depends names tar

	depends=$(for deb in "$DEBS"/*.deb; do dpkg-deb -f "$deb" Depends; done)
	names=$(tr ',' '\n' <<<"$depends" | sed 's/[(|:].*//; s/ //g' | grep -v bootseer |
		sort -u | paste -sd,),containerd,procps,runc,systemd
	tar=$cache/root-$1-$(sha256sum <<<"$names $depends" | cut -c-16).tar.zst
	mkdir -p "$cache" "$ROOT"
	exec 8>"$cache/root-$1.lock"
	flock 8
	if [ ! -e "$tar" ]; then
		rm -f "$cache/root-$1-"*.tar.zst
		# Its shell can write to descriptors below 10 only, so it has few before.
		mmdebstrap --quiet --mode=root --variant=minbase --dpkgopt=force-unsafe-io \
			--include="$names" "$1" "$cache/root-$1-new.tar.zst" \
			2>&1 3>&- 4>&- 8>&-
		mv "$cache/root-$1-new.tar.zst" "$tar"
	fi
	tar -x -C "$ROOT" --exclude='./dev/*' -f "$tar"
	exec 8>&-
}

# All but what dpkg, apt and ldconfig keep for themselves.
root_files() {
	(cd "$ROOT" && find . \( -path ./debs -o -path ./var/lib/dpkg -o -path ./var/lib/apt -o \
		-path ./var/cache -o -path ./var/log \) -prune -o -printf '%p %y %m %U %G %l\n' |
		LC_ALL=C sort && find etc -type f ! -name ld.so.cache -print0 | sort -z |
		xargs -0 sha256sum)
}

@test "packages are installed, upgraded, downgraded and purged, and leave nothing behind" {
	root_files >"$W/files"
	root_installs_them
	in_root sh -c 'systemd-analyze verify --man=no /usr/lib/systemd/system/bootseer*'
	upgrade_and_downgrade_keep
	removal_and_purge_leave_nothing
	root_files | diff "$W/files" -
	run ! in_root dpkg-query -W '*bootseer*'
}
