package sqlstore

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rowlock/rowlock/resources"
)

// BenchmarkOpenSnapshot has a writer write for 12 seconds, in a database of 20,000 objects, while a transaction keeps a
// snapshot open, as a dump does. It reports the writes in each of the first and the last two seconds. The writer
// creates objects, or updates so many of the existing ones in turn, whose dead rows stay.
func BenchmarkOpenSnapshot(b *testing.B) {
	for _, objects := range []int{0, 5000, 100, 1} {
		b.Run("updated="+strconv.Itoa(objects), func(b *testing.B) { benchmarkOpenSnapshot(b, objects) })
	}
}

func benchmarkOpenSnapshot(b *testing.B, updated int) {
	s := openPostgresBench(b)
	ctx := context.Background()
	var there []*resources.Object
	for range 40 {
		var writes []resources.Write
		for range 500 {
			writes = append(writes, createMap(b, "there-"+strconv.Itoa(len(there)+len(writes))))
		}
		made, err := s.Commit(ctx, writes...)
		if err != nil {
			b.Fatal(err)
		}
		there = append(there, made...)
	}
	conn, err := pgx.Connect(ctx, s.options.URL)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(ctx) //nolint:errcheck // the connection or transaction is no longer needed
	if _, err := conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM pg_class"); err != nil {
		b.Fatal(err)
	}
	const seconds = 12
	for n := range b.N {
		var written [seconds]int
		began := time.Now()
		for i, second := 0, 0; second < seconds; i++ {
			w, at := createMap(b, strconv.Itoa(n)+"-"+strconv.Itoa(i)), 0
			if updated > 0 {
				at = i % updated
				w.Op, w.Key, w.From = resources.Update, there[at].Key, there[at].Revision
			}
			made, err := s.Commit(ctx, w)
			if err != nil {
				b.Fatal(err)
			}
			if updated > 0 {
				there[at] = made[0]
			}
			if second = int(time.Since(began).Seconds()); second < seconds {
				written[second]++
			}
		}
		b.ReportMetric(float64(written[0]+written[1])/2, "first-writes/s")
		b.ReportMetric(float64(written[seconds-2]+written[seconds-1])/2, "last-writes/s")
	}
}

// BenchmarkPlanes has one writer in each of so many control planes of one server each, on one cluster.
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
