package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/sqlstore/etcd/etcdtest"
)

// Values are decrypted and encrypted by each of kube-apiserver's providers with local keys, and not by another key.
func TestImportOfEncrypted(t *testing.T) {
	for _, provider := range []string{"aesgcm", "secretbox"} {
		t.Run(provider, func(t *testing.T) {
			dir := t.TempDir()
			config, other := filepath.Join(dir, "encryption"), filepath.Join(dir, "other")
			with := strings.ReplaceAll(sourceEncryption, "aescbc", provider)
			writeTo(t, config, []byte(with))
			writeTo(t, other, []byte(strings.ReplaceAll(with, `"secret":"M`, `"secret":"N`)))
			source, file := filepath.Join(dir, "source"), filepath.Join(dir, "snapshot")
			if err := etcdtest.Bolt(source, kubeAPIServerHas(t, config)...); err != nil {
				t.Fatal(err)
			}
			const hidden = "/registry/secrets/default/hidden"
			if said := runs(t, "import", "--dry-run", "--incomplete", "--source-encryption-provider-config", other, source); !strings.Contains(said, hidden) {
				t.Errorf("with another key it says:\n%s", said)
			}
			data := filepath.Join(dir, "data")
			runs(t, "import", "--to", "sqlite://"+filepath.Join(data, "rowlock.db"), "--incomplete", "--source-encryption-provider-config", config, source)
			runs(t, "export", "--data-dir", data, "--target-encryption-provider-config", config, file)
			have, _ := entriesOf(t, file)
			if want := "k8s:enc:" + provider + ":v1:k:"; !bytes.HasPrefix(have[hidden].Value, []byte(want)) {
				t.Errorf("the Secret is %q, and does not begin with %s", have[hidden].Value, want)
			}
			importAndCompare(t, file, config, have)
		})
	}
}

// Objects in a transition go on from there: the server ends the deletion of a namespace, as far as finalizers let it, and serves the objects of a
// definition whichever of its versions they are stored in.
func TestImportOfTransitions(t *testing.T) {
	place, file := storePlace{dir: filepath.Join(t.TempDir(), "data")}, filepath.Join(t.TempDir(), "snapshot")
	deleted := metav1.Unix(1_600_000_000, 0)
	var puts []etcdtest.Put
	for name, finalizers := range map[string][]string{"ending": nil, "stuck": {"example.com/wait"}} {
		namespace, configMap := importedMeta("", name), importedMeta(name, "c")
		namespace.DeletionTimestamp, configMap.Finalizers = &deleted, finalizers
		puts = append(puts, etcdtest.Put{Key: "/registry/namespaces/" + name, Value: stored(t, &corev1.Namespace{ObjectMeta: namespace,
			Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating}})},
			etcdtest.Put{Key: "/registry/configmaps/" + name + "/c", Value: stored(t, &corev1.ConfigMap{ObjectMeta: configMap})})
	}
	puts = append(puts, etcdtest.Put{Key: "/registry/apiextensions.k8s.io/customresourcedefinitions/boats.example.com", Value: []byte(`{"kind":"CustomResourceDefinition",
"apiVersion":"apiextensions.k8s.io/v1","metadata":{"name":"boats.example.com","uid":"u-crd","creationTimestamp":"2020-01-01T00:00:00Z"},
"spec":{"group":"example.com","names":{"plural":"boats","singular":"boat","kind":"Boat","listKind":"BoatList"},"scope":"Cluster","conversion":{"strategy":"None"},"versions":[
{"name":"v1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"sails":{"type":"integer"}}}}}}},
{"name":"v2","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"sails":{"type":"integer"}}}}}}}]},
"status":{"conditions":[{"type":"NamesAccepted","status":"True"},{"type":"Established","status":"True"}],
"acceptedNames":{"plural":"boats","singular":"boat","kind":"Boat","listKind":"BoatList"},"storedVersions":["v1","v2"]}}`)})
	for _, version := range []string{"v1", "v2"} {
		puts = append(puts, etcdtest.Put{Key: "/registry/example.com/boats/of-" + version, Value: []byte(`{"apiVersion":"example.com/` + version + `","kind":"Boat","metadata":{"creationTimestamp":"2020-01-01T00:00:00Z",
"name":"of-` + version + `","uid":"u-` + version + `"},"spec":{"sails":2}}`)})
	}
	if err := etcdtest.Bolt(file, puts...); err != nil {
		t.Fatal(err)
	}
	url, _ := place.database()
	runs(t, "import", "--to", url, file)
	runs(t, append([]string{"verify"}, place.args()...)...)
	p := start(t, place.args()...)
	defer p.end()
	client := p.client(t)
	until(t, "the namespace to go", func() bool {
		_, err := client.CoreV1().Namespaces().Get(t.Context(), "ending", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	until(t, "the other one to say what it waits for", func() bool {
		return strings.Contains(send(t, client, "GET", "/api/v1/namespaces/stuck", ""), "example.com/wait in 1 resource instances")
	})
	if _, err := client.CoreV1().ConfigMaps("stuck").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "d"}}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a create there: %v", err)
	}
	for _, version := range []string{"v1", "v2"} {
		list := send(t, client, "GET", "/apis/example.com/"+version+"/boats", "")
		if versions := gjson.Get(list, "items.#.apiVersion").String(); versions != `["example.com/`+version+`","example.com/`+version+`"]` || gjson.Get(list, "items.#.spec.sails").String() != "[2,2]" {
			t.Errorf("in %s there are %s", version, list)
		}
	}
	if versions := gjson.Get(send(t, client, "GET", crds+"/boats.example.com", ""), "status.storedVersions").String(); versions != `["v1","v2"]` {
		t.Errorf("stored are %s", versions)
	}
}
