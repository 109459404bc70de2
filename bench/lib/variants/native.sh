# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The image is on the node's overlayfs; only the page cache is cold.  No start
# can be faster but for a faster file system.

native_set_up() { on_far_side native_pull; }
native_pull() {
	start_containerd "$W/keep/native"
	must ctr images pull --plain-http "$LINK_REGISTRY/$ref"
}

native_start() {
	start_containerd "$W/keep/native"
	note_start native overlayfs "$LINK_REGISTRY/$ref"
	end_run
}
