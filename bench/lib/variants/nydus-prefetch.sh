# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# nydus, from an image whose prefetch table has the files of a recorded start in
# their order.  It streams these and no more, since that is faster.

nydus_prefetch_missing() {
	local why

	why=$(nydus_missing)
	has_program bootseerd || why=${why:-there is no bootseerd, to record a start}
	echo "$why"
}
nydus_prefetch_start() { start_with_nydus nydus-prefetch false; }

nydus_prefetch_store() {
	has_tag "$ref-nydus-prefetch" && return
	start_bootseerd "$W/node/recorder" --plain-http "$REGISTRY"
	BOOTSEER_SOCKET=$BOOTSEERD_SOCKET timeout 600 "$(program bootseer)" \
		image record --ready-line '^ready$' --output "$W/node/trace" \
		"$REGISTRY/ours/$ref" >"$W/command.log" 2>&1 ||
		die "no recording: $(tail -n 1 "$W/command.log")"
	"$(program bootseer)" trace show --json "$W/node/trace" |
		jq -r '.. | objects | .path // empty' | awk '!seen[$0]++' \
		>"$W/node/files"
	stop_daemon "$bootseerd_pid"
	store_nydus "$ref-nydus-prefetch" "$W/node/files"
}
