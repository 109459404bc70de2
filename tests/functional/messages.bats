#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What a person is told who got something wrong: the thing, and the cure.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/node.bash"

snapshotter=$BOOTSEER_BUILD/containerd-plugin/bootseer-snapshotter
registry=$BOOTSEER_BUILD/registry/bootseer-registry

setup() {
	T=$(mktemp -d /var/tmp/messages.XXXXXX)
	pids=()
	export BOOTSEER_SOCKET=$T/run/bootseerd.sock
}

teardown() { node_teardown; }

# --- configuration ------------------------------------------------------------

@test "a check of a configuration tells file and line" {
	printf '%s\n' '# mine' 'plain-http = [ "http://a:1" ];' >"$T/node.conf"
	run -2 "$bootseerd" --config "$T/node.conf" --check-config
	[[ $output == *"'$T/node.conf': line 2: --plain-http 'http://a:1'"*without* ]]
	# What the command line says instead is not in the file.
	run -2 "$bootseerd" --config "$T/node.conf" --plain-http http://b:1 \
		--check-config
	[[ $output == *"--plain-http 'http://b:1'"* ]]
	[[ $output != *line* ]]
	printf '%s\n' '' '' 'scope = "docker://a";' >"$T/plugin.conf"
	run -2 "$snapshotter" --config "$T/plugin.conf" --check-config
	[[ $output == *"'$T/plugin.conf': line 3: --scope 'docker://a'"* ]]
	run -2 "$bootseerd" --config "$T/none.conf" --check-config
	[[ $output == *--config*"'$T/none.conf': No such file"* ]]
}

@test "a folder that cannot be made is told before the start" {
	printf '%s\n' '# mine' "root = \"$T/none/root\";" >"$T/c.conf"
	for daemon in "$bootseerd" "$snapshotter"; do
		run -2 "$daemon" --config "$T/c.conf" --check-config
		[[ $output == *"line 2: --root"*"there is no '$T/none'"* ]]
	done
	run -2 "$bootseerd" --root "$T/root" --run "$T/none/run" --check-config
	[[ $output == *"--run"*"there is no '$T/none'"* ]]
	"$bootseerd" --root "$T/root" --run "$T/run" --check-config
}

@test "bootseerd says in one line that it wants root" {
	chmod 755 "$T"
	cp "$bootseerd" "$T/bootseerd"
	# The build is not below a folder that a user may enter.
	run -2 setpriv --reuid 65534 --clear-groups "$T/bootseerd" \
		--root "$T/root" --run "$T/run"
	[ "${#lines[@]}" -eq 1 ]
	[[ $output == *'user 65534'*'as root'* ]]
	setpriv --reuid 65534 --clear-groups "$T/bootseerd" \
		--root "$T/root" --run "$T/run" --check-config
}

# options_of PROGRAM: the names of all, a line each.
options_of() {
	"$1" --help | sed -nE 's/^ {2,6}(-[a-z], )?--([a-z0-9-]+).*/\2/p'
}

@test "each option is a key of the file, but those that the manual names" {
	local name exceptions option daemon

	for daemon in "$bootseerd" "$snapshotter" "$registry"; do
		name=${daemon##*/}
		exceptions=" $(tr '\n' ' ' \
			<"$BATS_TEST_DIRNAME/../../docs/man/$name.8.scd.in" |
			grep -oE 'Each option but .* is also a key' |
			grep -oE -- '--[a-z-]+' | tr '\n' ' ') "
		[[ $exceptions == *' --config '* ]]
		[ "$(options_of "$daemon" | wc -l)" -ge 10 ]
		for option in $(options_of "$daemon"); do
			# No text is a group, so no value is taken.
			echo "$option = { };" >"$T/c.conf"
			run -2 "$daemon" --config "$T/c.conf" --check-config
			[[ $output == *"line 1: "*"'$option'"* ]]
			case $exceptions in
			*" --$option "*)
				[[ $output == *'unknown key'* ||
					$output == *'command line only'* ]]
				;;
			*) [[ $output == *"key '$option': want one value"* ]] ;;
			esac
		done
	done
}

# --- references and images ----------------------------------------------------

@test "a reference that is none is told how it is written" {
	for case in \
		'http://h:5000/app:1|leave out http://*--plain-http*bootseerd.conf' \
		'docker://http://h:5000/app:1|leave out http://*--plain-http' \
		'https://h/app:1|leave out https://' \
		'/srv/layout|oci:DIR*docker-archive:FILE' \
		'./layout:1|oci:DIR*docker-archive:FILE' \
		'dir:/srv/layout|HOST*oci:DIR' \
		'busybox:1|docker.io/library/busybox:1' \
		'h/app:-x|128 letters'; do
		run -2 "$bootseer" image inspect "${case%%|*}"
		# shellcheck disable=SC2053 # a pattern is wanted
		[[ $output == *"'${case%%|*}'"*${case#*|}* ]]
	done
}

# image_of DIR TYPE FILE [OS]: an image with FILE as its second layer, of that media
# type; without FILE the layer is not there.
image_of() {
	python3 - "$@" <<-'END'
	import gzip, hashlib, io, json, os, sys, tarfile
	at, kind, file, system = (sys.argv[1:] + ["linux"])[:4]
	os.makedirs(at + "/blobs/sha256")
	def put(data, kind, keep=True):
	    name = hashlib.sha256(data).hexdigest()
	    if keep:
	        open(f"{at}/blobs/sha256/{name}", "wb").write(data)
	    return {"mediaType": kind, "digest": "sha256:" + name, "size": len(data)}
	out = io.BytesIO()
	with tarfile.open(fileobj=out, mode="w") as tar:
	    tar.addfile(tarfile.TarInfo("file"))
	plain = out.getvalue()
	oci = "application/vnd.oci.image."
	layers = [put(plain, oci + "layer.v1.tar"),
	          put(open(file, "rb").read() if file else b"gone", kind, file)]
	config = {"os": system, "architecture": "amd64", "rootfs": {
	    "type": "layers", "diff_ids": [layers[0]["digest"]] * 2}}
	image = {"schemaVersion": 2, "mediaType": oci + "manifest.v1+json",
	         "config": put(json.dumps(config).encode(), oci + "config.v1+json"),
	         "layers": layers}
	top = put(json.dumps(image).encode(), image["mediaType"])
	top["annotations"] = {"org.opencontainers.image.ref.name": "1"}
	json.dump({"schemaVersion": 2, "manifests": [top]}, open(at + "/index.json", "w"))
	json.dump({"imageLayoutVersion": "1.0.0"}, open(at + "/oci-layout", "w"))
	print(layers[1]["digest"][:19])
	END
}

@test "a layer that is not read is named, and what to do" {
	local digest oci=application/vnd.oci.image.layer

	tar -C "$BATS_TEST_DIRNAME" -cf "$T/layer.tar" node.bash
	for name in bzip2 xz; do
		python3 -c 'import bz2, lzma, sys
f = {"bzip2": bz2, "xz": lzma}[sys.argv[1]]
sys.stdout.buffer.write(f.compress(sys.stdin.buffer.read()))' "$name" \
			<"$T/layer.tar" >"$T/layer.$name"
		digest=$(image_of "$T/$name" $oci.v1.tar "$T/layer.$name")
		run -1 "$bootseer" image convert "oci:$T/$name:1" "oci:$T/out:1"
		[[ $output == *"layer 2 of 2 ($digest): "*"$name ($oci.v1.tar)"*gzip* ]]
	done
	digest=$(image_of "$T/plain" $oci.v1.tar "$T/layer.tar")
	openssl genrsa -out "$T/key" 2048 2>/dev/null
	openssl rsa -in "$T/key" -pubout -out "$T/key.pub" 2>/dev/null
	skopeo copy -q --encryption-key "jwe:$T/key.pub" --encrypt-layer 1 \
		"oci:$T/plain:1" "oci:$T/encrypted:1"
	for form in referrer index; do
		run -1 "$bootseer" image convert --form "$form" "oci:$T/encrypted:1" "oci:$T/out:1"
		[[ $output == *"layer 2 of 2 (sha256:"*"): it is encrypted ($oci"*"kind jwe"*decrypt* ]]
	done
	digest=$(image_of "$T/erofs" application/vnd.erofs.layer.v1+zstd "$T/layer.tar")
	run -1 "$bootseer" image convert "oci:$T/erofs:1" "oci:$T/out:1"
	[[ $output == *"layer 2 of 2 ($digest): not an EROFS image"* ]]
	digest=$(image_of "$T/foreign" $oci.nondistributable.v1.tar+gzip '')
	run -1 "$bootseer" image convert "oci:$T/foreign:1" "oci:$T/out:1"
	[[ $output == *"layer 2 of 2 ($digest): it is non-distributable ($oci.non"*push* ]]
	digest=$(image_of "$T/other" application/x-other "$T/layer.tar")
	run -1 "$bootseer" image convert "oci:$T/other:1" "oci:$T/out:1"
	[[ $output == *"layer 2 of 2 ($digest): "*"'application/x-other'"*tar* ]]
	# What is damaged is not taken for a compression.
	digest=$(image_of "$T/damaged" $oci.v1.tar /etc/passwd)
	run -1 "$bootseer" image convert "oci:$T/damaged:1" "oci:$T/out:1"
	[[ $output == *"layer 2 of 2 ($digest): "* ]]
	[[ $output != *compressed* ]]
}

@test "an image for Windows is refused" {
	image_of "$T/w" application/vnd.oci.image.layer.v1.tar /etc/passwd windows
	run -1 "$bootseer" image convert "oci:$T/w:1" "oci:$T/out:1"
	[[ $output == *"oci:$T/w:1"*'an image for windows'*--platform* ]]
}

@test "a platform is OS/ARCH" {
	image_of "$T/i" application/vnd.oci.image.layer.v1.tar /etc/passwd
	for wrong in amd64 linux linux/ /amd64; do
		run -2 "$bootseer" image convert --platform "$wrong" \
			"oci:$T/i:1" "oci:$T/out:1"
		[[ $output == *"'$wrong' is not OS/ARCH, as in linux/amd64" ]]
		run -1 "$bootseer" image inspect --platform "$wrong" "oci:$T/i:1"
		[[ $output == *"'$wrong' is not OS/ARCH, as in linux/amd64" ]]
	done
	run -1 "$bootseer" image convert --platform linux/arm64 "oci:$T/i:1" \
		"oci:$T/out:1"
	[[ $output == *'for linux/amd64, not for linux/arm64'* ]]
}

@test "docker-archive: as a destination is refused, with what there is" {
	run -2 "$bootseer" image convert oci:src:1 "docker-archive:$T/o.tar"
	[[ $output == *'docker-archive: is only read'*docker://*oci:DIR* ]]
}

# --- disks --------------------------------------------------------------------

# A folder with SIZE bytes of disk of its own.
small_disk() { # SIZE
	mkdir "$T/small"
	mount -t tmpfs -o "size=$1" none "$T/small"
}

big_image() {
	noise 12000000 5 >"$T/noise"
	tar -C "$T" -cf "$T/layer.tar" noise
	image_of "$T/i" application/vnd.oci.image.layer.v1.tar "$T/layer.tar" \
		>/dev/null
	python3 - "$T/i" <<-'END'
	# The diff ids as they are, so that the image is a good one.
	import hashlib, json, sys
	at = sys.argv[1]
	def load(d): return json.load(open(f"{at}/blobs/sha256/{d[7:]}"))
	def put(o):
	    data = json.dumps(o).encode()
	    name = hashlib.sha256(data).hexdigest()
	    open(f"{at}/blobs/sha256/{name}", "wb").write(data)
	    return "sha256:" + name, len(data)
	index = json.load(open(at + "/index.json"))
	image = load(index["manifests"][0]["digest"])
	config = load(image["config"]["digest"])
	config["rootfs"]["diff_ids"] = [l["digest"] for l in image["layers"]]
	image["config"]["digest"], image["config"]["size"] = put(config)
	top = index["manifests"][0]
	top["digest"], top["size"] = put(image)
	json.dump(index, open(at + "/index.json", "w"))
	END
}

@test "a full disk is told by its folder, and what is missing" {
	small_disk 4m
	big_image
	run -1 "$bootseer" image convert --temp-dir "$T/small" "oci:$T/i:1" \
		"oci:$T/out:1"
	[[ $output == *"the disk of '$T/small' is full: "*' more are wanted '*--temp-dir* ]]
	run -1 "$bootseer" image convert --temp-dir "$T/none" "oci:$T/i:1" \
		"oci:$T/out:1"
	[[ $output == *"'$T/none': No such file"*--temp-dir* ]]
	"$bootseer" image convert "oci:$T/i:1" "oci:$T/out:1"
	# What fills a disk to the last byte is told, too.
	run -1 dd if=/dev/zero of="$T/small/fill" bs=64k
	run -1 timeout 60 "$bootseerd" --root "$T/small/root" --run "$T/run"
	[[ $output == *"the disk of '$T/small/root/cache' is full: "*--root* ]]
}

# --- the node -----------------------------------------------------------------

@test "two bootseerd on one root: the second says what to do" {
	"$bootseerd" --root "$T/root" --run "$T/run" 2>"$T/log" 3>&- &
	pids+=($!)
	node_pid=$!
	wait_for node_is_up
	run -1 "$bootseerd" --root "$T/root" --run "$T/run2"
	[[ $output == *"'$T/root/cache' is used by another process: end that"*--root* ]]
	run -1 "$bootseerd" --root "$T/root2" --run "$T/run"
	[[ $output == *"another bootseerd uses '$T/run': end it"*--run* ]]
}

is_tail() { [ "$(readlink "/proc/$1/exe")" = "$(readlink -f "$(command -v tail)")" ]; } # PID

@test "a folder that is in use is told with who uses it, and nothing is unmounted" {
	local holder

	D=$T
	mkdir "$T/mnt"
	big_image
	: >"$T/file"
	run -1 "$bootseer" image convert "oci:$T/i:1" "oci:$T/file:v1"
	[[ $output == *"layout '$T/file': it, "*'is a file: name a folder' ]]
	"$bootseer" image convert "oci:$T/i:1" "oci:$T/oci:v1"
	registry_start
	node_start
	run -1 "$bootseer" image umount "$T/none"
	[[ $output == *"'$T/none': No such file"*'findmnt'* ]]
	run -1 "$bootseer" image mount "$IMAGE" "$T/none"
	[[ $output == *"'$T/none': No such file"*'make the folder first'* ]]
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	tail -f /dev/null <"$T/mnt/noise" 3>&- &
	pids+=($!)
	holder=$!
	wait_for is_tail "$holder"
	run -1 "$bootseer" image umount "$T/mnt"
	[[ $output == *"'$T/mnt': in use by "*"(pid $holder)"*'end that first' ]]
	[ -e "$T/mnt/noise" ]
	kill "$holder"
	wait "$holder" || :
	# By its working folder, and by a mount below it.
	(cd "$T/mnt" && exec tail -f /dev/null 3>&-) &
	pids+=($!)
	holder=$!
	wait_for is_tail "$holder"
	run -1 "$bootseer" image umount "$T/mnt"
	[[ $output == *"tail (pid $holder)"* ]]
	kill "$holder"
	wait "$holder" || :
	"$bootseer" image umount "$T/mnt"
}

@test "a mount of bootseerd's own that is in use is told with what shows by whom" {
	local own

	D=$T
	mkdir "$T/mnt"
	big_image
	"$bootseer" image convert "oci:$T/i:1" "oci:$T/oci:v1"
	registry_start
	node_start
	"$bootseer" image mount "$IMAGE" "$T/mnt"
	own=$(awk -v t="$T/r" 'index($5, t) == 1 && / (erofs|fuse[^ ]*) / { print $5 }' \
		/proc/self/mountinfo | tail -n 1)
	[ -e "$own/noise" ]
	(cd "$own" && exec tail -f /dev/null 3>&-) &
	pids+=($!)
	wait_for is_tail $!
	run -1 "$bootseer" image umount "$T/mnt"
	[[ $output == *"in use: 'fuser -vm $own' shows by whom, end that first" ]]
	kill "${pids[-1]}"
	wait "${pids[-1]}" || :
	"$bootseer" image umount "$T/mnt"
}

@test "a tag that is not there, and a folder without a mount, are told" {
	D=$T
	mkdir "$T/mnt"
	image_of "$T/oci" application/vnd.oci.image.layer.v1.tar /etc/passwd
	run -1 "$bootseer" image inspect "oci:$T/oci:none"
	[[ $output == *"layout '$T/oci' has no tag 'none': 'bootseer image ls oci:DIR'"* ]]
	registry_start
	node_start
	run -1 "$bootseer" image inspect --plain-http "$REGISTRY/img:none"
	[[ $output == *"manifest 'none': "*'it is not there: check name, tag'*'image ls'* ]]
	run -1 "$bootseer" image umount "$T/mnt"
	[[ $output == *"no image is mounted at '$T/mnt': 'findmnt' lists what is" ]]
	echo mine >"$T/file"
	run -1 "$bootseer" image mount "$IMAGE" "$T/file"
	[[ $output == *"'$T/file': Not a directory: name a folder" ]]
}

@test "what a done prefetch has fetched of an image is said" {
	D=$T
	big_image
	"$bootseer" image convert "oci:$T/i:1" "oci:$T/oci:v1"
	registry_start
	node_start
	run -1 "$bootseer" image prefetch --hot "$IMAGE"
	[[ $output == *'no trace of a start'*'image record'*--all* ]]
	"$bootseer" image prefetch --all --wait "$IMAGE"
	run -0 "$bootseer" node status
	[[ $output == *'prefetch  done, '*' of the image'* ]]
	# Removing it says what nodes lose.
	run -0 "$bootseer" image rm --plain-http "docker://$IMAGE"
	[[ $output == *'pull the image in full from now on'*"prefetch --all docker://$IMAGE"* ]]
}

@test "trace ls says what its columns mean" {
	run -0 "$bootseer" trace ls --help
	[[ ${output//$'\n'/ } == *'RUNS is of how many recorded starts'* ]]
}

# --- arguments ----------------------------------------------------------------

@test "an argument too many is named, also to a check of a configuration" {
	for daemon in "$bootseerd" "$snapshotter" "$registry"; do
		run -2 "$daemon" extra
		[[ $output == *"'extra' is one argument too many: usage: ${daemon##*/} ["* ]]
		run -2 "$daemon" --check-config start
		[[ $output == *"'start' is one argument too many: usage: "* ]]
	done
	run -2 "$bootseer" image inspect h/a:1 h/b:1
	[[ $output == *"'h/b:1' is one argument too many: usage: "*REF ]]
	run -2 "$bootseer" image mount h/a:1
	[[ $output == *'1 of its arguments is missing: usage: '*'REF DIR' ]]
	run -2 "$bootseer" image convert
	[[ $output == *'2 of its arguments are missing: usage: '*'SRC DST' ]]
}

@test "an option before the command is told its place" {
	run -2 "$bootseer" --plain-http image inspect h/a:1
	[[ $output == *"'--plain-http': options stand behind the command"*COMMAND* ]]
}

@test "an address to listen at is checked before the start" {
	for wrong in 0.0.0.0:99999 127.0.0.1:http localhost:0 :9720 9720; do
		run -2 "$bootseerd" --root "$T/root" --run "$T/run" \
			--metrics "$wrong" --check-config
		[[ $output == *"--metrics '$wrong' is not ADDR:PORT: want "*65535* ]]
		run -2 "$registry" --db "sqlite:$T/db" --listen "$wrong" \
			--check-config
		[[ $output == *"--listen '$wrong' is not ADDR:PORT: want "*65535* ]]
	done
	for right in 0.0.0.0:65535 '[::]:0' 127.0.0.1:9720; do
		"$bootseerd" --root "$T/root" --run "$T/run" \
			--metrics "$right" --check-config
	done
}

@test "paths of the plugin are absolute, and its socket takes no file's place" {
	local long

	for option in --root --address --node --containerd-state; do
		run -2 "$snapshotter" --root "$T/root" --check-config $option rel
		[[ $output == *"$option 'rel' is no absolute path: begin it with /" ]]
	done
	echo mine >"$T/file"
	run -2 "$snapshotter" --root "$T/root" --address "$T/file"
	[[ $output == *"--address '$T/file' is there, and no socket: name another"* ]]
	[ "$(<"$T/file")" = mine ]
	long=$T/$(printf 'x%.0s' {1..100})
	run -2 "$snapshotter" --root "$T/root" --address "$long" --check-config
	[[ $output == *"--address '$T/xx"*'over 103 bytes: choose a shorter path' ]]
	run -2 "$snapshotter" --root "$T/root" --address "$T/no/such/s" --check-config
	[[ $output == *"--address: make folder '$T/no/such': there is no '$T/no'"* ]]
}

@test "a file where a folder is wanted is told before the start" {
	echo mine >"$T/file"
	run -2 "$snapshotter" --root "$T/file" --check-config
	[[ $output == *"--root: '$T/file' is no folder: name another"* ]]
	for option in --root --run; do
		run -2 "$bootseerd" --root "$T/root" --run "$T/run" \
			$option "$T/file" --check-config
		[[ $output == *"$option: '$T/file' is no folder: name another"* ]]
	done
}

# --- keys and credentials -----------------------------------------------------

@test "a key that is none is told with what makes one" {
	run -1 "$bootseer" key show "$T/none"
	[[ $output == *"there is no key at '$T/none': "*'bootseer key new'* ]]
	"$bootseer" key new "$T/key"
	run -1 "$bootseer" key new "$T/key"
	[[ $output == *"'$T/key' is there, and a key is never overwritten: name another"* ]]
	echo text >"$T/text"
	for mode in 644 600; do
		chmod "$mode" "$T/text"
		run -1 "$bootseer" image sign --key "$T/text" --plain-http \
			127.0.0.1:1/app:1
		case $mode in
		644) [[ $output == *"'$T/text': "*"chmod 600 '$T/text'" ]] ;;
		*) [[ $output == *"'$T/text': it holds no private key"*'openssl genpkey'* ]] ;;
		esac
	done
	openssl ecparam -name prime256v1 -genkey -noout -out "$T/ec.key"
	chmod 600 "$T/ec.key"
	run -1 "$bootseer" image sign --key "$T/ec.key" --plain-http 127.0.0.1:1/app:1
	[[ $output == *"'$T/ec.key': it is no Ed25519 key: 'bootseer key new'"* ]]
	run -2 "$bootseer" image sign --key "$T" --plain-http 127.0.0.1:1/app:1
	[[ $output == *"'$T' is a folder: name a file in it" ]]
}

@test "files of credentials and certificates are told with where they come from" {
	for program in "$bootseer image inspect h/app:1" \
		"$bootseerd --root $T/root --run $T/run --check-config"; do
		# shellcheck disable=SC2086 # words
		run -2 $program --auth-file "$T/none"
		[[ $output == *"--auth-file': '$T/none' is not there: 'docker login' makes"* ]]
		# shellcheck disable=SC2086 # words
		run -2 $program --ca-file "$T"
		[[ $output == *"--ca-file': '$T' is a folder: name a file in it" ]]
	done
	run -2 "$bootseer" image inspect --ca-file "$T/none" h/app:1
	[[ $output == *"'$T/none' is not there: ask who runs the registry"* ]]
	run -2 "$bootseerd" --root "$T/root" --run "$T/run" --check-config \
		--p2p-tls "$T/none"
	[[ $output == *"--p2p-tls: '$T/none/tls.crt': No such file or directory"* ]]
}

# --- bootseer-registry --------------------------------------------------------

# refused STATUS MESSAGE OPTION...: what bootseer-registry says of the options.
refused() {
	local status=$1 message=$2

	shift 2
	run "-$status" timeout 60 "$registry" --listen 127.0.0.1:0 \
		--db "sqlite:$T/traces.db" --insecure-no-auth "$@"
	# shellcheck disable=SC2053 # a pattern is wanted
	[[ $output == *$message* ]]
}

@test "bootseer-registry tells what is wrong with its files" {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
		-keyout "$T/tls.key" -out "$T/tls.crt" -subj /CN=x 2>/dev/null
	echo text >"$T/text"
	chmod 600 "$T/text"
	refused 2 "--tls-cert '$T/none': No such file or directory: mend the path" \
		--tls-cert "$T/none" --tls-key "$T/tls.key"
	refused 2 "--tls-cert '$T' is a folder: name a file in it" \
		--tls-cert "$T" --tls-key "$T/tls.key"
	refused 2 "--tls-cert '$T/tls.key': there is no CERTIFICATE in it" \
		--tls-cert "$T/tls.key" --tls-key "$T/tls.crt"
	refused 2 "--tls-key '$T/text': there is no PRIVATE KEY in it" \
		--tls-cert "$T/tls.crt" --tls-key "$T/text"
	refused 2 "--tls-client-ca '$T/text': there is no CERTIFICATE in it" \
		--tls-cert "$T/tls.crt" --tls-key "$T/tls.key" \
		--tls-client-ca "$T/text"
	refused 2 "tokens file '$T/none' is not there: "*"NAME sha256:HEX ROLE" \
		--tokens "$T/none"
	: >"$T/empty"
	refused 2 "tokens file '$T/empty' has no token, so nobody may call" \
		--tokens "$T/empty"
	refused 2 "tokens file '$T/text': line 1: wanted: NAME sha256:HEX"*sha256sum \
		--tokens "$T/text"
	refused 2 "--tls-cert and --tls-key go together: name --tls-key too" \
		--tls-cert "$T/tls.crt"
	refused 2 "--registry 'http://h' is not HOST[[]:PORT]: "*without \
		--registry http://h
	refused 2 "--registry-ca '$T/none': No such file or directory: mend" \
		--registry h --registry-ca "$T/none"
	refused 2 "'$T/text': it holds no private key"*'openssl genpkey' \
		--capability-key "$T/text" --registry h:5000
}

@test "bootseer-registry tells what is wrong with its database" {
	refused 2 "--db 'mysql' is neither sqlite:/PATH nor postgresql://HOST/NAME" \
		--db mysql://user:secret@h/db
	[[ $output != *secret* ]]
	refused 2 "--db 'sqlite:rel.db' has no absolute path: begin it with /" \
		--db sqlite:rel.db
	echo text >"$T/text"
	refused 1 "'$T/text': it is there and no SQLite database: name another" \
		--db "sqlite:$T/text"
	mkdir "$T/folder"
	refused 1 "'$T/folder': it cannot be opened, or made: name a file" \
		--db "sqlite:$T/folder"
	refused 1 "check host, port, name and user of --db" \
		--db postgresql://127.0.0.1:1/x
	small_disk 4k
	refused 1 "$T/small/db': its disk is full: free some" \
		--db "sqlite:$T/small/db"
}

# --- images and traces from files ---------------------------------------------

@test "a file that is no image, or no trace, is told with what makes one" {
	echo text >"$T/text"
	mkdir "$T/folder"
	run -1 "$bootseer" image convert "docker-archive:$T/text" "oci:$T/o:1"
	[[ $output == *"archive '$T/text': it is no tar archive: 'docker save'"* ]]
	run -1 "$bootseer" image convert "docker-archive:$T/folder" "oci:$T/o:1"
	[[ $output == *"archive '$T/folder': it is a folder: oci:DIR"* ]]
	run -1 "$bootseer" image convert "docker-archive:$T/none" "oci:$T/o:1"
	[[ $output == *"'$T/none': No such file or directory: mend the path"* ]]
	run -1 "$bootseer" image inspect "oci:$T/none:1"
	[[ $output == *"'$T/none' is not there: mend the path, or "*'skopeo copy'* ]]
	run -1 "$bootseer" image inspect "oci:$T/folder:1"
	[[ $output == *"'$T/folder' is no OCI layout: "*'skopeo copy'* ]]
	run -1 "$bootseer" key show "$T/folder"
	[[ $output == *"'$T/folder' is a folder: name a key file in it" ]]
	run -1 "$bootseer" trace show "$T/none"
	[[ $output == *"there is no trace at '$T/none': "*'image record --output'* ]]
	run -1 "$bootseer" trace show "$T/folder"
	[[ $output == *"'$T/folder' is a folder: name a file in it" ]]
	for command in show merge; do
		run -1 "$bootseer" trace $command "$T/text"
		[[ $output == *"$T/text: "*'no trace at all: '*'image record --output'* ]]
	done
	: >"$T/empty"
	run -1 "$bootseer" trace show "$T/empty"
	[[ $output == *"$T/empty: it is empty: "*'image record --output'* ]]
}
