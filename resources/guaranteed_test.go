package resources_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

// staleStore has cached the state of the time when it was made: another server has written since.
type staleStore struct {
	resources.Store
	old     *resources.Object
	commits int
}

func (s *staleStore) Get(ctx context.Context, key resources.Key, at resources.At) (*resources.Object, error) {
	if at.Match == resources.Any {
		if s.old == nil {
			return nil, resources.ErrNotFound
		}
		return s.old, nil
	}
	return s.Store.Get(ctx, key, at)
}

func (s *staleStore) Commit(ctx context.Context, writes ...resources.Write) ([]*resources.Object, error) {
	s.commits++
	return s.Store.Commit(ctx, writes...)
}

var key = resources.Key{Resource: "things", Name: "a"}

// write is a write that stores a number.
func write(op resources.Op, from int64, n int) resources.Write {
	d := resources.Draft{Data: fmt.Appendf(nil, `{"kind":"Thing","metadata":{"resourceVersion":"0"},"n":%d}`, n)}
	d.RevisionStart, d.RevisionEnd, _ = resources.RevisionSpan(d.Data)
	return resources.Write{Op: op, Key: key, From: from, Draft: d}
}

func commit(t *testing.T, s resources.Store, w resources.Write) *resources.Object {
	t.Helper()
	stored, err := s.Commit(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return stored[0]
}

func number(o *resources.Object) int { return int(gjson.GetBytes(o.Data, "n").Int()) }

func TestGuaranteedUpdateOfStaleState(t *testing.T) {
	s := sqlitetest.Open(t)
	old := commit(t, s, write(resources.Create, 0, 1))
	commit(t, s, write(resources.Update, old.Revision, 2))
	var saw []int
	stale := &staleStore{Store: s, old: old}
	stored, err := resources.GuaranteedUpdate(t.Context(), stale, key, func(o *resources.Object) ([]resources.Write, error) {
		saw = append(saw, number(o))
		return []resources.Write{write(resources.Update, o.Revision, number(o)+10)}, nil
	})
	if err != nil || number(stored) != 12 || fmt.Sprint(saw) != "[1 2]" || stale.commits != 2 {
		t.Errorf("stored %v after seeing %v in %d commits: %v", stored, saw, stale.commits, err)
	}
}

// Neither "nothing to do" nor a refusal is accepted on the basis of stale state.
func TestGuaranteedUpdateLooksAgain(t *testing.T) {
	s := sqlitetest.Open(t)
	old := commit(t, s, write(resources.Create, 0, 1))
	commit(t, s, write(resources.Update, old.Revision, 2))
	refused := errors.New("refused")
	for name, refusal := range map[string]error{"nothing to do": nil, "refused": refused} {
		var saw []int
		current, err := resources.GuaranteedUpdate(t.Context(), &staleStore{Store: s, old: old}, key, func(o *resources.Object) ([]resources.Write, error) {
			saw = append(saw, number(o))
			return nil, refusal
		})
		if !errors.Is(err, refusal) || fmt.Sprint(saw) != "[1 2]" || number(current) != 2 {
			t.Errorf("%s: %v, after seeing %v: %v", name, current, saw, err)
		}
	}
	// The object was deleted and created again.
	last := commit(t, s, resources.Write{Op: resources.Delete, Key: key, From: old.Revision + 1})
	for name, old := range map[string]*resources.Object{"gone": last, "never there": nil} {
		rounds := 0
		current, err := resources.GuaranteedUpdate(t.Context(), &staleStore{Store: s, old: old}, key, func(o *resources.Object) ([]resources.Write, error) {
			if rounds++; o == nil {
				return nil, refused
			}
			return []resources.Write{write(resources.Update, o.Revision, 3)}, nil
		})
		if current != nil || !errors.Is(err, refused) {
			t.Errorf("%s: %v, %v after %d rounds", name, current, err, rounds)
		}
	}
	commit(t, s, write(resources.Create, 0, 5))
	stored, err := resources.GuaranteedUpdate(t.Context(), &staleStore{Store: s}, key, func(o *resources.Object) ([]resources.Write, error) {
		if o == nil {
			return []resources.Write{write(resources.Create, 0, 6)}, nil
		}
		return []resources.Write{write(resources.Update, o.Revision, 7)}, nil
	})
	if err != nil || number(stored) != 7 {
		t.Errorf("a create that found the object: %v, %v", stored, err)
	}
}

// losingStore lets another writer win each time.
type losingStore struct {
	resources.Store
	rounds int
	lost   func(round int)
}

func (s *losingStore) Commit(ctx context.Context, writes ...resources.Write) ([]*resources.Object, error) {
	s.rounds++
	s.lost(s.rounds)
	current, err := s.Get(ctx, writes[0].Key, resources.At{Match: resources.MostRecent})
	if err != nil {
		return nil, err
	}
	return nil, &resources.ConflictError{Key: writes[0].Key, Current: current}
}

// A loop that always loses ends with its context.
func TestGuaranteedUpdateEnds(t *testing.T) {
	s := sqlitetest.Open(t)
	commit(t, s, write(resources.Create, 0, 1))
	ctx, cancel := context.WithCancel(t.Context())
	losing := &losingStore{Store: s, lost: func(round int) {
		if round == 5 {
			cancel()
		}
	}}
	_, err := resources.GuaranteedUpdate(ctx, losing, key, func(o *resources.Object) ([]resources.Write, error) {
		return []resources.Write{write(resources.Update, o.Revision, 2)}, nil
	})
	if !errors.Is(err, context.Canceled) || losing.rounds != 5 {
		t.Errorf("after %d rounds: %v", losing.rounds, err)
	}
}
