package discovery

import (
	"bytes"
	"net/http"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/rowlock/rowlock/server/auditing"
	"github.com/rowlock/rowlock/server/codec"
	"github.com/rowlock/rowlock/server/handlers"
	"github.com/rowlock/rowlock/server/status"
)

// codecs supports the encodings of discovery: JSON, YAML, protobuf and CBOR.
var codecs = func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	utilruntime.Must(apidiscoveryv2.AddToScheme(scheme))
	metav1.AddToGroupVersion(scheme, metav1.Unversioned)
	return serializer.NewCodecFactory(scheme, serializer.WithSerializer(cbor.NewSerializerInfo))
}()

// documentKey identifies one encoding of one document of a catalog.
type documentKey struct {
	name, mediaType string
	pretty          bool
}

// kept returns the bytes of a document, built and encoded once per catalog.
func kept(c memo, n negotiated, name string, build func() runtime.Object) ([]byte, error) {
	body, err := c.Memo(documentKey{name, n.info.MediaType, n.pretty}, func() (any, error) { return encode(n, build()) })
	if err != nil {
		return nil, err
	}
	return body.([]byte), nil
}

func (h *Handler) serveKept(w http.ResponseWriter, r *http.Request, c memo, n negotiated, name string,
	build func() runtime.Object) {
	body, err := kept(c, n, name, build)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	record(r, func(n negotiated) ([]byte, error) { return kept(c, n, name, build) })
	h.write(w, r, n.info.MediaType, body)
}

// asJSON is the encoding for the audit.
var asJSON = func() negotiated {
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	return negotiated{info: info}
}()

// record records a response in the audit, if it records responses, before it is sent.
func record(r *http.Request, encoded func(negotiated) ([]byte, error)) {
	q := auditing.Of(r.Context())
	if !q.RecordsAnswers() {
		return
	}
	if document, err := encoded(asJSON); err == nil {
		q.Answered(nil, document)
	}
}

func encode(n negotiated, obj runtime.Object) ([]byte, error) {
	s := n.info.Serializer
	if n.pretty && n.info.PrettySerializer != nil {
		s = n.info.PrettySerializer
	}
	var buf bytes.Buffer
	if err := s.Encode(obj, &buf); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func (h *Handler) writeObject(w http.ResponseWriter, r *http.Request, n negotiated, obj runtime.Object) {
	body, err := encode(n, obj)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	record(r, func(n negotiated) ([]byte, error) { return encode(n, obj) })
	h.write(w, r, n.info.MediaType, body)
}

// write writes a document, compressed as a list of objects of that size would be.
func (h *Handler) write(w http.ResponseWriter, r *http.Request, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	handlers.WriteBody(w, r, h.options.Offer, http.StatusOK, body)
}

// writeError writes a Status, in an encoding that the request accepts if there is one.
func (o *offer) writeError(w http.ResponseWriter, r *http.Request, err error) {
	s := status.Of(err)
	f := o.errors.NegotiateStatus(r)
	body, err := codec.Value(s, f)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if !f.Unaccepted {
		auditing.Of(r.Context()).AnsweredStatus(s)
	}
	w.Header().Set("Content-Type", f.Media)
	handlers.WriteBody(w, r, o.errors, int(s.Code), body)
}
