#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# ./dev install and ./dev setup: which packages, what is built, what is said.
# apt-get, dpkg-query, meson and ninja are played where they would change the
# machine.

bats_require_minimum_version 1.5.0

setup() {
	TOP=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	T=$BATS_TEST_TMPDIR
	mkdir "$T/bin"
	export BOOTSEER_BUILDS=$T/build CALLS=$T/calls
	: >"$CALLS"
}

# play NAME [SCRIPT]: a program that notes how it was called.
play() {
	printf '#!/bin/bash\necho "%s $DESTDIR $*" >>"$CALLS"\n%s\n' "$1" \
		"${2:-}" >"$T/bin/$1"
	chmod +x "$T/bin/$1"
}

# A machine that has no package, and a build that does nothing.
bare_machine() {
	play dpkg-query 'exit 1'
	play apt-get
	play meson
	play ninja
	PATH=$T/bin:$PATH
}

# What apt-get was told to install, a package a line.
asked_for() {
	sed -n 's/^apt-get  install .*--no-install-recommends //p' "$CALLS" |
		tr ' ' '\n'
}

@test "install wants no package that is for tests or measures only" {
	bare_machine
	"$TOP/dev" install
	asked_for >"$T/asked"
	for package in gcc meson libcurl4-openssl-dev libfuse3-dev scdoc runc; do
		grep -qx "$package" "$T/asked"
	done
	for package in qemu-system-x86 postgresql clang bats \
		golang-go containerd docker-registry redis-server nginx-light; do
		run -1 grep -x "$package" "$T/asked"
	done
	: >"$CALLS"
	"$TOP/dev" setup
	asked_for >"$T/all"
	for package in qemu-system-x86 postgresql clang fio; do
		grep -qx "$package" "$T/all"
	done
	# All is more than what install wants, and has it.
	[ -z "$(sort "$T/all" | uniq -d)" ]
	[ -z "$(sort "$T/asked" | comm -23 - <(sort "$T/all"))" ]
	: >"$CALLS"
	"$TOP/dev" setup run
	asked_for >"$T/run"
	run -1 grep -x gcc "$T/run"
	run -1 "$TOP/dev" setup rnu
	[[ $output == *"no use 'rnu', but build run test measure package"* ]]
}

@test "install says how to start the daemons, with DESTDIR where they are" {
	bare_machine
	run -0 "$TOP/dev" install
	[[ $output == *'systemctl enable --now bootseerd'* ]]
	grep -q "^meson  install -C $T/build/install" "$CALLS"
	run -0 "$TOP/dev" install "$T/dest"
	[[ $output == *"installed below $T/dest"* ]]
	[[ $output != *systemctl* ]]
	grep -q "^meson $T/dest install -C $T/build/install" "$CALLS"
	cd "$T"
	run -0 "$TOP/dev" install here
	grep -q "^meson $T/here install " "$CALLS"
}

@test "the packages to build with have what the build asks for" {
	local file name

	bare_machine
	"$TOP/dev" setup build
	asked_for >"$T/asked"
	PATH=${PATH#"$T/bin:"}
	meson setup "$T/product" "$TOP" -Dtests=false >"$T/log" 2>&1
	meson introspect "$T/product" --dependencies | jq -r '.[].name' |
		grep -vx -e threads -e dl >"$T/dependencies"
	grep -qx libcurl "$T/dependencies"
	while read -r name; do
		file=$(pkg-config --variable=pcfiledir "$name")/$name.pc
		[ -e "$file" ] || { echo "no $file"; return 1; }
		dpkg -S "$(readlink -f "$file")"
	done <"$T/dependencies" | cut -d: -f1 | sort -u >"$T/packages"
	for name in gcc meson ninja protoc-c protoc scdoc; do
		dpkg -S "$(command -v "$name")"
	done | cut -d: -f1 >>"$T/packages"
	[ -z "$(sort -u "$T/packages" | comm -23 - <(sort "$T/asked"))" ]
}

@test "what install builds is what the release build would install" {
	meson setup "$T/product" "$TOP" -Dtests=false >"$T/log" 2>&1
	for build in "$T/product" "${BOOTSEER_BUILD:?}"; do
		meson introspect "$build" --installed | jq -r '.[]' | sort \
			>"$T/installed.${build##*/}"
	done
	grep -q '/bin/bootseer$' "$T/installed.product"
	diff "$T/installed.product" "$T/installed.${BOOTSEER_BUILD##*/}"
	run -1 grep -E '"name": "(test_|fake|p2p-sim)' \
		<(meson introspect "$T/product" --targets)
}

@test "a root that packages are built in keeps a folder of its own, and nothing of a build" {
	mkdir -p "$T/root/build"
	echo mine >"$T/root/build/notes"
	run -1 "$TOP/deploy/deb/build" "$TOP" "$T/out" "--root=$T/root"
	[[ $output == *"$T/root/build"*"File exists"* ]]
	[ "$(cat "$T/root/build/notes")" = mine ]
	rm -r "$T/root/build"
	# There is nothing in it to build with.
	mkdir "$T/root"/{proc,run,dev}
	run -127 "$TOP/deploy/deb/build" "$TOP" "$T/out" "--root=$T/root"
	[ "$(ls "$T/root")" = $'dev\nproc\nrun' ]
}

@test "test runs nothing when lint fails, and says the sum" {
	bare_machine
	mkdir -p "$T/top/tests/lint"
	cp "$TOP/dev" "$T/top/dev"
	cp -r "$TOP/tests/runner" "$T/top/tests"
	printf '#!/bin/sh\n%s\n' 'echo ok 1 - layers; echo not ok 2 - sizes' \
		'echo 1..2; exit 1' >"$T/top/tests/lint/run"
	printf '#!/bin/sh\necho all\n' >"$T/top/tests/runner/plan.py"
	printf '#!/bin/sh\necho tests began\n' >"$T/top/tests/runner/main.py"
	chmod +x "$T/top/tests/lint/run"
	run -1 "$T/top/dev" test
	[[ $output == *"not ok 2 - sizes"* && $output != *"tests began"* ]]
	[ "${lines[-1]}" = '1 passed, 1 failed, 0 skipped' ]
}
