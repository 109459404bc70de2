# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A client that is small enough not to change what a start reads: sourced by the
# services that are ready when they answer.

# Ask 127.0.0.1:PORT for PATH; succeeds when the status is 200.
http_get() { # PORT PATH
	local status

	exec 3<>"/dev/tcp/127.0.0.1/$1" || return 1
	printf 'GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n' "$2" >&3
	read -r -t 10 _ status _ <&3
	cat <&3 >/dev/null
	exec 3>&-
	[[ $status == 200 ]]
} 2>/dev/null

# Try a command again every 10 ms, as long as process PID lives.
until_answered() { # PID COMMAND...
	local pid=$1

	shift
	until "$@"; do
		kill -0 "$pid" || exit 1
		read -r -t 0.01 <> <(:) || :
	done
}

# "ready", then serve until told to end; or end at once without --serve.
serve_or_end() { # PID [--serve]
	local pid=$1

	trap 'kill -TERM "$pid"' TERM INT
	echo ready
	[[ ${2-} == --serve ]] || kill -TERM "$pid"
	wait "$pid"
	wait "$pid" # the first one ends with the signal
	exit 0
}
