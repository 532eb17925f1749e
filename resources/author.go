package resources

import (
	"context"

	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources/requestctx"
)

// Author is who made a change, and by what. A Store keeps it with the change for as long as that is in history, whether there is an
// audit or not. It is found out by who commits, from the context (AuthorOf), so that no writer can leave it out.
type Author struct {
	// User is who sent the request, or the name of the part of the server that wrote of itself (Actor).
	User string `json:"user"`
	// As is whom User impersonated; empty: nobody.
	As string `json:"as,omitempty"`
	// Verb is that of the request: create, update, patch, delete, deletecollection; expire where the store ended the life of an object.
	Verb string `json:"verb"`
	// Subresource is that of the request: a Pod that was bound was changed by the creation of a binding.
	Subresource string `json:"subresource,omitempty"`
	// Agent is the User-Agent of the request; empty for the parts of the server.
	Agent string `json:"agent,omitempty"`
}

// Expiry is the author of deletions of objects whose lifetime has ended.
var Expiry = Author{User: user.APIServerUser, Verb: "expire"}

// requester is what a context knows of the sender of a request beside its user, which impersonation replaces.
type requester struct{ user, agent string }

type requesterKey struct{}

// WithRequester is the context of a request that somebody sent, with its User-Agent.
func WithRequester(ctx context.Context, who user.Info, agent string) context.Context {
	return requestctx.Set(ctx, requesterKey{}, requester{who.GetName(), agent})
}

type authorKey struct{}

// ofRow is the context of a write of a row of the server's own: by who has sent the request that asks for it (for a token, say), and by
// the server where there is none.
func ofRow(ctx context.Context, verb string) context.Context {
	a := Author{User: user.APIServerUser}
	if _, sent := ctx.Value(requesterKey{}).(requester); sent {
		a = AuthorOf(ctx)
	}
	a.Verb, a.Subresource = verb, ""
	return context.WithValue(ctx, authorKey{}, a)
}

// unsent is the context of what an actor does while it answers a request: that was sent by somebody else.
func unsent(ctx context.Context) context.Context {
	if ctx.Value(requesterKey{}) == nil {
		return ctx
	}
	return context.WithValue(ctx, requesterKey{}, nil)
}

// AuthorOf returns the author of what is written in a context. It has no User where the context has none.
func AuthorOf(ctx context.Context) Author {
	if a, ok := ctx.Value(authorKey{}).(Author); ok {
		return a
	}
	who, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return Author{}
	}
	a := Author{User: who.GetName()}
	if r, ok := ctx.Value(requesterKey{}).(requester); ok {
		a.Agent = r.agent
		if r.user != a.User {
			a.User, a.As = r.user, a.User
		}
	}
	if info, ok := genericapirequest.RequestInfoFrom(ctx); ok {
		a.Verb, a.Subresource = info.Verb, info.Subresource
	}
	return a
}
