package openapi

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
)

// unpacker reads what pack made, from any place: a document of a hundred megabytes is sent without being there as a whole.
type unpacker struct {
	packed []byte
	size   int64
	z      *gzip.Reader
	// at is where z is, and next where is to be read.
	at, next int64
}

func newUnpacker(packed []byte) (*unpacker, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(packed[len(packed)-4:]) // RFC 1952, ISIZE: no document has 4 GiB
	return &unpacker{packed: packed, size: int64(size), z: z}, nil
}

// Read implements io.Reader.
func (u *unpacker) Read(p []byte) (int, error) {
	if u.next < u.at {
		if err := u.z.Reset(bytes.NewReader(u.packed)); err != nil {
			return 0, err
		}
		u.at = 0
	}
	if u.next > u.at {
		n, err := io.CopyN(io.Discard, u.z, u.next-u.at)
		if u.at += n; err != nil {
			return 0, err
		}
	}
	n, err := u.z.Read(p)
	u.at += int64(n)
	u.next = u.at
	return n, err
}

// Seek implements io.Seeker.
func (u *unpacker) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += u.next
	case io.SeekEnd:
		offset += u.size
	}
	if offset < 0 {
		return 0, errors.New("a place before the beginning")
	}
	u.next = offset
	return offset, nil
}
