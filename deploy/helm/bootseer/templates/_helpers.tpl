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
{{- define "bootseer.pull" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end }}
