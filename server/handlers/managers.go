package handlers

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/resources/fieldmanager"
	"github.com/rowlock/rowlock/resources/typedjson"
)

// managerKey is the key under which the served type caches the field manager of a path.
type managerKey struct {
	h           *Handlers
	subresource string
}

// manager returns the field manager of the request's path.
func (h *Handlers) manager(q *request) (*fieldmanager.Manager, error) {
	m, err := q.served.Memo(managerKey{h, q.info.Subresource}, func() (any, error) { return h.newManager(q) })
	if err != nil {
		return nil, err
	}
	return m.(*fieldmanager.Manager), nil
}

func (h *Handlers) newManager(q *request) (*fieldmanager.Manager, error) {
	return fieldmanager.New(h.managerConfig(q))
}

func (h *Handlers) managerConfig(q *request) fieldmanager.Config {
	c := fieldmanager.Config{Scheme: q.served.Scheme, Kind: q.kind, Hub: q.served.HubOf(q.kind.Group), Types: q.served.FieldTypes,
		Subresource: q.info.Subresource, ResetFields: q.served.ResetFields, Fallback: h.ManagedFieldsFallback}
	if q.kind.Group == apiextensions.GroupName {
		c.FromUntyped = throughText
	}
	if q.kind == q.served.GroupVersionKind {
		c.Versions = q.served.Versions
	} else {
		c.Types = nil // a Scale is not among the type's own types
	}
	if q.sub != nil {
		c.ResetFields = q.sub.ResetFields
	}
	return c
}

// throughText converts a CustomResourceDefinition from maps by way of its JSON. Upstream's converter writes and decodes the JSON of each value with
// an UnmarshalJSON method. Schemas have one and are nested, so the converter encodes each part of a schema as often as it is deep.
func throughText(u *unstructured.Unstructured, into runtime.Object) bool {
	text, ok := typedjson.Append(nil, u)
	return ok && typedjson.Decode(text, into)
}

// managerName is the field manager in the request, or else the beginning of its User-Agent.
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
