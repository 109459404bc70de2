# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# bootseer with the programs of another build, in $BOOTSEER_BEFORE, and images that
# these converted.

bootseer_before_missing() { no_build_before; }
bootseer_before_store() { store_before; }

bootseer_before_start() {
	as_before note_plain_start bootseer-before "${plain_lazy[@]}"
}
