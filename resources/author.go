package resources

import (
	"context"

	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources/requestctx"
)

// Author is the user and the client that made a change. A Store keeps it with the change for as long as the change is in history, with
// or without an audit. The store derives it from the context at commit (AuthorOf), so that no writer can leave it out.
type Author struct {
	// User is the user that sent the request, or the name of the part of the server that wrote on its own behalf (Actor).
	User string `json:"user"`
	// As is the user that User impersonated; empty: none.
	As string `json:"as,omitempty"`
	// Verb is the verb of the request: create, update, patch, delete, deletecollection; expire where the store ended the life of an
	// object.
	Verb string `json:"verb"`
	// Subresource is the subresource of the request: the creation of a binding, for example, changes a Pod.
	Subresource string `json:"subresource,omitempty"`
	// Agent is the User-Agent of the request; empty for the parts of the server.
	Agent string `json:"agent,omitempty"`
}

// Expiry is the author of deletions of objects whose lifetime has ended.
var Expiry = Author{User: user.APIServerUser, Verb: "expire"}

// requester is the sender of a request: its User-Agent, and its user, which impersonation replaces in the context.
type requester struct{ user, agent string }

type requesterKey struct{}

// WithRequester is the context of a request from a client, with its user and its User-Agent.
func WithRequester(ctx context.Context, who user.Info, agent string) context.Context {
	return requestctx.Set(ctx, requesterKey{}, requester{who.GetName(), agent})
}

type authorKey struct{}

// ofRow is the context of a write to one of Rowlock's own rows. The author is the sender of the request that causes the write (for a
// token, say), or the server where there is no request.
func ofRow(ctx context.Context, verb string) context.Context {
	a := Author{User: user.APIServerUser}
	if _, sent := ctx.Value(requesterKey{}).(requester); sent {
		a = AuthorOf(ctx)
	}
	a.Verb, a.Subresource = verb, ""
	return context.WithValue(ctx, authorKey{}, a)
}

// unsent is the context of an actor's writes while it answers a request: the sender of that request is not their author.
func unsent(ctx context.Context) context.Context {
	if ctx.Value(requesterKey{}) == nil {
		return ctx
	}
	return context.WithValue(ctx, requesterKey{}, nil)
}

// AuthorOf returns the author of the writes in a context. It has no User where the context has none.
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
