# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# A PostgreSQL for a file of tests of stage events, and services that end with a test.

setup_file()
{
	. "$BATS_TEST_DIRNAME/registry.bash"
	pg_of_file
}

teardown_file()
{
	. "$BATS_TEST_DIRNAME/registry.bash"
	pg_end_of_file
}

setup()
{
	. "$BATS_TEST_DIRNAME/registry.bash"
	W=$BATS_TEST_TMPDIR
	unset RANK BOOTSEER_JOB BOOTSEER_ATTEMPT BOOTSEER_NODE BOOTSEER_RANK \
		BOOTSEER_SERVICE
}

teardown()
{
	local p

	[ -z "${browser-}" ] || { kill "$browser" && wait "$browser" || :; }
	for p in "${services[@]}"; do
		kill -KILL "$p" 2>/dev/null || :
	done
	[ -n "${BATS_TEST_COMPLETED:-}" ] || ! compgen -G "$W/log.*" >/dev/null ||
		sed 's/^/# /' "$W"/log.* >&3
}

# The page as a browser has it when all requests are answered; all of it is in sight.
browse() # ADDRESS [dark|light]
{
	[ -p "$W/browser/ask" ] || begin_browser
	printf '%s\t%s\n' "$1" "${2-}" | timeout 150 tee "$W/browser/ask" >/dev/null
	timeout 150 cat "$W/browser/answer"
}

begin_browser()
{
	mkdir "$W/browser"
	mkfifo "$W/browser/ask" "$W/browser/answer"
	python3 "$BATS_TEST_DIRNAME/browser.py" "$W/browser" >&2 3>&- &
	browser=$!
}

# The time that a page has is virtual: where processors are short it may be over before the
# last frame was drawn, and another look at the page has it.
page_shows() { # ADDRESS FILE REGEX
	browse "$1" >"$2" && grep -qE "$3" "$2"
}
