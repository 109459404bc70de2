#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# tests/functional/node-join.bats with the versions of containerd that Debian 12 does not
# have, which know a snapshotter for one runtime alone.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../containerd/lib.bash"
. "$BATS_TEST_DIRNAME/../containerd/join.bash"

setup_file() {
	C17=$("$BATS_TEST_DIRNAME/build" containerd-1.7)
	C2=$("$BATS_TEST_DIRNAME/build" containerd-2)
	export C17 C2
	make_images "$BATS_FILE_TMPDIR" >/dev/null
}

setup() {
	case $BATS_TEST_DESCRIPTION in
	*1.7*) PATH=$C17:$PATH ;;
	*) PATH=$C2:$PATH ;;
	esac
	join_setup
}

teardown() { join_teardown; }

@test "containerd 1.7: join and leave" {
	joins_and_leaves 4
}

@test "containerd 2: join and leave" {
	joins_and_leaves 4
}

@test "containerd 1.7: a node that left joins again, and images start" {
	comes_back_after_leaving
}

@test "containerd 2: a node that left joins again, and images start" {
	comes_back_after_leaving
}

@test "containerd 1.7: images whose snapshots were lost are unpacked again" {
	finds_snapshots_that_were_lost
}

@test "containerd 2: images whose snapshots were lost are unpacked again" {
	finds_snapshots_that_were_lost
}

@test "containerd 1.7: a pod of the handler goes on when all pods are, and when none is" {
	a_pod_of_the_handler_goes_on
}

@test "containerd 2: a pod of the handler goes on when all pods are, and when none is" {
	a_pod_of_the_handler_goes_on
}

@test "containerd 1.7: a pod that starts while the node leaves goes on" {
	a_pod_that_starts_while_a_node_leaves_goes_on bootseer
}

@test "containerd 2: a pod that starts while the node leaves goes on" {
	a_pod_that_starts_while_a_node_leaves_goes_on bootseer
}

@test "containerd 1.7: a leave that fails after its restart is undone" {
	a_leave_that_fails_after_its_restart_is_undone bootseer
}

@test "containerd 2: a leave that fails after its restart is undone" {
	a_leave_that_fails_after_its_restart_is_undone bootseer
}

@test "containerd 1.7: a containerd that does not come back is as it was" {
	a_containerd_that_does_not_come_back_is_as_it_was
}

@test "containerd 2: a containerd that does not come back is as it was" {
	a_containerd_that_does_not_come_back_is_as_it_was
}

@test "containerd 1.7: join with a mirror" {
	joins_with_a_mirror
}

@test "containerd 2: join with a mirror" {
	joins_with_a_mirror
}

@test "containerd 1.7: join, and bootseerd unpacks until the node leaves" {
	joins_and_unpacks
}

@test "containerd 2: join, and bootseerd unpacks until the node leaves" {
	joins_and_unpacks
}

@test "containerd 2: the transfer service unpacks for whom it did before the node joined" {
	cat >>"$T/ctd/config.toml" <<-END
	[[plugins."io.containerd.transfer.v1.local".unpack_config]]
	  platform = "linux/$(dpkg --print-architecture)"
	  snapshotter = "native"
	END
	cp "$T/ctd/config.toml" "$T/was.toml"
	containerd --config "$T/ctd/config.toml" config dump >"$T/dump.was" 2>/dev/null
	"$T/restart"
	run -0 node_ join
	ctr images pull --plain-http --snapshotter native "$REGISTRY/plain:1"
	run -0 node_ leave --no-fetch
	same_as_before
}

@test "containerd 2: another file that has the last word is found" {
	what_another_file_says_last_is_found io.containerd.cri.v1.images ''
}
