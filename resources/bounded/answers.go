// Package bounded bounds the size of the answers that the server reads from others: webhooks, and issuers of tokens. Upstream's clients read an
// answer whole, however long it is.
package bounded

import (
	"errors"
	"io"
	"net/http"

	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
)

// MostBytes is the greatest length of an answer, after decompression. The longest useful ones are those of webhooks that convert or patch an
// object of the 3 MiB that a request may have, in Base64, and may keep a copy of it in an annotation.
const MostBytes = 32 << 20

// ErrTooLong is the error of reading an answer that is longer than MostBytes.
var ErrTooLong = errors.New("the answer is longer than 32 MiB")

// Answers sends requests by next, and bounds the length of their answers. It is a transport.WrapperFunc, and not for streams.
func Answers(next http.RoundTripper) http.RoundTripper { return transport{next} }

// Config returns a copy of a client's configuration that bounds answers, or err.
func Config(c *rest.Config, err error) (*rest.Config, error) {
	if err != nil {
		return nil, err
	}
	c = rest.CopyConfig(c)
	c.Wrap(Answers)
	return c, nil
}

// Webhook bounds the answers of a webhook whose client already exists.
func Webhook(w *webhookutil.GenericWebhook) {
	by := *w.RestClient.Client
	if by.Transport == nil {
		by.Transport = http.DefaultTransport
	}
	by.Transport = Answers(by.Transport)
	w.RestClient.Client = &by
}

type transport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	if err == nil && response.Body != nil {
		response.Body = &body{response.Body, MostBytes}
	}
	return response, err
}

// WrappedRoundTripper implements k8s.io/apimachinery/pkg/util/net.RoundTripperWrapper.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// body is the body of an answer, of which left more bytes may be read.
type body struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, ErrTooLong
	}
	if len(p) > b.left+1 { // one more shows whether the answer ends there
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return n - 1, ErrTooLong
	}
	return n, err
}
