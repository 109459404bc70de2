# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Private images of pods: a registry that wants a login and writes down what it was asked, an
# image that is converted and signed there, and the kubelet's end of the image service.  After
# lib.bash:
#
#	setup_file() { private_setup_file; }
#	setup() { private_setup; }
#	teardown() { containerd_teardown; }

CANARY=canary-7f3aX9

private_setup_file() {
	make_images "$BATS_FILE_TMPDIR" >/dev/null
	"$bootseer" key new "$BATS_FILE_TMPDIR/key" >/dev/null
	mkdir "$BATS_FILE_TMPDIR/docker"
	export DOCKER_CONFIG=$BATS_FILE_TMPDIR/docker # of bootseerd: it has no login
}

private_setup() {
	T=$BATS_TEST_TMPDIR
	may_log_in "tenant:$CANARY" "pusher:pushes"
	REGISTRY_AUTH="auth: {htpasswd: {realm: test, path: $T/htpasswd}}"
	containerd_setup
	echo "{\"auths\": {\"$REGISTRY\": {\"auth\": \"$(printf pusher:pushes |
		base64)\"}}}" >"$T/pusher.json"
	REGISTRY_AUTH_FILE=$T/pusher.json push "$I" lazy
	convert_image lazy --sign "$I/key" --auth-file "$T/pusher.json"
	gets_before=$(layer_gets "$I" lazy)
}

# Who the registry knows, USER:PASSWORD...
may_log_in() {
	/usr/bin/python3 -W ignore - "$@" >"$T/htpasswd.new" <<-'END'
	import crypt, sys
	for word in sys.argv[1:]:
	    user, password = word.split(":")
	    salt = crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=16)
	    print(f"{user}:{crypt.crypt(password, salt)}")
	END
	mv "$T/htpasswd.new" "$T/htpasswd"
}

gets() { echo $(($(layer_gets "$I" lazy) - gets_before)); }

# The plugin waits NODE_WAIT for bootseerd's answers: minutes, where it is not to be away.
start_all() { # [OPTION OF BOOTSEERD...]
	start_node --login-key "$T/login.key" --log-level debug "$@"
	start_plugin --image-service "$T/images.sock" --node-timeout "${NODE_WAIT:-5m}" \
		--containerd "$T/ctd/containerd.sock"
	start_containerd
	wait_until "$plugin_pid" test -S "$T/images.sock"
}

# As the kubelet with its imageServiceEndpoint.
images() { # COMMAND ARGUMENT...
	/usr/bin/python3 "$lib_dir/cri.py" "$T/images.sock" "$@"
}

pull_as() { # NAMESPACE USER PASSWORD [IMAGE]
	CRI_USER=$2 CRI_PASSWORD=$3 images pull-as "$1" "${4:-$REGISTRY/lazy:1}"
}

# A container's reads of what is not on the node yet.
read_all() {
	local dir

	for dir in "$T"/noderun/images/*/fs; do
		cmp "$dir/srv/two/data" "$I/two/srv/two/data" || return 1
		[ "$(cat "$dir/srv/one/deep/file")" = one ] || return 1
	done
}

kill_node() {
	kill -9 "$node_pid"
	wait "$node_pid" || :
	rm "$BOOTSEER_SOCKET" # start_node waits for a new one
}

# Where the password can be read: in what we write and say, and what anybody may see of our
# processes.  Without -a: grep then jumps over the holes of a cache's segments, where it
# otherwise takes a gigabyte of zeros for one line.
find_canary() {
	local words

	words=(-e "$CANARY" -e "$(printf 'tenant:%s' "$CANARY" | base64)")
	LC_ALL=C grep -rlF --exclude carrier "${words[@]}" "$T/noderoot" "$T/noderun" "$T/plugin" \
		"$T/plugin.log" "$T/node.log" "$T/ctd" || :
	grep -laF "${words[@]}" "/proc/$node_pid"/{cmdline,environ} \
		"/proc/$plugin_pid"/{cmdline,environ} || :
	"$bootseer" node status --json | grep -F "${words[@]}" || :
	"$bootseer" node doctor | grep -F "${words[@]}" || :
}

no_canary() {
	local found

	found=$(find_canary)
	echo "$found"
	[ -z "$found" ]
}
