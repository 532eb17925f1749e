package authn_test

import (
	"encoding/base64"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources/builtin"
)

// FuzzAuthorization sends credentials of every form: only a known token authenticates, and then it is removed from the request.
func FuzzAuthorization(f *testing.F) {
	const protocol = "base64url.bearer.authorization.k8s.io."
	encoded := base64.RawURLEncoding.EncodeToString([]byte(admin))
	for _, seed := range [][2]string{{"Bearer " + admin, ""}, {"bearer  " + admin, "v4.channel.k8s.io"}, {"Basic " + admin, ""}, {"Bearer", ","}, {"Bearer a b", protocol},
		{"Bearer eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlLmNvbSJ9.c2lnbmF0dXJl", ""}, {"Bearer ..", ""}, {"Bearer abcdef.0123456789abcdef", ""},
		{"", protocol + encoded + ", v4.channel.k8s.io"}, {"", protocol + "%,v4.channel.k8s.io"}, {"", "v4.channel.k8s.io, " + protocol + encoded + ", " + protocol + encoded}} {
		f.Add(seed[0], seed[1])
	}
	w := newWorld(f, builtin.Tokens{})
	f.Fuzz(func(t *testing.T, authorization, protocols string) {
		r := httptest.NewRequest("GET", "https://server/api", nil)
		r.Header.Set("Authorization", authorization)
		r.Header.Set("Sec-Websocket-Protocol", protocols)
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "websocket")
		who, ok, err := w.authenticator.User(r)
		if ok != (who != nil) || ok && err != nil {
			t.Fatalf("%q, %q: %v, %v, %v", authorization, protocols, who, ok, err)
		}
		if !ok {
			return
		}
		if who.GetName() != "admin" || !strings.Contains(authorization, admin) && !strings.Contains(protocols, encoded) {
			t.Errorf("%q, %q is %v", authorization, protocols, who)
		}
		if left := r.Header.Get("Authorization"); left != "" && !strings.Contains(protocols, encoded) {
			t.Errorf("%q: left is %q", authorization, left)
		}
	})
}
