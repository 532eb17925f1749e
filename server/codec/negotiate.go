// Package codec negotiates media types and renders stored objects in the requested format.
//
// An object is stored as the JSON of its storage version, which is what most clients get: the bytes are copied without decoding. Other versions and
// encodings are built once, and cached with the object (resources.Object.Form).
//
//	negotiate.go  the offered media types, and the one for a request; gzip.go, whether its response may be compressed
//	renderer.go   an object in a version and an encoding; protobuf.go and cbor.go, encodings; indent.go, pretty=true
//	list.go       lists as JSON; list_protobuf.go, list_yaml.go (yaml_turns.go: long texts); bulk.go, state for many objects
//	table.go      Tables
//	events.go     the frames of a watch
//
// Package codec/transcode converts stored JSON to protobuf without Go values in between.
package codec

import (
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/munnerz/goautoneg"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/server/status"
)

// Media types of "Alternate representations of resources" of the API concepts page.
const (
	JSON     = runtime.ContentTypeJSON
	YAML     = runtime.ContentTypeYAML
	Protobuf = runtime.ContentTypeProtobuf
	CBOR     = runtime.ContentTypeCBOR
	// cborSequence is the type of a watch in CBOR: consecutive documents (RFC 8742).
	cborSequence = runtime.ContentTypeCBORSequence
	text         = "text/plain"
)

// Offer are the encodings of a server.
type Offer struct {
	media []string
	// whole, any and streams list the media types in errors: those of a document, those of a path that supports watches, and those of watches.
	whole, any, streams string

	// PlainBodies and PlainWatchLists disable the compression of large bodies and of watches that begin with a list, as in kube-apiserver without
	// the features APIResponseCompression and WatchListCompression.
	PlainBodies, PlainWatchLists bool
}

// NewOffer returns JSON, YAML and protobuf, and CBOR if the feature CBORServingAndStorage is on (KEP-4222).
func NewOffer(cbor bool) *Offer {
	media := []string{JSON, YAML, Protobuf}
	streams := []string{JSON + ";stream=watch", Protobuf + ";stream=watch"}
	if cbor {
		media, streams = append(media, CBOR), append(streams, cborSequence)
	}
	o := &Offer{media: media, whole: strings.Join(media, ", "), streams: strings.Join(streams, ", ")}
	o.any = o.whole + ", " + o.streams
	return o
}

// String lists the media types, as errors do.
func (o *Offer) String() string { return o.whole }

// CBOR tells whether CBOR is among the encodings.
func (o *Offer) CBOR() bool { return slices.Contains(o.media, CBOR) }

// As is the representation of an object or a list.
type As int

const (
	// AsObject is the object itself.
	AsObject As = iota
	// AsTable has the columns that kubectl prints ("Receiving resources as Tables").
	AsTable
	// AsPartial has only metadata (PartialObjectMetadata and its list).
	AsPartial
)

// Format is the format of a response.
type Format struct {
	Media  string
	Pretty bool
	As     As
	// AsList is set if the request names PartialObjectMetadataList.
	AsList bool
	// AsVersion is the version of meta.k8s.io for tables and partial objects: "v1" or "v1beta1".
	AsVersion string
	// Table are the options for AsTable.
	Table *metav1.TableOptions
	// Refusal is the error for invalid Table options, a Status. It is returned instead of the Table, and not earlier: kube-apiserver checks these
	// options last, when the request has already taken effect.
	Refusal error
	// Unaccepted is set if the client accepts no format. As in kube-apiserver, the audit then has no object.
	Unaccepted bool
}

// Path describes the representations that a path supports, besides objects.
type Path struct {
	// Watchable paths support watches.
	Watchable bool
	// Tabular paths support Tables.
	Tabular bool
	// Direct paths are those of custom resources, which in kube-apiserver are not behind the router that checks media types first, with its own
	// errors.
	Direct bool
	// NoProtobuf paths return objects without a protobuf encoding: custom resources and, as in kube-apiserver, their Scales.
	NoProtobuf bool
	// Text paths return plain text, yet reject a request for it: kube-apiserver lists text/plain among the supported types, and rejects it.
	Text bool
}

// NegotiateStatus chooses the format of an error: as Negotiate does, except that it ignores clauses for Tables and metadata. A client that accepts
// nothing gets indented JSON.
func (o *Offer) NegotiateStatus(r *http.Request) Format {
	header := r.Header.Get("Accept")
	if header == "" {
		return Format{Media: JSON, Pretty: WantsPretty(r)}
	}
	for _, clause := range goautoneg.ParseAccept(header) {
		for _, media := range o.media {
			if !covers(clause, media) {
				continue
			}
			if f, ok := accept(clause.Params, media); ok && f.As == AsObject {
				f.Pretty = f.Pretty || WantsPretty(r)
				return f
			}
		}
	}
	return Format{Media: JSON, Pretty: true, Unaccepted: true}
}

// Negotiate chooses the format of the response by Accept: the first supported clause in order of preference. Its error is a 406 Status.
func (o *Offer) Negotiate(r *http.Request, path Path) (Format, error) {
	header := r.Header.Get("Accept")
	if header == "" || header == JSON {
		return Format{Media: JSON, Pretty: WantsPretty(r)}, nil
	}
	if !path.Direct && !o.named(header, path) {
		switch {
		case path.Watchable:
			return Format{}, status.NoRepresentation(o.any)
		case path.Text:
			return Format{}, status.NoRepresentation(text + ", " + o.whole)
		}
		return Format{}, status.NoRepresentation(o.whole)
	}
	for _, clause := range goautoneg.ParseAccept(header) {
		for _, media := range o.media {
			if !covers(clause, media) {
				continue
			}
			f, ok := accept(clause.Params, media)
			if path.NoProtobuf && media == Protobuf && f.As == AsObject {
				continue
			}
			if ok && (f.As != AsTable || path.Tabular) {
				f.Pretty = f.Pretty || WantsPretty(r)
				return f, nil
			}
		}
	}
	return Format{}, status.NotAcceptable(o.whole)
}

// Named tells whether a request accepts one of the offered media types. One that does not is rejected before all other checks.
func (o *Offer) Named(r *http.Request, path Path) bool {
	header := r.Header.Get("Accept")
	return header == "" || path.Direct || o.named(header, path)
}

// Consumes tells whether the Content-Type of a request, if it has one, names one of the offered media types.
func (o *Offer) Consumes(r *http.Request) bool {
	header := r.Header.Get("Content-Type")
	return header == "" || Lists(header, o.media...)
}

// named tells whether Accept names an offered media type, or */*: kube-apiserver's router checks that before the clauses are evaluated, and a range
// like application/* does not suffice.
//
// A watchable path also accepts the CBOR sequence here, though nothing is served as such: clients must request CBOR.
func (o *Offer) named(header string, path Path) bool {
	return Lists(header, o.media...) || Lists(header, "*/*") || path.Watchable && o.CBOR() && Lists(header, cborSequence) || path.Text && Lists(header, text)
}

// Lists tells whether Accept or Content-Type names one of the media types. As in kube-apiserver's router, parameters do not matter, and "*/*" is a name
// like any other.
func Lists(header string, media ...string) bool {
	for clause := range strings.SplitSeq(header, ",") {
		name, _, _ := strings.Cut(clause, ";")
		if slices.Contains(media, strings.TrimSpace(name)) {
			return true
		}
	}
	return false
}

// covers tells whether a clause of Accept includes a media type.
func covers(clause goautoneg.Accept, media string) bool {
	typ, sub, _ := strings.Cut(media, "/")
	if clause.Type == "*" {
		return clause.SubType == "*"
	}
	return clause.Type == typ && (clause.SubType == sub || clause.SubType == "*")
}

// accept evaluates the parameters of a clause; ok is false if this media type does not support them.
func accept(params map[string]string, media string) (f Format, ok bool) {
	f.Media = media
	var kind, group, version string
	converts := false
	for k, v := range params {
		switch k {
		case "as":
			kind, converts = v, true
		case "g":
			group, converts = v, true
		case "v":
			version, converts = v, true
		case "stream":
			if v != "" && (v != "watch" || media == YAML) { // YAML cannot be streamed
				return f, false
			}
		case "sv":
			if v != "" && v != "v1" {
				return f, false
			}
		case "pretty":
			f.Pretty = v == "1"
		}
	}
	if !converts {
		return f, true
	}
	if group != metav1.GroupName || version != "v1" && version != "v1beta1" {
		return f, false
	}
	f.AsVersion = version
	switch kind {
	case "Table":
		f.As = AsTable
		return f, media != Protobuf && media != CBOR
	case "PartialObjectMetadata":
		f.As = AsPartial
		return f, true
	case "PartialObjectMetadataList":
		f.As, f.AsList = AsPartial, true
		return f, true
	}
	return f, false
}

// ContentType is the media type of the response; stream adds the parameter of watches.
func (f Format) ContentType(stream bool) string {
	switch {
	case !stream || f.Media == JSON:
		return f.Media
	case f.Media == CBOR:
		return cborSequence
	}
	return f.Media + ";stream=watch"
}

// Streamable tells whether the format supports watches; its error is a 406 Status.
func (o *Offer) Streamable(f Format) error {
	if f.Media == YAML {
		return status.NotAcceptable(o.streams)
	}
	return nil
}

// BodyMedia returns the media type of a request body; the default is JSON. Its error is a 415 Status.
func (o *Offer) BodyMedia(r *http.Request) (string, error) {
	header := r.Header.Get("Content-Type")
	if header == "" {
		return JSON, nil
	}
	media, _, err := mime.ParseMediaType(header)
	if err != nil || !slices.Contains(o.media, media) {
		return "", status.UnsupportedMediaType(o.whole)
	}
	return media, nil
}

// WantsPretty evaluates the query parameter, or else guesses from the user agent whether a person reads the response.
func WantsPretty(r *http.Request) bool {
	if strings.Contains(r.URL.RawQuery, "pretty") {
		if v := r.URL.Query().Get("pretty"); v != "" {
			pretty, _ := strconv.ParseBool(v)
			return pretty
		}
	}
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0")
}
