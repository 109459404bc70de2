# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Ours again on a node that started the image before: a warm block cache, a cold
# page cache, new daemons.

bootseer_warm_set_up() { on_far_side bootseer_warm_first; }
bootseer_warm_first() {
	start_node "$W/keep/bootseer-warm"
	must "${rpull[@]}" "$LINK_REGISTRY/ours/$ref"
	run_until_ready bootseer "$LINK_REGISTRY/ours/$ref"
	end_run
}

bootseer_warm_start() {
	start_node "$W/keep/bootseer-warm"
	note_start bootseer-warm bootseer "$LINK_REGISTRY/ours/$ref"
	end_run
}
