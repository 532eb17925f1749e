package aggregate

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/transport"
)

// askTimeout and attempts are upstream's: of this many concurrent requests one has to be answered in time.
const (
	askTimeout = 5 * time.Second
	attempts   = 5
)

// probing is the user of probes, as in upstream: in a group that is allowed everything.
var probing user.Info = &user.DefaultInfo{Name: "system:kube-aggregator", Groups: []string{user.SystemPrivilegedGroup}}

// Probe requests the discovery of the version from the server of an APIService. It implements controllers.Prober. A nil error means that
// the server answers, or that the APIService has no server any more. Without asked, no request could be made. The first success decides,
// and the other requests are left to end by themselves, as in upstream: a server logs an error for each canceled request.
func (a *Aggregator) Probe(ctx context.Context, gv schema.GroupVersion) (asked bool, err error) {
	b, err := a.Find(ctx, gv)
	if b == nil || err != nil {
		return false, err
	}
	if b.transportErr != nil {
		return false, b.transportErr
	}
	results := make(chan error, attempts)
	for range attempts {
		go func() { results <- b.probe(ctx, discoveryPath(gv)) }()
	}
	for range attempts {
		if err = <-results; err == nil {
			return true, nil
		}
	}
	return true, err
}

func (b *Backend) probe(ctx context.Context, path string) error {
	at, err := b.resolve(ctx)
	if err != nil {
		return err
	}
	at.Path = path
	answer, err := b.ask(ctx, at, probing, b.owner.forDiscovery().time)
	if err == nil {
		answer.Body.Close()
		if answer.StatusCode < http.StatusOK || answer.StatusCode >= http.StatusMultipleChoices {
			err = fmt.Errorf("bad status from %v: %d", at, answer.StatusCode)
		}
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil:
		b.transport.CloseIdleConnections() // they may lead to an address without a server
	}
	return fmt.Errorf("failing or missing response from %v: %w", at, err)
}

// ask sends a GET for this server itself. The caller closes the body of the answer.
func (b *Backend) ask(ctx context.Context, at *url.URL, who user.Info, within time.Duration, headers ...string) (*http.Response, error) {
	return b.request(ctx, http.MethodGet, at, who, nil, within, headers...)
}

// request sends a request for this server itself. The caller closes the body of the answer.
func (b *Backend) request(ctx context.Context, method string, at *url.URL, who user.Info, body []byte, timeout time.Duration, headers ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	transport.SetAuthProxyHeaders(r, who.GetName(), "", who.GetGroups(), nil)
	client := http.Client{Transport: b.transport, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return client.Do(r)
}

// discoveryPath returns the path of a version's discovery.
func discoveryPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.Group + "/" + gv.Version
}
