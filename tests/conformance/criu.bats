#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Process snapshots with the real criu: a Python daemon that takes long to import.  A node
# is a mount namespace of its own, in which $W/here is the node's folder.

bats_require_minimum_version 1.5.0
load ../wait.bash

bootseer=$BOOTSEER_BUILD/cli/bootseer

setup_file()
{
	local criu

	criu=$("$BATS_TEST_DIRNAME/build" criu)
	export PATH=$criu:$PATH
	criu check
}

setup()
{
	W=$BATS_TEST_TMPDIR
	STORE=file://$W/store
	export W
	mkdir "$W/store" "$W/here"
	cd "$W"
	cat >"$W/setup.sh" <<-'EOF'
		mkdir -p "$W/here/site/many"
		cd "$W/here/site/many"
		for i in $(seq 200); do
			printf 'class A:\n\tdef f(self):\n\t\treturn %d\n' "$i" >"m$i.py"
			echo "from many.m$i import A as A$i"
		done >__init__.py
	EOF
	# Answers with what it has imported, and what it remembers.
	cat >"$W/daemon.py" <<-'EOF'
		import os, socket, threading, time
		begun, asked, here = time.monotonic(), 0, os.environ["W"] + "/here"
		import many
		sum_of = sum(getattr(many, f"A{i}")().f() for i in range(1, 201))
		threading.Thread(target=threading.Event().wait, daemon=True).start()
		if os.path.exists(here + "/sock"):
		    os.unlink(here + "/sock")
		s = socket.socket(socket.AF_UNIX)
		s.bind(here + "/sock")
		s.listen()
		if os.environ.get("LISTENS"):
		    tcp = socket.create_server(("127.0.0.1", 0))
		    open(here + "/port", "w").write(str(tcp.getsockname()[1]))
		if os.environ.get("OUTSIDE"):
		    tcp = socket.create_connection(("127.0.0.1", int(os.environ["OUTSIDE"])))
		while True:
		    c, _ = s.accept()
		    asked += c.recv(9) == b"count"
		    print("asked", asked, flush=True)
		    c.sendall(f"{sum_of} {asked} {time.monotonic() - begun:.3f}".encode())
		    c.close()
	EOF
	cat >"$W/ask.py" <<-'EOF'
		import os, socket, sys
		s = socket.socket(socket.AF_UNIX)
		s.settimeout(20)
		s.connect(sys.argv[2] + "/sock")
		s.sendall(sys.argv[1].encode())
		print(s.recv(99).decode())
	EOF
}

teardown()
{
	local file

	cd /
	for file in "$W"/*/d/*.pid; do
		[ -e "$file" ] && kill -9 "$(cat "$file")"
	done
	[ -z "${outside:-}" ] || kill -9 "$outside"
}

on() # NODE [OPTION...]
{
	local node=$1

	shift
	mkdir -p "$W/$node"
	# shellcheck disable=SC2016
	unshare --mount sh -c 'mount --bind "$W/$0" "$W/here" && exec "$@"' "$node" \
		"$bootseer" env run --store "$STORE" --target "$W/here/site" \
		--daemon-dir "$W/here/d" \
		--daemon "srv=PYTHONPATH=$W/here/site exec python3 -s $W/daemon.py" \
		--daemon-ready 'srv=python3 "$W/ask.py" look "$W/here" 2>/dev/null' \
		--daemon-snapshot srv "$@" -- sh "$W/setup.sh"
}

is_free() { flock --nonblock "$W/$1/d/srv.lock" true; } # NODE

@test "a daemon goes on from its dump on another node, with its memory, clocks and sockets" {
	local then

	run -0 --separate-stderr on a
	echo "$stderr"
	[[ $stderr == *"daemon 'srv' dumped: "* ]]
	run -0 python3 ask.py count a
	[[ $output == '20100 1 '* ]]
	run -0 python3 ask.py count a
	[[ $output == '20100 2 '* ]]
	then=${output##* }
	run -0 --separate-stderr on b
	echo "$stderr" "$(cat b/d/srv.log)"
	[[ $stderr == *"daemon 'srv' restored: "* ]]
	# What was asked after the dump is not in it; what was imported, is.
	run -0 python3 ask.py count b
	[[ $output == '20100 1 '* ]]
	# Its clock stood still between dump and restore.
	[ "$(echo "${output##* } < $then + 60" | bc)" = 1 ]
	# Each has its own log.
	run -0 grep -c 'asked 2' a/d/srv.log
	run -1 grep -c 'asked 2' b/d/srv.log
	run -0 grep -c 'asked 1' b/d/srv.log
	# The first one goes on.
	run -0 python3 ask.py count a
	[[ $output == '20100 3 '* ]]
	# It can be ended, and be restored again.
	run -1 flock --nonblock b/d/srv.lock true
	kill "$(cat b/d/srv.pid)"
	wait_for is_free b
	rm -r b/site b/sock
	run -0 --separate-stderr on b
	[[ $stderr == *"daemon 'srv' restored: "* ]]
	run -0 python3 ask.py count b
	[[ $output == '20100 1 '* ]]
}

@test "a restored daemon listens where it did, and its clock is not the node's" {
	export LISTENS=yes

	run -0 --separate-stderr on a
	[[ $stderr == *"daemon 'srv' dumped: "* ]]
	kill "$(cat a/d/srv.pid)"
	wait_for is_free a
	# A node that was started a year before.
	run -0 --separate-stderr unshare --time --monotonic 31536000 --fork \
		bash -c "$(declare -f on); W=$W STORE=$STORE bootseer=$bootseer on b"
	[[ $stderr == *"daemon 'srv' restored: "* ]]
	run -0 python3 ask.py count b
	[ "$(echo "${output##* } < 600" | bc)" = 1 ]
	exec {tcp}<>"/dev/tcp/127.0.0.1/$(cat a/port)"
}

@test "what criu cannot dump goes on, and a line has criu's reason" {
	coproc outside_server {
		exec python3 -c 'import signal, socket
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
signal.pause()'
	}
	outside=$outside_server_PID
	read -r -u "${outside_server[0]}" port
	OUTSIDE=$port run -0 --separate-stderr on a
	echo "$stderr"
	[[ $stderr == *"daemon 'srv' is not dumped: dump: criu ended with 1: "*onnected*socket* ]]
	run -0 python3 ask.py count a
	[[ $output == '20100 1 '* ]]
	# So others start it, too.
	OUTSIDE=$port run -0 --separate-stderr on b
	[[ $stderr == *"daemon 'srv' is not dumped"* ]]
	run -0 python3 ask.py count b
}

@test "a daemon whose program is another one on this node is started the ordinary way" {
	cp "$(readlink -f "$(type -P bash)")" "$W/prog"
	cat >"$W/run.sh" <<-'EOF'
		cd "$W/here"
		[ -p ready ] || mkfifo ready
		exec 3<>ready
		read -r line <&3
	EOF
	run_prog()
	{
		on "$1" --daemon "prog=exec $W/prog $W/run.sh" \
			--daemon-ready "prog=test -p $W/here/ready" --daemon-snapshot prog
	}
	run -0 --separate-stderr run_prog a
	echo "$stderr"
	[[ $stderr == *"daemon 'prog' dumped: "* ]]
	cp "$(type -P dash)" "$W/prog.new"
	mv "$W/prog.new" "$W/prog"
	run -0 --separate-stderr run_prog b
	echo "$stderr"
	[[ $stderr == *"daemon 'prog': restore: criu ended with 1: "*": it is started the ordinary way"* ]]
	[[ $stderr == *"daemon 'srv' restored"* ]]
	# That one's shell ends with its FIFO.
	echo >b/ready
}
