#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Environments: what a set-up command changed, captured on one node, restored on others.
# A node is a mount namespace of its own, in which $W/site is the node's folder.

bats_require_minimum_version 1.5.0
load ../noise.bash
load ../wait.bash
load stores.bash
load env-run.bash

setup_file()
{
	export S3
	S3=$("$BATS_TEST_DIRNAME/../stores/build" versitygw)
}

setup()
{
	W=$BATS_TEST_TMPDIR
	STORE=file://$W/store
	mkdir "$W/store" "$W/site"
	export W
	cd "$W"
}

teardown()
{
	local pid

	cd /
	stop_servers
	[ ! -e "$W/b/zz" ] || chattr -i "$W/b/zz"
	for pid in a b; do
		umount "$W/$pid" 2>/dev/null || :
	done

	kill_jobs
}

# Two nodes' folders have the same, by path, attribute and byte; but sockets, which are
# of a process.
same() # NODE NODE
{
	diff <(tree "$W/$1" | grep -v "^b'/socket'") <(tree "$W/$2")
}

# The process is not there, or nobody has asked how it ended.
is_over() # PID
{
	[ ! -e "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status"
}

# What an image may have had in the folder before.
make_base() # FOLDER
{
	mkdir -p "$1/old/gone/below"
	echo 1 >"$1/old/gone/below/x"
	echo 2 >"$1/old/file"
	echo 3 >"$1/old/kept"
	echo 4 >"$1/old/untouched"
	echo 5 >"$1/kind"
	find "$1" -exec touch -h -d '2018-01-01 00:00:00' {} +
}

# The longest blob of the store.
pack()
{
	find "$W/store/env/data" "$W/store/env/packs" -type f -printf '%s %p\n' | sort -n | tail -n 1 |
		cut -d' ' -f2
}

@test "what a command changed is on the next node without running it" {
	make_command
	make_base "$W/a"
	make_base "$W/b"
	run --separate-stderr env_run a -- sh "$W/setup.sh" a
	[ "$status" = 0 ]
	[[ $stderr == 'bootseer env run: captured '* ]]
	# What a restore that was killed left in TMPDIR goes, a day later.
	mkdir -p -m 700 tmp/bootseer-env.{abcdef,ghijkl} tmp/bootseer-env.other
	echo x >tmp/bootseer-env.abcdef/meta
	touch -d '2 days ago' tmp/bootseer-env.{abcdef,other}
	TMPDIR=$W/tmp run --separate-stderr env_run b -- sh "$W/setup.sh" a
	[ "$status" = 0 ]
	[ "$output" = '' ]
	[[ $stderr == 'bootseer env run: restored '* ]]
	[ "$(ls tmp)" = $'bootseer-env.ghijkl\nbootseer-env.other' ]
	[ "$(cat ran)" = a ]
	same a b
	[ "$(cat b/old/untouched)" = 4 ]
	[ ! -e b/old/gone ]
	[ "$(stat -c %b a/pkg/sparse)" -ge "$(stat -c %b b/pkg/sparse)" ]
	[ "$(find b -name '.bootseer*')" = '' ]
}

@test "a job's log has the stages of it, and other logs have none" {
	make_command
	make_base "$W/a"
	make_base "$W/b"
	make_base "$W/c"
	export BOOTSEER_JOB=team/j BOOTSEER_NODE=n1 RANK=3
	stages() { # from standard error
		grep '^BOOTSEER ' <<<"$stderr" |
			sed -E 's/^BOOTSEER stage=(\S+) ev=(\S+) ts=.* job=team\/j node=n1 rank=3 (status=([0-9]+) )?id=.*/\1 \2 \4/' |
			tr '\n' ';'
	}
	run -0 --separate-stderr env_run a -- sh "$W/setup.sh" a
	[ "$(stages)" = 'env.key begin ;env.key end 0;env.wait begin ;env.wait end 0;env.install begin ;env.install end 0;' ]
	run -0 --separate-stderr env_run b -- sh "$W/setup.sh" a
	[ "$(stages)" = 'env.key begin ;env.key end 0;env.restore begin ;env.restore end 0;' ]
	run --separate-stderr -9 env_run a -- sh -c 'exit 9'
	[[ "$(stages)" == *'env.install begin ;env.install end 9;' ]]
	unset BOOTSEER_JOB
	run -0 --separate-stderr env_run c -- sh "$W/setup.sh" a
	[ "$(stages)" = '' ]
}

@test "a bucket keeps it as a directory does, and one of its captors wins" {
	export HOME=$W no_proxy='*' AWS_EC2_METADATA_DISABLED=true
	s3_server "$W/s3"
	STORE="s3://bkt/env?endpoint=http://$AT"
	keeps_environments
	is_removed
}

@test "a repository of a registry keeps it as a directory does, and one of its captors wins" {
	export HOME=$W no_proxy='*' DOCKER_CONFIG=$W/none
	repo_server "$W/repo"
	STORE="docker://$AT/app-env?plain-http=yes"
	keeps_environments
	# Of an index that is no object's manifest the tag is named, and no pack goes.
	tag=o.env__index__$("$bootseer" env ls --json "$STORE" | jq -r '.[].key')
	repo=docker://$AT/app-env
	skopeo copy -q --src-tls-verify=false "$repo:$tag" "dir:$W/index"
	"$BATS_TEST_DIRNAME/make-image.py" "$W/image" good
	skopeo copy -q --dest-tls-verify=false "oci:$W/image" "$repo:$tag"
	run -0 --separate-stderr "$bootseer" env gc "$STORE"
	[[ $stderr == *"cannot be read"*": snapshot $KEY: "*"delete the tag '$tag'"* ]]
	run -1 "$bootseer" env rm "$STORE" "$KEY"
	[[ $output == *"delete the tag '$tag'"* ]]
	skopeo copy -q --dest-tls-verify=false "dir:$W/index" "$repo:$tag"
	is_removed
}

# Ends by itself when the test's folder goes.
make_daemon()
{
	cat >"$W/daemon.sh" <<-'EOT'
		echo started
		echo $$ >>"$W/daemons"
		mkfifo "$W/ready"
		exec 3<>"$W/ready"
		while [ -e "$W/ready" ] && ! read -r -t 0.2 line <&3; do :; done
	EOT
}

daemon_ended() { ! kill -0 "$1" 2>/dev/null; }

@test "daemons are started once the environment is there, on each node, and once only" {
	local pid

	make_command
	make_daemon
	daemon=(--daemon "srv=exec bash $W/daemon.sh" --daemon-ready "srv=test -p $W/ready")
	run -0 --separate-stderr env_run a --daemon-dir "$W/da" "${daemon[@]}" \
		-- sh "$W/setup.sh" x
	pid=$(cat daemons)
	kill -0 "$pid"
	[ "$(stat -c %a "$W/da")" = 700 ]
	[ "$(cat "$W/da/srv.log")" = started ]
	# It runs already.
	run -0 --separate-stderr env_run a --daemon-dir "$W/da" "${daemon[@]}" -- true
	[ "$(cat daemons)" = "$pid" ]
	rm "$W/ready"
	wait_for daemon_ended "$pid"
	# After a restore, on another node.
	run -0 --separate-stderr env_run b --daemon-dir "$W/db" "${daemon[@]}" \
		-- sh "$W/setup.sh" x
	[[ $stderr == *restored* ]]
	[ "$(wc -l <daemons)" = 2 ]
	rm "$W/ready"
	pid=$(tail -n 1 daemons)
	wait_for daemon_ended "$pid"
	# Where the store is no use, too.
	STORE=file://$W/none run -0 --separate-stderr env_run c --daemon-dir "$W/dc" \
		"${daemon[@]}" -- sh "$W/setup.sh" x
	[ "$(wc -l <daemons)" = 3 ]
	rm "$W/ready"
	pid=$(tail -n 1 daemons)
	wait_for daemon_ended "$pid"
}

@test "a daemon that fails, or is not ready, is named with its log" {
	local pid slow

	mkfifo "$W/hang"
	: >"$W/daemons"
	run -1 --separate-stderr env_run a --daemon-dir "$W/d" --daemon 'bad=echo oh; exit 3' \
		--daemon-ready bad=false -- true
	[[ $stderr == *"daemon 'bad' ($W/d/bad.log): it ended with 3"* ]]
	[ "$(cat "$W/d/bad.log")" = oh ]
	# By a clock that goes on when the daemon runs.
	clock_at 0
	TEST_CLOCK=$W/clock on b --daemon-dir "$W/d" --daemon-timeout 1s \
		--daemon 'slow=echo $$ >"$W/slow.pid"; exec 3<>"$W/hang"; read -r l <&3' \
		--daemon-ready slow=false -- true 2>b.err &
	slow=$! # wait_for has processes, too
	wait_for test -s "$W/slow.pid"
	clock_at 2
	wait "$slow" || status=$?
	[ "$status" = 1 ]
	grep -F "daemon 'slow' ($W/d/slow.log): it is not ready within --daemon-timeout" b.err
	pid=$(cat "$W/slow.pid")
	wait_for daemon_ended "$pid"
	# One that has gone to the background ends with its group, too.
	clock_at 0
	TEST_CLOCK=$W/clock on b --daemon-dir "$W/d" --daemon-timeout 1s \
		--daemon 'back=(exec sh -c "echo \$\$ >\"\$W/back.pid\"; exec 3<>\"\$W/hang\"; read -r l <&3") &' \
		--daemon-ready back=false -- true 2>b.err &
	slow=$!
	wait_for test -s "$W/back.pid"
	clock_at 2
	status=0
	wait "$slow" || status=$?
	[ "$status" = 1 ]
	pid=$(cat "$W/back.pid")
	wait_for daemon_ended "$pid"
	# The descriptors of the caller are not the daemon's.
	run -0 --separate-stderr env_run b --daemon-dir "$W/d" \
		--daemon 'fds=echo /proc/self/fd/* >"$W/fds"' --daemon-ready 'fds=test -s "$W/fds"' \
		-- true 7<"$W/daemons" 8<"$W/daemons"
	run ! grep -E '/fd/[78]( |$)' "$W/fds"
	# One in the background is waited for by its --daemon-ready.
	run -0 --separate-stderr env_run c --daemon-dir "$W/d" --daemon 'back=true &' \
		--daemon-ready back=true -- true
	# A command that fails has none, and others' folders are not written to.
	run -7 --separate-stderr env_run a --daemon-dir "$W/d" --daemon "no=touch $W/no" \
		-- sh -c 'exit 7'
	[ ! -e "$W/no" ]
	mkdir -m 777 "$W/open"
	chmod 777 "$W/open"
	run -1 --separate-stderr env_run a --daemon-dir "$W/open" --daemon "no=touch $W/no" -- true
	[[ $stderr == *"'$W/open' is not a folder that only user 0 may write to"* ]]
	[ ! -e "$W/no" ]
	run -2 --separate-stderr env_run a --daemon 'a b=x' -- true
	[[ $stderr == *"--daemon 'a b=x': want NAME=COMMAND"* ]]
	run -2 --separate-stderr env_run a --daemon a=x --daemon-ready b=x -- true
	[[ $stderr == *"--daemon-ready 'b=x': no --daemon has this name"* ]]
}

@test "a target and the folders above it are made" {
	mkdir "$W/t"
	set -- --store "$STORE" --target "$W/t/opt/lib" -- \
		sh -c 'echo run; mkdir -m 711 "$W/t/opt"; mkdir "$W/t/opt/lib"
			echo x >"$W/t/opt/lib/x"'
	run --separate-stderr "$bootseer" env run "$@"
	[ "$output" = run ]
	tree "$W/t" >want
	rm -r "$W/t/opt"
	run --separate-stderr "$bootseer" env run "$@"
	[ "$status" = 0 ]
	[ "$output" = '' ]
	# Folders above a target get no times.
	diff <(tail -n +3 want) <(tree "$W/t" | tail -n +3)
	[ "$(stat -c %a "$W/t/opt")" = 711 ]
}

@test "another command with the target at once waits, and neither has what the other made" {
	local first second

	mkfifo go
	cat >setup.sh <<-'EOF'
		echo "$1" >>"$W/ran"
		[ "$1" = two ] || read -r line <"$W/go"
		echo "$1" >"$W/site/$1"
	EOF
	on a -- sh setup.sh one 2>a.err &
	first=$!
	wait_for test -e ran
	on a -- sh setup.sh two 2>b.err &
	second=$!
	wait_for grep -q "another 'env run' works on these targets: waiting" b.err
	echo >go
	wait_all "$first" "$second"
	[ "$(ls a)" = $'one\ntwo' ]
	# A fresh node that asks for one of them has that alone.
	env_run c -- sh setup.sh one 2>c.err
	grep restored c.err
	[ "$(ls c)" = one ]
}

@test "what a killed restore made of an absent target is as good as none" {
	# shellcheck disable=SC2016
	set -- --store "$STORE" --target "$W/site/in" -- \
		sh -c 'echo ran >>"$W/ran"; mkdir -p "$W/site/in"; echo x >"$W/site/in/x"'
	"$bootseer" env run "$@"
	rm -r site/in
	mkdir site/in # as a restore that is killed does
	"$bootseer" env run "$@" 2>err
	grep restored err
	[ "$(cat ran)" = ran ]
	# An empty target in which nothing changed is there after a restore, too.
	rm -r site/in
	mkdir site/none
	# shellcheck disable=SC2016
	set -- --store "$STORE" --target "$W/site/in" --target "$W/site/none" -- \
		sh -c 'echo ran >>"$W/ran"; mkdir -p "$W/site/in"; echo x >"$W/site/in/y"'
	"$bootseer" env run "$@"
	rm -r site/in site/none
	"$bootseer" env run "$@" 2>err
	grep restored err
	[ -d site/none ]
	[ "$(wc -l <ran)" = 2 ]
}

@test "paths that no call takes are captured and restored" {
	cat >setup.sh <<-'EOF'
		cd "$W/site"
		name=$(printf 'n%.0s' {1..200})
		for i in {1..30}; do mkdir "$name" && cd -P "./$name"; done
		echo deep >file
		ln -s file link
		cp /bin/true attr && setfattr -n user.x -v y attr
	EOF
	env_run a -- bash setup.sh 2>a.err
	grep captured a.err
	env_run b -- bash setup.sh 2>b.err
	grep restored b.err
	deep() { (cd "$1" && for i in {1..30}; do cd -P ./n*; done && cat link && getfattr -n user.x attr); }
	[ "$(deep b)" = "$(deep a)" ]
	[[ $(deep b) == deep*'user.x="y"'* ]]
	find a b -mindepth 1 -delete
}

@test "pip install of a wheel is restored, with bytecode that is valid" {
	mkdir wheels
	python3 "$BATS_TEST_DIRNAME/make-wheel.py" wheels demo 1.0
	echo 'demo==1.0' >requirements.txt
	set -- --key-file requirements.txt -- python3 -m pip install \
		--disable-pip-version-check --no-cache-dir --root-user-action ignore \
		--no-index --find-links wheels --target "$W/site" -r requirements.txt
	env_run a "$@"
	rm -r wheels
	run --separate-stderr env_run b "$@"
	[ "$status" = 0 ]
	[ "$output" = '' ]
	same a b
	[ "$(find b -name '*.pyc' | wc -l)" -ge 60 ]
	PYTHONPATH=$W/a python3 -c 'import demo.sub.m7'
	cp -a b site/copy
	# The path is in no file but the bytecode, which names it for messages only.
	PYTHONPATH=$W/b python3 -v -c 'import demo.sub.m7' 2>&1 |
		grep -q "pycache__/m7.*pyc matches .*m7.py"
	# Other requirements are another environment.
	echo 'demo==2.0' >requirements.txt
	run -1 env_run c "$@"
	[[ $output == *'No matching distribution'* ]]
}

@test "a folder of an image's layer is removed and replaced, too" {
	local n

	make_command
	make_base "$W/lower"
	for n in a b; do
		mkdir "$n" "$n.upper" "$n.work"
		mount -t overlay overlay \
			-o "lowerdir=lower,upperdir=$n.upper,workdir=$n.work" "$n"
	done
	env_run a -- sh "$W/setup.sh" a
	run env_run b -- sh "$W/setup.sh" a
	[[ $output == *'restored '* ]]
	same a b
	umount a b
}

# Whoever restored it would have nothing, and not run the command.
@test "what changes nothing in its targets is not captured" {
	mkdir elsewhere
	cat >setup.sh <<-'EOF'
		echo ran >>"$W/ran"
		echo it >"$W/elsewhere/it"
	EOF
	for node in a b; do
		run -0 --separate-stderr env_run "$node" -- sh "$W/setup.sh"
		[[ $stderr == *'not captured: nothing changed in the targets: does the command install to another --target?' ]]
	done
	[ "$(wc -l <ran)" = 2 ]
	[ "$("$bootseer" env ls "$STORE")" = '' ]
}

@test "two nodes at once run the command once" {
	local first second

	mkfifo go
	cat >setup.sh <<-'EOF'
		echo ran >>"$W/ran"
		read -r line <"$W/go"
		echo "$line" >"$W/site/file"
	EOF
	on a -- sh setup.sh >a.out 2>&1 &
	first=$!
	wait_for test -e ran
	on b -- sh setup.sh >b.out 2>&1 &
	second=$!
	echo done >go
	wait_all "$first" "$second"
	[ "$(cat ran)" = ran ]
	[ "$(cat b/file)" = 'done' ]
	grep -q restored b.out
	same a b
}

# On node a, `$first`, until it is told to go on by the FIFO `go`.
begin_to_run()
{
	mkfifo go
	cat >setup.sh <<-'EOF'
		echo ran >>"$W/ran"
		[ "$(wc -l <"$W/ran")" -gt 1 ] || read -r line <"$W/go"
		echo "new $(wc -l <"$W/ran")" >"$W/site/file"
	EOF
	on a -- sh setup.sh 2>a.err &
	first=$!
	wait_for test -e ran
}

@test "what another process of the node has put into place is not put there again" {
	local first second third n

	begin_to_run
	for n in b c; do
		on a -- sh setup.sh 2>"$n.err" &
		[ "$n" = c ] || second=$!
		third=$!
		wait_for grep -q waiting "$n.err"
	done
	echo >go
	wait_all "$first" "$second" "$third"
	# The command has run once, and neither of the others has restored over it.
	grep captured a.err
	grep 'found in place' b.err
	grep 'found in place' c.err
	[ "$(cat a/file)" = 'new 1' ]
	[ "$(wc -l <ran)" = 1 ]
	env_run d -- sh setup.sh
	same a d
}

@test "a restore into targets where others work since is none, and the command is run" {
	local first second

	begin_to_run
	on b -- sh setup.sh 2>b.err &
	second=$!
	wait_for grep -q waiting b.err
	echo mine >b/file
	echo >go
	wait_all "$first" "$second"
	grep 'another process works there: the command is run' b.err
	[ "$(cat b/file)" = 'new 2' ]
	[ "$(cat a/file)" = 'new 1' ]
}

@test "many nodes at once end with the same tree" {
	local pids=() n

	make_command
	for n in 1 2 3 4 5 6; do
		on "n$n" -- sh "$W/setup.sh" x 2>"$n.err" &
		pids+=($!)
	done
	wait_all "${pids[@]}"
	[ "$(cat ran)" = x ]
	for n in 2 3 4 5 6; do
		diff <(tree n1 | grep -v "^b'/socket'") \
			<(tree "n$n" | grep -v "^b'/socket'")
	done
	[ "$(cat ./*.err | grep -c captured)" = 1 ]
	[ "$(cat ./*.err | grep -c restored)" = 5 ]
}

# Of a program with tests/fakes/clock.c.
clock_at() # SECONDS
{
	echo "${1}000000000" >clock.new
	mv clock.new clock
}

has_taken_over()
{
	clock_at "$((now += 20))"
	[ "$(wc -l <ran)" = 2 ]
}

@test "another node takes over from one that was killed" {
	local first second child now=0

	mkfifo hang
	cat >setup.sh <<-'EOF'
		echo $$ >>"$W/ran"
		[ -e "$W/killed" ] || read -r line <"$W/hang"
		echo good >"$W/site/file"
	EOF
	on a -- sh setup.sh 2>a.err &
	first=$!
	wait_for test -s ran
	clock_at 0
	# The clock goes on while b does not look, and is not to end its patience.
	TEST_CLOCK=$W/clock on b --wait 1d -- sh setup.sh 2>b.err &
	second=$!
	kill -9 "$first"
	wait "$first" || status=$?
	[ "$status" = 137 ]
	# Its command went with it.
	child=$(head -n 1 ran)
	wait_for is_over "$child"
	: >killed
	# Each time it looks, the lease is older than it lasts.
	wait_for has_taken_over
	wait_all "$second"
	grep -q captured b.err
	[ ! -e a/file ]
	env_run c -- sh setup.sh
	[ "$(wc -l <ran)" = 2 ]
	same b c
}

@test "exit code, output and signals are the command's" {
	local pid

	run --separate-stderr env_run a -q -- sh -c 'cat; echo out; echo err >&2; exit 7' <<<in
	[ "$status" = 7 ]
	[ "$output" = $'in\nout' ]
	[ "$stderr" = err ]
	# A command that failed was not captured.
	[ "$("$bootseer" env ls "$STORE")" = '' ]
	run -143 env_run a -- sh -c 'kill -TERM $$'
	run -127 env_run a -- no-such-command
	[[ $output == *"'no-such-command'"* ]]
	# A shell could take the signal just before it begins to wait for it.
	on a -- perl -MPOSIX -e '$| = 1; $SIG{USR1} = sub { print "caught\n"; exit 9 };
		sigprocmask(SIG_BLOCK, POSIX::SigSet->new(SIGUSR1));
		print "ready\n"; sigsuspend(POSIX::SigSet->new)' >out &
	pid=$!
	wait_for grep -q ready out
	kill -USR1 "$pid"
	wait "$pid" || status=$?
	[ "$status" = 9 ]
	grep -q caught out
	# One that is told to end, and ends well, may have done half of it.
	on a --key told=1 -- perl -MPOSIX -e '$| = 1; $SIG{TERM} = sub { exit 0 };
		sigprocmask(SIG_BLOCK, POSIX::SigSet->new(SIGTERM));
		open(my $f, ">", "$ENV{W}/site/half"); close($f);
		print "ready\n"; sigsuspend(POSIX::SigSet->new)' >told.out 2>told.err &
	pid=$!
	wait_for grep -q ready told.out
	kill -TERM "$pid"
	wait "$pid"
	grep 'not captured: the command was told to end by signal 15' told.err
	[ "$("$bootseer" env ls "$STORE")" = '' ]
	# Signals without a name, and the hangup of a terminal, which its leader is told alone.
	cat >wait.py <<-'EOT'
		import os, signal, sys
		wanted = {signal.SIGRTMIN + 3, signal.SIGHUP}
		signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
		open(os.environ['W'] + '/waits', 'w').close()
		got = signal.sigwait(wanted)
		with open(os.environ['W'] + '/got', 'w') as f:
		    f.write('hup' if got == signal.SIGHUP else 'rt')
	EOT
	on a --key rt=1 -- python3 wait.py &
	pid=$!
	wait_for test -e waits
	kill -s RTMIN+3 "$pid"
	wait "$pid"
	[ "$(cat got)" = rt ]
	rm waits got
	python3 - "$bootseer" "$STORE" "$W/site" <<-'EOT' &
		import os, pty, signal, sys, time
		signal.signal(signal.SIGHUP, signal.SIG_DFL) # as where nohup runs the tests it is not
		pid, terminal = pty.fork()
		if pid == 0:
		    os.execv(sys.argv[1], [sys.argv[1], 'env', 'run', '--store', sys.argv[2],
		                           '--target', sys.argv[3], '--key', 'hup=1', '--',
		                           'python3', 'wait.py'])
		while not os.path.exists('waits'):
		    time.sleep(0.01) # deadline poll
		os.close(terminal)
		os.waitpid(pid, 0)
	EOT
	pid=$!
	wait "$pid"
	[ "$(cat got)" = hup ]
	# As it would be without: SIGPIPE ends a command.
	run env_run a -- sh -c 'trap' 
	[ "$status" = 0 ]
	run bash -c '"$1" env run -q --store "$2" --target "$3" -- yes | head -n 1
		echo "${PIPESTATUS[0]}"' - "$bootseer" "$STORE" "$W/site"
	[ "$output" = $'y\n141' ]
}

@test "who waits for a command that fails runs it at once" {
	local first second

	mkfifo go
	cat >setup.sh <<-'EOF'
		echo ran >>"$W/ran"
		[ -e "$W/second" ] || { : >"$W/second"; read -r line <"$W/go"; exit 3; }
		echo good >"$W/site/file"
	EOF
	on a -- sh setup.sh &
	first=$!
	wait_for test -s ran
	on b --wait 1h -- sh setup.sh 2>b.err &
	second=$!
	wait_for grep -q waiting b.err
	echo go >go
	wait "$first" || status=$?
	[ "$status" = 3 ]
	wait_all "$second"
	[ "$(cat b/file)" = good ]
}

@test "a node waits no longer than --wait" {
	local first

	mkfifo go
	cat >setup.sh <<-'EOF'
		echo ran >>"$W/ran"
		[ -e "$W/second" ] || { : >"$W/second"; read -r line <"$W/go"; }
		echo good >"$W/site/file"
	EOF
	on a -- sh setup.sh &
	first=$!
	wait_for test -e second
	run env_run b --wait 100ms -- sh setup.sh
	[ "$status" = 0 ]
	[[ $output == *'takes longer than --wait: the command is run' ]]
	[ "$(cat b/file)" = good ]
	echo go >go
	wait_all "$first"
}

@test "the command is run when the store is gone, with a line why" {
	run --separate-stderr env AWS_ACCESS_KEY_ID=k AWS_SECRET_ACCESS_KEY=s \
		"$bootseer" env run --store-timeout 300ms \
		--store 's3://bucket/env?endpoint=http://127.0.0.1:9' \
		--target "$W/site" -- sh -c 'echo out; exit 5'
	[ "$status" = 5 ]
	[ "$output" = out ]
	[[ ${stderr_lines[0]} == *': the command is run' ]]
	[ "${#stderr_lines[@]}" = 1 ]
	# One that goes away while the command runs.
	run --separate-stderr env_run a -- sh -c 'echo x >"$W/site/x"; rm -r "$W/store"
		: >"$W/store"; exit 0'
	[ "$status" = 0 ]
	[[ ${stderr_lines[0]} == *'not captured: '* ]]
	[ "${#stderr_lines[@]}" = 1 ]
}

@test "a damaged snapshot is never restored, and the command is run" {
	local blob

	make_command
	make_base "$W/a"
	make_base "$W/b"
	make_base "$W/c"
	env_run a --no-auto-key -- sh "$W/setup.sh" a
	blob=$(pack)
	"$bootseer" env verify "$STORE" | grep -q good
	printf '\377\376\375' | dd of="$blob" bs=1 seek=1000000 conv=notrunc status=none
	run -1 "$bootseer" env verify "$STORE"
	[[ $output == *bad:*'env rm'* ]]
	# Nothing of it was put anywhere before the command ran.
	cat >look.sh <<-'EOF'
		find "$W/site" -name '*' -not -path '*/old*' | sort >"$W/seen"
	EOF
	cat setup.sh >>look.sh
	mv look.sh setup.sh
	run env_run b --no-auto-key -- sh "$W/setup.sh" a
	[ "$status" = 0 ]
	[[ ${lines[0]} == *": bootseer env rm STORE $(basename store/env/index/*)): the command is run" ]]
	[ "$(cat seen)" = "$W/site"$'\n'"$W/site/kind" ]
	[ "$(wc -l <ran)" = 2 ]
	# Without a piece of it as well; and with an index that is none.
	rm "$blob"
	run env_run c --no-auto-key -- sh "$W/setup.sh" a
	[[ ${lines[0]} == *': the command is run' ]]
	echo '{}' >"$(echo store/env/index/*)"
	make_base "$W/d"
	run env_run d --no-auto-key -- sh "$W/setup.sh" a
	[[ ${lines[0]} == *'damaged'*': the command is run' ]]
	"$bootseer" env ls "$STORE" | grep -q 'cannot be read'
	"$bootseer" env rm "$STORE" "$(basename store/env/index/*)"
	[ "$(find store/env/data store/env/index -type f)" = '' ]
}

@test "a restore that fails half-way takes all back" {
	make_command
	make_base "$W/a"
	make_base "$W/b"
	echo last >a/zz
	cp -p a/zz b/zz
	touch -d '2018-01-01' a/zz b/zz a b
	echo 'echo changed >zz' >>setup.sh
	env_run a --no-auto-key -- sh "$W/setup.sh" a
	tree "$W/b" | tail -n +2 >before
	# What no scan shows: it cannot be replaced until the command says otherwise.
	{
		echo 'chattr -i "$W/site/zz"'
		echo 'python3 "$T/list-tree.py" "$W/site" | tail -n +2 >"$W/seen"'
		cat setup.sh
	} >look.sh
	mv look.sh setup.sh
	chattr +i b/zz
	T=$BATS_TEST_DIRNAME run env_run b --no-auto-key -- sh "$W/setup.sh" a
	chattr -i b/zz
	echo "$output"
	[ "$status" = 0 ]
	[[ ${lines[0]} == *zz*': the command is run' ]]
	diff before seen
}

@test "no space: nothing is begun, and the command is run" {
	make_command
	env_run a --no-auto-key -- sh "$W/setup.sh" a
	echo 'echo small >"$W/site/small"' >setup.sh
	mkdir b
	mount -t tmpfs -o size=1m,mode=755 tmpfs b
	run env_run b --no-auto-key -- sh "$W/setup.sh" a
	echo "$output"
	umount_list=$(ls b)
	umount b
	[ "$status" = 0 ]
	[[ ${lines[0]} == *'no space in'*': the command is run' ]]
	[ "$umount_list" = small ]
}

# `on`, where each node has a file of its own mounted in the target.
on_with_hosts() # NODE -- COMMAND...
{
	local node=$1

	shift 2
	mkdir -p "$W/$node/sub"
	touch "$W/$node/hosts"
	find "$W/$node" -exec touch -h -d '2018-01-01 00:00:00' {} +
	echo "hosts of $node" >"$W/$node.hosts"
	# shellcheck disable=SC2016
	unshare --mount sh -c 'mount --bind "$W/$0" "$W/site" &&
		mount --bind "$W/$0.hosts" "$W/site/hosts" && exec "$@"' \
		"$node" "$bootseer" env run --store "$STORE" --target "$W/site" -- "$@"
}

@test "folders that may not be written to are restored and taken back by any user" {
	local d n

	d=$(mktemp -d /var/tmp/env-user.XXXXXX)
	mkdir -p "$d"/{a,b,c}/mod/old "$d/site" "$d/store"
	for n in a b c; do
		echo 1 >"$d/$n/mod/old/file"
		echo 2 >"$d/$n/mod/kept"
		chmod 555 "$d/$n/mod/old" "$d/$n/mod"
		find "$d/$n" -exec touch -d '2018-01-01' {} +
	done
	cat >"$d/setup.sh" <<-'EOT'
		set -e
		cd "$1/site"
		echo ran >>"$1/ran"
		chmod 755 mod mod/old
		rm -r mod/old
		mkdir -p new/below
		echo 3 >new/below/file
		echo 4 >mod/more
		chmod 555 new/below new mod
	EOT
	touch "$d/ran"
	chmod 755 "$d"
	chown -R 65534:65534 "$d"
	as_user() # NODE [OPTION...]
	{
		local node=$1

		shift
		# shellcheck disable=SC2016
		unshare --mount sh -c 'mount --bind "$0/$1" "$0/site" && shift && exec "$@"' \
			"$d" "$node" setpriv --reuid 65534 --regid 65534 --clear-groups \
			"$bootseer" env run --store "file://$d/store" --target "$d/site" \
			"$@" -- sh "$d/setup.sh" "$d"
	}
	cd "$d"
	as_user a
	run as_user b
	[[ $output == *'restored '* ]]
	[ "$(wc -l <"$d/ran")" = 1 ]
	diff <(tree "$d/a") <(tree "$d/b")
	# shellcheck disable=SC2016
	run as_user c --verify 'test ! -e site/new'
	[[ $output == *'failed with 1 ('*'): the command is run'* ]]
	[[ $output != *'taken back'* ]]
	[ "$(wc -l <"$d/ran")" = 2 ]
	[ "$(find "$d" -name '.bootseer-env.*')" = '' ]
	diff <(tree "$d/a" | cut -d' ' -f1-5) <(tree "$d/c" | cut -d' ' -f1-5)
	cd "$W"
	rm -r "$d"
}

@test "the first writer's umask shuts no other user of the store's folder out" {
	local user

	chmod 755 "$W" "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR" 2>/dev/null || :
	d=$(mktemp -d /var/tmp/env-users.XXXXXX)
	chmod 755 "$d"
	mkdir -m 1777 "$d/store"
	for user in 65534 65533; do
		mkdir "$d/site.$user"
		chown "$user:$user" "$d/site.$user"
		# shellcheck disable=SC2016
		(cd "$d" && umask 077 && exec setpriv --reuid "$user" --regid "$user" --clear-groups \
			"$bootseer" env run --store "file://$d/store" --target "$d/site.$user" \
			-- sh -c 'echo x >"$0/x"' "$d/site.$user" 2>"$W/err.$user")
		cat "$W/err.$user"
		grep -q captured "$W/err.$user"
	done
	[ "$(setpriv --reuid 65532 --regid 65532 --clear-groups \
		"$bootseer" env ls "file://$d/store" | grep -c ' sh on ')" = 2 ]
	# A folder that is shut is named.
	chmod 700 "$d/store/env"
	run -1 setpriv --reuid 65532 --regid 65532 --clear-groups "$bootseer" env rm \
		"file://$d/store" "$(basename "$(find "$d/store/env/index" -type f | head -n 1)")"
	[[ $output == *"'$d/store/env' is of user 65534, mode 0700"* ]]
	rm -r "$d"
}

@test "what is mounted in a target, a file or a folder, is not the target's" {
	cat >setup.sh <<-'EOF'
		echo ran >>"$W/ran"
		echo changed >>"$W/site/hosts"
		echo new >"$W/site/file"
		mount --bind "$W/site/sub" "$W/site/sub"
	EOF
	on_with_hosts a -- sh setup.sh
	run on_with_hosts b -- sh setup.sh
	[[ $output == *'restored '*', 0 removed'* ]]
	[ "$(wc -l <ran)" = 1 ]
	[ "$(cat b/file)" = new ]
	[ "$(cat b.hosts)" = 'hosts of b' ]
	[ -d b/sub ]
	[ ! -s b/hosts ]
}

@test "a target that does not keep still is not captured" {
	local writer

	cat >setup.sh <<-'EOF'
		(while :; do echo . >>"$W/site/log"; done) >/dev/null 2>&1 &
		echo $! >"$W/writer"
		echo x >"$W/site/x"
		head -c 3000000 /dev/urandom >"$W/site/large"
	EOF
	run env_run a -- sh setup.sh
	writer=$(cat writer)
	kill "$writer"
	[ "$status" = 0 ]
	[[ $output == *'not captured: '*'do not keep still'* ]]
	[ "$("$bootseer" env ls "$STORE")" = '' ]
	[ "$(find store/env/data -type f)" = '' ]
}

@test "a process that the command leaves is named, as it is on no other node" {
	mkfifo end
	cat >setup.sh <<-'EOF'
		echo x >"$W/site/x"
		for i in 1 2; do
			setsid sh -c 'exec 3<>"$W/end"; echo $$ >>"$W/left"; exec tail -f /dev/null' \
				>/dev/null 2>&1 &
		done
		while [ "$(wc -l <"$W/left")" != 2 ]; do :; done
	EOF
	touch left
	run -0 --separate-stderr env_run a -q -- sh setup.sh
	xargs kill <left
	[ "$stderr" = "bootseer env run: the command left 2 processes (tail, tail), which are not \
there where it is restored: start them by --daemon" ]
	run -0 --separate-stderr env_run b -q -- sh -c 'true & wait; echo y >"$W/site/y"'
	[ "$stderr" = '' ]
}

@test "a file that changes with the same times and size is seen" {
	make_base "$W/a"
	make_base "$W/b"
	# All but ctime, which nobody can put back; what is written within one tick of
	# its clock is a unit's (content is compared).
	env_run a -- sh -c 'printf 9 | dd of="$W/site/old/kept" bs=1 conv=notrunc status=none
		touch -d "2018-01-01 00:00:00" "$W/site/old/kept"'
	run env_run b -- sh -c 'printf 9 | dd of="$W/site/old/kept" bs=1 conv=notrunc status=none
		touch -d "2018-01-01 00:00:00" "$W/site/old/kept"'
	[[ $output == *restored* ]]
	[ "$(cat b/old/kept)" = 9 ]
}

@test "the key says what went into it, and what differs" {
	local key

	echo one >req
	set -- --target "$W/site" --key CUDA=12 --key-file req
	key=$("$bootseer" env key "$@" -- pip install x)
	[[ $key =~ ^[0-9a-f]{64}$ ]]
	[ "$("$bootseer" env key "$@" -- pip install x)" = "$key" ]
	"$bootseer" env key --explain "$@" -- pip install x | grep -q '^value  *CUDA  12$'
	[ "$("$bootseer" env key "$@" -- pip install y)" != "$key" ]
	echo two >req
	[ "$("$bootseer" env key "$@" -- pip install x)" != "$key" ]
	"$bootseer" env run --store "$STORE" "$@" -- sh -c 'echo x >"$W/site/x"'
	rm site/x
	echo three >req
	run "$bootseer" env key --target "$W/site" --key CUDA=13 --key-file req \
		--store "$STORE" --against "$(basename store/env/index/*)" -- sh -c 'echo x >"$W/site/x"'
	[[ $output == *'file req: differs'*'value CUDA: '* ]]
	[[ $output != *'argument'* ]]
	# Each by its path: what came, what went, and what is in the targets beforehand.
	mv req other
	echo before >site/before
	run -0 "$bootseer" env key --target "$W/site" --key CUDA=12 --key-file other \
		--store "$STORE" --against "$(basename store/env/index/*)" -- sh -c 'echo x >"$W/site/x"'
	[ "${lines[1]}" = "base: in the targets is not what was there before the snapshot's \
command ran; in which paths, is not kept" ]
	[ "${lines[2]}" = "file other: not in the snapshot's key" ]
	[ "${lines[3]}" = "file req: only in the snapshot's key" ]
	# No word of the command is kept, and no value.
	run ! grep -q -e 'echo x' -e '"12"' store/env/index/*
}

@test "an input that changes is another environment, without being named" {
	local key=

	changes() { # COMMAND...: the key is another one than the last
		local now

		now=$("$bootseer" env key --target "$W/site" -- "$@")
		[ "$now" != "$key" ]
		key=$now
	}
	echo 'echo 1' >setup.sh
	changes bash setup.sh
	echo 'pip install -r req.txt' >setup.sh
	changes bash setup.sh
	echo '-c con.txt' >req.txt
	changes bash setup.sh
	echo 'x==1' >con.txt
	changes bash setup.sh
	PIP_INDEX_URL=https://u:p@one/simple changes bash setup.sh
	PIP_INDEX_URL=https://u:p@two/simple changes bash setup.sh
	unset PIP_INDEX_URL
	changes cp req.txt "$W/site/req.txt"
	echo 'y' >>req.txt
	changes cp req.txt "$W/site/req.txt"
	run -0 "$bootseer" env key --explain --target "$W/site" -- bash setup.sh
	[[ $output == *'file          con.txt  '*'file          req.txt  '*'file          setup.sh  '* ]]
	run -0 "$bootseer" env key --explain --no-auto-key --target "$W/site" -- bash setup.sh
	[[ $output != *'file  '* ]]
	# shellcheck disable=SC2016
	env_run a -- sh -c 'cp req.txt "$W/site/"'
	echo z >req.txt
	# shellcheck disable=SC2016
	env_run b -- sh -c 'cp req.txt "$W/site/"'
	[ "$(cat b/req.txt)" = z ]
}

@test "what is each node's own below /etc is in no key, and what else is there is in it" {
	local own=(/etc/{hostname,hosts,resolv.conf,mtab,machine-id,ld.so.cache}) key

	key_on() { # NODE CONTENT: where each of these files is the node's own
		mkdir "$W/$1.etc" "$W/$1.work"
		# shellcheck disable=SC2016
		unshare --mount sh -c 'mount -t overlay \
				-o "lowerdir=/etc,upperdir=$W/$0.etc,workdir=$W/$0.work" overlay /etc
			echo "$1" >/etc/app.conf
			shift
			for f; do rm -f "$f" && echo "$0" >"$f" || exit 1; done
			"$bootseer" env key --target "$W/site" -- cp -t site /etc/app.conf "$@"' \
			"$1" "$2" "${own[@]}"
	}
	export bootseer
	key=$(key_on one x)
	[ "$(key_on two x)" = "$key" ]
	[ "$(key_on three y)" != "$key" ]
}

@test "what nobody can tell is said, and a login is shown and kept nowhere" {
	# shellcheck disable=SC2016
	set -- sh -c 'echo 1 | bash -s >"$W/site/x"; : --index-url https://u:hidden@h/simple'
	run -0 --separate-stderr env_run a -- "$@"
	[[ $stderr == *"not in the key: what is piped to 'bash': with --key, --key-file or --ttl a change is seen"* ]]
	run -0 --separate-stderr env_run b -q -- "$@"
	[ "$stderr" = '' ]
	run -0 "$bootseer" env key --explain --target "$W/site" --key 'A=https://u:hidden@h' -- "$@"
	[[ $output == *"not in it     what is piped to 'bash'"* ]]
	[[ $output != *hidden* ]]
	run ! grep -rq hidden store
}

@test "a file that the command names and makes is in no key of later runs" {
	cat >setup.sh <<-'EOF'
		echo ran >>"$W/ran"
		echo x >"$W/site/x"
		echo done >"$1"
	EOF
	env_run a -- sh setup.sh its.log
	[ -e its.log ]
	env_run b -- sh setup.sh its.log 2>b.err
	grep restored b.err
	[ "$(cat ran)" = ran ]
	key=$("$bootseer" env key --store "$STORE" --target "$W/site" -- sh setup.sh its.log)
	[ -e "store/env/index/$key" ]
	run -0 "$bootseer" env key --explain --store "$STORE" --target "$W/site" -- sh setup.sh its.log
	[ "$(grep -c "^not in it  *'its.log', which the command makes$" <<<"$output")" = 1 ]
	"$bootseer" env rm "$STORE" "$key"
	find store/env/made -type f -exec touch -d '3 days ago' {} +
	"$bootseer" env gc "$STORE"
	[ "$(find store/env/made -type f)" = '' ]
}

@test "a file that another command of the same words made is an input where it is not made" {
	echo 'echo x >"$W/site/x"; echo 1 >"$1"' >setup.sh
	env_run a -- sh setup.sh cfg.txt
	# Another project in the same folder, which has the file.
	echo 'cat "$1" >"$W/site/x"' >setup.sh
	echo one >cfg.txt
	run -0 --separate-stderr env_run b -- sh setup.sh cfg.txt
	[[ $stderr == *"not captured: 'cfg.txt' is not in the key"* ]]
	[ "$(cat b/x)" = one ]
	env_run c -- sh setup.sh cfg.txt 2>c.err
	grep captured c.err
	env_run d -- sh setup.sh cfg.txt 2>d.err
	grep restored d.err
	echo two >cfg.txt
	env_run e -- sh setup.sh cfg.txt
	[ "$(cat e/x)" = two ]
}

@test "what the command leaves and has ended does not stay in the table of processes" {
	cat >setup.sh <<-'EOF'
		for i in $(seq 50); do (true &); done
		echo x >"$W/site/x"
		for i in $(seq 1000); do
			[ "$(ps --ppid "$PPID" -o stat= | grep -c Z)" -gt 2 ] || exit 0
		done
		exit 7
	EOF
	run -0 --separate-stderr env_run a -q -- sh setup.sh
	[ "$stderr" = '' ]
}

# As Triton, Inductor and torch's extensions keep theirs: by what was compiled, found again
# without being compiled.
@test "a cache of what was compiled is restored, and a later run adds to it" {
	local node

	cat >warm.py <<-'EOF'
		import hashlib, os, py_compile, sys
		cache = os.environ["W"] + "/site/cache"
		for source in sys.argv[1:]:
		    name = hashlib.sha256(source.encode()).hexdigest()
		    to = f"{cache}/{name[:2]}/{name}.pyc"
		    if os.path.exists(to):
		        continue
		    os.makedirs(os.path.dirname(to), exist_ok=True)
		    with open("source.py", "w", encoding="utf-8") as f:
		        f.write(source)
		    py_compile.compile("source.py", to)
		    with open("compiled", "a", encoding="utf-8") as f:
		        f.write(source + "\n")
	EOF
	warm() { # NODE: two models, one after the other
		env_run "$1" --key driver=550 -- python3 warm.py a=1 b=2
		env_run "$1" --key driver=550 -- python3 warm.py b=2 c=3
	}
	warm a
	[ "$(cat compiled)" = $'a=1\nb=2\nc=3' ]
	for node in b c; do
		warm "$node" 2>"$node.err"
		[ "$(grep -c restored "$node.err")" = 2 ]
		same a "$node"
	done
	[ "$(wc -l <compiled)" = 3 ]
	# The second snapshot has what the second run added.
	"$bootseer" env ls --json "$STORE" | jq -e '[.[].bytes] | sort | .[0] < .[1]'
	# Another driver is another cache.
	env_run d --key driver=560 -- python3 warm.py a=1 b=2
	[ "$(wc -l <compiled)" = 5 ]
}

# Two nodes that compile at once, one that comes later with another program, one that has a part.
@test "a cache that nodes add to is the union of what they have" {
	local first second

	mkfifo go.a go.b
	cat >compile.sh <<-'EOF'
		hold=$W/go.$1
		shift
		cd "$W/site"
		for kernel; do
		    [ ! -e "$kernel" ] || continue
		    echo "$kernel" >>"$W/compiled"
		    mkdir -p "$(dirname "$kernel")"
		    echo "code of $kernel" >"$kernel"
		done
		[ ! -p "$hold" ] || read -r line <"$hold"
	EOF
	compile() { # NODE KERNEL...
		env_run "$1" --merge --key driver=550 -- sh "$W/compile.sh" "$@" 2>"$1.err"
	}
	compile a x/1 x/2 &
	first=$!
	compile b x/2 y/3 &
	second=$!
	echo >go.a
	echo >go.b
	wait_all "$first" "$second"
	# Each had something that the other had not.
	grep merged a.err
	grep merged b.err
	rm compiled go.a
	compile c x/1 x/2 y/3 z/4
	[ "$(cat compiled)" = z/4 ]
	grep restored c.err
	[ "$(cat c/x/1 c/x/2 c/y/3)" = $'code of x/1\ncode of x/2\ncode of y/3' ]
	# What adds nothing stores nothing.
	compile a x/1
	[ "$(cat a/z/4)" = "code of z/4" ]
	run ! grep merged a.err
	# One cache, whatever is run; and one for each driver.
	[ "$("$bootseer" env ls --json "$STORE" | jq length)" = 1 ]
	env_run d --merge --key driver=560 -- true
	[ -z "$(ls d)" ]
	"$bootseer" env verify "$STORE"
}

@test "a command that fails, and a store that is away, add nothing to a cache and take nothing" {
	run -3 env_run a --merge -- sh -c 'echo 1 >"$W/site/one"; exit 3'
	[ "$("$bootseer" env ls --json "$STORE" | jq length)" = 0 ]
	env_run a --merge -- sh -c 'echo 2 >"$W/site/two"'
	mv store away
	: >store
	run -0 env_run b --merge -- sh -c 'echo ran; echo 3 >"$W/site/three"'
	[[ $output == *"the command is run without the cache"* ]]
	[[ $output == *ran* ]]
	rm store
	mv away store
	# What could not be added then is added by the next run, whatever it runs.
	env_run b --merge -- true
	env_run c --merge -- true
	[ "$(cat c/one c/two c/three)" = $'1\n2\n3' ]
	run -2 env_run a --merge --ttl=1d -- true
	run -2 "$bootseer" env run --merge --store "$STORE" -- true
}

# Its contents, one of its blobs, its index; the next node compiles the same, or something else.
@test "a cache that is damaged is replaced by what the next node has, with a line that says so" {
	local damage what index

	compile() { # NODE FIRST LAST
		# shellcheck disable=SC2016
		env_run "$1" --merge -- sh -c 'seq "$0" "$1" >"$W/site/$0"' "${@:2}"
	}
	for damage in 'dd of=$(pack) bs=1 seek=1000 conv=notrunc' 'rm "$(pack)"' 'tee "$index"'; do
		for what in '1 100000' '2 100000'; do
			rm -rf store/* a b c
			compile a 1 100000
			index=$(echo store/env/index/*)
			eval "$damage" <<<'{}'
			# shellcheck disable=SC2086
			run -0 compile b $what
			[[ ${lines[0]} == *': the command is run without the cache' ]]
			[[ ${lines[1]} == *': the cache is made anew of what this node has' ]]
			[[ ${lines[2]} == *merged* ]]
			compile c 3 3 2>c.err
			grep restored c.err
			cmp b/* "c/${what% *}"
			"$bootseer" env verify "$STORE"
		done
	done
}

@test "environments are listed, shown, checked and removed" {
	local key

	env_run a -q --key V=1 -- sh -c 'echo 1 >"$W/site/x"'
	env_run b -q --key V=2 -- sh -c 'echo 2 >"$W/site/x"'
	[ "$("$bootseer" env ls "$STORE" | wc -l)" = 2 ]
	key=$(find store/env/index -type f -printf '%f\n' | head -n 1)
	"$bootseer" env pin "$STORE" "$key"
	"$bootseer" env ls --json "$STORE" | jq -e --arg key "$key" --arg site "$W/site" '
		length == 2 and all(.[]; .targets == [$site] and .program == "sh" and
			.changed == 2 and .deleted == 0 and .bytes == 2 and .stored > 2 and
			.used_ms >= .made_ms and (has("bad") | not)) and
		[.[] | select(.pinned).key] == [$key]'
	mkdir unreadable
	cp -a store/env unreadable/
	echo '{' >"unreadable/env/index/$key"
	"$bootseer" env ls --json "file://$W/unreadable" | jq -e --arg key "$key" '
		[.[] | select(has("error")).key] == [$key]'
	# A message with a byte that is no UTF-8: a file of sysfs is shorter than it says.
	cp -a unreadable $'bytes\377'
	unshare --mount sh -c 'mount --bind /sys/devices/system/cpu/online "$1/env/index/$2" &&
		"$0" env ls --json "file://$1"' "$bootseer" "$W/"$'bytes\377' "$key" |
		jq -e --arg key "$key" '[.[] | select(has("error")).key] == [$key]'
	"$bootseer" env inspect "$STORE" "${key:0:8}" | grep -q "^key  *$key"
	run -2 "$bootseer" env inspect "$STORE"
	run -1 "$bootseer" env inspect "$STORE" 0000000000
	[[ $output == *'env ls'* ]]
	[ "$("$bootseer" env verify "$STORE" | grep -c good)" = 2 ]
	"$bootseer" env unpin "$STORE" "$key"
	"$bootseer" env rm "$STORE" "$key"
	[ "$("$bootseer" env ls "$STORE" | wc -l)" = 1 ]
	[ ! -e "store/env/data/$key" ] || [ "$(find "store/env/data/$key" -type f)" = '' ]
}

# What whoever may write to the store put there: a title for the terminal, a line of its own.
@test "no control character of a store or a file reaches a terminal" {
	local index key bad=$'\033]0;x\a\u009b2J\n\r'

	env_run a -q -- sh -c 'echo 1 >"$W/site/x"'
	index=$(echo store/env/index/*)
	key=$(basename "$index")
	jq -c --arg bad "$bad" '.by = $bad | .program = $bad |
		(.items[] | select(.kind == "libc")).shown = $bad' "$index" >new
	mv new "$index"
	printf '%s by %s' "$(jq -r .folder "$index")" "$bad" >bad
	for name in ls inspect; do
		run -0 script -qec "'$bootseer' env $name '$STORE' $([ $name = ls ] || echo "$key")" /dev/null
		[[ $output != *$'\033'* && $output != *$'\a'* && $output != *$'\u009b'* ]]
		[[ $output == *'?]0;x???2J'* ]]
	done
	# Each command's, whichever the words are; a bar of its own is drawn all the same.
	run ! "$bootseer" env ls "file:///no/$bad"
	[[ $output == *'?]0;x???2J'* ]]
	run ! "$bootseer" "$bad" x
	[[ $output != *$'\033'* ]]
	[[ $output == *'?]0;x???2J'* ]]
}

@test "what two environments differ in is shown, with an exit status as diff's" {
	local a b

	make_base "$W/a"
	make_base "$W/b"
	# shellcheck disable=SC2016
	env_run a -q --key V=1 -- sh -c 'cd "$W/site"; echo 1 >same; echo 1 >text
		echo x >gone; printf "\351\n" >"$(printf "odd\351")"; rm old/file
		chmod 755 text; touch -d @1000 .* *'
	# shellcheck disable=SC2016
	env_run b -q --key V=2 -- sh -c 'cd "$W/site"; echo 1 >same; echo 22 >text
		mkdir new; echo 333 >new/below; chmod 600 text
		touch -d @1000 .* * new/below'
	for b in $("$bootseer" env ls "$STORE" | cut -d' ' -f1); do
		! "$bootseer" env inspect "$STORE" "$b" |
			grep -q '^removed   1 ' || a=$b
	done
	b=$("$bootseer" env ls "$STORE" | cut -d' ' -f1 | grep -v "$a")
	run "$bootseer" env diff "$STORE" "$a" "$a"
	[ "$status" = 0 ]
	[ "$output" = '' ]
	run -1 "$bootseer" env diff --no-times "$STORE" "$a" "$b"
	diff - <(echo "$output" | sed "s|$W||") <<-'EOF'
		- /site/gone  2 B
		+ /site/new  folder
		+ /site/new/below  4 B
		- /site/odd\xe9  2 B
		- /site/old/file  deletion
		~ /site/text  content 2 B -> 3 B, mode 0755 -> 0600
		2 added (4 B), 3 removed (4 B), 1 changed
	EOF
	# A digest of an artifact names a snapshot, too.
	run -1 "$bootseer" env diff --json --no-times "$STORE" "$("$bootseer" env \
		inspect "$STORE" "$a" | sed -n 's/^artifact  //p')" "sha256:$b"
	jq -e '.added == 2 and .removed == 3 and .changed == 1 and
		.added_bytes == 4 and (.differences | length) == 6 and
		(.differences[-1] | .in == ["content", "mode"] and
			.a.size == 2 and .b.mode == "0600") and
		.differences[4].a.type == "deletion" and
		.differences[0].b == null' <<<"$output"
	run -2 "$bootseer" env diff "$STORE" "$a" 0000000000
	[[ $output == *'env ls'* ]]
	run -2 "$bootseer" env diff "$STORE" "$a"
	# shellcheck disable=SC2016
	run -2 bash -c '"$0" env diff "$1" "$2" "$3" >/dev/full' "$bootseer" \
		"$STORE" "$a" "$b"
	[[ $output == *'write failed'* ]]
}

@test "a snapshot that fails its smoke test is taken back, and bad for everybody" {
	make_command
	make_base "$W/a"
	make_base "$W/b"
	make_base "$W/c"
	# What fails it at once is not captured.
	run --separate-stderr env_run a --verify 'exit 4' -- true
	[ "$status" = 0 ]
	[[ $stderr == *'not captured: the --verify command failed with 4' ]]
	[ "$("$bootseer" env ls "$STORE")" = '' ]
	env_run a --verify 'test -p "$W/site/fifo"' --no-auto-key -- sh "$W/setup.sh" a
	tree "$W/b" | tail -n +2 >before
	cat >look.sh <<-'EOF'
		python3 "$T/list-tree.py" "$W/site" | tail -n +2 >"$W/seen"
	EOF
	cat setup.sh >>look.sh
	mv look.sh setup.sh
	export T=$BATS_TEST_DIRNAME
	run --separate-stderr env_run b --verify 'echo tested; ! test -p "$W/site/fifo"' \
		--no-auto-key -- sh "$W/setup.sh" a
	[ "$status" = 0 ]
	[ "$output" = '' ]
	[[ $stderr == *'--verify command failed with 1 (so it is for all until '*'): the command is run' ]]
	[ "$(wc -l <ran)" = 2 ]
	diff before seen
	"$bootseer" env ls "$STORE" | grep -q '  bad by '
	# Others do not restore it, whether they test or not.
	run --separate-stderr env_run c --no-auto-key -- sh "$W/setup.sh" a
	[[ $stderr == *'found bad by '*'env rm STORE '*': the command is run' ]]
	[ "$(wc -l <ran)" = 3 ]
	# Removed by the next collection, so that another can be made.
	run -0 "$bootseer" env gc "$STORE"
	[[ ${lines[0]} == *' removed: found bad by a --verify command; last used '* ]]
	[ "$("$bootseer" env ls "$STORE")" = '' ]
}

@test "a smoke test that does not end has failed" {
	mkfifo hang
	env_run a -q -- sh -c 'echo x >"$W/site/x"'
	run --separate-stderr env_run b --verify 'read line <"$W/hang"' \
		--verify-timeout 1s -- sh -c 'echo x >"$W/site/x"'
	[ "$status" = 0 ]
	[[ $stderr == *'--verify command does not end (so it is for all until '*'): the command is run' ]]
	[ "$(cat b/x)" = x ]
}

# Its index, and what says that it was used, are as old as this says.
made() # WHEN
{
	touch -d "$1" "$(echo store/env/index/*)"
	[ ! -d store/env/used ] || find store/env/used -type f -exec touch -d "$1" {} +
}

@test "a snapshot expires by --ttl, but not one that is pinned" {
	local key

	set -- -q --ttl 1d -- sh -c 'echo ran >>"$W/ran"; echo x >"$W/site/x"'
	env_run a "$@"
	key=$("$bootseer" env ls "$STORE" | cut -d' ' -f1)
	made '3 hours ago'
	env_run b "$@"
	[ "$(wc -l <ran)" = 1 ]
	made '3 days ago'
	"$bootseer" env pin "$STORE" "$key" | grep -q pinned
	env_run c "$@"
	[ "$(wc -l <ran)" = 1 ]
	"$bootseer" env unpin "$STORE" "$key"
	env_run d "$@"
	[ "$(wc -l <ran)" = 2 ]
	# There is a new one in its place.
	env_run e "$@"
	[ "$(wc -l <ran)" = 2 ]
	same d e
}

@test "what was not used for long is collected, and what no index leads to" {
	local old kept new n

	for n in 1 2 3; do
		env_run "a$n" -q --key "V=$n" -- sh -c 'head -c 300000 /dev/urandom >"$W/site/x"'
	done
	[ "$("$bootseer" env ls "$STORE" | wc -l)" = 3 ]
	find store/env/index -type f -exec touch -d '5 days ago' {} +
	new=$(find store/env/index -type f -printf '%f\n' | sort | head -n 1)
	kept=$(find store/env/index -type f -printf '%f\n' | sort | tail -n 1)
	touch -d '1 hour ago' "store/env/index/$new"
	"$bootseer" env pin "$STORE" "$kept"
	old=store/env/data/$new/0123456789abcdef0123456789abcdef
	mkdir "$old"
	echo left >"$old/blob"
	touch -d '3 days ago' "$old/blob"
	echo fresh >"$old/fresh"
	run "$bootseer" env gc -n --older 2d "$STORE"
	[[ ${lines[0]} =~ ^[0-9a-f]{12}' would be removed: not used for as long as --older says; last used '2 ]]
	[ "${lines[1]}" = '1 snapshot stays: used more recently than --older' ]
	[ "${lines[2]}" = "1 snapshot stays: pinned, until 'bootseer env unpin'" ]
	# The file "fresh", and the pack of what would be removed.
	[[ ${lines[3]} == '2 objects, '*' stay: of no snapshot, but younger than two days: '* ]]
	[[ ${lines[-1]} == 'would be removed: 1 snapshot and 1 leftover object, '*'; the snapshots that stay have '* ]]
	run -0 --separate-stderr "$bootseer" env gc -n --json --older 2d "$STORE"
	[ "$(jq -c '[.snapshots[].why] | sort' <<<"$output")" = '["pinned","unused","used"]' ]
	[ "$(jq -r '.snapshots[] | select(.why == "pinned") | .key, .removed' <<<"$output")" = "$kept"$'\nfalse' ]
	[ "$(jq -c '[.dry_run, .leftovers, .young.objects]' <<<"$output")" = '[true,1,2]' ]
	[ "$("$bootseer" env ls "$STORE" | wc -l)" = 3 ]
	"$bootseer" env gc --older 2d "$STORE"
	[ "$("$bootseer" env ls "$STORE" | wc -l)" = 2 ]
	[ ! -e "$old/blob" ]
	[ -e "$old/fresh" ]
	"$bootseer" env verify "$STORE"
	# By space: the pinned one stays.
	run -0 "$bootseer" env gc --keep-bytes 100K "$STORE"
	[[ ${lines[0]} == *' removed: used longest ago, and all have more than --keep-bytes; last used '* ]]
	[ "$(find store/env/index -type f -printf '%f\n')" = "$kept" ]
	[ "$(find "store/env/data/$kept" -type f | wc -l)" -ge 4 ]
	# A store that takes no object more: it cannot say what time it is.
	"$bootseer" env unpin "$STORE" "$kept"
	mkdir full
	touch store/.bootseer/lock/{{0..9},{a..f}}{{0..9},{a..f}}
	unshare --mount sh -c 'mount -t tmpfs -o nr_inodes=400 none full && cp -a store/. full/ &&
		n=0 && while true 2>/dev/null >"full/$n"; do n=$((n + 1)); done
		"$0" env gc --older 2d "file://$PWD/full" && ls full/env/index' "$bootseer" \
		>out 2>err || { cat err; return 1; }
	grep -q "this node's clock is used" err
	grep -q '^removed: 1 snapshot and ' out
	! grep -qx "$kept" out
}

@test "every node ends with the right tree, whoever is killed and whatever is cut" {
	export HOME=$W no_proxy='*' AWS_EC2_METADATA_DISABLED=true
	s3_server "$W/s3"
	mkdir drill
	run python3 "$BATS_TEST_DIRNAME/env-drill.py" "$bootseer" "$W/drill" \
		's3://bkt/env?endpoint=http://@PROXY@' "$AT" --nodes 6 --runs 4 --at-once 2 \
		--seed 223 \
		--registry "$BOOTSEER_BUILD/registry/bootseer-registry" \
		--bootseerd "$BOOTSEER_BUILD/snapshotter/node/bootseerd"
	echo "$output"
	[ "$status" = 0 ]
	[[ ${lines[-1]} == '4 runs of 6 nodes: all trees are right' ]]
	[[ $output == *mounted* ]]
}

@test "environments are taken elsewhere in a folder, every byte checked" {
	mkdir out 'odd %20#?' store2
	make_command
	env_run a -q -- sh "$W/setup.sh" x
	"$bootseer" env export "$STORE" 'odd %20#?' | grep -q copied
	mv 'odd %20#?' moved
	STORE=file://$W/store2
	"$bootseer" env import "$STORE" moved | grep -q copied
	"$bootseer" env import "$STORE" moved | grep -q 'is there'
	run --separate-stderr env_run b -- sh "$W/setup.sh" x
	[[ $stderr == *restored* ]]
	same a b
	# A copy that is not what it was is none.
	printf '\377\376' | dd of="$(find moved/env/packs -type f -size +1M)" bs=1 \
		seek=1000000 conv=notrunc status=none
	"$bootseer" env rm "$STORE" "$(basename store2/env/index/*)"
	find store2/env/packs -type f -delete
	run -1 "$bootseer" env import "$STORE" moved
	[[ $output == *damaged* ]]
	[ "$("$bootseer" env ls "$STORE")" = '' ]
	run -1 "$bootseer" env export "file://$W/store" nowhere
	[[ $output == *'make it'* ]]
}

@test "what is wrong on the command line is said, and nothing is run" {
	run -2 "$bootseer" env run --target "$W/site" -- touch "$W/ran"
	[[ $output == *--store* ]]
	run -2 "$bootseer" env run --store "$STORE" --target "$W/site" --key x -- touch "$W/ran"
	[[ $output == *NAME=VALUE* ]]
	run -2 "$bootseer" env run --store "$W/store" --target "$W/site" -- touch "$W/ran"
	[ ! -e ran ]
	run -2 "$bootseer" env run --store "$STORE" --target "$W/site" --key-file none -- \
		touch "$W/ran"
	[[ $output == *"--key-file 'none': No such file"* ]]
	run -2 "$bootseer" env run --store "$STORE?nothing=1" --target "$W/site" -- \
		touch "$W/ran"
	[[ $output == *nothing* ]]
	run -2 "$bootseer" env run --store 's3://bucket/env?endpiont=http://127.0.0.1:9' \
		--target "$W/site" -- touch "$W/ran"
	[ ! -e ran ]
	# A key that cannot be computed is no reason not to run.
	mkdir folder
	run -0 "$bootseer" env run --store "$STORE" --target "$W/site" --key-file folder -- \
		touch "$W/ran"
	[[ $output == *"folder"*'the command is run' ]]
	[ -e ran ]
}
