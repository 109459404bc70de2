# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Nodes that start a job, for bench/job: what is on each, the ways to start it there, and what
# the profiler says of it.
#
#	prepare_packages, put_checkpoint, write_programs	what all ways bring to the nodes
#	start_job_nodes N WAY		containerd and ours on nodes without anything
#	renew_job_node NODE WAY		one of them anew
#	way_NAME NODE			start the job there, in the foreground
#	send_events NODE JOB BEGUN	tell the profiler what the node's log says
#	note_times JOB			"NODE STAGE SECONDS" by the profiler, in $W/times
#	each_received N			"NODE KIND BYTES" that came to N nodes so far
#	cpu_begin, own_cpu		processor seconds of the benchmark's own programs
#
# The program says its stages, and so does what runs before it where BootSeer does not.

# --- processors -------------------------------------------------------------------------

# All that is started from here on is in one control group, and containers, whose namespace
# has its name, in groups below it.
cpu_begin() {
	cpu_tree=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
	[[ $cpu_tree ]] || die "no control groups of version 2 are mounted"
	job_group=bench-job-$$
	mkdir -p "$cpu_tree/$job_group/own"
	defer remove_groups
	echo "$BASHPID" >"$cpu_tree/$job_group/own/cgroup.procs"
}

remove_groups() {
	echo "$BASHPID" >"$cpu_tree/cgroup.procs"
	find /sys/fs/cgroup -depth -type d -path "*/$job_group*" -exec rmdir {} + 2>/dev/null || :
}

own_cpu() { awk '$1 == "usage_usec" { print $2 / 1e6 }' "$cpu_tree/$job_group/cpu.stat"; }

# --- what is beside the nodes -------------------------------------------------------------

# "kernels" is as packages of compiled code are: few large files.
prepare_packages() {
	local dir

	dir=$(wheels_dir)
	[[ ! -s $dir/requirements ]] || return 0
	rm -rf "$dir.new" "$dir"
	mkdir -p "$dir.new"
	python3 -m pip download -q --only-binary :all: -d "$dir.new" pip >&2
	python3 - "$dir.new" "$env_mib" <<-'END'
	import random, sys, zipfile
	top, mib = sys.argv[1], int(sys.argv[2])
	info, record = "kernels-1.0.dist-info/", []
	with zipfile.ZipFile(top + "/kernels-1.0-py3-none-any.whl", "w") as wheel:
	    def add(name, data):
	        wheel.writestr(zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0)), data)
	        record.append(name + ",,")
	    add("kernels/__init__.py", b"import pathlib\n"
	        b"SIZE = sum(len(f.read_bytes()) for f in\n"
	        b"           sorted(pathlib.Path(__file__).parent.glob('*.so')))\n")
	    for n in range(8):
	        add("kernels/lib%d.so" % n, random.Random(n).randbytes((mib << 20) // 8))
	    add(info + "METADATA", b"Metadata-Version: 2.1\nName: kernels\nVersion: 1.0\n")
	    add(info + "WHEEL", b"Wheel-Version: 1.0\nGenerator: bench\n"
	        b"Root-Is-Purelib: true\nTag: py3-none-any\n")
	    add(info + "RECORD", "\n".join(record + [info + "RECORD,,", ""]))
	END
	pinned "$dir.new" >"$dir.new/requirements"
	mv "$dir.new" "$dir"
}

# The same bytes as a file of a web server, as one object, and striped.
put_checkpoint() {
	head -c "${ckpt_mib}M" /dev/urandom >"$W/model"
	ckpt=s3://bkt/ckpt?endpoint=http://$ORIGIN
	put_model --columns=8 :striped
	put_model --columns=1 :single
	mkdir -p "$W/index/ckpt"
	ln "$W/model" "$W/index/ckpt/model"
	(umask 077 && openssl rand -hex 32 >"$W/group.key")
}

put_model() { # COLUMNS NAME
	in_swarm origin "$(program bootseer)" ckpt cp "$1" "$ckpt" "$W/model" "$2" \
		>"$W/put.log" 2>&1 || die "$(tail -n 1 "$W/put.log")"
}

write_programs() {
	mkdir "$W/prog"
	cp "$(wheels_dir)"/pip-*.whl "$W/prog/pip.whl"
	cat >"$W/prog/train.py" <<-'END'
	import contextlib, os, sys, time

	@contextlib.contextmanager
	def stage(name):
	    say(name, "begin")
	    yield
	    say(name, "end")

	def say(name, ev):
	    print(f"BOOTSEER stage={name} ev={ev} ts={time.time_ns()}", flush=True)

	with stage("image.import"):
	    import numpy, scipy.linalg
	with stage("env.import"):
	    sys.path.insert(0, "/opt/site")
	    import kernels
	with stage("ckpt.read"):
	    n = 0
	    with open(sys.argv[1], "rb", buffering=0) as f:
	        while piece := f.read(1 << 22):
	            n += len(piece)
	    assert n == int(sys.argv[2]), n
	while not os.path.exists("/prog/go"):
	    time.sleep(0.1)
	open("/tmp/ready", "w").close()
	END
	cat >"$W/prog/fetch.py" <<-'END'
	import shutil, sys, urllib.request
	with urllib.request.urlopen(sys.argv[1]) as a, open(sys.argv[2], "wb") as b:
	    shutil.copyfileobj(a, b, 1 << 20)
	END
	# pip asks again after 503, not after 429.
	cat >"$W/prog/pip.sh" <<-END
	exec python3 /prog/pip.whl/pip install -q --root-user-action ignore \\
		--disable-pip-version-check --no-cache-dir --retries 10 \\
		--trusted-host ${ORIGIN%:*} \\
		--index-url http://$ORIGIN/simple/ --target /opt/site kernels
	END
	cat >"$W/prog/say.sh" <<-'END'
	say() { echo "BOOTSEER stage=$1 ev=$2 ts=$(date +%s%N)"; }
	END
}

# --- nodes --------------------------------------------------------------------------------

# Containerd's client is run here, in the node's namespace, and finds all by this.
on_node() { # NODE COMMAND...
	local at=$W/nodes/$1

	CONTAINERD_ADDRESS=$at/ctd/containerd.sock CONTAINERD_NAMESPACE=$job_group \
		BOOTSEER_SOCKET=$at/bsd/run/bootseerd.sock \
		BOOTSEER_NODE=node$1 in_swarm "$@"
}

start_job_nodes() { # N WAY
	local i

	mkdir -p "$W/nodes"
	mount --bind "$W/nodes" "$W/nodes"
	defer remove_job_nodes
	mount --make-shared "$W/nodes"
	for ((i = 0; i < $1; i++)); do
		start_job_node "$i" "$2"
	done
}

start_job_node() { # NODE WAY
	local at=$W/nodes/$1 options

	mkdir -p "$at"/{bsd,snap,ctd,ckpt,down}
	RUN_IN=(nsenter "--net=/run/netns/$(swarm_ns "$1")")
	if [[ $2 == today ]]; then
		start_containerd "$at/ctd"
		RUN_IN=()
		return
	fi
	# All nodes share this machine's disk, and each start takes what it may write.
	options="--node-name node$1 --env-store $env_store --trace-oci no --cache-min-free 1
		--env-write-max 64M
		--p2p-listen $(swarm_addr "$1"):7000 --p2p-security open
		--p2p-tracker http://10.214.0.2:5001"
	if [[ $2 == baseline ]]; then
		options+=" --record off --prefetch off"
	else
		options+=" --service http://10.214.0.2:5001"
	fi
	start_bootseerd "$at/bsd" --plain-http 10.214.0.1:5000 $options
	node_bsd[$1]=$bootseerd_pid
	start_snapshotter "$at/snap" --scope 10.214.0.1:5000
	node_snap[$1]=$snapshotter_pid
	start_containerd "$at/ctd" "bootseer=$SNAPSHOTTER_SOCKET"
	node_ctd[$1]=$containerd_pid
	RUN_IN=()
}

renew_job_node() { # NODE WAY
	stop_daemon "${node_ctd[$1]}"
	end_containers "$W/nodes/$1/ctd"
	stop_daemon "${node_snap[$1]}"
	stop_daemon "${node_bsd[$1]}"
	umount_below "$W/nodes/$1"
	rm -rf --one-file-system "$W/nodes/$1"
	start_job_node "$1" "$2"
}

remove_job_nodes() {
	umount_below "$W/nodes"
	umount -l "$W/nodes"
	rm -rf --one-file-system "$W/nodes"
}

# --- ways -----------------------------------------------------------------------------------

plain_container() { # NODE SNAPSHOTTER CKPT-DIR SCRIPT
	on_node "$1" ctr run --rm --net-host --snapshotter "$2" \
		--mount "type=bind,src=$W/prog,dst=/prog,options=rbind:ro" \
		--mount "type=bind,src=$3,dst=/ckpt,options=rbind:rw" \
		"$image_name" "bench-$1-$RANDOM" /bin/sh -ec ". /prog/say.sh
		say env.install begin; sh /prog/pip.sh; say env.install end
		$4"
}

way_today() { # NODE
	on_node "$1" ctr images pull --plain-http "$image_name" >/dev/null
	plain_container "$1" overlayfs "$W/nodes/$1/down" "say ckpt.download begin
		python3 /prog/fetch.py http://$ORIGIN/ckpt/model /ckpt/model
		say ckpt.download end
		exec python3 /prog/train.py /ckpt/model $((ckpt_mib << 20))"
}

way_baseline() { # NODE
	local dir=$W/nodes/$1/ckpt

	on_node "$1" ctr-remote images rpull --plain-http --snapshotter bootseer \
		"$image_name" >/dev/null
	on_node "$1" "$(program bootseer)" ckpt mount --read-only --threads=2 \
		--readahead=4M "$ckpt" "$dir"
	plain_container "$1" bootseer "$dir" \
		"exec python3 /prog/train.py /ckpt/single $((ckpt_mib << 20))"
	on_node "$1" "$(program bootseer)" ckpt umount "$dir"
}

# Mounts of several nodes pass on to each other what one of them has read, and each keeps it on its
# disk.
write_job() { # NODE IMAGE
	local options="\"--cache\", \"$W/nodes/$1/cache\""

	((job_nodes == 1)) || options+=", \"--group\", \"$(swarm_addr 0):29501\",
		\"--group-key\", \"$W/group.key\", \"--group-nodes\", \"$job_nodes\""
	cat >"$W/nodes/$1/job.toml" <<-END
	[image]
	reference = "$2"
	plain-http = true
	mounts = ["$W/prog:/prog:ro"]
	workload = "train"
	[environment]
	store = "$env_store"
	command = ["sh", "/prog/pip.sh"]
	targets = ["/opt/site"]
	keys = ["$env_key"]
	[checkpoint.load]
	store = "$ckpt"
	dir = "$W/nodes/$1/ckpt"
	read-only = true
	prefetch = ["striped"]
	options = [$options]
	[stages]
	ready-file = "/tmp/ready"
	END
}

way_job() { # NODE IMAGE
	write_job "$@"
	BOOTSEER_JOB=bench BOOTSEER_EVENTS=$W/none on_node "$1" \
		"$(program bootseer)" job run "$W/nodes/$1/job.toml" -- \
		python3 /prog/train.py "$W/nodes/$1/ckpt/striped" $((ckpt_mib << 20))
}
way_ours() { way_job "$1" "$image_name"; }
way_first() { way_ours "$1"; }
way_restart() { way_ours "$1"; }
way_replaced() { way_ours "$1"; }
way_newtag() { way_job "$1" "$next_name"; }

# --- what the profiler says -------------------------------------------------------------------

# With the moment at which the job was started, which no program can say.  What a line says of its
# job and node is replaced, and so is its checksum.
send_events() { # NODE JOB BEGUN
	local ev

	{
		for ev in begin end; do
			echo "BOOTSEER stage=submit ev=$ev ts=${3}000"
		done
		sed '/^BOOTSEER /s/ \(job\|node\|id\|crc\)=[^ ]*//g' "$W/nodes/$1/log"
	} | in_swarm tracker "$(program bootseer)" stage send --node "node$1" \
		--service http://10.214.0.2:5001 --job "$2" - >"$W/sent.$1" 2>&1 ||
		die "node $1: $(tail -n 1 "$W/sent.$1")"
}

# "NODE STAGE SECONDS".  The image is what a node waits for until the container's first
# command, and then its imports; the environment what is between, and its own import.
stages_of_csv() {
	awk -F, 'NR == 1 || $10 == "1" { next }
	{ begin[$3, $5] = $7; took[$3, $5] += $8; nodes[$3] }
	END { for (n in nodes) {
		first = begin[n, ((n, "env.key") in begin) ? "env.key" : "env.install"]
		if (!first || !((n, "ckpt.read") in took)) exit 1
		at = begin[n, "submit"]
		print n, "image", first - at + took[n, "image.import"]
		print n, "env", begin[n, "image.import"] - first + took[n, "env.import"] \
			- took[n, "ckpt.download"]
		print n, "ckpt", took[n, "ckpt.download"] + took[n, "ckpt.read"]
		print n, "all", begin[n, "ckpt.read"] + took[n, "ckpt.read"] - at
	} }'
}

note_times() { # JOB
	in_swarm tracker "$(program bootseer)" start export --format csv \
		--service http://10.214.0.2:5001 "$1" >"$W/start.csv" ||
		die "$1: the profiler has no such start"
	stages_of_csv <"$W/start.csv" >"$W/times" ||
		die "$1: a node did not set up its environment, or read its checkpoint"
}

# --- what came ----------------------------------------------------------------------------

# Blocks are those of images and environments.  A frame of TCP has 66 bytes of headers here, and an
# acknowledgement of what a node sends nothing else.
received() { # NODE
	local at=$W/nodes/$1 socket=$W/nodes/$1/bsd/run/bootseerd.sock

	ip -n "$(swarm_ns "$1")" -s -j link show net |
		jq -r '.[0].stats64.rx | "all \(.bytes)", "headers_of_frames \(.packets * 66)"'
	[[ ! -S $socket ]] || curl -fsS -m 60 --unix-socket "$socket" http://node/metrics |
		awk '/^bootseer_node_p2p_(rack|zone|remote)_bytes_total/ { nodes += $2 }
			/^bootseer_node_p2p_origin_bytes_total/ { print "blocks_from_stores", $2 }
			/^bootseer_node_p2p_dropped_bytes_total/ { print "blocks_not_wanted", $2 }
			END { print "blocks_from_nodes", nodes }'
	! mountpoint -q "$at/ckpt" || "$(program bootseer)" ckpt status "$at/ckpt" | jq -r '.[] |
		(.group // {bytes_fetched, bytes_received: 0}) |
		"checkpoint_from_the_store \(.bytes_fetched)",
		"checkpoint_from_nodes \(.bytes_received)"'
}

each_received() { # N
	local i

	for ((i = 0; i < $1; i++)); do
		received "$i" | sed "s/^/$i /"
	done
}
