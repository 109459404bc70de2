# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Two tenants of one registry and one node. "lazy" is a public image that
# somebody trusted converted and signed; "evil" is what a hostile tenant would
# rather have in everybody's containers. For tests of every version of containerd.
#
#	setup_file() { make_tenants "$BATS_FILE_TMPDIR"; }
#	setup() { containerd_setup; push_tenants; }

forge_program=$(dirname "${BASH_SOURCE[0]}")/../functional/forge-tenant.py
WHOSE='cat /srv/one/deep/file' # "one" in the public image

make_tenants() { # DIR
	make_images "$1" >/dev/null
	mkdir -p "$1/forged/srv/one/deep"
	echo forged >"$1/forged/srv/one/deep/file"
	new_image "$1" evil base one two forged
	"$bootseer" key new "$1/key" >/dev/null
}

push_tenants() {
	push "$I" lazy
	push "$I" evil
	push "$I" pause
	convert_image lazy --sign "$I/key"
	convert_image evil --no-sign
	# The conversion read them, too.
	fetched_before=0
	fetched_before=$(layers_fetched lazy)
}

# The public image in a repository of the tenant's, with a forged artifact.
forge() { # TARGET [--replace]
	/usr/bin/python3 "$forge_program" "$REGISTRY" lazy:1 evil:1 "$@"
}

# How often a layer of "lazy" was asked of REPOSITORY since the conversion.
layers_fetched() { # REPOSITORY
	local digest n=0

	for digest in $(layers_of "$I" lazy); do
		n=$((n + $(grep -c "GET /v2/$1/blobs/$digest" \
			"$T/registry.log" || :)))
	done
	[ "$1" != lazy ] || n=$((n - fetched_before))
	echo "$n"
}

start_tenants_node() { # [OPTION OF BOOTSEERD...]
	start_node "$@"
	start_plugin
	start_containerd
}

# What a container of IMAGE has where the tenants differ.
seen_by_pod() { # IMAGE POD
	local rc=0

	cri run "$REGISTRY/$1" "$2" /bin/sh -c "$WHOSE" || rc=$?
	cri stop
	return "$rc"
}

# ---- the attacks ------------------------------------------------------------

# The tenant's pull comes first, then that of the image that he copied.
forged_artifact_reaches_nobody() {
	forge tenant/lazy:1
	start_tenants_node
	cri pull "$REGISTRY/tenant/lazy:1"
	[ "$(layers_fetched tenant/lazy)" -gt 0 ]
	cri pull "$REGISTRY/lazy:1"
	[ "$(seen_by_pod lazy:1 victim)" = one ]
	[ "$(seen_by_pod tenant/lazy:1 tenant)" = one ]
	grep -q "^warning trust: image=\"$REGISTRY/tenant/lazy:1\" starts the" \
		"$T/node.log"
}

# The operator believes whoever may push below tenant/, for images from there.
what_is_believed_in_one_place_stays_there() {
	forge tenant/lazy:1
	start_tenants_node --trust '*=sign' \
		--trust "$REGISTRY/tenant=registry"
	cri pull "$REGISTRY/tenant/lazy:1"
	cri pull "$REGISTRY/lazy:1"
	[ "$(seen_by_pod lazy:1 victim)" = one ]
	grep -q "trusted below '$REGISTRY/tenant' only" "$T/plugin.log"
}

# The way it is meant to be.
signed_image_is_lazy() {
	start_tenants_node
	cri pull "$REGISTRY/lazy:1"
	[ "$(layers_fetched lazy)" -eq 0 ]
	[ "$(seen_by_pod lazy:1 pod)" = one ]
	[ "$(layers_fetched lazy)" -eq 0 ]
}
