package handlers

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apiserver/pkg/warning"
	kjson "sigs.k8s.io/json"

	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/resources/typedjson"
	"github.com/rowlock/rowlock/resources/upstream"
	"github.com/rowlock/rowlock/server/codec"
	"github.com/rowlock/rowlock/server/status"
)

// sentBody keeps what a second attempt at a request, with other types, needs of the first.
type sentBody struct {
	read bool
	data []byte
	err  error
	// accepted: validating admission has accepted the new object.
	accepted bool
}

// readBody reads the body, unless an earlier attempt has.
func (q *request) readBody() ([]byte, error) {
	if !q.sent.read {
		q.sent.data, q.sent.err = q.receive()
		q.sent.read = true
		if q.sent.err == nil {
			q.counts.read(q, len(q.sent.data))
		}
	}
	return q.sent.data, q.sent.err
}

// receive reads the body.
func (q *request) receive() ([]byte, error) {
	return InTime(q.ctx, q.w, q.r, func() ([]byte, error) { return readLimited(q.r) })
}

// InTime reads the body of a request within the deadline of its context. Otherwise a body that never comes would occupy a seat forever.
//
// Over HTTP/1.1 the read deadline is reset after the body: net/http then goes on reading to detect a disconnect, would take a passed deadline for
// one, and would cancel all later requests of the connection.
func InTime(ctx context.Context, w http.ResponseWriter, r *http.Request, read func() ([]byte, error)) ([]byte, error) {
	deadline, limited := ctx.Deadline()
	if !limited || r.ContentLength == 0 {
		return read()
	}
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(deadline) // a writer without deadlines is no connection
	data, err := read()
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, context.DeadlineExceeded
	case err != nil:
		return nil, err // there may be more of the body, which is read within this deadline, too
	}
	_ = c.SetReadDeadline(time.Time{})
	if r.ProtoMajor == 1 && !time.Now().Before(deadline) {
		w.Header().Set("Connection", "close") // the deadline may have passed before the reset
	}
	return data, nil
}

func readLimited(r *http.Request) ([]byte, error) {
	size := r.ContentLength
	if size > upstream.BodyBytes {
		if r.ProtoMajor == 1 && r.Header.Get("Expect") == "" {
			// Many clients send the whole body before they read the response, and get none if the connection is closed meanwhile. kube-apiserver
			// reads as much.
			_, _ = io.CopyN(io.Discard, r.Body, upstream.BodyBytes)
		}
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", upstream.BodyBytes))
	}
	var data []byte
	var err error
	if size > 0 {
		data = make([]byte, size)
		_, err = io.ReadFull(r.Body, data)
	} else {
		data, err = io.ReadAll(io.LimitReader(r.Body, upstream.BodyBytes+1))
	}
	if err != nil {
		return nil, err
	}
	if len(data) > upstream.BodyBytes {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", upstream.BodyBytes))
	}
	return data, nil
}

// decode decodes the body of a create or update into the hub version of the request's kind, of which into is an empty object. fieldValidation
// decides whether unknown and duplicate fields are errors, warnings or ignored ("Field validation").
func (q *request) decode(body []byte, into runtime.Object, fieldValidation string) (runtime.Object, error) {
	media, err := q.offer.BodyMedia(q.r)
	if err != nil {
		return nil, err
	}
	if media == codec.JSON && fastpath.BodyKind.On() {
		if obj, ok := q.decodeJSON(body, fieldValidation, false); ok {
			return obj, nil
		}
		fastpath.BodyKind.Fallback()
	}
	decoder := q.decoder(media, fieldValidation != metav1.FieldValidationIgnore)
	if decoder == nil {
		return nil, status.UnsupportedMediaType(strings.Join(q.mediaTypes(), ", "))
	}
	toHub := q.served.Serializer.DecoderToVersion(decoder, q.served.HubOf(q.kind.Group))
	defaultKind := q.kind
	var obj runtime.Object
	var kind *schema.GroupVersionKind
	var costly error
	err = q.decodeInTurn(media, body, func() (err error) {
		if costly = q.bounded(media, body); costly != nil {
			return costly
		}
		obj, kind, err = toHub.Decode(body, &defaultKind, into)
		return err
	})
	if err != nil {
		if costly != nil || errors.Is(err, q.ctx.Err()) {
			return nil, err
		}
		strict, isStrict := runtime.AsStrictDecodingError(err)
		if !isStrict || obj == nil || fieldValidation == metav1.FieldValidationStrict {
			return nil, q.decodeError(err, into, kind, body)
		}
		warnStrict(q.ctx, strict.Errors())
	}
	switch got := kind.GroupVersion(); {
	case got == q.kind.GroupVersion():
	case q.showsBuiltin():
		return nil, q.decodeError(nil, into, kind, body)
	case q.sub != nil && slices.Contains(q.sub.OlderVersions, got):
		q.older = kind
	default:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)",
			got, q.kind.GroupVersion()))
	}
	return obj, nil
}

// decodeInTurn decodes a body; if it is YAML, in turn.
func (q *request) decodeInTurn(media string, body []byte, read func() error) error {
	if media != codec.YAML {
		return read()
	}
	return codec.InTurn(q.ctx, body, read)
}

// cleanDecoder decodes untyped objects that are free of errors and unknown fields.
type cleanDecoder interface {
	DecodeClean(data []byte, kind schema.GroupVersionKind) (runtime.Object, bool)
}

// decoder returns the decoder of a media type, nil for none. Custom resources have no protobuf, except where they are shown as objects of a Go type.
func (q *request) decoder(media string, strict bool) runtime.Decoder {
	if media == codec.Protobuf && q.showsBuiltin() {
		return protobuf.NewSerializer(q.served.Scheme, q.served.Scheme)
	}
	info, ok := runtime.SerializerInfoForMediaType(q.served.Serializer.SupportedMediaTypes(), media)
	switch {
	case !ok:
		return nil
	case strict:
		return info.StrictSerializer
	}
	return info.Serializer
}

// mediaTypes are the media types that the type can decode.
func (q *request) mediaTypes() (types []string) {
	for _, info := range q.served.Serializer.SupportedMediaTypes() {
		if info.MediaType != codec.CBOR || q.offer.CBOR() {
			types = append(types, info.MediaType)
		}
	}
	return types
}

// decodeJSON decodes a body of the expected kind without determining its kind first, which costs a serializer as much as everything else. ok is
// false when anything is wrong with the body: the serializer then reports it. mustSay requires the body to name its kind, as the result of a patch
// must.
func (q *request) decodeJSON(body []byte, fieldValidation string, mustSay bool) (obj runtime.Object, ok bool) {
	if q.untyped() {
		clean, ok := q.served.Scheme.(cleanDecoder)
		if !ok {
			return nil, false // the serializer must determine the kind
		}
		return clean.DecodeClean(body, q.kind)
	}
	versioned, err := q.served.Scheme.New(q.kind)
	if err != nil {
		return nil, false
	}
	var strict []error
	if !typedjson.Decode(body, versioned) {
		if q.bounded(codec.JSON, body) != nil {
			return nil, false
		}
		if versioned, err = q.served.Scheme.New(q.kind); err != nil {
			return nil, false
		}
		if fieldValidation == metav1.FieldValidationIgnore {
			err = kjson.UnmarshalCaseSensitivePreserveInts(body, versioned)
		} else {
			strict, err = kjson.UnmarshalStrict(body, versioned)
		}
	}
	sent := versioned.GetObjectKind().GroupVersionKind()
	if typ, is := versioned.GetObjectKind().(*metav1.TypeMeta); is && typ.APIVersion != "" && sent.Version == "" {
		return nil, false // the version is invalid: the serializer reports it
	}
	expected := sent == q.kind || !mustSay && (sent.Kind == "" || sent.Kind == q.kind.Kind) &&
		(sent.GroupVersion().Empty() || sent.GroupVersion() == q.kind.GroupVersion())
	if err != nil || len(strict) > 0 || !expected {
		return nil, false
	}
	q.served.Scheme.Default(versioned)
	obj, err = q.served.ToHub(versioned)
	return obj, err == nil
}

// showsBuiltin tells whether the path represents custom resources as objects of a Go type, such as Scale.
func (q *request) showsBuiltin() bool {
	return q.served.Untyped && q.kind.Group != q.served.GroupVersionKind.Group
}

// decodeError returns the error for a body that cannot be decoded.
func (q *request) decodeError(cause error, into runtime.Object, kind *schema.GroupVersionKind, body []byte) error {
	var typer runtime.ObjectTyper = q.served.Scheme
	if q.showsBuiltin() {
		// kube-apiserver reports any error as an unknown Scale, because it looks the kind up in a scheme without Go types.
		var err error
		if into, err = q.served.Scheme.New(q.kind); err != nil {
			return err
		}
		typer = runtime.NewScheme()
	}
	kinds, _, err := typer.ObjectKinds(into)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if kind != nil && kind.Kind != "" {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", kind.Kind, kind.Version, kinds[0].Kind, cause))
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)", kinds[0].Kind, cause, summary(body)))
}

// summary quotes the beginning of a body: as text if it may be JSON, otherwise in hexadecimal.
func summary(body []byte) string {
	const most = 30
	switch {
	case len(body) == 0:
		return "<empty>"
	case body[0] == '{' && len(body) <= most:
		return string(body)
	case body[0] == '{':
		return string(body[:most]) + " ..."
	case len(body) <= most:
		return hex.EncodeToString(body)
	}
	return hex.EncodeToString(body[:most]) + " ..."
}

// warnStrict adds a Warning header for each unknown or duplicate field. A YAML decoder lists several in one error.
func warnStrict(ctx context.Context, errs []error) {
	for _, err := range errs {
		text := err.Error()
		lines := []string{text}
		for _, prefix := range []string{"yaml: unmarshal errors:\n", "error converting YAML to JSON: yaml: unmarshal errors:\n"} {
			if rest, found := strings.CutPrefix(text, prefix); found {
				lines = strings.Split(rest, "\n")
				break
			}
		}
		for _, line := range lines {
			warning.AddWarning(ctx, "", strings.TrimSpace(line))
		}
	}
}

// validationOf is the requested level of field validation; Warn is the default.
func validationOf(fieldValidation string) string {
	if fieldValidation == "" {
		return metav1.FieldValidationWarn
	}
	return fieldValidation
}
