package sqlstore

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

// cluster is the Postgres that tests share, each with a schema of its own.
var cluster = sync.OnceValues(func() (*pgtest.Cluster, error) {
	clusterUsed.Store(true)
	return pgtest.New()
})

var clusterUsed atomic.Bool

// TestMain checks that every goroutine has ended.
func TestMain(m *testing.M) {
	for variable, serve := range map[string]func(string) error{writerVariable: writeUntilTold, killedVariable: writeUntilKilled,
		rewriterVariable: rewriteUntilKilled, recorderVariable: recordUntilKilled, boundedVariable: askTooMuch} {
		where := os.Getenv(variable)
		if where == "" {
			continue
		}
		if err := serve(where); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if clusterUsed.Load() {
		if c, err := cluster(); err == nil {
			if err := c.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
		}
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
