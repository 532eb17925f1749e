package runs

import (
	"encoding/binary"
	"hash/crc32"
	"io"
)

// Joint is one gzip stream (RFC 1952) of runs and of bytes. It is used by one goroutine. After an error nothing more is
// written.
type Joint struct {
	to   io.Writer
	crc  uint32
	size uint32 // modulo 2^32, as gzip has it
	err  error
}

var (
	// header is that of a gzip stream of deflate that was compressed for speed, without a name or a time.
	header = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255}
	// end is the last block: a stored one of no bytes.
	end = []byte{1, 0, 0, 0xff, 0xff}
)

// NewJoint begins a stream.
func NewJoint(to io.Writer) *Joint {
	j := &Joint{to: to}
	j.send(header)
	return j
}

func (j *Joint) send(p []byte) {
	if j.err == nil {
		_, j.err = j.to.Write(p)
	}
}

// mostStored is how many bytes a stored block holds.
const mostStored = 1<<16 - 1

// Write writes bytes as they are, for the little that stands between runs.
func (j *Joint) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		block := rest[:min(len(rest), mostStored)]
		rest = rest[len(block):]
		var head [5]byte // not the last block, stored; its length and the complement of that
		binary.LittleEndian.PutUint16(head[1:], uint16(len(block)))
		binary.LittleEndian.PutUint16(head[3:], ^uint16(len(block)))
		j.send(head[:])
		j.send(block)
	}
	j.crc = crc32.Update(j.crc, crc32.IEEETable, p)
	j.size += uint32(len(p))
	if j.err != nil {
		return 0, j.err
	}
	return len(p), nil
}

// Run writes a run.
func (j *Joint) Run(r *Run) error {
	j.send(r.data)
	j.crc = times(j.crc, r.shift) ^ r.crc
	j.size += uint32(r.size)
	return j.err
}

// Close ends the stream.
func (j *Joint) Close() error {
	j.send(end)
	var trailer [8]byte
	binary.LittleEndian.PutUint32(trailer[:], j.crc)
	binary.LittleEndian.PutUint32(trailer[4:], j.size)
	j.send(trailer[:])
	return j.err
}
