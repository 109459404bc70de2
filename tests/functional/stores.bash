# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Servers of object stores, real ones, and a proxy that does damage before them.  Their
# processes are in PIDS; the caller kills them.  Benchmarks use it, too.

tests=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PIDS=()

# The port that the process listens at, on 127.0.0.1.
port_of() # PID
{
	ss -ltnpH | grep "pid=$1," | grep -o '127.0.0.1:[0-9]*' | head -n 1 |
		cut -d: -f2
}

has_port()
{
	[ "$(port_of "$1")" ]
}

# An S3 server with the bucket "bkt": AT is its address.
s3_server() # FOLDER
{
	mkdir -p "$1/data/bkt"
	ROOT_ACCESS_KEY=testkey1234 ROOT_SECRET_KEY=testsecret1234 \
		"$S3/versitygw" --keep-alive --virtual-domain localhost \
		--port 127.0.0.1:0 posix "$1/data" >"$1/log" 2>&1 3>&- &
	PIDS+=($!)
	wait_for has_port "${PIDS[-1]}"
	AT=127.0.0.1:$(port_of "${PIDS[-1]}")
	export AWS_ACCESS_KEY_ID=testkey1234
	export AWS_SECRET_ACCESS_KEY=testsecret1234
}

# A registry: AT is its address.
repo_server() # FOLDER [DELETE [HTPASSWD]]
{
	local auth=

	[ -z "${3-}" ] || auth="auth: {htpasswd: {realm: test, path: $3}}"
	mkdir -p "$1/registry"
	cat >"$1/registry.yml" <<-END
	version: 0.1
	storage:
	  filesystem: {rootdirectory: $1/registry}
	  delete: {enabled: ${2-true}}
	http: {addr: "127.0.0.1:0"}
	$auth
	END
	docker-registry serve "$1/registry.yml" >"$1/registry.log" 2>&1 3>&- &
	PIDS+=($!)
	wait_for has_port "${PIDS[-1]}"
	AT=127.0.0.1:$(port_of "${PIDS[-1]}")
}

# A proxy before a server: PROXY is its address.
fault_proxy() # ADDRESS FOLDER
{
	python3 "$tests/functional/fault-proxy.py" "$1" "$2/port" \
		>"$2/proxy.log" 2>&1 3>&- &
	PIDS+=($!)
	wait_for test -s "$2/port"
	PROXY=127.0.0.1:$(cat "$2/port")
}

fault() # KEY=VALUE...
{
	printf '%s\n' "$@" | curl -sf --data-binary @- "http://$PROXY/fault" \
		>/dev/null
}

# Requests that the proxy had, or those that match.
proxied() # [REGEX]
{
	curl -sf "http://$PROXY/log" | grep -E "${1:-.}"
}

# Back as it was, by the file's own store(), and how often was something tried again?
expect_back() # NAME FILE
{
	store get "$1" "$W/back" 2>"$W/counts"
	cmp "$W/back" "$2"
}

stop_servers()
{
	[ ${#PIDS[@]} = 0 ] || kill "${PIDS[@]}"
}

# ---------------------------------------------------------------------- HDFS

# Where the nodes are, and what their programs are run by: benchmarks have them in
# namespaces.
HDFS_AT=127.0.0.1
HDFS_IN=()

# The same of a data node, by its number, in `host` and `HDFS_IN`.
hdfs_data_node() # NUMBER
{
	host=$HDFS_AT
}

# Where servers are whose ports are named before they listen: of 127.0.0.1 a server of a
# test beside may have got one meanwhile.
named_address()
{
	if [ "$HDFS_AT" = 127.0.0.1 ]; then own_address; else echo "$HDFS_AT"; fi
}

site() # FOLDER KEY=VALUE...: a folder of configuration
{
	local dir=$1 kv

	shift
	mkdir -p "$dir"/webapps/{hdfs,datanode,static}
	{
		echo '<configuration>'
		for kv; do
			echo "<property><name>${kv%%=*}</name>" \
				"<value>${kv#*=}</value></property>"
		done
		echo '</configuration>'
	} >"$dir/hdfs-site.xml"
	cat >"$dir/core-site.xml" <<-END
	<configuration>
	<property><name>fs.defaultFS</name><value>hdfs://${NAMENODE%:*}:$RPC</value></property>
	<property><name>hadoop.tmp.dir</name><value>$H/tmp</value></property>
	<property><name>hadoop.http.staticuser.user</name><value>root</value></property>
	<property><name>hadoop.proxyuser.proxy.hosts</name><value>*</value></property>
	<property><name>hadoop.proxyuser.proxy.groups</name><value>*</value></property>
	<property><name>hadoop.proxyuser.root.hosts</name><value>*</value></property>
	<property><name>hadoop.proxyuser.root.groups</name><value>*</value></property>
	</configuration>
	END
	cat >"$dir/log4j.properties" <<-END
	log4j.rootLogger=WARN,console
	log4j.appender.console=org.apache.log4j.ConsoleAppender
	log4j.appender.console.layout=org.apache.log4j.PatternLayout
	log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
	END
}

hadoop() # CLASSPATH HEAP CLASS ARGUMENT...
{
	local opens=() p

	for p in java.io java.lang java.lang.reflect java.math java.net \
		java.text java.util java.util.concurrent java.util.zip \
		sun.security.util sun.security.x509; do
		opens+=(--add-opens "java.base/$p=ALL-UNNAMED")
	done
	exec ${HDFS_IN[@]+"${HDFS_IN[@]}"} java -XX:+UseSerialGC \
		-XX:TieredStopAtLevel=1 -Xss512k "-Xmx$2" -Djava.net.preferIPv4Stack=true "${opens[@]}" -cp "$1" "${@:3}"
}

jmx() # BEAN KEY
{
	${HDFS_IN[@]+"${HDFS_IN[@]}"} curl -sf -m 5 \
		"http://$NAMENODE/jmx?qry=Hadoop:service=NameNode,name=$1" |
		jq -r ".beans[0].$2"
}

hdfs_is_up() # DATANODES
{
	[ "$(jmx FSNamesystemState NumLiveDataNodes)" = "$1" ] &&
		[ -z "$(jmx NameNodeInfo Safemode)" ]
}

hdfs_data_nodes() # NUMBER KEY=VALUE...
{
	local i of host at HDFS_IN=(${HDFS_IN[@]+"${HDFS_IN[@]}"})

	for ((i = 1; i <= $1; i++)); do
		hdfs_data_node "$i"
		at=()
		for of in address http.address ipc.address; do
			at+=("dfs.datanode.$of=$host:0")
		done
		site "$H/data$i" "${@:2}" "${at[@]}" \
			"dfs.datanode.data.dir=$H/blocks$i" \
			"dfs.datanode.hostname=$host"
		hadoop "$H/data$i:$HDFS/*" 128m \
			org.apache.hadoop.hdfs.server.datanode.DataNode \
			>"$H/data$i.log" 2>&1 3>&- 9>&- &
		PIDS+=($!)
	done
}

# A name node and data nodes: NAMENODE is where it is asked by HTTP.
hdfs_server() # FOLDER DATANODES
{
	local common

	H=$1 RPC=8020 NAMENODE=$(named_address):9870
	# Pages of lists are small; nothing here outlives a power loss.
	common=(dfs.ls.limit=100 dfs.namenode.edits.noeditlogchannelflush=true
		dfs.replication=1 dfs.permissions.enabled=true
		dfs.namenode.fs-limits.min-block-size=1048576
		dfs.blocksize=${hdfs_block:-8388608} dfs.heartbeat.interval=1
		dfs.namenode.datanode.registration.ip-hostname-check=false
		dfs.namenode.safemode.extension=0
		"dfs.namenode.safemode.min.datanodes=$2")
	site "$H/name" "${common[@]}" "dfs.namenode.name.dir=$H/meta" \
		"dfs.namenode.http-address=$NAMENODE" \
		"dfs.namenode.rpc-address=${NAMENODE%:*}:$RPC"
	(hadoop "$H/name:$HDFS/*" 192m \
		org.apache.hadoop.hdfs.server.namenode.NameNode \
		-format -nonInteractive >"$H/format.log" 2>&1 3>&-)
	hadoop "$H/name:$HDFS/*" 192m \
		org.apache.hadoop.hdfs.server.namenode.NameNode \
		>"$H/name.log" 2>&1 3>&- 9>&- &
	PIDS+=($!)
	hdfs_data_nodes "$2" "${common[@]}"
	# Nine such processes on two processors that have other work: minutes.
	wait_for hdfs_is_up "$2" || wait_for hdfs_is_up "$2"
}

httpfs_answers()
{
	curl -sf -m 5 -o /dev/null \
		"http://$HTTPFS_AT/webhdfs/v1/?op=GETFILESTATUS&user.name=root"
}

# HttpFS before that name node: HTTPFS_AT is its address.
httpfs_server() # FOLDER
{
	HTTPFS_AT=$(named_address):14000
	mkdir -p "$1/conf" "$1/log" "$1/temp"
	python3 -m zipfile -e "$HTTPFS"/hadoop-hdfs-httpfs-*.jar "$1"
	cp "$H/name/core-site.xml" "$H/name/log4j.properties" "$1/conf/"
	echo secret >"$1/conf/secret"
	cat >"$1/conf/httpfs-site.xml" <<-END
	<configuration>
	<property><name>httpfs.http.port</name><value>${HTTPFS_AT#*:}</value></property>
	<property><name>httpfs.http.hostname</name><value>${HTTPFS_AT%:*}</value></property>
	<property><name>hadoop.http.authentication.signature.secret.file</name>
	<value>$1/conf/secret</value></property>
	</configuration>
	END
	hadoop "$1/conf:$1:$HTTPFS/*" 192m "-Dhttpfs.home.dir=$1" \
		"-Dhttpfs.config.dir=$1/conf" "-Dhttpfs.log.dir=$1/log" \
		"-Dhttpfs.temp.dir=$1/temp" \
		org.apache.hadoop.fs.http.server.HttpFSServerWebServer \
		>"$1/httpfs.log" 2>&1 3>&- &
	PIDS+=($!)
	wait_for httpfs_answers || wait_for httpfs_answers
}
