package e2e

import (
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rowlock/rowlock/e2e/harness"
)

const (
	packagedChart = "../packaging/chart"
	onPostgres    = "database=postgres,postgres.url=postgres://rowlock:secret@db/rowlock"
)

// anonymousProbes is an AuthenticationConfiguration that allows anonymous requests for the paths of probes only, as docs/install.md has it.
const anonymousProbes = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous: {enabled: true, conditions: [{path: /livez}, {path: /readyz}]}
`

// TestPackagedChartRenders checks that helm accepts the chart, and that invalid values are reported.
func TestPackagedChartRenders(t *testing.T) {
	if database.url != "" {
		return // the rendered text does not depend on the database of these tests
	}
	h := newHelm(t, "default")
	for _, values := range []string{"database=sqlite", onPostgres, "database=postgres,postgres.existingSecret=pg"} {
		wants(t, h.run(t, "lint", "--strict", packagedChart, "--set", values), "1 chart(s) linted, 0 chart(s) failed")
	}
	wants(t, h.run(t, "template", "planes", packagedChart, "--set", `podLabels.team=a,podLabels.app\.kubernetes\.io/name=rowlock`), "team: a")
	for _, values := range []string{"config.anonymous-auth=true", "config.authorization-mode={Node,RBAC}", "config.authorization-mode=AlwaysAllow,config.authentication-config=/a",
		"config.authorization-mode=AlwaysAllow,env[0].name=ROWLOCK_AUTHENTICATION_CONFIG,env[0].value=/a", "config.authorization-mode=AlwaysAllow,env[0].name=ROWLOCK_AUTHORIZATION_MODE,env[0].value=RBAC",
		"config.anonymous-auth=false,env[0].name=A,env[1].name=ROWLOCK_ANONYMOUS_AUTH"} {
		h.run(t, "template", "planes", packagedChart, "--set", values)
	}
	for values, why := range map[string]string{
		"config.anonymous-auth=false":                                           "config.anonymous-auth: kubelets probe /livez and /readyz without credentials",
		"config.authorization-mode=AlwaysAllow":                                 "config.authorization-mode: kubelets probe /livez",
		"config.anonymous-auth=false,env[0].name=ROWLOCK_AUTHENTICATION_CONFIG": "config.anonymous-auth: kubelets probe /livez",
		"config.authorization-mode={Node,AlwaysAllow}":                          "config.authorization-mode: kubelets probe /livez",
		`config.authorization-mode=Node\,AlwaysAllow`:                           "config.authorization-mode: kubelets probe /livez",
		"database=mysql":                           "'sqlite', 'postgres'",
		"config.listen=0.0.0.0:1":                  "config.listen: the chart sets this itself",
		"config.data-dir=/x":                       "config.data-dir: the chart sets this itself",
		`podLabels.app\.kubernetes\.io/name=other`: "podLabels: app.kubernetes.io/name is what selects the Pods, and stays rowlock",
		"podLabels.tier=1":                         "'/podLabels/tier': got number, want string",
		"nodeSelector.zone=1":                      "'/nodeSelector/zone': got number, want string",
		"replicas=2":                               "replicas",
		"postgres=null":                            "missing property 'postgres'",
		"persistence.size=null":                    "missing property 'size'",
		"service.port=null":                        "missing property 'port'",
		"image.repository=null":                    "missing property 'repository'",
		"database=postgres":                        "postgres.url or postgres.existingSecret",
		"postgres.url=mysql://db/db":               "postgres",
		onPostgres + ",postgres.existingSecret=pg": "postgres.url or postgres.existingSecret",
	} {
		wants(t, h.fails(t, "template", "planes", packagedChart, "--set", values), why)
	}
}

// TestPackagedChartShowsNoPassword checks that Pods are restarted for another database, and that their checksum does not depend on a password, which a
// server takes from the file for each connection.
func TestPackagedChartShowsNoPassword(t *testing.T) {
	if database.url != "" {
		return // the rendered text does not depend on the database of these tests
	}
	h := newHelm(t, "default")
	sum := func(url string) string {
		t.Helper()
		text := h.run(t, "template", "planes", packagedChart, "--set", "database=postgres", "--set-literal", "postgres.url="+url)
		_, sum, found := strings.Cut(text, "checksum/config: ")
		if sum, _, _ = strings.Cut(sum, "\n"); !found || len(sum) != 64 {
			t.Fatalf("the checksum is %q in\n%s", sum, text)
		}
		return sum
	}
	const rest = "a,b:5433/rowlock?sslmode=verify-full&sslkey=/k"
	want := sum("postgres://u:one@" + rest)
	for _, url := range []string{"postgres://u:two@" + rest, "postgres://u:t@wo@" + rest, "postgres://u@" + rest, "postgres://" + rest} {
		if sum(url) != want {
			t.Errorf("%s has another checksum than with another password", url)
		}
	}
	for _, query := range []string{"password", "sslpassword"} {
		if sum("postgres://"+rest+"&"+query+"=one&user=u") != sum("postgres://"+rest+"&"+query+"=two&user=u") {
			t.Errorf("the checksum depends on %s", query)
		}
	}
	for _, url := range []string{"postgres://u:one@c,b:5433/rowlock?sslmode=verify-full&sslkey=/k", "postgres://u:one@a,b:5433/other?sslmode=verify-full&sslkey=/k",
		"postgres://u:one@a,b:5433/rowlock?sslmode=verify-full&sslkey=/other"} {
		if sum(url) == want {
			t.Errorf("%s has the checksum of another database", url)
		}
	}
}

// TestPackagedChartOfOddNames checks that names and values that YAML would take for numbers are texts, and that the name of a release may have a dot,
// which that of a Service may not.
func TestPackagedChartOfOddNames(t *testing.T) {
	namespace := newNamespace(t)
	h, k := newHelm(t, namespace), kubectl{namespace: namespace}
	for release, values := range map[string]string{
		"1e3":   "serviceAccountName=1,priorityClassName=2,persistence.storageClass=3,nodeSelector.a=4",
		"a.b":   onPostgres,
		"true":  "fullnameOverride=7,database=postgres,postgres.existingSecret=8,postgres.existingSecretKey=9,priorityClassName=system-node-critical",
		"nulls": "config=null,podLabels=null,podAnnotations=null,tolerations=null",
	} {
		manifest := filepath.Join(t.TempDir(), "manifest.yaml")
		flag := "--set-string"
		if release == "nulls" {
			flag = "--set"
		}
		if err := os.WriteFile(manifest, []byte(h.run(t, "template", release, packagedChart, flag, values)), 0o600); err != nil {
			t.Fatal(err)
		}
		service := "service/"
		if release == "1e3" { // clusters before 1.34, and many after, accept no Service whose name begins with a digit
			service = "service/rowlock-1e3"
		}
		wants(t, k.run(t, "create", "--dry-run=server", "--validate=strict", "-f", manifest), "configmap/", service)
	}
}

// TestPackagedChart takes the chart through its life: SQLite, another configuration, Postgres, uninstallation. The commands of its Pods answer their
// probes.
func TestPackagedChart(t *testing.T) {
	namespace := newNamespace(t)
	h, k := newHelm(t, namespace), kubectl{namespace: namespace}
	objects := func() string {
		t.Helper()
		return k.run(t, "get", "all,cm,secret,pvc,pdb", "-l", "app.kubernetes.io/instance=planes", "-o", "name")
	}
	values := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(values, []byte("config: {max-object-bytes: 2000000, log-level: info, tls-san: [planes.example.com]}\n"+
		"env: [{name: ROWLOCK_AUTHENTICATION_CONFIG, value: /etc/authentication/file}]\n"+
		"extraVolumes: [{name: authentication, configMap: {name: authentication}}]\n"+
		"extraVolumeMounts: [{name: authentication, mountPath: /etc/authentication}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k.run(t, "create", "configmap", "authentication", "--from-literal", "file="+anonymousProbes)
	wants(t, h.run(t, "install", "planes", packagedChart), "STATUS: deployed", "statefulset/planes-rowlock")
	if have, want := objects(), "service/planes-rowlock\nstatefulset.apps/planes-rowlock\nconfigmap/planes-rowlock\n"; have != want {
		t.Errorf("on SQLite there is\n%s", have)
	}
	set, err := shared.client.AppsV1().StatefulSets(namespace).Get(t.Context(), "planes-rowlock", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if *set.Spec.Replicas != 1 || len(set.Spec.VolumeClaimTemplates) != 1 {
		t.Errorf("a file has one server and one volume: %+v", set.Spec)
	}
	isRestricted(t, namespace, set.Spec.Template)

	wants(t, h.run(t, "upgrade", "planes", packagedChart, "--values", values), "REVISION: 2")
	before := set.Spec.Template.Annotations["checksum/config"]
	if set, err = shared.client.AppsV1().StatefulSets(namespace).Get(t.Context(), set.Name, metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	if after := set.Spec.Template.Annotations["checksum/config"]; after == before || before == "" {
		t.Error("no server would be started with the new configuration")
	}
	if database.url == "" {
		node{namespace}.runs(t, set.Spec.Template)
	}

	url := onPostgres
	if database.url != "" {
		url = "database=postgres,config.schema=" + strings.ReplaceAll(namespace, "-", "") + ",postgres.url=" + strings.ReplaceAll(database.url, ",", `\,`)
	}
	wants(t, h.run(t, "upgrade", "planes", packagedChart, "--values", values, "--set", url), "REVISION: 3", "deployment/planes-rowlock")
	if have, want := objects(), "service/planes-rowlock\ndeployment.apps/planes-rowlock\nconfigmap/planes-rowlock\nsecret/planes-rowlock-datastore\npoddisruptionbudget.policy/planes-rowlock\n"; have != want {
		t.Errorf("on Postgres there is\n%s", have)
	}
	deployment, err := shared.client.AppsV1().Deployments(namespace).Get(t.Context(), "planes-rowlock", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	budget, err := shared.client.PolicyV1().PodDisruptionBudgets(namespace).Get(t.Context(), "planes-rowlock", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil || selector.String() != metav1.FormatLabelSelector(deployment.Spec.Selector) || *deployment.Spec.Replicas < 2 {
		t.Errorf("%v: the budget is for %s, and not for %+v", err, selector, deployment.Spec)
	}
	isRestricted(t, namespace, deployment.Spec.Template)
	if database.url != "" {
		node{namespace}.runs(t, deployment.Spec.Template)
	}
	h.run(t, "uninstall", "planes")
	if left := objects(); left != "" {
		t.Errorf("left are\n%s", left)
	}
}

// isRestricted lets PodSecurity check Pods of a template by its strictest standard.
func isRestricted(t *testing.T, namespace string, template corev1.PodTemplateSpec) {
	t.Helper()
	label := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	if _, err := shared.client.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: unique("pod"), Labels: template.Labels}, Spec: template.Spec}
	if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "data" }) { // otherwise it comes from a claim
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data"})
	}
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	if _, err := shared.client.CoreV1().Pods(namespace).Create(t.Context(), pod, dryRun); err != nil {
		t.Errorf("PodSecurity: %v", err)
	}
	pod.Spec.Containers = slices.Clone(pod.Spec.Containers)
	pod.Spec.Containers[0].SecurityContext = nil
	if _, err := shared.client.CoreV1().Pods(namespace).Create(t.Context(), pod, dryRun); err == nil {
		t.Error("nobody looks")
	}
}

// node stands in for a node that runs Pods: it has directories for their volumes.
type node struct{ namespace string }

// runs starts the container of a template, with the files that it would mount, until its probes pass. The probes do not verify the server's
// authority, as kubelets do not, and the certificate has the name of the Service.
func (n node) runs(t *testing.T, template corev1.PodTemplateSpec) {
	t.Helper()
	container := template.Spec.Containers[0]
	var places []string
	for _, mount := range container.VolumeMounts {
		places = append(places, mount.MountPath+"/", n.volume(t, template.Spec, mount.Name)+"/")
	}
	here := strings.NewReplacer(places...)
	args := slices.Clone(container.Args)
	for i := range args {
		args[i] = here.Replace(args[i])
	}
	var env []string
	data := ""
	for _, v := range container.Env {
		switch v.Name {
		case "ROWLOCK_LISTEN":
			v.Value = "127.0.0.1:0"
		case "ROWLOCK_DATA_DIR":
			data = here.Replace(v.Value)
		}
		env = append(env, v.Name+"="+here.Replace(v.Value))
	}
	serveUntilReady(t, append([]string{harness.Binary("rowlock")}, args...), env, func() {
		config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(data, "admin.kubeconfig"))
		if err != nil {
			t.Error(err)
			return
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}} //nolint:gosec // as kubelets
		for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
			answer, err := client.Get(config.Host + probe.HTTPGet.Path)
			if err != nil {
				t.Error(err)
				continue
			}
			answer.Body.Close()
			if answer.StatusCode != http.StatusOK || probe.HTTPGet.Scheme != corev1.URISchemeHTTPS || probe.HTTPGet.Port != container.ReadinessProbe.HTTPGet.Port {
				t.Errorf("%+v: %s", probe.HTTPGet, answer.Status)
			}
			for _, name := range []string{"planes-rowlock." + n.namespace + ".svc", "planes.example.com"} {
				if err := answer.TLS.PeerCertificates[0].VerifyHostname(name); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// volume creates the directory of a volume, and fills it.
func (n node) volume(t *testing.T, pod corev1.PodSpec, name string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(file, content string) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range pod.Volumes {
		switch {
		case v.Name != name:
		case v.ConfigMap != nil:
			m, err := shared.client.CoreV1().ConfigMaps(n.namespace).Get(t.Context(), v.ConfigMap.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for file, content := range m.Data {
				write(file, content)
			}
		case v.Secret != nil:
			s, err := shared.client.CoreV1().Secrets(n.namespace).Get(t.Context(), v.Secret.SecretName, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range v.Secret.Items {
				write(item.Path, string(s.Data[item.Key]))
			}
		}
	}
	return dir
}
