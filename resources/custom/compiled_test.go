package custom

import (
	"errors"
	"sync"
	"testing"
)

func value(v string) func() (any, error) { return func() (any, error) { return v, nil } }

// The least recently used entries are dropped when there is no room.
func TestCompiledHasABound(t *testing.T) {
	c := compiled{room: 10}
	for _, key := range []string{"a", "b", "a", "c"} {
		if v, err := c.get(key, 4, value(key)); v != key || err != nil {
			t.Fatal(v, err)
		}
	}
	for key, want := range map[string]any{"a": "a", "c": "c"} {
		if v, _ := c.get(key, 4, value("again")); v != want {
			t.Errorf("%s is %v", key, v)
		}
	}
	if v, _ := c.get("b", 4, value("again")); v != "again" {
		t.Error("there is more than there is room for")
	}
	if v, _ := c.get("large", 100, value("large")); v != "large" || c.used != 100 || c.recent.Len() != 1 {
		t.Error("what is larger than the room is not alone in it")
	}
	if !c.clear() || c.clear() || c.used != 0 || c.recent.Len() != 0 {
		t.Error("something is left")
	}
	if v, _ := c.get("a", 4, value("again")); v != "again" {
		t.Error("something was left")
	}
	if got := c.usages()[kindOf("a")]; got != (usage{entries: 1, bytes: 4, compilations: 6}) {
		t.Errorf("counted is %+v", got)
	}
}

// A value is made once for all its callers, and a failure is tried again.
func TestCompiledIsMadeOnce(t *testing.T) {
	c := compiled{room: 10}
	broken := errors.New("broken")
	if _, err := c.get("a", 4, func() (any, error) { return nil, broken }); !errors.Is(err, broken) || c.used != 0 {
		t.Fatal(err)
	}
	made := 0
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			v, err := c.get("a", 4, func() (any, error) {
				made++ // by one of them, while the others wait
				return "a", nil
			})
			if v != "a" || err != nil {
				t.Error(v, err)
			}
		})
	}
	all.Wait()
	if made != 1 {
		t.Errorf("made %d times", made)
	}
}
