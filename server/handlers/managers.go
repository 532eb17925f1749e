package handlers

import (
	"sync"
	"unicode"
	"unicode/utf8"

	"strings"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fieldmanager"
)

// managers keeps a field manager for each type, version and subresource that was written to. A type that is replaced in
// the registry is another type, and gets its own.
type managers struct{ byPath sync.Map }

type managerKey struct {
	t           *resources.Type
	kind        schema.GroupVersionKind
	subresource string
}

// manager returns the field manager of the request's path.
func (h *Handlers) manager(q *request) (*fieldmanager.Manager, error) {
	key := managerKey{t: q.served.Type, kind: q.kind, subresource: q.info.Subresource}
	if m, ok := h.managers.byPath.Load(key); ok {
		return m.(*fieldmanager.Manager), nil
	}
	c := fieldmanager.Config{Scheme: q.served.Scheme, Kind: q.kind, Hub: hubVersion(q.kind.Group),
		Subresource: q.info.Subresource, ResetFields: q.served.ResetFields, Versions: h.versions(q), Fallback: h.ManagedFieldsFallback}
	if q.sub != nil {
		c.ResetFields = q.sub.ResetFields
	}
	m, err := fieldmanager.New(c)
	if err != nil {
		return nil, err
	}
	kept, _ := h.managers.byPath.LoadOrStore(key, m)
	return kept.(*fieldmanager.Manager), nil
}

// versions are those the kind of the request is served in.
func (h *Handlers) versions(q *request) []schema.GroupVersion {
	if q.kind != q.served.GroupVersionKind {
		return nil
	}
	group, ok := h.Registry.Catalog().Group(q.kind.Group)
	if !ok {
		return nil
	}
	var all []schema.GroupVersion
	for _, v := range group.Versions {
		for _, s := range v.Resources {
			if s.Resource == q.served.Resource {
				all = append(all, v.GroupVersion)
			}
		}
	}
	return all
}

// managerName is the field manager that a client named, or else the beginning of its User-Agent.
func managerName(named, userAgent string) string {
	if named != "" {
		return named
	}
	prefix, _, _ := strings.Cut(userAgent, "/")
	var b strings.Builder
	for _, r := range prefix {
		if !unicode.IsPrint(r) {
			continue
		}
		if b.Len()+utf8.RuneLen(r) > metav1validation.FieldManagerMaxLength {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}
