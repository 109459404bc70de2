# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A full pull by containerd.

overlayfs_start() {
	start_containerd "$W/node/containerd"
	note_start overlayfs overlayfs "$LINK_REGISTRY/$ref" \
		ctr images pull --plain-http
	end_run
}
