package openapi

import (
	"errors"
	"io"
)

// blocks is a text in parts, which can grow without copying: a document of a hundred megabytes has ten when compressed.
type blocks [][]byte

// Write implements io.Writer.
func (b *blocks) Write(p []byte) (int, error) {
	const size = 256 << 10
	for rest := p; len(rest) > 0; {
		last := len(*b) - 1
		if last < 0 || len((*b)[last]) == size {
			*b = append(*b, make([]byte, 0, size))
			continue
		}
		n := min(len(rest), size-len((*b)[last]))
		(*b)[last] = append((*b)[last], rest[:n]...)
		rest = rest[n:]
	}
	return len(p), nil
}

func (b blocks) reader() *blocksReader {
	r := &blocksReader{blocks: b}
	for _, block := range b {
		r.size += int64(len(block))
	}
	return r
}

// blocksReader reads blocks from any position.
type blocksReader struct {
	blocks
	size, at int64
}

// Read implements io.Reader.
func (r *blocksReader) Read(p []byte) (int, error) {
	at := r.at
	for _, block := range r.blocks {
		if size := int64(len(block)); at >= size {
			at -= size
			continue
		}
		n := copy(p, block[at:])
		r.at += int64(n)
		return n, nil
	}
	return 0, io.EOF
}

// Seek implements io.Seeker.
func (r *blocksReader) Seek(offset int64, whence int) (int64, error) {
	return seek(&r.at, r.size, offset, whence)
}

// seek is Seek for a text of this size; at is the position of the next read.
func seek(at *int64, size, offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += *at
	case io.SeekEnd:
		offset += size
	}
	if offset < 0 {
		return 0, errors.New("a place before the beginning")
	}
	*at = offset
	return offset, nil
}
