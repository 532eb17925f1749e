package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/resources/upstream"
	"github.com/rowlock/rowlock/server/status"
)

// OpenID is what those who verify the tokens of ServiceAccounts need to know ("OpenID Connect Discovery 1.0", section 4):
// the configuration of the issuer, its keys, and for how many seconds either may be kept.
type OpenID interface {
	GetConfigJSON() (json []byte, maxAge int)
	GetKeysetJSON() (json []byte, maxAge int)
}

// openIDPaths are where the two are served.
var openIDPaths = []string{"/.well-known/openid-configuration", "/openid/v1/jwks"}

// addOpenID serves the two, with and without slashes at the end, which kube-apiserver does not look at here; below them is nothing.
func (s *Server) addOpenID(e *echo.Echo) {
	for path, document := range map[string]echo.HandlerFunc{
		openIDPaths[0]: fixed("application/json", kept(s.OpenID.GetConfigJSON)),
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

// fixed answers a path that has one document in one media type. Other methods than GET are refused, HEAD among them, and
// so is an Accept that does not name the type.
func fixed(mediaType string, document func(http.Header) ([]byte, error)) echo.HandlerFunc {
	return func(c echo.Context) error {
		if c.Request().Method != http.MethodGet {
			return status.MethodNotAllowed()
		}
		if !accepts(c.Request(), mediaType) {
			return status.NoRepresentation(mediaType)
		}
		data, err := document(c.Response().Header())
		if err != nil {
			return err
		}
		return c.Blob(http.StatusOK, mediaType, data)
	}
}

// accepts tells whether Accept names a media type, or any; a range like application/* is not enough.
func accepts(r *http.Request, mediaType string) bool {
	header := r.Header.Get("Accept")
	if header == "" {
		return true
	}
	for clause := range strings.SplitSeq(header, ",") {
		media, _, _ := strings.Cut(clause, ";")
		if media = strings.TrimSpace(media); media == "*/*" || media == mediaType {
			return true
		}
	}
	return false
}

func versionDocument(http.Header) ([]byte, error) {
	return json.MarshalIndent(upstream.Version(), "", "  ")
}

// kept is a document that caches may keep.
func kept(get func() ([]byte, int)) func(http.Header) ([]byte, error) {
	return func(h http.Header) ([]byte, error) {
		data, maxAge := get()
		h.Set("Cache-Control", fmt.Sprintf("public, max-age=%d", maxAge))
		return data, nil
	}
}
