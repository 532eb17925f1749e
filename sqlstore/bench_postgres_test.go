package sqlstore

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// BenchmarkOpenSnapshot has a writer create objects for 12 seconds while a transaction keeps a snapshot open, as a dump
// does: how many in each of the first two seconds, and in each of the last two.
func BenchmarkOpenSnapshot(b *testing.B) {
	s := openPostgresBench(b)
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.options.URL)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(ctx) //nolint:errcheck // it has served
	if _, err := conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM pg_class"); err != nil {
		b.Fatal(err)
	}
	const seconds = 12
	for n := range b.N {
		var written [seconds]int
		began := time.Now()
		for i, second := 0, 0; second < seconds; i++ {
			if _, err := s.Commit(ctx, createMap(b, strconv.Itoa(n)+"-"+strconv.Itoa(i))); err != nil {
				b.Fatal(err)
			}
			if second = int(time.Since(began).Seconds()); second < seconds {
				written[second]++
			}
		}
		b.ReportMetric(float64(written[0]+written[1])/2, "first-writes/s")
		b.ReportMetric(float64(written[seconds-2]+written[seconds-1])/2, "last-writes/s")
	}
}

// BenchmarkPlanes has a writer in each of so many control planes, of a server each, on one cluster.
func BenchmarkPlanes(b *testing.B) {
	for _, planes := range []int{1, 16, 48} {
		b.Run("planes="+strconv.Itoa(planes), func(b *testing.B) {
			servers := make([]*Store, planes)
			for i := range servers {
				servers[i] = openPostgresBench(b)
			}
			measured(b, planes, func(i int64) error {
				_, err := servers[i%int64(planes)].Commit(context.Background(), createMap(b, "plane-"+strconv.FormatInt(i, 10)))
				return err
			})
		})
	}
}
