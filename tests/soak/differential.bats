#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Thousands of random stacks of layers by conversion, layer.apply, containerd 1.6 and
# 2, and umoci: docs/testing.md. BOOTSEER_STACKS says how many
# (5,000), BOOTSEER_SEED where to begin (else by the clock), BOOTSEER_JSON where the
# figures go.

bats_require_minimum_version 1.5.0

@test "no tar of fifty thousand is read in two ways" {
	local headers=$BATS_TEST_DIRNAME/../differential/headers

	cp "$headers/main.go" "$BATS_TEST_TMPDIR"
	cd "$BATS_TEST_TMPDIR"
	GO111MODULE=off go build -o headers-go main.go
	"$headers/headers.py" --tars 50000 --seed "${BOOTSEER_SEED:-$(date +%s)}" \
		--go ./headers-go \
		--ours "${BOOTSEER_BUILD:?}/tests/differential/tar-list"
}

@test "thousands of random stacks differ only as docs/formats/layers.md says" {
	local cache=${BOOTSEER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bootseer} n
	local differential=$BATS_TEST_DIRNAME/../differential

	mkdir -p "$cache"
	for n in 1 2; do
		"$differential/containerd/build" $n "$cache/containerd$n-apply"
	done
	"$differential/differential.py" --build "${BOOTSEER_BUILD:?}" \
		--containerd1 "$cache/containerd1-apply" \
		--containerd2 "$cache/containerd2-apply" \
		--seed "${BOOTSEER_SEED:-$(date +%s)}" \
		--stacks "${BOOTSEER_STACKS:-5000}" --jobs "$(nproc)" \
		--json "${BOOTSEER_JSON:-$BATS_TEST_TMPDIR/figures.json}" \
		>"$BATS_TEST_TMPDIR/out" 2>&1 || {
		cat "$BATS_TEST_TMPDIR/out"
		return 1
	}
	sed 's/^/# /' "$BATS_TEST_TMPDIR/out" >&3
}
