package authn

import (
	"strings"
	"testing"
	"time"
)

// FuzzTokens reads tokens of every form: only a token with exactly the form of an issued one is taken for one, and only a JWT has an expiry.
func FuzzTokens(f *testing.F) {
	f.Add("rowlock_wspcc5wshoqp_nvrpctzjq35rx4gtkb3gyhohuf4fmywhtdl7jdp5kg42vlfhg6if")
	f.Add("rowlock__")
	f.Add("rowlock_wspcc5wshoqp")
	f.Add("abcdef.0123456789abcdef")
	f.Add("eyJhbGciOiJFUzI1NiJ9.eyJleHAiOjE3MDAwMDAwMDB9.c2lnbmF0dXJl")
	f.Add("eyJhbGciOiJFUzI1NiJ9.eyJleHAiOi0xZTk5fQ.c2lnbmF0dXJl")
	f.Add("..")
	f.Fuzz(func(t *testing.T, token string) {
		if id, ok := issuedID(token); ok {
			secret := strings.TrimPrefix(token, tokenPrefix+id+"_")
			if len(id) != 12 || len(secret) != 52 || token != tokenPrefix+id+"_"+secret || strings.ContainsAny(id+secret, "_/.\x00 ABC") {
				t.Errorf("%q is taken for a token with the ID %q", token, id)
			}
		}
		if end := endOf(token); end != (time.Time{}) && strings.Count(token, ".") != 2 && !strings.Contains(token, "{") {
			t.Errorf("%q ends %s", token, end)
		}
	})
}
