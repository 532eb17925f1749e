package aggregate

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/discovery"
)

// locals is the result of Local for one state of the APIServices. newest, the highest revision of an object, and count, the number of
// objects, identify the state, since a revision is given once.
type locals struct {
	newest int64
	count  int
	found  []discovery.ExternalVersion
}

type localsKey struct{ owner *Aggregator }

// Local returns the versions of APIServices that a catalog does not have (those that other servers serve, those that a user created, and those of
// definitions that are not established), and those that it has at other priorities. It reads the watch cache, which is most recent for a
// request that has asked for the most recent types before. Its errors are those of resources.Reader.
func (a *Aggregator) Local(ctx context.Context, catalog *resources.Catalog) ([]discovery.ExternalVersion, error) {
	t, ok := catalog.Type(apiServicesResource)
	if !ok {
		return nil, nil
	}
	all, err := a.Store.Snapshot(ctx, apiServicesResource, resources.At{Match: resources.Any})
	if err != nil {
		return nil, err
	}
	now := &locals{}
	all.Ascend("", "", func(o *resources.Object) bool {
		now.newest, now.count = max(now.newest, o.Revision), now.count+1
		return true
	})
	v, err := catalog.Memo(localsKey{a}, func() (any, error) { return &atomic.Pointer[locals]{}, nil })
	if err != nil {
		return nil, err
	}
	known := v.(*atomic.Pointer[locals])
	if before := known.Load(); before != nil && before.newest == now.newest && before.count == now.count {
		return before.found, nil
	}
	all.Ascend("", "", func(o *resources.Object) bool {
		var found *discovery.ExternalVersion
		if found, err = a.localVersion(catalog, t, o); found != nil {
			now.found = append(now.found, *found)
		}
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	known.Store(now)
	return now.found, nil
}

// localVersion returns the version that Local finds for one APIService, nil for none.
func (a *Aggregator) localVersion(catalog *resources.Catalog, t *resources.Type, o *resources.Object) (*discovery.ExternalVersion, error) {
	gv := schema.GroupVersion{}
	gv.Version, gv.Group, _ = strings.Cut(o.Name, ".")
	if gv.Group == "" || gv.Group == t.Group { // these are always at the head of the list
		return nil, nil
	}
	if group, version := served(catalog, gv); version != nil {
		// There is an APIService for each served version. Unchanged ones are recognised without decoding them.
		spec := gjson.GetBytes(o.Data, "spec")
		if spec.Get("groupPriorityMinimum").Int() == int64(group.Priority) && spec.Get("versionPriority").Int() == int64(version.Priority) {
			return nil, nil
		}
	}
	b, err := a.backendOf(t, o)
	if err != nil {
		return nil, err
	}
	return &discovery.ExternalVersion{GroupVersion: gv, GroupPriority: int(b.group), VersionPriority: int(b.priority)}, nil
}
