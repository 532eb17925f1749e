package authn

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"gopkg.in/go-jose/go-jose.v2/jwt"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/warning"

	"github.com/rowlock/rowlock/resources"
)

// cachedTokens caches the results of verifying tokens of ServiceAccounts, since verifying a signature costs as much as
// a whole request.
//
// A result is valid while the keys are those that verified it, and every object that it was derived from has the
// revision at which it was read: a token whose key is removed, or whose Pod, Secret, Node or ServiceAccount is deleted,
// is refused at the next request. It is never valid for longer than resultAge, nor beyond the end of the token.
// Failures are not cached.
type cachedTokens struct {
	tokens authenticator.Token
	keys   Keys
	store  resources.Reader
	now    func() time.Time
	counts *counts
	seed   keySeed
	// foreign are tokens of other issuers.
	foreign foreignTokens

	mu    sync.RWMutex
	known map[cacheKey]*tokenResult
	swept time.Time // when results that had ended were last removed
}

const (
	// resultAge bounds how long a result is valid.
	resultAge = 9 * time.Second
	// lateness is how long a token is accepted after its end, for clocks that differ. Upstream's leeway is a minute.
	lateness = 5 * time.Second
	// verifyTimeout bounds reading the objects behind a token, and marking its Secret as used.
	verifyTimeout = 30 * time.Second
	// knownMost bounds how many results are cached; beyond it, the cache is cleared.
	knownMost = 32 << 10
)

// tokenResult is the result of verifying a token.
type tokenResult struct {
	response    *authenticator.Response
	until       time.Time
	keys        any // their state when the token was verified
	objects     []seenObject
	annotations map[string]string
	warnings    []toldWarning
}

// seenObject is the revision of an object that was read while a token was verified.
type seenObject struct {
	key      resources.Key
	revision int64
}

type toldWarning struct{ agent, text string }

func newCachedTokens(tokens authenticator.Token, keys Keys, store resources.Reader, now func() time.Time, counts *counts) *cachedTokens {
	return &cachedTokens{tokens: tokens, keys: keys, store: store, now: now, counts: counts, seed: newKeySeed(), known: map[cacheKey]*tokenResult{}}
}

// errExpired is upstream's error.
var errExpired = errors.New("service account token has expired")

// AuthenticateToken implements authenticator.Token.
func (c *cachedTokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	began := time.Now()
	key := c.seed.key(ctx, token)
	if c.foreign.has(key) {
		return nil, false, nil
	}
	c.mu.RLock()
	result := c.known[key]
	c.mu.RUnlock()
	lookup := "hit"
	if result == nil || !c.current(ctx, result) {
		lookup = "miss"
		var ok bool
		var err error
		verified := c.counts.verifying()
		result, ok, err = c.verify(ctx, token)
		verified(ok, err)
		if !ok && err == nil {
			c.foreign.add(key)
			return nil, false, nil // not a token of a ServiceAccount; another authenticator may cache it
		}
		if err != nil {
			c.counts.looked(lookup, time.Since(began))
			return nil, ok, err
		}
		c.keep(key, result)
	}
	c.counts.looked(lookup, time.Since(began))
	for name, value := range result.annotations {
		audit.AddAuditAnnotation(ctx, name, value)
	}
	for _, w := range result.warnings {
		warning.AddWarning(ctx, w.agent, w.text)
	}
	return result.response, true, nil
}

// keep caches a result. Results that have ended go before it, so that tokens which come once do not stay.
func (c *cachedTokens) keep(key cacheKey, result *tokenResult) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); now.Sub(c.swept) >= resultAge {
		c.swept = now
		maps.DeleteFunc(c.known, func(_ cacheKey, r *tokenResult) bool { return !now.Before(r.until) })
	}
	if len(c.known) >= knownMost {
		clear(c.known)
	}
	c.known[key] = result
}

// current tells whether a result is still valid.
func (c *cachedTokens) current(ctx context.Context, r *tokenResult) bool {
	if !c.now().Before(r.until) || c.keys.State() != r.keys {
		return false
	}
	for _, was := range r.objects {
		o, err := c.store.Get(ctx, was.key, resources.At{Match: resources.Any})
		if err != nil || o.Revision != was.revision {
			return false
		}
	}
	return true
}

// verify calls upstream's authenticators. It uses a context of its own, since the result is shared by all requests with the token.
func (c *cachedTokens) verify(asked context.Context, token string) (*tokenResult, bool, error) {
	n := &notes{}
	ctx, cancel := context.WithTimeout(context.Background(), verifyTimeout)
	defer cancel()
	if audiences, ok := authenticator.AudiencesFrom(asked); ok {
		ctx = authenticator.WithAudiences(ctx, audiences)
	}
	ctx = warning.WithWarningRecorder(audit.WithAuditContext(context.WithValue(ctx, notesKey{}, n)), n)
	now, keys := c.now(), c.keys.State()
	response, ok, err := c.tokens.AuthenticateToken(ctx, token)
	if err != nil || !ok {
		return nil, ok, err
	}
	until := now.Add(resultAge)
	if end := endOf(token); !end.IsZero() {
		if end = end.Add(lateness); !now.Before(end) {
			return nil, false, errExpired
		}
		if end.Before(until) {
			until = end
		}
	}
	return &tokenResult{response, until, keys, n.objects, audit.AuditContextFrom(ctx).GetEventAnnotations(), n.warnings}, true, nil
}

// endOf returns the expiry of a verified token; zero: it does not expire.
func endOf(token string) time.Time {
	parsed, err := jwt.ParseSigned(token)
	if err != nil {
		return time.Time{}
	}
	var claims jwt.Claims
	if err := parsed.UnsafeClaimsWithoutVerification(&claims); err != nil || claims.Expiry == nil {
		return time.Time{}
	}
	return claims.Expiry.Time()
}

// notes collects the objects and warnings of a verification.
type notes struct {
	mu       sync.Mutex
	objects  []seenObject
	warnings []toldWarning
}

type notesKey struct{}

// note records that the result depends on an object.
func note(ctx context.Context, o *resources.Object) {
	if n, ok := ctx.Value(notesKey{}).(*notes); ok {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.objects = append(n.objects, seenObject{o.Key, o.Revision})
	}
}

// AddWarning implements warning.Recorder.
func (n *notes) AddWarning(agent, text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.warnings = append(n.warnings, toldWarning{agent, text})
}
