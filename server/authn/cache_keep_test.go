package authn

import (
	"context"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// steadyKeys are keys that are never exchanged.
type steadyKeys struct{ Keys }

func (steadyKeys) State() any { return nil }

// TestEndedResultsAreRemoved reviews a token for ever new audiences, whose results cannot be used again.
func TestEndedResultsAreRemoved(t *testing.T) {
	tokens := authenticator.TokenFunc(func(context.Context, string) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: "a"}}, true, nil
	})
	now := time.Now()
	c := newCachedTokens(tokens, steadyKeys{}, nil, func() time.Time { return now }, newCounts())
	for range 10 {
		for _, audience := range []string{"a", "b", "c"} {
			ctx := authenticator.WithAudiences(t.Context(), authenticator.Audiences{audience, now.String()})
			if _, ok, err := c.AuthenticateToken(ctx, "token"); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		now = now.Add(resultAge)
	}
	if len(c.known) != 3 {
		t.Errorf("%d results are kept, of which 3 may be used again", len(c.known))
	}
}
