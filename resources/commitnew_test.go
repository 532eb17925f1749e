package resources

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// commits is a Store that remembers the commits, and refuses one.
type commits struct {
	Store
	all    [][]Write
	refuse int // the number of the commit that fails
}

func (c *commits) Commit(_ context.Context, writes ...Write) (stored []*Object, err error) {
	c.all = append(c.all, writes)
	if len(c.all) == c.refuse {
		return nil, &ExpectationError{Key: writes[0].Key}
	}
	for range writes {
		stored = append(stored, &Object{Revision: int64(len(c.all))})
	}
	return stored, nil
}

// TestManyRemovalsExcludeOtherCreates expects each transaction with removals to fail once another create has changed the row of the group.
func TestManyRemovalsExcludeOtherCreates(t *testing.T) {
	row := Write{Op: Update, Key: Key{Resource: "groups" + internalSuffix, Name: "g"}, From: 7}
	writes := []Write{{Op: Create, Key: Key{Resource: "definitions", Name: "d"}}, row, {Op: Create, Key: Key{Resource: "services", Name: "s"}}}
	for i := range 2*mostRemovals + 1 {
		writes = append(writes, Write{Op: Delete, Key: Key{Resource: "objects", Name: fmt.Sprint(i)}, From: 1})
	}
	s := &commits{}
	if _, err := commitNew(t.Context(), s, writes); !errors.Is(err, errTaken) || len(s.all) != 3 {
		t.Fatalf("%d commits: %v", len(s.all), err)
	}
	for i, c := range s.all {
		want := Write{Op: Expect, Key: row.Key, From: 1}
		if i == 0 {
			want = row
		}
		if c[0].Op != want.Op || c[0].Key != want.Key || c[0].From != want.From {
			t.Errorf("commit %d begins with %+v, want %+v", i, c[0], want)
		}
		for _, w := range c[1:] {
			if w.Op != Delete {
				t.Errorf("commit %d has %+v", i, w)
			}
		}
	}
	s = &commits{refuse: 2}
	if _, err := commitNew(t.Context(), s, writes); !errors.Is(err, errTaken) || len(s.all) != 2 {
		t.Errorf("after another write of the row: %d commits, %v", len(s.all), err)
	}
}
