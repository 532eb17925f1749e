package disk

import (
	"bytes"
	"syscall"
	"time"
)

// Fault is what is wrong with the disk; the zero value is nothing.
type Fault struct {
	// Write, Flush and Read are what writes (and whatever else changes files), flushes and reads fail with; 0: they do not.
	Write, Flush, Read syscall.Errno
	// OneOf is how many of these there are to one that fails; 0 and 1: all fail.
	OneOf int
	// Full says that files can grow by Room bytes and no more.
	Full bool
	Room int64
	// Delay is how long a read, write or flush takes at most, in addition to what it takes.
	Delay time.Duration
}

// Break makes something go wrong from now on, in place of what did before.
func (d *Disk) Break(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = f
}

// fails says whether an operation on a file does. What is mapped into memory is read and written by the kernel, with nobody to tell.
func (d *Disk) fails(f *file, with syscall.Errno) syscall.Errno {
	if with == 0 || f != nil && f.shared || d.fault.OneOf > 1 && d.random.IntN(d.fault.OneOf) > 0 {
		return 0
	}
	return with
}

// Moment is when, in a system call, a process is killed.
type Moment int

// The moments. Before: the call changes nothing. Amid: a write has changed half, another call nothing. After: the call has done all.
const (
	Before Moment = iota
	Amid
	After
	Moments
)

// death is the death of a process.
type death struct {
	flush  bool // once a file was flushed, which ends a commit; then
	in     int  // after so many changes
	moment Moment
	kill   func()
	half   bool          // half of the present write is to be done
	done   chan struct{} // closed when the process was killed
}

// KillAt has kill called, which has to kill the process that works on the disk, at a system call that changes or flushes a file or the directory:
// the n-th, counted from 0, after a file was flushed, as a database does at the end of a commit. killed is closed then. Nothing changes
// afterwards, until Spare.
func (d *Disk) KillAt(n int, moment Moment, kill func()) (killed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.death = &death{flush: true, in: n, moment: moment, kill: kill, done: make(chan struct{})}
	return d.death.done
}

// Spare ends what KillAt began, and says whether the process was killed.
func (d *Disk) Spare() (killed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	killed = d.death != nil && d.death.in < 0
	d.death = nil
	return killed
}

// changes says whether a file, or, without one, the directory may be changed; after, if any, is to be called when it was.
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
	case death.in < 0: // the process is dead, and what it was about to do does not happen
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

// Spoil replaces a page of a file that nobody has open, and Mend puts back what was there unless the page was written since. Where the file has no
// such page, nothing happens, and the answer is false.
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

// keep makes durable what the kernel has of a file, as it is after a kill: also what a flush that failed has left out.
func (f *file) keep() {
	f.pending, f.durable = nil, bytes.Clone(f.data)
}

// Mend ends what Spoil began. The file must not be open.
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

// Start returns the first bytes of a file, so many if it has them.
func (d *Disk) Start(name string, length int) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.names[name]; f != nil {
		return bytes.Clone(f.data[:min(length, len(f.data))])
	}
	return nil
}

// Size returns the bytes of a file, 0 where there is none.
func (d *Disk) Size(name string) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.names[name]; f != nil {
		return int64(len(f.data))
	}
	return 0
}
