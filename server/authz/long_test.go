package authz_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources/bounded"
	"github.com/rowlock/rowlock/server/authz"
	"github.com/rowlock/rowlock/server/servertest"
)

// A webhook whose answer exceeds the limit has not answered.
func TestLongAnswersOfWebhooks(t *testing.T) {
	long := newHook(t, says(fmt.Sprintf(`{"allowed":true,"reason":%q}`, strings.Repeat("x", bounded.MostBytes))))
	a, err := authz.New(authz.Options{Store: newFixture(t).store, Logger: servertest.Quiet, File: configured(t, "v1", long.entry("long", "Deny"))})
	if err != nil {
		t.Fatal(err)
	}
	if got := decides(t, a, ann("n")); got != "deny, error" || long.calls.Load() != 1 {
		t.Errorf("decided %.100s, asked %d times", got, long.calls.Load())
	}
}
