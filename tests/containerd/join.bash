# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# `bootseer node join` and `node leave` with a real containerd that knows nothing of the
# plugin yet. For tests of every version of containerd.
#
#	setup_file() { make_images "$BATS_FILE_TMPDIR"; }
#	setup() { join_setup; }
#	teardown() { join_teardown; }

containerd_answers() { timeout 5 ctr version &>/dev/null; }

restarted() { containerd_pid=$(cat "$T/ctd/pid"); }

# What a service manager does; it can be told to have no containerd come back.
make_restart() {
	cat >"$T/restart" <<-END
	#!/bin/bash
	echo restart >>"$T/restarts"
	if [ -e "$T/ctd/pid" ]; then
		kill "\$(cat "$T/ctd/pid")"
		tail --pid="\$(cat "$T/ctd/pid")" -f /dev/null
	fi
	if [ -e "$T/broken" ] && [ -e "$T/ctd/conf.d/bootseer.toml" ]; then exit 0; fi
	setsid containerd --config "$T/ctd/config.toml" >>"$T/ctd/log" 2>&1 </dev/null &
	echo \$! >"$T/ctd/pid"
	END
	chmod +x "$T/restart"
}

# containerd as an administrator has it: its own settings, nothing of ours.
join_setup() {
	local v=2 cri=grpc.v1.cri sandbox=sandbox_image

	containerd_setup
	if containerd --version | grep -q ' v\?2\.'; then
		v=3 cri=cri.v1.runtime
		sandbox='[plugins."io.containerd.cri.v1.images".registry]
			config_path = ""
			[plugins."io.containerd.cri.v1.images".pinned_images]
			sandbox'
	fi
	mkdir -p "$T/ctd"
	cat >"$T/ctd/config.toml" <<-END
	version = $v
	root = "$T/ctd/root"
	state = "$T/ctd/state"
	[grpc]
	  address = "$T/ctd/containerd.sock"
	[ttrpc]
	  address = "$T/ctd/containerd.ttrpc"
	[plugins."io.containerd.$cri"]
	  restrict_oom_score_adj = true # for a root without CAP_SYS_RESOURCE
	  $sandbox = "$REGISTRY/pause:1"
	END
	cp "$T/ctd/config.toml" "$T/was.toml"
	export CONTAINERD_ADDRESS=$T/ctd/containerd.sock
	make_restart
	"$T/restart" 3>&- 4>&-
	restarted
	wait_until "$containerd_pid" containerd_answers
	containerd --config "$T/ctd/config.toml" config dump >"$T/dump.was" 2>/dev/null
	start_fake_node
	start_plugin
	push "$I" plain
	push "$I" lazy
	push "$I" pause
	fake_lazy "$I" lazy
	rm "$T/restarts"
}

join_teardown() {
	[[ ! ${T:-} ]] || {
		containerd_pid=$(cat "$T/ctd/pid" || :)
		pids+=("$containerd_pid")
		containerd_teardown
	}
}

node_() { # join|leave [OPTION...]
	"$bootseer" node "$1" --containerd "$T/ctd/config.toml" \
		--socket "$CONTAINERD_ADDRESS" --restart "$T/restart" \
		--address "$T/plugin.sock" --root "$T/plugin" "${@:2}" 3>&- 4>&-
}

restarts() { wc -l <"$T/restarts" 2>/dev/null || echo 0; }

same_as_before() {
	diff "$T/was.toml" "$T/ctd/config.toml"
	[[ ! -e $T/ctd/conf.d ]]
	containerd --config "$T/ctd/config.toml" config dump 2>/dev/null |
		diff "$T/dump.was" -
}

# doctor_ ok|advice: what it says of the drop-in; only containerd 1.x has the row.
doctor_() {
	BOOTSEER_SOCKET=$T/node.sock "$bootseer" node doctor \
		--containerd "$T/ctd/config.toml" >"$T/doctor" || :
	grep -q "^$1 *containerd drop-in " "$T/doctor"
}

# An operator's file that comes after ours is not in force, and doctor says so until the node
# has joined again.  A node that leaves leaves it there.
a_later_file_is_told_of() {
	run -0 node_ join
	doctor_ ok
	touch "$T/ctd/config.toml"
	doctor_ advice
	run -0 node_ join
	doctor_ ok
	later=$T/ctd/conf.d/99-later$'\e'.toml
	printf 'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\n  max_container_log_line_size = 77\n' \
		>"$later"
	touch -d yesterday "$later"
	doctor_ advice
	run ! grep $'\e' "$T/doctor"
	# The file stays in force when ours goes, and so does the line that imports it.
	run -0 node_ leave --no-fetch
	containerd --config "$T/ctd/config.toml" config dump 2>/dev/null |
		grep -q 'max_container_log_line_size = 77'
	rm "$later"
	run -0 node_ leave --no-fetch
	same_as_before
}

# The last leave restarts containerd once more where it has a handler to take away first.
joins_and_leaves() { # RESTARTS
	cri pull "$REGISTRY/plain:1"
	run -0 node_ join
	[ "$(restarts)" -eq 1 ]
	# What an administrator set is what it was; a second time nothing is done.
	containerd --config "$T/ctd/config.toml" config dump 2>/dev/null |
		grep "$REGISTRY/pause:1"
	run -0 node_ join
	[ "$(restarts)" -eq 1 ]
	# The image from before runs, and a new one lazily.
	[ "$(cri run "$REGISTRY/plain:1" old /bin/sh -c 'echo old')" = old ]
	cri stop
	cri pull "$REGISTRY/lazy:1"
	[ "$(layer_gets "$I" lazy)" -eq 0 ]
	[ "$(cri run "$REGISTRY/lazy:1" new /bin/sh -c 'cat /srv/one/deep/link')" = one ]
	# Its pod is there still: the plugin stays for it, and new pods do not use it.
	run -3 node_ leave --no-fetch
	[[ $output == *'go on with the plugin'* ]]
	[ "$(restarts)" -eq 2 ]
	cri stop
	run -0 node_ leave --no-fetch
	[ "$(restarts)" -eq "$1" ]
	same_as_before
	[ "$(cri run "$REGISTRY/plain:1" after /bin/sh -c 'echo after')" = after ]
	cri stop
}

# What the removal of the chart does, or a disk that is lost.
lose_the_plugin() {
	stop_daemon "$plugin_pid"
	rm -rf "$T/plugin" "$T/plugin.sock"
	start_plugin
}

run_lazy_and_plain() { # NAME
	[ "$(cri run "$REGISTRY/lazy:1" "$1-lazy" /bin/sh -c 'cat /srv/one/deep/link')" = one ]
	cri stop
	[ "$(cri run "$REGISTRY/plain:1" "$1-plain" /bin/sh -c 'cat /srv/own/file')" = own ]
	cri stop
}

# containerd must not answer for snapshots that went with the plugin.
comes_back_after_leaving() {
	run -0 node_ join
	cri pull "$REGISTRY/lazy:1"
	cri pull "$REGISTRY/plain:1"
	run_lazy_and_plain first
	run -0 node_ leave --no-fetch
	lose_the_plugin
	run -0 node_ join
	[[ $output != *'were lost'* ]]
	cri pull "$REGISTRY/lazy:1"
	[ "$(layer_gets "$I" lazy)" -eq 0 ]
	run_lazy_and_plain second
}

# Nobody left: images are usable without another pull, from layers that join fetched.
finds_snapshots_that_were_lost() {
	run -0 node_ join
	cri pull "$REGISTRY/lazy:1"
	cri pull "$REGISTRY/plain:1"
	run_lazy_and_plain first
	[ "$(layer_gets "$I" lazy)" -eq 0 ]
	start_mirror
	lose_the_plugin
	run -0 node_ join
	[[ $output == *'3 images whose snapshots were lost are unpacked again'* ]]
	[ "$(layer_gets "$I" lazy)" -gt 0 ]
	run_lazy_and_plain second
	run -0 node_ join
	[[ $output != *'were lost'* ]]
}

# Of a pod that goes on, and of another program that holds a snapshot.
names_snapshots_that_stay() {
	local top

	run -0 node_ join
	cri pull "$REGISTRY/lazy:1"
	[ "$(cri run "$REGISTRY/lazy:1" pod /bin/echo there)" = there ]
	run -3 node_ leave --no-fetch
	[[ $output == *'2 containers and pods go on with the plugin (k8s.io/'*', k8s.io/'*'): run this again'* ]]
	cri stop
	top=$(chain_ids_of "$I" lazy | tail -n 1)
	ctr -n k8s.io snapshots --snapshotter bootseer label "$top" containerd.io/gc.root=held
	run -0 node_ leave --no-fetch
	[[ $output == *'containerd keeps 3 snapshots of the plugin ('*"k8s.io/$top"*'): remove'* ]]
}

# do_at WORDS COMMAND...: a ctr that runs the command once, before what has these words.
do_at() {
	mkdir -p "$T/path"
	cat >"$T/path/ctr" <<-END
	#!/bin/bash
	PATH=\${PATH#*:}
	if [[ "\$*" == *'$1'* ]] && mkdir "$T/done" 2>/dev/null; then
		${*:2} >"$T/path/out" 2>&1
	fi
	exec ctr "\$@"
	END
	chmod +x "$T/path/ctr"
	rm -rf "$T/done"
}

cri_words() { echo /usr/bin/python3 "$lib_dir/cri.py" "$CONTAINERD_ADDRESS" "$@"; }

# One that came before containerd's restart is found afterwards; later ones do not use the plugin.
a_pod_that_starts_while_a_node_leaves_goes_on() { # [HANDLER]
	export CRI_HANDLER=${1:-}
	run -0 node_ join
	cri pull "$REGISTRY/lazy:1"
	do_at 'snapshots --snapshotter' "ls $T/ctd/conf.d"
	PATH=$T/path:$PATH run -3 node_ leave --no-fetch --restart "mkdir $T/late && $(cri_words run \
		"$REGISTRY/lazy:1" late /bin/echo there) >$T/late/out; $T/restart"
	# Until then nothing was changed.
	[ "$(cat "$T/path/out")" = bootseer.toml ]
	[ "$(cat "$T/late/out")" = there ]
	[[ $output == *'2 containers and pods go on with the plugin (k8s.io/'* ]]
	[ "$(exec_when_ready)" = there ]
	cri stop
	unset CRI_HANDLER
	cri pull "$REGISTRY/plain:1"
	do_at 'content label' "$(cri_words run "$REGISTRY/plain:1" later /bin/echo there)"
	PATH=$T/path:$PATH run -0 node_ leave --no-fetch
	[ "$(cat "$T/path/out")" = there ]
	same_as_before
	[ "$(exec_when_ready)" = there ]
	cri stop
}

# A pull that ends between two looks at containerd has lost nothing.
a_pull_during_join_is_not_lost() {
	run -0 node_ join
	cri pull "$REGISTRY/plain:1"
	do_at 'content ls' "$(cri_words pull "$REGISTRY/lazy:1")"
	PATH=$T/path:$PATH run -0 node_ join
	[ -d "$T/done" ]
	[[ $output != *'were lost'* ]]
}

# Files are put back, but no records of snapshots.
a_failed_leave_says_what_is_forgotten() {
	run -0 node_ join
	cri pull "$REGISTRY/lazy:1"
	run -1 node_ leave --no-fetch --restart "mkdir $T/once && $T/restart"
	[[ $output == *'remove images that started lazily (crictl rmi), so that they are pulled again'* ]]
	[ -e "$T/ctd/conf.d/bootseer.toml" ]
}

# By then containerd has been restarted with a file by which no pod starts on the plugin.
a_leave_that_fails_after_its_restart_is_undone() { # [HANDLER]
	run -0 node_ join
	printf '%s\n[debug]\n  level = "warn"\n' "$(grep '^version' "$T/was.toml")" >"$T/later.toml"
	run -1 node_ leave --no-fetch --restart "$T/restart && cp $T/later.toml $T/ctd/conf.d"
	[[ $output == *'undone, all is as it was'* ]]
	[ "$(restarts)" -eq 3 ]
	restarted
	export CRI_HANDLER=${1:-}
	wait_until "$containerd_pid" cri_answers
	cri pull "$REGISTRY/lazy:1"
	[ "$(layer_gets "$I" lazy)" -eq 0 ]
	[ "$(cri run "$REGISTRY/lazy:1" pod /bin/echo there)" = there ]
	cri stop
}

# $PPID of a restart command, and of containerd where it prints its configuration, is node join's.
a_leave_that_is_killed_is_gone_on_with() {
	run -0 node_ join
	cri pull "$REGISTRY/lazy:1"
	run -137 node_ leave --no-fetch --restart 'kill -9 $PPID'
	[ "$(restarts)" -eq 1 ]
	# By then no pod may start on the plugin, and containerd does not know that.
	run -0 node_ leave --no-fetch
	[ "$(restarts)" -eq 3 ]
	same_as_before
	[ -z "$(ls -A "$T/ctd" | grep pending)" ]
}

a_join_that_is_killed_leaves_its_file_there() {
	local real

	real=$(command -v containerd)
	run -0 node_ join
	cp "$T/ctd/conf.d/bootseer.toml" "$T/dropin.was"
	mkdir -p "$T/path"
	printf '#!/bin/sh\n[ "$*" = "${*%%dump}" ] || kill -9 $PPID\nexec %s "$@"\n' "$real" \
		>"$T/path/containerd"
	chmod +x "$T/path/containerd"
	PATH=$T/path:$PATH run -137 node_ join
	cmp "$T/dropin.was" "$T/ctd/conf.d/bootseer.toml"
	run -0 node_ join
	[ "$(restarts)" -eq 1 ]
}

# 1.7 answers before its CRI does.
cri_answers() { cri images &>/dev/null; }
exec_when_ready() {
	restarted
	wait_until "$containerd_pid" cri_answers
	cri exec /bin/echo there
}

# A pod of the runtime handler goes on while every pod comes to start lazily, and while the
# node leaves: containerd refuses to exec in a pod whose handler it does not have.
a_pod_of_the_handler_goes_on() {
	run -0 node_ join --pods runtime
	export CRI_HANDLER=bootseer
	cri pull "$REGISTRY/lazy:1"
	[ "$(layer_gets "$I" lazy)" -eq 0 ]
	[ "$(cri run "$REGISTRY/lazy:1" pod /bin/sh -c 'cat /srv/one/deep/link')" = one ]
	run -0 node_ join --pods all
	[ "$(restarts)" -eq 2 ]
	[ "$(exec_when_ready)" = there ]
	run -3 node_ leave --no-fetch
	[ "$(restarts)" -eq 3 ]
	[ "$(exec_when_ready)" = there ]
	run -3 node_ leave --no-fetch
	[ "$(restarts)" -eq 3 ]
	cri stop
	run -0 node_ leave --no-fetch
	restarted
	same_as_before
}

a_containerd_that_does_not_come_back_is_as_it_was() {
	touch "$T/broken"
	run -1 node_ join --answer-timeout 2s
	[[ $output == *'undone, all is as it was'* ]]
	same_as_before
	containerd_answers
	rm "$T/broken"
}

# bootseerd with a mirror, beside the fake that the plugin asks.
start_mirror() {
	start_daemon "$T/mirror.log" "$bootseerd" --root "$T/mirror" \
		--run "$T/mirror.run" --plain-http "$REGISTRY" --record off \
		--mirror 127.0.0.1:0
	wait_until "$daemon_pid" grep -q '^info main: ready' "$T/mirror.log"
	export BOOTSEER_SOCKET=$T/mirror.run/bootseerd.sock
}

# names_mirror NAME...: these folders of containerd's config_path do, and no other.
names_mirror() {
	diff <(cd "$T/ctd/certs.d" && grep -l x-bootseer-mirror -- */hosts.toml) \
		<(printf '%s/hosts.toml\n' "$@")
}

doctor_says() { # ok|advice NAME
	"$bootseer" node doctor --containerd "$T/ctd/config.toml" \
		>"$T/doctor" 2>&1 || :
	grep -q "^$1 *$2 " "$T/doctor"
}

# Files of registries that the operator wrote stay, whether the node joins, cannot join, joins
# again without the mirror, or leaves.
joins_with_a_mirror() {
	local own=${REGISTRY/:/_}_ certs=$T/ctd/certs.d
	local named=(--mirror "$REGISTRY" --mirror _default)

	mkdir -p "$certs/$own" "$certs/other.example"
	printf 'server = "http://%s"\n# own\n[host."http://%s"]\n' "$REGISTRY" \
		"$REGISTRY" >"$certs/$own/hosts.toml"
	echo 'server = "https://other.example"' >"$certs/other.example/hosts.toml"
	cp -a "$certs" "$T/certs.was"
	export BOOTSEER_SOCKET=$T/node.sock
	run -1 node_ join "${named[@]}"
	[[ $output == *'bootseerd has no mirror'* ]]
	start_mirror
	doctor_says advice 'containerd config_path'
	touch "$T/broken"
	run -1 node_ join "${named[@]}" --answer-timeout 2s
	[[ $output == *'undone, all is as it was'* ]]
	diff -r "$T/certs.was" "$certs"
	same_as_before
	rm "$T/broken"
	run -0 node_ join "${named[@]}"
	names_mirror "$own" _default
	doctor_says ok 'containerd config_path'
	doctor_says ok 'containerd mirror'
	doctor_says ok mirror
	doctor_says ok "mirror's key"
	grep -q '(not: other.example)$' "$T/doctor"
	chmod 444 "$T/mirror/mirror/node.key"
	doctor_says advice "mirror's key"
	chmod 400 "$T/mirror/mirror/node.key"
	cri pull "$REGISTRY/plain:1"
	grep -q '^info mirror: layer whole ' "$T/mirror.log"
	run -0 node_ join
	diff -r "$T/certs.was" "$certs"
	run -0 node_ join --mirror _default
	names_mirror _default
	doctor_says ok 'containerd mirror'
	run -0 node_ leave --no-fetch
	diff -r "$T/certs.was" "$certs"
	same_as_before
}

what_another_file_says_last_is_found() {
	mkdir "$T/ctd/conf.d"
	printf 'imports = ["%s"]\n' "$T/ctd/conf.d/*.toml" |
		cat - "$T/was.toml" >"$T/ctd/config.toml"
	cat >"$T/ctd/conf.d/zz.toml" <<-END
	$(grep '^version' "$T/was.toml")
	[plugins."$1"$2]
	  snapshotter = "native"
	END
	run -1 node_ join
	[[ $output == *'has the last word'* || $output == *'would lose'* ]]
	[ "$(restarts)" -eq 0 ]
	[[ ! -e $T/ctd/conf.d/bootseer.toml ]]
}

# A bootseerd in the place of the fake.
start_own_node() { # CONTAINERD-ROOT
	[ -e "$I/key.pub" ] || "$bootseer" key new "$I/key" >/dev/null
	start_node --containerd-root "$1"
}

unpacking_is() { # STATUS WORDS
	"$bootseer" node doctor --containerd "$T/ctd/config.toml" >"$T/doctor" 2>&1 || :
	grep -q "^$1 *layer unpacking .*$2" "$T/doctor"
}

# By the diff service, which the CRI's own pulls ask, too.
pull_by_diff_service() { # TAG
	ctr images pull --local --plain-http --snapshotter overlayfs "$REGISTRY/$1:1"
}

# By containerd's transfer service, which names one that unpacks and no second; that of 1.7 has no
# plain HTTP.
pull_by_transfer() { # TAG
	containerd --version | grep -q ' v\?2\.' || return 0
	ctr images pull --local=false --plain-http --snapshotter overlayfs \
		--platform "linux/$(dpkg --print-architecture)" "$REGISTRY/$1:1"
}

forget() { ctr images rm --sync "$REGISTRY/$1:1"; } # TAG

joins_and_unpacks() {
	export BOOTSEER_SOCKET=$T/noderun/bootseerd.sock
	run -1 node_ join --unpack
	[[ $output == *'--unpack: bootseerd, at '*' gives no answer: '* ]]
	push "$I" other
	start_own_node /nowhere
	run -1 node_ join --unpack
	[[ $output == *"containerd-root = \"$T/ctd/root\"; in its configuration"* ]]
	same_as_before
	stop_daemon "$node_pid"
	start_own_node "$T/ctd/root"
	stop_daemon "$plugin_pid"
	start_plugin --node-timeout 1s
	unpacking_is ok 'by containerd itself (bootseer node join --unpack'
	run -0 node_ join --unpack
	[ "$(restarts)" -eq 1 ]
	run -0 node_ join --unpack
	[ "$(restarts)" -eq 1 ]
	unpacking_is ok 'by bootseerd$'
	cri pull "$REGISTRY/other:1"
	[ "$(unpacked)" -eq 3 ]
	pull_by_diff_service plain
	[ "$(unpacked)" -eq 6 ]
	forget plain
	# containerd does it for its transfer service, and when bootseerd is away, ...
	pull_by_transfer plain
	[ "$(unpacked)" -eq 6 ]
	forget plain
	stop_daemon "$node_pid"
	unpacking_is ok 'by containerd itself, as bootseerd does not answer'
	pull_by_diff_service plain
	forget plain
	start_own_node "$T/ctd/root"
	# ... but nothing is unpacked while the plugin is away.
	stop_daemon "$plugin_pid"
	unpacking_is missing "unpacks nothing: nobody answers at $T/plugin.sock"
	run ! pull_by_diff_service plain
	[[ $output == *'rror while dialing: '* ]]
	pull_by_transfer plain
	forget plain
	start_plugin --node-timeout 1s
	wait_until "$plugin_pid" pull_by_diff_service plain
	[ "$(unpacked)" -eq 3 ]
	forget plain
	run -0 node_ leave --no-fetch
	same_as_before
	stop_daemon "$plugin_pid"
	unpacking_is ok 'by containerd itself (bootseer node join --unpack'
	pull_by_diff_service plain
	pull_by_transfer other
	[ "$(unpacked)" -eq 3 ]
	in_container overlayfs plain true
	start_plugin --node-timeout 1s
	leaves_lines_of_others
}

# An administrator's lines would stay in force without the plugin, and containerd unpack nothing.
leaves_lines_of_others() {
	unpacking >>"$T/ctd/config.toml"
	"$T/restart" 3>&- 4>&-
	restarted
	wait_until "$containerd_pid" cri_answers
	unpacking_is ok 'by bootseerd$'
	run -0 node_ join --unpack
	unpacking_is ok 'by bootseerd$'
	run -1 node_ leave --no-fetch
	[[ $output == *"by 'bootseer-diff': take that out of default in"* ]]
	[ -e "$T/ctd/conf.d/bootseer.toml" ]
	unpacking_is ok 'by bootseerd$'
}
