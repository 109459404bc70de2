# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Ours without any trace.

bootseer_start() {
	start_node "$W/node"
	note_start bootseer bootseer "$LINK_REGISTRY/ours/$ref" "${rpull[@]}"
	end_run
}
