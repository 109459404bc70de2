# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# bootseer-trace of the image's own layers, with only an index beside them.

index_trace_missing() { no_trace_service; }
index_trace_store() { store_index; }
index_trace_far_side() { start_trace_service index-trace 5004; }

index_trace_set_up() {
	on_far_side record_start "$LINK_REGISTRY/index/$ref" 5004
	our_repo=index on_far_side note_hot_set index-trace 5004
}

index_trace_start() { our_repo=index note_traced_start index-trace 5004 own; }
