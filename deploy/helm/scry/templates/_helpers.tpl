{{- define "scry.selector" -}}
app.kubernetes.io/name: {{ .Release.Name }}
{{- end }}

{{- define "scry.labels" -}}
{{ include "scry.selector" . }}
app.kubernetes.io/part-of: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "scry.toml" -}}
{{- $name := .Release.Name -}}
{{- $port := .Values.agent.peersPort -}}
# The same file for all agents: which node each is comes from its pod (SCRY__NODE__ID).

[peers]
listen = {{ printf "0.0.0.0:%v" $port | quote }}
certificate = "/etc/scry-certificate/node.pem"
key = "/etc/scry-certificate/node.key"
authority = "/etc/scry-certificate/authority.pem"
known = [
{{- range $node := until (int .Values.service.replicas) }}
    { id = {{ $node }}, address = {{ printf "%s-%d.%s:%v" $name $node $name $port | quote }} },
{{- end }}
]

[admin]
metrics_listen = {{ printf "0.0.0.0:%v" .Values.agent.metricsPort | quote }}
{{- if .Values.properties }}

[properties]
file = "properties.toml"
{{- end }}

{{ .Values.configuration | trim }}
{{- end }}
