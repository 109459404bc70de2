# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# BYTES that nothing compresses, the same each time: where blocks end depends on
# what is in them, so with real noise a test would meet another image on each run.
noise() { # BYTES SEED
	head -c "$1" /dev/zero | openssl enc -aes-128-ctr -nosalt \
		-K "$(printf '%032x' "$2")" -iv 00000000000000000000000000000000
}
