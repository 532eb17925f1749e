//go:build go1.27 && !http2legacy

package cork

// largeBuffers does nothing where golang.org/x/net/http2 is a name for what is inside net/http. The build tag http2legacy
// brings its own server back.
func largeBuffers() {}
