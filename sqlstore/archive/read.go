package archive

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
)

// tablesMax bounds the number of tables, and tableNameMax the bytes of a name: all names stay in memory, and a file may
// come from anybody.
const tablesMax, tableNameMax = 64, 63

// Reader reads a backup. It holds one record in memory, and the names of tables.
type Reader struct {
	header Header
	raw    *bufio.Reader // of the compressed stream
	gzip   *gzip.Reader
	lines  *bufio.Reader
	digest hash.Hash
	table  *Table
	seen   end
	ended  bool
}

// NewReader reads the header. Errors: ErrNotBackup, ErrDamaged, ErrNeedsPassphrase, ErrPassphrase, those of the reader.
func NewReader(r io.Reader, passphrase []byte) (*Reader, error) {
	raw := bufio.NewReaderSize(r, chunkSize)
	h, line, err := readHeader(raw)
	if err != nil {
		return nil, err
	}
	a := &Reader{header: h, raw: raw, digest: sha256.New(), seen: end{Rows: map[string]int{}}}
	a.digest.Write(line)
	if h.Encryption != nil {
		if len(passphrase) == 0 {
			return nil, ErrNeedsPassphrase
		}
		aead, err := h.Encryption.aead(passphrase)
		if err != nil {
			return nil, err
		}
		a.raw = bufio.NewReaderSize(&opener{chunks: chunks{aead: aead, extra: line}, from: raw}, chunkSize)
	}
	if a.gzip, err = gzip.NewReader(a.raw); err != nil {
		return nil, damaged(err)
	}
	a.gzip.Multistream(false)
	a.lines = bufio.NewReaderSize(a.gzip, chunkSize)
	return a, nil
}

// Header returns the header of the backup.
func (a *Reader) Header() Header { return a.header }

// Rows returns how many rows of a table were read.
func (a *Reader) Rows(table string) int { return a.seen.Rows[table] }

// Files returns how many files were read.
func (a *Reader) Files() int { return a.seen.Files }

// Ended reports whether everything was read, and was as it was written.
func (a *Reader) Ended() bool { return a.ended }

// Next returns the next record, or io.EOF once everything was read and was as it was written. Errors: ErrDamaged,
// ErrPassphrase, those of the reader.
func (a *Reader) Next() (Record, error) {
	if a.ended {
		return Record{}, io.EOF
	}
	line, err := readLine(a.lines, recordMax)
	if err != nil {
		return Record{}, damaged(err)
	}
	r, last, err := a.parse(line)
	if err != nil {
		return Record{}, damaged(err)
	}
	if last == nil {
		a.digest.Write(line)
		return r, nil
	}
	if sum := hex.EncodeToString(a.digest.Sum(nil)); sum != last.SHA256 || last.Files != a.seen.Files || !maps.Equal(last.Rows, a.seen.Rows) {
		return Record{}, fmt.Errorf("%w: its content is not what its checksum is of", ErrDamaged)
	}
	if err := a.nothingFollows(); err != nil {
		return Record{}, damaged(err)
	}
	a.ended = true
	return Record{}, io.EOF
}

// parse parses a line as a record, or as the last record.
func (a *Reader) parse(line []byte) (Record, *end, error) {
	if line[0] == '[' {
		row, err := parseRow(line)
		switch {
		case err != nil:
			return Record{}, nil, err
		case a.table == nil:
			return Record{}, nil, errors.New("a row of no table")
		case len(row) != len(a.table.Columns):
			return Record{}, nil, fmt.Errorf("a row of %s has %d values for %d columns", a.table.Name, len(row), len(a.table.Columns))
		}
		a.seen.Rows[a.table.Name]++
		return Record{Row: row}, nil, nil
	}
	var found struct {
		File
		Table
		End json.RawMessage `json:"end"`
	}
	if err := json.Unmarshal(line, &found); err != nil {
		return Record{}, nil, err
	}
	switch {
	case len(found.End) > headerMax:
		return Record{}, nil, errors.New("its last record is too long")
	case found.End != nil:
		last := &end{}
		return Record{}, last, json.Unmarshal(found.End, last)
	case found.File.Name != "":
		a.seen.Files++
		return Record{File: &found.File}, nil, nil
	case found.Table.Name != "":
		a.table = &found.Table
		a.seen.Rows[a.table.Name] += 0
		if len(a.seen.Rows) > tablesMax || len(a.table.Name) > tableNameMax {
			return Record{}, nil, errors.New("it has too many tables, or one with a name that is too long")
		}
		return Record{Table: a.table}, nil, nil
	}
	return Record{}, nil, errors.New("a record that this rowlock does not know")
}

// nothingFollows reads on to the end of the file, which verifies the checksum of gzip and the last chunk as well.
func (a *Reader) nothingFollows() error {
	if _, err := a.lines.ReadByte(); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("something follows its end"), err)
	}
	if _, err := a.raw.ReadByte(); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("something follows its end"), err)
	}
	return nil
}

// damaged wraps errors in the bytes of a file as ErrDamaged. It returns errors of the operating system unchanged.
func damaged(err error) error {
	var corrupt interface{ Timeout() bool } // as errors of files and connections do
	switch {
	case errors.Is(err, ErrDamaged), errors.Is(err, ErrPassphrase), errors.As(err, &corrupt):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fmt.Errorf("%w: it ends early", ErrDamaged)
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}
