{{- define "launchbay.name" -}}
{{- if contains "launchbay" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-launchbay" (.Release.Name | trunc 40 | trimSuffix "-") }}{{ end }}
{{- end }}

{{/* Labels that never change: selectors have them. */}}
{{- define "launchbay.selector" -}}
app.kubernetes.io/name: launchbay
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "launchbay.labels" -}}
{{ include "launchbay.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* The specification of a pod. Takes the root context, the name of the component, and its arguments. */}}
{{- define "launchbay.pod" -}}
{{- $values := .root.Values -}}
{{- $component := index $values .component -}}
{{- if ne .component "migration" }}{{/* which runs before there is an account */}}
serviceAccountName: {{ include "launchbay.name" .root }}
{{- end }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with $values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with $values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
containers:
  - name: {{ .component }}
    {{- $image := ($values.image).repository | default "launchbay" }}
    image: "{{ $image }}{{ with ($values.image).digest }}@{{ . }}{{ else }}:{{ ($values.image).tag | default .root.Chart.AppVersion }}{{ end }}"
    imagePullPolicy: {{ ($values.image).pullPolicy | default "IfNotPresent" }}
    args: {{ .arguments | toJson }}
    env:
      - {name: LAUNCHBAY_BASE_URL, value: {{ $values.baseUrl | quote }}}
      - {name: LAUNCHBAY_DATA_DIR, value: /var/lib/launchbay}
      - {name: LAUNCHBAY_SECRET_KEY_FILE, value: /etc/launchbay/secret.key}
      - {name: LAUNCHBAY_LOG_FORMAT, value: json}
      - name: LAUNCHBAY_DATABASE_URL
        valueFrom: {secretKeyRef: {name: {{ $values.existingSecret }}, key: database-url}}
      - name: LAUNCHBAY_DATABASE_DIRECT_URL
        valueFrom: {secretKeyRef: {name: {{ $values.existingSecret }}, key: database-direct-url, optional: true}}
      - name: LAUNCHBAY_ADMIN_PASSWORD
        valueFrom: {secretKeyRef: {name: {{ $values.existingSecret }}, key: admin-password, optional: true}}
      {{- range $name, $value := $values.settings }}
      {{- if and (kindIs "float64" $value) (eq $value (floor $value)) }}{{/* toString writes a million as 1e+06 */}}
      - {name: LAUNCHBAY_{{ upper $name }}, value: {{ printf "%.0f" $value | quote }}}
      {{- else }}
      - {name: LAUNCHBAY_{{ upper $name }}, value: {{ toString $value | quote }}}
      {{- end }}
      {{- end }}
      {{- range $name, $of := $values.secretSettings }}
      - name: LAUNCHBAY_{{ upper $name }}
        valueFrom: {secretKeyRef: {name: {{ $of.name }}, key: {{ $of.key }}}}
      {{- end }}
    {{- if ne .component "migration" }}
    ports:
      - {name: http, containerPort: 8080}
    startupProbe:
      httpGet: {path: /health/ready, port: http}
      periodSeconds: 2
      failureThreshold: 150
    livenessProbe:
      httpGet: {path: /health/live, port: http}
      timeoutSeconds: 5
    readinessProbe:
      httpGet: {path: /health/ready, port: http}
      periodSeconds: 5
      timeoutSeconds: 5
    {{- end }}
    {{- if eq .component "server" }}
    lifecycle:
      preStop:
        exec: {command: [sleep, "5"]} # until load balancers know
    {{- end }}
    resources: {{- toYaml $component.resources | nindent 6 }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
    volumeMounts:
      - {name: data, mountPath: /var/lib/launchbay}
      - {name: temporary, mountPath: /tmp}
      - {name: key, mountPath: /etc/launchbay, readOnly: true}
volumes:
  - {name: data, emptyDir: {}}
  - {name: temporary, emptyDir: {}}
  - name: key
    secret:
      secretName: {{ $values.existingSecret }}
      defaultMode: 0440
      items: [{key: secret.key, path: secret.key}]
{{- end }}
