{{/* The name of all objects. A Pod of a StatefulSet appends to it. Many clusters require that the name of a Service begins with a letter. */}}
{{- define "rowlock.name" -}}
{{- $name := ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) (contains .Chart.Name .Release.Name) -}}
{{- if regexMatch "^[0-9]" $name }}{{ $name = printf "%s-%s" .Chart.Name .Release.Name }}{{ end -}}
{{- default $name .Values.fullnameOverride | replace "." "-" | trunc 50 | trimSuffix "-" -}}
{{- end }}

{{/* The labels that select the Pods; they never change. */}}
{{- define "rowlock.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "rowlock.labels" -}}
{{ include "rowlock.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Fails for values that the chart has to set itself. The schema cannot do that: Helm reports a refused name in the place of another value. */}}
{{- define "rowlock.check" -}}
{{- range $flag := list "config" "data-dir" "datastore" "datastore-file" "listen" }}
{{- if hasKey (default dict $.Values.config) $flag }}
{{- fail (printf "config.%s: the chart sets this itself (the database by database and postgres, the port by service.port)" $flag) }}
{{- end }}
{{- end }}
{{- $config := default dict .Values.config }}
{{- /* A variable takes precedence over the file; its value may be in a Secret. */}}
{{- $variables := list }}
{{- range .Values.env }}
{{- $variables = append $variables .name }}
{{- end }}
{{- $closed := and (has (get $config "anonymous-auth" | toString | lower) (list "false" "f" "0")) (not (has "ROWLOCK_ANONYMOUS_AUTH" $variables)) }}
{{- /* With AlwaysAllow, anonymous requests are refused unless that file allows them. */}}
{{- $file := or (get $config "authentication-config") (has "ROWLOCK_AUTHENTICATION_CONFIG" $variables) }}
{{- $all := and (has "AlwaysAllow" (get $config "authorization-mode" | join "," | splitList ",")) (not (has "ROWLOCK_AUTHORIZATION_MODE" $variables)) }}
{{- $open := and $all (not $file) }}
{{- if or $closed $open }}
{{- fail (printf "config.%s: kubelets probe /livez and /readyz without credentials, and Pods would never be ready. Allow anonymous requests for these two only, in the file of config.authentication-config (docs/install.md)" (ternary "anonymous-auth" "authorization-mode" $closed)) }}
{{- end }}
{{- range $label, $value := include "rowlock.selector" . | fromYaml }}
{{- if ne $value (get (default dict $.Values.podLabels) $label | default $value) }}
{{- fail (printf "podLabels: %s is what selects the Pods, and stays %s" $label $value) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "rowlock.secret" -}}
{{- default (printf "%s-datastore" (include "rowlock.name" .)) .Values.postgres.existingSecret -}}
{{- end }}

{{/* The URL of the database without its user and its passwords: whoever may see a Pod could guess at a password by its hash. */}}
{{- define "rowlock.url" -}}
{{- $url := regexReplaceAll "://[^/?#]*@" (default "" .Values.postgres.url) "://" -}}
{{- regexReplaceAll "password=[^&#]*" $url "" -}}
{{- end }}

{{/* The file of --config. */}}
{{- define "rowlock.config" -}}
{{- $name := include "rowlock.name" . -}}
{{- $service := printf "%s.%s" $name .Release.Namespace -}}
{{- $names := list $name $service (printf "%s.svc" $service) (printf "%s.svc.cluster.local" $service) -}}
{{- $config := mergeOverwrite (dict "shutdown-delay-duration" "5s") (deepCopy (default dict .Values.config)) -}}
{{- $given := default list (get $config "tls-san") -}}
{{- $config = set $config "tls-san" (concat $names (ternary $given (list $given) (kindIs "slice" $given)) | uniq) -}}
{{- range $flag, $value := $config }}
{{ $flag }}: {{ toJson $value }}
{{- end }}
{{- end }}

{{/* The template of the Pods for both databases. */}}
{{- define "rowlock.pod" -}}
metadata:
  labels:
    {{- mustMergeOverwrite (dict) (default dict .Values.podLabels) (include "rowlock.selector" . | fromYaml) | toYaml | nindent 4 }}
  annotations:
    # A server reads its configuration when it starts, except for the user and the password of the URL, which each new connection reads again.
    checksum/config: {{ printf "%s %s" (include "rowlock.config" .) (include "rowlock.url" .) | sha256sum }}
    {{- with .Values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  securityContext: {{ toJson .Values.podSecurityContext }}
  {{- with .Values.serviceAccountName }}
  serviceAccountName: {{ quote . }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ quote . }}
  {{- end }}
  {{- range $field := list "nodeSelector" "tolerations" "affinity" }}
  {{- with get $.Values $field }}
  {{ $field }}: {{ toJson . }}
  {{- end }}
  {{- end }}
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets: {{ toJson . }}
  {{- end }}
  {{- if .Values.topologySpreadConstraints }}
  topologySpreadConstraints: {{ toJson .Values.topologySpreadConstraints }}
  {{- else if eq .Values.database "postgres" }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector: {matchLabels: {{ include "rowlock.selector" . | fromYaml | toJson }}}
  {{- end }}
  containers:
    - name: rowlock
      image: {{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [serve, --config, /etc/rowlock/config.yaml]
      env:
        # Variables and not the file, so that other commands in the container (rowlock backup, kubeconfig, sql) know them too.
        # A directory in the volume, which may have a lost+found: `rowlock restore` needs an empty one.
        - {name: ROWLOCK_DATA_DIR, value: /var/lib/rowlock/data}
        - {name: ROWLOCK_LISTEN, value: "0.0.0.0:6443"}
        {{- if eq .Values.database "postgres" }}
        - {name: ROWLOCK_DATASTORE_FILE, value: /etc/rowlock-datastore/url}
        {{- end }}
        {{- with .Values.env }}{{ toYaml . | nindent 8 }}{{ end }}
      ports:
        - {name: https, containerPort: 6443}
      # The server takes requests once all objects are in memory. A new release may have to rewrite a large store first.
      startupProbe:
        httpGet: {path: /livez, port: https, scheme: HTTPS}
        periodSeconds: 2
        timeoutSeconds: 5
        failureThreshold: 1800
      # The liveness check does not include the database: a restart of the server would not bring it back.
      livenessProbe:
        httpGet: {path: /livez, port: https, scheme: HTTPS}
        periodSeconds: 20
        timeoutSeconds: 10
        failureThreshold: 3
      readinessProbe:
        httpGet: {path: /readyz, port: https, scheme: HTTPS}
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 2
      securityContext: {{ toJson .Values.securityContext }}
      resources: {{ toJson .Values.resources }}
      volumeMounts:
        - {name: data, mountPath: /var/lib/rowlock}
        - {name: config, mountPath: /etc/rowlock, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        {{- if eq .Values.database "postgres" }}
        - {name: datastore, mountPath: /etc/rowlock-datastore, readOnly: true}
        {{- end }}
        {{- with .Values.extraVolumeMounts }}{{ toYaml . | nindent 8 }}{{ end }}
  volumes:
    - name: config
      configMap: {name: {{ include "rowlock.name" . | quote }}}
    - name: tmp
      emptyDir: {}
    {{- if eq .Values.database "postgres" }}
    # The certificate authority is in the database.
    - name: data
      emptyDir: {}
    - name: datastore
      secret:
        secretName: {{ include "rowlock.secret" . | quote }}
        defaultMode: 0440
        items: [{key: {{ ternary .Values.postgres.existingSecretKey "url" (ne .Values.postgres.existingSecret "") | quote }}, path: url}]
    {{- end }}
    {{- with .Values.extraVolumes }}{{ toYaml . | nindent 4 }}{{ end }}
{{- end }}
