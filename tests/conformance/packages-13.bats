#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Packages of Debian 13, built in a root of it.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/packages.bash"

setup_file() {
	"$TOP/dev" package deb "$DEBS" --root=trixie
	packages_new_root trixie
}

teardown_file() { packages_teardown_file; }

@test "Debian 13: lintian finds nothing" { lintian_finds_nothing; }
@test "Debian 13: a fresh root installs them, and the programs run" { root_installs_them; }
@test "Debian 13: an upgrade and a downgrade keep what an administrator wrote" { upgrade_and_downgrade_keep; }
@test "Debian 13: removal takes containerd's drop-in along, purge all the rest" { removal_and_purge_leave_nothing; }
