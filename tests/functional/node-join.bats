#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# containerd is told of the plugin by a file of its own, and told nothing again: with Debian's
# containerd; tests/conformance/node-join.bats has the newer ones.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../containerd/lib.bash"
. "$BATS_TEST_DIRNAME/../containerd/join.bash"

setup_file() { make_images "$BATS_FILE_TMPDIR" >/dev/null; }
setup() { join_setup; }
teardown() { join_teardown; }

@test "join: old images run and new ones start lazily; leave has all as it was" {
	joins_and_leaves 3
}

@test "join: a node that left and lost the plugin's folder joins again, and images start" {
	comes_back_after_leaving
}

@test "join: images whose snapshots were lost are unpacked again" {
	finds_snapshots_that_were_lost
}

@test "leave: snapshots that stay are named" {
	names_snapshots_that_stay
}

@test "leave: a pod that starts meanwhile goes on" {
	a_pod_that_starts_while_a_node_leaves_goes_on
}

@test "leave: where it fails it says what containerd has forgotten" {
	a_failed_leave_says_what_is_forgotten
}

@test "leave: where it fails after its first restart containerd is as it was" {
	a_leave_that_fails_after_its_restart_is_undone
}

@test "leave: one that is killed before it restarted containerd is gone on with" {
	a_leave_that_is_killed_is_gone_on_with
}

@test "join: one that is killed while it reads containerd's configuration leaves its file there" {
	a_join_that_is_killed_leaves_its_file_there
}

@test "join: images that are pulled meanwhile are not lost" {
	a_pull_during_join_is_not_lost
}

@test "join: a containerd that does not come back is as it was" {
	a_containerd_that_does_not_come_back_is_as_it_was
}

@test "join: containerd asks the mirror, and what it was told of registries stays" {
	joins_with_a_mirror
}

@test "join: another file that has the last word is found, and nothing restarted" {
	what_another_file_says_last_is_found io.containerd.grpc.v1.cri .containerd
}

@test "join: a file of the operator's that came later is told of by doctor" {
	a_later_file_is_told_of
}

@test "join: imports that are there get one more, and lose it again" {
	sed -i '1i imports = ["/none/*.toml"]' "$T/ctd/config.toml"
	cp "$T/ctd/config.toml" "$T/was.toml"
	containerd --config "$T/ctd/config.toml" config dump >"$T/dump.was" 2>/dev/null
	run -0 node_ join --no-restart
	grep -q "^imports = \[\"$T/ctd/conf.d/\*.toml\", \"/none/\*.toml\"\]$" \
		"$T/ctd/config.toml"
	run -0 node_ leave --no-restart --no-fetch
	same_as_before
	[ "$(restarts)" -eq 0 ]
}

@test "join: containerd 1.6 lets nobody else unpack, and is as it was" {
	start_own_node "$T/ctd/root"
	run -1 node_ join --unpack
	[[ $output == *'undone, all is as it was: '*': leave out --unpack'* ]]
	same_as_before
}

@test "join: one snapshotter for each runtime is not what containerd 1.6 has" {
	run -1 node_ join --pods runtime
	[[ $output == *'--pods all'* ]]
	same_as_before
}
