# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# A node of ours: bootseerd, its containerd plugin and a containerd.

rpull=(ctr-remote images rpull --plain-http --snapshotter bootseer)

start_node() { # DIR BOOTSEERD-OPTION...
	start_bootseerd "$1/bootseer" --plain-http "$LINK_REGISTRY" "${@:2}"
	start_snapshotter "$1/snapshotter"
	start_containerd "$1/containerd" "bootseer=$SNAPSHOTTER_SOCKET"
}
