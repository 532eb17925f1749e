package handlers

import (
	"context"
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/status"
)

// list returns a collection, whole or in chunks ("Retrieving large results sets in chunks", "Semantics for get and list").
func (h *Handlers) list(q *request) error {
	f, err := q.format()
	if err != nil {
		return err
	}
	opts, err := q.listOptions()
	if err != nil {
		return err
	}
	objects, m, err := h.collect(q, opts)
	if err == nil {
		err = q.list(f, objects, m)
	}
	if err != nil && fromCache(opts) {
		return status.Initializing(err, q.resource())
	}
	return err
}

// fromCache tells whether kube-apiserver serves a list from its watch cache, even while the cache is not initialized.
func fromCache(opts *metainternalversion.ListOptions) bool {
	if opts.Continue != "" || opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact {
		return false
	}
	selects := opts.LabelSelector != nil && !opts.LabelSelector.Empty() || opts.FieldSelector != nil && !opts.FieldSelector.Empty() ||
		opts.ShardSelector != ""
	return opts.Limit == 0 || selects && (opts.ResourceVersion == "" || opts.ResourceVersion == "0" || opts.ResourceVersionMatch != "")
}

// collect reads the objects of a list.
func (h *Handlers) collect(q *request, opts *metainternalversion.ListOptions) ([]*resources.Object, metav1.ListMeta, error) {
	s := q.selection(opts)
	var err error
	if s.shard, err = h.shard(opts); err != nil {
		return nil, metav1.ListMeta{}, err
	}
	if opts.Continue != "" {
		s.name = "" // a token refers to a range
	}
	page := page{limit: opts.Limit, began: h.age.begins()}
	if opts.ResourceVersion == "0" && !q.served.Uncached {
		page.limit = 0 // as kube-apiserver, which ignores the limit for resourceVersion 0
	}
	at, err := page.at(opts, s.name != "")
	if err != nil {
		return nil, metav1.ListMeta{}, err
	}
	if h.age.over(page.token) {
		return nil, metav1.ListMeta{}, page.expired(&resources.ExpiredError{})
	}
	at.Namespace, at.Name = s.namespace, s.name
	snapshot, err := h.Store.Snapshot(q.ctx, q.served.ResourceName(), at)
	if err != nil {
		direct := q.served.Uncached || s.name != "" && (at.Match == resources.Exact || opts.Limit > 0 && opts.ResourceVersionMatch == "")
		return nil, metav1.ListMeta{}, tooLarge(page.expired(err), opts.ResourceVersion, direct)
	}
	if err := h.outdated(q); err != nil {
		return nil, metav1.ListMeta{}, err
	}
	if s.name != "" {
		objects, m := one(snapshot, &s)
		h.counts.lists.add(q.served.GroupResource, 1, len(objects))
		return objects, m, s.failed
	}
	page.useIndex(q.served.Type, at, &s)
	objects, m := page.read(q.ctx, snapshot, &s)
	h.counts.lists.add(q.served.GroupResource, page.fetched, len(objects))
	return objects, m, s.failed
}

// one lists the only object that a selection can match.
func one(snapshot resources.Snapshot, s *selection) ([]*resources.Object, metav1.ListMeta) {
	m := metav1.ListMeta{ResourceVersion: resources.FormatRevision(snapshot.Revision()), ShardInfo: s.shard.info()}
	if o := snapshot.Get(s.namespace, s.name); o != nil && s.matches(o) {
		return []*resources.Object{o}, m
	}
	return nil, m
}

// page is the part of a collection that one request returns.
type page struct {
	limit int64
	token *continueToken // nil for the first page
	exact bool           // a revision was requested
	began beginning
	// counts tells whether an object after the page makes another page. Nil: any does.
	counts func(*resources.Object) bool
	// fetched is how many objects were read.
	fetched int
}

// at returns the revision at which to read the collection: the table of "Semantics for get and list".
func (p *page) at(opts *metainternalversion.ListOptions, single bool) (resources.At, error) {
	if opts.Continue != "" {
		token, err := decodeContinue(opts.Continue)
		if err != nil {
			return resources.At{}, apierrors.NewBadRequest("invalid continue token: " + err.Error())
		}
		if opts.ResourceVersion != "" && opts.ResourceVersion != "0" {
			return resources.At{}, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
		p.token = token
		if token.Revision < 0 {
			return resources.At{Match: resources.MostRecent}, nil
		}
		p.began = token.beginning
		return resources.At{Match: resources.Exact, Revision: token.Revision}, nil
	}
	if opts.ResourceVersion == "" {
		return resources.At{Match: resources.MostRecent}, nil
	}
	rv, err := resources.RevisionOfParameter(opts.ResourceVersion)
	if err != nil {
		return resources.At{}, apierrors.NewBadRequest("invalid resource version: " + err.Error())
	}
	match := opts.ResourceVersionMatch
	switch {
	case match == metav1.ResourceVersionMatchExact, match == "" && opts.Limit > 0 && rv > 0 && !single:
		p.exact = true
		return resources.At{Match: resources.Exact, Revision: rv}, nil
	case rv == 0:
		return resources.At{Match: resources.Any}, nil
	}
	return resources.At{Match: resources.NotOlderThan, Revision: rv}, nil
}

// useIndex sets counts where kube-apiserver reads the objects by an index of its watch cache. It has none for other pages than the first one, and
// none for exact revisions.
func (p *page) useIndex(t *resources.Type, at resources.At, s *selection) {
	if t.Indexed == "" || s.fields == nil || p.token != nil || at.Match == resources.Exact {
		return
	}
	if value, ok := s.fields.RequiresExactMatch(t.Indexed); ok {
		p.counts = func(o *resources.Object) bool { return o.Fields.Get(t.Indexed) == value }
	}
}

// read returns the objects of the page and the metadata of the list, with the continue token.
func (p *page) read(ctx context.Context, snapshot resources.Snapshot, s *selection) ([]*resources.Object, metav1.ListMeta) {
	m := metav1.ListMeta{ResourceVersion: resources.FormatRevision(snapshot.Revision()), ShardInfo: s.shard.info()}
	after := ""
	if p.token != nil {
		after = p.token.after(s.namespace)
	}
	var objects []*resources.Object
	if p.limit == 0 && s.everything() {
		objects = make([]*resources.Object, 0, snapshot.Count(s.namespace, after))
	}
	more := false
	s.ascend(ctx, snapshot, after, func(o *resources.Object) bool {
		if p.limit > 0 && int64(len(objects)) == p.limit {
			more = p.counts == nil || p.counts(o)
			return !more
		}
		p.fetched++
		if s.matches(o) {
			objects = append(objects, o)
		}
		return true
	})
	if !more {
		return objects, m
	}
	last := objects[len(objects)-1].Path()
	m.Continue = encodeContinue(last, s.namespace, snapshot.Revision(), p.began)
	if s.everything() {
		remaining := int64(snapshot.Count(s.namespace, last))
		m.RemainingItemCount = &remaining
	}
	return objects, m
}

const (
	expiredList     = "The resourceVersion for the provided list is too old."
	expiredContinue = "The provided continue parameter is too old to display a consistent list result. You can start a new " +
		"list without the continue parameter, or use the continue token in this response to retrieve the remainder of the " +
		"results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, " +
		"or deleted between the time the first chunk was returned and now may show up in the list."
)

// expired turns the error of pruned history into a 410. A client in the middle of a list gets a token with which it can continue at the latest
// revision.
func (p *page) expired(err error) error {
	var expired *resources.ExpiredError
	if !errors.As(err, &expired) {
		return err
	}
	if p.token == nil {
		return apierrors.NewResourceExpired(expiredList)
	}
	gone := apierrors.NewResourceExpired(expiredContinue)
	token := *p.token
	token.Revision, token.beginning = -1, beginning{}
	gone.ErrStatus.Continue = token.String()
	return gone
}

// trimNamespace returns the path of an object relative to the range of a list.
func trimNamespace(path, namespace string) string {
	if namespace == "" {
		return path
	}
	return strings.TrimPrefix(path, namespace+"/")
}
