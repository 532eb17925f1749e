package disk

import (
	"bytes"
	"syscall"
	"time"
)

// Fault is a fault of the disk; the zero value is none.
type Fault struct {
	// Write, Flush and Read are the errors of writes (and of other changes of files), flushes and reads; 0: they succeed.
	Write, Flush, Read syscall.Errno
	// OneOf makes one of this many operations fail; 0 and 1: all fail.
	OneOf int
	// Full says that files can grow by Room bytes and no more.
	Full bool
	Room int64
	// Delay is the longest additional time of a read, write or flush.
	Delay time.Duration
}

// Break introduces a fault from now on, in place of the previous one.
func (d *Disk) Break(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = f
}

// fails returns whether an operation on a file fails. For a file that is mapped into memory it does not: the kernel reads and writes it, without a
// process to get the error.
func (d *Disk) fails(f *file, with syscall.Errno) syscall.Errno {
	if with == 0 || f != nil && f.shared || d.fault.OneOf > 1 && d.random.IntN(d.fault.OneOf) > 0 {
		return 0
	}
	return with
}

// Moment is the moment in a system call at which a process is killed.
type Moment int

// The moments. Before: the call changes nothing. Amid: a write has changed half, another call nothing. After: the call is complete.
const (
	Before Moment = iota
	Amid
	After
	Moments
)

// death is the kill of a process.
type death struct {
	flush  bool // first wait for a flush of a file, which ends a commit
	in     int  // then kill after this many changes
	moment Moment
	kill   func()
	half   bool          // only half of the present write is to be done
	done   chan struct{} // closed when the process was killed
}

// KillAt calls kill, which has to kill the process that works on the disk, at a system call that changes or flushes a file or the directory: the
// n-th, counted from 0, after a file was flushed, as a database does at the end of a commit. It then closes killed. Nothing changes afterwards, until
// Spare.
func (d *Disk) KillAt(n int, moment Moment, kill func()) (killed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.death = &death{flush: true, in: n, moment: moment, kill: kill, done: make(chan struct{})}
	return d.death.done
}

// Spare ends the effect of KillAt, and returns whether the process was killed.
func (d *Disk) Spare() (killed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	killed = d.death != nil && d.death.in < 0
	d.death = nil
	return killed
}

// changes returns whether a file, or, without one, the directory may be changed; after, if not nil, is to be called after the change.
func (d *Disk) changes(f *file) (after func(), errno syscall.Errno) {
	if f != nil && f.shared {
		return nil, 0
	}
	if errno := d.fails(f, d.fault.Write); errno != 0 {
		return nil, errno
	}
	death := d.death
	switch {
	case death == nil || death.flush:
		return nil, 0
	case death.in > 0:
		death.in--
		return nil, 0
	case death.in < 0: // the process is dead, and its present call does not happen
		return nil, syscall.EIO
	}
	death.in--
	death.half = death.moment == Amid
	die := func() {
		death.kill()
		close(death.done)
	}
	if death.moment == After {
		return die, 0
	}
	die()
	return nil, syscall.EIO
}

// spoiled is a page with other bytes than were written.
type spoiled struct {
	at     int64
	before []byte
}

// Spoil replaces a page of a file that no process has open. Mend restores it unless the page was written since. If the file has no such page, Spoil
// does nothing and returns false.
func (d *Disk) Spoil(name string, number int, page []byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.names[name]
	at := int64(number) * int64(len(page))
	if f == nil || at+int64(len(page)) > int64(len(f.data)) {
		return false
	}
	f.keep()
	f.spoiled = &spoiled{at: at, before: append([]byte(nil), f.data[at:at+int64(len(page))]...)}
	copy(f.data[at:], page)
	copy(f.durable[at:], page)
	return true
}

// keep makes durable the kernel's content of a file, as it is after a kill, including data that a failed flush has left out.
func (f *file) keep() {
	f.pending, f.durable = nil, bytes.Clone(f.data)
}

// Mend ends the effect of Spoil. The file must not be open.
func (d *Disk) Mend(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.names[name]
	if f == nil || f.spoiled == nil {
		return
	}
	f.keep()
	copy(f.data[f.spoiled.at:], f.spoiled.before)
	copy(f.durable[f.spoiled.at:], f.spoiled.before)
	f.spoiled = nil
}

// Start returns the first bytes of a file, up to length.
func (d *Disk) Start(name string, length int) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.names[name]; f != nil {
		return bytes.Clone(f.data[:min(length, len(f.data))])
	}
	return nil
}

// Size returns the size of a file, or 0 without one.
func (d *Disk) Size(name string) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.names[name]; f != nil {
		return int64(len(f.data))
	}
	return 0
}
