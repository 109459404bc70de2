#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# README's way in a root of Debian 13 that has nothing but the index of its packages.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/packages.bash"

setup_file() {
	mmdebstrap --quiet --mode=root --variant=minbase --skip=cleanup/apt/lists trixie "$ROOT" 2>&1
	mkdir "$ROOT/source"
	git -C "$TOP" ls-files -z | (cd "$TOP" && tar -c --null -T -) | tar -x -C "$ROOT/source"
}

teardown_file() { packages_teardown_file; }

# They are some GB, so apt only says whether it would install them, all together.
@test "Debian 13: there is each package that ./dev setup installs" {
	local simulate=$ROOT/etc/apt/apt.conf.d/simulate

	echo 'APT::Get::Simulate "true";' >"$simulate"
	run -0 in_root /source/dev setup build run test measure package conformance
	rm "$simulate"
	[[ $output == *'installing gcc '* ]]
	run ! in_root sh -c 'command -v gcc'
}

@test "Debian 13: ./dev install has programs, units and configuration that hold" {
	local at=/usr/local/sbin

	in_root /source/dev install
	for program in ../bin/bootseer bootseerd bootseer-snapshotter bootseer-registry \
		bootseer-events bootseer-csi bootseer-ckpt; do
		in_root "$at/$program" --version
	done
	in_root "$at/bootseerd" --config /etc/bootseer/bootseerd.conf --check-config
	in_root python3 -c 'import bootseer_stage'
	in_root apt-get -q -y --no-install-recommends install procps systemd
	in_root sh -c 'systemd-analyze verify --man=no /usr/local/lib/systemd/system/bootseer*'
	# What an administrator wrote outlasts the next one, which compiles nothing.
	echo '# mine' >>"$ROOT/etc/bootseer/bootseerd.conf"
	in_root /source/dev install
	grep -q '# mine' "$ROOT/etc/bootseer/bootseerd.conf"
}
