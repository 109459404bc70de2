# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Ours without any trace or prefetch: every block is fetched when it is read.

bootseer_start() {
	start_node "$W/node" "${plain_lazy[@]}"
	note_start bootseer bootseer "$LINK_REGISTRY/ours/$ref" "${rpull[@]}"
	end_run
}
