package codec

import (
	"net/http"
	"strconv"
	"strings"
)

// kube-apiserver reads Accept-Encoding by two rules, one for its API and one for OpenAPI, so a client may have an answer of one kind
// compressed and not one of the other.

// NamesGzip tells whether a client has what the API answers compressed: where it names gzip without a weight. A weight is not read, so
// "gzip;q=1" does not name it, and neither does "*".
func NamesGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		if strings.TrimSpace(coding) == "gzip" {
			return true
		}
	}
	return false
}

// AllowsGzip tells whether a client has OpenAPI documents compressed: where it takes gzip by RFC 9110, section 12.5.3, with any weight but
// zero.
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
