package openapi

import (
	"os"
	"testing"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// The tests of this package compare what was prepared with what is built, whether the fast path is on for others or not.
func TestMain(m *testing.M) {
	fastpath.OpenAPI.Turn(true)
	os.Exit(m.Run())
}
