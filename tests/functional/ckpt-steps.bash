# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A program that is killed before each step of a change of STORE, one after the other
# (tests/fakes/kill_at.c): files below F, W for a test's own.  RAW is the folder that the
# store is in, and UPLOADS that of uploads in parts; of HDFS there is none.

make_step_files()
{
	noise 9000000 61 >"$F/striped"
	noise 9000001 62 >"$F/other-striped"
	noise 3000 63 >"$F/plain"
	noise 3001 64 >"$F/other-plain"
}

until_step() # N COMMAND...: N is 0 for all of it
{
	local n=$1

	shift
	printf '\0\0\0\0\0\0\0\0' >"$W/steps"
	LD_PRELOAD=$BOOTSEER_BUILD/tests/fakes/test-kill-at.so KILL_AT=$n \
		KILL_STEPS=$W/steps "$@"
}

change() # N: the change that is tested, until its step N
{
	if [ "$AFTER" ]; then
		until_step "$1" "$bootseer" ckpt cp --columns=2 "$STORE" "$AFTER" :f
	else
		until_step "$1" "$bootseer" ckpt rm "$STORE" f
	fi
}

put_before()
{
	if [ "$BEFORE" ]; then
		ckpt cp --columns=2 "$BEFORE" :f
	elif [ -n "$(ckpt ls)" ]; then
		ckpt rm f
	fi
	ckpt gc --older=0s
} >"$W/said"

# What is there: that file, or, of an empty name, none.
has() # FILE
{
	rm -f "$W/out"
	if [ -z "$1" ]; then
		[ -z "$(ckpt ls)" ]
	else
		ckpt cp :f "$W/out" >"$W/said" 2>&1 && cmp -s "$W/out" "$1"
	fi
}

# Names of what its server has, but the files that its writers lock, and parts of uploads:
# versitygw keeps those of each in a folder.
objects()
{
	if [ -n "${RAW-}" ]; then
		find "$RAW" -type f -not -path "$RAW/.bootseer/lock/*" -printf '%P\n'
		[ ! -d "${UPLOADS-}" ] || find "$UPLOADS" -type f -printf 'an upload: %h\n' | sort -u
		return
	fi
	PYTHONPATH=$tests/soak/kills python3 - "$STORE" <<-'END'
	import sys
	from ckpt_store import WebHdfs
	for name in WebHdfs(sys.argv[1]).names():
	    if not name.startswith(".bootseer/lock/"):
	        print(name)
	END
}

# Of a file that is left: itself, or its manifest and two columns.
needed() # FILE
{
	case $1 in
	'') echo 0 ;;
	*striped) echo 3 ;;
	*) echo 1 ;;
	esac
}

is_old_or_new() # N
{
	local left

	if has "$BEFORE"; then
		left=$BEFORE
	else
		has "$AFTER" || {
			echo "step $1: neither old nor new: $(cat "$W/said")"
			return 1
		}
		left=$AFTER
	fi
	ckpt verify >"$W/said"
	ckpt gc --older=0s >"$W/said"
	has "$left" || { echo "step $1: gone after gc"; return 1; }
	objects >"$W/objects"
	[ "$(wc -l <"$W/objects")" = "$(needed "$left")" ] || {
		echo "step $1: there is:"
		cat "$W/objects"
		return 1
	}
	LEFT=$left
}

killed_at_each_step() # BEFORE AFTER STEPS: files, one may be empty; more steps than these
{
	local n=0 status

	BEFORE=${1:+$F/$1} AFTER=${2:+$F/$2} LEFT=none
	while :; do
		n=$((n + 1))
		[ "$LEFT" = "$BEFORE" ] || put_before
		status=0
		change "$n" >"$W/said" 2>&1 || status=$?
		[ "$status" != 0 ] || break
		[ "$status" = 137 ]
		is_old_or_new "$n"
	done
	has "$AFTER"
	echo "# ${1:-none} to ${2:-none}: killed $((n - 1)) times" >&3
	[ "$n" -gt "$3" ]
}
