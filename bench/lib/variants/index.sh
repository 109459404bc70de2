# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# bootseer of the image's own layers, with only an index beside them.

index_store() { store_index; }
index_start() { our_repo=index note_plain_start index "${plain_lazy[@]}"; }
