package authn

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
)

// A token that is left to other authenticators is decoded once for each list of audiences, and again when the issuers have changed.
func TestForeignTokens(t *testing.T) {
	asked := 0
	tokens := authenticator.TokenFunc(func(context.Context, string) (*authenticator.Response, bool, error) {
		asked++
		return nil, false, nil
	})
	others := &issuers{}
	trust := func() {
		others.present.Store(&trusted{issuers: []*trustedIssuer{nil}, tokens: tokens, seed: newKeySeed()})
	}
	trust()
	for name, by := range map[string]authenticator.Token{"ServiceAccounts": newCachedTokens(tokens, steadyKeys{}, nil, time.Now, newCounts()), "issuers": others} {
		asked = 0
		ask := func(token string, audiences ...string) {
			t.Helper()
			if _, ok, err := by.AuthenticateToken(authenticator.WithAudiences(t.Context(), audiences), token); ok || err != nil {
				t.Fatalf("%s: %v %v", name, ok, err)
			}
		}
		for range 3 {
			ask("token", "a")
			ask("token", "b")
			ask("token")
		}
		if asked != 3 {
			t.Errorf("%s: decoded %d times", name, asked)
		}
	}
	asked = 0
	trust()
	if _, _, err := others.AuthenticateToken(t.Context(), "token"); err != nil || asked != 1 {
		t.Errorf("other issuers were asked %d times, %v", asked, err)
	}
	f, seed := foreignTokens{}, newKeySeed()
	for i := range 2*foreignMost + 1 {
		f.add(seed.key(t.Context(), fmt.Sprint(i)))
		if len(f.known) > foreignMost {
			t.Fatalf("%d are remembered", len(f.known))
		}
	}
}
