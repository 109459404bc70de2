# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# bootseer-trace with the programs of another build, in $BOOTSEER_BEFORE, and images
# that these converted.

bootseer_trace_before_missing() { no_build_before; }
bootseer_trace_before_store() { store_before; }

bootseer_trace_before_far_side() {
	as_before start_trace_service bootseer-trace-before 5002
}

bootseer_trace_before_set_up() {
	as_before on_far_side record_start "$LINK_REGISTRY/before/$ref" 5002
}

bootseer_trace_before_start() {
	as_before note_traced_start bootseer-trace-before 5002 own
}
