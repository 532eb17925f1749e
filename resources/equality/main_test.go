package equality

import (
	"os"
	"testing"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// The tests of this package test the fast path itself, whether it is on elsewhere or not.
func TestMain(m *testing.M) {
	fastpath.Equality.Turn(true)
	os.Exit(m.Run())
}
