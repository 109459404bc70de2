# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Ours with default settings, the first time that anybody starts the image: it is
# recorded, and streamed in the background.

bootseer_first_start() { note_plain_start bootseer-first; }
