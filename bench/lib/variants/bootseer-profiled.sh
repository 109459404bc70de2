# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# bootseer-trace of a job whose start is profiled: bootseerd tells its stages, and
# bootseer-events follows them and sends them to the service with the traces.

bootseer_profiled_missing() { no_trace_service; }
bootseer_profiled_far_side() { start_trace_service bootseer-profiled 5003; }

bootseer_profiled_set_up() {
	on_far_side record_start "$LINK_REGISTRY/ours/$ref" 5003
}

bootseer_profiled_start() {
	local run_options=(--env "BOOTSEER_JOB=bench-$BASHPID")

	mkdir -p "$W/node/run-events" "$W/node/state"
	start_daemon "$W/events.log" "$(program bootseer-events)" --pods '' \
		--node bench --service http://10.213.0.1:5003 \
		--events "$W/node/run-events" --state "$W/node/state"
	note_traced_start bootseer-profiled 5003 own
	[[ -s $W/node/run-events/bootseerd.events ]] ||
		die "bootseerd told no stage of the start"
}
