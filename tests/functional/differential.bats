#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Stacks of layers by conversion to either form, layer.apply, containerd 1.6 and umoci:
# docs/testing.md. tests/soak has thousands.

bats_require_minimum_version 1.5.0

setup_file() {
	export containerd1=$BATS_FILE_TMPDIR/containerd1
	"$BATS_TEST_DIRNAME/../differential/containerd/build" 1 "$containerd1"
}

setup() {
	differential=$BATS_TEST_DIRNAME/../differential
}

run_differential() {
	"$differential/differential.py" --build "${BOOTSEER_BUILD:?}" \
		--containerd1 "$containerd1" "$@"
}

@test "stacks that were unpacked wrongly once are alike everywhere" {
	local stack args=()

	for stack in "$differential"/stacks/*.json; do
		args+=(--stack "$stack")
	done
	[ ${#args[@]} -gt 20 ]
	run_differential "${args[@]}"
}

@test "random stacks are alike everywhere but for what docs/formats/layers.md says" {
	run_differential --seed 1 --stacks 24
}

@test "a difference that docs/formats/layers.md does not have fails, and is made small" {
	run -1 run_differential --without-rule trusted-xattr \
		--stack "$differential/stacks/trusted.json" --keep "$BATS_TEST_TMPDIR"
	[[ $output == *"xattr trusted.note"* ]]
	[[ $output == *"1 stacks"*"1 failed"* ]]
	# The one entry that matters is left, and fails by itself.
	[ "$(grep -c '"name"' "$BATS_TEST_TMPDIR/trusted.json.json")" -eq 1 ]
	run -1 run_differential --without-rule trusted-xattr \
		--stack "$BATS_TEST_TMPDIR/trusted.json.json"
}

@test "headers that say two things are read as Go does, or refused" {
	cp "$differential/headers/main.go" "$BATS_TEST_TMPDIR"
	cd "$BATS_TEST_TMPDIR"
	GO111MODULE=off go build -o headers-go main.go
	"$differential/headers/headers.py" --tars 4000 --go ./headers-go \
		--ours "${BOOTSEER_BUILD:?}/tests/differential/tar-list"
}

@test "a seed is a stack" {
	run_differential --show 7 >"$BATS_TEST_TMPDIR/a"
	run_differential --show 7 | cmp - "$BATS_TEST_TMPDIR/a"
	run -1 cmp <(run_differential --show 8) "$BATS_TEST_TMPDIR/a"
}

@test "every rule has its line in docs/formats/layers.md, and no other is there" {
	run_differential --rules | sort >"$BATS_TEST_TMPDIR/rules"
	[ -s "$BATS_TEST_TMPDIR/rules" ]
	sed -n '/^## Where implementations differ/,$ s/^| `\([a-z-]*\)` |.*/\1/p' \
		"$BATS_TEST_DIRNAME/../../docs/formats/layers.md" | sort |
		diff "$BATS_TEST_TMPDIR/rules" -
}
