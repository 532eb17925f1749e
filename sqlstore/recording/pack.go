package recording

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/flate"
)

// packLevel is where flate makes half of the size that it can, in a fourth of the time.
const packLevel = 2

// unpackedMax bounds what is made of a row, whatever it says.
const unpackedMax = 64 << 20

// Packer packs what is kept of writes. It belongs to one goroutine at a time.
type Packer struct {
	w     *flate.Writer
	plain []byte
}

// Pack returns the state before a write, nil for none, and the one after it, compressed. What both begin and end with is
// there once, and so is what else they have in common, as far as the window of flate reaches: 32 KiB. What else is said of the write, about, is
// not packed, but the checksum is of it, too.
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
			panic(err) // there is this level
		}
		p.w = w
	}
	p.w.Reset(&out)
	_, _ = p.w.Write(p.plain) // into memory
	_ = p.w.Close()
	_, _ = out.Write(checksum(p.plain, about)) // behind the end of the stream, where releases of before do not look
	if cap(p.plain) > plainKept {
		p.plain = nil
	}
	return out.Bytes()
}

// plainKept is how much a Packer keeps for the next write.
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

// checksum is of what is packed, and of what is not.
func checksum(plain, about []byte) []byte {
	return binary.BigEndian.AppendUint32(nil, crc32.Update(crc32.ChecksumIEEE(plain), crc32.IEEETable, about))
}

var errPacked = errors.New("what the object history kept of a write is damaged")

// Unpack is the inverse of Pack, and is told the same about the write. Of an empty row nothing was kept: both are nil.
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
	// Releases of before had none, and then one of what is packed alone.
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
