package server_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/plugin/pkg/audit/fake"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/auditing"
	"github.com/rowlock/rowlock/server/servertest"
)

// stalling is a store in which every stored form counts as stale, and whose writes can be made to fail.
type stalling struct {
	resources.Store
	fails atomic.Bool
}

func (*stalling) Stale(context.Context, *resources.Object) bool { return true }

func (s *stalling) Commit(ctx context.Context, writes ...resources.Write) ([]*resources.Object, error) {
	if s.fails.Load() {
		return nil, resources.ErrUnavailable
	}
	return s.Store.Commit(ctx, writes...)
}

// onStalling returns a server on such a store, with or without an audit.
func onStalling(t *testing.T, audited bool) (send func(method, path, body string) string, s *stalling) {
	t.Helper()
	of, _ := servertest.New(t, func(c *server.Config) {
		s = &stalling{Store: c.Store.(resources.Store)}
		o := resources.PipelineOptions{}
		if audited {
			var err error
			if c.Audit, err = auditing.New(policy.NewFakePolicyRuleEvaluator(auditinternal.LevelNone, nil), &fake.Backend{}, "rowlock"); err != nil {
				t.Fatal(err)
			}
			o.Audit = c.Audit
		}
		c.Store, c.Pipeline = s, resources.NewPipeline(s, o)
	})
	return func(method, path, body string) string {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Authorization", "master")
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		of.Handler().ServeHTTP(w, r)
		return w.Body.String()
	}, s
}

const team = `{"metadata":{"name":"team"}}`

// An update without changes rewrites an object whose stored form is stale (encryption at rest), with an audit, too.
func TestUpdateWritesWhatIsStale(t *testing.T) {
	for name, audited := range map[string]bool{"audited": true, "not audited": false} {
		t.Run(name, func(t *testing.T) {
			send, _ := onStalling(t, audited)
			made := gjson.Get(send("POST", "/api/v1/namespaces", team), "metadata.resourceVersion").Int()
			if now := gjson.Get(send("PUT", "/api/v1/namespaces/team", team), "metadata.resourceVersion").Int(); made == 0 || now <= made {
				t.Errorf("made at %d, and at %d after an update", made, now)
			}
		})
	}
}
