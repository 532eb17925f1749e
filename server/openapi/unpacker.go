package openapi

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"io"
)

// unpacker decompresses the output of pack from any position: a document of a hundred megabytes can be sent without being in memory as a whole.
type unpacker struct {
	packed *blocksReader
	size   int64
	z      *gzip.Reader
	// at is the position of z, and next that of the next read.
	at, next int64
}

func newUnpacker(packed blocks) (*unpacker, error) {
	r := packed.reader()
	var size [4]byte // RFC 1952, ISIZE: documents are smaller than 4 GiB
	if _, err := r.Seek(-int64(len(size)), io.SeekEnd); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	u := &unpacker{packed: r, size: int64(binary.LittleEndian.Uint32(size[:])), z: new(gzip.Reader)}
	return u, u.begin()
}

// begin returns to the beginning.
func (u *unpacker) begin() error {
	u.packed.at = 0
	return u.z.Reset(bufio.NewReader(u.packed))
}

// Read implements io.Reader.
func (u *unpacker) Read(p []byte) (int, error) {
	if u.next < u.at {
		if err := u.begin(); err != nil {
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
	return seek(&u.next, u.size, offset, whence)
}
