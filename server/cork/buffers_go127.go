//go:build go1.27 && !http2legacy

package cork

// largeBuffers does nothing if golang.org/x/net/http2 only wraps the server in net/http. The build tag http2legacy brings its own server back.
func largeBuffers() {}
