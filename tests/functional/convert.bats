#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# bootseer image convert and its neighbours, against umoci's unpack of the same
# image and against hostile layers.

bats_require_minimum_version 1.5.0
load ../noise.bash

setup_file()
{
	export PATH=$BOOTSEER_BUILD/cli:$PATH
	export HERE=$BATS_TEST_DIRNAME F=$BATS_FILE_TMPDIR
	"$HERE/make-image.py" "$F/image" good 1
	"$HERE/make-image.py" "$F/second" good 2
	"$HERE/make-image.py" "$F/gzip" good 1 gzip
	umoci unpack --image "$F/gzip:latest" "$F/bundle" >/dev/null
	"$HERE/list-tree.py" "$F/bundle/rootfs" >"$F/want"
	[ "$(wc -l <"$F/want")" -gt 350 ]
}

setup()
{
	W=$BATS_TEST_TMPDIR
	MOUNTED=
	REGISTRY_PID=
}

teardown()
{
	[ -z "$MOUNTED" ] || umount "$MOUNTED"
	[ -z "$REGISTRY_PID" ] || kill "$REGISTRY_PID"
	rm -rf --one-file-system "$W"
}

convert() { bootseer image convert "$@" 2>"$W/progress"; }

# Names and sizes of all blobs of a layout.
blobs() { (cd "$1/blobs/sha256" && ls -l --time-style=+ | awk '{ print $5, $6 }'); }

mount_erofs() # METADATA DATA DIR
{
	mkdir -p "$3"
	python3 - "$@" <<-'EOF'
	import ctypes, os, sys
	meta, data, at = (os.fsencode(a) for a in sys.argv[1:])
	libc = ctypes.CDLL(None, use_errno=True)
	if libc.mount(meta, at, b"erofs", 1, b"device=" + data):
	    sys.exit("mount: " + os.strerror(ctypes.get_errno()))
	EOF
	MOUNTED=$3
}

# The tree of a converted image, as the kernel shows it.
list_converted() # REF
{
	bootseer image check --extract-metadata "$W/meta" \
		--extract-data "$W/data" "$1" >&2
	mount_erofs "$W/meta" "$W/data" "$W/mnt"
	"$HERE/list-tree.py" "$W/mnt"
	umount "$W/mnt"
	MOUNTED=
}

start_registry() # sets REGISTRY
{
	local port

	cat >"$W/registry.yml" <<-EOF
	version: 0.1
	log: { level: error }
	storage: { filesystem: { rootdirectory: $W/registry },
	           delete: { enabled: true } }
	http: { addr: "127.0.0.1:0" }
	EOF
	docker-registry serve "$W/registry.yml" >"$W/registry.log" 2>&1 &
	REGISTRY_PID=$!
	# The kernel chose the port; wait until it is listened on.
	for _ in $(seq 2000); do
		port=$(ss -Hltnp | awk -v pid="pid=$REGISTRY_PID," '
			index($0, pid) { sub(/.*:/, "", $4); print $4 }')
		[ -z "$port" ] || break
		read -rt 0.01 <> <(:) || :
	done
	[ -n "$port" ]
	REGISTRY=127.0.0.1:$port
}

@test "everything that a rootfs can hold survives, every byte of it" {
	convert "oci:$F/image:latest" "oci:$W/out:1"
	list_converted "oci:$W/out:1" >"$W/got"
	diff "$F/want" "$W/got"
}

@test "the kernel's own checker accepts the metadata" {
	convert "oci:$F/image:latest" "oci:$W/out:1"
	bootseer image check --extract-metadata "$W/meta" \
		--extract-data "$W/data" "oci:$W/out:1"
	fsck.erofs --device="$W/data" "$W/meta"
}

@test "the image itself is copied untouched" {
	convert "oci:$F/gzip:latest" "oci:$W/out:1"
	umoci unpack --image "$W/out:1" "$W/bundle"
	"$HERE/list-tree.py" "$W/bundle/rootfs" | diff "$F/want" -
	for blob in "$F"/gzip/blobs/sha256/*; do
		cmp "$blob" "$W/out/blobs/sha256/${blob##*/}"
	done
}

@test "a flat image is an ordinary image with the same files" {
	convert --form flat "oci:$F/image:latest" "oci:$W/out:flat"
	umoci unpack --image "$W/out:flat" "$W/bundle"
	"$HERE/list-tree.py" "$W/bundle/rootfs" | diff "$F/want" -
	list_converted "oci:$W/out:flat" | diff "$F/want" -
	[ "$(umoci stat --image "$W/out:flat" --json | jq '.history | length')" -le 1 ]
}

@test "flat images that differ in times alone keep an artifact each" {
	for time in 1 2; do
		"$HERE/make-image.py" "$W/$time" times $time
		convert --form flat "oci:$W/$time:latest" "oci:$W/out:$time"
	done
	# Nothing that no tag leads to survives a registry's garbage collection.
	for time in 1 2; do
		artifact=$(bootseer image inspect "oci:$W/out:$time" |
			jq -r .artifact)
		jq -e --arg d "$artifact" '[.manifests[] | select(.digest == $d)
			| .annotations["org.opencontainers.image.ref.name"]]
			| any' "$W/out/index.json"
	done
}

@test "the result does not depend on the number of jobs" {
	for jobs in 1 2 7; do
		convert --jobs $jobs "oci:$F/image:latest" "oci:$W/$jobs:1"
		convert --jobs $jobs "oci:$F/second:latest" "oci:$W/$jobs:2"
		convert --jobs $jobs --form flat "oci:$F/image:latest" \
			"oci:$W/$jobs:flat"
		convert --jobs $jobs --form index "oci:$F/gzip:latest" \
			"oci:$W/$jobs:index"
		blobs "$W/$jobs" >"$W/blobs.$jobs"
	done
	diff "$W/blobs.1" "$W/blobs.2"
	diff "$W/blobs.1" "$W/blobs.7"
}

@test "a higher level takes fewer bytes, and blocks that are there stay as they are" {
	local level

	for level in 1 19; do
		convert --level $level "oci:$F/image:latest" "oci:$W/$level:1"
		bootseer image check --against-layers "oci:$W/$level:1"
	done
	[ "$(du -sb "$W/19" | cut -f1)" -lt "$(du -sb "$W/1" | cut -f1)" ]
	blobs "$W/1" >"$W/before"
	run -0 convert --level 19 --force "oci:$F/image:latest" "oci:$W/1:1"
	[[ $output == *"new: 0;"* ]]
	run ! bootseer image convert --level 20 "oci:$F/image:latest" \
		"oci:$W/20:1"
	[[ $output == *"--level"* ]]
}

@test "a second version stores only what changed" {
	convert "oci:$F/image:latest" "oci:$W/out:1"
	run -0 convert "oci:$F/second:latest" "oci:$W/out:2"
	[[ $output =~ ([0-9]+)\ blocks?,\ new:\ ([0-9]+) ]]
	[ "${BASH_REMATCH[1]}" -gt 30 ]
	[ "${BASH_REMATCH[2]}" -lt 8 ]
	bootseer image check "oci:$W/out:2"
	# What it shares is named by its manifest, so a registry keeps it.
	bootseer image inspect "oci:$W/out:1" | jq -r '.packs[].digest' |
		sort >"$W/first"
	bootseer image inspect "oci:$W/out:2" | jq -r '.packs[].digest' |
		sort >"$W/second"
	[ "$(comm -12 "$W/first" "$W/second" | wc -l)" -eq 1 ]
}

@test "converting again does nothing unless it is forced" {
	convert "oci:$F/image:latest" "oci:$W/out:1"
	blobs "$W/out" >"$W/before"
	run -0 convert "oci:$W/out:1" "oci:$W/out:1"
	[[ $output == *"converted before"* ]]
	run -0 convert --force "oci:$W/out:1" "oci:$W/out:1"
	[[ $output == *"new: 0;"* ]]
	blobs "$W/out" | diff "$W/before" -
}

# An artifact of the image beside the one it has, with a member changed.
add_artifact() # DIR MEMBER VALUE
{
	python3 - "$@" <<-'EOF'
	import hashlib, json, sys
	top, member, value = sys.argv[1:]
	index = json.load(open(top + "/index.json"))
	blob = lambda d: top + "/blobs/sha256/" + d.split(":")[1]
	def put(o):
	    data = json.dumps(o).encode()
	    d = "sha256:" + hashlib.sha256(data).hexdigest()
	    open(blob(d), "wb").write(data)
	    return d, len(data)
	old = next(m for m in index["manifests"] if "artifactType" in m)
	manifest = json.load(open(blob(old["digest"])))
	config = json.load(open(blob(manifest["config"]["digest"])))
	config[member] = int(value)
	manifest["config"]["digest"], manifest["config"]["size"] = put(config)
	new = dict(old)
	new["digest"], new["size"] = put(manifest)
	index["manifests"].append(new)
	json.dump(index, open(top + "/index.json", "w"))
	EOF
}

artifacts() # DIR
{
	jq '[.manifests[] | select(.artifactType)] | length' "$1/index.json"
}

artifact() { bootseer image inspect "$1" | jq -r .artifact; }

@test "a forced conversion removes what it replaces with --prune only" {
	convert "oci:$F/image:latest" "oci:$W/out:1"
	add_artifact "$W/out" format 99
	# The one of a newer format is passed over, then replaced.
	bootseer image check "oci:$W/out:1"
	convert --force "oci:$W/out:1" "oci:$W/out:1"
	[ "$(artifacts "$W/out")" -eq 2 ]
	bootseer image check "oci:$W/out:1"
	used=$(artifact "oci:$W/out:1")
	convert --prune "oci:$W/out:1" "oci:$W/out:1"
	[ "$(artifacts "$W/out")" -eq 1 ]
	[ "$(artifact "oci:$W/out:1")" = "$used" ]
	bootseer image check "oci:$W/out:1"
}

@test "readers take the artifact of a forced conversion, however they are listed" {
	convert "oci:$F/image:latest" "oci:$W/out:1"
	first=$(artifact "oci:$W/out:1")
	add_artifact "$W/out" inodes 12345
	wrong=$(artifact "oci:$W/out:1")
	[ "$wrong" != "$first" ]
	convert --force "oci:$W/out:1" "oci:$W/out:1"
	[ "$(artifacts "$W/out")" -eq 3 ]
	used=$(artifact "oci:$W/out:1")
	[ "$used" != "$first" ]
	[ "$used" != "$wrong" ]
	for order in reverse sort_by\(.digest\) reverse; do
		jq -c ".manifests |= $order" "$W/out/index.json" >"$W/turned"
		cp "$W/turned" "$W/out/index.json"
		[ "$(artifact "oci:$W/out:1")" = "$used" ]
	done
	bootseer image check "oci:$W/out:1"
	convert --force --prune "oci:$W/out:1" "oci:$W/out:1"
	[ "$(artifacts "$W/out")" -eq 1 ]
	[ "$(artifact "oci:$W/out:1")" != "$wrong" ]
	bootseer image check "oci:$W/out:1"
}

@test "inspect, ls and rm tell of the artifact and remove it" {
	convert "oci:$F/image:latest" "oci:$W/out:1"
	digest=$(bootseer image inspect "oci:$W/out:1" | jq -r .artifact)
	[[ $digest == sha256:* ]]
	[ "$(bootseer image ls "oci:$W/out" | jq -r '.[].images[].artifact')" \
		= "$digest" ]
	bootseer image rm "oci:$W/out:1"
	run -1 bootseer image inspect "oci:$W/out:1"
	[[ $output == *"no artifact"* ]]
	[ "$(bootseer image ls "oci:$W/out" | jq -r '.[].tag')" = 1 ]
	convert --form flat "oci:$F/image:latest" "oci:$W/flat:1"
	bootseer image rm "oci:$W/flat:1"
	run -1 bootseer image inspect "oci:$W/flat:1"
	umoci stat --image "$W/flat:1"
}

@test "check finds a flipped bit in every kind of blob" {
	convert "oci:$F/image:latest" "oci:$W/out:1"
	bootseer image inspect "oci:$W/out:1" >"$W/info"
	for what in .metadata .blockmap '.packs[0]'; do
		blob=$W/out/blobs/sha256/$(jq -r "$what.digest" "$W/info" |
			cut -d: -f2)
		cp "$blob" "$W/saved"
		size=$(stat -c %s "$blob")
		printf '\x55' | dd of="$blob" bs=1 seek=$((size / 2)) \
			conv=notrunc status=none
		run -1 bootseer image check --extract-metadata "$W/meta" \
			--extract-data "$W/data" "oci:$W/out:1"
		[ ! -e "$W/meta" ]
		[ ! -e "$W/data" ]
		cat "$W/saved" >"$blob"
	done
	bootseer image check "oci:$W/out:1"
}

@test "check writes to files alone, and removes no device" {
	convert "oci:$F/image:latest" "oci:$W/out:1"
	mknod "$W/null" c 1 3
	run -1 bootseer image check --extract-metadata "$W/null" \
		"oci:$W/out:1"
	[ -c "$W/null" ]
	[[ $output == *"no regular file"* ]]
}

@test "every platform of an index is converted, or the one that is named" {
	"$HERE/make-image.py" "$W/index" index
	convert --platform all "oci:$W/index:latest" "oci:$W/out:all"
	[ "$(bootseer image ls "oci:$W/out" |
		jq '[.[].images[].artifact] | length')" -eq 2 ]
	bootseer image check --platform linux/arm64 "oci:$W/out:all"
	bootseer image check --platform linux/amd64 "oci:$W/out:all"
	convert --platform linux/arm64 "oci:$W/index:latest" "oci:$W/one:arm"
	bootseer image check "oci:$W/one:arm"
	run -1 bootseer image convert --platform linux/mips \
		"oci:$W/index:latest" "oci:$W/one:no"
	[[ $output == *arm64* ]]
}

@test "an index in an index is one more place to look, to a depth" {
	"$HERE/make-image.py" "$W/nested" nested 3
	convert --platform linux/arm64 "oci:$W/nested:latest" "oci:$W/one:arm"
	bootseer image check "oci:$W/one:arm"
	convert --platform all "oci:$W/nested:latest" "oci:$W/all:1"
	for arch in amd64 arm64; do
		bootseer image check --platform linux/$arch "oci:$W/all:1"
	done
	[ "$(bootseer image ls "oci:$W/all" |
		jq '[.[].images[].artifact] | length')" -eq 2 ]
	# The indexes are there as they were.
	for blob in "$W"/nested/blobs/sha256/*; do
		cmp "$blob" "$W/all/blobs/sha256/${blob##*/}"
	done
	run -1 bootseer image convert --platform linux/mips \
		"oci:$W/nested:latest" "oci:$W/one:no"
	[[ $output == *'no image for linux/mips, but for: linux/amd64, linux/arm64'* ]]
	"$HERE/make-image.py" "$W/deep" nested 4
	for platform in linux/amd64 all; do
		run -1 bootseer image convert --platform $platform \
			"oci:$W/deep:latest" "oci:$W/one:no"
		[[ $output == *'more than 4 indexes in each other'* ]]
	done
}

# Give each manifest that an index of the layout lists, or itself is, an artifactType.
type_manifests() # LAYOUT TYPE CONFIG-TYPE
{
	python3 - "$@" <<'END'
import hashlib, json, sys

path, kind, config = sys.argv[1:]

def blob(digest):
    return path + "/blobs/sha256/" + digest[7:]

def typed(d):
    with open(blob(d["digest"])) as f:
        m = json.load(f)
    if "manifests" in m:
        m["manifests"] = [typed(e) for e in m["manifests"]]
    else:
        m["artifactType"] = d["artifactType"] = kind
        m["config"]["mediaType"] = config
    data = json.dumps(m).encode()
    d["digest"] = "sha256:" + hashlib.sha256(data).hexdigest()
    d["size"] = len(data)
    with open(blob(d["digest"]), "wb") as f:
        f.write(data)
    return d

with open(path + "/index.json") as f:
    index = json.load(f)
index["manifests"] = [typed(d) for d in index["manifests"]]
with open(path + "/index.json", "w") as f:
    json.dump(index, f)
END
}

@test "an image that has an artifactType as well is converted, an artifact is not" {
	local config=application/vnd.oci.image.config.v1+json

	"$HERE/make-image.py" "$W/one" times 1500000000
	type_manifests "$W/one" application/vnd.example.app "$config"
	bootseer image convert "oci:$W/one:latest" "oci:$W/out:1"
	bootseer image check --against-layers "oci:$W/out:1"
	"$HERE/make-image.py" "$W/index" index
	type_manifests "$W/index" application/vnd.example.app "$config"
	bootseer image convert --platform all "oci:$W/index:latest" \
		"oci:$W/out:2"
	for platform in amd64 arm64; do
		bootseer image check --platform "linux/$platform" "oci:$W/out:2"
	done
	"$HERE/make-image.py" "$W/chart" times 1500000001
	type_manifests "$W/chart" application/vnd.example.chart \
		application/vnd.example.config+json
	run ! bootseer image convert "oci:$W/chart:latest" "oci:$W/out:3"
	[[ $output == *"it is no image but of type 'application/vnd.example.chart'"* ]]
}

@test "an image without layers is refused in words that say so" {
	"$HERE/make-image.py" "$W/none" none
	run -1 bootseer image convert "oci:$W/none:latest" "oci:$W/out:1"
	[[ $output == *'it has no layers, so nothing that could be loaded lazily'* ]]
}

@test "an image of one platform is not taken for one of another" {
	for platform in linux/amd64 all; do
		convert --platform "$platform" "oci:$F/image:latest" \
			"oci:$W/out:1"
	done
	run -1 bootseer image convert --platform linux/arm64 \
		"oci:$F/image:latest" "oci:$W/no:1"
	[[ $output == *'for linux/amd64, not for linux/arm64'* ]]
	[ -z "$(ls "$W/no/blobs/sha256")" ]
	bootseer image check --platform linux/amd64 "oci:$W/out:1"
	run -1 bootseer image check --platform linux/arm64 "oci:$W/out:1"
	[[ $output == *'for linux/amd64, not for linux/arm64'* ]]
}

@test "hostile and damaged layers are refused by name and publish nothing" {
	cases=$("$HERE/make-image.py" - bad list)
	[ "$(wc -l <<<"$cases")" -ge 18 ]
	for case in $cases; do
		"$HERE/make-image.py" "$W/$case" bad "$case"
		run -1 timeout 60 bootseer image convert \
			"oci:$W/$case:latest" "oci:$W/out-$case:1"
		echo "$case: $output"
		[[ $output == *"bootseer image convert: convert oci:"*:* ]]
		[[ $case == diff-id-count || $output == *"layer 1 of "*" (sha256:"* ]]
		[ -z "$(ls "$W/out-$case/blobs/sha256")" ]
		# A sanitizer's report is a failure of its own.
		[[ $output != *Sanitizer* && $output != *"runtime error"* ]]
	done
}

@test "a registry holds what a layout holds" {
	start_registry
	repo=docker://$REGISTRY/some/app
	convert --plain-http "oci:$F/image:latest" "$repo:1"
	convert --plain-http "oci:$F/image:latest" "oci:$W/out:1"
	bootseer image check --plain-http "$repo:1"
	[ "$(bootseer image inspect --plain-http "$repo:1" | jq .artifact)" = \
		"$(bootseer image inspect "oci:$W/out:1" | jq .artifact)" ]
	# From registry to registry, and what an ordinary client sees of it.
	convert --plain-http "$repo:1" "docker://$REGISTRY/other:1"
	skopeo copy --src-tls-verify=false "docker://$REGISTRY/other:1" \
		"oci:$W/pulled:1"
	bootseer image check --plain-http "docker://$REGISTRY/other:1"
	run -0 convert --plain-http "oci:$F/second:latest" "$repo:2"
	[[ $output =~ new:\ ([0-9]+) ]]
	[ "${BASH_REMATCH[1]}" -lt 8 ]
	convert --plain-http --form flat "oci:$F/image:latest" "$repo:flat"
	bootseer image check --plain-http "$repo:flat"
	bootseer image rm --plain-http "$repo:1"
	run -1 bootseer image inspect --plain-http "$repo:1"
	bootseer image check --plain-http "$repo:2"
}

@test "a layer without padding at its end, as umoci insert writes it, is taken" {
	noise 700 2 >"$W/file"
	umoci init --layout "$W/in"
	umoci new --image "$W/in:1"
	umoci insert --image "$W/in:1" "$W/file" /file
	convert "oci:$W/in:1" "oci:$W/out:1" >/dev/null
	list_converted "oci:$W/out:1" >/dev/null
	mount_erofs "$W/meta" "$W/data" "$W/mnt"
	cmp "$W/file" "$W/mnt/file"
	umount "$W/mnt"
	MOUNTED=
}

@test "a layer cut off inside a file's last block is refused" {
	"$HERE/make-image.py" "$W/in" good 1
	python3 - "$W/in" <<-'EOF'
	import hashlib, io, json, os, sys, tarfile
	root = sys.argv[1]
	tar = io.BytesIO()
	with tarfile.open(fileobj=tar, mode="w") as t:
	    info = tarfile.TarInfo("file")
	    info.size = 700
	    t.addfile(info, io.BytesIO(b"x" * 700))
	layer = tar.getvalue()[:512 + 600]
	def put(data):
	    d = hashlib.sha256(data).hexdigest()
	    open(f"{root}/blobs/sha256/{d}", "wb").write(data)
	    return {"digest": "sha256:" + d, "size": len(data)}
	index = json.load(open(root + "/index.json"))
	blob = lambda d: f"{root}/blobs/sha256/{d['digest'][7:]}"
	manifest = json.load(open(blob(index["manifests"][0])))
	config = json.load(open(blob(manifest["config"])))
	desc = put(layer)
	config["rootfs"]["diff_ids"] = [desc["digest"]]
	manifest["config"].update(put(json.dumps(config).encode()))
	manifest["layers"] = [desc | {"mediaType":
	    "application/vnd.oci.image.layer.v1.tar"}]
	index["manifests"][0].update(put(json.dumps(manifest).encode()))
	json.dump(index, open(root + "/index.json", "w"))
	EOF
	run convert "oci:$W/in" "oci:$W/out:1"
	[ "$status" -eq 1 ]
	grep -q 'cut off' <<<"$output" "$W/progress"
}

@test "an artifact of a newer format is not replaced unless forced" {
	convert "oci:$F/image" "oci:$W/out:1" >/dev/null
	python3 - "$W/out" <<-'EOF'
	import hashlib, json, sys
	root = sys.argv[1]
	def put(obj):
	    data = json.dumps(obj).encode()
	    d = hashlib.sha256(data).hexdigest()
	    open(f"{root}/blobs/sha256/{d}", "wb").write(data)
	    return {"digest": "sha256:" + d, "size": len(data)}
	get = lambda d: json.load(open(f"{root}/blobs/sha256/{d['digest'][7:]}"))
	index = json.load(open(root + "/index.json"))
	entry, = (e for e in index["manifests"] if "artifactType" in e)
	manifest = get(entry)
	config = get(manifest["config"])
	config["format"] = 3
	manifest["config"].update(put(config))
	entry.update(put(manifest))
	json.dump(index, open(root + "/index.json", "w"))
	EOF
	cp "$W/out/index.json" "$W/before"
	run convert "oci:$F/image" "oci:$W/out:1"
	[ "$status" -eq 1 ]
	grep -q -e '--force' <<<"$output" "$W/progress"
	cmp "$W/before" "$W/out/index.json"
	convert --force "oci:$F/image" "oci:$W/out:1" >/dev/null
	bootseer image check "oci:$W/out:1"
}

# --- layers that are EROFS images -------------------------------------------------

# The layer FILEs, of the types that their names end with, are image DIR:1.
erofs_image() { # DIR FILE.TYPE...
	python3 - "$@" <<-'EOF'
	import hashlib, json, os, subprocess, sys
	at, files = sys.argv[1], sys.argv[2:]
	os.makedirs(at + "/blobs/sha256")
	def put(data, kind):
	    name = hashlib.sha256(data).hexdigest()
	    open(f"{at}/blobs/sha256/{name}", "wb").write(data)
	    return {"mediaType": kind, "digest": "sha256:" + name, "size": len(data)}
	oci, layers, ids = "application/vnd.oci.image.", [], []
	for file in files:
	    data = open(file, "rb").read()
	    ids.append("sha256:" + hashlib.sha256(data).hexdigest())
	    if file.endswith("+zstd"):
	        data = subprocess.run(["zstd", "-c", file], check=True, capture_output=True).stdout
	    layers.append(put(data, "application/vnd.erofs" + file[file.index(".erofs") + 6:]))
	config = {"os": "linux", "architecture": "amd64", "os.features": ["erofs"],
	          "rootfs": {"type": "layers", "diff_ids": ids}}
	image = {"schemaVersion": 2, "mediaType": oci + "manifest.v1+json",
	         "config": put(json.dumps(config).encode(), oci + "config.v1+json"),
	         "layers": layers}
	top = put(json.dumps(image).encode(), image["mediaType"])
	top["annotations"] = {"org.opencontainers.image.ref.name": "1"}
	json.dump({"schemaVersion": 2, "manifests": [top]}, open(at + "/index.json", "w"))
	json.dump({"imageLayoutVersion": "1.0.0"}, open(at + "/oci-layout", "w"))
	EOF
}

# Two folders as layers: what an overlay of the kernel's shows of them is $W/want.
make_layers() {
	mkdir -p "$W"/low/{etc,dir/sub,old,many} "$W"/up/{etc,dir,new}
	noise 3000000 1 >"$W/low/big"
	noise 5000 2 >"$W/low/tail"
	truncate -s 10M "$W/low/sparse"
	noise 8192 3 | dd of="$W/low/sparse" bs=4096 seek=700 conv=notrunc status=none
	: >"$W/low/empty"
	for i in {1..300}; do echo "$i" >"$W/low/many/a-name-that-is-long-$i"; done
	ln "$W/low/tail" "$W/low/etc/tail-again"
	ln -s ../big "$W/low/etc/link"
	mknod "$W/low/null" c 1 3
	mkfifo "$W/low/fifo"
	echo gone >"$W/low/etc/gone"
	echo kept >"$W/low/etc/kept"
	echo below >"$W/low/dir/sub/below"
	echo old >"$W/low/old/file"
	setfattr -n user.note -v text "$W/low/tail"
	setfattr -n trusted.mark -v text "$W/low/dir"
	chown 100000:7 "$W/low/etc/kept"
	chmod 4711 "$W/low/etc/kept"
	touch -d '2001-02-03 04:05:06.789' "$W/low/big"
	mknod "$W/up/etc/gone" c 0 0
	mknod "$W/up/old" c 0 0
	setfattr -n trusted.overlay.opaque -v y "$W/up/dir"
	echo new >"$W/up/dir/new"
	echo other >"$W/up/etc/kept"
	ln "$W/up/dir/new" "$W/up/new/twice"
	mkfs.erofs --quiet -Enoinline_data "$W/low.erofs.layer.v1" "$W/low"
	mkfs.erofs --quiet "$W/low.erofs" "$W/low"
	mkfs.erofs --quiet "$W/up.erofs.layer.v1+zstd" "$W/up"
	mkdir "$W"/mnt.{low,up,all}
	mount -t erofs -o loop,ro "$W/low.erofs.layer.v1" "$W/mnt.low"
	mount -t erofs -o loop,ro "$W/up.erofs.layer.v1+zstd" "$W/mnt.up"
	mount -t overlay -o "ro,lowerdir=$W/mnt.up:$W/mnt.low" none "$W/mnt.all"
	"$HERE/list-tree.py" "$W/mnt.all" >"$W/want"
	umount "$W/mnt.all" "$W/mnt.up" "$W/mnt.low"
}

@test "layers that are EROFS images are what the kernel shows of them, in each form" {
	local form low

	make_layers
	for low in low.erofs.layer.v1 low.erofs; do
		erofs_image "$W/$low.image" "$W/$low" "$W/up.erofs.layer.v1+zstd"
		for form in referrer flat index; do
			convert --form $form "oci:$W/$low.image:1" "oci:$W/$low.$form:1"
			list_converted "oci:$W/$low.$form:1" | diff "$W/want" -
			[ $form = flat ] || bootseer image check --against-layers \
				"oci:$W/$low.$form:1"
		done
	done
	umoci unpack --image "$W/low.erofs.flat:1" "$W/bundle"
	"$HERE/list-tree.py" "$W/bundle/rootfs" | diff "$W/want" -
}

# patch_erofs FILE HOW: damage with a checksum that is right.
patch_erofs() {
	python3 - "$@" <<-'EOF'
	import struct, sys
	file, how = sys.argv[1:]
	d = bytearray(open(file, "rb").read())
	def crc32c(data, crc=0xffffffff):
	    for b in data:
	        crc ^= b
	        for _ in range(8):
	            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
	    return crc
	root = struct.unpack_from("<H", d, 1024 + 14)[0]
	if how == "cycle": # the name "sub" leads to the root
	    at = d.index(b"...filesub") - 4 * 12
	    assert struct.unpack_from("<QH", d, at)[1] == 4 * 12
	    struct.pack_into("<Q", d, at + 3 * 12, root)
	elif how == "cut":
	    d = d[:len(d) // 2 // 4096 * 4096]
	struct.pack_into("<I", d, 1024 + 4, 0)
	struct.pack_into("<I", d, 1024 + 4, crc32c(d[1024:4096]))
	open(file, "wb").write(d)
	EOF
}

@test "EROFS layers that are damaged, or need more than the layer, are refused by name" {
	local case text file

	mkdir -p "$W/tree/sub"
	noise 300000 1 | base64 >"$W/tree/file"
	tar -C "$W/tree" -cf "$W/tar.erofs" .
	mkfs.erofs --quiet -zlz4 "$W/lz4.erofs" "$W/tree"
	mkfs.erofs --quiet --chunksize=4096 --blobdev="$W/blob" "$W/device.erofs" "$W/tree"
	mkfs.erofs --quiet -Enoinline_data "$W/cycle.erofs" "$W/tree"
	cp "$W/cycle.erofs" "$W/cut.erofs"
	patch_erofs "$W/cycle.erofs" cycle
	patch_erofs "$W/cut.erofs" cut
	mkdir "$W/dotwh"
	: >"$W/dotwh/.wh.file"
	mkfs.erofs --quiet "$W/dotwh.erofs" "$W/dotwh"
	mkdir "$W/moved"
	setfattr -n trusted.overlay.redirect -v /old "$W/moved"
	mkfs.erofs --quiet "$W/moved.erofs" "$W/moved"
	for case in 'tar|not an EROFS image' 'lz4|is not read*os.features' \
		'device|os.features*another device' "cycle|entry 'sub'*two names" \
		'cut|blocks in' "dotwh|'.wh.file'*whiteout" 'moved|overlay.redirect'; do
		file=${case%%|*}
		erofs_image "$W/$file.image" "$W/$file.erofs"
		run -1 bootseer image convert "oci:$W/$file.image:1" "oci:$W/out:1"
		# shellcheck disable=SC2053 # a pattern is wanted
		[[ $output == *"layer 1 of 1 (sha256:"*${case#*|}* ]]
		[ ! -e "$W/out/index.json" ] || [ "$(jq '.manifests | length' "$W/out/index.json")" = 0 ]
	done
}
