package sqlstore

import (
	"testing"

	"go.uber.org/goleak"
)

// Every goroutine has an owner and stops.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
