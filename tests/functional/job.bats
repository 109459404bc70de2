#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# `bootseer job run`: a job's file, its parts at once, its program as if run directly; with
# a real containerd where the file names an image.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../containerd/lib.bash"
export PATH=$BOOTSEER_BUILD/ckpt-fuse/mount:$PATH

setup_file() {
	make_images "$BATS_FILE_TMPDIR" >/dev/null
	"$bootseer" key new "$BATS_FILE_TMPDIR/key" >/dev/null
}

# Without containerd, of which only some tests have one.
setup() {
	T=$BATS_TEST_TMPDIR I=$BATS_FILE_TMPDIR pids=()
	cd "$T"
	mkdir store env ckpt vartmp
	unset BOOTSEER_JOB BOOTSEER_SERVICE BOOTSEER_RANK RANK
	export BOOTSEER_SOCKET=$T/none
}
teardown() {
	exec 7>&-
	cd /
	containerd_teardown
}

start_all() { # [OPTION OF BOOTSEERD...]
	containerd_setup
	start_node "$@"
	start_plugin
	start_containerd
	push "$I" lazy
	convert_image lazy --sign "$I/key"
	gets_before=$(layer_gets "$I" lazy)
}

job() { "$bootseer" job run "$@" 3>&-; }

is_ended() { [[ ! -e /proc/$1 || $(<"/proc/$1/stat") == *") Z "* ]]; } # PID of a child

# The next line of descriptor 5, in `line`, while the process that writes it lives.
read_unless_ended() { # PID
	# A read that ended in time would have taken the beginning of a line that comes just then.
	has_line_or_ended() { { read -r -t 0 <&5 && read -r -t 300 line <&5; } || is_ended "$1"; }
	line=
	wait_for has_line_or_ended "$1"
}

# A file of a job with checkpoints, and what else is said on standard input.
ckpt_job() { # [LINE OF THE TABLE...]
	cat
	printf '[checkpoint.load]\nstore = "file://%s/store"\ndir = "%s/ckpt"\n' "$T" "$T"
	printf 'options = ["--run=%s/run"]\n' "$T"
	printf '%s\n' "$@"
}

host_job() {
	cat <<-END
	[image]
	reference = "$REGISTRY/lazy:1"
	plain-http = true
	END
}

# A set-up of one file, and the program's mark.
env_job() {
	cat <<-END
	[environment]
	store = "file://$T/env"
	command = "mkdir -p $T/site; echo v >$T/site/v"
	targets = ["$T/site"]
	[stages]
	ready-file = "$T/ready"
	END
}

no_mounts() { ! grep -q " $T/ckpt " /proc/self/mountinfo; }

# --- as if run directly ----------------------------------------------------------------

@test "the program ends as it does by itself, and has our input and output" {
	echo 'command = ["/bin/sh", "-c", "cat; echo err >&2; exit 7"]' >a.toml
	run -7 --separate-stderr job a.toml <<<hello
	[ "$output" = hello ]
	[ "$stderr" = err ]
	run -0 job a.toml -- echo other
	[ "$output" = other ]
	run -143 job a.toml -- sh -c 'kill -TERM $$'
}

@test "signals go to the program" {
	echo >a.toml
	mkfifo said
	"$bootseer" job run a.toml -- \
		sh -c 'trap "exit 9" USR1; echo ready; read -r x' \
		<> <(:) >said 3>&- &
	read -r line <said
	[ "$line" = ready ]
	kill -USR1 $!
	status=0; wait $! || status=$?
	[ "$status" -eq 9 ]
}

# --- parts ------------------------------------------------------------------------------

@test "environment and checkpoint are there before the program, and gone after it" {
	head -c 9000000 /dev/urandom >model
	"$bootseer" ckpt cp "file://$T/store" model :step/model
	ckpt_job 'read-only = true' 'prefetch = ["step/model"]' >a.toml <<-END
	[environment]
	store = "file://$T/env"
	command = "echo ran >>$T/ran; mkdir -p $T/site; echo v >$T/site/v"
	targets = ["$T/site"]
	END
	run -0 --separate-stderr job a.toml -- sh -c "cat site/v; cmp model ckpt/step/model"
	[ "$output" = v ]
	no_mounts
	rm -rf site
	run -0 --separate-stderr job a.toml -- cat site/v
	[ "$output" = v ]
	[[ $stderr == *restored* ]]
	[ "$(wc -l <ran)" -eq 1 ]
}

@test "what the program saves is in the store when it has ended" {
	ckpt_job >a.toml </dev/null
	job a.toml -- sh -c "echo saved >ckpt/out"
	no_mounts
	run -0 "$bootseer" ckpt cp "file://$T/store" :out got
	[ "$(<got)" = saved ]
}

# And has its pages mapped.
keeps_mapped() { # PID FILE
	awk -v file="$2" '/^[0-9a-f]+-/ { is = $NF == file } is && $1 == "Rss:" { kb += $2 }
		END { exit !kb }' "/proc/$1/smaps"
}

@test "files that are read ahead stay mapped until the job ends, and no longer" {
	mkdir step
	echo weights >step/model
	mkfifo go
	exec 7<>go
	sh -c 'read -r x <go' 3>&- 7>&- &
	pid=$!
	"$bootseer" --job-read "$pid" 0 "$T/none" "$T/step" 3>&- 7>&- &
	reader=$!
	wait_for keeps_mapped "$reader" "$T/step/model"
	echo >&7
	wait "$pid"
	wait "$reader"
}

waits_for_its_container() { # PID
	[[ $(readlink "/proc/$1/fd/"*) == *pidfd* && $(<"/proc/$1/stat") == *") S "* ]]
}

@test "files are read ahead when the container is there" {
	mkdir step
	echo weights >step/model
	mkfifo go
	exec 7<>go
	"$bootseer" --job-read $$ 7 "$T/step" 3>&- &
	reader=$!
	pids+=("$reader")
	wait_for waits_for_its_container "$reader"
	run ! keeps_mapped "$reader" "$T/step/model"
	echo >&7
	wait_for keeps_mapped "$reader" "$T/step/model"
}

@test "nothing is read ahead for a job that ended before its container was there" {
	mkdir step
	truncate -s 1M step/model
	mkfifo go job
	exec 7<>go 8<>job
	sh -c 'read -r x <job' 3>&- 7>&- 8>&- &
	job=$!
	"$bootseer" --job-read "$job" 7 "$T/step" 3>&- 8>&- &
	reader=$!
	pids+=("$reader")
	wait_for waits_for_its_container "$reader"
	echo >&8
	wait "$job"
	wait "$reader"
	[ "$(fincore -nb -o RES step/model)" -eq 0 ]
}

@test "a checkpoint that is mounted already is read ahead, and stays" {
	mkdir -p volume/rank3
	echo weights >volume/rank3/model
	cat >a.toml <<-END
	[checkpoint.load]
	dir = "$T/volume"
	prefetch = ["rank{rank}/model"]
	END
	mkfifo go
	exec 7<>go
	BOOTSEER_RANK=3 "$bootseer" job run a.toml -- sh -c 'read -r x <go' 3>&- 7>&- &
	job=$!
	is_read_ahead() {
		reader=$(pgrep -f -- "[-]-job-read $job 0 $T/volume/rank3/model") &&
			keeps_mapped "$reader" "$T/volume/rank3/model"
	}
	wait_for is_read_ahead
	echo >&7
	wait "$job"
	[ "$(<volume/rank3/model)" = weights ]
	run ! pgrep -f -- "[-]-job-read [0-9]+ 0 $T/volume"
	run -0 job --dry-run a.toml -- true
	[[ $output == *"mounted already, and stays"* ]]
	rm -r volume
	run -125 job a.toml -- true
	[[ $output == *"volume': No such file or directory; without a 'store'"* ]]
	sed -i '/prefetch/d' a.toml
	run ! job a.toml -- true
	[[ $output == *"checkpoint.load: a 'store' to mount, or what to 'prefetch'"* ]]
}

# Its first process, whose FIFO nobody has open: "job run" was killed before it began.
@test "a program of a container ends when nobody can signal it any more" {
	mkfifo signals
	run -137 "$bootseer" --job-init . tail -f /dev/null 3>&-
}

# --- where a part fails -----------------------------------------------------------------

# A node without FUSE for checkpoints.
no_mount() {
	mkdir bin
	printf '#!/bin/sh\necho "no /dev/fuse here" >&2; exit 1\n' >bin/bootseer-ckpt
	chmod +x bin/bootseer-ckpt
	export PATH=$T/bin:$PATH
}

@test "what cannot be mounted to be read is copied, and the program told of nothing" {
	head -c 5000000 /dev/urandom >model
	"$bootseer" ckpt cp "file://$T/store" model :step/3/model
	no_mount
	ckpt_job 'read-only = true' 'prefetch = ["step/{rank}/model"]' >a.toml </dev/null
	SLURM_NODEID=3 run -0 --separate-stderr job a.toml -- cmp model ckpt/step/3/model
	[[ $stderr == *"the files are copied"* ]]
	run -125 --separate-stderr job a.toml -- touch began
	[[ $stderr == *step/0/model* ]]
	[ ! -e began ]
	sed -i '1i stop-on-failure = true' a.toml
	SLURM_NODEID=3 run -125 job a.toml -- touch began
	[ ! -e began ]
}

@test "a program that would save where nothing is kept is not run" {
	no_mount
	ckpt_job 'prefetch = ["a"]' >a.toml </dev/null
	run -125 --separate-stderr job a.toml -- touch began
	[[ $stderr == *"no /dev/fuse here"*"the program is not run"* ]]
	[ ! -e began ]
}

@test "a set-up that fails ends the job as it ended" {
	printf '[environment]\nstore = "file://%s/none"\ncommand = "exit 4"\ntargets = ["%s/s"]\n' \
		"$T" "$T" >a.toml
	run -4 job a.toml -- touch began
	[ ! -e began ]
}

@test "a signal before the program ends what was begun" {
	mkfifo said
	ckpt_job >a.toml <<-END
	[environment]
	store = "file://$T/env"
	command = "echo begun >$T/said; read -r x <$T/said"
	targets = ["$T/site"]
	END
	"$bootseer" job run a.toml -- touch began 3>&- &
	read -r line <said
	kill -TERM $!
	status=0; wait $! || status=$?
	[ "$status" -eq 143 ]
	[ ! -e began ]
	no_mounts
}

# Processes that a job has begun, and what those have, by their variable.
nothing_is_begun() { ! grep -qzsx "KILLED_JOB=$T" /proc/[0-9]*/environ; }

@test "what a job has begun ends when it is killed" {
	mkdir bin
	mkfifo said
	exec 5<>said
	printf '#!/bin/sh\n[ "$1" != --version ] || exec %s "$@"\n%s\n' "$(command -v bootseer-ckpt)" \
		"echo mounts >$T/said; exec tail -f /dev/null" >bin/bootseer-ckpt
	printf '#!/bin/sh\ncase "$*" in *pull*) echo pulls >%s; tail -f /dev/null ;; %s\n' "$T/said" \
		'*) echo ctr v2.0.0 ;; esac' >bin/ctr
	chmod +x bin/*
	for part in 'environment' 'image'; do
		if [ "$part" = image ]; then
			printf '[image]\nreference = "example.com/a:1"\n'
		else
			printf '[environment]\nstore = "file://%s/env"\ntargets = ["%s/site"]\n' "$T" "$T"
			printf 'command = "echo sets up >%s; tail -f /dev/null"\n' "$T/said"
		fi | ckpt_job >a.toml
		KILLED_JOB=$T PATH=$T/bin:$PATH "$bootseer" job run a.toml -- true 3>&- 5>&- &
		pid=$! pids+=($!)
		read -r -t 300 line <&5
		read -r -t 300 line <&5
		kill -KILL "$pid"
		wait_for nothing_is_begun
		no_mounts
	done
}

@test "a hangup that nohup ignores ends neither what is begun nor the program" {
	mkfifo said go
	# Both ways, so that no open waits for a program that has ended.
	exec 5<>said 6<>go
	cat >a.toml <<-END
	[environment]
	store = "file://$T/env"
	command = "echo begun >$T/said; read -r x <$T/go"
	targets = ["$T/site"]
	END
	(trap '' HUP; exec "$bootseer" job run a.toml -- \
		sh -c "echo ran >$T/said; read -r x <$T/go; exit 3") 3>&- 5>&- 6>&- &
	pid=$! pids+=($!)
	read -r -t 300 line <&5
	kill -HUP "$pid"
	echo >&6
	read_unless_ended "$pid"
	[ "$line" = ran ]
	kill -HUP "$pid"
	echo >&6
	wait_for is_ended "$pid"
	status=0; wait "$pid" || status=$?
	[ "$status" -eq 3 ]
}

@test "a mount that is ended between its mount and its word leaves nothing" {
	local real

	real=$(command -v bootseer-ckpt)
	mkdir bin
	mkfifo said
	cat >bin/bootseer-ckpt <<-END
	#!/bin/sh
	[ "\$1" != --version ] || exec $real "\$@"
	$real "\$@" >/dev/null &
	until grep -q " $T/ckpt " /proc/self/mountinfo; do :; done
	echo mounted >$T/said
	wait
	END
	chmod +x bin/bootseer-ckpt
	ckpt_job >a.toml </dev/null
	PATH=$T/bin:$PATH "$bootseer" job run a.toml -- touch began 3>&- &
	pid=$!
	read -r line <said
	kill -TERM "$pid"
	status=0; wait "$pid" || status=$?
	[ "$status" -eq 143 ]
	[ ! -e began ]
	no_mounts
}

@test "a mount that another job was first to make stays" {
	local real=$PATH

	mkdir bin
	cat >bin/bootseer-ckpt <<-END
	#!/bin/sh
	[ "\$1" != --version ] || exec env PATH=$real bootseer-ckpt "\$@"
	PATH=$real $bootseer ckpt mount file://$T/store $T/ckpt
	echo "another was first" >&2
	exit 1
	END
	chmod +x bin/bootseer-ckpt
	ckpt_job >a.toml </dev/null
	PATH=$T/bin:$PATH run -125 --separate-stderr job a.toml -- touch began
	[ ! -e began ]
	grep -q " $T/ckpt " /proc/self/mountinfo
	"$bootseer" ckpt umount "$T/ckpt"
	no_mounts
}

# A ctr whose image is there, and which waits for the test before it says so.
slow_ctr() {
	mkdir bin
	mkfifo listing go
	cat >bin/ctr <<-END
	#!/bin/sh
	case "\$*" in
	"images ls") echo >$T/listing; read -r x <$T/go ;;
	run*) touch $T/began ;;
	*) echo ctr v2.0.0 ;;
	esac
	END
	chmod +x bin/ctr
	export PATH=$T/bin:$PATH
}

@test "a signal when the parts are ready, and the program is not, leaves nothing" {
	slow_ctr
	ckpt_job >a.toml <<-END
	[image]
	reference = "example.com/a:1"
	env = ["JOB_OF=$T"]
	END
	"$bootseer" job run a.toml -- true 3>&- &
	read -r line <listing
	grep -q " $T/ckpt " /proc/self/mountinfo
	kill -TERM $!
	echo >go
	status=0; wait $! || status=$?
	[ "$status" -eq 143 ]
	[ ! -e began ]
	no_mounts
	! grep -qs "JOB_OF=$T\$" /run/bootseer-job.*/env
}

@test "a variable of several lines is refused by its name" {
	slow_ctr
	rm listing go
	touch go
	printf '[image]\nreference = "example.com/a:1"\nenv = ["PEM"]\n' >a.toml
	PEM=$'a\nLD_PRELOAD=/b' run -125 --separate-stderr job a.toml -- true
	[[ $stderr == *"image.env: 'PEM' has more than one line"* ]]
	[[ $stderr != *LD_PRELOAD* ]]
	[ ! -e began ]
}

# A ctr whose container is a process of this machine: COMMAND of a shell, which has its folder as
# $dir.
ctr_without_containerd() { # COMMAND
	mkdir bin
	cat >bin/ctr <<-END
	#!/bin/sh
	case "\$*" in
	run*)
		dir=\$(echo "\$*" | sed -n 's|.*src=\(/run/bootseer-job[^/,]*\)/in,.*|\1|p')
		echo \$\$ >\$dir/pid
		$1 ;;
	"images ls") ;;
	*) echo ctr v2.0.0 ;;
	esac
	END
	chmod +x bin/ctr
	printf '[image]\nreference = "example.com/a:1"\n' >a.toml
}

@test "a container is told of no signal that a job in the background has ignored from its start" {
	mkfifo said go
	exec 5<>said 6<>go
	ctr_without_containerd "exec $bootseer --job-init \$dir/in \
		sh -c 'echo ready >$T/said; read -r x <$T/go; exit 3'"
	(trap '' INT; PATH=$T/bin:$PATH exec "$bootseer" job run a.toml -- true) 3>&- 5>&- 6>&- &
	pid=$! pids+=($!)
	read_unless_ended "$pid"
	[ "$line" = ready ]
	kill -INT "$pid"
	echo >&6
	wait_for is_ended "$pid"
	status=0; wait "$pid" || status=$?
	[ "$status" -eq 3 ]
}

@test "a line that is typed for a shell does not stop a job in its background" {
	mkfifo up
	ctr_without_containerd "echo >$T/up; read -r x; echo ended >$T/ended"
	PATH=$T/bin:$PATH timeout 300 python3 - "$bootseer" 3>&- <<-'END'
	import os, pty, sys
	shell, terminal = pty.fork()
	if shell == 0:
	    job = os.fork()
	    if job == 0:
	        os.setpgid(0, 0)
	        log = os.open("log", os.O_CREAT | os.O_WRONLY)
	        os.dup2(log, 1), os.dup2(log, 2)
	        os.execv(sys.argv[1], [sys.argv[1], "job", "run", "a.toml", "--", "true"])
	    status = os.waitpid(job, os.WUNTRACED)[1]
	    if os.WIFSTOPPED(status):
	        os.killpg(job, 9)
	    os._exit(status != 0)
	open("up").read()
	os.write(terminal, b"ls\n")
	sys.exit(os.waitpid(shell, 0)[1] != 0)
	END
	[ -e ended ]
}

# Children of PID that have ended and whose numbers nobody else can have.
ended_of() { # PID COUNT
	local child n=0

	for child in $(<"/proc/$1/task/$1/children"); do
		! grep -qs '^State:.Z' "/proc/$child/status" || n=$((n + 1))
	done
	[ "$n" -eq "$2" ]
}

@test "helpers that have ended keep their numbers until they are signalled" {
	env_job >a.toml
	mkfifo said go stop
	"$bootseer" job run a.toml -- \
		sh -c "echo begun >said; read -r x <go; touch ready; read -r x <stop" 3>&- &
	pid=$! # wait_for has processes, too
	read -r line <said
	ended_of "$pid" 1 # the set-up, whose group is killed at the end
	echo >go
	wait_for ended_of "$pid" 2 # and that which looked for the file
	echo >stop
	wait "$pid"
}

# --- stages -----------------------------------------------------------------------------

@test "stages are told without a line of the user's" {
	env_job | ckpt_job >a.toml
	mkfifo said
	BOOTSEER_EVENTS=$T/none BOOTSEER_JOB=j1 "$bootseer" job run a.toml -- \
		sh -c "touch $T/ready; read -r x <said" 2>log 3>&- &
	pid=$!
	wait_for grep -q 'stage=train' log
	echo go >said
	wait "$pid"
	for want in "stage=env ev=begin" "stage=env.install ev=end" "stage=env ev=end" \
		"stage=ckpt.mount ev=end" "stage=train ev=mark"; do
		grep "$want" log | grep -q job=j1
	done
}

# --- containers -------------------------------------------------------------------------

@test "a container starts lazily, and ends as its program does" {
	start_all
	host_job >a.toml
	run -5 --separate-stderr job a.toml -- /bin/sh -c \
		'cat /srv/one/deep/file; echo err >&2; exit 5'
	[ "$output" = one ]
	[ "$(grep -v ' waiting for ' <<<"$stderr")" = err ] # which it says of what takes 2 s
	[ "$(layer_gets "$I" lazy)" -eq "$gets_before" ]
	[ -z "$(ctr containers ls -q)" ]
	run -0 job a.toml -- cat /srv/one/deep/file <<<x
}

@test "a container has its environment by bootseerd, and the checkpoint" {
	start_all --env-store "file://$T/env"
	echo weights >model
	"$bootseer" ckpt cp "file://$T/store" model :step/model
	{
		host_job
		cat <<-END
		mounts = ["$T/env:$T/env", "$T/vartmp:/var/tmp"]
		[environment]
		store = "file://$T/env"
		command = "echo ran >>$T/env/ran; echo v >/opt/site/v"
		targets = ["/opt/site"]
		END
	} | ckpt_job 'read-only = true' 'prefetch = ["step/"]' >a.toml
	for did in captured mounted; do
		run -0 --separate-stderr job a.toml -- cat /opt/site/v "$T/ckpt/step/model"
		[ "$output" = "v
weights" ]
		echo "$stderr"
		[[ $stderr == *"$did"* ]]
	done
	[ "$(wc -l <env/ran)" -eq 1 ]
	no_mounts
}

# Containerd's clients, which pull when the test says so.
held_pull() {
	local program

	mkdir bin
	mkfifo go
	exec 7<>go # the end of a test ends who waits
	for program in ctr ctr-remote; do
		cat >"bin/$program" <<-END
		#!/bin/sh
		case "\$*" in "images pull"* | "images rpull"*) read -r x <$T/go ;; esac
		PATH=${PATH@Q} exec $program "\$@"
		END
	done
	chmod +x bin/*
}

env_is_here() {
	"$bootseer" node status --json | jq -e \
		'[.images[] | select(.prefetch.phase == "done")] | length > 0' >/dev/null
}

@test "the environment that a job had last is fetched while the image loads" {
	start_all --env-store "file://$T/env"
	{
		host_job
		cat <<-END
		mounts = ["$T/env:$T/env", "$T/vartmp:/var/tmp"]
		[environment]
		store = "file://$T/env"
		command = "echo v >/opt/site/v; head -c 3000000 /dev/urandom >/opt/site/w"
		targets = ["/opt/site"]
		[stages]
		END
	} >a.toml
	export BOOTSEER_EVENTS=$T/none
	job a.toml -- cat /opt/site/w >was
	held_pull
	PATH=$T/bin:$PATH job a.toml -- cat /opt/site/w >is 2>log 7>&- &
	pid=$!
	pids+=("$pid")
	wait_for env_is_here
	grep -q 'stage=image.pull ev=begin' log
	run ! grep -q 'stage=image.pull ev=end' log
	wait_for grep -q 'stage=env.prefetch ev=end' log
	echo go >&7
	wait "$pid"
	cmp was is
	grep -q 'mounted' log
}

# Containerd's client, which runs a container when the test says so.
held_run() {
	mkdir bin
	mkfifo go
	exec 7<>go # the end of a test ends who waits
	cat >bin/ctr <<-END
	#!/bin/sh
	case "\$*" in run*) echo held >$T/said; read -r x <$T/go ;; esac
	PATH=${PATH@Q} exec ctr "\$@"
	END
	chmod +x bin/ctr
}

begin_job() { # COMMAND...: with an input that has no end, its output in said
	"$bootseer" job run a.toml -- "$@" <> <(:) >said 3>&- 5>&- 7>&- &
	pid=$!
	pids+=("$pid")
}

expect_said() { # LINE, by descriptor 5, once only
	read -r -t 300 line <&5
	[ "$line" = "$1" ]
}

expect_end() { # STATUS
	local status=0

	wait "$pid" || status=$?
	[ "$status" -eq "$1" ]
	[ -z "$(ctr containers ls -q)" ]
}

no_task_runs() { ! ctr tasks ls | grep -q RUNNING; }

@test "a container is told of a signal at each moment, and leaves nothing" {
	start_all
	host_job >a.toml
	mkfifo said
	exec 5<>said
	held_run
	# Before containerd knows of it.
	PATH=$T/bin:$PATH begin_job /bin/sh -c 'read -r x'
	expect_said held
	kill -TERM "$pid"
	echo go >&7
	expect_end 143
	# In the program, which takes it, or does not.
	begin_job /bin/sh -c 'trap "echo told; exit 9" USR1; echo ready; read -r x; read -r x'
	expect_said ready
	kill -USR1 "$pid"
	expect_said told
	expect_end 9
	begin_job /bin/sh -c 'echo ready; read -r x'
	expect_said ready
	kill -TERM "$pid"
	expect_end 143
	# While the environment is set up.
	mkfifo env/said env/never
	exec 6<>env/said
	cat >>a.toml <<-END
	mounts = ["$T/env:$T/env", "$T/vartmp:/var/tmp"]
	[environment]
	store = "file://$T/env"
	command = "echo begun >$T/env/said; read -r x <$T/env/never"
	targets = ["/opt/site"]
	END
	begin_job touch "$T/env/began"
	read -r -t 300 line <&6
	kill -TERM "$pid"
	expect_end 143
	[ ! -e env/began ]
	# Nobody can pass a signal on any more.
	sed -i "s|^command = .*|command = 'echo v >/opt/site/v'|" a.toml
	KILLED_JOB=$T begin_job /bin/sh -c 'echo ready; read -r x'
	expect_said ready
	folder=$(find "/proc/$pid/fd" -lname '/run/bootseer-job.*' -printf '%l\n' -quit)
	[ -S "${folder%/in/*}/env-socket/pod/env.sock" ]
	kill -KILL "$pid"
	wait_for no_task_runs
	wait_for nothing_is_begun
	[ ! -e "${folder%/in/*}/env-socket/pod/env.sock" ]
	# The next job takes away its folder, and what containerd knows of it.
	host_job >a.toml
	run -0 --separate-stderr job a.toml -- true
	[ ! -e "$folder" ]
	no_containers() { [ -z "$(ctr containers ls -q)" ]; }
	wait_for no_containers # a job of another test may have found the folder first
}

# Containerd ends, and its client with it; the container has said a line before.
stop_containerd_below() { # COMMAND OF A SHELL
	begin_job /bin/sh -c "echo ready; $1"
	expect_said ready
	stop_daemon "$containerd_pid"
	wait_for has_lost_containerd
}
has_lost_containerd() { grep -q 'the container goes on' log; }

@test "a container goes on while containerd is started again" {
	start_all
	host_job >a.toml
	mkfifo said env/go
	exec 5<>said 6<>env/go
	sed -i "s|^\[image\]|&\nmounts = [\"$T/env:$T/env\"]|" a.toml
	# Its end comes when containerd is there again.
	stop_containerd_below "read -r x <$T/env/go; echo more; exit 7" 2>log
	start_containerd
	echo >&6
	expect_said more
	expect_end 7
	# Nobody but the program knows how it ended, and a signal comes by no client.
	stop_containerd_below "trap 'echo told; exit 9' USR1; while :; do read -r x <$T/env/go; done" 2>log
	kill -USR1 "$pid"
	expect_said told
	start_containerd
	expect_end 9
	# It is killed.
	stop_containerd_below "read -r x <$T/env/go" 2>log
	folder=$(find "/proc/$pid/fd" -lname '/run/bootseer-job.*' -printf '%l\n' -quit)
	kill -KILL "$(<"${folder%%/in/*}/pid")"
	start_containerd
	expect_end 137
}

@test "an image that cannot be had lazily runs the ordinary way" {
	start_all
	stop_daemon "$plugin_pid"
	host_job >a.toml
	run -3 --separate-stderr job a.toml -- /bin/sh -c 'cat /srv/one/deep/file; exit 3'
	[ "$output" = one ]
	[[ $stderr == *"the image is pulled the ordinary way"* ]]
	# What was pulled once runs without its registry.
	stop_daemon "${pids[0]}"
	run -0 --separate-stderr job a.toml -- cat /srv/one/deep/file
	[ "$output" = one ]
}
