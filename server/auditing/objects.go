package auditing

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
)

// records tells whether the request is recorded at a level or above.
func (q *Request) records(level auditinternal.Level) bool {
	return q != nil && !q.GetEventLevel().Less(level)
}

// Sent records the object of a request: in its hub form, and the version in which it was sent. At every level the event names the object.
func (q *Request) Sent(ctx context.Context, obj runtime.Object, in schema.GroupVersion, of schema.GroupVersionResource, subresource string, s runtime.NegotiatedSerializer) {
	if q == nil {
		return
	}
	if !q.records(auditinternal.LevelRequest) {
		s = unwritten{} // upstream would encode the object, and discard the result
	}
	audit.LogRequestObject(ctx, obj, in, of, subresource, s)
}

// SentPatch records a patch; read returns it as JSON.
func (q *Request) SentPatch(ctx context.Context, read func() ([]byte, error)) {
	if !q.records(auditinternal.LevelRequest) {
		return
	}
	if patch, err := read(); err == nil {
		audit.LogRequestPatch(ctx, patch)
	}
}

// RecordsObjects tells whether request objects are recorded.
func (q *Request) RecordsObjects() bool { return q.records(auditinternal.LevelRequest) }

// RecordsAnswers tells whether Answered records answers other than a Status.
func (q *Request) RecordsAnswers() bool { return q.records(auditinternal.LevelRequestResponse) }

// Answered records the object of an answer as JSON, which it keeps, and status, when the answer is one.
func (q *Request) Answered(status *metav1.Status, object []byte) {
	if q == nil {
		return
	}
	var answer *runtime.Unknown
	if q.RecordsAnswers() && object != nil {
		if q.omitManagedFields {
			object = withoutManagedFields(object)
		}
		answer = &runtime.Unknown{Raw: object, ContentType: runtime.ContentTypeJSON}
	}
	if status != nil && q.hasSecrets() && !q.RecordsObjects() {
		status = WithoutContents(status)
	}
	q.LogResponseObject(status, answer)
}

// hasSecrets tells whether the body of the request is a Secret, or has a token to be reviewed.
func (q *Request) hasSecrets() bool {
	of := schema.GroupResource{Group: q.about.APIGroup, Resource: q.about.Resource}
	return of == schema.GroupResource{Resource: "secrets"} || of == schema.GroupResource{Group: "authentication.k8s.io", Resource: "tokenreviews"}
}

// WithoutContents removes the contents of a Secret, or a token, from the Status that refuses it. kube-apiserver records such a Status at every
// level, and logs some: when a user patches one value and forgets to encode it, the Status has all values of the Secret.
func WithoutContents(s *metav1.Status) *metav1.Status {
	const field, redacted = "patch", "<secret contents redacted>"
	for _, quotes := range []string{"failed to create typed patch object", "unknown patch type", "the object provided is unrecognized"} {
		if before, _, found := strings.Cut(s.Message, quotes); found {
			s = s.DeepCopy()
			s.Message = before + quotes + ": " + redacted
			return s
		}
	}
	if s.Details == nil || !slices.ContainsFunc(s.Details.Causes, func(c metav1.StatusCause) bool { return c.Field == field }) {
		return s
	}
	const instead = `Invalid value: "` + redacted + `"`
	s = s.DeepCopy()
	for i := range s.Details.Causes {
		if s.Details.Causes[i].Field == field {
			s.Details.Causes[i].Message = instead
		}
	}
	s.Message = ` "" is invalid: ` + field + ": " + instead
	return s
}

// withoutManagedFields returns the JSON of an object, a list or a Table without the metadata.managedFields of any object.
func withoutManagedFields(object []byte) []byte {
	c := cutter{from: object}
	o := gjson.ParseBytes(object)
	list, of := "", func(item gjson.Result) gjson.Result { return item }
	switch kind := o.Get("kind").Str; {
	case kind == "Table" && strings.HasPrefix(o.Get("apiVersion").Str, metav1.GroupName+"/"): // other groups may have a kind of that name
		list, of = "rows", func(row gjson.Result) gjson.Result { return row.Get("object") }
	case strings.HasSuffix(kind, "List") && o.Get("items").IsArray():
		list = "items"
	default:
		c.cut(o)
	}
	if list != "" {
		o.Get(list).ForEach(func(_, item gjson.Result) bool {
			c.cut(of(item))
			return true
		})
	}
	if c.copied == 0 {
		return object
	}
	return append(c.out, object[c.copied:]...)
}

// cutter copies a text, from front to back, without the parts that are cut.
type cutter struct {
	from, out []byte
	copied    int
}

// cut removes metadata.managedFields of an object in the text, with the comma that belongs to it.
func (c *cutter) cut(o gjson.Result) {
	before := 0 // the end of the value before
	o.Get("metadata").ForEach(func(key, value gjson.Result) bool {
		end := value.Index + len(value.Raw)
		if key.Str != "managedFields" {
			before = end
			return true
		}
		from, to := key.Index, end
		if rest := bytes.TrimLeft(c.from[end:], " \t\r\n"); len(rest) > 0 && rest[0] == ',' {
			to = len(c.from) - len(rest) + 1
		} else if before > 0 {
			from = before // including the comma
		}
		c.out = append(c.out, c.from[c.copied:from]...)
		c.copied = to
		return false
	})
}

// unwritten is a serializer that writes nothing.
type unwritten struct{}

func (unwritten) SupportedMediaTypes() []runtime.SerializerInfo {
	return []runtime.SerializerInfo{{MediaType: runtime.ContentTypeJSON}}
}
func (unwritten) EncoderForVersion(runtime.Encoder, runtime.GroupVersioner) runtime.Encoder {
	return unwritten{}
}
func (unwritten) DecoderToVersion(d runtime.Decoder, _ runtime.GroupVersioner) runtime.Decoder {
	return d
}
func (unwritten) Encode(runtime.Object, io.Writer) error { return nil }
func (unwritten) Identifier() runtime.Identifier         { return "unwritten" }
