package codec

import (
	"net/http"
	"strconv"
	"strings"
)

// kube-apiserver evaluates Accept-Encoding by two rules, one for the API and one for OpenAPI, so that a client may get one compressed and not the
// other.

// NamesGzip tells whether API responses to a client may be compressed: its header must name gzip without a weight. As in kube-apiserver, neither
// "gzip;q=1" nor "*" suffices.
func NamesGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		if strings.TrimSpace(coding) == "gzip" {
			return true
		}
	}
	return false
}

// AllowsGzip tells whether OpenAPI responses to a client may be compressed: its header must accept gzip by RFC 9110, section 12.5.3, with any
// weight but zero.
func AllowsGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, params, _ := strings.Cut(coding, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		q, weighted := strings.CutPrefix(strings.TrimSpace(params), "q=")
		weight, err := strconv.ParseFloat(q, 64)
		return !weighted || err == nil && weight > 0
	}
	return false
}
