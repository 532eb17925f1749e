package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/rowlock/rowlock/resources"
)

// written is a history, the last writes first, which returns at most most of them at a time.
type written struct {
	resources.Historian
	revisions    []resources.Revision
	most, looked int
}

func (w *written) ObjectHistory(_ context.Context, q resources.RevisionQuery) (found []resources.Revision, more bool, err error) {
	for _, r := range w.revisions {
		if q.Before != 0 && r.Revision >= q.Before {
			continue
		}
		if more = len(found) == min(q.Limit, w.most); more {
			break
		}
		found = append(found, r)
	}
	w.looked += len(found)
	return found, more, nil
}

// The pages together have all selected revisions, in order and once, none exceeds its limit, and each reads a bounded part of the
// history.
func TestPagesAreFilled(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		w := &written{most: 1 + random.IntN(40)}
		var want []string
		rare := 1 + random.IntN(12)
		for revision := int64(random.IntN(60)); revision > 0; revision-- {
			r := resources.Revision{Revision: revision, Key: resources.Key{Resource: "configmaps", Namespace: "ns", Name: "a"}, Op: resources.Update}
			switch random.IntN(rare) {
			case 0:
				r.Op = resources.Create
				want = append(want, nameOf(revision))
			case 1:
				r.Op, r.Key.Namespace = resources.Create, "" // of the other scope
			}
			w.revisions = append(w.revisions, r)
		}
		f := &finder{Config: Config{Historian: w}, t: (Config{}).define(Revisions, "Revision", true, false), most: 1 + random.IntN(30), nextStep: 1 + random.IntN(8)}
		q := resources.ComputedQuery{Limit: int64(1 + random.IntN(9)), Fields: fields.OneTermEqualSelector(fieldOperation, operations[resources.Create])}
		said := fmt.Sprintf("%d revisions, %d at a time, limit %d, most %d, step %d", len(w.revisions), w.most, q.Limit, f.most, f.nextStep)
		var got []string
		query := resources.RevisionQuery{}
		for page := 0; ; page++ {
			w.looked = 0
			p, err := f.fill(t.Context(), &q, query)
			if err != nil || len(p.Objects) > int(q.Limit) || page > len(w.revisions) {
				t.Fatalf("%s: page %d has %d, %v", said, page, len(p.Objects), err)
			}
			// The last read begins before the page is full.
			if bound := 2 * (f.most + max(int(q.Limit), f.nextStep)); w.looked > bound {
				t.Errorf("%s: %d were looked at for a page, more than %d", said, w.looked, bound)
			}
			for _, o := range p.Objects {
				got = append(got, o.(*unstructured.Unstructured).GetName())
			}
			if p.Continue == "" {
				break
			}
			if query.Before, err = revisionBefore(p.Continue); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the pages have %v, selected are %v", said, got, want)
		}
	}
}

// A list without a limit is complete or refused, also where the history returns fewer revisions than it was asked for.
func TestListsWithoutALimitAreComplete(t *testing.T) {
	w := &written{most: 3, revisions: make([]resources.Revision, 4)}
	for i := range w.revisions {
		w.revisions[i] = resources.Revision{Revision: int64(9 - i), Key: resources.Key{Resource: "configmaps", Namespace: "ns", Name: "a"}}
	}
	f := &finder{Config: Config{Historian: w}, t: (Config{}).define(Revisions, "Revision", true, false), most: most, nextStep: nextStep}
	if page, err := f.fill(t.Context(), &resources.ComputedQuery{}, resources.RevisionQuery{}); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "more than 3: ask with a limit") {
		t.Errorf("%d of 4, %v", len(page.Objects), err)
	}
	w.revisions = w.revisions[1:]
	if page, err := f.fill(t.Context(), &resources.ComputedQuery{}, resources.RevisionQuery{}); err != nil || len(page.Objects) != 3 || page.Continue != "" {
		t.Errorf("%d of 3, %v", len(page.Objects), err)
	}
}
