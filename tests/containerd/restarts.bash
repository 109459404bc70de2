# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Rounds of pulls and starts by a real containerd, from a real registry, with
# bootseerd killed at random times and run again by a supervisor. Loaded behind
# lib.bash by tests/functional/restarts.bats, which runs a few rounds, and
# tests/soak/restarts.bats, which runs a hundred.

bootseerd=$BOOTSEER_BUILD/snapshotter/node/bootseerd
bootseer=$BOOTSEER_BUILD/cli/bootseer

# A random wait of MIN to MAX milliseconds.
pause() { # MIN MAX
	local ms=$(($1 + RANDOM % ($2 - $1 + 1)))

	read -r -t "$(printf '%d.%03d' $((ms / 1000)) $((ms % 1000)))" <> <(:) || :
}

# bootseerd below --hold, which runs it again when it was killed, and is itself run
# again after a while, as a service manager does.
supervise() {
	local holder=0

	trap 'kill "$holder"; wait "$holder"; exit 0' TERM
	while :; do
		"$bootseerd" --hold --root "$T/noderoot" --run "$T/noderun" \
			--plain-http "$REGISTRY" --trust-keys "$I/key.pub" \
			--datapath erofs-fuse >>"$T/node.log" 2>&1 &
		holder=$!
		echo "$holder" >"$T/holder.new"
		mv "$T/holder.new" "$T/holder"
		wait "$holder" || :
		pause 100 1500
	done
}

node_answers() { "$bootseer" node status --socket "$T/node.sock"; }

# Kill bootseerd while the file $T/killing is there; what is in it says whether
# its holder goes, too.  Not often: where it starts more slowly than it is killed,
# nothing would ever be done, and of more deaths in a row its holder waits for 30 s.
killer() {
	local holder child n=0

	trap 'exit 0' TERM
	while [[ -e $T/killing ]] && ((n < 3)); do
		pause 20 900
		holder=$(cat "$T/holder")
		child=$(pgrep -P "$holder") || continue
		if [[ $(cat "$T/killing" 2>/dev/null) == all ]]; then
			kill -KILL "$holder" "$child" || continue
			rm -f "$T/killing" # once: it is away for long
		else
			kill -KILL "$child" || continue
		fi
		n=$((n + 1))
		echo kill >>"$T/kills"
	done
}

# Run COMMAND under kills; its time is kept in $T/NAME.ms.
under_kills() { # CHILD-OR-ALL NAME COMMAND...
	local what=$1 name=$2 began killer_pid rc=0

	shift 2
	echo "$what" >"$T/killing"
	killer 3>&- 4>&- &
	killer_pid=$!
	began=${EPOCHREALTIME/./}
	"$@" || rc=$?
	echo $(((${EPOCHREALTIME/./} - began) / 1000)) >>"$T/$name.ms"
	rm -f "$T/killing"
	wait "$killer_pid"
	return "$rc"
}

# One round: pull the image, which is not there, start a container on it, and remove
# both.
one_round() { # NUMBER
	local n=$1 who=child gets

	# A container's mounts outlive bootseerd, not its holder.
	if ((n % 4 == 0)); then who=all; fi
	gets=$(layer_gets "$I" lazy)
	under_kills "$who" pull timeout 100 ctr-remote images rpull --plain-http \
		--snapshotter bootseer "$REGISTRY/lazy:1" >"$T/pulled" 2>&1 || {
		echo "round $n: pull: $(tail -n 1 "$T/pulled")" >>"$T/failed"
		return
	}
	[[ $(layer_gets "$I" lazy) == "$gets" ]] ||
		echo "round $n: $(($(layer_gets "$I" lazy) - gets))" >>"$T/full"
	under_kills child start timeout 100 ctr run --rm --log-uri "file://$T/said" \
		--snapshotter bootseer "$REGISTRY/lazy:1" "r$n" /bin/sh -c \
		'sha256sum /srv/two/data' >"$T/started" 2>&1 ||
		echo "round $n: start: $(tail -n 1 "$T/started")" >>"$T/failed"
	grep -q "^$(sha256sum "$I/two/srv/two/data" | cut -d' ' -f1) " "$T/said" ||
		echo "round $n: wrong: $(tail -n 1 "$T/said")" >>"$T/failed"
	rm -f "$T/said"
	under_kills child remove timeout 100 ctr images rm --sync \
		"$REGISTRY/lazy:1" >/dev/null 2>&1 ||
		echo "round $n: remove" >>"$T/failed"
	# So that the next one is prepared anew, or is not.
	if ((n % 3 == 0)); then
		"$bootseer" node gc --images --cache 0 --socket "$T/node.sock" \
			>/dev/null || echo "round $n: gc" >>"$T/failed"
	fi
}

# Figures on one line, for people and docs/testing.md.
longest() { sort -n "$T/$1.ms" | tail -n 1; } # NAME

rounds() { # N
	local n

	push "$I" lazy
	"$bootseer" image convert --plain-http --sign "$I/key" \
		"docker://$REGISTRY/lazy:1" "docker://$REGISTRY/lazy:1" >/dev/null
	: >"$T/failed" >"$T/full" >"$T/kills"
	ln -s "$T/noderun/bootseerd.sock" "$T/node.sock"
	supervise 3>&- 4>&- &
	supervisor=$!
	pids+=("$supervisor")
	wait_until "$supervisor" node_answers
	start_plugin --node-timeout 60s
	start_containerd
	for ((n = 1; n <= $1; n++)); do
		one_round "$n"
	done
	say "$1 rounds, $(wc -l <"$T/kills") kills:" \
		"$(wc -l <"$T/full") pulls in full, $(wc -l <"$T/failed") failed;" \
		"longest pull $(longest pull) ms, start $(longest start) ms"
	cat "$T/failed" "$T/full"
	[[ ! -s $T/failed && ! -s $T/full ]]
}
