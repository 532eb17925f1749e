package authn

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"gopkg.in/go-jose/go-jose.v2/jwt"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/warning"

	"github.com/rowlock/rowlock/resources"
)

// cachedTokens remembers what came of verifying tokens of ServiceAccounts, for a signature costs as much as a request.
//
// A result is believed while every object that it came from is at the revision at which it was read: a token whose Pod,
// Secret, Node or ServiceAccount is deleted is refused by the next request. It is never believed for longer than
// resultAge, nor beyond the end of the token, so that a key that is taken away is, too. Failures are not remembered.
type cachedTokens struct {
	tokens authenticator.Token
	store  resources.Reader
	now    func() time.Time
	counts *counts
	// seed keeps anybody from computing keys; tokens themselves are not kept.
	seed [sha256.Size]byte

	mu    sync.RWMutex
	known map[[sha256.Size]byte]*tokenResult
}

const (
	// resultAge is how long a result is believed: with the second in which files of keys are read again, ten in all.
	resultAge = 9 * time.Second
	// lateness is how long a token is accepted after its end, for clocks that differ. Upstream's leeway is a minute.
	lateness = 5 * time.Second
	// verifyTimeout bounds the time in which the objects behind a token are read, and its Secret is marked.
	verifyTimeout = 30 * time.Second
	// knownMost bounds how many results are remembered; beyond it, the cache starts anew.
	knownMost = 32 << 10
)

// tokenResult is what came of verifying a token.
type tokenResult struct {
	response    *authenticator.Response
	until       time.Time
	objects     []seenObject
	annotations map[string]string
	warnings    []toldWarning
}

// seenObject is an object as it was when a token was verified.
type seenObject struct {
	key      resources.Key
	revision int64
}

type toldWarning struct{ agent, text string }

func newCachedTokens(tokens authenticator.Token, store resources.Reader, now func() time.Time, counts *counts) *cachedTokens {
	c := &cachedTokens{tokens: tokens, store: store, now: now, counts: counts, known: map[[sha256.Size]byte]*tokenResult{}}
	_, _ = rand.Read(c.seed[:]) // never fails
	return c
}

// errExpired is upstream's error.
var errExpired = errors.New("service account token has expired")

// AuthenticateToken implements authenticator.Token.
func (c *cachedTokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	began := time.Now()
	key := c.key(ctx, token)
	c.mu.RLock()
	result := c.known[key]
	c.mu.RUnlock()
	lookup := c.counts.hit
	if result == nil || !c.current(ctx, result) {
		lookup = c.counts.miss
		var ok bool
		var err error
		verified := c.counts.verifying()
		result, ok, err = c.verify(ctx, token)
		verified(ok, err)
		if !ok && err == nil {
			return nil, false, nil // the token of somebody else, who may remember it
		}
		if err != nil {
			lookup.took(time.Since(began))
			return nil, ok, err
		}
		c.mu.Lock()
		if len(c.known) >= knownMost {
			clear(c.known)
		}
		c.known[key] = result
		c.mu.Unlock()
	}
	lookup.took(time.Since(began))
	for name, value := range result.annotations {
		audit.AddAuditAnnotation(ctx, name, value)
	}
	for _, w := range result.warnings {
		warning.AddWarning(ctx, w.agent, w.text)
	}
	return result.response, true, nil
}

// key is of the token and the audiences for which it is to be good.
func (c *cachedTokens) key(ctx context.Context, token string) (key [sha256.Size]byte) {
	buffer := make([]byte, 0, 2048)
	buffer = append(buffer, c.seed[:]...)
	buffer = append(binary.BigEndian.AppendUint64(buffer, uint64(len(token))), token...)
	if audiences, ok := authenticator.AudiencesFrom(ctx); ok {
		buffer = append(buffer, 1)
		for _, a := range audiences {
			buffer = append(binary.BigEndian.AppendUint64(buffer, uint64(len(a))), a...)
		}
	}
	return sha256.Sum256(buffer)
}

// current tells whether a result still holds.
func (c *cachedTokens) current(ctx context.Context, r *tokenResult) bool {
	if !c.now().Before(r.until) {
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

// verify asks upstream's authenticators. What they say is for all who send the token, and not the matter of one request.
func (c *cachedTokens) verify(asked context.Context, token string) (*tokenResult, bool, error) {
	n := &notes{}
	ctx, cancel := context.WithTimeout(context.Background(), verifyTimeout)
	defer cancel()
	if audiences, ok := authenticator.AudiencesFrom(asked); ok {
		ctx = authenticator.WithAudiences(ctx, audiences)
	}
	ctx = warning.WithWarningRecorder(audit.WithAuditContext(context.WithValue(ctx, notesKey{}, n)), n)
	now := c.now()
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
	return &tokenResult{response, until, n.objects, audit.AuditContextFrom(ctx).GetEventAnnotations(), n.warnings}, true, nil
}

// endOf is when a token ends that was verified; zero: never.
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

// notes are taken while a token is verified.
type notes struct {
	mu       sync.Mutex
	objects  []seenObject
	warnings []toldWarning
}

type notesKey struct{}

// note says that the result depends on an object.
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
