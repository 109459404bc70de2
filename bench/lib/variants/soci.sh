# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# SOCI's index in the image's own index (manifest v2), without prefetch.

soci_store() { store_soci "$ref-soci"; }
soci_start() { start_with_soci soci; }
