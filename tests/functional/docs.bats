#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What the documents say is true: their commands run, manuals and completions
# are well-formed, the sample configurations are accepted.

bats_require_minimum_version 1.5.0

setup_file()
{
	TOP=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	export TOP
	W=$(mktemp -d)
	export W bench_cache=${BOOTSEER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bootseer}
	export PATH=$BOOTSEER_BUILD/cli:$BOOTSEER_BUILD/ckpt-fuse/mount:$BOOTSEER_BUILD/snapshotter:$BOOTSEER_BUILD/snapshotter/node:$BOOTSEER_BUILD/containerd-plugin:$BOOTSEER_BUILD/registry:$BOOTSEER_BUILD/profiler/follow:$BOOTSEER_BUILD/csi:$PATH
	export MANPATH=$BOOTSEER_BUILD/docs
}

teardown_file()
{
	rm -rf --one-file-system "$W"
}

# The lines of the ```sh blocks of a document, one command a line.
commands_of()
{
	awk '/^```sh$/ { on = 1; next } /^```/ { on = 0 } on' "$1"
}

pids=()

# Registry, converted image and bootseerd, as a reader of the README has them.
start_stage()
{
	# shellcheck disable=SC1091
	. "$TOP/bench/lib/services.sh"
	bench_dir=$TOP/bench
	die() { echo "$*" >&2; return 1; }
	need() { command -v "$@" >/dev/null; }
	defer() { pids+=("$2"); }
	program() { command -v "$1"; }
	start_registry "$W/registry"
	layout=$("$TOP/bench/images/build" busybox)
	push_image "$layout:latest" app:1
	start_bootseerd "$W/node" --plain-http "$REGISTRY"
	export REGISTRY CONFIG=$TOP/deploy DIR=$W/mnt TRACE=$W/start.trace \
		BOOTSEER_SOCKET=$BOOTSEERD_SOCKET
	export STORE=file://$W/store MODEL=$W/model.pt
	export SITE=$W/site WHEEL=$W/demo-1.0-py3-none-any.whl PIP_NO_INDEX=1
	export OUT=$W/out JOBS=$TOP/tests/fuzz/corpus/sacct/real
	# What mounts that read together meet by.
	export PLACE=127.0.0.1:29600 GROUP_KEY=$W/group.key
	mkdir "$W/store" "$W/site" "$OUT"
	python3 "$BATS_TEST_DIRNAME/make-wheel.py" "$W" demo 1.0
	bootseer env run -q --store "$STORE" --target "$W/env" -- \
		sh -c 'mkdir "$0"' "$W/env"
	KEY=$(bootseer env ls "$STORE" | cut -d' ' -f1)
	export KEY
	head -c 9000000 /dev/urandom >"$MODEL"
	image=$(skopeo inspect --raw --tls-verify=false \
		"docker://$REGISTRY/app:1" | sha256sum | cut -d' ' -f1)
	"$BATS_TEST_DIRNAME/make-trace" "sha256:$image" train 1767225600 \
		>"$TRACE"
	mkdir -p "$DIR"
	make_jobs
}

# docs/jobs.md's own file, and one that has all that this test has.
make_jobs()
{
	JOB=$W/job.toml HOSTJOB=$W/hostjob.toml
	export JOB HOSTJOB
	awk '/^```toml$/ { on = 1; next } /^```/ { on = 0 } on' \
		"$TOP/docs/jobs.md" >"$JOB"
	printf 'command = ["true"]\n[environment]\nstore = "%s"\ncommand = "%s"\ntargets = ["%s"]\n' \
		"$STORE" "pip install --target $W/jobsite $WHEEL" "$W/jobsite" >"$HOSTJOB"
}

# bootseerd leaves its mounts to a successor; here there is none.
teardown()
{
	[ ${#pids[@]} -gt 0 ] || return 0
	for pid in "${pids[@]}"; do
		stop_daemon "$pid"
	done
	findmnt -rno TARGET | awk -v w="$W/" 'index($0, w) == 1' | sort -r |
		xargs -r -n1 umount -l
}

@test "every command of the README and the documents runs" {
	start_stage
	for doc in "$TOP/README.md" "$TOP"/docs/*.md; do
		while read -r line; do
			echo "$doc: $line"
			bash -euc "$line" </dev/null
		done < <(commands_of "$doc")
	done
}

@test "every manual has its sections and every program a manual" {
	for page in bootseer.1 bootseerd.8 bootseer-snapshotter.8 \
		bootseer-registry.8 bootseer-ckpt.8 bootseer-events.8 bootseer-csi.8; do
		for section in NAME SYNOPSIS DESCRIPTION 'EXIT STATUS' 'SEE ALSO'; do
			grep -q "^.SH $section" "$BOOTSEER_BUILD/docs/$page"
		done
	done
}

@test "help fits a terminal, goes to stdout, and errors go to stderr" {
	for program in bootseer bootseerd bootseer-ckpt bootseer-snapshotter \
		bootseer-registry bootseer-events bootseer-csi; do
		run --separate-stderr "$program" --help
		[ "$status" -eq 0 ]
		[ -n "$output" ]
		[ -z "$stderr" ]
		run -1 grep -E '.{81}' <<<"$output"
		run --separate-stderr "$program" --no-such-option
		[ "$status" -eq 2 ]
		[ -z "$output" ]
		[[ $stderr == *no-such-option* ]]
	done
}

@test "a command line that is wrong by itself is told by status 2" {
	image=docker://reg.example/app:1
	while read -r words; do
		eval "run --separate-stderr bootseer $words"
		echo "$words: $status: $stderr"
		[ "$status" -eq 2 ]
		[ -z "$output" ]
		[ -n "$stderr" ]
	done <<-EOF
		image convert --auth-file $W/none $image $image
		image convert --platform all --form flat $image $image
		image convert --form none $image $image
		image convert $image docker://reg.example/app@sha256:$(printf '%064d' 1)
		image convert a b c
		image convert $image 'docker://no image'
		image inspect --ca-file $W/none $image
		image check docker://
		image mount Reg/App:1 /mnt
		image prefetch --hot --stop $image
		image record --ready-line '(' $image
		image record --ready-file relative $image
		image record --mount nonsense $image
		image ready --user me --start 7
		job run
		job run <(echo 'nmae = "a"') -- true
		job run <(echo 'name = "a"')
		job run <(echo 'checkpoint.a.dir = "/a"') -- true
		node gc
		node gc --cache much
		trace ls
		trace ls --local --service http://127.0.0.1:1 $image
		trace pull --service http://127.0.0.1:1 --token-file $W/none $image
		trace push --local $image
		trace rm $image
		trace merge
		stage begin a/b
		stage end --attempt second a
		stage run a --
		stage send --node a/b --service http://127.0.0.1:1 -
		start ls --service http://127.0.0.1:1 a~b
		start show 1
		start compare --service http://127.0.0.1:1 a~b 1
		start watch --service http://127.0.0.1:1 --interval 1ms 1
		start checkpoints --limit 0 --service http://127.0.0.1:1 1
		start export --format xml 1
		ckpt cp relative a :b
		ckpt cp file:///tmp a b
		ckpt rm file:///tmp :
		ckpt gc --older much file:///tmp
	EOF
	run --separate-stderr -2 bootseer image convert --auth-file "$W/none" \
		"$image" "$image"
	[[ $stderr == *"'--auth-file': '$W/none' is not there: "* ]]
}

@test "./dev help tells of every command that ./dev takes" {
	"$TOP/dev" help >"$W/dev-help"
	sed -n 's/^cmd_\([a-z]*\)()$/\1/p' "$TOP/dev" | sort >"$W/dev-has"
	sed -n 's/^  \([a-z]\+\)\( .*\)\?$/\1/p' "$W/dev-help" | sort |
		diff "$W/dev-has" -
	[ "$(wc -l <"$W/dev-has")" -gt 10 ]
	run -1 "$TOP/dev" conformity
	[[ $output == *"no command 'conformity'"* ]]
	run -2 "$TOP/tests/conformance/build" cosine
	[[ $output == *containerd-1.7* ]]
}

@test "a group of commands has help too" {
	bootseer image --help | grep -q '^  image convert  *Store an image'
	bootseer -h | grep -q '^  node status  *Show images'
	bootseer image --help >"$W/image-help"
	run -1 grep 'node status' "$W/image-help"
	# Each command has its line, and each line fits.
	bootseer --help | sed '1,/^Commands:/d; /^$/,$d' >"$W/commands"
	[ "$(wc -l <"$W/commands")" -ge 20 ]
	while read -r group command brief; do
		[ -n "$brief" ]
		bootseer "$group" "$command" --help >/dev/null
	done <"$W/commands"
	run -2 bootseer image
	[[ $output == *"'bootseer image --help'"* ]]
	run -2 bootseer image convrt
	[ "${#lines[@]}" -eq 1 ]
	[[ $output == *'image convrt'*"'bootseer image --help'"* ]]
	run -2 bootseer nonsense --help
}

# Below $dest, each test for itself: files are away for a moment when they are installed
# again. Two at once from one build trip over each other.
install_there()
{
	dest=$BATS_TEST_TMPDIR/dest
	DESTDIR=$dest flock "$BOOTSEER_BUILD/build.ninja" meson install \
		--no-rebuild -C "$BOOTSEER_BUILD" >/dev/null
}

@test "the units name the programs and configurations that are installed" {
	install_there
	units=("$dest"/*/lib/systemd/system/*.service
		"$dest"/*/*/lib/systemd/system/*.service)
	n=0
	for unit in "${units[@]}"; do
		[ -f "$unit" ] || continue
		read -r program _ < <(sed -n 's/^ExecStart=//p' "$unit")
		[ -x "$dest$program" ]
		# The timer starts it, and its mounts are the node's.
		if [[ $unit == */bootseer-doctor.service ]]; then
			run ! grep -E '^(Private|Protect|ReadOnly|Inaccessible)' "$unit"
			continue
		fi
		sed '/^\[Service\]/,$d' "$unit" | grep -qx StartLimitIntervalSec=0
		if [[ $unit == *bootseer-ckpt@.service ]]; then
			grep -q '^Restart=on-failure' "$unit"
			n=$((n + 1))
			continue
		fi
		if [[ $unit != *bootseer-convert.service ]]; then
			config=$(sed -n 's/^ExecStart=.* --config //p' "$unit")
			[ -f "$dest$config" ]
		fi
		# systemd is not to give up, and with that drop the mounts.
		grep -q '^Restart=always' "$unit"
		n=$((n + 1))
	done
	[ "$n" -eq 7 ]
	echo '# mine' >>"$dest$config"
	install_there
	grep -q '# mine' "$dest$config"
}

@test "the shells accept the completions" {
	install_there
	share=$(dirname "$(find "$dest" -type d -name bash-completion)")
	for program in bootseer bootseerd bootseer-ckpt bootseer-snapshotter \
		bootseer-registry bootseer-events bootseer-csi; do
		bash -n "$share/bash-completion/completions/$program.bash"
		zsh -n "$share/zsh/site-functions/_$program"
		fish -n "$share/fish/vendor_completions.d/$program.fish"
	done
}

# What a shell offers, and what is wanted.
offers() # GOT WANT
{
	[ "$1" = "$2" ] || { echo "$1, not $2"; return 1; }
}

@test "bash, zsh and fish complete daemons and commands" {
	for case in 'bootseerd --dat|--datapath' 'bootseer-registry --listen|--listen' \
		'bootseer-snapshotter --check|--check-config' \
		'bootseer-ckpt --reada|--readahead' 'bootseer ckpt umo|umount' \
		'bootseer image insp|inspect' \
		'bootseer image convert --jo|--jobs'; do
		line=${case%|*} want=${case#*|} name=${line%% *}
		offers "$(bash -c '. "$1"; read -ra COMP_WORDS <<<"$2"
			COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); "_$3"
			echo "${COMPREPLY[*]}"' - \
			"$BOOTSEER_BUILD/docs/$name.bash" "$line" "$name")" "$want"
		# A compadd that shows which of its words begin as is typed.
		offers "$(zsh -fc 'compadd() { shift; print -l -- ${(M)@:#$words[CURRENT]*} }
			_files() { :; }
			words=(${=2}) CURRENT=$#words
			. "$1"' - "$BOOTSEER_BUILD/docs/_$name" "$line")" "$want"
		offers "$(fish -Nc 'source $argv[1]
			complete -C "$argv[2]" | string split -f1 \t |
				string match -- "$argv[3]"' \
			"$BOOTSEER_BUILD/docs/$name.fish" "$line" "$want")" "$want"
	done
}

@test "links in the documents lead somewhere" {
	cd "$TOP"
	for doc in *.md docs/*.md; do
		while read -r target; do
			[[ $target == http* ]] && continue
			[ -e "$(dirname "$doc")/${target%%#*}" ] ||
				{ echo "$doc: $target"; return 1; }
		done < <(grep -oE '\]\([^)]+\)' "$doc" | sed 's/^](//; s/)$//')
	done
}
