# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Ours with the trace that one start of the same image on another node left with
# bootseer-registry, which is behind the same link as the registry.

bootseer_trace_missing() { no_trace_service; }
bootseer_trace_far_side() { start_trace_service bootseer-trace 5001; }

bootseer_trace_set_up() {
	on_far_side record_start "$LINK_REGISTRY/ours/$ref" 5001
	on_far_side note_hot_set bootseer-trace 5001
}

bootseer_trace_start() { note_traced_start bootseer-trace 5001 own; }
