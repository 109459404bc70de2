#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What `bootseer node doctor` says of containerd's configuration: with Debian's
# containerd, with a fake that prints what containerd 2.3.4 was seen to print, and
# without any.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/node.bash"

setup() {
	T=$(mktemp -d /var/tmp/doctor.XXXXXX)
	pids=()
	export BOOTSEER_SOCKET=$T/none.sock
}

teardown() { node_teardown; }

# doctor FILE: bootseerd does not run, so the command fails whatever it says of
# containerd.
doctor() {
	run -1 env PATH="${SEEN:-$PATH}" "$bootseer" node doctor --containerd "$1"
}

plugin() {
	printf '%s\n' '[proxy_plugins.bootseer]' '  type = "snapshot"' \
		"  address = \"$T/plugin.sock\""
}

# section NAME: CRI's part, as docs/containerd.md has it.
section() {
	printf '%s\n' "[plugins.$1]" '  snapshotter = "bootseer"' \
		'  disable_snapshot_annotations = false'
}

CRI1='"io.containerd.grpc.v1.cri".containerd'
CRI2='"io.containerd.cri.v1.images"'

@test "the containerd of the machine is asked, imports and all" {
	mkdir "$T/conf.d"
	{
		echo 'version = 2'
		echo "imports = [\"$T/conf.d/*.toml\"]"
	} >"$T/c.toml"
	doctor "$T/c.toml"
	grep -q "^advice *containerd proxy plugin *$T/c.toml does not name it$" \
		<<<"$output"
	grep -q '^advice *containerd CRI snapshotter ' <<<"$output"
	{ echo 'version = 2'; plugin; } >"$T/conf.d/a.toml"
	{ echo 'version = 2'; section "$CRI1"; } >"$T/conf.d/b.toml"
	doctor "$T/c.toml"
	grep -q "^ok *containerd proxy plugin *$T/c.toml names it$" <<<"$output"
	grep -q '^ok *containerd CRI snapshotter ' <<<"$output"
	grep -q '^ok *containerd image labels ' <<<"$output"
	# What a later file says counts, as it does for containerd.
	printf '%s\n' 'version = 2' "[plugins.$CRI1]" \
		'snapshotter = "overlayfs"' >"$T/conf.d/c.toml"
	doctor "$T/c.toml"
	grep -q '^advice *containerd CRI snapshotter ' <<<"$output"
	run ! grep -q 'another version' <<<"$output"
}

@test "layers that are deleted once they are unpacked are told before the change" {
	{
		echo 'version = 2'
		plugin
		echo "[plugins.$CRI1]"
		echo '  discard_unpacked_layers = true'
	} >"$T/c.toml"
	doctor "$T/c.toml"
	grep -q '^advice *containerd layers *deleted once' <<<"$output"
	grep -q 'cure: *bootseer node fetch' <<<"$output"
	{
		echo 'version = 2'
		plugin
		section "$CRI1"
		echo '  discard_unpacked_layers = true'
	} >"$T/c.toml"
	doctor "$T/c.toml"
	grep -q '^ok *containerd layers ' <<<"$output"
}

@test "a section that containerd 1.x does not read is told" {
	{ echo 'version = 2'; plugin; section "$CRI2"; } >"$T/c.toml"
	doctor "$T/c.toml"
	grep -q '^advice *containerd CRI snapshotter .*section of another version' \
		<<<"$output"
	grep -qF "below [plugins.$CRI1]" <<<"$output"
}

@test "an error of TOML is told by its line" {
	printf '%s\n' 'version = 2' 'a = = 3' >"$T/c.toml"
	doctor "$T/c.toml"
	grep -q "^advice *containerd configuration *$T/c.toml: .*(2, 5)" \
		<<<"$output"
	grep -q 'cure: *mend it' <<<"$output"
	run ! grep -q 'does not name it' <<<"$output"
}

@test "CRI that is turned off is told" {
	{
		echo 'version = 2'
		echo 'disabled_plugins = ["io.containerd.grpc.v1.cri"]'
		plugin
	} >"$T/c.toml"
	doctor "$T/c.toml"
	grep -q '^advice *containerd CRI .*turned off' <<<"$output"
	grep -q 'cure: .*disabled_plugins' <<<"$output"
}

# fake_2x: a containerd that prints of its configuration what 2.3.4 does, with the
# lines of its log before it.
fake_2x() {
	mkdir -p "$T/bin"
	cat >"$T/bin/containerd" <<-'END'
		#!/bin/bash
		[ "$*" = "--config $2 config dump" ] || exit 64
		if grep -q '= =' "$2"; then
			echo 'time="2026-11-23T00:37:02Z" level=error msg="Failure unmarshaling TOML" column=5 error="toml: incomplete number" file=bad.toml row=2' >&2
			echo 'containerd: failed to unmarshal TOML at row 2 column 5: toml: incomplete number' >&2
			exit 1
		fi
		snapshotter=overlayfs quiet=true
		if grep -q '^version = 3' "$2" && grep -q 'cri.v1.images' "$2"; then
			snapshotter=bootseer quiet=false
		fi
		echo 'time="2026-11-23T00:37:02Z" level=warning msg="Configuration migrated from version 3, use `containerd config migrate` to avoid migration" t="7.581µs"' >&2
		cat <<EOF
		version = 4
		disabled_plugins = []
		imports = ['/etc/containerd/conf.d/*.toml']

		[plugins]
		  [plugins.'io.containerd.cri.v1.images']
		    snapshotter = '$snapshotter'
		    disable_snapshot_annotations = $quiet

		    [plugins.'io.containerd.cri.v1.runtime'.containerd]
		      default_runtime_name = 'runc'

		      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes]
		        [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
		          snapshotter = ''

		  [plugins.'io.containerd.grpc.v1.cri']
		    disable_tcp_service = true

		[proxy_plugins]
		  [proxy_plugins.bootseer]
		    type = 'snapshot'
		    address = '/nowhere/plugin.sock'

		    [proxy_plugins.bootseer.exports]
		      address = '/nowhere/other.sock'
		EOF
	END
	chmod +x "$T/bin/containerd"
	PATH=$T/bin:$PATH
}

@test "with containerd 2.x, a 1.x section is told, not taken" {
	fake_2x
	for version in 2 3; do
		{ echo "version = $version"; plugin; section "$CRI1"; } \
			>"$T/c.toml"
		doctor "$T/c.toml"
		grep -q '^ok *containerd proxy plugin ' <<<"$output"
		grep -q '^advice *containerd CRI snapshotter .*section of another' \
			<<<"$output"
		grep -qF "below [plugins.$CRI2], in a file of version = 3" \
			<<<"$output"
		grep -q '^advice *containerd image labels' <<<"$output"
	done
	{ echo 'version = 3'; plugin; section "$CRI2"; } >"$T/c.toml"
	doctor "$T/c.toml"
	grep -q '^ok *containerd CRI snapshotter ' <<<"$output"
	grep -q '^ok *containerd image labels' <<<"$output"
	grep -q 'nobody answers at /nowhere/plugin.sock' <<<"$output"
	grep -q '^advice *containerd user namespaces .*copied whole' <<<"$output"
	run ! grep -q 'containerd unpacking' <<<"$output"
	sed -i "s|^ *type = 'snapshot'|&\n    capabilities = ['remap-ids', 'rebase']|" \
		"$T/bin/containerd"
	doctor "$T/c.toml"
	grep -q '^ok *containerd user namespaces ' <<<"$output"
	grep -q '^advice *containerd unpacking .*whiteouts' <<<"$output"
	printf '%s\n' 'version = 3' 'a = = 3' >"$T/c.toml"
	doctor "$T/c.toml"
	grep -q "$T/c.toml: failed to unmarshal TOML at row 2 column 5" \
		<<<"$output"
}

differ() { # LIST [ADDRESS]
	[ ! "${2:-}" ] || printf '%s\n' '[proxy_plugins.bootseer-diff]' '  type = "diff"' "  address = \"$2\""
	printf '%s\n' '[plugins."io.containerd.service.v1.diff-service"]' "  default = $1"
}

# unpacks STATUS WORDS CONFIGURATION...
unpacks() {
	{ echo 'version = 3'; plugin; "${@:3}"; } >"$T/c.toml"
	doctor "$T/c.toml"
	grep -q "^$1 *layer unpacking .*$2" <<<"$output"
}

@test "who unpacks layers is told, and when nobody does" {
	mkdir "$T/bin"
	SEEN=$T/bin
	unpacks ok 'by containerd itself (bootseer node join' true
	unpacks ok 'by containerd itself (bootseer node join' differ '["walking"]'
	unpacks missing 'unpacks nothing: .* no \[proxy_plugins.bootseer-diff\]' \
		differ '["bootseer-diff", "walking"]'
	unpacks missing "unpacks nothing: nobody answers at $T/diff.sock" \
		differ '["walking", "bootseer-diff"]' "$T/diff.sock"
	python3 -c 'import signal, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
signal.pause()' "$T/diff.sock" 3>&- &
	pids+=($!)
	wait_for test -S "$T/diff.sock"
	unpacks advice 'does not ask .* first' differ '["walking", "bootseer-diff"]' "$T/diff.sock"
	unpacks advice 'does not ask .* first' differ '["walking"]' "$T/diff.sock"
	unpacks ok 'by containerd itself, as bootseerd does not answer' \
		differ '["bootseer-diff", "walking"]' "$T/diff.sock"
}

@test "without containerd the lines of the files count, by their version" {
	mkdir "$T/bin" "$T/conf.d"
	SEEN=$T/bin
	for case in "1 cri.containerd" "2 $CRI1" "3 $CRI2"; do
		for version in 1 2 3; do
			{
				echo "version = $version"
				section "${case#* }"
			} >"$T/c.toml"
			doctor "$T/c.toml"
			if [ "$version" = "${case%% *}" ]; then
				[[ $output == *'Kubernetes pods use it'* ]]
			else
				[[ $output == *'section of another version'* ]]
			fi
		done
	done
	{
		echo 'version = 3'
		echo "imports = [\"$T/conf.d/*.toml\"]"
	} >"$T/c.toml"
	{ plugin; section "$CRI2"; } >"$T/conf.d/a.toml"
	doctor "$T/c.toml"
	[[ $output == *'names it (by its lines: there is no containerd here'* ]]
	[[ $output == *'Kubernetes pods use it'* ]]
}

# run_as_containerd FILE COMMAND...: a process of that name, which is to have the
# configuration FILE; COMMAND runs the program that follows.
run_as_containerd() {
	local file=$1

	shift
	"$@" "$T/wait.py" --config "$file" 3>&- &
	pids+=($!)
	wait_for grep -qsx containerd "/proc/$!/comm"
}

have_programs() {
	{ echo 'version = 2'; plugin; section "$CRI1"; } >"$T/c.toml"
	chmod 755 "$T"
	mkdir "$T/bin" "$T/setuid"
	cp "$(readlink -f /usr/bin/python3)" "$T/bin/containerd"
	cp "$T/bin/containerd" "$T/setuid/containerd"
	chmod 4755 "$T/setuid/containerd"
	echo 'import signal; signal.pause()' >"$T/wait.py"
}

AS_USER=(setpriv --reuid 65534 --clear-groups)

@test "nobody else's program is run because it is called containerd" {
	local as

	have_programs
	for as in user mounts setuid root; do
		case $as in
		root) set -- "$T/bin/containerd" ;;
		user) set -- "${AS_USER[@]}" "$T/bin/containerd" ;;
		mounts) set -- unshare --mount "$T/bin/containerd" ;;
		setuid) set -- "${AS_USER[@]}" "$T/setuid/containerd" ;;
		esac
		cp "$T/c.toml" "$T/$as.toml"
		run_as_containerd "$T/$as.toml" "$@"
	done
	run -1 "$bootseer" node doctor
	for as in user mounts setuid; do
		grep -q "$T/$as.toml names it (by its lines" <<<"$output"
	done
	# That it is run shows by what it says to these options.
	grep -q "^advice *containerd configuration *$T/root.toml: " <<<"$output"
}

@test "no user's configuration of a containerd holds the doctor up" {
	have_programs
	# Others are looked at before the one that is called last.
	mkfifo -m 666 "$T/fifo.toml"
	ln -s /dev/zero "$T/device.toml"
	run_as_containerd "$T/fifo.toml" "${AS_USER[@]}" "$T/bin/containerd"
	run_as_containerd "$T/device.toml" "${AS_USER[@]}" "$T/bin/containerd"
	cp "$T/c.toml" "$T/last.toml"
	run_as_containerd "$T/last.toml" "${AS_USER[@]}" "$T/bin/containerd"
	run -1 timeout 120 "$bootseer" node doctor
	grep -q "$T/last.toml names it (by its lines" <<<"$output"
	grep -q "fifo.toml' is no file of at most" <<<"$output"
	grep -q "device.toml' is no file of at most" <<<"$output"
}

@test "a socket that takes nobody in does not hold the doctor up" {
	have_programs
	python3 - "$T/plugin.sock" 3>&- <<-'END' &
		import signal, socket, sys
		s = socket.socket(socket.AF_UNIX)
		s.bind(sys.argv[1])
		s.listen(0)
		first = socket.socket(socket.AF_UNIX)
		first.connect(sys.argv[1])
		open(sys.argv[1] + ".full", "w").close()
		signal.pause()
	END
	pids+=($!)
	wait_for test -e "$T/plugin.sock.full"
	run_as_containerd "$T/c.toml" "${AS_USER[@]}" "$T/bin/containerd"
	run -1 timeout 120 "$bootseer" node doctor
	grep -q "^ok *bootseer-snapshotter *answers at $T/plugin.sock" <<<"$output"
}

# The configuration that docs/containerd.md has for a version.
documented() { # VERSION
	awk -v want="## containerd $1" 'index($0, "## ") == 1 {
		on = index($0, want) == 1 } on && /^```/ { n++ }
		on && n == 1 && !/^```/' \
		"$BATS_TEST_DIRNAME/../../docs/containerd.md"
}

@test "what docs/containerd.md says is in order, for 1.6 and 2.x" {
	documented 1.6 >"$T/c.toml"
	doctor "$T/c.toml"
	[ "$(grep -c '^ok *containerd ' <<<"$output")" = 3 ]
	mkdir "$T/bin"
	SEEN=$T/bin
	documented 2.x >"$T/c.toml"
	doctor "$T/c.toml"
	[ "$(grep -c '^ok *containerd ' <<<"$output")" = 4 ]
	# The list replaces containerd's own, which has overlayfs.
	awk '/^\[/ { on = /unpack_config/ } on && /snapshotter/ { print $3 }' \
		"$T/c.toml" >"$T/unpacked"
	printf '"%s"\n' overlayfs bootseer | diff - "$T/unpacked"
}
