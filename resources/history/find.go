package history

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/warning"

	"github.com/rowlock/rowlock/resources"
)

// most is the greatest number of revisions in a list. A list without a limit is refused if there are more: a client would take a truncated list
// as complete.
const most = 10_000

// nextStep is the least number of revisions read at a time after the first read did not find enough.
const nextStep = 500

// finder answers the requests of a type.
type finder struct {
	Config
	t *resources.Type
	// deleted: the type has deletions only.
	deleted bool
	// most and nextStep are the constants above, except in tests.
	most, nextStep int
}

// get finds one revision, with the object before and after it. If the user may not get the object, the revision is not found: otherwise users
// could find out which revisions are writes in a namespace. So the revision is looked up without objects first.
func (f *finder) get(ctx context.Context, q resources.ComputedQuery) (page resources.ComputedPage, err error) {
	revision, ok := revisionOf(q.Name)
	if !ok {
		return page, nil
	}
	found, err := f.lookUp(ctx, revision)
	if err != nil {
		return page, err
	}
	for i := range found {
		key := found[i].Key
		if !f.has(&found[i]) || key.Namespace != q.Namespace {
			continue
		}
		if ok, err := f.mayGet(ctx, key); err != nil || !ok {
			return page, err
		}
		full, _, err := f.Historian.ObjectHistory(ctx, resources.RevisionQuery{Revision: revision, Deleted: f.deleted, Objects: true,
			Resource: key.Resource, Namespace: key.Namespace, Name: key.Name})
		if err != nil || len(full) == 0 {
			return page, err // pruned meanwhile, because of its age
		}
		shown, err := f.show(&full[0])
		if err != nil {
			return page, err
		}
		page.Objects = append(page.Objects, shown)
	}
	return page, nil
}

// lookUp finds the writes with a revision, without objects. It brings the history up to date only if the revision is not recorded yet: before
// that, nothing is known of the object.
func (f *finder) lookUp(ctx context.Context, revision int64) ([]resources.Revision, error) {
	recorded, err := f.Historian.RecordedAt(ctx)
	if err != nil {
		return nil, err
	}
	if revision > recorded {
		if err := f.bringUp(ctx); err != nil {
			return nil, err
		}
	}
	found, _, err := f.Historian.ObjectHistory(ctx, resources.RevisionQuery{Revision: revision, Deleted: f.deleted})
	return found, err
}

// bringUp brings the history up to date. If the disk is full, which does not stop reads, the history is shown as far as it is recorded.
func (f *finder) bringUp(ctx context.Context) error {
	err := f.Historian.RecordHistory(ctx)
	if errors.Is(err, resources.ErrFull) {
		warning.AddWarning(ctx, "", resources.ErrFull.Error()+": the last writes may be missing in the object history")
		return nil
	}
	return err
}

// has reports whether a revision belongs to the type.
func (f *finder) has(r *resources.Revision) bool { return f.t.Namespaced == (r.Key.Namespace != "") }

// list finds the matching revisions, the last ones first, without objects.
func (f *finder) list(ctx context.Context, q resources.ComputedQuery) (page resources.ComputedPage, err error) {
	query, err := f.query(&q)
	if err != nil {
		return page, err
	}
	if err := f.mayList(ctx, query.Namespace, query.Resource, query.Name); err != nil {
		return page, err
	}
	if q.Continue == "" {
		if err := f.bringUp(ctx); err != nil {
			return page, err
		}
	}
	if _, ok := q.Selected("metadata.name"); ok && query.Revision == 0 {
		return page, nil // no revision has such a name
	}
	return f.fill(ctx, &q, query)
}

// fill reads on until the list has as many selected revisions as its limit allows, as lists of stored types do: selectors that the database does
// not apply would otherwise leave pages empty. If few revisions match, a page ends early, once f.most were read, with a continue token; so it
// does where revisions are so large that a read returns fewer than it may.
func (f *finder) fill(ctx context.Context, q *resources.ComputedQuery, query resources.RevisionQuery) (page resources.ComputedPage, err error) {
	limit := f.most
	if q.Limit > 0 {
		limit = int(min(q.Limit, int64(f.most)))
	}
	for step, looked := limit, 0; ; step = max(limit, f.nextStep) {
		query.Limit = step
		found, more, err := f.Historian.ObjectHistory(ctx, query)
		if err != nil {
			return page, err
		}
		if more && q.Limit <= 0 {
			return page, apierrors.NewBadRequest(fmt.Sprintf("there are more than %d: ask with a limit, or select some by the fields %s and %s", len(found), fieldResource, fieldName))
		}
		for i := range found {
			if len(page.Objects) == limit {
				page.Continue = continueAt(found[i-1].Revision)
				return page, nil
			}
			if !f.has(&found[i]) || !selects(q.Fields, &found[i]) {
				continue
			}
			shown, err := f.show(&found[i])
			if err != nil {
				return page, err
			}
			page.Objects = append(page.Objects, shown)
		}
		if !more {
			return page, nil
		}
		query.Before = found[len(found)-1].Revision
		if looked += len(found); len(page.Objects) == limit || looked >= f.most || len(found) < step {
			page.Continue = continueAt(query.Before)
			return page, nil
		}
	}
}

// selects reports whether a field selector matches a revision.
func selects(selector fields.Selector, r *resources.Revision) bool {
	return selector == nil || selector.Matches(fields.Set{"metadata.name": nameOf(r.Revision), "metadata.namespace": r.Key.Namespace, fieldResource: r.Key.Resource,
		fieldName: r.Key.Name, fieldUID: r.UID, fieldOperation: operations[r.Op], fieldUser: r.Author.User})
}

// query is the query to the history.
func (f *finder) query(q *resources.ComputedQuery) (query resources.RevisionQuery, err error) {
	query = resources.RevisionQuery{Namespace: q.Namespace, Clustered: !f.t.Namespaced, Deleted: f.deleted}
	query.Resource, _ = q.Selected(fieldResource)
	query.Name, _ = q.Selected(fieldName)
	query.UID, _ = q.Selected(fieldUID)
	if ns, ok := q.Selected("metadata.namespace"); ok && query.Namespace == "" && f.t.Namespaced {
		query.Namespace = ns
	}
	if name, ok := q.Selected("metadata.name"); ok {
		query.Revision, _ = revisionOf(name)
	}
	if q.Continue != "" {
		query.Before, err = revisionBefore(q.Continue)
	}
	return query, err
}

// continueAt is the continue token of a list whose last revision was the given one. Later writes do not change what comes after it.
func continueAt(revision int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte("before " + nameOf(revision)))
}

func revisionBefore(token string) (revision int64, err error) {
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		_, err = fmt.Sscanf(string(text), "before %d", &revision)
	}
	if err != nil || continueAt(revision) != token || revision <= 0 {
		return 0, apierrors.NewBadRequest("invalid continue token")
	}
	return revision, nil
}

func quoted(s string) string { return strconv.Quote(s) }
