{{- define "bootseer.name" -}}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{- end }}
{{- define "bootseer.image" -}}{{ .Values.image.repository }}:{{ .Values.image.tag }}{{- end }}
{{- define "bootseer.labels" -}}
app.kubernetes.io/name: bootseer
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
{{- define "bootseer.selector" -}}
app.kubernetes.io/name: bootseer
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- /* The secret with the registry service's certificate. */}}
{{- define "bootseer.registry.tls" -}}
{{- if .Values.registry.issuerRef }}{{ include "bootseer.name" . }}-registry-tls
{{- else }}{{ .Values.registry.tlsSecretName }}{{ end }}
{{- end }}
{{- /* The secret with the authority of nodes' certificates. */}}
{{- define "bootseer.peers.secret" -}}
{{ .Values.node.peers.authoritySecretName | default (printf "%s-peers" (include "bootseer.name" .)) }}
{{- end }}
{{- /* Not empty if node.config has a line with this option: (list . "service"). */}}
{{- define "bootseer.node.says" -}}
{{- if regexMatch (printf "(?m)^([^#\\n]*;)?\\s*%s\\s*[=:]" (last .)) (first .).Values.node.config }}1{{ end }}
{{- end }}
{{- /* The URL of the chart's service for nodes, unless they are told of another one. */}}
{{- define "bootseer.node.service" -}}
{{- $ip := .Values.registry.clusterIP }}
{{- if and .Values.registry.enabled $ip (not (include "bootseer.node.says" (list . "service"))) -}}
{{ ternary "https" "http" (ne (include "bootseer.registry.tls" .) "") }}://{{ ternary (printf "[%s]" $ip) $ip (contains ":" $ip) }}:9730
{{- end }}
{{- end }}
{{- /* The secret whose ca.crt nodes trust that service by. */}}
{{- define "bootseer.node.serviceCa" -}}
{{- if and (include "bootseer.node.service" .) (not (include "bootseer.node.says" (list . "service-ca-file"))) }}
{{- include "bootseer.registry.tls" . }}
{{- end }}
{{- end }}
{{- /* Names of node.pullSecrets by namespace, as YAML, each once. */}}
{{- define "bootseer.node.pullSecrets" -}}
{{- $all := dict }}
{{- range .Values.node.pullSecrets }}
{{- $_ := set $all .namespace (concat (get $all .namespace | default list) .names | uniq) }}
{{- end }}
{{- toYaml $all }}
{{- end }}
{{- /* The URL that pods ask: (list . URL), URL or that of the chart's service. */}}
{{- define "bootseer.service" -}}
{{- $ := first . }}
{{- $scheme := ternary "https" "http" (ne (include "bootseer.registry.tls" $) "") }}
{{- last . | default (printf "%s://%s-registry.%s.svc:9730" $scheme (include "bootseer.name" $) $.Release.Namespace) }}
{{- end }}
{{- define "bootseer.pull" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end }}
