package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/sqlstore/etcd"
	"github.com/rowlock/rowlock/sqlstore/etcd/etcdtest"
)

// entriesOf returns the entries of a snapshot by their keys.
func entriesOf(t *testing.T, file string) (all map[string]etcd.Entry, revision int64) {
	t.Helper()
	s, err := etcd.Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all = map[string]etcd.Entry{}
	if err := s.Each(t.Context(), "", func(e etcd.Entry) error {
		all[e.Key] = e
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all, s.Revision()
}

// Objects imported from a kube-apiserver are exported under the same keys at the same revisions, encrypted as before, and are imported from there
// unchanged.
func TestExport(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, empty places) {
		dir, place := t.TempDir(), empty(t)
		config, source, file := filepath.Join(dir, "encryption"), filepath.Join(dir, "source"), filepath.Join(dir, "snapshot")
		writeTo(t, config, []byte(sourceEncryption))
		if err := etcdtest.Bolt(source, kubeAPIServerHas(t, config)...); err != nil {
			t.Fatal(err)
		}
		url, schema := place.database()
		runs(t, "import", "--to", url, "--to-schema", schema, "--incomplete", "--source-encryption-provider-config", config, source)
		args := append([]string{"export"}, place.args()...)
		said := runs(t, append(args, "--target-encryption-provider-config", config, file)...)
		if !strings.Contains(said, "8 objects\n") || strings.Contains(said, "in clear") {
			t.Errorf("it says:\n%s", said)
		}
		want, _ := entriesOf(t, source)
		have, _ := entriesOf(t, file)
		if len(have) != 8 {
			t.Errorf("%d keys: %v", len(have), have)
		}
		for key, e := range have {
			was, ok := want[key]
			if !ok || e.Revision != was.Revision || (e.TTL > 0) != (was.TTL > 0) {
				t.Errorf("%s at %d for %s, and it was at %d for %s", key, e.Revision, e.TTL, was.Revision, was.TTL)
			}
			same := bytes.Equal(e.Value, was.Value)
			switch {
			case strings.Contains(key, "/secrets/"):
				same = bytes.HasPrefix(e.Value, []byte("k8s:enc:aescbc:v1:k:"))
			case strings.Contains(key, "/deployments/"): // with the defaults that every version of kube-apiserver sets at a read
				same = bytes.HasPrefix(e.Value, []byte("k8s\x00\n\x15\n\aapps/v1\x12\nDeployment"))
			case strings.Contains(key, "/services/"): // likewise
				same = bytes.HasPrefix(e.Value, []byte("k8s\x00\n\r\n\x02v1\x12\aService"))
			case strings.HasPrefix(string(e.Value), "{"):
				same = sameJSON(t, e.Value, was.Value)
			}
			if !same && !strings.Contains(key, "/namespaces/") && !strings.Contains(key, "/minions/") && !strings.Contains(key, "/events/") {
				t.Errorf("%s is\n%q, and was\n%q", key, e.Value, was.Value)
			}
		}
		importAndCompare(t, file, config, have)

		if code, _, stderr := command(t, append(args, file)...); code == 0 || !strings.Contains(stderr, "exists") {
			t.Errorf("over a file that is there: exit code %d, %s", code, stderr)
		}
		clear := file + ".clear"
		if said := runs(t, append(args, clear)...); !strings.Contains(said, "1 Secret is in it in clear") {
			t.Errorf("without encryption it says:\n%s", said)
		}
		others := filepath.Join(dir, "others")
		writeTo(t, others, []byte(strings.ReplaceAll(sourceEncryption, "secrets", "configmaps")))
		if said := runs(t, append(args, "--target-encryption-provider-config", others, file+".others")...); !strings.Contains(said, "1 Secret is in it in clear") {
			t.Errorf("where other types are encrypted it says:\n%s", said)
		}
		if info, err := os.Stat(clear); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		if left, err := filepath.Glob(filepath.Join(dir, ".snapshot*")); err != nil || len(left) > 0 {
			t.Errorf("it has left %v, %v", left, err)
		}
	})
}

// importAndCompare imports an export, exports the result, and compares the two.
func importAndCompare(t *testing.T, file, config string, want map[string]etcd.Entry) {
	t.Helper()
	dir := t.TempDir()
	database, again := "sqlite://"+filepath.Join(dir, "rowlock.db"), filepath.Join(dir, "again")
	runs(t, "import", "--to", database, "--source-encryption-provider-config", config, file)
	runs(t, "export", "--data-dir", dir, again)
	have, _ := entriesOf(t, again)
	for key, e := range want {
		if h := have[key]; h.Revision != e.Revision || !bytes.Equal(h.Value, e.Value) && !strings.Contains(key, "/secrets/") {
			t.Errorf("%s is\n%q, and was\n%q", key, h.Value, e.Value)
		}
	}
	if len(have) != len(want) {
		t.Errorf("%d keys, and there were %d", len(have), len(want))
	}
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y map[string]any
	if err := json.Unmarshal(a, &x); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &y); err != nil {
		t.Fatal(err)
	}
	m, ok := x["metadata"].(map[string]any)
	_, numbered := m["resourceVersion"]
	return ok && !numbered && x["kind"] == y["kind"] && x["apiVersion"] == y["apiVersion"]
}
