package runs

import (
	"bytes"
	stdgzip "compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/rowlock/rowlock/resources"
)

// FuzzJoint joins runs and bytes of random sizes in any order, and compares the stream as two readers decompress it with the input.
func FuzzJoint(f *testing.F) {
	for _, seed := range [][]byte{nil, {0}, {1, 1, 1}, {2, 200, 3, 77, 0, 9, 4, 250, 5, 5}, bytes.Repeat([]byte{5, 130, 2, 1}, 40)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, plan []byte) {
		var want, stream bytes.Buffer
		j := NewJoint(&stream)
		for i := 0; i+1 < len(plan); i += 2 {
			p := text(plan[i], plan[i+1])
			want.Write(p)
			if plan[i]%2 == 0 {
				if n, err := j.Write(p); n != len(p) || err != nil {
					t.Fatal(n, err)
				}
				continue
			}
			r, err := compress(func(w io.Writer) error {
				_, err := w.Write(p)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := j.Run(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if j.crc != crc32.ChecksumIEEE(want.Bytes()) {
			t.Errorf("CRC %x, want %x", j.crc, crc32.ChecksumIEEE(want.Bytes()))
		}
		same(t, stream.Bytes(), want.Bytes())
	})
}

// text returns bytes of a size and a kind: hard to compress, easy to compress, or JSON-like.
func text(kind, size byte) []byte {
	n := int(size)
	if kind&4 != 0 {
		n *= 1 << 10
	}
	random := rand.New(rand.NewPCG(uint64(kind), uint64(size)))
	p := make([]byte, n)
	for i := range p {
		switch kind >> 3 % 3 {
		case 0:
			p[i] = byte(random.Int())
		case 1:
			p[i] = 'a'
		case 2:
			p[i] = `{"metadata":{"name":"`[random.IntN(21)]
		}
	}
	return p
}

// same compares a stream, of one member, with its expected contents, decompressed by the standard library and by klauspost's.
func same(t *testing.T, stream, want []byte) {
	t.Helper()
	a, err := stdgzip.NewReader(bytes.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	a.Multistream(false)
	b, err := gzip.NewReader(bytes.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []io.Reader{a, b} {
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes of %d, %v", len(got), len(want), err)
		}
	}
}

// The CRC-32 of two texts follows from their own, whatever their sizes.
func TestCRCOfParts(t *testing.T) {
	for _, n := range []uint64{0, 1, 2, 7, 8, 255, 4 << 10, 1<<20 + 3} {
		a, b := text(1, 200), make([]byte, n)
		for i := range b {
			b[i] = byte(i * 7)
		}
		got := times(crc32.ChecksumIEEE(a), shift(n)) ^ crc32.ChecksumIEEE(b)
		if want := crc32.ChecksumIEEE(append(a, b...)); got != want {
			t.Errorf("%d bytes: %x, want %x", n, got, want)
		}
	}
	// Check x^(8n), by its definition, for n larger than any text here.
	if got, want := shift(3<<40), times(shift(1<<41), shift(1<<40)); got != want {
		t.Errorf("%x, want %x", got, want)
	}
}

func objects(revisions ...int64) (all []*resources.Object) {
	for _, r := range revisions {
		all = append(all, &resources.Object{Key: resources.Key{Name: fmt.Sprint("o", r)}, Revision: r})
	}
	return all
}

// writes returns a function that writes objects, and the number of its calls.
func writes(all []*resources.Object) (func(io.Writer) error, *atomic.Int64) {
	var asked atomic.Int64
	return func(w io.Writer) error {
		asked.Add(1)
		for _, o := range all {
			if err := binary.Write(w, binary.LittleEndian, o.Revision); err != nil {
				return err
			}
		}
		return nil
	}, &asked
}

// A run is made once for the same objects and form, and again for others. Runs with objects without a revision, and runs that failed, are not
// cached.
func TestRunsAreKept(t *testing.T) {
	c := NewCache(1 << 20)
	get := func(form string, revisions ...int64) bool {
		t.Helper()
		all := objects(revisions...)
		write, asked := writes(all)
		r, err := c.Get(form, all, write)
		if err != nil {
			t.Fatal(err)
		}
		if r.size != uint64(8*len(all)) {
			t.Errorf("%d bytes of %d objects", r.size, len(all))
		}
		return asked.Load() == 1
	}
	one, two := "one", "two"
	for i, row := range []struct {
		form      string
		revisions []int64
		made      bool
	}{
		{one, []int64{1, 2, 3}, true}, {one, []int64{1, 2, 3}, false}, {one, []int64{1, 2, 4}, true}, {one, []int64{1, 2}, true},
		{one, []int64{1, 2, 3}, false}, {two, []int64{1, 2, 3}, true}, {two, []int64{1, 2, 3}, false},
		{one, []int64{0, 1}, true}, {one, []int64{0, 1}, true},
	} {
		if got := get(row.form, row.revisions...); got != row.made {
			t.Errorf("%d: made: %t", i, got)
		}
	}
	broken := errors.New("broken")
	for range 2 {
		if _, err := c.Get(one, objects(9), func(io.Writer) error { return broken }); !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = c.Get(one, objects(9), func(io.Writer) error { panic("broken") })
	}()
	if !get(one, 9) {
		t.Error("what could not be written was kept")
	}
}

// The cache never exceeds its room, and the most recently used runs stay.
func TestRunsHaveABudget(t *testing.T) {
	const room = 20 << 10
	c := NewCache(room)
	favourite := objects(1)
	for i := range int64(1000) {
		all := objects(i + 2)
		if _, err := c.Get("", all, func(w io.Writer) error {
			_, err := w.Write(text(1, byte(i)))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		write, asked := writes(favourite)
		if _, err := c.Get("", favourite, write); err != nil {
			t.Fatal(err)
		}
		if i > 0 && asked.Load() != 0 {
			t.Fatalf("%d: what is used all the time was let go of", i)
		}
		if c.used > room || c.order.Len() != len(c.kept) {
			t.Fatalf("%d bytes, %d in order, %d kept", c.used, c.order.Len(), len(c.kept))
		}
	}
	size := 0
	for at := c.order.Front(); at != nil; at = at.Next() {
		size += at.Value.(*entry).size
	}
	if size != c.used {
		t.Errorf("%d bytes are said to be kept, %d are", c.used, size)
	}
}

// Concurrent requests for the same runs, while others evict them, get the correct ones.
func TestRunsConcurrently(t *testing.T) {
	c := NewCache(8 << 10)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 1))
			for range 300 {
				all := objects(int64(random.IntN(40)+1), 100)
				write, _ := writes(all)
				r, err := c.Get("", all, write)
				if err != nil {
					t.Error(err)
					return
				}
				var stream, want bytes.Buffer
				j := NewJoint(&stream)
				_, err = j.Write([]byte("head"))
				if err := errors.Join(err, j.Run(r), j.Close(), write(&want)); err != nil {
					t.Error(err)
				}
				same(t, stream.Bytes(), append([]byte("head"), want.Bytes()...))
			}
		})
	}
	wg.Wait()
}
