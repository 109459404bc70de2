#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The registry service as two replicas on PostgreSQL, its certificate and the authority of nodes from
# cert-manager.

bats_require_minimum_version 1.5.0
. "$BATS_TEST_DIRNAME/chart.bash"

setup_file() {
	CERT_MANAGER=$("$BATS_TEST_DIRNAME/build" cert-manager)
	export CERT_MANAGER
	chart_setup_file
	start_cert_manager
	start_postgres
}

teardown_file() { chart_teardown_file; }

teardown() { chart_teardown; }

# An authority of the cluster's own, which signs what others ask for.
start_cert_manager() {
	kubectl_ apply --server-side -f "$CERT_MANAGER" >/dev/null
	kubectl_ wait --for=condition=Established crd --all --timeout=60s >/dev/null
	in_node_start cert-manager "$CERT_MANAGER/cert-manager" "$C/kubeconfig"
	kubectl_ apply -f - <<-END
	apiVersion: cert-manager.io/v1
	kind: ClusterIssuer
	metadata: {name: selfsigned}
	spec: {selfSigned: {}}
	---
	apiVersion: cert-manager.io/v1
	kind: Certificate
	metadata: {name: root, namespace: default}
	spec: {isCA: true, commonName: root, secretName: root, issuerRef: {name: selfsigned, kind: ClusterIssuer}}
	---
	apiVersion: cert-manager.io/v1
	kind: ClusterIssuer
	metadata: {name: internal}
	spec: {ca: {secretName: root}}
	END
	kubectl_ wait --for=condition=Ready clusterissuer/internal --timeout=60s
}

# As the cluster's own database service has it: an address, a login.
start_postgres() {
	local bin

	bin=$(printf '%s\n' /usr/lib/postgresql/*/bin | tail -n 1)
	mkdir "$W/pg"
	chown postgres "$W/pg"
	chmod 755 "$W"
	(cd / && setpriv --reuid postgres --regid postgres --init-groups "$bin/initdb" -D "$W/pg/data" \
		-A trust -U postgres --no-sync >/dev/null)
	echo 'host registry service 10.0.0.0/8 scram-sha-256' >>"$W/pg/data/pg_hba.conf"
	in_node_start postgres setpriv --reuid postgres --regid postgres --init-groups \
		"$bin/postgres" -D "$W/pg/data" -k "$W/pg" -c listen_addresses=10.88.0.1 -c fsync=off
	wait_for database -c 'SELECT 1' postgres
	database -c "CREATE ROLE service LOGIN PASSWORD 'secret'" postgres
	database -c 'CREATE DATABASE registry OWNER service' postgres
	kubectl_ create secret generic database \
		--from-literal=url='postgresql://service:secret@10.88.0.1/registry'
}

database() { psql -qtAX -h "$W/pg" -U postgres -v ON_ERROR_STOP=1 "$@"; }

replicas() { kubectl_ get pods -l app.kubernetes.io/component=registry -o jsonpath='{.items[*].metadata.name}'; }

@test "service: two replicas on PostgreSQL know nodes by certificates of cert-manager" {
	local pem=$C/etc/bootseer first

	node_state >"$W/before"
	kubectl_ create secret generic trust --from-file=trust.pem="$W/key.pub"
	install --set registry.enabled=true --set registry.replicas=2 \
		--set registry.postgresSecretName=database --set registry.clusterIP=10.99.0.73 \
		--set registry.issuerRef.kind=ClusterIssuer --set registry.issuerRef.name=internal \
		--set node.peers.enabled=true --set node.peers.issuerRef.kind=ClusterIssuer \
		--set node.peers.issuerRef.name=internal
	kubectl_ rollout status deployment/bootseer-registry --timeout=120s
	# The node's certificate is of the authority that cert-manager made, below the cluster's own.
	openssl verify -CAfile "$pem/peers/ca.crt" "$pem/peers/tls.crt"
	openssl x509 -in "$pem/peers/tls.crt" -noout -issuer | grep -q bootseer-nodes
	kubectl_ get secret root -o 'jsonpath={.data.tls\.crt}' | base64 -d | cmp - "$pem/service-ca.crt"
	read -r -a all <<<"$(replicas)"
	[ "${#all[@]}" = 2 ]
	forward_service "${all[0]}"
	wait_for tracker_is_good
	begin_pod lazy app bootseer
	pod_is_ready lazy
	reads_all lazy
	# What the first was told the second has.
	first=${all[0]}
	wait_for doctor_is_there
	forward_service "${all[1]}"
	kubectl_ delete pod "$first" --wait
	kubectl_ rollout status deployment/bootseer-registry --timeout=120s
	wait_for tracker_is_good
	kubectl_ delete pod -l app.kubernetes.io/component=node --wait
	kubectl_ rollout status daemonset/bootseer-node --timeout=120s
	wait_for tracker_is_good
}

# The node said so to a replica, whose database is the only place for it.
doctor_is_there() { [ "$(database -c "SELECT count(*) FROM node_doctor" registry)" -gt 0 ]; }

@test "service: uninstalled, the node is as it was" {
	kubectl_ delete pod lazy --wait
	helm_ uninstall bootseer --wait --timeout 4m
	wait_for node_is_as_before
}
