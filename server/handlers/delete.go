package handlers

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/codec"
)

// delete deletes one object ("Resource deletion").
func (h *Handlers) delete(q *request) error {
	var f codec.Format
	accepted := false
	r := &resources.DeleteRequest{Type: h.storedType(q), Name: q.info.Name}
	r.Decode = func() (err error) {
		if f, err = q.format(); err != nil {
			return err
		}
		if r.Options, err = q.deleteOptions(); err != nil {
			return err
		}
		q.auditUnsafeDelete(r.Options)
		accepted = r.Options.OrphanDependents != nil && !*r.Options.OrphanDependents //nolint:staticcheck // deprecated, and still served
		return nil
	}
	d, err := h.Pipeline.Delete(q.ctx, r)
	if err != nil {
		return err
	}
	q.written = true
	if d.Unread {
		return q.value(http.StatusOK, f, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
			Code: http.StatusOK, Details: &metav1.StatusDetails{Name: q.info.Name, Kind: q.kind.Kind}})
	}
	code := http.StatusOK
	if accepted && !d.Gone {
		code = http.StatusAccepted
	}
	if (d.Gone || d.Unchanged) && !q.served.ReturnsDeleted() {
		s := q.served.DeletedStatus(q.ctx, q.info.Name, d.UID)
		s.GetObjectKind().SetGroupVersionKind(metav1.Unversioned.WithKind("Status"))
		return q.value(code, f, s)
	}
	if !d.Gone && !d.Unchanged {
		d.Object = d.Object.Whole() // the object still exists: the response has all of it
	}
	if f.As != codec.AsPartial {
		if err := q.asStored(d.Object); err != nil {
			return err
		}
	}
	return q.object(code, f, d.Object)
}

// deleteOptions decodes the options from the body, in any encoding, or else from the query.
func (q *request) deleteOptions() (*metav1.DeleteOptions, error) {
	opts := &metav1.DeleteOptions{}
	body, err := q.readBody()
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		err = q.decodeDeleteOptions(body, opts)
	} else {
		err = q.decodeOptions(opts)
	}
	if err != nil {
		return nil, err
	}
	if !utilfeature.DefaultFeatureGate.Enabled(features.AllowUnsafeMalformedObjectDeletion) {
		opts.IgnoreStoreReadErrorWithClusterBreakingPotential = nil
	}
	if errs := metav1validation.ValidateDeleteOptions(opts); len(errs) > 0 {
		return nil, invalidOptions("DeleteOptions", errs)
	}
	opts.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("DeleteOptions"))
	return opts, nil
}

// deleteOptionsCodecs support every encoding; q.offer decides which of them a body may have.
var deleteOptionsCodecs = serializer.NewCodecFactory(metainternalversionscheme.Scheme, serializer.WithSerializer(cbor.NewSerializerInfo))

func (q *request) decodeDeleteOptions(body []byte, into *metav1.DeleteOptions) error {
	media, err := q.offer.BodyMedia(q.r)
	if err != nil {
		return err
	}
	codecs := deleteOptionsCodecs
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), media)
	if !ok {
		return fmt.Errorf("no serializer for %s", media)
	}
	kind := metav1.SchemeGroupVersion.WithKind("DeleteOptions")
	var obj runtime.Object
	err = q.decodeInTurn(media, body, func() (err error) {
		obj, _, err = codecs.DecoderToVersion(info.Serializer, kind.GroupVersion()).Decode(body, &kind, into)
		return err
	})
	if err != nil && errors.Is(err, q.ctx.Err()) {
		return err
	}
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if obj != runtime.Object(into) {
		return apierrors.NewBadRequest("decoded object cannot be converted to DeleteOptions")
	}
	q.audit.Sent(q.ctx, obj, metav1.SchemeGroupVersion, q.gvr(), q.info.Subresource, codecs)
	return nil
}
