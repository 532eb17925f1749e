package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"

	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/upstream"
	"github.com/rowlock/rowlock/sqlstore/etcd/etcdtest"
)

const sourceEncryption = `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"EncryptionConfiguration","resources":[{"resources":["secrets"],
"providers":[{"aescbc":{"keys":[{"name":"k","secret":"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}]}},{"identity":{}}]}]}`

// stored returns a built-in object as kube-apiserver stores it.
func stored(t *testing.T, o runtime.Object) []byte {
	t.Helper()
	kinds, _, err := builtin.Scheme.ObjectKinds(o)
	if err != nil {
		t.Fatal(err)
	}
	o.GetObjectKind().SetGroupVersionKind(kinds[0])
	var b bytes.Buffer
	if err := protobuf.NewSerializer(builtin.Scheme, builtin.Scheme).Encode(o, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func importedMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-of-" + name), Generation: 3,
		CreationTimestamp: metav1.Unix(1_500_000_000, 0), Annotations: map[string]string{"a": "<&>"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{}}`)}}}
}

// kubeAPIServerHas returns the keys and values that a kube-apiserver has stored.
func kubeAPIServerHas(t *testing.T, config string) []etcdtest.Put {
	t.Helper()
	e, err := (&encryptionOptions{file: config}).open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	secretKey := "/registry/secrets/default/hidden"
	secret, err := e.transformers.TransformerForResource(schema.GroupResource{Resource: "secrets"}).TransformToStorage(t.Context(),
		stored(t, &corev1.Secret{ObjectMeta: importedMeta("default", "hidden"), Data: map[string][]byte{"k": []byte("v")}}), value.DefaultContext(secretKey))
	if err != nil {
		t.Fatal(err)
	}
	host := importedMeta("kube-system", "apiserver-x")
	host.Labels = map[string]string{"apiserver.kubernetes.io/identity": "kube-apiserver"}
	replicas := int32(2)
	return []etcdtest.Put{
		{Key: "/registry/health", Value: []byte(`{"health":true}`)},
		{Key: "/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com", Value: []byte(`{"kind":"CustomResourceDefinition",
"apiVersion":"apiextensions.k8s.io/v1beta1","metadata":{"name":"widgets.example.com","uid":"u-crd","creationTimestamp":"2020-01-01T00:00:00Z"},
"spec":{"group":"example.com","version":"v1","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},"scope":"Namespaced",
"preserveUnknownFields":false,"selectableFields":[{"jsonPath":".spec.color"}],
"validation":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"color":{"type":"string"}}}}}},
"versions":[{"name":"v1","served":true,"storage":true}],"conversion":{"strategy":"None"}},
"status":{"conditions":[{"type":"NamesAccepted","status":"True"},{"type":"Established","status":"True"}],
"acceptedNames":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},"storedVersions":["v1"]}}`)},
		{Key: "/registry/example.com/widgets/default/w", Value: []byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"creationTimestamp":"2020-01-01T00:00:00Z",
"name":"w","namespace":"default","uid":"u-w"},"spec":{"color":"red"}}` + "\n")},
		{Key: "/registry/namespaces/default", Value: stored(t, &corev1.Namespace{ObjectMeta: importedMeta("", "default"),
			Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes"}}, Status: corev1.NamespaceStatus{Phase: "Active"}})},
		{Key: "/registry/deployments/default/d", Value: stored(t, &appsv1.Deployment{ObjectMeta: importedMeta("default", "d"), Spec: appsv1.DeploymentSpec{Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}}})},
		{Key: "/registry/minions/n", Value: stored(t, &corev1.Node{ObjectMeta: importedMeta("", "n"), Spec: corev1.NodeSpec{PodCIDR: "10.1.0.0/24"}})},
		{Key: secretKey, Value: secret},
		{Key: "/registry/events/default/e", Value: stored(t, &corev1.Event{ObjectMeta: importedMeta("default", "e"), Reason: "R",
			InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "n", Namespace: "default"}}), Seconds: 3600},
		{Key: "/registry/leases/kube-system/apiserver-x", Value: stored(t, &coordinationv1.Lease{ObjectMeta: host})},
		{Key: "/registry/masterleases/10.0.0.1", Value: stored(t, &corev1.Endpoints{})}, //nolint:staticcheck // deprecated, and still what kube-apiserver writes there
		{Key: "/registry/ranges/serviceips", Value: []byte("x")},
		{Key: "/registry/podsecuritypolicies/old", Value: []byte(`{"kind":"PodSecurityPolicy","apiVersion":"policy/v1beta1","metadata":{"name":"old"}}`)},
		{Key: "/registry/configmaps/default/broken", Value: []byte("k8s\x00broken")},
		{Key: "compact_rev_key", Value: []byte("5")},
		{Key: "/registry/services/specs/default/s", Value: stored(t, &corev1.Service{ObjectMeta: importedMeta("default", "s"), Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, ClusterIP: "10.43.1.2", ClusterIPs: []string{"10.43.1.2"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080, Protocol: corev1.ProtocolTCP}}}})},
	}
}

// Objects that kube-apiserver has stored are served unchanged, from every encoding and version, and objects that cannot be imported are reported
// before anything is written.
func TestImport(t *testing.T) {
	for _, kind := range []struct {
		name  string
		write func(string, ...etcdtest.Put) error
	}{{"etcd", etcdtest.Bolt}, {"kine", etcdtest.Kine}} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			config, file := filepath.Join(dir, "encryption"), filepath.Join(dir, "snapshot")
			if err := os.WriteFile(config, []byte(sourceEncryption), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := kind.write(file, kubeAPIServerHas(t, config)...); err != nil {
				t.Fatal(err)
			}
			importAndServe(t, config, file)
		})
	}
}

// They are also read from a running etcd with TLS client certificates. The prefix of the keys needs no slash, as for kube-apiserver.
func TestImportOfServer(t *testing.T) {
	dir := t.TempDir()
	config, crt, key := filepath.Join(dir, "encryption"), filepath.Join(dir, "crt"), filepath.Join(dir, "key")
	certificate, private, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for path, data := range map[string][]byte{config: []byte(sourceEncryption), crt: certificate, key: private} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := tls.X509KeyPair(certificate, private)
	if err != nil {
		t.Fatal(err)
	}
	server := &etcdtest.Server{Cluster: 1}
	server.Serve(t, &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}, kubeAPIServerHas(t, config)...)
	url := "https://" + server.Address
	importAndServe(t, config, "--etcd-prefix", "registry", "--etcd-cafile", crt, "--etcd-certfile", crt, "--etcd-keyfile", key, "https://127.0.0.1:1,"+url)

	for want, args := range map[string][]string{
		"unknown authority":                  {url},
		"it was shown no client certificate": {"--etcd-cafile", crt, url},
		"no such file":                       {"--etcd-cafile", crt + "x", url},
		"are for servers":                    {"--etcd-cafile", crt, config},
		"Error: --source-encryption-provider-config: error while parsing": {"--source-encryption-provider-config", crt, url, "--etcd-cafile", crt, "--etcd-certfile", crt, "--etcd-keyfile", key},
		"no file can be made in /proc":                                    {"--to", "sqlite:///proc/a/rowlock.db", url, "--etcd-cafile", crt, "--etcd-certfile", crt, "--etcd-keyfile", key},
	} {
		if code, _, stderr := command(t, append([]string{"import", "--dry-run"}, args...)...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit code %d, %s", args, code, stderr)
		}
	}
}

// Definitions whose objects will be pruned later are reported.
func TestImportOfUnpruned(t *testing.T) {
	file := filepath.Join(t.TempDir(), "snapshot")
	if err := etcdtest.Bolt(file, etcdtest.Put{Key: "/registry/apiextensions.k8s.io/customresourcedefinitions/boats.example.com", Value: []byte(`{"kind":"CustomResourceDefinition",
"apiVersion":"apiextensions.k8s.io/v1beta1","metadata":{"name":"boats.example.com"},"spec":{"group":"example.com","version":"v1","scope":"Cluster",
"names":{"plural":"boats","kind":"Boat"},"preserveUnknownFields":true}}`)}); err != nil {
		t.Fatal(err)
	}
	if said := runs(t, "import", "--dry-run", file); !strings.Contains(said, "With spec.preserveUnknownFields, 1: ") || !strings.Contains(said, "\n    boats.example.com\n") {
		t.Errorf("it says:\n%s", said)
	}
}

// Objects that are larger than a server takes by default are reported: they would be served, and not updated.
func TestImportOfLargeObjects(t *testing.T) {
	file := filepath.Join(t.TempDir(), "snapshot")
	large := func(name string, bytes int) etcdtest.Put {
		args := []string{strings.Repeat("\n", bytes)} // which takes twice as many bytes in JSON
		return etcdtest.Put{Key: "/registry/podtemplates/default/" + name, Value: stored(t, &corev1.PodTemplate{ObjectMeta: importedMeta("default", name),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i", Args: args}}}}})}
	}
	if err := etcdtest.Bolt(file, large("fits", etcdRequestBytes-4096), large("large", etcdRequestBytes)); err != nil {
		t.Fatal(err)
	}
	const want = "Longer than a server takes without a larger --max-object-bytes, so that they can be read and not updated, 1:\n    /registry/podtemplates/default/large\n"
	place := storePlace{dir: filepath.Join(t.TempDir(), "data")}
	for _, how := range [][]string{{"--dry-run"}, {"--to", "sqlite://" + filepath.Join(place.dir, "rowlock.db")}} {
		if said := runs(t, append([]string{"import", file}, how...)...); !strings.Contains(said, want) {
			t.Errorf("%q says:\n%s", how, said)
		}
	}
	for _, limit := range []int{etcdRequestBytes, 2 * etcdRequestBytes} {
		p := start(t, append(place.args(), "--max-object-bytes", fmt.Sprint(limit))...)
		for _, name := range []string{"fits", "large"} {
			_, err := p.client(t).CoreV1().PodTemplates("default").Patch(t.Context(), name, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"limit":"%d"}}}`, limit), metav1.PatchOptions{})
			if takes := name == "fits" || limit > etcdRequestBytes; (err == nil) != takes {
				t.Errorf("with a limit of %d bytes, a change of %s: %v", limit, name, err)
			}
		}
		p.end()
	}
}

// The command tells its progress while it checks the keys, and while it imports them.
func TestImportTellsProgress(t *testing.T) {
	file := filepath.Join(t.TempDir(), "snapshot")
	puts := []etcdtest.Put{{Key: "/registry/namespaces/default", Value: stored(t, &corev1.Namespace{ObjectMeta: importedMeta("", "default")})}}
	for i := range 2*tellEach - 1 {
		puts = append(puts, etcdtest.Put{Key: fmt.Sprint("/registry/masterleases/", i), Value: []byte("x")})
	}
	if err := etcdtest.Bolt(file, puts...); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := command(t, "import", "--to", "sqlite://"+filepath.Join(t.TempDir(), "rowlock.db"), file)
	if want := "20000 keys checked\n40000 keys checked\n20000 keys imported\n40000 keys imported\n"; code != 0 || !strings.HasSuffix(stderr, want) {
		t.Errorf("exit code %d, it tells %q, want %q", code, stderr, want)
	}
}

func importAndServe(t *testing.T, config string, source ...string) {
	place := storePlace{dir: filepath.Join(t.TempDir(), "data")}
	url := "sqlite://" + filepath.Join(place.dir, "rowlock.db")
	args := append([]string{"import", "--to", url, "--source-encryption-provider-config", config}, source...)
	if code, _, stderr := command(t, append(slices.Clone(args), "--dry-run")...); code != exitFailure || !strings.Contains(stderr, "2 objects cannot be imported: say --incomplete") {
		t.Errorf("the dry run of what loses objects: exit code %d, %s", code, stderr)
	}
	said := runs(t, append(slices.Clone(args), "--dry-run", "--incomplete")...)
	for _, want := range []string{"8 objects\n", "/registry/podsecuritypolicies/old", "/registry/configmaps/default/broken", "/registry/masterleases/10.0.0.1",
		"/registry/leases/kube-system/apiserver-x"} {
		if !strings.Contains(said, want) {
			t.Errorf("the dry run does not say %q:\n%s", want, said)
		}
	}
	if said := runs(t, append([]string{"import", "--dry-run", "--incomplete"}, source...)...); !strings.Contains(said, "no configuration says by which key\n    /registry/secrets/default/hidden\n") {
		t.Errorf("without keys, the dry run says:\n%s", said)
	}
	if code, _, stderr := command(t, args...); code == 0 || !strings.Contains(stderr, "--incomplete") {
		t.Errorf("what loses objects: exit code %d, %s", code, stderr)
	}
	if _, err := os.Stat(filepath.Join(place.dir, "rowlock.db")); err == nil {
		t.Fatal("it was written all the same")
	}
	runs(t, append(args, "--incomplete")...)
	if code, said, stderr := command(t, append(slices.Clone(args), "--incomplete", "--dry-run")...); code != exitFailure || !strings.Contains(said, "8 objects\n") ||
		!strings.Contains(stderr, "rowlock.db") {
		t.Errorf("the dry run into a store that is there: exit code %d, %s, and:\n%s", code, stderr, said)
	}
	runs(t, append([]string{"verify"}, place.args()...)...)

	p := start(t, place.args()...)
	defer p.end()
	client := p.client(t)
	keepsAllocations(t, client)
	for path, want := range map[string]map[string]string{
		"/api/v1/namespaces/default":                                     {"metadata.uid": "uid-of-default", "metadata.resourceVersion": "5"},
		"/apis/apps/v1/namespaces/default/deployments/d":                 {"metadata.uid": "uid-of-d", "metadata.resourceVersion": "6", "spec.replicas": "2", "metadata.managedFields.0.manager": "m", "metadata.annotations.a": "<&>", "metadata.creationTimestamp": "2017-07-14T02:40:00Z"},
		"/api/v1/nodes/n":                                                {"metadata.uid": "uid-of-n", "spec.podCIDR": "10.1.0.0/24"},
		"/api/v1/namespaces/default/secrets/hidden":                      {"data.k": "dg==", "metadata.resourceVersion": "8"},
		"/api/v1/namespaces/default/events reason=R":                     {"items.0.metadata.name": "e", "items.0.metadata.resourceVersion": "9"},
		"/apis/example.com/v1/namespaces/default/widgets spec.color=red": {"items.#": "1", "items.0.metadata.resourceVersion": "4", "items.0.metadata.uid": "u-w"},
	} {
		path, selector, _ := strings.Cut(path, " ")
		request := client.CoreV1().RESTClient().Get().AbsPath(path)
		if selector != "" {
			request.Param("fieldSelector", selector)
		}
		answer, err := request.DoRaw(t.Context())
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		for field, value := range want {
			if have := gjson.GetBytes(answer, field).String(); have != value {
				t.Errorf("%s: %s is %q and not %q", path, field, have, value)
			}
		}
	}
}

// keepsAllocations checks that what the imported Service has is not given to another one.
func keepsAllocations(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	for name, spec := range map[string]corev1.ServiceSpec{
		"port":    {Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}}},
		"address": {ClusterIP: "10.43.1.2", Ports: []corev1.ServicePort{{Port: 80}}},
	} {
		_, err := client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "already allocated") {
			t.Errorf("a Service with its %s: %v", name, err)
		}
	}
}

// A snapshot cannot be a stream: a pipe is refused before it is opened, which would wait for a writer.
func TestImportOfPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan bool)
	go func() {
		defer close(ended)
		if code, _, stderr := command(t, "import", "--dry-run", pipe); code != exitUsage || !strings.Contains(stderr, "is a pipe") {
			t.Errorf("exit code %d, %s", code, stderr)
		}
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("it waits for a writer")
		if writer, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			_ = writer.Close() // it unblocks the command
		}
		<-ended
	}
}

// A server that does not answer is reported once, in plain words.
func TestImportOfNobody(t *testing.T) {
	var log bytes.Buffer
	upstream.LogTo(slog.New(slog.NewTextHandler(&log, nil)))
	const want = "Error: http://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused\n"
	if code, stdout, stderr := command(t, "import", "--dry-run", "http://127.0.0.1:1"); code != exitFailure || stdout != "" || stderr != want || log.Len() > 0 {
		t.Errorf("exit code %d, %s%s, and in the log: %s", code, stdout, stderr, log.String())
	}
}

// The file of an etcd itself, which may lack the last writes, is not imported in silence; a snapshot is.
func TestImportOfEtcdsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "db")
	if err := etcdtest.Bolt(file, etcdtest.Put{Key: "/registry/namespaces/default", Value: stored(t, &corev1.Namespace{ObjectMeta: importedMeta("", "default")})}); err != nil {
		t.Fatal(err)
	}
	const want = "lacks the last writes: start the etcd once"
	if said := runs(t, "import", "--dry-run", file); !strings.Contains(said, want) {
		t.Errorf("of the file of an etcd it says:\n%s", said)
	}
	if err := etcdtest.Sum(file); err != nil {
		t.Fatal(err)
	}
	if said := runs(t, "import", "--dry-run", file); strings.Contains(said, want) {
		t.Errorf("of a snapshot it says:\n%s", said)
	}
}

// If the source has no keys below the prefix, the import fails instead of creating an empty store.
func TestImportOfNothing(t *testing.T) {
	dir := t.TempDir()
	file, to := filepath.Join(dir, "snapshot"), filepath.Join(dir, "rowlock.db")
	if err := etcdtest.Bolt(file, etcdtest.Put{Key: "/registry/namespaces/default", Value: stored(t, &corev1.Namespace{ObjectMeta: importedMeta("", "default")})}); err != nil {
		t.Fatal(err)
	}
	for _, how := range [][]string{{"--dry-run"}, {"--to", "sqlite://" + to}} {
		code, _, stderr := command(t, append([]string{"import", "--etcd-prefix", "/elsewhere", file}, how...)...)
		if code != exitFailure || !strings.Contains(stderr, "no key there begins with /elsewhere/") {
			t.Errorf("%q: exit code %d, %s", how, code, stderr)
		}
	}
	if _, err := os.Stat(to); err == nil {
		t.Error("a store was made")
	}
}
