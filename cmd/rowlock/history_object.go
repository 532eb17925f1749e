package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/rowlock/rowlock/resources/history"
)

// historyRevision is a Revision or a DeletedObject of the history API.
type historyRevision struct {
	metav1.ObjectMeta `json:"metadata"`
	Object            struct {
		Resource string    `json:"resource"`
		Name     string    `json:"name"`
		UID      types.UID `json:"uid"`
	} `json:"object"`
	Operation string `json:"operation"`
	Requester struct {
		User        string `json:"user"`
		As          string `json:"as"`
		Verb        string `json:"verb"`
		Subresource string `json:"subresource"`
		UserAgent   string `json:"userAgent"`
	} `json:"requester"`
	Paths []string `json:"paths"`
	State struct {
		Before storedObject `json:"before"`
		After  storedObject `json:"after"`
	} `json:"state"`
	Unreadable bool `json:"unreadable"`
}

// storedObject is an object whose integers are int64, as in an object that is read with its type. As floats, those beyond 2^53 would lose
// digits, and none would be equal to those of the live object.
type storedObject map[string]any

// UnmarshalJSON reads an object, or null.
func (o *storedObject) UnmarshalJSON(data []byte) error {
	return utiljson.Unmarshal(data, (*map[string]any)(o))
}

// objectHistory is the history of one object, as a server returns it.
type objectHistory struct {
	client     *adminClient
	resource   schema.GroupResource
	namespaced bool
	namespace  string // empty where the resource is cluster-scoped
	name       string // empty: all objects of the type
	other      string // a namespace that was given although the resource is cluster-scoped
	named      bool   // the namespace was given, and no other place is meant
}

// String names the object as kubectl does.
func (h *objectHistory) String() string {
	text := h.resource.String() + "/" + h.name
	if h.namespace != "" {
		text += " in the namespace " + h.namespace
	}
	return text
}

// openHistory resolves TYPE/NAME. Errors: usage errors; the server has no object history; those of requests.
func openHistory(ctx context.Context, admin *adminOptions, object, namespace string) (*objectHistory, error) {
	kind, name, ok := strings.Cut(object, "/")
	if !ok || kind == "" || name == "" || strings.Contains(name, "/") {
		return nil, usagef("%q is not of the form type/name", object)
	}
	config, err := admin.config()
	if err != nil {
		return nil, err
	}
	client, err := admin.client()
	if err != nil {
		return nil, err
	}
	h := &objectHistory{client: client, name: name, namespace: namespace, named: namespace != ""}
	if err := h.resolve(ctx, kind); err != nil {
		return nil, err
	}
	switch at := config.Contexts[config.CurrentContext]; {
	case !h.namespaced:
		h.namespace, h.other = "", namespace
	case h.namespace == "" && at != nil && at.Namespace != "":
		h.namespace = at.Namespace
	case h.namespace == "":
		h.namespace = metav1.NamespaceDefault
	}
	return h, nil
}

// openObjectHistory is openHistory in the scope in which the history has the object, or its write at a revision other than 0.
func openObjectHistory(ctx context.Context, admin *adminOptions, object, namespace string, revision int64) (*objectHistory, error) {
	h, err := openHistory(ctx, admin, object, namespace)
	if err != nil {
		return nil, err
	}
	return h.located(ctx, revision), nil
}

// located returns the history in the scope in which it has entries: when the scope of a definition has changed, earlier objects are in the earlier
// scope. A given namespace is tried before the cluster scope, and is the only choice if the type is namespaced. If neither scope has entries that
// may be read, it returns h, so that later errors name the scope that was asked for.
func (h *objectHistory) located(ctx context.Context, revision int64) *objectHistory {
	if h.namespaced && h.named || !h.namespaced && h.other == "" {
		return h
	}
	first, then := *h, *h
	first.namespaced, first.namespace = true, cmp.Or(h.namespace, h.other)
	then.namespaced, then.namespace = false, ""
	for _, at := range []*objectHistory{&first, &then} {
		if page, _, err := at.page(ctx, at.written(), at.query(revision, 1)); err == nil && len(page) > 0 {
			return at
		}
	}
	return h
}

// resolve finds the resource of a type. A served resource is found by all its names, another one only by plural and group.
func (h *objectHistory) resolve(ctx context.Context, kind string) error {
	served, err := h.client.servedTypes(ctx)
	if err != nil {
		return err
	}
	if !served.has(history.GroupName) {
		return errors.New("the server has no object history: it is to be started with --object-history, such as --object-history=" + usualObjectHistory)
	}
	var ok bool
	if h.resource, h.namespaced, ok = served.find(kind, history.GroupName); ok {
		return nil
	}
	h.resource = schema.ParseGroupResource(strings.ToLower(kind))
	if h.resource.Group == "" {
		return fmt.Errorf("the server does not serve %s: of what is no longer served, the plural and the group are needed, as in widgets.example.com", kind)
	}
	h.namespaced = true // perhaps: without a given namespace, cluster-scoped objects are looked for, too
	return nil
}

// path returns the path of the history of the objects in the scope.
func (h *objectHistory) path(namespaced, clustered string) string {
	if h.namespaced {
		return pathOf(history.GroupVersion, h.namespace, namespaced)
	}
	return pathOf(history.GroupVersion, "", clustered)
}

func (h *objectHistory) written() string { return h.path(history.Revisions, history.ClusterRevisions) }

func (h *objectHistory) trash() string { return h.path(history.Trash, history.ClusterTrash) }

// historyPage is the number of revisions in a page.
const historyPage = 500

// revisions returns the writes of the object, or the one at a revision; without their objects.
func (h *objectHistory) revisions(ctx context.Context, revision int64) ([]*historyRevision, error) {
	return h.list(ctx, h.written(), revision)
}

// deletions returns the deletions among them.
func (h *objectHistory) deletions(ctx context.Context, revision int64) ([]*historyRevision, error) {
	return h.list(ctx, h.trash(), revision)
}

func (h *objectHistory) list(ctx context.Context, path string, revision int64) (all []*historyRevision, err error) {
	for page, err := range h.pages(ctx, path, revision) {
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
	}
	return all, nil
}

// query selects the writes of the object, or the one at a revision, with a limit per page.
func (h *objectHistory) query(revision int64, limit int) url.Values {
	selector := "object.resource=" + h.resource.String()
	if h.name != "" {
		selector += ",object.name=" + fields.EscapeValue(h.name)
	}
	if revision != 0 {
		selector += ",metadata.name=" + strconv.FormatInt(revision, 10)
	}
	return url.Values{"fieldSelector": {selector}, "limit": {strconv.Itoa(limit)}}
}

// pages requests a list page by page. An error is the last element.
func (h *objectHistory) pages(ctx context.Context, path string, revision int64) iter.Seq2[[]*historyRevision, error] {
	query := h.query(revision, historyPage)
	return func(yield func([]*historyRevision, error) bool) {
		for {
			page, next, err := h.page(ctx, path, query)
			if !yield(page, err) || err != nil || next == "" {
				return
			}
			query.Set("continue", next)
		}
	}
}

// page returns a page, and the continue token of the next one.
func (h *objectHistory) page(ctx context.Context, path string, query url.Values) (page []*historyRevision, next string, err error) {
	var list struct {
		Metadata metav1.ListMeta    `json:"metadata"`
		Items    []*historyRevision `json:"items"`
	}
	err = h.client.do(ctx, http.MethodGet, path+"?"+query.Encode(), nil, &list)
	return list.Items, list.Metadata.Continue, err
}

// get returns a revision with its object. It may belong to another object.
func (h *objectHistory) get(ctx context.Context, revision string) (*historyRevision, error) {
	r := &historyRevision{}
	return r, h.client.do(ctx, http.MethodGet, h.written()+"/"+revision, nil, r)
}
