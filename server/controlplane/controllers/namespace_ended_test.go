package controllers

import (
	"testing"
	"time"
)

// TestEndedLately forgets a namespace whose late objects have come long ago, so that an object that is created in it on purpose stays.
func TestEndedLately(t *testing.T) {
	c := newNamespaces(Config{})
	c.ended["long ago"], c.ended["now"] = time.Now().Add(-stragglersAfter-time.Second), time.Now()
	if c.endedLately("long ago") || !c.endedLately("now") || c.endedLately("never") || len(c.ended) != 1 {
		t.Errorf("kept: %v", c.ended)
	}
}
