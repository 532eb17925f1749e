package archive

import (
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"golang.org/x/crypto/chacha20poly1305"
	"golang.org/x/crypto/scrypt"
)

// Encryption has the parameters that, with the passphrase, decrypt a backup.
type Encryption struct {
	// Scrypt is the base-2 logarithm of scrypt's cost N; r is 8 and p is 1.
	Scrypt int    `json:"scrypt"`
	Salt   []byte `json:"salt"`
}

const (
	scryptCostMax = 17 // the most that a file may ask for: twice as much as scryptCost takes
	saltSize      = 16
	chunkSize     = 64 << 10
)

// scryptCost is the cost for new backups: 64 MiB, a quarter of a second. Tests set it lower.
var scryptCost = 16

func newEncryption() (*Encryption, error) {
	e := &Encryption{Scrypt: scryptCost, Salt: make([]byte, saltSize)}
	_, err := rand.Read(e.Salt)
	return e, err
}

func (e *Encryption) aead(passphrase []byte) (cipher.AEAD, error) {
	if e.Scrypt < 1 || e.Scrypt > scryptCostMax || len(e.Salt) < saltSize {
		return nil, fmt.Errorf("%w: its encryption is none that rowlock makes", ErrDamaged)
	}
	key, err := scrypt.Key(passphrase, e.Salt, 1<<e.Scrypt, 8, 1, chacha20poly1305.KeySize)
	if err != nil {
		return nil, err
	}
	return chacha20poly1305.New(key)
}

// chunks counts the chunks of a stream: a key is used for one stream, and a nonce for one chunk.
type chunks struct {
	aead  cipher.AEAD
	extra []byte // additional data
	next  uint64
}

func (c *chunks) nonce(last bool) []byte {
	var nonce [chacha20poly1305.NonceSize]byte
	binary.BigEndian.PutUint64(nonce[3:11], c.next)
	if last {
		nonce[11] = 1
	}
	c.next++
	return nonce[:]
}

// sealer encrypts the bytes that are written to it. Close writes the last chunk.
type sealer struct {
	chunks
	to     io.Writer
	buffer []byte // of plaintext
	sealed []byte
}

func (s *sealer) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if len(s.buffer) == chunkSize { // there is more plaintext, so this chunk is not the last
			if err := s.flush(false); err != nil {
				return 0, err
			}
		}
		room := min(chunkSize-len(s.buffer), len(p))
		s.buffer, p = append(s.buffer, p[:room]...), p[room:]
	}
	return n, nil
}

func (s *sealer) flush(last bool) error {
	s.sealed = s.aead.Seal(s.sealed[:0], s.nonce(last), s.buffer, s.extra)
	s.buffer = s.buffer[:0]
	_, err := s.to.Write(s.sealed)
	return err
}

func (s *sealer) Close() error { return s.flush(true) }

// opener decrypts. It returns io.EOF only after the last chunk, and no byte of a chunk that was changed.
type opener struct {
	chunks
	from   io.Reader
	sealed []byte
	plain  []byte // plaintext that was not read yet
	ended  bool
}

func (o *opener) Read(p []byte) (int, error) {
	for len(o.plain) == 0 {
		if o.ended {
			return 0, io.EOF
		}
		if err := o.open(); err != nil {
			return 0, err
		}
	}
	n := copy(p, o.plain)
	o.plain = o.plain[n:]
	return n, nil
}

// open reads a chunk, and the first byte of the next one, if there is one.
func (o *opener) open() error {
	full := chunkSize + o.aead.Overhead()
	if o.sealed == nil {
		o.sealed = make([]byte, 0, full+1)
	}
	n, err := io.ReadFull(o.from, o.sealed[len(o.sealed):full+1])
	o.sealed = o.sealed[:len(o.sealed)+n]
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	last := len(o.sealed) <= full
	chunk := o.sealed[:min(len(o.sealed), full)]
	first := o.next == 0
	plain, err := o.aead.Open(nil, o.nonce(last), chunk, o.extra)
	if err != nil {
		if first {
			return ErrPassphrase
		}
		return fmt.Errorf("%w: it was cut off or changed", ErrDamaged)
	}
	o.plain, o.ended = plain, last
	if !last {
		o.sealed[0] = o.sealed[full]
		o.sealed = o.sealed[:1]
	}
	return nil
}
