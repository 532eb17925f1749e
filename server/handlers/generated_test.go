package handlers_test

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// "Generated values": fields that only the server sets, and names with generateName.
func TestSystemFields(t *testing.T) {
	a := newAPI(t)
	a.run(exchange{do: "POST " + configMaps, code: 201, keep: says{"uid": "metadata.uid", "created": "metadata.creationTimestamp"},
		body: `{"metadata":{"name":"a","uid":"mine","creationTimestamp":"2001-01-01T00:00:00Z","deletionTimestamp":"2001-01-01T00:00:00Z",` +
			`"deletionGracePeriodSeconds":1,"selfLink":"/x"}}`,
		says: says{"metadata.deletionTimestamp": "-", "metadata.deletionGracePeriodSeconds": "-", "metadata.selfLink": "-"}},
		exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"b","resourceVersion":"5"}}`, code: 500,
			says: says{"message": "resourceVersion should not be set on objects to be created"}})
	if a.kept["uid"] == "mine" || strings.HasPrefix(a.kept["created"], "2001") {
		t.Errorf("the client's own were taken: %v", a.kept)
	}
}

func TestGenerateName(t *testing.T) {
	a := newAPI(t)
	a.run(
		exchange{do: "POST " + configMaps, body: `{"metadata":{"generateName":"g-"}}`, code: 201, keep: says{"name": "metadata.name"}},
		exchange{do: "POST " + configMaps, body: `{"metadata":{"generateName":"` + strings.Repeat("g", 100) + `"}}`, code: 201, keep: says{"long": "metadata.name"}},
		exchange{shows: "a name goes before", do: "POST " + configMaps, body: `{"metadata":{"generateName":"g-","name":"n"}}`, code: 201, says: says{"metadata.name": "n"}},
		exchange{do: "POST " + configMaps, body: `{"metadata":{"generateName":"G_"}}`, code: 422, says: says{"details.causes.0.field": "metadata.generateName"}},
	)
	if got := a.kept["name"]; !regexp.MustCompile(`^g-[bcdfghjklmnpqrstvwxz2456789]{5}$`).MatchString(got) {
		t.Errorf("generated %q", got)
	}
	if got := a.kept["long"]; len(got) != 63 {
		t.Errorf("generated %q, of %d characters", got, len(got))
	}
}

// takenStore reports the first generated names as taken.
type takenStore struct {
	resources.Store
	collisions int
}

func (s *takenStore) Commit(ctx context.Context, writes ...resources.Write) ([]*resources.Object, error) {
	if writes[0].Op == resources.Create && s.collisions > 0 {
		s.collisions--
		return nil, resources.ErrExists
	}
	return s.Store.Commit(ctx, writes...)
}

// A quota counts the object once, whatever number of names it takes.
func TestGenerateNameCollisions(t *testing.T) {
	a := newAPI(t)
	const quotas = "/api/v1/namespaces/test/resourcequotas"
	a.run(exchange{do: "POST " + quotas, body: `{"metadata":{"name":"q"},"spec":{"hard":{"configmaps":"2"}}}`, code: 201},
		exchange{do: "PATCH " + quotas + "/q/status", header: asMergePatch, body: `{"status":{"hard":{"configmaps":"2"},"used":{"configmaps":"0"}}}`, code: 200})
	taken := &takenStore{Store: a.store.Store}
	a.store.Store = taken
	taken.collisions = 7
	a.run(exchange{do: "POST " + configMaps, body: `{"metadata":{"generateName":"g-"}}`, code: 201},
		exchange{do: "GET " + quotas + "/q", code: 200, says: says{"status.used.configmaps": "1"}})
	taken.collisions = 8
	a.run(exchange{do: "POST " + configMaps, body: `{"metadata":{"generateName":"g-"}}`, code: 409, says: says{"reason": "AlreadyExists"}})
	taken.collisions = 0
	a.run(exchange{do: "GET " + configMaps, code: 200, says: says{"items.#": "1"}})
}

// Some defaults depend on values that the type's strategy sets.
func TestLateDefaults(t *testing.T) {
	newAPI(t).run(
		exchange{do: "POST /apis/batch/v1/namespaces/test/jobs", code: 201, says: says{`metadata.labels.batch\.kubernetes\.io/job-name`: "j"},
			body: `{"metadata":{"name":"j"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`},
		exchange{do: "GET /apis/batch/v1/namespaces/test/jobs?labelSelector=job-name%3Dj", code: 200, says: says{"items.#.metadata.name": `["j"]`}},
		exchange{do: "POST /api/v1/namespaces/test/persistentvolumeclaims", code: 201, says: says{"status.phase": "Pending"},
			body: `{"metadata":{"name":"c"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`},
		exchange{do: "GET /api/v1/namespaces/test/persistentvolumeclaims", header: asTable, code: 200, says: says{"rows.0.cells.1": "Pending"}},
	)
}
