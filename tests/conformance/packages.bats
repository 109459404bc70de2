#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Packages of the release of Debian that this machine has, built on the machine itself.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/packages.bash"

setup_file() {
	"$TOP/dev" package deb "$DEBS"
	packages_new_root "$(. /etc/os-release && echo "$VERSION_CODENAME")"
}

teardown_file() { packages_teardown_file; }

@test "packages: lintian finds nothing" { lintian_finds_nothing; }
@test "packages: a fresh root installs them, and the programs run" { root_installs_them; }
@test "packages: an upgrade and a downgrade keep what an administrator wrote" { upgrade_and_downgrade_keep; }
@test "packages: removal takes containerd's drop-in along, purge all the rest" { removal_and_purge_leave_nothing; }
