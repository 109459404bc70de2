#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Two tenants of one node under the containerds that Debian 12 does not have, by
# their CRI: what tests/functional/trust.bats shows for 1.6.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../containerd/lib.bash"
. "$BATS_TEST_DIRNAME/../containerd/trust.bash"

setup_file() {
	CONTAINERD1=$("$BATS_TEST_DIRNAME/build" containerd-1.7)
	CONTAINERD2=$("$BATS_TEST_DIRNAME/build" containerd-2)
	export CONTAINERD1 CONTAINERD2
	make_tenants "$BATS_FILE_TMPDIR"
}

setup() { containerd_setup; }
teardown() { containerd_teardown; }

with_containerd() { # FOLDER TEST
	PATH=$1:$PATH
	# Debian's would do as well, and show nothing.
	[[ $(command -v containerd) = "$1/containerd" ]]
	containerd --version | grep -E " v?${1##*-v}[+ ]"
	push_tenants
	"$2"
}

@test "containerd 1.7: a tenant's forged artifact reaches nobody" {
	with_containerd "$CONTAINERD1" forged_artifact_reaches_nobody
}

@test "containerd 1.7: what is believed in one repository stays there" {
	with_containerd "$CONTAINERD1" what_is_believed_in_one_place_stays_there
}

@test "containerd 1.7: a signed image starts lazily" {
	with_containerd "$CONTAINERD1" signed_image_is_lazy
}

@test "containerd 2: a tenant's forged artifact reaches nobody" {
	with_containerd "$CONTAINERD2" forged_artifact_reaches_nobody
}

@test "containerd 2: what is believed in one repository stays there" {
	with_containerd "$CONTAINERD2" what_is_believed_in_one_place_stays_there
}

@test "containerd 2: a signed image starts lazily" {
	with_containerd "$CONTAINERD2" signed_image_is_lazy
}
