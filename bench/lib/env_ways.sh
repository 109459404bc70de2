# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Ways to an environment, for bench/env: the wheels, the server that has them and the
# bucket, and for each way the script that a node runs.
#
#	prepare_wheels		fetch and make them, once, into the cache
#	prepare_system		the same of what "system" installs
#	start_server		index and bucket behind one address, at the origin
#	write_ways		$W/way.NAME for the $target
#	keep_archives		the installed folder by tar and conda-pack, in the bucket
#	start_mounters N WAY	a bootseerd on each node, of the ways of peers with those
#	finish_mounters N	wait until they have all
#	record_trace		have the service know what a start reads, once a target
#
# "mounted-second" is "mounted" with the package "more" besides, of $n_more files; "hashed" and
# "hashed-second" are the same two, into a folder of their own in the bucket, with bytecode of
# compileall(1) that has no times and no names of folders of pip's.
#
# nginx's limits of the index, the bucket and both are $index_limits, $bucket_limits and
# $server_limits; $more_locations are what it serves besides.
#
# A way more is a $W/way.NAME more: with $SITE, $HOME of the node and TMPDIR, it leaves
# the environment at $SITE.

# Without what else this machine has installed.
env_python=$bench_cache/env/python
ORIGIN=10.214.0.1:8080
SITE= IMPORT= store= # of the target

needed="numpy scipy pandas transformers requests pyyaml tqdm jinja2 click rich pillow
matplotlib networkx sympy scikit-learn fsspec pydantic httpx aiohttp attrs jsonschema
protobuf psutil cryptography lxml sqlalchemy flask uvicorn fastapi tabulate zstandard
msgpack joblib packaging"

# The packages come from where this machine has them from.
prepare_wheels() {
	local dir=$bench_cache/env

	mkdir -p "$dir"
	if [[ ! -s $dir/wheels/requirements ]]; then
		rm -rf "$dir/wheels.new"
		mkdir "$dir/wheels.new"
		python3 -m pip download -q -d "$dir/wheels.new" $needed >&2
		pinned "$dir/wheels.new" >"$dir/wheels.new/requirements"
		mv "$dir/wheels.new" "$dir/wheels"
	fi
	if [[ ! -x $env_python/bin/uv ]]; then
		python3 -m venv "$env_python"
		"$env_python/bin/python" -m pip install -q uv >&2
	fi
	[[ -x $env_python/bin/conda-pack ]] ||
		"$env_python/bin/python" -m pip install -q conda-pack >&2 ||
		log "conda-pack cannot be installed here: it is not measured"
	if [[ ! -s $dir/numpy/requirements ]]; then
		mkdir -p "$dir/numpy"
		ln -f "$dir"/wheels/numpy-*.whl "$dir/numpy/"
		pinned "$dir/numpy" >"$dir/numpy/requirements"
	fi
	[[ -s $dir/files.$n_files/requirements ]] || make_files_wheel \
		"$dir/files.$n_files" "$n_files"
	[[ -s $dir/more.$n_more/requirements ]] || make_files_wheel \
		"$dir/more.$n_more" "$n_more" more
}

# What this machine has already is in each node's root.
system_packages="ffmpeg openmpi-bin libopenmpi-dev libfftw3-dev libopenblas-dev gfortran"
system_source=hiredis==2.3.2

prepare_system() {
	local dir=$bench_cache/env/system

	need dpkg-scanpackages gcc
	[[ ! -s $dir/Packages ]] || return 0
	rm -rf "$dir"
	mkdir -p "$dir/partial"
	apt-get install -q -y --download-only --no-install-recommends \
		-o "Dir::Cache::archives=$dir" $system_packages >&2
	python3 -m pip download -q --no-deps --no-binary :all: -d "$dir" \
		$system_source >&2
	rm -rf "$dir/partial" "$dir/lock"
	(cd "$dir" && dpkg-scanpackages -m . >Packages.new 2>/dev/null)
	mv "$dir/Packages.new" "$dir/Packages"
}

# The way without any of this.
plain_way() { if [[ $target == system ]]; then echo apt; else echo pip; fi; }

# name==version of each wheel.
pinned() { # FOLDER
	find "$1" -name '*.whl' -printf '%f\n' | sort |
		sed -E 's/^([^-]+)-([^-]+)-.*/\1==\2/'
}

make_files_wheel() { # FOLDER FILES [PACKAGE]
	rm -rf "$1.new"
	mkdir "$1.new"
	python3 "$bench_dir/images/files-wheel.py" "$1.new" "${@:2}"
	pinned "$1.new" >"$1.new/requirements"
	mv "$1.new" "$1"
}

wheels_dir() {
	case $target in
	files) echo "$bench_cache/env/files.$n_files" ;;
	*) echo "$bench_cache/env/$target" ;;
	esac
}

# An index as PEP 503 has it: a folder for each name, with its files.
make_index() {
	local wheel name

	rm -rf "$W/index"
	if [[ $target == system ]]; then
		mkdir "$W/index"
		cp -r "$(wheels_dir)" "$W/index/simple"
		return
	fi
	find "$(wheels_dir)" -name '*.whl' -o -name '*.tar.gz' | while read -r wheel; do
		name=$(basename "$wheel" | sed -E 's/-[0-9].*//' |
			tr 'A-Z_.' 'a-z--')
		mkdir -p "$W/index/simple/$name"
		ln -f "$wheel" "$W/index/simple/$name/" 2>/dev/null ||
			cp "$wheel" "$W/index/simple/$name/"
	done
}

server_listens() { ss -N "$(swarm_ns origin)" -ltnpH | grep -q "pid=$1,"; }

# The bucket's server has an address of its own; nodes ask both through the front, whose
# log counts requests.
start_server() {
	local bucket

	make_index
	mkdir -p "$W/s3/bkt" "$W/front"
	export AWS_ACCESS_KEY_ID=testkey1234 AWS_SECRET_ACCESS_KEY=testsecret1234
	export AWS_EC2_METADATA_DISABLED=true no_proxy='*' AWS_REGION=us-east-1
	unset AWS_CA_BUNDLE AWS_PROFILE
	RUN_IN=(nsenter "--net=/run/netns/$(swarm_ns origin)" env
		"ROOT_ACCESS_KEY=$AWS_ACCESS_KEY_ID"
		"ROOT_SECRET_KEY=$AWS_SECRET_ACCESS_KEY")
	start_daemon "$W/s3.log" \
		"$("$bench_dir/../tests/stores/build" versitygw)/versitygw" \
		--keep-alive --port 127.0.0.1:7070 posix "$W/s3"
	bucket=$daemon_pid
	wait_until "$bucket" "$W/s3.log" server_listens "$bucket"
	cat >"$W/front/nginx.conf" <<-END
	daemon off;
	worker_processes 2;
	user root;
	pid $W/front/pid;
	error_log stderr;
	events { worker_connections 1024; }
	http {
		access_log $W/front/access.log;
		types { text/html html; }
		default_type application/octet-stream;
		sendfile on;
		keepalive_requests 1000000;
		client_max_body_size 0;
		${server_limits-}
		client_body_temp_path $W/front/body;
		proxy_temp_path $W/front/proxy;
		fastcgi_temp_path $W/front/fastcgi;
		uwsgi_temp_path $W/front/uwsgi;
		scgi_temp_path $W/front/scgi;
		upstream bucket { server 127.0.0.1:7070; keepalive 64; }
		server {
			listen $ORIGIN;
			location /simple/ {
				root $W/index;
				autoindex on;
				${index_limits-}
			}
			${more_locations-}
			location / {
				${bucket_limits-}
				proxy_pass http://bucket;
				proxy_http_version 1.1;
				proxy_set_header Connection "";
				proxy_set_header Host \$http_host;
				proxy_request_buffering off;
			}
		}
	}
	END
	: >"$W/front/access.log"
	RUN_IN=(nsenter "--net=/run/netns/$(swarm_ns origin)")
	start_daemon "$W/front/log" nginx -e stderr -p "$W/front" \
		-c "$W/front/nginx.conf"
	RUN_IN=()
	wait_until "$daemon_pid" "$W/front/log" test -s "$W/front/pid"
}

forget_snapshots() { rm -rf "$W/s3/bkt/env"; }

snapshot_bytes() { # [FOLDER]
	echo $(($(tree_bytes "$W/s3/bkt/${1:-env}/env/data") +
		$(tree_bytes "$W/s3/bkt/${1:-env}/env/packs")))
}

# What the store has of the way, without what the other ways have of it.
stored_bytes() { # WAY
	case $1 in
	pip | apt | uv-*) tree_bytes -L "$W/index" ;;
	tar) stat -c %s "$W/s3/bkt/site.tar.zst" ;;
	conda-pack) stat -c %s "$W/s3/bkt/site.tar.gz" ;;
	*) snapshot_bytes ;;
	esac
}

# The first node's, as installed.
keep_archives() {
	local site=$W/nodes/0/site

	make_nodes 1
	setup_all 1 "$W/way.$(plain_way)"
	check_nodes 1
	if [[ $target == system ]]; then
		keep_system
		return
	fi
	tar -C "$site" -cf - . | zstd -q -3 -T0 -o "$W/s3/bkt/site.tar.zst"
	[[ -x $env_python/bin/conda-pack ]] || return 0
	mkdir "$site/conda-meta"
	: >"$site/conda-meta/history"
	unshare --mount bash -ec 'mount --bind "$1" "$2"
		exec "$3" --quiet --n-threads -1 --prefix "$2" --output "$4"' \
		- "$site" "$SITE" "$env_python/bin/conda-pack" \
		"$W/s3/bkt/site.tar.gz" >&2
}

# What the overlay has of what the package manager owns, but for its whiteouts.
keep_system() {
	(cd "$W/nodes/0/upper" &&
		find $(ls -d usr etc opt var/lib/dpkg 2>/dev/null) \
			! -type c -print0 |
		tar --no-recursion --null -T - -cf -) |
		zstd -q -3 -T0 -o "$W/s3/bkt/site.tar.zst"
}

# --- mounted ---------------------------------------------------------------------------

mounter_socket() { echo "$W/mounters/$1/run/bootseerd.sock"; } # NODE

# What they mount has to be seen in the nodes' namespaces.
start_mounters() { # N WAY
	local i at=$W/mounters

	mkdir "$at"
	mount --bind "$at" "$at"
	defer remove_mounters
	mount --make-shared "$at"
	mounters=()
	for ((i = 0; i < $1; i++)); do
		mkdir -p "$at/$i"/{root,run}
		RUN_IN=(nsenter "--net=/run/netns/$(swarm_ns "$i")")
		start_daemon "$at/$i/log" "$(program bootseerd)" \
			--root "$at/$i/root" --run "$at/$i/run" \
			--env-store "$store" $(mounter_options "$i" "$2")
		RUN_IN=()
		mounters+=("$daemon_pid")
	done
	for ((i = 0; i < $1; i++)); do
		wait_for_socket "$(mounter_socket "$i")" "${mounters[i]}" \
			"$at/$i/log"
	done
}

mounter_options() { # NODE WAY
	[[ $2 != *traced ]] || echo "--service http://10.214.0.2:5001"
	[[ $2 == *peers* ]] || return 0
	echo "--p2p-listen $(swarm_addr "$1"):7000 --p2p-security open" \
		"--node-name node$1 --p2p-tracker http://10.214.0.2:5001"
}

# By a node of its own, which is gone before others begin.
record_trace() {
	[[ ! -e $W/has-trace ]] || return 0
	make_nodes 1
	start_mounters 1 traced
	setup_on 0 "$W/way.traced" "$W/way.end" ||
		die "recording: $(tail -n 1 "$W/nodes/0/log")"
	wait_until "${mounters[0]}" "$W/mounters/0/log" has_sent_trace
	: >"$W/has-trace"
}

has_sent_trace() {
	in_swarm tracker curl -fsS \
		"http://10.214.0.2:5001/v1/traces?repo=${store%%[?]*}" |
		grep -q '"workload":"environment"'
}

finish_mounters() { # N [MOUNTS [WAY]]
	local i did=mounted

	[[ ${3-} != ours* ]] || did=restored
	for ((i = 0; i < $1; i++)); do
		grep -q ": $did " "$W/nodes/$i/log" ||
			die "node $i: $(grep -m1 'env run' "$W/nodes/$i/log")"
		wait_until "${mounters[i]}" "$W/mounters/$i/log" \
			has_prefetched "$W/mounters/$i/log" "${2:-1}"
	done
}

has_prefetched() { # LOG MOUNTS
	(($(grep -c '^info prefetch: done' "$1" || :) >= $2))
}

remove_mounters() {
	umount_below "$W/mounters"
	umount -l "$W/mounters"
	rm -rf --one-file-system "$W/mounters"
}

# --- all ways --------------------------------------------------------------------------

# Each node has the whole cache, as one that installed it before.
warm_uv() { # N
	local i

	for ((i = 0; i < $1; i++)); do
		warm_node "$i"
	done
}

# The cache knows wheels by the index that they came from.
warm_node() { # NODE
	if [[ -d $W/uv-warm ]]; then
		cp -al "$W/uv-warm" "$W/nodes/$1/uv"
		return
	fi
	setup_on "$1" "$W/way.uv-cold" || die "$(tail -n 1 "$W/nodes/$1/log")"
	cp -a "$W/nodes/$1/uv" "$W/uv-warm"
	find "$W/nodes/$1/site" -mindepth 1 -delete
	rm -f "$W/nodes/$1/took"
}

# How a node goes where its environment is: $W/enter FOLDER COMMAND...
write_enter() {
	if [[ $target != system ]]; then
		echo 'mount --bind "$1/site" "$SITE"; shift; exec "$@"' >"$W/enter"
		return
	fi
	cat >"$W/enter" <<-END
	at=\$1
	shift
	mount -t overlay overlay "\$at/root" \
		-o "lowerdir=/,upperdir=\$at/upper,workdir=\$at/work"
	cd "\$at/root"
	for d in proc dev $W $bench_build; do
		mkdir -p "./\$d"
		mount --rbind "/\$d" "./\$d"
	done
	exec chroot . "\$@"
	END
}

write_system_ways() {
	local apt

	SITE=/usr PYTHON=/usr/bin/python3
	IMPORT="import hiredis, subprocess as s
s.run(['ffmpeg', '-version'], stdout=s.DEVNULL, check=True)"
	echo "deb [trusted=yes] http://$ORIGIN/simple ./" >"$W/apt.list"
	apt="apt-get -q -o Dir::Etc::sourcelist=$W/apt.list -o Dir::Etc::sourceparts=-
		-o APT::Sandbox::User=root -o Acquire::http::Proxy=DIRECT"
	cat >"$W/install" <<-END
	export DEBIAN_FRONTEND=noninteractive
	$(echo $apt) update
	$(echo $apt) install -y --no-install-recommends $system_packages
	cd "\$TMPDIR"
	curl -sSf http://$ORIGIN/simple/hiredis-${system_source#*==}.tar.gz | tar -xz
	cd hiredis-*
	/usr/bin/python3 setup.py -q build
	/usr/bin/python3 setup.py -q install
	END
	echo "bash -e $W/install" >"$W/way.apt"
	echo "$fetch/site.tar.zst | tar --zstd -xf - -C /" >"$W/way.tar"
	echo "$(program bootseer) env run --store '$store' -- bash -e $W/install" \
		>"$W/way.mounted"
}

write_ways() {
	local pip uv req fetch more=$bench_cache/env/more.$n_more/more-1.0-py3-none-any.whl

	SITE=$W/site
	mkdir -p "$SITE"
	rm -f "$W"/way.*
	write_enter
	case $target in
	wheels) IMPORT="import numpy, scipy.linalg, pandas, transformers" ;;
	numpy) IMPORT="import numpy" ;;
	files) IMPORT="import bulk.d000" ;;
	esac
	export SITE IMPORT PYTHON=$env_python/bin/python
	req=$(wheels_dir)/requirements
	pip="env -u PIP_FIND_LINKS PIP_CONFIG_FILE=/dev/null $env_python/bin/python -m pip install -q
		--disable-pip-version-check --no-cache-dir --root-user-action ignore
		--trusted-host ${ORIGIN%:*} --index-url http://$ORIGIN/simple/
		--target $SITE -r $req"
	uv="$env_python/bin/uv pip install -q --python $env_python/bin/python
		--default-index http://$ORIGIN/simple/ --target $SITE -r $req"
	store="s3://bkt/env?endpoint=http://$ORIGIN"
	echo $pip >"$W/way.pip"
	echo $uv >"$W/way.uv-cold"
	echo $uv >"$W/way.uv-warm"
	fetch="curl -sSf --aws-sigv4 aws:amz:us-east-1:s3 \
		-u '$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY' \
		-H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' http://$ORIGIN/bkt"
	echo "$fetch/site.tar.zst | tar --zstd -xf - -C $SITE" >"$W/way.tar"
	printf '%s\n' "$fetch/site.tar.gz | tar -xzf - -C $SITE" \
		"$PYTHON $SITE/bin/conda-unpack" >"$W/way.conda-pack"
	echo "$(program bootseer) env run --store '$store' --target $SITE" \
		"--key-file $req --" $pip >"$W/way.mounted"
	if [[ $target == system ]]; then
		rm -f "$W"/way.{pip,uv-cold,uv-warm,conda-pack}
		write_system_ways
	fi
	for way in traced peers peers-traced; do
		cp "$W/way.mounted" "$W/way.$way"
	done
	sed 's/ env run / env run --unpack /' "$W/way.mounted" >"$W/way.ours"
	cp "$W/way.ours" "$W/way.ours-peers"
	cp "$W/way.ours" "$W/way.capture"
	sed "s|\$| $more|" "$W/way.mounted" >"$W/way.mounted-second"
	for way in hashed hashed-second; do
		cat >"$W/install.$way" <<-END
		$(echo $pip) --no-compile $([[ $way != *-second ]] || echo "$more")
		$PYTHON -m compileall -qq -j 0 --invalidation-mode unchecked-hash $SITE || :
		END
		echo "$(program bootseer) env run --store '${store/bkt\/env/bkt/hashed}'" \
			"--target $SITE --key-file $req -- bash -e $W/install.$way" \
			>"$W/way.$way"
	done
	echo "$(program bootseer) env umount $SITE" >"$W/way.end"
	# A system's folders are never mounted.
	[[ $target != system ]] || rm -f "$W"/way.{mounted,traced,peers,peers-traced} \
		"$W"/way.*-second "$W"/way.hashed
}
