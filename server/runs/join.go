package runs

import (
	"encoding/binary"
	"hash/crc32"
	"io"
)

// Joint writes one gzip stream (RFC 1952) of runs and plain bytes. It must not be used concurrently. After an error it writes nothing more.
type Joint struct {
	to   io.Writer
	crc  uint32
	size uint32 // modulo 2^32, as in gzip
	err  error
}

var (
	// header is the header of a gzip stream of deflate, compressed for speed, without name and time.
	header = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255}
	// end is the last block: a stored one without bytes.
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

// mostStored is the maximum of bytes in a stored block.
const mostStored = 1<<16 - 1

// Write writes bytes uncompressed, for the little between runs.
func (j *Joint) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		block := rest[:min(len(rest), mostStored)]
		rest = rest[len(block):]
		var head [5]byte // a stored block, not the last; its length and the complement
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
