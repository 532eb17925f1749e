package codec

import (
	"net/http"
	"net/url"
	"slices"
	"testing"
)

// FuzzNegotiate evaluates Accept and Content-Type headers: the result is always among the offered types.
func FuzzNegotiate(f *testing.F) {
	for _, seed := range []string{"", "*/*", "application/json", "application/json;as=Table;g=meta.k8s.io;v=v1,application/yaml;q=0.5", "application/*;q=x",
		"application/vnd.kubernetes.protobuf;stream=watch", "text/html,,;", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io;as=x", "a/b/c; q=\"", "application/cbor-seq"} {
		f.Add(seed, seed, true)
		f.Add(seed, "application/json; charset=utf-8", false)
	}
	f.Fuzz(func(t *testing.T, accept, sent string, cbor bool) {
		o := NewOffer(cbor)
		r := &http.Request{URL: &url.URL{}, Header: http.Header{"Accept": {accept}, "Content-Type": {sent}}}
		for _, path := range []Path{{}, {Watchable: true, Tabular: true}, {Direct: true, NoProtobuf: true, Tabular: true}, {Text: true}} {
			format, err := o.Negotiate(r, path)
			if err == nil && !slices.Contains(o.media, format.Media) {
				t.Errorf("%q: %q is agreed upon", accept, format.Media)
			}
			if status := o.NegotiateStatus(r); !slices.Contains(o.media, status.Media) {
				t.Errorf("%q: a Status as %q", accept, status.Media)
			}
			o.Named(r, path)
		}
		if media, err := o.BodyMedia(r); err == nil && !slices.Contains(o.media, media) {
			t.Errorf("%q: a body as %q", sent, media)
		}
	})
}
