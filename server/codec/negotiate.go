// Package codec negotiates media types and turns stored objects into the bytes that clients asked for.
//
// An object is stored as the JSON of its storage version, and that is what most clients get: the bytes are copied, never
// decoded. Other versions and encodings are made of it once, and kept with the object (resources.Object.Form).
//
//	negotiate.go  the media types that are offered, and the one that a request gets; gzip.go, whether it gets it compressed
//	renderer.go   the bytes of one object in a version and an encoding; protobuf.go and cbor.go, encodings; indent.go, pretty=true
//	list.go       lists as JSON; list_protobuf.go, list_yaml.go; bulk.go, what is the same for all objects of a list
//	table.go      Tables
//	events.go     the frames of a watch
//
// Package codec/transcode makes protobuf of stored JSON without a Go value between.
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
	// cborSequence is what a watch in CBOR is: one document after another (RFC 8742).
	cborSequence = runtime.ContentTypeCBORSequence
	text         = "text/plain"
)

// Offer is which encodings a server has.
type Offer struct {
	media []string
	// whole, any and streams list them in refusals: those of a document, those of a path that can stream, and those of
	// streams.
	whole, any, streams string

	// PlainBodies and PlainWatchLists: what is large, or a watch that begins with a list, is not compressed, as with the
	// features APIResponseCompression and WatchListCompression off.
	PlainBodies, PlainWatchLists bool
}

// NewOffer returns JSON, YAML and protobuf, and CBOR where the feature CBORServingAndStorage is on (KEP-4222).
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

// CBOR tells whether CBOR is among the encodings.
func (o *Offer) CBOR() bool { return slices.Contains(o.media, CBOR) }

// As is what an object or a list is shown as.
type As int

const (
	// AsObject shows objects as they are.
	AsObject As = iota
	// AsTable shows the columns that kubectl prints ("Receiving resources as Tables").
	AsTable
	// AsPartial shows metadata alone (PartialObjectMetadata and its list).
	AsPartial
)

// Format is what a client is to be answered with.
type Format struct {
	Media  string
	Pretty bool
	As     As
	// AsList is set when a PartialObjectMetadataList was asked for by name.
	AsList bool
	// AsVersion is the version of meta.k8s.io for tables and partial objects: "v1" or "v1beta1".
	AsVersion string
	// Table are the options for AsTable.
	Table *metav1.TableOptions
	// Refusal is why those cannot be met, a Status. It is the answer when there would be a Table, and not before: as with
	// kube-apiserver, which looks at them last, what was asked for has happened by then.
	Refusal error
	// Unaccepted: it is none that the client accepts. An audit has no object then, as kube-apiserver's.
	Unaccepted bool
}

// Path is what the path of a request can answer with, besides objects.
type Path struct {
	// Watchable paths can stream.
	Watchable bool
	// Tabular paths have tables.
	Tabular bool
	// Direct paths have no router before them, which asks for media types first and has words of its own: those of types that
	// are defined by objects, as in kube-apiserver.
	Direct bool
	// NoProtobuf paths answer with objects of which there is no protobuf: those of types that are defined by objects, and, as by
	// kube-apiserver, their Scales, too.
	NoProtobuf bool
	// Text paths answer with a text, which is nevertheless not to be asked for: kube-apiserver names it among what there
	// is, and refuses it.
	Text bool
}

// NegotiateStatus chooses the format of an error: as Negotiate does, but what asks for another form of the object is passed
// over. A client that accepts nothing here is sent JSON for a person to read.
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

// Negotiate chooses the format of the answer by Accept, the first acceptable clause in the order of preference.
// Its error is a 406 Status.
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

// Named tells whether a request accepts a media type that there is. One that does not is refused before anything else is
// looked at.
func (o *Offer) Named(r *http.Request, path Path) bool {
	header := r.Header.Get("Accept")
	return header == "" || path.Direct || o.named(header, path)
}

// named tells whether Accept names a media type that there is, or any: kube-apiserver's router asks for that before the
// clauses are looked at, and a range like application/* is not enough for it.
//
// A path that can stream has the sequence of CBOR too, though nothing is served for it: who wants it asks for CBOR.
func (o *Offer) named(header string, path Path) bool {
	for clause := range strings.SplitSeq(header, ",") {
		media, _, _ := strings.Cut(clause, ";")
		if media = strings.TrimSpace(media); media == "*/*" || slices.Contains(o.media, media) ||
			path.Watchable && o.CBOR() && media == cborSequence || path.Text && media == text {
			return true
		}
	}
	return false
}

// covers tells whether a clause of Accept is for a media type.
func covers(clause goautoneg.Accept, media string) bool {
	typ, sub, _ := strings.Cut(media, "/")
	if clause.Type == "*" {
		return clause.SubType == "*"
	}
	return clause.Type == typ && (clause.SubType == sub || clause.SubType == "*")
}

// accept reads the parameters of a clause; ok is false when they cannot be served in this media type.
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
			if v != "" && (v != "watch" || media == YAML) { // there is no stream of YAML
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

// ContentType is the media type of the answer; stream adds what a watch adds to it.
func (f Format) ContentType(stream bool) string {
	switch {
	case !stream || f.Media == JSON:
		return f.Media
	case f.Media == CBOR:
		return cborSequence
	}
	return f.Media + ";stream=watch"
}

// Streamable tells whether a watch can have this format; its error is a 406 Status.
func (o *Offer) Streamable(f Format) error {
	if f.Media == YAML {
		return status.NotAcceptable(o.streams)
	}
	return nil
}

// BodyMedia returns the media type of a request body, JSON when it does not say. Its error is a 415 Status.
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

// WantsPretty follows the query parameter, or else guesses from the user agent that a person is reading.
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
