package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"

	"github.com/klauspost/compress/gzip"
)

// Writer writes a backup.
type Writer struct {
	sealed io.Closer // nil: there is no encryption
	gzip   *gzip.Writer
	digest hash.Hash
	line   bytes.Buffer
	table  string
	end    end
}

// NewWriter writes the header and sets its Format and Encryption: with a passphrase, everything after it is encrypted.
func NewWriter(w io.Writer, h Header, passphrase []byte) (*Writer, error) {
	h.Format, h.Encryption = Format, nil
	if len(passphrase) > 0 {
		var err error
		if h.Encryption, err = newEncryption(); err != nil {
			return nil, err
		}
	}
	line, err := h.line()
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(line); err != nil {
		return nil, err
	}
	a := &Writer{digest: sha256.New(), end: end{Rows: map[string]int{}}}
	a.digest.Write(line)
	if h.Encryption != nil {
		aead, err := h.Encryption.aead(passphrase)
		if err != nil {
			return nil, err
		}
		s := &sealer{chunks: chunks{aead: aead, extra: line}, to: w}
		a.sealed, w = s, s
	}
	a.gzip = gzip.NewWriter(w)
	return a, nil
}

// File adds a file.
func (a *Writer) File(f File) error {
	a.end.Files++
	return a.json(f)
}

// Table begins a table.
func (a *Writer) Table(t Table) error {
	a.table = t.Name
	a.end.Rows[t.Name] += 0
	return a.json(t)
}

// Row adds a row to the last table. Its values are nil, int64, string and []byte.
func (a *Writer) Row(values []any) error {
	a.end.Rows[a.table]++
	a.line.Reset()
	if err := appendRow(&a.line, values); err != nil {
		return err
	}
	return a.write(a.line.Bytes())
}

// Close writes the last record, without which a backup counts as cut off. It does not close the underlying writer.
func (a *Writer) Close() error {
	a.end.SHA256 = hex.EncodeToString(a.digest.Sum(nil))
	err := errors.Join(a.json(map[string]end{"end": a.end}), a.gzip.Close())
	if a.sealed != nil && err == nil {
		err = a.sealed.Close()
	}
	return err
}

func (a *Writer) json(record any) error {
	line, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return a.write(append(line, '\n'))
}

func (a *Writer) write(line []byte) error {
	a.digest.Write(line)
	_, err := a.gzip.Write(line)
	return err
}
