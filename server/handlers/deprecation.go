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

// The marks that upstream's types carry when their version is on its way out (KEP-1693).
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

// warnDeprecated warns when the version asked for is deprecated, unless the request does not come so far: kube-apiserver's
// router refuses what names no encoding, or no kind of patch, that there is. Of custom resources it warns before it looks, as
// route does.
func (q *request) warnDeprecated() {
	if !q.served.Untyped && q.routed() {
		warnOf(q.ctx, q.served)
	}
}

// routed tells whether kube-apiserver's router takes the request.
func (q *request) routed() bool {
	return q.offer.Named(q.r, q.negotiable()) && (q.info.Verb != "patch" || q.takesPatch(q.patchType()))
}

// warnOf warns of a version that is deprecated.
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

// Deprecated tells whether a version is on its way out, and which release does not have it any more; "": that is not known.
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

// deprecation is the warning of a served type; empty for nearly all.
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
