#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Private images of pods: logins that the kubelet has reach bootseerd by the image service of
# bootseer-snapshotter, and by the kubelet's credential provider plugins.  A registry that
# wants a login and writes down what it was asked, real containerd with its CRI.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/../containerd/lib.bash"
. "$BATS_TEST_DIRNAME/../containerd/private.bash"

setup_file() { private_setup_file; }
setup() { private_setup; }
teardown() { containerd_teardown; }

@test "a pod's private image starts lazily by its pull secret, over a restart too" {
	start_all
	pull_as team tenant "$CANARY"
	[ "$(gets)" -eq 0 ]
	[ "$(stat -c %a "$T/login.key" "$T/noderoot/logins")" = $'600\n600' ]
	kill_node
	start_node --login-key "$T/login.key"
	read_all
	[ "$(gets)" -eq 0 ]
	no_canary
	# What opens the file is not in its folder.
	mv "$T/login.key" "$T/other.key"
	kill_node
	start_node --login-key "$T/login.key" --log-level debug
	grep -q 'logins that pods showed are lost' "$T/node.log"
}

@test "without the image service a pod's private image is pulled in full" {
	start_all
	CRI_USER=tenant CRI_PASSWORD=$CANARY cri pull-as team "$REGISTRY/lazy:1"
	[ "$(gets)" -gt 0 ]
	"$bootseer" image explain "$REGISTRY/lazy:1" >"$T/explain" || :
	grep -q 'imageServiceEndpoint' "$T/explain"
}

@test "a login in any form of the CRI's counts, and one for another registry does not" {
	start_all
	CRI_AUTH=$(printf 'tenant:%s' "$CANARY" | base64) \
		images pull-as team "$REGISTRY/lazy:1"
	[ "$(gets)" -eq 0 ]
	read_all
	no_canary
}

@test "a namespace that shows a wrong password gets nothing of another's image" {
	start_all
	pull_as team tenant "$CANARY"
	read_all
	: >"$T/registry.log"
	for pair in "tenant:wrong" "pusher:$CANARY" ":"; do
		run pull_as evil "${pair%:*}" "${pair#*:}"
		[ "$status" -ne 0 ]
		[[ $output != *"$CANARY"* ]]
	done
	# Nor by other names of the same image.
	for host in "${REGISTRY/127.0.0.1/localhost}" "${REGISTRY/127.0.0.1/127.0.0.2}"; do
		run images pull-as evil "$host/lazy:1"
		[ "$status" -ne 0 ]
	done
	run ! grep -E '"(GET|HEAD) /v2/lazy/(manifests|blobs)/[^"]*" 200' "$T/registry.log"
	run ! grep 'GET /v2/lazy/blobs' "$T/registry.log"
	grep -q '/v2/lazy/manifests' "$T/registry.log" # it was asked
	# And does the other one no harm.
	kill_node
	start_node --login-key "$T/login.key"
	read_all
	no_canary
}

@test "a login that is shown anew is good for what is read from then on" {
	start_all
	pull_as team tenant "$CANARY"
	kill_node
	may_log_in "tenant:$CANARY-2" "pusher:pushes"
	start_node --login-key "$T/login.key" --read-timeout 1s
	run read_all
	[ "$status" -ne 0 ]
	pull_as team tenant "$CANARY-2"
	read_all
	no_canary
}

# A plugin of the kubelet whose answer is in $T/answer.
make_plugin() {
	mkdir "$T/bin"
	cat >"$T/bin/give-login" <<-END
	#!/bin/sh
	cat >>"$T/asked"
	echo "\$1 \$LOGIN_OF" >>"$T/asked.how"
	cat "$T/answer"
	END
	chmod +x "$T/bin/give-login"
	cat >"$T/providers.yaml" <<-END
	# As the kubelet reads it.
	apiVersion: kubelet.config.k8s.io/v1
	kind: CredentialProviderConfig
	providers:
	  - name: give-login
	    matchImages:
	      - "*.dkr.ecr.*.amazonaws.com"
	      - "127.0.0.*:${REGISTRY#*:}"
	    defaultCacheDuration: "12h"
	    apiVersion: credentialprovider.kubelet.k8s.io/v1
	    args: [--give]
	    env:
	      - name: LOGIN_OF
	        value: tenant
	END
}

answer() { # PASSWORD
	cat >"$T/answer" <<-END
	{"kind": "CredentialProviderResponse",
	 "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
	 "cacheKeyType": "Registry", "cacheDuration": "6h",
	 "auth": {"127.0.0.1:${REGISTRY#*:}": {"username": "tenant", "password": "$1"}}}
	END
}

@test "a credential provider is asked once a pod's login is refused, and its answer is kept" {
	make_plugin
	answer "$CANARY-2"
	start_all --credential-providers "$T/providers.yaml:$T/bin"
	pull_as team tenant "$CANARY"
	[ "$(gets)" -eq 0 ]
	[ ! -e "$T/asked" ]
	kill_node
	may_log_in "tenant:$CANARY-2" "pusher:pushes"
	start_node --login-key "$T/login.key" \
		--credential-providers "$T/providers.yaml:$T/bin"
	read_all
	[ "$(jq -r .image "$T/asked")" = "$REGISTRY/lazy" ]
	[ "$(jq -r .kind "$T/asked")" = CredentialProviderRequest ]
	[ "$(cat "$T/asked.how")" = "--give tenant" ]
	no_canary
}

@test "a provider's kept answer is used again, and asked for anew once it is refused" {
	make_plugin
	answer "$CANARY"
	"$bootseerd" --check-config --root "$T/r" --run "$T/u" \
		--credential-providers "$T/providers.yaml:$T/bin"
	sed 's/defaultCache/no&/' "$T/providers.yaml" >"$T/wrong.yaml"
	run -2 "$bootseerd" --check-config --root "$T/r" --run "$T/u" \
		--credential-providers "$T/wrong.yaml:$T/bin"
	[[ $output == *give-login*defaultCacheDuration* ]]
	start_all --credential-providers "$T/providers.yaml:$T/bin"
	# No pod shows anything: the plugin alone has a login.
	"$bootseer" image prefetch --stop "$REGISTRY/lazy:1" # has its metadata fetched
	[ "$(wc -l <"$T/asked")" -eq 1 ]
	# Logins are looked for again after a reload.
	kill -HUP "$node_pid"
	wait_until "$node_pid" grep -q reload "$T/node.log"
	"$bootseer" image prefetch --stop "$REGISTRY/lazy:1" # has its metadata fetched
	[ "$(wc -l <"$T/asked")" -eq 1 ]
	may_log_in "tenant:$CANARY-2" "pusher:pushes"
	answer "$CANARY-2"
	"$bootseer" image prefetch --all --wait "$REGISTRY/lazy:1"
	[ "$(wc -l <"$T/asked")" -eq 2 ]
	no_canary
}

@test "calls of the image service are containerd's, word for word" {
	start_all
	pull_as team tenant "$CANARY"
	images images >"$T/by-us"
	cri images >"$T/by-containerd"
	diff "$T/by-containerd" "$T/by-us"
	grep -q "$REGISTRY/lazy:1" "$T/by-us"
	run images pull-as team "$REGISTRY/nothing:1"
	by_us=$output
	run cri pull-as team "$REGISTRY/nothing:1"
	[ "$by_us" = "$output" ]
	# While containerd is away it says so, and goes on afterwards.
	stop_daemon "$containerd_pid"
	run images images
	[[ $output = UNAVAILABLE* ]]
	start_containerd
	images images | diff "$T/by-us" -
}

@test "pulls go on while bootseerd is away" {
	NODE_WAIT=1s start_all
	kill_node
	pull_as team tenant "$CANARY"
	grep -q 'bootseerd has not got the login of a pull' "$T/plugin.log"
	start_node --login-key "$T/login.key"
	no_canary
}

@test "a bootseerd that is away is waited for once, not at each pull" {
	NODE_WAIT=1s start_all
	kill_node
	for _ in 1 2 3; do
		CRI_USER=tenant CRI_PASSWORD=$CANARY \
			run images pull-as team "$REGISTRY/nothing:1"
		[ "$status" -ne 0 ]
	done
	[ "$(grep -c 'bootseerd has not got the login of a pull' "$T/plugin.log")" -eq 1 ]
	grep -q 'bootseerd was away a moment ago' "$T/plugin.log"
	no_canary
}

@test "the image service's socket is for root alone" {
	start_all
	[ "$(stat -c %a "$T/images.sock")" = 600 ]
	chmod 666 "$T/images.sock"
	chmod 711 "$T"
	run setpriv --reuid 65534 --regid 65534 --clear-groups \
		/usr/bin/python3 "$lib_dir/cri.py" "$T/images.sock" images
	[ "$status" -ne 0 ]
	[[ $output != *fs* ]]
}

# A bootseerd where /var/lib has the kubelet's configuration alone.
make_beside_kubelet() {
	cat >"$T/beside" <<-END
	#!/bin/sh
	exec unshare --mount --propagation slave sh -ec '
		mount -t tmpfs kubelet /var/lib
		mkdir /var/lib/kubelet
		ln -s "$T/kubelet.yaml" /var/lib/kubelet/config.yaml
		exec "\$@"' - "$bootseerd" "\$@"
	END
	chmod +x "$T/beside"
}

expect_row() { # WORDS
	"$bootseer" node doctor >"$T/doctor" || : # of a machine that lacks something
	grep -F -A 3 "pods' logins" "$T/doctor" >"$T/row"
	grep -F -e "$1" "$T/row"
}

list_secrets() { # NAMESPACES
	curl -fsS --unix-socket "$T/noderun/bootseerd.sock" --data "{\"namespaces\": $1}" http://-/v1/login.secrets
}

@test "the doctor says whether the kubelet's logins come here" {
	make_beside_kubelet
	bootseerd=$T/beside
	echo 'kind: KubeletConfiguration' >"$T/kubelet.yaml"
	start_node --login-key "$T/login.key"
	expect_row 'the kubelet has no imageServiceEndpoint'
	expect_row --image-service
	# The chart's pod reads secrets; and has none to read any more.
	list_secrets '{"team": []}'
	expect_row 'by pull secrets'
	list_secrets '{}'
	expect_row 'the kubelet has no imageServiceEndpoint'
	printf '\nimageServiceEndpoint: unix://%s/images.sock\n' "$T" >>"$T/kubelet.yaml"
	expect_row 'nobody listens'
	start_plugin --image-service "$T/images.sock" --containerd "$T/ctd/containerd.sock"
	wait_until "$plugin_pid" test -S "$T/images.sock"
	expect_row "the kubelet pulls by '$T/images.sock'"
}

@test "no core is written of what has logins in its memory" {
	start_all
	pull_as team tenant "$CANARY"
	for pid in "$node_pid" "$plugin_pid"; do
		grep -E '^Max core file size +1 +1 ' "/proc/$pid/limits"
	done
}
