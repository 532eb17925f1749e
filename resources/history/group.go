package history

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/untyped"
)

// GroupName is the name of the group, and Version its one version.
const (
	GroupName = "history.rowlock.dev"
	Version   = "v1"
)

// The resources of the group, as paths name them.
const (
	Revisions        = "revisions"
	ClusterRevisions = "clusterrevisions"
	Trash            = "trash"
	ClusterTrash     = "clustertrash"
)

// GroupVersion is the group in its version.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: Version}

// The priorities of the group and its version in discovery: those of custom resources.
const (
	groupPriority   = 1000
	versionPriority = 100
)

// Config has the dependencies of the group.
type Config struct {
	Historian resources.Historian
	// Authorizer decides which history a user may read.
	Authorizer authorizer.UnconditionalAuthorizer
	// Scheme has the kinds with Go types.
	Scheme resources.Scheme
}

// Group returns the group. It is served only while there is an object history.
func (c Config) Group() resources.GroupSpec {
	types := []*resources.Type{
		c.define(Revisions, "Revision", true, false),
		c.define(ClusterRevisions, "ClusterRevision", false, false),
		c.define(Trash, "DeletedObject", true, true),
		c.define(ClusterTrash, "DeletedClusterObject", false, true),
	}
	return resources.GroupSpec{Name: GroupName, Priority: groupPriority,
		Versions: []resources.VersionSpec{{Version: Version, Priority: versionPriority, Types: types}}}
}

// Served reports whether this group is served, as opposed to a group with its name, which custom resources may have where there is no
// object history.
func Served(catalog *resources.Catalog) bool {
	served, ok := catalog.Lookup(GroupVersion.WithResource(Revisions))
	return ok && served.Computed != nil
}

// define makes a type. deleted: it has deletions only.
func (c Config) define(resource, kind string, namespaced, deleted bool) *resources.Type {
	s := &untyped.Scheme{Kind: schema.GroupKind{Group: GroupName, Kind: kind}, Others: c.Scheme, SelectableFields: slices.Clone(selectable)}
	t := untyped.Define(GroupVersion.WithResource(resource), kind, Version, s, readOnly{namespaced: namespaced})
	t.SingularName = strings.ToLower(kind)
	t.ServedVerbs = []string{"get", "list"}
	t.Table = columns
	t.OpenAPI = describe(deleted)
	f := &finder{Config: c, t: t, deleted: deleted, most: most, nextStep: nextStep}
	t.Computed = func(ctx context.Context, _ resources.Reader, q resources.ComputedQuery) (resources.ComputedPage, error) {
		if q.Name != "" {
			return f.get(ctx, q)
		}
		return f.list(ctx, q)
	}
	return t
}

// readOnly is a strategy without rules: the types have no verbs that write.
type readOnly struct {
	untyped.Strategy
	namespaced bool
}

// NamespaceScoped reports whether the objects are in namespaces.
func (r readOnly) NamespaceScoped() bool { return r.namespaced }
