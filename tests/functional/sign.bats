#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Signatures of artifacts: who makes them, where they are good, and that what
# others push is found out.

bats_require_minimum_version 1.5.0

setup_file()
{
	export PATH=$BOOTSEER_BUILD/cli:$BOOTSEER_BUILD/tests/functional:$PATH
	export HERE=$BATS_TEST_DIRNAME F=$BATS_FILE_TMPDIR
	"$HERE/make-image.py" "$F/image" good 1
	"$HERE/make-image.py" "$F/small" times 1500000000
	bootseer key new "$F/a.key"
	bootseer key new --uses verify --name verifier "$F/v.key"
	bootseer key new --uses both "$F/other.key"
}

setup()
{
	W=$BATS_TEST_TMPDIR
	REGISTRY_PID=
	export HOME=$W/home no_proxy='*'
	unset XDG_CONFIG_HOME DOCKER_CONFIG XDG_RUNTIME_DIR
	mkdir "$HOME"
}

teardown()
{
	[ -z "$REGISTRY_PID" ] || kill "$REGISTRY_PID"
	! mountpoint -q "$W/disk" || umount "$W/disk"
	rm -rf --one-file-system "$W"
}

start_registry() # sets REGISTRY
{
	cat >"$W/registry.yml" <<-EOF
	version: 0.1
	log: { level: info }
	storage: { filesystem: { rootdirectory: $W/registry },
	           delete: { enabled: true } }
	http: { addr: "127.0.0.1:0" }
	EOF
	mkfifo "$W/pipe"
	docker-registry serve "$W/registry.yml" >"$W/pipe" 2>&1 3>&- &
	REGISTRY_PID=$!
	exec 9<"$W/pipe"
	while IFS= read -r -t 120 -u 9 line; do
		[[ $line =~ listening\ on\ [^\ ]*:([0-9]+) ]] || continue
		REGISTRY=127.0.0.1:${BASH_REMATCH[1]}
		cat <&9 >"$W/registry.log" 3>&- &
		return 0
	done
	return 1
}

convert() { bootseer image convert "$@" 2>"$W/progress"; }
id_of() { bootseer key show "$1" | cut -d' ' -f1; }
artifact_of() { bootseer image inspect "$@" | jq -r .artifact; }

# Signatures that a layout's index lists.
signatures_in() # LAYOUT
{
	local digest n=0

	for digest in $(jq -r '.manifests[].digest' "$1/index.json"); do
		if grep -q '"dev.bootseer.signature"' \
			"$1/blobs/sha256/${digest#sha256:}"; then
			n=$((n + 1))
		fi
	done
	echo "$n"
}

refused() # WORDS TRUST-CHECK-ARGUMENTS...
{
	local words=$1

	shift
	run --separate-stderr trust-check "$@"
	echo "$status: $output: $stderr"
	[ "$status" -eq 1 ] || return
	[ -z "$output" ] || return
	[[ $stderr == *"$words"* ]]
}

@test "a key is its owner's alone, is never overwritten, and says who it is" {
	bootseer key new --name 'build farm' --expires 30d "$W/k"
	[ "$(stat -c %a "$W/k")" = 600 ]
	run bootseer key show "$W/k.pub"
	[[ $output == *ed25519*"uses: sign "*"build farm" ]]
	[[ $output == *"not-after: 20"* ]]
	[ "$(id_of "$W/k")" = "$(id_of "$W/k.pub")" ]
	before=$(sha256sum "$W/k" "$W/k.pub")
	run bootseer key new "$W/k"
	[ "$status" -eq 1 ]
	[[ $output == *"never overwritten"* ]]
	[ "$before" = "$(sha256sum "$W/k" "$W/k.pub")" ]
	# Nor is one half of a pair.
	rm "$W/k"
	run bootseer key new "$W/k"
	[ "$status" -eq 1 ]
	[ ! -e "$W/k" ]
}

@test "a key that others may read is not used" {
	bootseer key new "$W/k"
	chmod 640 "$W/k"
	run convert --sign "$W/k" --repository 'reg.example/*' \
		"oci:$F/small:latest" "oci:$W/out:1"
	[ "$status" -eq 1 ]
	grep -q 'chmod 600' "$W/progress"
}

@test "a public half, a missing key and a name that no list can have are told" {
	terms=(--repository reg.example/app "oci:$F/small:latest" "oci:$W/out:1")
	run -1 convert --sign "$F/a.key.pub" "${terms[@]}"
	grep -q "a.key.pub' is the public half.*the private one, '$F/a.key'" \
		"$W/progress"
	run ! grep chmod "$W/progress"
	cp "$F/a.key.pub" "$W/half"
	run -1 convert --sign "$W/half" "${terms[@]}"
	grep -q "half' is the public half.*the private one$" "$W/progress"
	run -2 convert --sign "$W/none" "${terms[@]}"
	grep -q "'--sign': '$W/none' is not there: 'bootseer key new FILE' makes" \
		"$W/progress"
	run -2 bootseer image verify --key "$W/none" "oci:$W/out:1"
	[[ $output == *"'bootseer key new FILE' makes a key" ]]
	for name in 'für uns' $'a\tb' ' a' "$(printf '%065d' 0)"; do
		run -2 bootseer key new --name "$name" "$W/k"
		[[ $output == *"option '--name': a key's name"* ]]
		[ ! -e "$W/k" ]
		[ ! -e "$W/k.pub" ]
	done
}

@test "the first conversion to a registry makes a key, the second uses it" {
	start_registry
	# One that fails makes none.
	run -1 bootseer image convert --plain-http "oci:$F/small:nothing" \
		"$REGISTRY/app:1"
	[ ! -e "$HOME/.config/bootseer/sign.key" ]
	[ ! -e "$HOME/.config/bootseer/sign.key.pub" ]
	run --separate-stderr bootseer image convert --plain-http \
		"oci:$F/small:latest" "$REGISTRY/app:1"
	[ "$status" -eq 0 ]
	key=$HOME/.config/bootseer/sign.key
	[[ $output == *"made a key"*"$key"* ]]
	# What it says a node needs is just that.
	line=$(grep '^  cat' <<<"$output")
	[ "$line" = "  cat $key.pub >>/etc/bootseer/trust.pem" ]
	eval "${line//\/etc\/bootseer/$W}"
	[ "$(stat -c %a "$key")" = 600 ]
	run trust-check "$REGISTRY/app:1" "$W/trust.pem" signed -
	[ "$output" = "signed $(id_of "$key")" ]
	run --separate-stderr bootseer image convert --plain-http \
		"oci:$F/image:latest" "$REGISTRY/app:2"
	[ "$status" -eq 0 ]
	[[ $output != *"made a key"* ]]
	trust-check "$REGISTRY/app:2" "$W/trust.pem" signed -
}

@test "--no-sign signs nothing, and makes no key" {
	start_registry
	convert --no-sign --plain-http "oci:$F/small:latest" "$REGISTRY/app:1"
	[ ! -e "$HOME/.config" ]
	refused 'nobody signed it' "$REGISTRY/app:1" "$F/a.key.pub" signed -
	run bootseer image convert --no-sign --sign "$F/a.key" \
		"oci:$F/small:latest" "$REGISTRY/app:1"
	[ "$status" -eq 2 ]
	# What a signature is for is not said where there is none.
	run bootseer image convert --expires 1d "oci:$F/small:latest" \
		"oci:$W/out:1"
	[ "$status" -eq 2 ]
	run bootseer image convert --sign "$F/a.key" "oci:$F/small:latest" \
		"oci:$W/out:1"
	[ "$status" -eq 2 ]
}

@test "without a home, a folder is converted and a registry says what is missing" {
	unset HOME
	convert "oci:$F/small:latest" "oci:$W/out:1"
	run bootseer image convert --plain-http "oci:$F/small:latest" \
		127.0.0.1:1/app:1
	[ "$status" -eq 1 ]
	[[ $output == *HOME*"key new"* ]]
}

@test "a signature is good for its repository, its key and its time" {
	convert --sign "$F/a.key" --repository 'reg.example:5000/team/*' \
		"oci:$F/small:latest" "oci:$W/out:1"
	good=(signed reg.example:5000/team/app)
	run trust-check "oci:$W/out:1" "$F/a.key.pub" "${good[@]}"
	[ "$output" = "signed $(id_of "$F/a.key")" ]
	refused 'reg.example:5000/team2/app' "oci:$W/out:1" "$F/a.key.pub" \
		signed reg.example:5000/team2/app
	refused 'not of the trusted keys' "oci:$W/out:1" "$F/other.key.pub" \
		"${good[@]}"
	refused 'revoked' "oci:$W/out:1" "$F/a.key.pub" "${good[@]}" \
		"$(id_of "$F/a.key")"
	refused 'image verify' "oci:$W/out:1" "$F/a.key.pub" \
		verified reg.example:5000/team/app
	{ echo 'not-after: 2020-01-01'; sed /not-after/d "$F/a.key.pub"; } \
		>"$W/old.pem"
	refused 'ended at 2020-01-01' "oci:$W/out:1" "$W/old.pem" "${good[@]}"
	# A list with the old key and the new one believes both.
	cat "$F/a.key.pub" "$F/other.key.pub" >"$W/both.pem"
	trust-check "oci:$W/out:1" "$W/both.pem" "${good[@]}"
}

@test "inspect tells of signatures, rm and prune remove them" {
	convert --sign "$F/a.key" --repository 'reg.example/app' \
		"oci:$F/small:latest" "oci:$W/out:1"
	bootseer image sign --key "$F/other.key" --repository 'reg.example/*' \
		--expires 90d "oci:$W/out:1"
	bootseer image inspect "oci:$W/out:1" | jq -e --arg a \
		"$(id_of "$F/a.key")" --arg o "$(id_of "$F/other.key")" '
		.signatures | length == 2 and .[1].key == $a and
		.[1].notAfter == null and .[0].key == $o and
		.[0].repository == "reg.example/*" and .[0].claim == "signed"
		and (.[0].notAfter | startswith("20"))'
	# A second artifact, signed too, which the third replaces.
	"$HERE/make-image.py" "$W/other" times 1500000001
	convert "oci:$W/other:latest" "oci:$W/out:other"
	other=$("$HERE/forge-layout.py" graft "$W/out" 1 other)
	bootseer image sign --key "$F/a.key" --repository reg.example/app \
		--artifact "$other" "oci:$W/out:1"
	[ "$(signatures_in "$W/out")" -eq 3 ]
	convert --force --prune --sign "$F/a.key" --repository reg.example/app \
		"oci:$F/small:latest" "oci:$W/out:1"
	[ "$(signatures_in "$W/out")" -eq 1 ]
	trust-check "oci:$W/out:1" "$F/a.key.pub" signed reg.example/app
	bootseer image rm "oci:$W/out:1"
	[ "$(signatures_in "$W/out")" -eq 0 ]
}

@test "an artifact against its layers: whatever differs is found, and named" {
	convert "oci:$F/image:latest" "oci:$W/first:good"
	bootseer image check --against-layers "oci:$W/first:good"
	while read -r case; do
		rm -rf "$W/out" "$W/evil"
		"$HERE/forge-layout.py" image "$W/evil" "$case" "$W/below"
		cp -r "$W/first" "$W/out"
		convert "oci:$W/evil:latest" "oci:$W/out:evil"
		forged=$("$HERE/forge-layout.py" graft "$W/out" good evil)
		[ "$(artifact_of "oci:$W/out:good")" = "$forged" ]
		# All that nodes and check looked at before finds nothing wrong.
		bootseer image check "oci:$W/out:good"
		run --separate-stderr bootseer image check --against-layers \
			"oci:$W/out:good"
		echo "$case: $status: $output: $stderr"
		[ "$status" -eq 1 ]
		[[ $stderr == *"not what the image's layers hold"* ]]
		case $case in
		content) [ "$output" = "/etc/page: content" ] ;;
		inline-content) [ "$output" = "/etc/one: content" ] ;;
		large-content) [[ $output == *"/links/cross: content"* ]] ;;
		size) [ "$output" = "/etc/one: size" ] ;;
		mode) [ "$output" = "/etc/one: mode" ] ;;
		owner) [ "$output" = "/etc/one: owner" ] ;;
		mtime) [ "$output" = "/etc/one: mtime" ] ;;
		mtime-ns) [ "$output" = "/etc/ns: mtime" ] ;;
		xattr) [ "$output" = "/etc/one: extended attributes" ] ;;
		capability) [ "$output" = "/usr/bin/ping: extended attributes" ] ;;
		target) [ "$output" = "/lib: target" ] ;;
		device) [ "$output" = "/dev/null: device" ] ;;
		kind) [ "$output" = "/etc/empty: kind" ] ;;
		link-broken) [[ $output == *": hard link"* ]] ;;
		added) [ "$output" = "/usr/bin/evil: not in the layers" ] ;;
		huge) [ "$output" = "/huge: not in the layers" ] ;;
		removed) [ "$output" = "/etc/one: missing in the artifact" ] ;;
		many) [[ $output == *"and 10 more" ]] ;;
		folder-mode) [[ $output == *"/usr/bin: mode"* ]] ;;
		whiteouts-ignored) [[ $output == *"/gone/x: not in the layers"* ]] ;;
		*) false ;;
		esac
	done < <("$HERE/forge-layout.py" image list)
}

@test "what is behind the end of a file, in its last page, is compared" {
	convert --no-sign "oci:$F/image:latest" "oci:$W/out:good"
	bootseer image verify --key "$F/v.key" --repository reg.example/app \
		"oci:$W/out:good"
	"$HERE/forge-layout.py" tails "$W/out" good
	bootseer image check "oci:$W/out:good"
	run --separate-stderr -1 bootseer image check --against-layers \
		"oci:$W/out:good"
	[[ $output == *"/links/cross: content"* ]]
	run -1 bootseer image verify --key "$F/v.key" \
		--repository reg.example/app "oci:$W/out:good"
	[[ $output == *"not what the image's layers hold"* ]]
}

# A place for temporary files that holds 16 MiB.
small_disk()
{
	mkdir "$W/disk"
	mount -t tmpfs -o size=16m tmpfs "$W/disk"
}

@test "an artifact that is larger than its layers fills no disk, and is not signed" {
	small_disk
	convert --no-sign "oci:$F/image:latest" "oci:$W/out:good"
	TMPDIR=$W/disk bootseer image check --against-layers "oci:$W/out:good"
	# A GiB that no file has, of 700 bytes.
	"$HERE/forge-layout.py" pad "$W/out" good 250
	TMPDIR=$W/disk run -1 bootseer image check "oci:$W/out:good"
	[[ $output == *"holds bytes that no file has"* ]]
	TMPDIR=$W/disk run -1 bootseer image verify --key "$F/v.key" \
		--repository reg.example/app "oci:$W/out:good"
	[[ $output == *"holds bytes that no file has"* ]]
	# A file more: what differs is told without a byte of it.
	"$HERE/forge-layout.py" image "$W/evil" huge
	convert --no-sign --force "oci:$F/image:latest" "oci:$W/out:good"
	convert --no-sign "oci:$W/evil:latest" "oci:$W/out:evil"
	"$HERE/forge-layout.py" graft "$W/out" good evil
	TMPDIR=$W/disk run -1 bootseer image check --against-layers \
		"oci:$W/out:good"
	[[ $output == *"/huge: not in the layers"* ]]
	# One that is right and too large says so before it begins.
	TMPDIR=$W/disk run -1 bootseer image check --against-layers \
		"oci:$W/out:evil"
	[[ $output == *"MiB, more than there is: choose another place"* ]]
	umount "$W/disk"
}

@test "of many differences the first are listed, and the rest counted" {
	"$HERE/forge-layout.py" image "$W/evil" many
	convert "oci:$F/image:latest" "oci:$W/out:good"
	convert "oci:$W/evil:latest" "oci:$W/out:evil"
	"$HERE/forge-layout.py" graft "$W/out" good evil
	run --separate-stderr bootseer image check --against-layers \
		"oci:$W/out:good"
	[ "$status" -eq 1 ]
	[ "${#lines[@]}" -eq 21 ]
	[ "${lines[0]}" = "/usr/lib/evil00: not in the layers" ]
	[ "${lines[20]}" = "and 10 more" ]
	[[ $stderr == *" 30 places"* ]]
}

@test "converting again does not sign what somebody else put there" {
	"$HERE/forge-layout.py" image "$W/evil" added
	convert "oci:$F/image:latest" "oci:$W/out:good"
	convert "oci:$W/evil:latest" "oci:$W/out:evil"
	terms=(--sign "$F/a.key" --repository reg.example/app)
	# The good one of somebody else is compared, then signed; once.
	run convert "${terms[@]}" "oci:$F/image:latest" "oci:$W/out:good"
	[ "$status" -eq 0 ]
	[[ $output == *"is what the layers hold"* ]]
	run convert "${terms[@]}" "oci:$F/image:latest" "oci:$W/out:good"
	[ "$status" -eq 0 ]
	[[ $output != *"is what the layers hold"* ]]
	bootseer image inspect "oci:$W/out:good" | jq -e '.signatures | length == 1'
	"$HERE/forge-layout.py" graft "$W/out" good evil
	run convert "${terms[@]}" "oci:$F/image:latest" "oci:$W/out:good"
	[ "$status" -eq 1 ]
	grep -q '/usr/bin/evil: not in the layers' "$W/progress"
	refused 'nobody signed it' "oci:$W/out:good" "$F/a.key.pub" signed \
		reg.example/app
	# The cure that it names.
	convert --force "${terms[@]}" "oci:$F/image:latest" "oci:$W/out:good"
	trust-check "oci:$W/out:good" "$F/a.key.pub" signed reg.example/app
	bootseer image check --against-layers "oci:$W/out:good"
}

# Somebody put artifacts into $W/out whose block maps have the digests of the blocks of
# $F/image for other bytes; his key counts for nothing here.  $W/clean has what is right.
poison()
{
	local last map

	convert "oci:$F/image:latest" "oci:$W/clean:1"
	bootseer image check --extract-data "$W/clean.data" "oci:$W/clean:1"
	map=$(bootseer image inspect "oci:$W/clean:1" | jq -r .blockmap.digest)
	zstd -qdc "$W/clean/blobs/sha256/${map#sha256:}" >"$W/map"
	convert "oci:$F/small:latest" "oci:$W/out:small"
	# Whatever their digests: artifacts are read in the order of these.
	for seed in 1 2 3 4; do
		last=$("$HERE/forge-layout.py" poison "$W/out" small "$W/map" $seed)
	done
	bootseer image sign --key "$F/other.key" --repository reg.example/app \
		--artifact "$last" "oci:$W/out:small"
}

same_as_clean() # REF
{
	bootseer image check --against-layers --extract-data "$W/got.data" "$1"
	cmp "$W/clean.data" "$W/got.data"
}

@test "blocks that a poisoned artifact names are not shared" {
	poison
	run -0 convert --sign "$F/a.key" --repository reg.example/app \
		"oci:$F/image:latest" "oci:$W/out:1"
	[[ $output =~ ([0-9]+)\ blocks?,\ new:\ ([0-9]+) ]]
	[ "${BASH_REMATCH[1]}" -gt 30 ]
	[ "${BASH_REMATCH[2]}" -gt 30 ]
	same_as_clean "oci:$W/out:1"
	# The packs of the poison are not among the image's.
	[ "$(bootseer image inspect "oci:$W/out:1" | jq '.packs | length')" -eq 1 ]
}

@test "beside a poisoned artifact, blocks of a signed one are shared" {
	poison
	"$HERE/make-image.py" "$W/second" good 2
	convert --sign "$F/a.key" --repository reg.example/app \
		"oci:$W/second:latest" "oci:$W/out:2"
	run -0 convert --sign "$F/a.key" --repository reg.example/app \
		"oci:$F/image:latest" "oci:$W/out:1"
	[[ $output =~ ([0-9]+)\ blocks?,\ new:\ ([0-9]+) ]]
	[ "${BASH_REMATCH[1]}" -gt 30 ]
	[ "${BASH_REMATCH[2]}" -lt 8 ]
	same_as_clean "oci:$W/out:1"
}

@test "an artifact whose map names packs of its own is not shared with" {
	convert --no-sign "oci:$F/image:latest" "oci:$W/out:1"
	"$HERE/make-image.py" "$W/second" good 2
	cp -a "$W/out" "$W/forged"
	"$HERE/forge-layout.py" packs "$W/forged" 1
	run -0 convert --no-sign "oci:$W/second:latest" "oci:$W/out:2"
	[[ $output =~ ([0-9]+)\ blocks?,\ new:\ ([0-9]+) ]]
	[ "${BASH_REMATCH[2]}" -lt 8 ]
	run -0 convert --no-sign "oci:$W/second:latest" "oci:$W/forged:2"
	[[ $output =~ ([0-9]+)\ blocks?,\ new:\ ([0-9]+) ]]
	[ "${BASH_REMATCH[2]}" -gt 30 ]
}

@test "verify signs what the layers hold, and nothing else" {
	"$HERE/forge-layout.py" image "$W/evil" capability
	convert "oci:$F/image:latest" "oci:$W/out:good"
	convert "oci:$W/evil:latest" "oci:$W/out:evil"
	terms=(--key "$F/v.key" --repository reg.example/app)
	bootseer image verify "${terms[@]}" "oci:$W/out:good"
	run trust-check "oci:$W/out:good" "$F/v.key.pub" verified reg.example/app
	[ "$output" = "verified $(id_of "$F/v.key")" ]
	# It is good where a signature is enough, too.
	trust-check "oci:$W/out:good" "$F/v.key.pub" signed reg.example/app
	# A key for signing alone makes no such claim.  Where its public half is not
	# beside it, nodes find that out.
	run ! bootseer image verify --key "$F/a.key" \
		--repository reg.example/app "oci:$W/out:evil"
	[[ $output == *"a.key.pub' have no 'verify'"*"key new --uses verify"* ]]
	run ! bootseer image sign --key "$F/v.key" \
		--repository reg.example/app "oci:$W/out:evil"
	[[ $output == *"v.key.pub' have no 'sign'"*"key new --uses sign"* ]]
	cp "$F/a.key" "$W/a.key"
	bootseer image verify --key "$W/a.key" --repository reg.example/app \
		"oci:$W/out:evil"
	refused "'uses' have no 'verify'" "oci:$W/out:evil" "$F/a.key.pub" \
		verified reg.example/app
	forged=$("$HERE/forge-layout.py" graft "$W/out" good evil)
	# What it verified before it verifies again, also beside a stranger's.
	run -0 bootseer image verify "${terms[@]}" "oci:$W/out:good"
	[[ $output != *"$forged"* ]]
	run --separate-stderr bootseer image verify "${terms[@]}" \
		--artifact "$forged" "oci:$W/out:good"
	[ "$status" -eq 1 ]
	[ "$output" = "/usr/bin/ping: extended attributes" ]
	refused 'nobody signed it' "oci:$W/out:good" "$F/v.key.pub" verified \
		reg.example/app
}

@test "sign keeps to what a key that counts has signed, not to what others attach" {
	good=("oci:$W/out:good")
	terms=(--repository reg.example/app "${good[@]}")
	"$HERE/forge-layout.py" image "$W/evil" added
	convert --sign "$F/a.key" --repository reg.example/app \
		"oci:$F/image:latest" "${good[@]}"
	own=$(artifact_of "${good[@]}")
	convert "oci:$W/evil:latest" "oci:$W/out:evil"
	forged=$("$HERE/forge-layout.py" graft "$W/out" good evil)
	[ "$(artifact_of "${good[@]}")" = "$forged" ]
	# Anew, with an end.
	run -0 bootseer image sign --key "$F/a.key" --expires 90d "${terms[@]}"
	[[ $output == *"$own"* ]]
	# A key that follows the last one: it has to be told of that.
	run -1 bootseer image sign --key "$F/other.key" "${terms[@]}"
	[[ $output == *"2 artifacts"*"--trusted"*"--artifact"* ]]
	run -0 bootseer image sign --key "$F/other.key" --trusted "$F/a.key.pub" \
		"${terms[@]}"
	[[ $output == *": signed"*"$own"* ]]
	# A key that signed in another repository alone does not count in this one.
	bootseer key new "$W/new.key"
	run -1 bootseer image sign --key "$W/new.key" --trusted "$F/a.key.pub" \
		--repository reg.example/other "${good[@]}"
	[[ $output == *"2 artifacts"* ]]
	bootseer image inspect --artifact "$forged" "${good[@]}" |
		jq -e '.signatures == []'
	bootseer image inspect --artifact "$own" "${good[@]}" |
		jq -e '.signatures | length == 3'
	bootseer image inspect "${good[@]}" |
		jq -e --arg own "$own" '.otherArtifacts == [$own]'
	run -0 bootseer image check "${good[@]}"
	[[ $output == *"1 other artifact:"*"--artifact"* ]]
	bootseer image check --artifact "$own" --against-layers "${good[@]}"
	run -1 bootseer image check --artifact "$forged" --against-layers \
		"${good[@]}"
	# Who names it answers for it; it has to be the image's all the same.
	run -0 bootseer image sign --key "$F/other.key" --artifact "$forged" \
		"${terms[@]}"
	[[ $output == *"$forged"* ]]
	run -1 bootseer image sign --key "$F/other.key" --artifact "$own" \
		--repository reg.example/app "oci:$W/out:evil"
	[[ $output == *"belongs to another image"* ]]
	run -2 bootseer image sign --artifact latest "${terms[@]}"
}

@test "the only artifact is compared before it is signed for the first time" {
	"$HERE/forge-layout.py" image "$W/evil" added
	convert "oci:$F/image:latest" "oci:$W/out:good"
	convert "oci:$W/evil:latest" "oci:$W/out:evil"
	terms=(--key "$F/a.key" --repository reg.example/app)
	run -0 bootseer image sign "${terms[@]}" "oci:$W/out:evil"
	[[ $output == *"it is what the layers hold"* ]]
	run -0 bootseer image sign "${terms[@]}" "oci:$W/out:evil"
	[[ $output != *"it is what the layers hold"* ]]
	"$HERE/forge-layout.py" graft "$W/out" good evil
	bootseer image inspect "oci:$W/out:good" | jq -r '.otherArtifacts[]' |
		"$HERE/forge-layout.py" drop "$W/out"
	run -1 bootseer image sign "${terms[@]}" "oci:$W/out:good"
	[[ $output == *"/usr/bin/evil: not in the layers"* ]]
	refused 'nobody signed it' "oci:$W/out:good" "$F/a.key.pub" signed \
		reg.example/app
}

@test "a flat image is signed and verified like any other" {
	convert --form flat --sign "$F/a.key" --repository reg.example/app \
		"oci:$F/image:latest" "oci:$W/out:flat"
	trust-check "oci:$W/out:flat" "$F/a.key.pub" signed reg.example/app
	bootseer image check --against-layers "oci:$W/out:flat"
	bootseer image verify --key "$F/v.key" --repository reg.example/app \
		"oci:$W/out:flat"
	trust-check "oci:$W/out:flat" "$F/v.key.pub" verified reg.example/app
}

@test "every image of an index is signed" {
	"$HERE/make-image.py" "$W/index" index
	convert --platform all --sign "$F/a.key" --repository reg.example/app \
		"oci:$W/index:latest" "oci:$W/out:1"
	for platform in amd64 arm64; do
		bootseer image inspect --platform "linux/$platform" \
			"oci:$W/out:1" | jq -e '.signatures | length == 1'
	done
}

@test "wrong patterns and keys are told by status 2" {
	while read -r words; do
		eval "run --separate-stderr bootseer image sign $words"
		echo "$words: $status: $stderr"
		[ "$status" -eq 2 ]
		[ -z "$output" ]
		[ -n "$stderr" ]
	done <<-EOF
		oci:dir:tag
		--repository '*' oci:dir:tag
		--repository reg.example/a* reg.example/a:1
		--repository docker.io/app docker.io/app:1
		--key $W/none reg.example/a:1
		--expires soon reg.example/a:1
	EOF
}
