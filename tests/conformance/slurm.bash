# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# A cluster of Slurm on this machine: munge, MariaDB, slurmdbd, slurmctld, four nodes.  All of
# it is in $W, and in a network of its own, since its daemons take no port 0.

in_net() { "${net[@]}" "$@"; }

slurm_start_database()
{
	mkdir "$W/db"
	mysql_install_db --no-defaults --datadir="$W/db" >/dev/null 2>&1
	"${net[@]}" mariadbd --no-defaults --user=root --datadir="$W/db" --socket="$W/db.sock" \
		--pid-file="$W/db.pid" --bind-address=127.0.0.1 --port=3306 \
		>"$W/db.log" 2>&1 3>&- &
	pids+=($!)
	wait_for mariadb --no-defaults --socket="$W/db.sock" -e 'select 1'
	mariadb --no-defaults --socket="$W/db.sock" -e "create database slurm;
		create user slurm@127.0.0.1 identified by 'x';
		create user slurm@localhost identified by 'x';
		grant all on slurm.* to slurm@127.0.0.1;
		grant all on slurm.* to slurm@localhost"
}

slurm_write_config()
{
	local host

	host=$(hostname)
	export SLURM_CONF=$W/slurm.conf
	cat >"$W/slurmdbd.conf" <<-END
	AuthType=auth/munge
	DbdHost=localhost
	DbdPort=6819
	SlurmUser=root
	StorageType=accounting_storage/mysql
	StorageHost=127.0.0.1
	StoragePort=3306
	StorageUser=slurm
	StoragePass=x
	StorageLoc=slurm
	LogFile=$W/slurmdbd.log
	PidFile=$W/slurmdbd.pid
	END
	chmod 600 "$W/slurmdbd.conf"
	cat >"$SLURM_CONF" <<-END
	ClusterName=c
	SlurmctldHost=$host(127.0.0.1)
	SlurmUser=root
	SlurmdUser=root
	AuthType=auth/munge
	StateSaveLocation=$W/state
	SlurmdSpoolDir=$W/spool-%n
	SlurmctldPidFile=$W/slurmctld.pid
	SlurmdPidFile=$W/slurmd-%n.pid
	SlurmctldLogFile=$W/slurmctld.log
	SlurmdLogFile=$W/slurmd-%n.log
	SlurmctldPort=6817
	ProctrackType=proctrack/linuxproc
	TaskPlugin=task/none
	SelectType=select/cons_tres
	SelectTypeParameters=CR_Core
	JobAcctGatherType=jobacct_gather/none
	AccountingStorageType=accounting_storage/slurmdbd
	AccountingStorageHost=localhost
	AccountingStoragePort=6819
	SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
	SlurmdParameters=config_overrides
	ReturnToService=2
	NodeName=gpu[071-074] NodeHostName=$host NodeAddr=127.0.0.1 Port=[7071-7074] CPUs=1
	PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP
	END
}

slurm_is_ready() { [ "$(in_net sinfo -h -t idle -o %D)" = 4 ]; }

slurm_start()
{
	local n

	NET=bs-slurm-$$
	ip netns add "$NET"
	# A daemon is started by these words and not by a function, which has a process of its own.
	net=(nsenter --net="/run/netns/$NET")
	ip -n "$NET" link set lo up
	# Names are looked up by programs that have an address other than 127.0.0.1.
	ip -n "$NET" link add v0 type veth peer name v1
	ip -n "$NET" address add 192.0.2.1/24 dev v0
	ip -n "$NET" link set v0 up
	ip -n "$NET" link set v1 up
	mkdir "$W/state" "$W/munge"
	mkdir -p /run/munge
	# ./dev conformance has mounts of its own.
	mount --bind "$W/munge" /run/munge
	mungekey -c -k "$W/munge/key"
	munged --foreground --force --key-file="$W/munge/key" \
		--socket=/run/munge/munge.socket.2 --pid-file="$W/munge.pid" \
		--log-file="$W/munge.log" --seed-file="$W/munge/seed" 3>&- &
	pids+=($!)
	slurm_start_database
	slurm_write_config
	"${net[@]}" slurmdbd -D >"$W/dbd.out" 2>&1 3>&- &
	pids+=($!)
	wait_for in_net sacctmgr -i add cluster c
	"${net[@]}" slurmctld -D >"$W/ctld.out" 2>&1 3>&- &
	pids+=($!)
	for n in 071 072 073 074; do
		"${net[@]}" slurmd -D -N "gpu$n" >"$W/gpu$n.out" 2>&1 3>&- &
		pids+=($!)
	done
	wait_for slurm_is_ready
}

# The database has it of the last run of a job.
slurm_has_state() # JOB STATE
{
	[ "$(in_net sacct -n -X -P -j "$1" --format=State)" = "$2" ]
}

slurm_stop()
{
	local i

	for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
		kill "${pids[i]}" 2>/dev/null || continue
		wait "${pids[i]}" || true
	done
	umount /run/munge
	ip netns del "$NET"
}
