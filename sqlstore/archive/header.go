package archive

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Errors of reading a file.
var (
	// ErrNotBackup: the file does not begin like a backup.
	ErrNotBackup = errors.New("this is not a backup by rowlock")
	// ErrDamaged: the file was cut off or changed.
	ErrDamaged = errors.New("the backup is damaged")
	// ErrPassphrase: the passphrase is wrong, or the first part of the file is damaged; the two cannot be told apart.
	ErrPassphrase = errors.New("the passphrase is not that of the backup, or the backup is damaged")
	// ErrNeedsPassphrase: the backup is encrypted.
	ErrNeedsPassphrase = errors.New("the backup is encrypted: its passphrase is needed (--passphrase-file)")
)

// Format is the version of the format that is written, and the highest one that is read.
const Format = 1

// Header is the beginning of a backup: the part that can be read without its passphrase.
type Header struct {
	// Format is the version of the format. The name of this member, rowlockBackup, marks a file as a backup.
	Format int `json:"rowlockBackup"`
	// Created is when the backup was begun.
	Created time.Time `json:"created"`
	// Version is the version of the rowlock that made it.
	Version string `json:"version"`
	// Database is the kind of the database, Schema the version of its tables.
	Database string `json:"database"`
	Schema   int    `json:"schema"`
	// Revision is the revision of the backup's state.
	Revision int64 `json:"revision"`
	// Beyond is at least Revision: revisions up to it may have been assigned when the backup was made.
	Beyond int64 `json:"beyond"`
	// Encryption is nil if the backup is not encrypted.
	Encryption *Encryption `json:"encryption,omitempty"`
}

// headerMax bounds the size of a header, in bytes.
const headerMax = 64 << 10

// line is the header with its line feed.
func (h *Header) line() ([]byte, error) {
	text, err := json.Marshal(h)
	return append(text, '\n'), err
}

// CheckStart checks the first bytes, which it leaves unread, of a possible backup. Errors: ErrNotBackup, those of the
// reader.
func CheckStart(r *bufio.Reader) error {
	start, err := r.Peek(len(headerStart))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if bytes.HasPrefix(start, []byte("SQLite format 3\x00")) {
		return fmt.Errorf("%w, but a SQLite database, which 'rowlock verify' and 'rowlock backup' read by --datastore sqlite:///its/path", ErrNotBackup)
	}
	if !bytes.Equal(start, []byte(headerStart)) {
		return ErrNotBackup
	}
	return nil
}

// readHeader returns the header, and its line. Errors: ErrNotBackup, ErrDamaged, those of the reader.
func readHeader(r *bufio.Reader) (h Header, line []byte, err error) {
	if err := CheckStart(r); err != nil {
		return h, nil, err
	}
	line, err = readLine(r, headerMax)
	if err != nil {
		return h, nil, err
	}
	// The format first: the rest of a later format is not known.
	var later struct {
		Format int `json:"rowlockBackup"`
	}
	if err := json.Unmarshal(line, &later); err != nil {
		return h, nil, fmt.Errorf("%w: its header: %w", ErrDamaged, err)
	}
	if later.Format > Format {
		return h, nil, fmt.Errorf("the backup has format %d, and this rowlock knows formats up to %d: use a newer rowlock", later.Format, Format)
	}
	if err := json.Unmarshal(line, &h); err != nil {
		return h, nil, fmt.Errorf("%w: its header: %w", ErrDamaged, err)
	}
	if h.Format < 1 || h.Revision < 0 || h.Beyond < h.Revision {
		return h, nil, fmt.Errorf("%w: its header makes no sense", ErrDamaged)
	}
	return h, line, nil
}

const headerStart = `{"rowlockBackup":`

// readLine reads a line of at most most bytes, with its line feed.
func readLine(r *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil, fmt.Errorf("%w: it ends early", ErrDamaged)
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > most:
			return nil, fmt.Errorf("%w: it has a record of more than %d bytes", ErrDamaged, most)
		}
	}
}
