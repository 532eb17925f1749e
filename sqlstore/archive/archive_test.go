package archive

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
)

var passphrases = map[string][]byte{"plain": nil, "encrypted": []byte("correct horse")}

// made returns a backup of records.
func made(t testing.TB, passphrase []byte, records []Record) []byte {
	t.Helper()
	var b bytes.Buffer
	h := Header{Created: time.Unix(1_700_000_000, 0).UTC(), Version: "v1", Database: "sqlite", Schema: 3, Revision: 17, Beyond: 20}
	w, err := NewWriter(&b, h, passphrase)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		switch {
		case r.File != nil:
			err = w.File(*r.File)
		case r.Table != nil:
			err = w.Table(*r.Table)
		default:
			err = w.Row(r.Row)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// readAll returns the records up to the end, or up to an error.
func readAll(data, passphrase []byte) (h Header, records []Record, err error) {
	r, err := NewReader(bytes.NewReader(data), passphrase)
	if err != nil {
		return h, nil, err
	}
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return r.Header(), records, nil
		}
		if err != nil {
			return r.Header(), records, err
		}
		records = append(records, record)
	}
}

func someRecords() []Record {
	return []Record{
		{File: &File{Name: "pki/ca.key", Mode: 0o600, Data: []byte("secret\x00\xff")}},
		{Table: &Table{Name: "objects", Columns: []string{"name", "revision", "data"}}},
		{Row: []any{"a", int64(math.MaxInt64), `{"x":"<&> ` + "\u2028 é" + `"}`}},
		{Row: []any{"b\x00", int64(math.MinInt64), nil}},
		{Row: []any{"not UTF-8: \xff\xfe", int64(0), []byte{0, 1, 2, 255}}},
		{Row: []any{"", int64(-1), ""}},
		{Table: &Table{Name: "empty", Columns: []string{"only"}}},
	}
}

// Reading returns the records that were written, whatever their size.
func TestRoundTrip(t *testing.T) {
	for name, passphrase := range passphrases {
		t.Run(name, func(t *testing.T) {
			records := someRecords()
			data := made(t, passphrase, records)
			h, got, err := readAll(data, passphrase)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(records, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if h.Revision != 17 || h.Beyond != 20 || h.Schema != 3 || h.Database != "sqlite" || (h.Encryption != nil) != (passphrase != nil) {
				t.Errorf("header: %+v", h)
			}
			if passphrase != nil && bytes.Contains(data, []byte("objects")) {
				t.Error("the content is in the clear")
			}
		})
	}
}

// A chunk of the encryption may begin and end anywhere in a stream: no data are lost if the stream ends with a chunk.
func TestChunks(t *testing.T) {
	e := &Encryption{Scrypt: 1, Salt: make([]byte, saltSize)}
	for _, size := range []int{0, 1, chunkSize - 1, chunkSize, chunkSize + 1, 3 * chunkSize, 3*chunkSize + 7} {
		aead, err := e.aead([]byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		plain := bytes.Repeat([]byte("0123456"), size/7+1)[:size]
		var sealed bytes.Buffer
		s := &sealer{chunks: chunks{aead: aead, extra: []byte("h")}, to: &sealed}
		for part := plain; len(part) > 0; {
			n := min(len(part), 40_000)
			if _, err := s.Write(part[:n]); err != nil {
				t.Fatal(err)
			}
			part = part[n:]
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		open := func(data []byte) ([]byte, error) {
			return io.ReadAll(&opener{chunks: chunks{aead: aead, extra: []byte("h")}, from: bytes.NewReader(data)})
		}
		if got, err := open(sealed.Bytes()); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%d bytes: %d came back, %v", size, len(got), err)
		}
		// A stream that is cut between two chunks, and one whose chunks change places.
		full := chunkSize + aead.Overhead()
		if sealed.Len() > full {
			if _, err := open(sealed.Bytes()[:full]); err == nil {
				t.Errorf("%d bytes: the first chunk alone counts as all", size)
			}
		}
		if data := bytes.Clone(sealed.Bytes()); len(data) >= 2*full {
			moved := append(append(bytes.Clone(data[full:2*full]), data[:full]...), data[2*full:]...)
			if _, err := open(moved); err == nil {
				t.Errorf("%d bytes: chunks may change places", size)
			}
		}
	}
}

// A backup that was cut off anywhere, or in which a byte was changed, is refused, or has the same content as before.
func TestDamage(t *testing.T) {
	defer func(cost int) { scryptCost = cost }(scryptCost)
	scryptCost = 1 // otherwise each attempt takes a quarter of a second
	for name, passphrase := range passphrases {
		t.Run(name, func(t *testing.T) {
			data := made(t, passphrase, someRecords())
			for n := range data {
				if _, _, err := readAll(data[:n], passphrase); err == nil {
					t.Errorf("cut to %d of %d bytes: taken for whole", n, len(data))
				}
			}
			for i := range data {
				changed := bytes.Clone(data)
				changed[i] ^= 0x10
				if bytes.Contains(changed[:min(len(changed), 400)], []byte(`"scrypt":`)) && !bytes.Contains(changed, []byte(`"scrypt":1,`)) {
					continue // a cost that takes long, with the same result
				}
				if _, got, err := readAll(changed, passphrase); err == nil && !cmp.Equal(got, someRecords()) {
					t.Errorf("byte %d changed: read as %v", i, got)
				}
			}
			if _, _, err := readAll(append(bytes.Clone(data), 'x'), passphrase); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrPassphrase) {
				t.Errorf("something after the end: %v", err)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	encrypted, plain := made(t, []byte("right"), someRecords()), made(t, nil, someRecords())
	for _, tc := range []struct {
		name       string
		data       []byte
		passphrase string
		want       error
		text       string
	}{
		{name: "empty", want: ErrNotBackup},
		{name: "another file", data: []byte("SQLite format 3\x00 and so on, and so on"), want: ErrNotBackup, text: "--datastore sqlite://"},
		{name: "no passphrase", data: encrypted, want: ErrNeedsPassphrase},
		{name: "another passphrase", data: encrypted, passphrase: "wrong", want: ErrPassphrase},
		{name: "a later format", data: []byte(strings.Replace(string(plain), `{"rowlockBackup":1`, `{"rowlockBackup":2`, 1)), text: "use a newer rowlock"},
		{name: "without its header", data: plain[bytes.IndexByte(plain, '\n')+1:], want: ErrNotBackup},
		{name: "with the header of another", data: []byte(strings.Replace(string(plain), `"revision":17`, `"revision":18`, 1)), want: ErrDamaged},
	} {
		_, _, err := readAll(tc.data, []byte(tc.passphrase))
		if err == nil || tc.want != nil && !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// What a reader keeps of a file is bounded, whatever the file says and however small it is: the names of tables.
func TestTablesAreBounded(t *testing.T) {
	tables := func(n int, name string) (records []Record) {
		for i := range n {
			records = append(records, Record{Table: &Table{Name: fmt.Sprint(name, i), Columns: []string{"a"}}})
		}
		return records
	}
	for name, tc := range map[string]struct {
		records []Record
		want    error
	}{
		"as many as there may be": {tables(tablesMax, "t"), nil}, "one more": {tables(tablesMax+1, "t"), ErrDamaged},
		"one of them again": {append(tables(tablesMax, "t"), tables(5, "t")...), nil}, "a long name": {tables(1, strings.Repeat("t", tableNameMax)), ErrDamaged},
	} {
		if _, _, err := readAll(made(t, nil, tc.records), nil); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	last := made(t, nil, nil)
	w := &Writer{digest: sha256.New(), gzip: gzip.NewWriter(io.Discard)}
	var b bytes.Buffer
	b.Write(last[:bytes.IndexByte(last, '\n')+1])
	w.gzip.Reset(&b)
	rows := map[string]int{}
	for i := range headerMax / 8 {
		rows[fmt.Sprint("t", i)] = 0
	}
	if err := errors.Join(w.json(map[string]end{"end": {Rows: rows}}), w.gzip.Close()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readAll(b.Bytes(), nil); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "its last record") {
		t.Errorf("with a long last record: %v", err)
	}
}

// The cost of a passphrase is bounded before memory is allocated for it: the file sets the cost, and may come from
// anybody.
func TestCostOfPassphrases(t *testing.T) {
	data := made(t, []byte("right"), someRecords())
	for cost, want := range map[int]error{scryptCost: nil, scryptCost + 2: ErrDamaged, 20: ErrDamaged} {
		asked := bytes.Replace(data, fmt.Appendf(nil, `"scrypt":%d,`, scryptCost), fmt.Appendf(nil, `"scrypt":%d,`, cost), 1)
		if _, _, err := readAll(asked, []byte("right")); !errors.Is(err, want) || err != nil && !strings.Contains(err.Error(), "its encryption is none that rowlock makes") {
			t.Errorf("%d: %v", cost, err)
		}
	}
}

// For any file, reading ends, with an error or at the end of the file, and takes no more memory than a record.
func FuzzRead(f *testing.F) {
	f.Add(made(f, nil, someRecords()))
	f.Add(made(f, passphrases["encrypted"], someRecords()))
	f.Add([]byte(headerStart + "1}\n"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _, _ = readAll(data, nil)
		if bytes.Contains(data, []byte("scrypt")) {
			_, _, _ = readAll(data, passphrases["encrypted"])
		}
	})
}
