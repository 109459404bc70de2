#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# RPM packages of this tree: rpmbuild accepts the spec, and what it makes is installed, upgraded,
# downgraded and erased by rpm in a copy of this machine's root, which has their libraries.  No
# distribution that has RPM is run.

bats_require_minimum_version 1.5.0

TOP=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
W=${BATS_FILE_TMPDIR:-} ROOT=$W/copy/root

# What is written goes with the copy.
setup_file() {
	local release

	mkdir "$W/copy"
	mount -t tmpfs copy "$W/copy"
	mkdir "$W"/copy/{upper,work,root}
	mount -t overlay -o "lowerdir=/,upperdir=$W/copy/upper,workdir=$W/copy/work" copy "$ROOT"
	for release in 1 2; do
		"$TOP/dev" package rpm "$W/rpms" --define "release $release"
	done
	cp "$W"/rpms/*/*.rpm "$ROOT/tmp"
}

teardown_file() { umount "$ROOT" "$W/copy"; }

in_root() { "$TOP/deploy/deb/root" run "$ROOT" "$@"; }

# Debian's packages are none of rpm's.
rpm_() { in_root sh -c 'rpm --nodeps "$@"' rpm "$@"; }

packages() { (cd "$ROOT/tmp" && printf '/tmp/%s\n' *-"$1".*.rpm); } # RELEASE

release_of() { in_root rpm -q --queryformat '%{RELEASE}' "$1"; }

@test "rpm: packages have what those of Debian have, and no more" {
	for list in "$TOP"/deploy/deb/*.install; do
		name=${list##*/} name=${name%.install} name=${name/%-dev/-devel}
		diff <(awk '{ print "/" $1 }' "$list" | grep -v '\*' | sort) \
			<(in_root sh -c 'rpm -qpl /tmp/$0-[0-9]*-1.*.rpm' "$name" |
				sed 's/\.gz$//' | grep -v '/licenses/\|/python3\|/lib64/' | sort)
	done
	# A node's program wants what it is linked with.
	in_root sh -c 'rpm -qp --requires /tmp/bootseer-[0-9]*-1.*.rpm' | grep -q '^libarchive'
}

@test "rpm: they are installed, and the programs run" {
	rpm_ -i $(packages 1)
	for program in bootseerd bootseer-snapshotter bootseer-registry bootseer-events; do
		in_root "/usr/sbin/$program" --version
	done
	in_root /usr/sbin/bootseerd --config /etc/bootseer/bootseerd.conf --check-config
	[ -z "$(find "$ROOT"/etc/systemd -name 'bootseer*')" ]
}

@test "rpm: an upgrade and a downgrade keep what an administrator wrote" {
	echo 'cache-quota = "7G";' >"$ROOT/etc/bootseer/bootseerd.conf"
	rpm_ -U $(packages 2)
	[ "$(release_of bootseer)" = 2 ]
	rpm_ -U --oldpackage $(packages 1)
	[ "$(release_of bootseer)" = 1 ]
	[ "$(cat "$ROOT/etc/bootseer/bootseerd.conf")" = 'cache-quota = "7G";' ]
}

@test "rpm: the removal takes containerd's drop-in along" {
	in_root containerd config dump >"$W/before"
	in_root /usr/bin/bootseer node join
	[ -e "$ROOT/etc/containerd/conf.d/bootseer.toml" ]
	rpm_ -e bootseer bootseer-csi bootseer-registry python3-bootseer libbootseer-devel libbootseer0
	[ ! -e "$ROOT/etc/containerd/conf.d/bootseer.toml" ]
	in_root containerd config dump | diff "$W/before" -
	[ ! -e "$ROOT/usr/sbin/bootseerd" ]
	# What the administrator wrote stays.
	[ "$(cat "$ROOT/etc/bootseer/bootseerd.conf.rpmsave")" = 'cache-quota = "7G";' ]
}
