# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Ours with default settings, the first time that anybody starts the image: it is
# recorded, and streamed in the background.

bootseer_first_start() {
	start_node "$W/node"
	note_start bootseer-first bootseer "$LINK_REGISTRY/ours/$ref" "${rpull[@]}"
	end_run
}
