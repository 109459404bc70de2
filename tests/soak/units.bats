#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# All units and corpora by gcc with its optimiser; ./dev test has those of some folders
# (tests/runner/plan.py), and all under ASan.

bats_require_minimum_version 1.5.0

@test "units and corpora pass by gcc, with its optimiser" {
	export MESON_TESTTHREADS=2
	run -0 meson test -C "$BOOTSEER_BUILD" --no-rebuild --print-errorlogs
}
