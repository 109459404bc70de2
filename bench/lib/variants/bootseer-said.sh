# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Ours with an image that nobody has started, and no service that knows others: what is
# fetched ahead is what the image itself says of its start.  Nothing is recorded.

bootseer_said_start() {
	note_plain_start bootseer-said --record off --trace-oci no
	last_start "$(our_image)" >"$W/figures"
	sample "$image: unused of what was fetched" bootseer-said \
		"$(jq '100 * .hot.unused_bytes /
			([.hot.fetched_bytes, 1] | max)' "$W/figures")" %
	sample "$image $link: missed" bootseer-said "$(jq '100 * .missed_blocks /
		([.read_blocks, 1] | max)' "$W/figures")" %
}
