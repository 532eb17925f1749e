package authn

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/lru"

	"github.com/rowlock/rowlock/resources"
)

// IssuedTokens are the tokens that an administrator issues to users (rowlock token). The database has a row for each, with its
// user and a digest, from which the token cannot be recovered. Every server looks the row up for each request, and a token is
// valid as long as its row exists: a revoked token fails at the next request. No API serves the rows, so a client that may read or
// write all Secrets still cannot create credentials.
//
// It is an authenticator.Token.
type IssuedTokens struct {
	rows   *resources.Rows
	now    func() time.Time
	latest *latestRows
	// known caches decoded rows by name; each is valid for one revision.
	known *lru.Cache
}

// NewIssuedTokens returns the tokens in a store. now is the clock; nil: time.Now.
func NewIssuedTokens(rows *resources.Rows, now func() time.Time) *IssuedTokens {
	if now == nil {
		now = time.Now
	}
	return &IssuedTokens{rows: rows, now: now, latest: &latestRows{rows: rows, resource: TokensResource}, known: lru.New(4096)}
}

// IssuedToken describes a token, without the token itself.
type IssuedToken struct {
	// ID identifies the token when it is revoked. It is part of the token, and not secret.
	ID     string   `json:"id"`
	User   string   `json:"user"`
	Groups []string `json:"groups,omitempty"`
	// By is the user who asked for the token; empty: it was created with direct access to the database.
	By      string    `json:"by,omitempty"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// tokenRow is the stored form of a token.
type tokenRow struct {
	IssuedToken
	// Digest is the SHA-256 of the token. The token has more than 128 random bits, so a slower hash would not be safer.
	Digest string `json:"digest"`
}

// TokensResource is the resource of the rows of tokens, each of which is removed when its token expires. No API serves it.
const TokensResource = "tokens.rowlock.internal"

const (
	tokenKind = "Token"
	// tokenPrefix lets secret scanners recognise these tokens.
	tokenPrefix = "rowlock_"
)

// LongestToken bounds the life of a token.
const LongestToken = 10 * 365 * 24 * time.Hour

// Errors of IssuedTokens.
var (
	ErrNoToken = errors.New("there is no such token")
	// ErrSubject says that credentials cannot be issued for an identity.
	ErrSubject = errors.New("no credentials are given")
)

// CheckSubject refuses identities for which other issuers or no issuers give credentials: ServiceAccounts, the anonymous user, and, unless masters
// is set, users with all permissions, which no token should have by accident. The error is an ErrSubject.
func CheckSubject(name string, groups []string, masters bool) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: a user needs a name", ErrSubject)
	case strings.HasPrefix(name, serviceaccount.ServiceAccountUsernamePrefix):
		return fmt.Errorf("%w: %s is a ServiceAccount, whose tokens are asked for with a TokenRequest", ErrSubject, name)
	case name == user.Anonymous:
		return fmt.Errorf("%w: %s is who has none", ErrSubject, name)
	}
	for _, g := range groups {
		switch {
		case g == "":
			return fmt.Errorf("%w: a group needs a name", ErrSubject)
		case g == user.AllUnauthenticated:
			return fmt.Errorf("%w: %s are those who have none", ErrSubject, g)
		case g == serviceaccount.AllServiceAccountsGroup || strings.HasPrefix(g, serviceaccount.ServiceAccountGroupPrefix):
			return fmt.Errorf("%w: %s is a group of ServiceAccounts", ErrSubject, g)
		case g == user.SystemPrivilegedGroup && !masters:
			return fmt.Errorf("%w: members of %s may do everything, whatever roles and bindings say, and that has to be asked for", ErrSubject, g)
		}
	}
	return nil
}

// Create creates a token for the user and the groups of t with a lifetime, and fills in the rest of t. The caller has called
// CheckSubject.
//
// Errors: those of resources.Writer; a lifetime outside the bounds.
func (i *IssuedTokens) Create(ctx context.Context, t *IssuedToken, lifetime time.Duration) (token string, err error) {
	if lifetime < time.Second || lifetime > LongestToken {
		return "", fmt.Errorf("a token lives for at least a second, and at most %d hours", int(LongestToken.Hours()))
	}
	t.ID = strings.ToLower(rand.Text()[:12])
	t.Created = i.now().UTC().Truncate(time.Second)
	t.Expires = t.Created.Add(lifetime)
	token = tokenPrefix + t.ID + "_" + strings.ToLower(rand.Text()+rand.Text())
	_, err = i.rows.Create(ctx, tokenKey(t.ID), tokenKind, tokenRow{*t, digest(token)}, lifetime)
	return token, err
}

// List returns the valid tokens, oldest first.
func (i *IssuedTokens) List(ctx context.Context) ([]IssuedToken, error) {
	rows, err := i.rows.Snapshot(ctx, TokensResource, resources.At{Match: resources.MostRecent})
	if err != nil {
		return nil, err
	}
	all := []IssuedToken{}
	rows.Ascend("", "", func(o *resources.Object) bool {
		var row tokenRow
		if err = resources.DecodeInternal(o, &row); err == nil && i.now().Before(row.Expires) {
			all = append(all, row.IssuedToken)
		}
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b IssuedToken) int { return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID)) })
	return all, nil
}

// Revoke removes a token. Errors: ErrNoToken, and those of resources.Writer.
func (i *IssuedTokens) Revoke(ctx context.Context, id string) error {
	o, err := i.rows.Get(ctx, tokenKey(id), resources.At{Match: resources.MostRecent})
	if err == nil {
		err = i.rows.Delete(ctx, o)
	}
	if errors.Is(err, resources.ErrNotFound) {
		return fmt.Errorf("%w: %q", ErrNoToken, id)
	}
	return err
}

// AuthenticateToken implements authenticator.Token. It leaves tokens of another form to other authenticators.
func (i *IssuedTokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	id, ok := issuedID(token)
	if !ok {
		return nil, false, nil
	}
	row, err := i.row(ctx, id)
	switch {
	case errors.Is(err, resources.ErrNotFound):
		return nil, false, ErrNoToken
	case err != nil:
		return nil, false, err
	case subtle.ConstantTimeCompare([]byte(row.Digest), []byte(digest(token))) != 1:
		return nil, false, ErrNoToken
	case !i.now().Before(row.Expires):
		return nil, false, errors.New("the token has expired")
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: row.User, Groups: row.Groups,
		Extra: map[string][]string{user.CredentialIDKey: {"TOKEN=" + row.ID}}}}, true, nil
}

// row reads the row of a token. If this server does not have it, another server may have created it a moment ago.
func (i *IssuedTokens) row(ctx context.Context, id string) (*tokenRow, error) {
	o, err := i.rows.Get(ctx, tokenKey(id), resources.At{Match: resources.Any})
	if errors.Is(err, resources.ErrNotFound) {
		o, err = i.latest.get(ctx, id)
	}
	if err != nil {
		return nil, err
	}
	type decoded struct {
		revision int64
		row      *tokenRow
	}
	if d, ok := i.known.Get(id); ok && d.(decoded).revision == o.Revision {
		return d.(decoded).row, nil
	}
	row := &tokenRow{}
	if err := resources.DecodeInternal(o, row); err != nil {
		return nil, err
	}
	i.known.Add(id, decoded{o.Revision, row})
	return row, nil
}

// issuedID returns the ID of a token that has the right form: rowlock_<12 letters and digits>_<52 of them>.
func issuedID(token string) (string, bool) {
	rest, ok := strings.CutPrefix(token, tokenPrefix)
	id, secret, _ := strings.Cut(rest, "_")
	strange := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '2' || r > '7') }
	return id, ok && len(id) == 12 && len(secret) == 52 && strings.IndexFunc(id+secret, strange) < 0
}

func tokenKey(id string) resources.Key { return resources.Key{Resource: TokensResource, Name: id} }

func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// CheckRow returns what is wrong with the row of an issued token, which could not authenticate anybody; nil for any other object.
func CheckRow(o *resources.Object) error {
	if o.Resource != TokensResource {
		return nil
	}
	var row tokenRow
	if err := resources.DecodeInternal(o, &row); err != nil {
		return err
	}
	if row.ID != o.Name || row.User == "" || len(row.Digest) != len(digest("")) || row.Expires.IsZero() {
		return errors.New("does not say whose token it is, or which, or when it ends")
	}
	return nil
}
