# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Checkpoint files, whatever the store: `bootseer ckpt` as its users have it.

bootseer=$BOOTSEER_BUILD/cli/bootseer

ckpt() # COMMAND [-OPTION...] [ARGUMENT...]: with STORE
{
	local command=$1 options=()

	shift
	while [[ ${1-} == -* ]]; do
		options+=("$1")
		shift
	done
	"$bootseer" ckpt "$command" "${options[@]}" "$STORE" "$@"
}

# A folder like a checkpoint's: a file of eight columns, one that is larger than what a mount
# keeps staged, small ones, an empty one.
make_checkpoint() # FOLDER
{
	mkdir -p "$1/shard"
	noise 70000001 21 >"$1/model.pt"
	noise 40000000 22 >"$1/shard/rank-0.pt"
	noise 5000000 23 >"$1/optimizer.pt"
	echo '{"step": 100}' >"$1/config.json"
	: >"$1/done"
	chmod 640 "$1/model.pt"
	touch -d '2026-01-02 03:04:05.123456789' "$1/model.pt"
}

# In, out, replaced, removed: STORE is empty before and after.
round_trip() # FOLDER WORK
{
	ckpt cp -r "$1" :run/step-100
	[ "$(ckpt stat run/step-100/model.pt | jq -c '[.layout, .columns, .size]')" = \
		'["striped",8,70000001]' ]
	[ "$(ckpt stat run/step-100/optimizer.pt | jq -r .columns)" = 1 ]
	[ "$(ckpt stat run/step-100/config.json | jq -r .layout)" = plain ]
	[ "$(ckpt ls run/step-100 | tr '\n' ' ')" = \
		'config.json done model.pt optimizer.pt shard/ ' ]
	ckpt verify | grep -q '^5 files, '
	ckpt cp -r :run/step-100 "$2/back"
	diff -r "$1" "$2/back"
	[ "$(stat -c '%a %y' "$2/back/model.pt")" = \
		"$(stat -c '%a %y' "$1/model.pt")" ]

	# Small for large, and back.
	ckpt cp "$1/config.json" :run/step-100/model.pt
	ckpt cp :run/step-100/model.pt "$2/small"
	cmp "$2/small" "$1/config.json"
	ckpt cp --columns=3 "$1/model.pt" :run/step-100/model.pt
	ckpt cp :run/step-100/model.pt "$2/large"
	cmp "$2/large" "$1/model.pt"

	ckpt rm -r run
	run ckpt stat run/step-100/model.pt
	[ "$status" = 1 ]
	[[ $output == *"there is no 'run/step-100/model.pt'"* ]]
	ckpt gc --older=0s
	[ "$(ckpt gc --older=0s --dry-run)" = '0 objects, 0 B would be removed' ]
}
