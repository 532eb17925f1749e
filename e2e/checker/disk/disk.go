// Package disk is a faulty disk: a file system of one directory, in memory, which processes reach through FUSE. It knows which bytes of its files
// were flushed, so that a power cut can lose the others. It sees every system call that changes a file, so that a process can be killed at each.
//
//	disk.go           files, and operations on them
//	fault.go          faults
//	power.go          the state after a power cut
//	mount_linux.go    the mount; mount_other.go: other platforms, without one
package disk

import (
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Disk has files in one directory. Its methods may be called concurrently.
type Disk struct {
	mu    sync.Mutex
	names map[string]*file // as processes see them
	kept  map[string]*file // as of the last flush of the directory
	inode uint64           // the last one given
	fault Fault
	death *death // nil: no process is to be killed
	// random chooses the operations that fail, and the data that a power cut leaves.
	random *rand.Rand
}

// New makes an empty disk. The seed chooses the operations that fail, and the data that a power cut leaves.
func New(seed uint64) *Disk {
	return &Disk{names: map[string]*file{}, kept: map[string]*file{}, random: rand.New(rand.NewPCG(seed, 7))}
}

// file is a file; several processes may have it open, and its name may have been removed.
type file struct {
	inode   uint64
	data    []byte   // as processes see it
	durable []byte   // as the disk has it
	pending []change // changes since the last flush, which turn durable into data
	spoiled *spoiled // a page with other bytes than were written
	// shared says that processes map it into memory: the kernel writes such data, at a time of its choice.
	shared bool
}

// change is a write, or, without data, a truncation to a size.
type change struct {
	at   int64 // the offset, or the size
	data []byte
}

// apply makes a change to the bytes of a file.
func (c *change) apply(to []byte) []byte {
	if c.data == nil {
		return resized(to, c.at)
	}
	to = resized(to, max(int64(len(to)), c.at+int64(len(c.data))))
	copy(to[c.at:], c.data)
	return to
}

func resized(data []byte, size int64) []byte {
	if size <= int64(len(data)) {
		return data[:size:size]
	}
	return append(data, make([]byte, size-int64(len(data)))...)
}

func (d *Disk) newFile(name string) *file {
	d.inode++
	return &file{inode: d.inode, shared: strings.HasSuffix(name, "-shm")}
}

// lookup returns the file of a name, or nil.
func (d *Disk) lookup(name string) *file {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.names[name]
}

func (d *Disk) size(f *file) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return int64(len(f.data))
}

// create makes a file, or returns the existing one.
func (d *Disk) create(name string) (*file, syscall.Errno) {
	d.wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.names[name]; f != nil {
		return f, 0
	}
	if after, errno := d.changes(nil); errno != 0 {
		return nil, errno
	} else if after != nil {
		defer after()
	}
	f := d.newFile(name)
	d.names[name] = f
	return f, 0
}

func (d *Disk) remove(name string) syscall.Errno {
	d.wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.names[name]
	if f == nil {
		return syscall.ENOENT
	}
	if after, errno := d.changes(f); errno != 0 {
		return errno
	} else if after != nil {
		defer after()
	}
	delete(d.names, name)
	return 0
}

// open returns whether a file can be opened.
func (d *Disk) open(write bool) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if write && d.fault.Write == syscall.EROFS {
		return syscall.EROFS
	}
	return 0
}

func (d *Disk) read(f *file, dest []byte, at int64) (int, syscall.Errno) {
	d.wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	if errno := d.fails(f, d.fault.Read); errno != 0 {
		return 0, errno
	}
	if at >= int64(len(f.data)) {
		return 0, 0
	}
	return copy(dest, f.data[at:]), 0
}

// write writes as much as fits.
func (d *Disk) write(f *file, data []byte, at int64) (int, syscall.Errno) {
	d.wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	if grows := at + int64(len(data)) - int64(len(f.data)); d.fault.Full && grows > d.fault.Room {
		data = data[:max(0, int64(len(data))-grows+d.fault.Room)]
		if len(data) == 0 {
			return 0, syscall.ENOSPC
		}
	}
	after, errno := d.changes(f)
	if errno != 0 {
		if d.death != nil && d.death.half {
			d.death.half = false
			d.do(f, change{at: at, data: data[:len(data)/2]})
		}
		return 0, errno
	}
	d.do(f, change{at: at, data: data})
	if after != nil {
		after()
	}
	return len(data), 0
}

func (d *Disk) truncate(f *file, size int64) syscall.Errno {
	d.wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	if grows := size - int64(len(f.data)); d.fault.Full && grows > d.fault.Room {
		return syscall.ENOSPC
	}
	after, errno := d.changes(f)
	if errno != 0 {
		return errno
	}
	d.do(f, change{at: size})
	if after != nil {
		after()
	}
	return 0
}

// do makes a change that only processes see, until it is flushed.
func (d *Disk) do(f *file, c change) {
	if c.data != nil {
		if len(c.data) == 0 {
			return
		}
		c.data = append([]byte(nil), c.data...)
	}
	before := int64(len(f.data))
	f.data = c.apply(f.data)
	d.fault.Room -= max(0, int64(len(f.data))-before)
	f.pending = append(f.pending, c)
	if s := f.spoiled; s != nil && c.data != nil && c.at <= s.at && c.at+int64(len(c.data)) >= s.at+int64(len(s.before)) {
		f.spoiled = nil
	}
}

// flush makes written data durable. After a flush that fails, the data may be on the disk or not, and Linux does not try again.
func (d *Disk) flush(f *file) syscall.Errno {
	d.wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	if errno := d.fails(f, d.fault.Flush); errno != 0 {
		for i := range f.pending {
			if d.random.IntN(2) == 0 {
				f.durable = f.pending[i].apply(f.durable)
			}
		}
		f.pending = nil
		return errno
	}
	after, errno := d.changes(f)
	if errno != 0 {
		return errno
	}
	f.settle()
	if d.death != nil {
		d.death.flush = false
	}
	if after != nil {
		after()
	}
	return 0
}

// settle makes written data durable.
func (f *file) settle() {
	for i := range f.pending {
		f.durable = f.pending[i].apply(f.durable)
	}
	f.pending = nil
}

// flushDirectory makes the names durable.
func (d *Disk) flushDirectory() syscall.Errno {
	d.wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	after, errno := d.changes(nil)
	if errno != 0 {
		return errno
	}
	d.kept = cloned(d.names)
	if after != nil {
		after()
	}
	return 0
}

func cloned(names map[string]*file) map[string]*file {
	all := make(map[string]*file, len(names))
	for name, f := range names {
		all[name] = f
	}
	return all
}

// wait sleeps for the disk's delay.
func (d *Disk) wait() {
	d.mu.Lock()
	delay := d.fault.Delay
	if delay > 0 {
		delay = time.Duration(d.random.Int64N(int64(delay)))
	}
	d.mu.Unlock()
	time.Sleep(delay)
}
