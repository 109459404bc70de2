# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# eStargz as `ctr-remote images convert` makes it, without a recorded start.

estargz_missing() { stargz_missing; }
estargz_store() { store_estargz "$ref-estargz" convert --estargz; }
estargz_start() { start_with_stargz estargz; }
