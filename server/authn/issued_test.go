package authn_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/authn"
	"github.com/rowlock/rowlock/server/servertest"
	"github.com/rowlock/rowlock/sqlstore"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

// An issued token expires in time, and is refused when a part of it is wrong, on every server of a database. The stored row does
// not contain the token.
func TestIssuedTokens(t *testing.T) {
	servertest.OnEveryDatabase(t, func(t *testing.T, stores []*sqlstore.Store) {
		clock := time.Now()
		var servers []*authn.IssuedTokens
		for _, s := range stores {
			servers = append(servers, authn.NewIssuedTokens(resources.NewRows(s), func() time.Time { return clock }))
		}
		made := authn.IssuedToken{User: "jane", Groups: []string{"team"}}
		token, err := servers[0].Create(t.Context(), &made, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		last := servers[len(servers)-1]
		response, ok, err := last.AuthenticateToken(t.Context(), token)
		if err != nil || !ok || response.User.GetName() != "jane" || response.User.GetExtra()["authentication.kubernetes.io/credential-id"][0] != "TOKEN="+made.ID {
			t.Fatalf("%v %v %v", response, ok, err)
		}
		rows, err := stores[0].Snapshot(t.Context(), "tokens.rowlock.internal", resources.At{Match: resources.MostRecent})
		if err != nil {
			t.Fatal(err)
		}
		secret := token[len("rowlock_")+13:]
		if row := string(rows.Get("", made.ID).Data); strings.Contains(row, secret) || !strings.Contains(row, "team") {
			t.Errorf("keeps %s", row)
		}
		for _, wrong := range []string{"", "rowlock_", token[1:], token + "a", token[:len(token)-1], strings.ToUpper(token), "bearer"} {
			if response, ok, err := last.AuthenticateToken(t.Context(), wrong); ok || err != nil {
				t.Errorf("%q: %v %v", wrong, response, err)
			}
		}
		for _, wrong := range []string{strings.Replace(token, secret, strings.Repeat("a", 52), 1), strings.Replace(token, made.ID, strings.Repeat("a", 12), 1)} {
			if response, ok, err := last.AuthenticateToken(t.Context(), wrong); ok || !errors.Is(err, authn.ErrNoToken) || strings.Contains(err.Error(), wrong) {
				t.Errorf("%q: %v %v", wrong, response, err)
			}
		}
		clock = clock.Add(time.Hour)
		if response, ok, err := last.AuthenticateToken(t.Context(), token); ok || err == nil {
			t.Errorf("in the end: %v", response)
		}
		if list, err := last.List(t.Context()); err != nil || len(list) > 0 {
			t.Errorf("in the end: %v %v", list, err)
		}
	})
}

// askedStore counts the reads with MostRecent.
type askedStore struct {
	resources.Store
	asked atomic.Int64
}

func (s *askedStore) Snapshot(ctx context.Context, resource string, at resources.At) (resources.Snapshot, error) {
	if at.Match == resources.MostRecent {
		s.asked.Add(1)
	}
	return s.Store.Snapshot(ctx, resource, at)
}

func (s *askedStore) Get(ctx context.Context, key resources.Key, at resources.At) (*resources.Object, error) {
	if at.Match == resources.MostRecent {
		s.asked.Add(1)
	}
	return s.Store.Get(ctx, key, at)
}

// Lookups of tokens that do not exist do not each query the database. A token that another server has issued meanwhile is valid at once.
func TestUnknownIssuedTokens(t *testing.T) {
	servertest.OnEveryDatabase(t, func(t *testing.T, stores []*sqlstore.Store) {
		one := authn.NewIssuedTokens(resources.NewRows(stores[0]), nil)
		store := &askedStore{Store: stores[len(stores)-1]}
		other := authn.NewIssuedTokens(resources.NewRows(store), nil)
		const askers, each = 50, 20
		var asking sync.WaitGroup
		began := time.Now()
		for range askers {
			asking.Go(func() {
				for range each {
					unknown := "rowlock_" + strings.ToLower(rand.Text()[:12]+"_"+rand.Text()+rand.Text())
					if response, ok, err := other.AuthenticateToken(t.Context(), unknown); ok || !errors.Is(err, authn.ErrNoToken) {
						t.Errorf("%v %v", response, err)
					}
				}
			})
		}
		for range 5 {
			token, err := one.Create(t.Context(), &authn.IssuedToken{User: "jane"}, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok, err := other.AuthenticateToken(t.Context(), token); !ok {
				t.Errorf("a token that is fresh: %v", err)
			}
		}
		asking.Wait()
		// Lookups that wait together wait for the same read, and there is one every 50 ms.
		if most := int64(time.Since(began)/(50*time.Millisecond)) + 2; store.asked.Load() > most {
			t.Errorf("asked %d times in %s", store.asked.Load(), time.Since(began))
		}
	})
}

// hangingStore is empty, and reads with MostRecent hang until they are released.
type hangingStore struct {
	resources.Store
	asked atomic.Int64
	let   chan struct{}
}

func (s *hangingStore) Get(context.Context, resources.Key, resources.At) (*resources.Object, error) {
	return nil, resources.ErrNotFound
}

func (s *hangingStore) Snapshot(ctx context.Context, _ string, _ resources.At) (resources.Snapshot, error) {
	s.asked.Add(1)
	select {
	case <-s.let:
	case <-ctx.Done():
	}
	return nil, resources.ErrUnavailable
}

// Only one query at a time runs in a database that hangs, however many lookups there are for tokens that do not exist.
func TestUnknownIssuedTokensOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &hangingStore{let: make(chan struct{})}
		tokens := authn.NewIssuedTokens(resources.NewRows(store), nil)
		var asking sync.WaitGroup
		for range 8 {
			asking.Go(func() {
				if _, _, err := tokens.AuthenticateToken(t.Context(), "rowlock_"+strings.Repeat("a", 12)+"_"+strings.Repeat("a", 52)); !errors.Is(err, resources.ErrUnavailable) {
					t.Error(err)
				}
			})
			time.Sleep(time.Second)
		}
		if n := store.asked.Load(); n != 1 {
			t.Errorf("%d looks at once", n)
		}
		close(store.let)
		asking.Wait()
		if n := store.asked.Load(); n != 2 { // the other lookups had begun before the second read
			t.Errorf("%d looks", n)
		}
	})
}

// A revocation reaches another server by itself: lookups of a token that the server has do not ask the database.
func TestRevocationsReachOtherServers(t *testing.T) {
	servertest.OnServers(t, 2, func(t *testing.T, stores []*sqlstore.Store) {
		one := authn.NewIssuedTokens(resources.NewRows(stores[0]), nil)
		other := authn.NewIssuedTokens(resources.NewRows(stores[1]), nil)
		made := authn.IssuedToken{User: "jane"}
		token, err := one.Create(t.Context(), &made, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok, err := other.AuthenticateToken(t.Context(), token); !ok { // may have to ask
			t.Fatal(err)
		}
		if err := one.Revoke(t.Context(), made.ID); err != nil {
			t.Fatal(err)
		}
		untilIs(t, func() string {
			_, ok, err := other.AuthenticateToken(t.Context(), token)
			return fmt.Sprint(ok, " ", err)
		}, "false "+authn.ErrNoToken.Error())
	})
}

func BenchmarkIssuedToken(b *testing.B) {
	store := sqlitetest.Open(b)
	tokens := authn.NewIssuedTokens(resources.NewRows(store), nil)
	token, err := tokens.Create(b.Context(), &authn.IssuedToken{User: "jane", Groups: []string{"team"}}, time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, err := tokens.AuthenticateToken(b.Context(), token); !ok {
			b.Fatal(err)
		}
	}
}
