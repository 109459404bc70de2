#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The functional tests once more, with daemons and programs that ASan and UBSan watch, or TSan.
# What they find is in a file for each process, also of those that a test kills.
# BOOTSEER_SANITIZED is the build (./dev soak makes it), BOOTSEER_SANITIZED_FILES are
# the tests, below tests/functional.

bats_require_minimum_version 1.5.0

setup()
{
	D=$BATS_TEST_TMPDIR
	mkdir -m 1777 "$D/reports" # also for processes of other users
	# Leaks are for the units: LeakSanitizer may not trace who has dropped rights.
	export ASAN_OPTIONS=log_path=$D/reports/asan:detect_leaks=0
	export UBSAN_OPTIONS=log_path=$D/reports/ubsan:print_stacktrace=1
	export TSAN_OPTIONS=log_path=$D/reports/tsan
	export BOOTSEER_BUILD=${BOOTSEER_SANITIZED:?./dev soak makes it}
}

reports()
{
	find "$D/reports" -type f -size +0 -exec head -n 40 {} +
}

@test "sanitizers report nothing while the functional tests run" {
	local files

	cd "$BATS_TEST_DIRNAME/../functional"
	read -r -a files <<<"${BOOTSEER_SANITIZED_FILES:-$(echo ./*.bats)}"
	BATS_TEST_TIMEOUT=3600 unshare --mount --propagation shared \
		bats --tap --jobs 2 --setup-suite-file setup_suite.bash \
		"${files[@]}" >"$D/out" 2>&1 || failed=1
	reports
	[ -z "$(reports)" ]
	grep -A20 '^not ok' "$D/out" || :
	[ -z "${failed-}" ]
}
