package server_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/auditing"
	"github.com/rowlock/rowlock/server/servertest"
)

// BenchmarkAudit measures a request without an audit, and with one at level Metadata to a file: for all stages, and for the last one. docs/audit.md
// has the permitted difference.
func BenchmarkAudit(b *testing.B) {
	for name, policy := range map[string]string{
		"off": "", "metadata": "{level: Metadata}", "metadata, one stage": "{level: Metadata, omitStages: [RequestReceived]}", "none": "{level: None}",
	} {
		change := func(c *server.Config) {
			if policy == "" {
				return
			}
			o := auditing.Defaults()
			o.PolicyFile, o.Log.Path = filepath.Join(b.TempDir(), "policy.yaml"), filepath.Join(b.TempDir(), "audit.log")
			if err := os.WriteFile(o.PolicyFile, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- "+policy+"\n"), 0o600); err != nil {
				b.Fatal(err)
			}
			a, err := auditing.Open(o, "rowlock")
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(a.Close)
			c.Audit, c.Pipeline = a, resources.NewPipeline(c.Store.(resources.Store), resources.PipelineOptions{Audit: a})
		}
		s, _ := servertest.New(b, change)
		send := func(b *testing.B, method, path, body string, code int) {
			r := httptest.NewRequest(method, path, bytes.NewBufferString(body))
			r.Header.Set("Authorization", "master")
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("User-Agent", "kubectl/v1.37.1 (linux/amd64) kubernetes/abcdef0")
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r)
			if w.Code != code {
				b.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
			}
		}
		send(b, "POST", "/api/v1/namespaces", `{"metadata":{"name":"ns"}}`, http.StatusCreated)
		send(b, "POST", "/api/v1/namespaces/ns/configmaps", `{"metadata":{"name":"a"},"data":{"a":"b"}}`, http.StatusCreated)
		b.Run("get/"+name, func(b *testing.B) {
			for b.Loop() {
				send(b, "GET", "/api/v1/namespaces/ns/configmaps/a", "", http.StatusOK)
			}
		})
		b.Run("dry create/"+name, func(b *testing.B) {
			for b.Loop() {
				send(b, "POST", "/api/v1/namespaces/ns/configmaps?dryRun=All", `{"metadata":{"name":"b"},"data":{"a":"b"}}`, http.StatusCreated)
			}
		})
	}
}
