package handlers

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/warning"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/upstream"
)

// These are the methods of upstream's types that describe the deprecation of their version (KEP-1693).
type (
	deprecated interface {
		APILifecycleDeprecated() (major, minor int)
	}
	removed interface {
		APILifecycleRemoved() (major, minor int)
	}
	replaced interface {
		APILifecycleReplacement() schema.GroupVersionKind
	}
)

type deprecationKey struct{}

// warnDeprecated warns when the requested version is deprecated, unless kube-apiserver's router would reject the request, because of an unknown
// encoding or kind of patch. For custom resources the warning comes earlier, in route.
func (q *request) warnDeprecated() {
	if !q.served.Untyped && q.routed() {
		warnOf(q.ctx, q.served)
	}
}

// routed tells whether kube-apiserver's router accepts the request for a built-in type.
func (q *request) routed() bool {
	return q.offer.Named(q.r, q.negotiable()) && (q.info.Verb != "patch" || RoutesPatch(q.offer, q.r))
}

// warnOf warns of a deprecated version.
func warnOf(ctx context.Context, served *resources.Served) {
	if text := warningOf(served); text != "" {
		warning.AddWarning(ctx, "", text)
	}
}

func warningOf(served *resources.Served) string {
	text, err := served.Memo(deprecationKey{}, func() (any, error) { return deprecation(served), nil })
	if err != nil {
		return ""
	}
	return text.(string)
}

// Deprecated tells whether a version is deprecated, and which release removes it; "" if that is unknown.
func Deprecated(served *resources.Served) (release string, deprecated bool) {
	if warningOf(served) == "" {
		return "", false
	}
	if served.Untyped {
		return "", true
	}
	obj, err := served.Scheme.New(served.GroupVersionKind)
	if r, ok := obj.(removed); ok && err == nil {
		if major, minor := r.APILifecycleRemoved(); major != 0 || minor != 0 {
			release = fmt.Sprintf("%d.%d", major, minor)
		}
	}
	return release, true
}

// deprecation is the warning for a served type; empty for nearly all.
func deprecation(s *resources.Served) string {
	if s.DeprecationWarning != "" {
		return s.DeprecationWarning
	}
	obj, err := s.Scheme.New(s.GroupVersionKind)
	if err != nil {
		return ""
	}
	return deprecationOf(obj, s.GroupVersionKind)
}

func deprecationOf(obj runtime.Object, kind schema.GroupVersionKind) string {
	d, ok := obj.(deprecated)
	if !ok {
		return ""
	}
	major, minor := d.APILifecycleDeprecated()
	if major == 0 && minor == 0 || major > upstream.Major || major == upstream.Major && minor > upstream.Minor {
		return ""
	}
	text := fmt.Sprintf("%s %s is deprecated in v%d.%d+", kind.GroupVersion(), kind.Kind, major, minor)
	if r, ok := obj.(removed); ok {
		if major, minor := r.APILifecycleRemoved(); major != 0 || minor != 0 {
			text += fmt.Sprintf(", unavailable in v%d.%d+", major, minor)
		}
	}
	if r, ok := obj.(replaced); ok {
		if by := r.APILifecycleReplacement(); !by.Empty() {
			text += fmt.Sprintf("; use %s %s", by.GroupVersion(), by.Kind)
		}
	}
	return text
}
