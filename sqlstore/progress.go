package sqlstore

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// Progress tells concurrent callers how far the opening of a store has come. Everybody may read it: it contains no host
// name and no error of the database.
type Progress struct {
	usable, loaded atomic.Bool
	read, about    atomic.Int64 // objects
}

// Database returns nil once the database can be used, until Open or Store.Await waits for it again.
func (p *Progress) Database() error {
	if p.usable.Load() {
		return nil
	}
	return errors.New("the database cannot be used yet")
}

// Objects returns nil once all objects are in memory; before that, an error that says how many of about how many were
// read.
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

// awaited records the result of an attempt to use the database.
func (p *Progress) awaited(err error) {
	if p != nil { // nil in tests of await alone
		p.usable.Store(err == nil)
	}
}

// begin resets the count: objects are read from the first one on.
func (p *Progress) begin() {
	p.read.Store(0)
	p.about.Store(0)
}

// estimate computes the number of objects from those that were read in so many of all parts of the table.
func (p *Progress) estimate(parts, all int64) { p.about.Store(p.read.Load() * all / parts) }
