package authn

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/csv"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// FuzzAuthenticationFile reads any AuthenticationConfiguration: each issuer of an accepted one has a URL with TLS, and an audience.
func FuzzAuthenticationFile(f *testing.F) {
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
	for _, seed := range []string{"", head, head + "anonymous: {enabled: true, conditions: [{path: /livez}]}\n",
		head + "jwt:\n- issuer: {url: 'https://a', audiences: [b]}\n  claimMappings: {username: {claim: sub, prefix: ''}}\n",
		head + "jwt:\n- issuer: {url: 'https://a', audiences: [b], discoveryURL: 'https://c/.well-known'}\n  claimMappings: {username: {expression: 'claims.sub'}, groups: {expression: 'claims.roles'}}\n" +
			"  claimValidationRules: [{expression: 'claims.x == 1', message: m}]\n  userValidationRules: [{expression: '!user.username.startsWith(\"system:\")'}]\n",
		head + "jwt: [null]\n", "apiVersion: v1\nkind: Config\n"} {
		f.Add([]byte(seed))
	}
	o := RemoteOptions{Issuers: []string{"https://own"}}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := o.parse(text)
		if err != nil {
			return
		}
		for _, j := range c.JWT {
			if u, err := url.Parse(j.Issuer.URL); err != nil || u.Scheme != "https" || j.Issuer.URL == "https://own" || len(j.Issuer.Audiences) == 0 {
				t.Errorf("it accepts %+v", j.Issuer)
			}
		}
	})
}

// FuzzTokenFile reads any file of tokens: a token of an accepted one is its last record's user, and the empty token is nobody's.
func FuzzTokenFile(f *testing.F) {
	for _, seed := range []string{"", "t,ann,1", "t,ann,1,\"a,b\"\nu,bob,2\n", "t,ann", ",ann,1\n", "t,ann,1\nt,bob,2\n", "t,ann,1,\"\"\"\n", "\x00,\xff,\"\n\",\n"} {
		f.Add([]byte(seed))
	}
	path := filepath.Join(f.TempDir(), "tokens.csv")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		tokens, err := newFileTokens(path, time.Now, slog.New(slog.DiscardHandler))
		if err != nil {
			return
		}
		reader := csv.NewReader(bytes.NewReader(text))
		reader.FieldsPerRecord = -1
		records, err := reader.ReadAll()
		if err != nil {
			t.Fatalf("it is accepted: %v", err)
		}
		users := map[string]string{}
		for _, record := range records {
			users[record[0]] = record[1]
		}
		for token, name := range users {
			answer, ok, err := tokens.current.Load().AuthenticateToken(t.Context(), token)
			if err != nil || ok != (token != "") || ok && answer.User.GetName() != name {
				t.Errorf("%q is %v, %v", token, answer, err)
			}
		}
	})
}

// FuzzFrontProxyHeaders reads any headers of a proxy: the user is the first one that is named, with all groups, and the headers are
// removed.
func FuzzFrontProxyHeaders(f *testing.F) {
	f.Add("X-Remote-User", "jane", "X-Remote-Group", "team")
	f.Add("x-remote-user", "", "X-Remote-Uid", "1")
	f.Add("X-Remote-Extra-Acme.com%2fscope", "view", "X-Remote-User", " ")
	f.Add("X-Remote-Extra-%zz", "", "X-Remote-Extra-", "x")
	f.Add("X-Remote-User", "a", "X-Remote-User", "b")
	pool := x509.NewCertPool()
	proxies := newFrontProxies(&FrontProxies{CAs: func() *x509.CertPool { return pool }, Users: []string{"X-Remote-User"}, UIDs: []string{"X-Remote-Uid"},
		Groups: []string{"X-Remote-Group"}, Extras: []string{"X-Remote-Extra-"}}, func() time.Time { return time.Unix(0, 0) })
	connection := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
	proxies.known.put(connection, &proxy{authorities: pool, expires: time.Unix(1, 0)})
	f.Fuzz(func(t *testing.T, name, value, other, more string) {
		h := http.Header{}
		h.Add(name, value)
		h.Add(other, more)
		user, uid := h.Get("X-Remote-User"), h.Get("X-Remote-Uid")
		groups := slices.DeleteFunc(slices.Clone(h.Values("X-Remote-Group")), func(g string) bool { return g == "" })
		answer, ok, err := proxies.AuthenticateRequest(&http.Request{TLS: connection, Header: h})
		if err != nil || ok != (user != "") {
			t.Fatalf("%q: %v %v", h, ok, err)
		}
		if !ok {
			return
		}
		if u := answer.User; u.GetName() != user || u.GetUID() != uid || !slices.Equal(u.GetGroups(), groups) {
			t.Errorf("%v, and not %q of %q", u, user, groups)
		}
		for left := range h {
			if strings.HasPrefix(strings.ToLower(left), "x-remote-extra-") || left == "X-Remote-User" || left == "X-Remote-Group" || left == "X-Remote-Uid" {
				t.Errorf("%q is left", left)
			}
		}
	})
}
