package etcd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"go.etcd.io/bbolt"
)

// bbolt trusts the pages of a file, which it maps into its address space: a missing page ends the process, and a tree
// with a cycle has no end. So the pages are walked first, with read(2), each at most once. After that, bbolt's own
// checks run. The format is that of https://github.com/etcd-io/bbolt/blob/v1.4.3/internal/common/page.go.

// errDamaged says that a file is not the complete file of an etcd.
var errDamaged = errors.New("the file is damaged")

// guarded returns a panic of read as an error, including a fault when it reads memory that is not there.
func guarded(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errDamaged, p)
		}
	}()
	return read()
}

const (
	pageHeader, pageElement, bucketHeader = 16, 16, 16

	branchPage, leafPage, freelistPage = 1, 2, 0x10
	bucketElement                      = 1

	// The offsets in a meta page of the number of the freelist's page, of the first page beyond the last one, and of
	// the transaction.
	metaFreelist, metaPages, metaTransaction = 48, 56, 64
	noFreelist                               = 1<<64 - 1
)

// boltPages are the pages that the state of a transaction can have.
type boltPages struct {
	file       io.ReaderAt
	size       uint64 // of a page
	pages      uint64
	seen       []uint64 // bits
	unfollowed []uint64 // pages that a page refers to
}

// checkPages refuses a file whose pages are invalid.
func checkPages(tx *bbolt.Tx, file io.ReaderAt, fileBytes int64) error {
	size := tx.DB().Info().PageSize
	if size < 1<<9 || size > 1<<24 || size&(size-1) != 0 || tx.Size() < 0 || tx.Size() > fileBytes {
		return fmt.Errorf("%w: it has %d bytes, and should have %d, in pages of %d", errDamaged, fileBytes, tx.Size(), size)
	}
	p := &boltPages{file: file, size: uint64(size), pages: uint64(tx.Size() / int64(size))}
	p.seen = make([]uint64, p.pages/64+1)
	if err := p.freelist(uint64(tx.ID())); err != nil {
		return err
	}
	p.unfollowed = []uint64{uint64(tx.Cursor().Bucket().Root())}
	for n := 1; n > 0; n = len(p.unfollowed) {
		id := p.unfollowed[n-1]
		p.unfollowed = p.unfollowed[:n-1]
		page, err := p.read(id)
		if err == nil {
			err = p.follow(page, true)
		}
		if err != nil {
			return fmt.Errorf("%w: page %d %w", errDamaged, id, err)
		}
	}
	return nil
}

// read reads a page with its overflow pages, once.
func (p *boltPages) read(id uint64) ([]byte, error) {
	header := make([]byte, pageHeader)
	if id < 2 || id >= p.pages {
		return nil, fmt.Errorf("is none of %d", p.pages)
	}
	if _, err := p.file.ReadAt(header, int64(id*p.size)); err != nil { //nolint:gosec // it is within the file
		return nil, err
	}
	more := uint64(binary.LittleEndian.Uint32(header[12:]))
	if binary.LittleEndian.Uint64(header) != id || more >= p.pages-id {
		return nil, fmt.Errorf("says that it is %d, with %d more", binary.LittleEndian.Uint64(header), more)
	}
	for i := id; i <= id+more; i++ {
		if p.seen[i/64]&(1<<(i%64)) != 0 {
			return nil, errors.New("is reached twice")
		}
		p.seen[i/64] |= 1 << (i % 64)
	}
	page := make([]byte, (more+1)*p.size)
	_, err := p.file.ReadAt(page, int64(id*p.size)) //nolint:gosec // as above
	return page, err
}

// follow checks the elements of a page, and notes the pages that it refers to. A page within the value of another page
// refers to none.
func (p *boltPages) follow(page []byte, leads bool) error {
	if len(page) < pageHeader {
		return errors.New("has no header")
	}
	kind, count := binary.LittleEndian.Uint16(page[8:]), int(binary.LittleEndian.Uint16(page[10:]))
	if kind != leafPage && (kind != branchPage || count == 0 || !leads) || pageHeader+count*pageElement > len(page) {
		return fmt.Errorf("has %d elements of kind %d", count, kind)
	}
	for i := range count {
		at := pageHeader + i*pageElement
		number := func(offset int) uint64 { return uint64(binary.LittleEndian.Uint32(page[at+offset:])) }
		if kind == branchPage {
			if begin := uint64(at) + number(0); begin+number(4) > uint64(len(page)) {
				return fmt.Errorf("has an element %d beyond its end", i)
			}
			p.unfollowed = append(p.unfollowed, binary.LittleEndian.Uint64(page[at+8:]))
			continue
		}
		value := uint64(at) + number(4) + number(8)
		end := value + number(12)
		if end > uint64(len(page)) {
			return fmt.Errorf("has an element %d beyond its end", i)
		}
		if number(0)&bucketElement == 0 {
			continue
		}
		if err := p.bucket(page[value:end], leads); err != nil {
			return fmt.Errorf("has a bucket as element %d that %w", i, err)
		}
	}
	return nil
}

// bucket checks a value that is a bucket.
func (p *boltPages) bucket(value []byte, leads bool) error {
	if len(value) < bucketHeader || !leads {
		return errors.New("is none")
	}
	if root := binary.LittleEndian.Uint64(value); root != 0 {
		p.unfollowed = append(p.unfollowed, root)
		return nil
	}
	return p.follow(value[bucketHeader:], false)
}

// freelist checks what the state's meta page says about its pages, and the freelist, if there is one.
func (p *boltPages) freelist(transaction uint64) error {
	meta := make([]byte, metaTransaction+8)
	for i := range 2 {
		if _, err := p.file.ReadAt(meta, int64(i)*int64(p.size)); err != nil { //nolint:gosec // a small number
			return err
		}
		if binary.LittleEndian.Uint64(meta[metaTransaction:]) != transaction {
			continue
		}
		if pages := binary.LittleEndian.Uint64(meta[metaPages:]); pages != p.pages {
			return fmt.Errorf("%w: it says that it has %d pages", errDamaged, pages)
		}
		id := binary.LittleEndian.Uint64(meta[metaFreelist:])
		if id == noFreelist {
			continue
		}
		page, err := p.read(id)
		if err != nil {
			return fmt.Errorf("%w: the list of free pages, page %d, %w", errDamaged, id, err)
		}
		count, begin := uint64(binary.LittleEndian.Uint16(page[10:])), uint64(pageHeader)
		if count == 0xffff {
			count, begin = binary.LittleEndian.Uint64(page[begin:]), begin+8
		}
		if binary.LittleEndian.Uint16(page[8:]) != freelistPage || count > (uint64(len(page))-begin)/8 {
			return fmt.Errorf("%w: the list of free pages has %d of them", errDamaged, count)
		}
	}
	return nil
}

// check checks that a file is sound, as 'etcdutl snapshot status' does.
func check(tx *bbolt.Tx, file io.ReaderAt, fileBytes int64) error {
	if err := checkPages(tx, file, fileBytes); err != nil {
		return err
	}
	var first error
	for err := range tx.Check() {
		if first == nil {
			first = fmt.Errorf("%w: %w", errDamaged, err)
		}
	}
	return first
}
