package discovery

import (
	"net/http"
	"slices"
	"strings"

	"github.com/munnerz/goautoneg"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/server/codec"
	"github.com/rowlock/rowlock/server/status"
)

// rules are the differences between paths in what they accept. kube-apiserver is a stack of three servers, whose errors differ.
type rules int

const (
	// onlyGet rejects all other methods; paths without it treat all methods alike.
	onlyGet rules = 1 << iota
	// strictTypes distinguishes a media type that is not offered from one with unsupported parameters.
	strictTypes
	// allowAggregated accepts the parameters for aggregated discovery.
	allowAggregated
	// withoutCBOR excludes CBOR, also for errors: the server of custom resources supports it only for objects.
	withoutCBOR
)

// offer are the encodings of a path, and those of its errors.
type offer struct {
	encodings []runtime.SerializerInfo
	errors    *codec.Offer
}

func newOffer(cbor bool) *offer {
	return &offer{slices.DeleteFunc(slices.Clone(codecs.SupportedMediaTypes()), func(i runtime.SerializerInfo) bool {
		return i.MediaType == codec.CBOR && !cbor
	}), codec.NewOffer(cbor)}
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
	offered := h.offerOf(rules).encodings
	n := negotiated{pretty: codec.WantsPretty(r)}
	header := r.Header.Get("Accept")
	if header == "" {
		n.info = offered[0]
		return n, nil
	}
	typeOffered, literally := false, strings.Contains(header, "*/*") // for the router before strict paths "*" does not mean "*/*"
	for _, clause := range goautoneg.ParseAccept(header) {
		for _, info := range offered {
			all := clause.Type == "*" && clause.SubType == "*"
			exact := clause.Type == info.MediaTypeType && clause.SubType == info.MediaTypeSubType
			if !all && !exact && (clause.Type != info.MediaTypeType || clause.SubType != "*") {
				continue
			}
			typeOffered = typeOffered || all && literally || exact
			if rules&strictTypes != 0 && !typeOffered || !n.accept(clause.Params, info, rules) {
				continue
			}
			n.info = info
			return n, nil
		}
	}
	if rules&strictTypes != 0 && !typeOffered {
		return negotiated{}, status.NoRepresentation(typesOf(offered))
	}
	return negotiated{}, status.NotAcceptable(typesOf(offered))
}

// accept tells whether an encoding supports the parameters of a clause, and applies them if so.
func (n *negotiated) accept(params map[string]string, info runtime.SerializerInfo, rules rules) bool {
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
	if convert != nil && (rules&allowAggregated == 0 || *convert != aggregatedKind) {
		return false
	}
	n.aggregated = convert != nil
	n.pretty = n.pretty || pretty
	return true
}

func typesOf(offered []runtime.SerializerInfo) string {
	var names []string
	for _, info := range offered {
		names = append(names, info.MediaType)
	}
	return strings.Join(names, ", ")
}
