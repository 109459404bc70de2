#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Conversion by the zstd of Debian 13 beside that of this machine: other bytes, the same blocks.

bats_require_minimum_version 1.5.0

bootseer=$BOOTSEER_BUILD/cli/bootseer

# Of the packages of Debian 13, without a root of it; the system's own lists stay as they are.
setup_file() {
	local at=$BATS_FILE_TMPDIR uri apt

	IMAGE=$("$BATS_TEST_DIRNAME/../../bench/images/build" busybox)
	mkdir -p "$at"/{lists/partial,cache/archives/partial}
	uri=$(cat /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null |
		sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] \)\?\([^ ]*\).*/\2/p' | head -n 1)
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri trixie main" \
		>"$at/sources.list"
	apt=(-q -o "Dir::State::lists=$at/lists" -o "Dir::Cache=$at/cache"
		-o "Dir::Etc::sourcelist=$at/sources.list" -o Dir::Etc::sourceparts=/dev/null
		-o Dir::State::status=/dev/null)
	apt-get "${apt[@]}" update
	(cd "$at" && apt-get "${apt[@]}" download libzstd1)
	dpkg -x "$at"/libzstd1_*.deb "$at/root"
	ZSTD_13=$(echo "$at"/root/usr/lib/*/libzstd.so.1)
	export IMAGE ZSTD_13
}

by_13() { LD_PRELOAD=$ZSTD_13 "$@"; }

# What does not depend on the bytes that are stored.
blocks_of() { "$bootseer" image inspect "$1" | jq '[.inodes, .imageSize, .deviceSize, .metadata.unpackedSize, .blockmap.unpackedSize]'; }

@test "zstd: another release finds the same blocks, and each reads what the other made" {
	"$bootseer" image convert --no-sign "oci:$IMAGE:latest" "oci:$BATS_TEST_TMPDIR/12:1"
	by_13 "$bootseer" image convert --no-sign "oci:$IMAGE:latest" "oci:$BATS_TEST_TMPDIR/13:1"
	[ "$("$bootseer" image inspect "oci:$BATS_TEST_TMPDIR/12:1" | jq -r .artifact)" != \
		"$("$bootseer" image inspect "oci:$BATS_TEST_TMPDIR/13:1" | jq -r .artifact)" ]
	[ "$(blocks_of "oci:$BATS_TEST_TMPDIR/12:1")" = "$(blocks_of "oci:$BATS_TEST_TMPDIR/13:1")" ]
	by_13 "$bootseer" image check --against-layers "oci:$BATS_TEST_TMPDIR/12:1"
	"$bootseer" image check --against-layers "oci:$BATS_TEST_TMPDIR/13:1"
}

@test "zstd: an image converted again by another release stores no block again" {
	"$bootseer" image convert --no-sign "oci:$IMAGE:latest" "oci:$BATS_TEST_TMPDIR/12:1"
	run -0 by_13 "$bootseer" image convert --no-sign --force "oci:$BATS_TEST_TMPDIR/12:1" \
		"oci:$BATS_TEST_TMPDIR/12:1"
	echo "$output"
	[[ $output == *"new: 0;"* ]]
}
