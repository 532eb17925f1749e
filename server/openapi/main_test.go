package openapi

import (
	"os"
	"testing"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// The tests of this package compare prepared documents with built ones, so the fast path must be on.
func TestMain(m *testing.M) {
	fastpath.OpenAPI.Turn(true)
	os.Exit(m.Run())
}
