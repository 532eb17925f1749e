package main

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/sqlstore/archive"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The store of a server is valid on both databases, and so is a backup of it; each object that does not conform to its
// type is found and named.
func TestVerify(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, empty places) {
		place := empty(t)
		p := start(t, place.args()...)
		client := p.client(t)
		send(t, client, "POST", crds, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},
			"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":`+widgetVersions("v2")+`}}`)
		send(t, client, "POST", widgets, `{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"w"},"spec":{"n":1}}`)
		send(t, client, "POST", "/api/v1/namespaces/default/services", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"type":"NodePort","ports":[{"port":80}]}}`)
		send(t, client, "POST", "/api/v1/namespaces/default/events", `{"apiVersion":"v1","kind":"Event","metadata":{"name":"e"},"involvedObject":{"namespace":"default"}}`)
		runs(t, append([]string{"token", "create", "--user", "jane"}, place.args()...)...) // an Event and a token have a lifetime
		configMaps := client.CoreV1().ConfigMaps("default")
		for _, name := range []string{"a", "b"} {
			if _, err := configMaps.Create(t.Context(), newConfigMap(name, "1"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := configMaps.Update(t.Context(), newConfigMap("a", "2"), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := configMaps.Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if out := runs(t, append([]string{"verify"}, place.args()...)...); !strings.Contains(out, "nothing is wrong") {
			t.Errorf("beside the server: %s", out)
		}
		p.end()
		if out := runs(t, append([]string{"verify"}, place.args()...)...); !strings.Contains(out, "nothing is wrong") || strings.Contains(out, " 0 changes") {
			t.Errorf("without a server: %s", out)
		}
		file := filepath.Join(filepath.Dir(place.dir), "backup")
		runs(t, append([]string{"backup", file}, place.args()...)...)
		if out := runs(t, append([]string{"verify", file}, place.args()...)...); !strings.Contains(out, "nothing is wrong") {
			t.Errorf("a backup: %s", out)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		verifyRewritten(t, data)
	})
}

// verifyRewritten verifies backups with damaged objects.
func verifyRewritten(t *testing.T, data []byte) {
	var columns []string
	at := func(row []any, name string) *any { return &row[slices.Index(columns, name)] }
	replace := func(resource, old, replacement string) func([]any) []any {
		return func(row []any) []any {
			if *at(row, "resource") == any(resource) {
				data := at(row, "data")
				*data = strings.Replace((*data).(string), old, replacement, 1)
			}
			return row
		}
	}
	expires := func(resource string) func([]any) []any {
		return func(row []any) []any {
			if *at(row, "resource") == any(resource) {
				*at(row, "expires") = int64(1000)
			}
			return row
		}
	}
	// becomes turns a row of a node port into another kind of the server's own rows.
	becomes := func(resource, name, spec string) func([]any) []any {
		return func(row []any) []any {
			if *at(row, "resource") == any("nodeports.rowlock.internal") {
				data := strings.Replace((*at(row, "data")).(string), `"name":"`+(*at(row, "name")).(string)+`"`, `"name":"`+name+`"`, 1)
				data, _, _ = strings.Cut(data, `"service":`)
				*at(row, "resource"), *at(row, "name"), *at(row, "data") = resource, name, data+`"spec":`+spec+`}`
			}
			return row
		}
	}
	const widget, configMap = "widgets.example.com", "configmaps"
	for _, tc := range []struct {
		name, want string
		change     func([]any) []any
	}{
		{"a field of another type", "objects configmaps/default/a: does not decode", replace(configMap, `"data":{"v":"2"}`, `"data":["v"]`)},
		{"another name", `objects configmaps/default/a: has the name "z" in its data`, replace(configMap, `"name":"a"`, `"name":"z"`)},
		{"another namespace", "in its data", replace(configMap, `"namespace":"default"`, `"namespace":"z"`)},
		{"a name that would control a terminal", "objects configmaps/default/a [2J\ufffd: ", func(row []any) []any {
			if *at(row, "resource") == any(configMap) && *at(row, "name") == any("a") {
				*at(row, "name") = "a\x1b[2J\xff"
			}
			return row
		}},
		{"no uid", "has no uid", replace(configMap, `"uid":"`, `"was":"`)},
		{"another kind", "objects configmaps/", replace(configMap, `"kind":"ConfigMap"`, `"kind":"Secret"`)},
		{"a selectable field", "for the selectable field", func(row []any) []any {
			if fields := at(row, "fields"); *at(row, "resource") == any("services") {
				*fields = strings.Replace((*fields).(string), "ClusterIP", "NodePort", 1)
			}
			return row
		}},
		{"a selectable field is lost", "lacks the selectable field spec.", func(row []any) []any {
			if fields := at(row, "fields"); *at(row, "resource") == any("services") {
				*fields = strings.Replace((*fields).(string), "spec.", "was.", 1)
			}
			return row
		}},
		{"all selectable fields are lost", "lacks the selectable field spec.", func(row []any) []any {
			if *at(row, "resource") == any("services") {
				*at(row, "fields") = nil
			}
			return row
		}},
		{"a definition is lost", "objects widgets.example.com/default/w: is of a type widgets.example.com that nobody serves", func(row []any) []any {
			if *at(row, "resource") == any("customresourcedefinitions.apiextensions.k8s.io") {
				return nil
			}
			return row
		}},
		{"a definition does not decode", "objects customresourcedefinitions.apiextensions.k8s.io/", replace("customresourcedefinitions.apiextensions.k8s.io", `"scope":"Namespaced"`, `"scope":7`)},
		{"a version that the definition lacks", "is stored in version v7", replace(widget, `example.com/v2`, `example.com/v7`)},
		{"another kind than the definition's", "its definition is of", replace(widget, `"kind":"Widget"`, `"kind":"Gadget"`)},
		{"in no namespace", "has the namespace", func(row []any) []any {
			if *at(row, "resource") == any(configMap) && *at(row, "name") == any("a") {
				*at(row, "namespace") = ""
			}
			return row
		}},
		{"a lifetime", "objects configmaps/default/a: is to be deleted at 1970-01-01T00:00:01Z, and objects of its type have no lifetime", expires(configMap)},
		{"a lifetime of a custom resource", "objects widgets.example.com/default/w: is to be deleted at", expires(widget)},
		{"a lifetime of a row of the server's own", "is to be deleted at", expires("nodeports.rowlock.internal")},
		{"a row of the server's own", "is not a row of the server's own", func(row []any) []any {
			if strings.HasSuffix((*at(row, "resource")).(string), ".rowlock.internal") {
				data := at(row, "data")
				*data = strings.NewReplacer(`"spec":`, `"sepc":`, `"service":`, `"sevrice":`).Replace((*data).(string))
			}
			return row
		}},
		{"an authority", "objects authorities.rowlock.internal/z: is of no use to a server: authorities.rowlock.internal/z: its key:", becomes("authorities.rowlock.internal", "z", `{"certificate":"x","key":"x"}`)},
		{"keys of tokens", "objects tokenkeys.rowlock.internal/z: is of no use to a server: no key in PEM", becomes("tokenkeys.rowlock.internal", "z", `{"keys":"x"}`)},
		{"keys of another type", "objects tokenkeys.rowlock.internal/z: is of no use to a server: ", becomes("tokenkeys.rowlock.internal", "z", `{"keys":7}`)},
		{"a token", "objects tokens.rowlock.internal/", replace("tokens.rowlock.internal", `"digest":"`, `"digest":"0`)},
		{"whose token it is", "is of no use to a server: does not say whose token", replace("tokens.rowlock.internal", `"user":"jane"`, `"user":""`)},
		{"a server", "objects servers.rowlock.internal/z: is of no use to a server: has no address", becomes("servers.rowlock.internal", "z", `{"address":"","port":443}`)},
		{"a server's address", "objects servers.rowlock.internal/z: is of no use to a server: ", becomes("servers.rowlock.internal", "z", `{"address":"x","port":443}`)},
		{"a group of definitions", "objects crdgroups.rowlock.internal/example.com: is of no use to a server: ", replace("crdgroups.rowlock.internal", `"changes":1`, `"changes":"1"`)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			damaged := filepath.Join(t.TempDir(), "damaged")
			if err := os.WriteFile(damaged, rewritten(t, data, func(c []string) []string { columns = c; return c }, tc.change), 0o600); err != nil {
				t.Fatal(err)
			}
			code, stdout, stderr := command(t, "verify", damaged)
			if code != exitFailure || !strings.Contains(stdout, tc.want) || !strings.Contains(stderr, "not whole") {
				t.Errorf("exit code %d, %s%s, want %s", code, stdout, stderr, tc.want)
			}
		})
	}
}

// A backup with a right checksum and a header from which no store can be made is refused by all commands that read backups.
func TestForgedHeader(t *testing.T) {
	var b bytes.Buffer
	w, err := archive.NewWriter(&b, archive.Header{Created: time.Now(), Database: "sqlite", Schema: 1, Revision: math.MaxInt64, Beyond: math.MaxInt64}, nil)
	if err != nil {
		t.Fatal(err)
	}
	file, dir := filepath.Join(t.TempDir(), "forged"), filepath.Join(t.TempDir(), "data")
	if err := errors.Join(w.Close(), os.WriteFile(file, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"verify", file}, {"restore", file}, {"restore", file, "--object", "cm/default/c"}, {"sql", "SELECT 1", "--backup", file}} {
		code, stdout, stderr := command(t, append(args, "--data-dir", dir)...)
		if code != exitFailure || !strings.Contains(stderr, "the backup is damaged: its header has revision 9223372036854775807") {
			t.Errorf("%v: exit code %d, %s%s", args, code, stdout, stderr)
		}
	}
}
