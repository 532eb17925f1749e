package recording

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/flate"
)

// packLevel is the level at which flate achieves half of its compression in a fourth of the time.
const packLevel = 2

// unpackedMax bounds the unpacked size of a row, whatever the row claims.
const unpackedMax = 64 << 20

// Packer packs the states of writes. It belongs to one goroutine at a time.
type Packer struct {
	w     *flate.Writer
	plain []byte
}

// Pack returns the state before a write (nil for none) and the one after it, compressed. Their common beginning and end
// are stored once, and so are other common parts within the window of flate, which is 32 KiB. about, which describes
// the write otherwise, is not stored, but the checksum covers it.
func (p *Packer) Pack(before, after, about []byte) []byte {
	start := commonStart(before, after)
	end := commonEnd(before[start:], after[start:])
	b := binary.AppendUvarint(p.plain[:0], uint64(len(before)))
	b = append(b, before...)
	b = binary.AppendUvarint(b, uint64(start))
	b = binary.AppendUvarint(b, uint64(end))
	p.plain = append(b, after[start:len(after)-end]...)
	var out bytes.Buffer
	if p.w == nil {
		w, err := flate.NewWriter(&out, packLevel)
		if err != nil {
			panic(err) // the level is valid
		}
		p.w = w
	}
	p.w.Reset(&out)
	_, _ = p.w.Write(p.plain) // into memory
	_ = p.w.Close()
	_, _ = out.Write(checksum(p.plain, about)) // after the end of the stream, where earlier releases do not look
	if cap(p.plain) > plainKept {
		p.plain = nil
	}
	return out.Bytes()
}

// plainKept is how many bytes of buffer a Packer keeps for the next write.
const plainKept = 256 << 10

func commonStart(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func commonEnd(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// checksum covers the packed states, and about.
func checksum(plain, about []byte) []byte {
	return binary.BigEndian.AppendUint32(nil, crc32.Update(crc32.ChecksumIEEE(plain), crc32.IEEETable, about))
}

var errPacked = errors.New("what the object history kept of a write is damaged")

// Unpack is the inverse of Pack, and takes the same about. An empty row has no states: both are nil.
func Unpack(packed, about []byte) (before, after []byte, err error) {
	if len(packed) == 0 {
		return nil, nil, nil
	}
	stream := bytes.NewReader(packed)
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(stream), unpackedMax+1))
	if err != nil || len(plain) > unpackedMax {
		return nil, nil, errors.Join(errPacked, err)
	}
	sum := packed[len(packed)-stream.Len():]
	// Earlier releases wrote no checksum, and later one of the packed states only.
	if len(sum) > 0 && !bytes.Equal(sum, checksum(plain, about)) && !bytes.Equal(sum, checksum(plain, nil)) {
		return nil, nil, errPacked
	}
	var numbers [3]uint64
	for i := range numbers {
		n, size := binary.Uvarint(plain)
		if size <= 0 || n > unpackedMax {
			return nil, nil, errPacked
		}
		if plain, numbers[i] = plain[size:], n; i > 0 {
			continue
		}
		if n > uint64(len(plain)) {
			return nil, nil, errPacked
		}
		before, plain = plain[:n:n], plain[n:]
	}
	start, end := numbers[1], numbers[2]
	if start+end > uint64(len(before)) {
		return nil, nil, errPacked
	}
	after = append(append(append(after, before[:start]...), plain...), before[uint64(len(before))-end:]...)
	if len(before) == 0 {
		before = nil
	}
	return before, after, nil
}
