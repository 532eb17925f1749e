package discovery

import (
	"net/http"
	"slices"

	"github.com/munnerz/goautoneg"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/server/codec"
	"github.com/rowlock/rowlock/server/status"
)

// rules are the differences between paths in what they accept. kube-apiserver is a stack of three servers, whose errors differ.
type rules int

const (
	// onlyGet rejects all other methods, and a Content-Type that is not offered; paths without it ignore both.
	onlyGet rules = 1 << iota
	// strictTypes distinguishes a media type that is not offered from one with unsupported parameters.
	strictTypes
	// allowAggregated accepts the parameters for aggregated discovery.
	allowAggregated
	// withoutCBOR excludes CBOR, also for errors: the server of custom resources supports it only for objects.
	withoutCBOR
)

// offer are the encodings of a path, and the same for its errors.
type offer struct {
	encodings []runtime.SerializerInfo
	errors    *codec.Offer
}

func newOffer(of *codec.Offer) *offer {
	return &offer{slices.DeleteFunc(slices.Clone(codecs.SupportedMediaTypes()), func(i runtime.SerializerInfo) bool {
		return i.MediaType == codec.CBOR && !of.CBOR()
	}), of}
}

// offerOf returns the offer for a path with these rules.
func (h *Handler) offerOf(rules rules) *offer {
	if rules&withoutCBOR != 0 {
		return h.plain
	}
	return h.offer
}

// negotiated is the result of negotiation.
type negotiated struct {
	info       runtime.SerializerInfo
	pretty     bool
	aggregated bool
}

func (h *Handler) negotiate(r *http.Request, rules rules) (negotiated, error) {
	if rules&onlyGet != 0 && r.Method != http.MethodGet {
		return negotiated{}, status.MethodNotAllowed()
	}
	offered := h.offerOf(rules)
	if rules&onlyGet != 0 && !offered.errors.Consumes(r) {
		return negotiated{}, status.NotConsumed()
	}
	n := negotiated{pretty: codec.WantsPretty(r)}
	header := r.Header.Get("Accept")
	if header == "" {
		n.info = offered.encodings[0]
		return n, nil
	}
	if rules&strictTypes != 0 && !offered.errors.Named(r, codec.Path{}) {
		return negotiated{}, status.NoRepresentation(offered.errors.String())
	}
	clauses := goautoneg.ParseAccept(header)
	// As in kube-apiserver, any acceptable clause for aggregated discovery precedes the others, whatever their order and weights.
	if rules&allowAggregated != 0 && n.choose(clauses, offered.encodings, true) || n.choose(clauses, offered.encodings, false) {
		return n, nil
	}
	return negotiated{}, status.NotAcceptable(offered.errors.String())
}

// choose takes the first clause that asks for the aggregated format, or else for the older one, in an encoding that supports the parameters of the
// clause.
func (n *negotiated) choose(clauses []goautoneg.Accept, encodings []runtime.SerializerInfo, aggregated bool) bool {
	for _, clause := range clauses {
		for _, info := range encodings {
			all := clause.Type == "*" && clause.SubType == "*"
			if !all && (clause.Type != info.MediaTypeType || clause.SubType != "*" && clause.SubType != info.MediaTypeSubType) ||
				!n.accept(clause.Params, info, aggregated) {
				continue
			}
			n.info, n.aggregated = info, aggregated
			return true
		}
	}
	return false
}

// accept tells whether a clause with these parameters asks for the format in an encoding that supports them, and applies them if so.
func (n *negotiated) accept(params map[string]string, info runtime.SerializerInfo, aggregated bool) bool {
	var convert *schema.GroupVersionKind
	pretty := false
	for k, v := range params {
		switch k {
		case "as", "g", "v":
			if convert == nil {
				convert = &schema.GroupVersionKind{}
			}
			switch k {
			case "as":
				convert.Kind = v
			case "g":
				convert.Group = v
			case "v":
				convert.Version = v
			}
		case "sv":
			if v != "" {
				return false
			}
		case "stream":
			if v != "" && (v != "watch" || info.StreamSerializer == nil) {
				return false
			}
		case "pretty":
			pretty = v == "1"
		}
	}
	if aggregated != (convert != nil) || aggregated && *convert != aggregatedKind {
		return false
	}
	n.pretty = n.pretty || pretty
	return true
}
