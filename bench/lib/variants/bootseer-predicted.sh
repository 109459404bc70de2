# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Ours with an image that nobody has started, in a repository of its own, and a
# bootseer-registry that knows a start of each other image that is measured, and of the
# versions before.  Nothing is recorded, or the next round would have a trace.

bootseer_predicted_missing() { no_trace_service; }
bootseer_predicted_far_side() { start_trace_service bootseer-predicted 5003; }

bootseer_predicted_images() {
	local name image_of=$image

	for name in $images; do
		image=$name
		[[ $name == "$image_of" ]] || echo "$name"
		[[ $(previous_image) == "$image_of" ]] || previous_image
	done
	image=$image_of
}

bootseer_predicted_store() {
	store_ours "$(image "$image")" "predicted/$ref" "$(<"$store/image.$image")"
}

bootseer_predicted_set_up() {
	local name

	for name in $(bootseer_predicted_images); do
		on_far_side record_start \
			"$LINK_REGISTRY/ours/$(image_ref "$name")" 5003
	done
	our_repo=predicted on_far_side note_waste
}

# What the prediction fetched and the start did not read.
note_waste() {
	note_hot_set bootseer-predicted 5003
	(($(jq .hot.fetched_bytes "$W/figures") > 0)) ||
		die "the service predicted nothing yet: its list may be 5 s old"
	sample "$image: unused of what was fetched" bootseer-predicted \
		"$(jq '100 * .hot.unused_bytes /
			([.hot.fetched_bytes, 1] | max)' "$W/figures")" %
}

bootseer_predicted_start() {
	our_repo=predicted note_traced_start bootseer-predicted 5003 predicted \
		--record off
}
