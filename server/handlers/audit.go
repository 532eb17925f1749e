package handlers

import (
	"bytes"
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/utils/ptr"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/codec"
)

// auditSent records the request object, in the version of the body.
func (q *request) auditSent(obj runtime.Object) {
	if q.audit == nil {
		return
	}
	in := &q.kind
	if q.older != nil {
		in = q.older
	}
	q.audit.Sent(q.ctx, obj, in.GroupVersion(), q.gvr(), q.info.Subresource, q.served.Serializer)
}

// json returns the patch as JSON, for the audit.
func (p *patcher) json(ctx context.Context) (text []byte, err error) {
	switch p.typ {
	case types.ApplyCBORPatchType:
		var patch any
		if err := cbor.Unmarshal(p.body, &patch); err != nil {
			return nil, err
		}
		return json.Marshal(patch)
	case types.ApplyYAMLPatchType:
		if utilyaml.IsJSONBuffer(p.body) {
			return p.body, nil
		}
		err = codec.InTurn(ctx, p.body, func() (err error) {
			text, err = utilyaml.ToJSON(p.body)
			return err
		})
		return text, err
	}
	return p.body, nil
}

// auditAnswer records a response as JSON, whatever its format.
func (q *request) auditAnswer(f codec.Format, encode func(codec.Format) ([]byte, error)) {
	if !q.audit.RecordsAnswers() {
		return
	}
	f.Media, f.Pretty = codec.JSON, false
	if data, err := encode(f); err == nil {
		q.audit.Answered(nil, data)
	}
}

// auditUnsafeDelete notes that an unreadable object is to be deleted.
func (q *request) auditUnsafeDelete(opts *metav1.DeleteOptions) {
	if q.audit != nil && ptr.Deref(opts.IgnoreStoreReadErrorWithClusterBreakingPotential, false) {
		audit.AddAuditAnnotation(q.ctx, "apiserver.k8s.io/unsafe-delete-ignore-read-error", "")
	}
}

func (q *request) auditList(s *resources.Served, f codec.Format, objects []*resources.Object, m metav1.ListMeta) {
	q.auditAnswer(f, func(f codec.Format) ([]byte, error) {
		list, err := codec.NewRenderer(s, f).List(objects, m)
		if err != nil {
			return nil, err
		}
		var all bytes.Buffer
		err = list.Write(&all)
		return all.Bytes(), err
	})
}

// auditValue records a response that is not a stored object; its kind must be set.
func (q *request) auditValue(versioned runtime.Object) {
	if st, ok := versioned.(*metav1.Status); ok {
		q.audit.AnsweredStatus(st)
		return
	}
	q.auditAnswer(codec.Format{}, func(f codec.Format) ([]byte, error) { return codec.Value(versioned, f) })
}

// auditDeprecated schedules the annotation, at the end of the request, that the version is deprecated, and in which release it will be removed.
func (q *request) auditDeprecated() {
	if q.audit != nil && (q.found.Untyped || q.routed()) && warningOf(q.found) != "" {
		q.audit.Last(q.noteDeprecated)
	}
}

func (q *request) noteDeprecated() {
	audit.AddAuditAnnotation(q.ctx, "k8s.io/deprecated", "true")
	if release, _ := Deprecated(q.found); release != "" {
		audit.AddAuditAnnotation(q.ctx, "k8s.io/removed-release", release)
	}
}
