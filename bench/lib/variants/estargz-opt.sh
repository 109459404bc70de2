# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# eStargz with its optimizer: it runs the workload, and puts the files that were
# opened until that ended (our images end when they are ready) to the front of the
# layers, to be prefetched.

estargz_opt_missing() { stargz_missing; }
estargz_opt_store() {
	store_estargz "$ref-estargz-opt" optimize --net-host --period 600
}
estargz_opt_start() { start_with_stargz estargz-opt; }
