package sqlstore

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// Progress tells how far a store has come that is being opened, to whoever asks meanwhile. What it says is for everybody: it names no
// host, and no error of the database.
type Progress struct {
	usable, loaded atomic.Bool
	read, about    atomic.Int64 // objects
}

// Database returns nil once the database can be used, until Open or Store.Await wait for it again.
func (p *Progress) Database() error {
	if p.usable.Load() {
		return nil
	}
	return errors.New("the database cannot be used yet")
}

// Objects returns nil once all objects are in memory, and else says how many were read, of about how many.
func (p *Progress) Objects() error {
	if p.loaded.Load() {
		return nil
	}
	if about := p.about.Load(); about > 0 {
		read := p.read.Load()
		return fmt.Errorf("%d of about %d objects read", read, max(about, read))
	}
	return fmt.Errorf("%d objects read", p.read.Load())
}

// awaited says how an attempt to use the database has ended.
func (p *Progress) awaited(err error) {
	if p != nil { // as it is in tests of await alone
		p.usable.Store(err == nil)
	}
}

// begin says that objects are read from the first one on.
func (p *Progress) begin() {
	p.read.Store(0)
	p.about.Store(0)
}

// estimate says how many objects there are, by those in so many of all parts of the table.
func (p *Progress) estimate(parts, all int64) { p.about.Store(p.read.Load() * all / parts) }
