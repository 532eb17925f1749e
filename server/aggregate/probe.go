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

// askTimeout and attempts are upstream's: of so many requests at once one has to be answered in time.
const (
	askTimeout = 5 * time.Second
	attempts   = 5
)

// probing is who asks, as upstream: they are to be refused nothing.
var probing user.Info = &user.DefaultInfo{Name: "system:kube-aggregator", Groups: []string{user.SystemPrivilegedGroup}}

// Probe asks the server of an APIService for what it serves in the version. It implements controllers.Prober. A nil error
// means that it answers, or that it is none any more. The first answer decides, and the other requests are left to end by themselves, as
// upstream's are: a server writes errors to its log for each that is broken off.
func (a *Aggregator) Probe(ctx context.Context, gv schema.GroupVersion) error {
	b, err := a.Find(ctx, gv)
	if b == nil || err != nil {
		return err
	}
	if b.transportErr != nil {
		return b.transportErr
	}
	results := make(chan error, attempts)
	for range attempts {
		go func() { results <- b.probe(ctx, discoveryPath(gv)) }()
	}
	for range attempts {
		if err = <-results; err == nil {
			return nil
		}
	}
	return err
}

func (b *Backend) probe(ctx context.Context, path string) error {
	at, err := b.resolve(ctx)
	if err != nil {
		return err
	}
	at.Path = path
	answer, err := b.ask(ctx, at, probing)
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
		b.transport.CloseIdleConnections() // they may lead to where nobody is any more
	}
	return fmt.Errorf("failing or missing response from %v: %w", at, err)
}

// ask sends a GET of the server's own. The caller closes the body of the answer.
func (b *Backend) ask(ctx context.Context, at *url.URL, who user.Info, headers ...string) (*http.Response, error) {
	return b.request(ctx, http.MethodGet, at, who, nil, askTimeout, headers...)
}

// request sends a request of the server's own. The caller closes the body of the answer.
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

// discoveryPath is where a server says what it serves in a version.
func discoveryPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.Group + "/" + gv.Version
}
