package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/resources/upstream"
	"github.com/rowlock/rowlock/server/codec"
	"github.com/rowlock/rowlock/server/status"
)

// OpenID provides the documents for verifiers of ServiceAccount tokens ("OpenID Connect Discovery 1.0", section 4): the issuer's configuration and
// its keys, each with the seconds for which it may be cached.
type OpenID interface {
	GetConfigJSON() (json []byte, maxAge int)
	GetKeysetJSON() (json []byte, maxAge int)
}

// openIDPaths are the paths of the two documents.
var openIDPaths = []string{"/.well-known/openid-configuration", "/openid/v1/jwks"}

// addOpenID serves both documents. As in kube-apiserver, trailing slashes make no difference. No paths exist below them.
func (s *Server) addOpenID(e *echo.Echo) {
	for path, document := range map[string]echo.HandlerFunc{
		openIDPaths[0]: fixed(codec.JSON, kept(s.OpenID.GetConfigJSON)),
		openIDPaths[1]: fixed("application/jwk-set+json", kept(s.OpenID.GetKeysetJSON)),
	} {
		e.Any(path, document)
		e.Any(path+"/*", func(c echo.Context) error {
			if strings.Trim(c.Param("*"), "/") != "" {
				return status.NotFound()
			}
			return document(c)
		})
	}
}

// fixed serves a document in one media type. It rejects methods other than GET, HEAD among them, a Content-Type that is not among those consumed, if
// any are given, and an Accept header that excludes the type. Not inlined, because each call would take a copy of its function in the binary.
//
//go:noinline
func fixed(mediaType string, document func(http.Header) ([]byte, error), consumed ...string) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if r.Method != http.MethodGet {
			return status.MethodNotAllowed()
		}
		if header := r.Header.Get("Content-Type"); header != "" && len(consumed) > 0 && !codec.Lists(header, consumed...) {
			return status.NotConsumed()
		}
		if header := r.Header.Get("Accept"); header != "" && !codec.Lists(header, mediaType, "*/*") {
			return status.NoRepresentation(mediaType)
		}
		data, err := document(c.Response().Header())
		if err != nil {
			return err
		}
		return c.Blob(http.StatusOK, mediaType, data)
	}
}

func versionDocument(http.Header) ([]byte, error) {
	return json.MarshalIndent(upstream.Version(), "", "  ")
}

// kept serves a document that caches may store.
func kept(get func() ([]byte, int)) func(http.Header) ([]byte, error) {
	return func(h http.Header) ([]byte, error) {
		data, maxAge := get()
		h.Set("Cache-Control", fmt.Sprintf("public, max-age=%d", maxAge))
		return data, nil
	}
}
