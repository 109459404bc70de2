#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Checkpoint files in a directory and in a bucket; in HDFS: store-hdfs.bats.

bats_require_minimum_version 1.5.0
load ../noise.bash
load ../wait.bash
load stores.bash
load ckpt.bash

setup_file()
{
	export F=$BATS_FILE_TMPDIR S3
	S3=$("$BATS_TEST_DIRNAME/../stores/build" versitygw)
	make_checkpoint "$F/in"
}

setup()
{
	W=$BATS_TEST_TMPDIR
	STORE=file://$W/store
	mkdir "$W/store"
}

teardown()
{
	stop_servers
}

# What is in the store, but the files that its writers lock.
objects()
{
	find "$W/store" -type f -not -path '*/.bootseer/lock/*'
}

@test "files go into a directory and come back, large ones striped" {
	round_trip "$F/in" "$W"
	[ "$(objects)" = "" ]
}

@test "files go into a bucket and come back, large ones striped" {
	export HOME=$W no_proxy='*' AWS_EC2_METADATA_DISABLED=true
	s3_server "$W/s3"
	STORE="s3://bkt/ckpt?endpoint=http://$AT"
	round_trip "$F/in" "$W"
}

@test "files go into a repository of a registry and come back, large ones striped" {
	export HOME=$W no_proxy='*' DOCKER_CONFIG=$W/none
	repo_server "$W/repo"
	STORE="docker://$AT/ckpt?plain-http=yes"
	round_trip "$F/in" "$W"
}

@test "bytes that a network changes are read again, or never given out" {
	export HOME=$W no_proxy='*' AWS_EC2_METADATA_DISABLED=true
	s3_server "$W/s3"
	fault_proxy "$AT" "$W"
	STORE="s3://bkt/ckpt?endpoint=http://$PROXY"
	ckpt cp "$F/in/model.pt" :model.pt
	fault 'match=^GET .*/c03' kind=wrong-got at=1500000
	ckpt cp :model.pt "$W/back"
	cmp "$W/back" "$F/in/model.pt"
	proxied '^GET .*/c03.* wrong-got'
	rm "$W/back"
	fault 'match=^GET .*/c03' kind=wrong-got at=1500000 times=1000
	run -1 ckpt cp :model.pt "$W/back"
	[[ $output == *"'model.pt' is damaged at byte "* ]]
	[ "$(find "$W" -maxdepth 1 -name 'back*')" = "" ]
}

@test "a copy out of a bucket asks once for its manifest, and of columns their bytes alone" {
	export HOME=$W no_proxy='*' AWS_EC2_METADATA_DISABLED=true
	s3_server "$W/s3"
	fault_proxy "$AT" "$W"
	STORE="s3://bkt/ckpt?endpoint=http://$PROXY"
	ckpt cp --columns=8 "$F/in/model.pt" :model.pt
	curl -sf -X POST "http://$PROXY/clear"
	ckpt cp :model.pt "$W/back"
	cmp "$W/back" "$F/in/model.pt"
	proxied '^(GET|HEAD) .*/model.pt.bsm' >"$W/manifests"
	[ "$(wc -l <"$W/manifests")" = 1 ]
	[ -z "$(proxied '^HEAD .*/c0[0-7] ')" ]
}

@test "a copy over a file of a bucket looks once at what it hides, and once before it is replaced" {
	export HOME=$W no_proxy='*' AWS_EC2_METADATA_DISABLED=true
	s3_server "$W/s3"
	fault_proxy "$AT" "$W"
	STORE="s3://bkt/ckpt?endpoint=http://$PROXY"
	ckpt cp "$F/in/model.pt" :model.pt
	curl -sf -X POST "http://$PROXY/clear"
	ckpt cp "$F/in/model.pt" :model.pt
	proxied '^HEAD .*/model.pt ' >"$W/looks"
	[ "$(wc -l <"$W/looks")" = 2 ]
}

@test "a plain file of a bucket comes with one request, or one for its begin and those for the rest" {
	export HOME=$W no_proxy='*' AWS_EC2_METADATA_DISABLED=true
	s3_server "$W/s3"
	fault_proxy "$AT" "$W"
	STORE="s3://bkt/ckpt?endpoint=http://$PROXY"
	head -c 1000 /dev/urandom >"$W/in.1000"
	head -c 3000000 /dev/urandom >"$W/in.3000000"
	: >"$W/in.0"
	for n in 0 1000 3000000; do
		ckpt cp "$W/in.$n" ":$n"
		curl -sf -X POST "http://$PROXY/clear"
		ckpt cp ":$n" "$W/out"
		cmp "$W/in.$n" "$W/out"
		proxied "^(GET|HEAD) [^ ]*/$n " >"$W/asked.$n"
	done
	[ "$(wc -l <"$W/asked.1000")" = 1 ]
	[ "$(wc -l <"$W/asked.3000000")" = 2 ]
	run ! grep HEAD "$W/asked.1000" "$W/asked.3000000"
}

@test "a time beyond the year 2262 is the last one that there is" {
	local file=$W/in last=9223372036

	cp "$F/in/model.pt" "$file"
	touch -d 2400-01-01 "$file"
	[ "$(stat -c %Y "$file")" -gt "$last" ]
	ckpt cp "$file" :striped
	cp -p "$file" "$W/store/plain"
	for name in striped plain; do
		ckpt cp ":$name" "$W/$name"
		[ "$(stat -c %Y "$W/$name")" = "$last" ]
	done
}

@test "a column of a bucket that is missing, short or not there to be read is said" {
	local column

	export HOME=$W no_proxy='*' AWS_EC2_METADATA_DISABLED=true
	s3_server "$W/s3"
	fault_proxy "$AT" "$W"
	STORE="s3://bkt/ckpt?endpoint=http://$PROXY"
	ckpt cp --columns=8 "$F/in/model.pt" :model.pt
	column=$(find "$W/s3" -name c03)
	fault 'match=^GET .*/c03' kind=status code=403
	run -1 ckpt cp :model.pt "$W/back"
	[[ $output == *c03*403* ]]
	truncate -s -5 "$column"
	run -1 ckpt cp :model.pt "$W/back"
	[[ $output == *"'model.pt' is damaged: "*"c03 is shorter than what was written"* ]]
	rm "$column"
	run -1 ckpt cp :model.pt "$W/back"
	[[ $output == *"'model.pt' is damaged: "*"c03 is missing"* ]]
	[ ! -e "$W/back" ]
}

@test "a copy into a bucket asks about the path while it asks about the store, and sends no parts" {
	local copy

	export HOME=$W no_proxy='*' AWS_EC2_METADATA_DISABLED=true
	s3_server "$W/s3"
	fault_proxy "$AT" "$W"
	STORE="s3://bkt/ckpt?endpoint=http://$PROXY"
	noise $((15 << 20)) 9 >"$W/f"
	fault 'match=^PUT .*/.bootseer/tmp/' kind=wait
	ckpt cp "$W/f" :d/f 3>&- &
	copy=$!
	wait_for proxied '^GET .*/d/f.bsm'
	curl -sf -X POST "http://$PROXY/go"
	wait "$copy"
	ckpt cp :d/f "$W/back"
	cmp "$W/back" "$W/f"
	proxied '^PUT .*/c0[01] ' >"$W/columns"
	[ "$(wc -l <"$W/columns")" = 2 ]
	[ -z "$(proxied '^POST')" ]
}

@test "what others wrote is a file, and they can read what is small" {
	mkdir "$W/store/old"
	cp "$F/in/optimizer.pt" "$W/store/old/weights"
	ckpt cp :old/weights "$W/back"
	cmp "$W/back" "$F/in/optimizer.pt"
	ckpt cp "$F/in/config.json" :old/
	cmp "$W/store/old/config.json" "$F/in/config.json"
	# Striped from now on; there is one file of that name.
	ckpt cp "$F/in/model.pt" :old/weights
	[ ! -e "$W/store/old/weights" ]
	[ "$(ckpt ls old | tr '\n' ' ')" = 'config.json weights ' ]
	# No name is an order to the terminal.
	mkdir "$W/store/odd"
	: >"$W/store/odd/"$'\xc2\x9b2J'
	[ "$(ckpt ls odd)" = '??2J' ]
	[[ $(ckpt ls -l odd) == *' ??2J' ]]
}

@test "no file hides a folder, and none lies below a file" {
	local f

	ckpt cp "$F/in/config.json" :new/plain
	for f in config.json optimizer.pt; do
		run -1 ckpt cp "$F/in/$f" :new
		[[ $output == *"':new' is a folder: write ':new/'"* ]]
	done
	[ "$(ckpt ls)" = 'new/' ]
	ckpt cp "$F/in/optimizer.pt" :new/
	for f in plain optimizer.pt; do
		run -1 ckpt cp "$F/in/config.json" ":new/$f/below"
		[[ $output == *"':new/$f' is a file, and no folder"* ]]
		run -1 ckpt cp -r "$F/in/shard" ":new/$f/deep/er"
		[[ $output == *"':new/$f' is a file, and no folder"* ]]
	done
	[ "$(ckpt ls new | tr '\n' ' ')" = 'optimizer.pt plain ' ]
}

@test "what is not there is no empty folder, and a file is listed as itself" {
	[ "$(ckpt ls)" = "" ]
	run -1 ckpt ls none
	[[ $output == *"there is no 'none'"* ]]
	ckpt cp "$F/in/config.json" :d/small
	ckpt cp "$F/in/optimizer.pt" :d/large
	[ "$(ckpt ls d/small)" = d/small ]
	[[ $(ckpt ls -l d/large) == *'1 column '*' d/large' ]]
}

@test "names of folders may end in a slash" {
	ckpt cp "$F/in/config.json" :d/small
	ckpt cp "$F/in/optimizer.pt" :d/large
	[ "$(ckpt ls d/ | tr '\n' ' ')" = 'large small ' ]
	ckpt verify d/ | grep -q '^2 files, '
	ckpt adopt --dry-run --plain --drop-attributes d/ | grep -q '^1 file, '
	ckpt cp -r :d/ "$W/back"
	cmp "$W/back/large" "$F/in/optimizer.pt"
	ckpt rm -r d/
	[ "$(ckpt ls)" = "" ]
}

@test "each damaged file is named, and the others are checked" {
	ckpt cp "$F/in/optimizer.pt" :run/a
	find "$W/store/.bootseer/data" -name c00 -exec truncate -s 1000 {} +
	ckpt cp "$F/in/optimizer.pt" :run/b
	find "$W/store/.bootseer/data" -name c00 -size +1M -delete
	ckpt cp "$F/in/optimizer.pt" :run/c
	run -1 --separate-stderr ckpt verify run
	[ "$output" = "" ]
	[[ $stderr == *"'run/a' is damaged: "*"c00 is shorter than what was written"* ]]
	[[ $stderr == *"'run/b' is damaged: "*"c00 is missing"* ]]
	[[ $stderr == *"2 of 3 files are damaged, or cannot be read"* ]]
	[[ $stderr != *run/c* ]]
	ckpt verify run/c
}

@test "a file that is replaced while it is verified is looked at as what it is then" {
	local direct pid

	export HOME=$W no_proxy='*' AWS_EC2_METADATA_DISABLED=true
	s3_server "$W/s3"
	fault_proxy "$AT" "$W"
	direct="s3://bkt/ckpt?endpoint=http://$AT"
	STORE="s3://bkt/ckpt?endpoint=http://$PROXY"
	ckpt cp "$F/in/config.json" :f
	fault match='/ckpt/f( |$)' kind=wait
	ckpt verify >"$W/said" 2>&1 3>&- &
	pid=$!
	wait_for proxied '/ckpt/f 200 wait'
	echo 'another, longer' >"$W/other"
	"$bootseer" ckpt cp "$direct" "$W/other" :f
	curl -sf -X POST "http://$PROXY/go"
	wait "$pid"
	cat "$W/said"
	grep -q '^1 file, 16 B: all is as it was written' "$W/said"
}

@test "a store that goes away while it is verified is one error" {
	export HOME=$W no_proxy='*' AWS_EC2_METADATA_DISABLED=true
	s3_server "$W/s3"
	fault_proxy "$AT" "$W"
	STORE="s3://bkt/ckpt?endpoint=http://$PROXY"
	for f in a b c; do
		ckpt cp "$F/in/config.json" ":$f"
	done
	# Of each file: what is only of one is none of the others'.
	fault match='/ckpt/[abc]( |$)' kind=refuse times=100000
	run -1 --separate-stderr ckpt verify --store-timeout=1s
	[[ $stderr == *"3 of 3 files are damaged, or cannot be read"* ]]
	# Of all, but for the list.
	curl -sf -X POST "http://$PROXY/clear"
	fault match=. kind=refuse skip=1 times=100000
	run -1 --separate-stderr ckpt verify --store-timeout=1s
	echo "$stderr"
	# Beside what tells of the wait.
	errors=$(grep -v ' has not answered for ' <<<"$stderr")
	[[ $errors == 'bootseer ckpt verify: the store is away: s3://bkt/ckpt: '* ]]
	[ "$(wc -l <<<"$errors")" -eq 1 ]
}

@test "memory that a file's columns cannot do with is refused at once" {
	run -1 ckpt cp --memory=16M "$F/in/model.pt" :f
	[[ $output == *"a file of 8 columns needs 32 MiB of memory, and there are 16: "* ]]
	[[ $output == *"(--memory)"*"(--columns)" ]]
	ckpt cp --memory=32M "$F/in/model.pt" :f
	ckpt cp --memory=16M --columns=4 "$F/in/model.pt" :f
	ckpt verify --memory=16M
	export HOME=$W no_proxy='*' AWS_EC2_METADATA_DISABLED=true
	s3_server "$W/s3"
	STORE="s3://bkt/ckpt?endpoint=http://$AT"
	run -1 ckpt cp --memory=63M "$F/in/model.pt" :f
	[[ $output == *"needs 64 MiB of memory"* ]]
	ckpt cp --memory=64M "$F/in/model.pt" :f
	ckpt cp --memory=16M --columns=2 "$F/in/model.pt" :f
	ckpt verify --memory=16M
}

@test "a byte that changes in the store is an error that names it" {
	local column

	ckpt cp "$F/in/model.pt" :model.pt
	column=$(find "$W/store/.bootseer/data" -name c03)
	printf '\125' | dd of="$column" bs=1 seek=1234567 conv=notrunc status=none
	run -1 ckpt verify
	[[ $output == *"'model.pt' is damaged at byte "*"/c03 is not what was written"* ]]
	run -1 ckpt cp :model.pt "$W/back"
	[ "$(find "$W" -maxdepth 1 -name 'back*')" = "" ]
	truncate -s 1000 "$column"
	run -1 ckpt verify
	[[ $output == *"c03 is shorter than what was written"* ]]
	# The rest of the file is there; what is damaged can be replaced.
	ckpt cp "$F/in/model.pt" :model.pt
	ckpt verify
}

age_data()
{
	find "$W/store/.bootseer/data" -type f -exec touch -d '2 days ago' {} +
}

@test "gc removes what nobody names, and nothing when that is not known" {
	ckpt cp "$F/in/model.pt" :a
	ckpt cp --columns=8 "$F/in/shard/rank-0.pt" :b
	ckpt rm b
	# Not for a day from when it was written, nor from when it was first seen unnamed.
	[ "$(ckpt gc | head -n 1)" = '0 objects, 0 B removed' ]
	ckpt gc | grep -qx '8 objects, 38.1 MiB that no file needs are younger than --older'
	age_data
	ckpt gc | grep -qx '8 objects, .* that no file needs wait for a later gc'
	[ "$(ckpt gc | head -n 1)" = '0 objects, 0 B removed' ]
	[ "$(find "$W/store/.bootseer/data" -type f -name 'c*' | wc -l)" = 16 ]
	age_data
	[ "$(ckpt gc --dry-run)" = '8 objects, 38.1 MiB would be removed' ]
	[ "$(ckpt gc)" = '8 objects, 38.1 MiB removed' ]
	[ "$(find "$W/store/.bootseer/data" -type f | wc -l)" = 8 ]
	ckpt cp --columns=8 "$F/in/shard/rank-0.pt" :b
	ckpt rm b
	printf 'x' | dd of="$W/store/a.bsm" bs=1 seek=20 conv=notrunc status=none
	run -1 ckpt gc --older=0s
	[[ $output == *"nothing was removed: which data 'a' needs is not known"* ]]
	ckpt rm a
	[ "$(find "$W/store/.bootseer/data" -type f | wc -l)" = 16 ]
	ckpt gc --older=0s | grep -q '^16 objects, '
	[ "$(objects)" = "" ]
}

@test "two that write one file at once leave one of both, whole, and the other is told" {
	local a b said=0

	ckpt cp "$F/in/model.pt" :f 3>&- &
	a=$!
	ckpt cp "$F/in/shard/rank-0.pt" :f 3>&- &
	b=$!
	wait "$a" || said=1
	wait "$b" || said=$((said + 1))
	# Whoever began when the other was done has replaced its file.
	[ "$said" -le 1 ]
	ckpt verify
	ckpt cp :f "$W/back"
	cmp -s "$W/back" "$F/in/model.pt" || cmp "$W/back" "$F/in/shard/rank-0.pt"
}

@test "a store that does not answer is told of, and given up in time" {
	local said='has not answered for 2.0 s: it is given up after 4.0 s' i command waits=()
	local commands=('ls' 'stat f' 'verify' 'gc' 'rm f' 'adopt' "cp $F/in/config.json :f"
		'cp :f back' "mount --run=$W/run $W/mnt")

	export HOME=$W no_proxy='*' AWS_EC2_METADATA_DISABLED=true
	s3_server "$W/s3"
	fault_proxy "$AT" "$W"
	mkdir "$W/mnt"
	cd "$W"
	PATH=$BOOTSEER_BUILD/ckpt-fuse/mount:$PATH
	STORE="s3://bkt/ckpt?endpoint=http://$PROXY"
	ckpt cp "$F/in/config.json" :f
	fault match=. kind=hold times=100000
	for i in "${!commands[@]}"; do
		read -ra command <<<"${commands[i]}"
		ckpt "${command[0]}" --store-timeout=4s "${command[@]:1}" 2>"said.$i" 3>&- &
		waits+=($!)
	done
	for i in "${!commands[@]}"; do
		wait_fails "${waits[i]}"
		cat "said.$i"
		grep -q "^bootseer: s3://bkt/ckpt $said" "said.$i"
		grep -qE "^bootseer ckpt ${commands[i]%% *}: .*(hangs|timed out)" "said.$i"
	done
	[ ! -e back ]
	[ ! -e run ]
	# One that is asked for something, and only refuses; of what is short nothing is said.
	curl -sf -X POST "http://$PROXY/clear"
	# Without a wish of its own waits are by chance, and the last may be too long to begin.
	fault match=. kind=status code=503 after=1 times=100000
	run -1 ckpt ls --store-timeout=4s
	[[ $output == *"bootseer: s3://bkt/ckpt $said"* ]]
	run -1 ckpt ls --store-timeout=900ms
	[ "${#lines[@]}" = 1 ]
	run -1 "$bootseer" env ls --store-timeout=4s "$STORE"
	[[ $output == *"bootseer: s3://bkt/ckpt $said"* ]]
	# One that is slow is none.
	curl -sf -X POST "http://$PROXY/clear"
	run -0 --separate-stderr ckpt ls
	[ -z "$stderr" ]
}

@test "mistakes are told with what to do" {
	local store

	run -2 "$bootseer" ckpt cp /tmp/x a :b
	[[ $output == *"'/tmp/x' is no store: say file:///DIR"* ]]
	run -2 ckpt cp a b
	[[ $output == *"one of 'a' and 'b' is in the store, and begins with a colon"* ]]
	run -2 "$bootseer" ckpt cp "$STORE" :a ''
	[[ $output == *"a path is empty"* ]]
	run -1 ckpt cp "$F/in" :in
	[[ $output == *"is no file, but a folder (-r)"* ]]
	run -1 ckpt cp "$W/nothing" :in
	[[ $output == *"nothing': No such file"* ]]
	run -1 ckpt cp "$F/in/config.json" :.bootseer/data/x
	[[ $output == *".bootseer is for the data of striped files"* ]]
	run -1 ckpt cp "$F/in/config.json" :x.bsm
	[[ $output == *"names that end in .bsm"* ]]
	run -2 ckpt rm :
	[[ $output == *"that is the whole store"* ]]
	mkdir -p "$W/store/d"
	: >"$W/store/d/f"
	run -1 ckpt rm d
	[[ $output == *"remove it with -r"* ]]
	run -1 ckpt cp :d "$W/out"
	[[ $output == *"':d' is a folder: copy it with -r"* ]]
	run -2 ckpt cp --columns=65 "$F/in/config.json" :x
	[[ $output == *"--columns"*64* ]]
	for store in "$STORE?parallel=65" "$STORE?no=option" ftp://x/y s3://; do
		run -2 "$bootseer" ckpt ls "$store"
		run -2 "$bootseer" ckpt mount "$store" "$W"
	done
	run -2 "$bootseer" ckpt mount --metrics=9999 "$STORE" "$W"
	[[ $output == *"--metrics"* ]]
	run -1 "$bootseer" ckpt ls "file://$W/none"
	mkfifo "$W/fifo"
	run -1 ckpt cp "$W/fifo" :x
	[[ $output == *"is no file"* ]]
}
