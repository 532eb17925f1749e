package custom

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"

	"github.com/rowlock/rowlock/resources"
)

const (
	// groupRows are the rows of the groups of definitions: a write that allocates or frees names raises the counter in the row of its
	// group. The row exists as long as the group has a definition.
	groupRows = "crdgroups.rowlock.internal"

	apiServices = "apiservices.apiregistration.k8s.io"
)

// allocate returns the writes that accompany a definition: the row of its group when names may change hands, and the APIServices of its
// versions.
func (d *Definitions) allocate(ctx context.Context, s resources.Reader, obj, old runtime.Object) ([]resources.Write, error) {
	now, _ := obj.(*apiextensions.CustomResourceDefinition)
	before, _ := old.(*apiextensions.CustomResourceDefinition)
	if now != nil && before != nil && settled(now, before) {
		return nil, nil
	}
	crd := now
	if crd == nil {
		crd = before
	}
	if reserved(crd.Spec.Group) {
		return nil, apierrors.NewForbidden(apiextensions.Resource("customresourcedefinitions"), crd.Name,
			fmt.Errorf("the group %s is the server's own", crd.Spec.Group))
	}
	if len(utilvalidation.IsDNS1123Subdomain(crd.Spec.Group)) > 0 {
		return nil, nil // validation reports this
	}
	// The row is read before the names: a later change of the names makes the commit fail.
	row, err := raiseGroup(ctx, s, crd.Spec.Group)
	if err != nil {
		return nil, err
	}
	if err := d.Latest(ctx); err != nil {
		return nil, err
	}
	writes, err := d.apiServiceWrites(ctx, s, before, now)
	if err != nil {
		return nil, err
	}
	if begins(before) && free(crd.Spec.Names.Plural, "", d.namesIn(crd.Spec.Group).resources) == nil {
		left, err := leftovers(ctx, s, crd)
		if err != nil {
			return nil, err
		}
		writes = append(writes, left...)
	}
	if now == nil && !d.isUsed(crd.Spec.Group, crd.Name) {
		// The row is removed with the last definition. A definition that is created meanwhile has raised the row, and this commit fails;
		// one that is created later finds no row, and makes a new one.
		if row.Op == resources.Create {
			return writes, nil
		}
		row = resources.Write{Op: resources.Delete, Key: row.Key, From: row.From}
	}
	return append(writes, row), nil
}

// isUsed reports whether a group has other definitions.
func (d *Definitions) isUsed(group, name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, def := range d.byName {
		if def.group == group && def.name != name {
			return true
		}
	}
	return false
}

// reserved reports whether a group belongs to the server's own rows.
func reserved(group string) bool {
	const own = "rowlock.internal"
	return group == own || strings.HasSuffix(group, "."+own)
}

// begins reports whether a definition may get its plural name by the next write: it is new (nil), or the name was taken so far.
func begins(before *apiextensions.CustomResourceDefinition) bool {
	return before == nil || before.Status.AcceptedNames.Plural == "" && apiextensions.IsCRDConditionFalse(before, apiextensions.NamesAccepted)
}

// leftovers remove the objects of an earlier definition with this name, whose finalizer was removed before its objects were.
func leftovers(ctx context.Context, s resources.Reader, crd *apiextensions.CustomResourceDefinition) (writes []resources.Write, err error) {
	all, err := s.Snapshot(ctx, schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}.String(),
		resources.At{Match: resources.MostRecent})
	if err != nil {
		return nil, err
	}
	all.Ascend("", "", func(o *resources.Object) bool {
		writes = append(writes, resources.Write{Op: resources.Delete, Key: o.Key, From: o.Revision})
		return true
	})
	return writes, nil
}

// settled reports whether an update leaves names and versions unchanged.
func settled(now, before *apiextensions.CustomResourceDefinition) bool {
	return apiequality.Semantic.DeepEqual(now.Spec.Names, before.Status.AcceptedNames) &&
		apiextensions.IsCRDConditionTrue(before, apiextensions.Established) && slices.Equal(servedVersions(now), servedVersions(before))
}

func servedVersions(crd *apiextensions.CustomResourceDefinition) (names []string) {
	if crd == nil {
		return nil
	}
	for _, v := range crd.Spec.Versions {
		if v.Served {
			names = append(names, v.Name)
		}
	}
	return names
}

// groupRow is the content of a group's row.
type groupRow struct {
	// Changes counts the writes that allocated or freed names.
	Changes int64 `json:"changes"`
}

// CheckRow returns what is wrong with the row of a group, without which no definition of the group can be written; nil for any other object.
func CheckRow(o *resources.Object) error {
	if o.Resource != groupRows {
		return nil
	}
	return resources.DecodeInternal(o, &groupRow{})
}

// raiseGroup is the write that raises the counter in the row of a group. The group's name is cloned: it is a part of the definition's text,
// which the key of the row would keep in memory as long as the row exists.
func raiseGroup(ctx context.Context, s resources.Reader, group string) (resources.Write, error) {
	w := resources.Write{Op: resources.Create, Key: resources.Key{Resource: groupRows, Name: strings.Clone(group)}}
	var row groupRow
	switch o, err := s.Get(ctx, w.Key, resources.At{Match: resources.MostRecent}); {
	case err == nil:
		w.Op, w.From = resources.Update, o.Revision
		if err := resources.DecodeInternal(o, &row); err != nil {
			return w, err
		}
	case !errors.Is(err, resources.ErrNotFound):
		return w, err
	}
	row.Changes++
	var err error
	w.Draft, err = resources.InternalDraft("CustomResourceGroup", group, row)
	return w, err
}

// apiServiceWrites create the APIServices of the versions that a definition starts to claim, and remove those of versions that no
// definition claims any more. before is nil when the definition is new, now when it is removed.
func (d *Definitions) apiServiceWrites(ctx context.Context, s resources.Reader, before, now *apiextensions.CustomResourceDefinition) ([]resources.Write, error) {
	t, ok := d.Registry.CatalogOf(ctx).Type(apiServices)
	if !ok {
		return nil, nil
	}
	crd := now
	if crd == nil {
		crd = before
	}
	wanted, others := servedVersions(now), d.versionsOfOthers(crd.Spec.Group, crd.Name)
	var writes []resources.Write
	for version := range sets.New(append(servedVersions(before), wanted...)...) {
		gv := schema.GroupVersion{Group: crd.Spec.Group, Version: version}
		if !d.hasAPIService(gv) {
			continue
		}
		w, err := apiServiceWrite(ctx, s, t, gv, slices.Contains(wanted, version), slices.Contains(others, version))
		if err != nil {
			return nil, err
		}
		writes = append(writes, w...)
	}
	return writes, nil
}

// apiServiceWrite is the write for the APIService of a version, if one is needed.
func apiServiceWrite(ctx context.Context, s resources.Reader, t *resources.Type, gv schema.GroupVersion, wanted, byOthers bool) ([]resources.Write, error) {
	key := t.KeyOf("", gv.Version+"."+gv.Group)
	o, err := s.Get(ctx, key, resources.At{Match: resources.MostRecent})
	switch {
	case errors.Is(err, resources.ErrNotFound):
		if !wanted {
			return nil, nil
		}
		return createAPIService(ctx, s, t, gv)
	case err != nil:
		return nil, err
	}
	if wanted || byOthers || o.Labels[automanaged] != automanagedAlways {
		return nil, nil
	}
	return []resources.Write{{Op: resources.Delete, Key: key, From: o.Revision}}, nil
}

// automanaged is kube-aggregator's label of APIServices that a server maintains, and its value for those that are removed together with the
// version.
const (
	automanaged       = "kube-aggregator.kubernetes.io/automanaged"
	automanagedAlways = "true"
)

// createAPIService is the creation of the APIService of a version. Its strategy makes it available at once.
func createAPIService(ctx context.Context, s resources.Reader, t *resources.Type, gv schema.GroupVersion) ([]resources.Write, error) {
	is := &apiregistration.APIService{Spec: apiregistration.APIServiceSpec{Group: gv.Group, Version: gv.Version,
		GroupPriorityMinimum: groupPriority, VersionPriority: versionPriority}}
	is.Name, is.Labels = gv.Version+"."+gv.Group, map[string]string{automanaged: automanagedAlways}
	manager, err := t.ServerManager("")
	if err != nil {
		return nil, fmt.Errorf("APIService %s: %w", is.Name, err)
	}
	return resources.PrepareCreate(ctx, s, t, manager.Create(is, resources.ServerManagerName))
}

// versionsOfOthers are the versions of a group that other definitions claim.
func (d *Definitions) versionsOfOthers(group, name string) (versions []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, def := range d.byName {
		if def.group == group && def.name != name {
			versions = append(versions, def.claimed...)
		}
	}
	return versions
}
