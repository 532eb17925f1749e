package sqlstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// BenchmarkGather has writers that do other work between their writes, as clients do: the queue waits for them, or
// waits in vain. docs/group-commit.md has its results.
func BenchmarkGather(b *testing.B) {
	for _, database := range []struct {
		name string
		open func(*testing.B) *Store
	}{{"sqlite", openBench}, {"postgres", openPostgresBench}} {
		for _, pause := range []time.Duration{0, 200 * time.Microsecond, 2 * time.Millisecond} {
			for _, writers := range []int{1, 2, 4, 16, 64} {
				b.Run(fmt.Sprintf("%s/pause=%s/writers=%d", database.name, pause, writers), func(b *testing.B) {
					s := database.open(b)
					d := draft(b, "default", "name")
					measured(b, writers, func(i int64) error {
						time.Sleep(pause) // the client's other work
						_, err := s.Commit(context.Background(), resources.Write{Op: resources.Create,
							Key: configMap("default", fmt.Sprintf("cm-%08d", i)), Draft: d})
						return err
					})
				})
			}
		}
	}
}
