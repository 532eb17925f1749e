package codec

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// YAML cannot be streamed, so a clause that requests a stream of it is ignored in any request. The expected responses are those of an unmodified
// kube-apiserver v1.37.1.
func TestStreamsOfYAML(t *testing.T) {
	const list = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"
	for _, c := range []struct{ accept, media, refusal string }{
		{"application/yaml;stream=watch", "", list},
		{"application/yaml;stream=watch;as=Table;g=meta.k8s.io;v=v1", "", list},
		{"application/yaml;stream=watch,application/json", JSON, ""},
		{"application/yaml;stream=", YAML, ""},
		{"application/vnd.kubernetes.protobuf;stream=watch", Protobuf, ""},
		{"*/*;stream=watch", JSON, ""},
	} {
		o, r := NewOffer(false), &http.Request{URL: &url.URL{}, Header: http.Header{"Accept": {c.accept}}}
		f, err := o.Negotiate(r, Path{Watchable: true, Tabular: true})
		if f.Media != c.media || (err == nil) != (c.refusal == "") || err != nil && !strings.Contains(err.Error(), c.refusal) {
			t.Errorf("%s: %q %v", c.accept, f.Media, err)
		}
		if status := o.NegotiateStatus(r); c.refusal != "" && (status.Media != JSON || !status.Unaccepted) {
			t.Errorf("%s: a Status as %q", c.accept, status.Media)
		}
	}
}
