# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# A benchmark whose rounds take longer than anybody's patience: what it measured is
# kept in a folder, a round at a time, and a later run goes on from there.  A round
# that was interrupted is begun anew, because its values are to be compared with
# each other.  One that had failures is over: they are kept as well.
#
#	rounds_open DIR			take what is there
#	rounds_done SERIES VARIANT...	prints how many rounds had all of them
#	rounds_next SERIES		prints a number for the next
#	rounds_keep			keep all since the last call: no round
#	rounds_end SERIES VARIANT...	the same: a round of them is over
#
# DIR has the files samples and failures, as in $W; rounds, lines of "SERIES, tab,
# VARIANTS"; and builds, the programs that were measured.  Without DIR nothing is
# kept beyond this run.

rounds_dir=

rounds_open() { # DIR
	local file build

	rounds_dir=${1:-$W/rounds}
	mkdir -p "$rounds_dir"
	exec 6>"$rounds_dir/lock"
	flock -n 6 || die "$rounds_dir is in use"
	touch "$rounds_dir/rounds" "$rounds_dir/builds"
	take_kept samples 5
	take_kept failures 2
	has_program bootseerd || return 0
	build=$(sha256sum <"$(program bootseerd)" | cut -d' ' -f1)
	grep -qx "$build" "$rounds_dir/builds" ||
		echo "$build" >>"$rounds_dir/builds"
	(($(wc -l <"$rounds_dir/builds") < 2)) ||
		log "$rounds_dir has figures of several builds"
}

# A line without all its columns was torn when the machine went down.
take_kept() { # FILE COLUMNS
	touch "$rounds_dir/$1"
	awk -F'\t' -v n="$2" 'NF == n' "$rounds_dir/$1" >"$W/$1"
	cp "$W/$1" "$rounds_dir/$1.new"
	mv "$rounds_dir/$1.new" "$rounds_dir/$1"
	cp "$W/$1" "$W/$1.kept"
}

rounds_done() { # SERIES VARIANT...
	awk -F'\t' -v s="$1" -v wanted="${*:2}" '
	BEGIN { n = split(wanted, want, " ") }
	$1 == s {
		all = 1
		for (i = 1; i <= n; i++)
			all = all && index(" " $2 " ", " " want[i] " ")
		rounds += all
	}
	END { print rounds + 0 }' "$rounds_dir/rounds"
}

rounds_next() { # SERIES
	awk -F'\t' -v s="$1: " 'index($1, s) == 1 && $5 > n { n = $5 }
		END { print n + 1 }' "$W/samples"
}

rounds_keep() {
	local file

	for file in samples failures; do
		tail -c "+$(($(stat -c %s "$W/$file.kept") + 1))" "$W/$file" \
			>>"$rounds_dir/$file"
		cp "$W/$file" "$W/$file.kept"
	done
}

rounds_end() { # SERIES VARIANT...
	rounds_keep
	printf '%s\t%s\n' "$1" "${*:2}" >>"$rounds_dir/rounds"
}
