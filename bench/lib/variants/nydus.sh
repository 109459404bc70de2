# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# nydus, from an image that nobody started before; it streams all of it.
# nydus_missing is in ../nydus.sh.
nydus_store() { store_nydus "$ref-nydus"; }
nydus_start() { start_with_nydus nydus true; }
