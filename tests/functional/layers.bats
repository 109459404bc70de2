#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What layers mean, from an image that is converted to the files of its mount, and
# through layer.apply: docs/formats/layers.md.

bats_require_minimum_version 1.5.0
load node.bash

# Each test has an image of its own.
setup() { BATS_FILE_TMPDIR=$BATS_TEST_TMPDIR node_setup; }
teardown() { node_teardown; }

# convert_tars FILE...: they are the layers of $IMAGE from now on.
convert_tars() {
	"$BATS_TEST_DIRNAME/make-image.py" "$T/src" tars "$@"
	"$bootseer" image convert "oci:$T/src:latest" "oci:$D/oci:v1" >/dev/null
}

# --- sparse files -------------------------------------------------------------

# What is behind the data of a file of 100 GiB, whose holes nobody can read whole.
make_huge() { # FILE
	truncate -s 100G "$1"
	noise 10000 1 | dd of="$1" bs=4096 seek=1 conv=notrunc status=none
	noise 5000 2 | dd of="$1" bs=4096 seek=2097155 conv=notrunc status=none
	noise 4096 3 | dd of="$1" bs=4096 seek=12583425 conv=notrunc status=none
	printf 'the end' | dd of="$1" bs=1 seek=107374182393 conv=notrunc status=none
}

# Compare at the data, beside it and at both ends.
same_huge() { # FILE FILE
	local at

	[ "$(stat -c %s "$1")" -eq "$(stat -c %s "$2")" ]
	for at in 0 1 2 2097152 2097155 2097160 2359296 12583424 12583425 12583429 \
		13107200 26214399; do
		cmp <(dd if="$1" bs=4096 skip=$at count=8 status=none) \
			<(dd if="$2" bs=4096 skip=$at count=8 status=none)
	done
}

@test "a sparse file of 100 GiB is converted from every form, and read by every data path" {
	local form layers=() kind

	mkdir "$T/in"
	for form in gnu 0.0 0.1 1.0; do
		make_huge "$T/in/$form"
		case $form in
		gnu) tar --sparse --format=gnu -cf "$T/$form.tar" -C "$T/in" "$form" ;;
		*) tar --sparse --format=posix --sparse-version=$form \
			-cf "$T/$form.tar" -C "$T/in" "$form" ;;
		esac
		[ "$(stat -c %s "$T/$form.tar")" -lt 1000000 ]
		layers+=("$T/$form.tar")
	done
	convert_tars "${layers[@]}"
	"$bootseer" image check "oci:$D/oci:v1"
	# Holes take neither blocks nor much of an index.
	[ "$(du -s "$D/oci" | cut -f 1)" -lt 3000 ]
	for kind in erofs-fuse erofs-loop fuse; do
		node_start --datapath "$kind"
		"$bootseer" image mount "$IMAGE" "$T/mnt"
		for form in gnu 0.0 0.1 1.0; do
			same_huge "$T/in/$form" "$T/mnt/$form"
		done
		"$bootseer" image umount "$T/mnt"
		"$bootseer" node gc --images --cache 0
		node_stop
	done
}

# --- contested orders ---------------------------------------------------------

@test "contested layers are the same tree lazily and unpacked, as docs/formats/layers.md says" {
	local i below=

	"$BATS_TEST_DIRNAME/make-image.py" "$T/src" contested
	"$bootseer" image convert "oci:$T/src:latest" "oci:$D/oci:v1" >/dev/null
	node_start
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	"$BATS_TEST_DIRNAME/list-tree.py" "$T/mnt" >"$T/lazy"
	[ "$(cat "$T/mnt/C0/X" "$T/mnt/C1/X")" = XX ]
	[ "$(cd "$T/mnt" && echo C[2-5]/low/*)" = \
		'C2/low/new C3/low/new C4/low/deep C5/low/new' ]
	[ "$(cd "$T/mnt" && echo C[67]/*)" = 'C6/low C6/made C7/low C7/made' ]
	[ "$(cd "$T/mnt" && stat -c '%a %u' C5/low C6/low C7/low C8/low | tr '\n' ' ')" = \
		'2700 3 2700 3 755 0 2700 3 ' ]
	[ "$(getfattr --only-values -n user.below "$T/mnt/C8/low")" = b ]
	run ! getfattr -n user.below "$T/mnt/C9/low"
	[[ $(getfattr -m - "$T/mnt/C10/ping") == *security.capability* ]]
	"$bootseer" image umount "$T/mnt"

	for i in 0 1; do
		mkdir "$T/l$i"
		[ "$(call layer.apply "{\"ref\":\"$IMAGE\",\"layer\":$i,
			\"dir\":\"$T/l$i\",\"lower\":[$below]}" |
			jq '.result.bytes > 0')" = true ]
		below=\"$T/l0\"
	done
	mount -t overlay -o "lowerdir=$T/l1:$T/l0" overlay "$T/mnt"
	"$BATS_TEST_DIRNAME/list-tree.py" "$T/mnt" | diff "$T/lazy" -
	umount "$T/mnt"
}

@test "layer.apply refuses folders below that are none" {
	"$BATS_TEST_DIRNAME/make-image.py" "$T/src" contested
	"$bootseer" image convert "oci:$T/src:latest" "oci:$D/oci:v1" >/dev/null
	node_start
	mkdir "$T/l1"
	for below in '"rel"' 1 "\"$T/none\"" "\"$T/log\""; do
		[ "$(call layer.apply "{\"ref\":\"$IMAGE\",\"layer\":1,
			\"dir\":\"$T/l1\",\"lower\":[$below]}" |
			jq '.error.errno > 0')" = true ]
	done
	[ -z "$(ls "$T/l1")" ]
}

# --- indexes ------------------------------------------------------------------

@test "an image of an index in an index is started lazily" {
	local arch

	case $(uname -m) in
	aarch64) arch=arm64 ;;
	*) arch=amd64 ;;
	esac
	"$BATS_TEST_DIRNAME/make-image.py" "$T/src" nested 2
	"$bootseer" image convert --platform all "oci:$T/src:latest" \
		"oci:$D/oci:v1" >/dev/null
	node_start
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	[ "$(status '.images[0].mode')" = lazy ]
	ls "$T/mnt/f-$arch"
	"$bootseer" image umount "$T/mnt"
}
