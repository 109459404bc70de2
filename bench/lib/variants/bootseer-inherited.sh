# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# As bootseer-trace, but the trace is of the version before.  Nothing is recorded,
# or the next round would have a trace of its own.

bootseer_inherited_missing() { no_trace_service; }
bootseer_inherited_far_side() { start_trace_service bootseer-inherited 5002; }
bootseer_inherited_images() { previous_image; }

bootseer_inherited_set_up() {
	local before

	before=$(previous_image)
	[[ $before ]] || die "$image has no version before it"
	on_far_side record_start "$LINK_REGISTRY/ours/$(image_ref "$before")" 5002
	on_far_side note_hot_set bootseer-inherited 5002
}

bootseer_inherited_start() {
	note_traced_start bootseer-inherited 5002 relative --record off
}
