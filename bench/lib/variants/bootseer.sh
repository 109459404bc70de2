# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Ours without any trace or prefetch: every block is fetched when it is read.

bootseer_start() { note_plain_start bootseer "${plain_lazy[@]}"; }
