# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash

# Until COMMAND succeeds, at most half a minute; no other wait is anywhere.
wait_for() {
	local end=$((SECONDS + 30))

	until "$@"; do
		((SECONDS < end)) || { echo "waited for: $*"; return 1; }
		read -r -t 0.02 <> <(:) || :
	done
}
