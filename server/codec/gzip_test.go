package codec

import (
	"net/http"
	"testing"
)

// The API and OpenAPI evaluate Accept-Encoding differently.
func TestGzip(t *testing.T) {
	for header, want := range map[string]struct{ names, allows bool }{
		"":                           {false, false},
		"gzip":                       {true, true},
		"deflate, gzip":              {true, true},
		" gzip ,br":                  {true, true},
		"gzipped":                    {false, false},
		"*":                          {false, false},
		"GZIP":                       {false, true},
		"gzip;q=1.0":                 {false, true},
		"gzip; q=0.001":              {false, true},
		"gzip;q=0":                   {false, false},
		"gzip;q=much":                {false, false},
		"identity;q=0.5, gzip;q=0.1": {false, true},
	} {
		r := &http.Request{Header: http.Header{"Accept-Encoding": {header}}}
		if names, allows := NamesGzip(r), AllowsGzip(r); names != want.names || allows != want.allows {
			t.Errorf("%q: named %t, allowed %t, want %+v", header, names, allows, want)
		}
	}
}
