# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# bootseer-trace with the programs of another build, in $BOOTSEER_BEFORE.

bootseer_trace_before_missing() {
	[[ -d ${BOOTSEER_BEFORE-} ]] ||
		echo "BOOTSEER_BEFORE does not name the folder of a build"
}

bootseer_trace_before_far_side() {
	local bench_build=$BOOTSEER_BEFORE

	start_trace_service bootseer-trace-before 5002
}

bootseer_trace_before_set_up() {
	local bench_build=$BOOTSEER_BEFORE

	on_far_side record_start "$LINK_REGISTRY/ours/$ref" 5002
}

bootseer_trace_before_start() {
	local bench_build=$BOOTSEER_BEFORE

	note_traced_start bootseer-trace-before 5002 own
}
