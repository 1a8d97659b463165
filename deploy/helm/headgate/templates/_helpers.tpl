{{- define "headgate.name" -}}
{{ if contains "headgate" .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-headgate{{ end }}
{{- end }}

{{- define "headgate.selector" -}}
app.kubernetes.io/name: headgate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "headgate.labels" -}}
{{ include "headgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "headgate.secret" -}}
{{ .Values.existingSecret | default (printf "%s-secrets" (include "headgate.name" .)) }}
{{- end }}

{{- /* The configuration file: what the chart decides, over the values in config. */ -}}
{{- define "headgate.config" -}}
{{- $own := dict
  "api_addr" ":8081" "grpc_addr" ":8082" "resp_addr" "off" "admin_addr" ":8084"
  "key_secret_file" "/etc/headgate-secrets/key-secret" "admin_token_file" "/etc/headgate-secrets/admin-token" -}}
{{- if .Values.upstream }}
{{- $_ := set $own "gateway_addr" ":8080" }}
{{- $_ := set $own "upstream" .Values.upstream }}
{{- else }}
{{- $_ := set $own "gateway_addr" "off" }}
{{- end }}
{{- if .Values.control }}
{{- $_ := set $own "control" .Values.control }}
{{- $_ := set $own "token_file" "/etc/headgate-secrets/token" }}
{{- else if not .Values.db }}
{{- $_ := set $own "rules" "/etc/headgate/rules.yaml" }}
{{- end }}
{{- toYaml (mergeOverwrite (deepCopy .Values.config) $own) }}
{{- end }}
