package trial

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"syscall"
	"time"

	"github.com/rowlock/rowlock/e2e/checker/disk"
	"github.com/rowlock/rowlock/e2e/harness"
)

const (
	databaseFile = "rowlock.db"
	// commitCalls is the number of system calls after the end of a commit at which a server is killed, in turn: a commit has fewer, unless it moves the
	// log into the file.
	commitCalls = 32
	// recoverWithin is how long a server may take to be ready after a fault.
	recoverWithin = 30 * time.Second
)

// mount mounts the disk for SQLite's files.
func (s *servers) mount(o *Options, at string) (err error) {
	if err := os.MkdirAll(at, 0o700); err != nil {
		return err
	}
	s.disk = disk.New(o.Seed)
	s.unmount, err = s.disk.Mount(at)
	return err
}

// systemCall kills the server at a system call of a commit: before, amid and after each in turn.
func (b *breaker) systemCall() (bool, error) {
	turn := b.calls
	if !b.killAt(turn%commitCalls, disk.Moment(turn/commitCalls)%disk.Moments) {
		return false, nil
	}
	b.calls++
	b.disk.Spare()
	return true, b.restart(b.ctx, 0, func() {})
}

// killAt kills the server at a system call, and returns whether there was one soon enough. Until Spare, nothing is written to the disk.
func (b *breaker) killAt(call int, moment disk.Moment) bool {
	server := b.running[0]
	killed := b.disk.KillAt(call, moment, func() { _ = server.Signal(syscall.SIGKILL) })
	select {
	case <-killed:
	case <-b.round.Done():
	case <-time.After(2 * time.Second):
	}
	select {
	case <-killed:
		server.Kill()
		return true
	default:
		if b.disk.Spare() {
			server.Kill()
			return true
		}
		return false
	}
}

// power kills the server somewhere in a commit, and the disk loses unflushed data.
func (b *breaker) power() (bool, error) {
	if !b.killAt(b.IntN(commitCalls), disk.Moment(b.IntN(int(disk.Moments)))) {
		return false, nil
	}
	b.disk.CutPower()
	return true, b.restart(b.ctx, 0, func() {})
}

// full has no room on the disk for a while.
func (b *breaker) full() (bool, error) {
	return b.broken(disk.Fault{Full: true, Room: b.Int64N(64 << 10)})
}

// readOnly makes all writes fail for a while, as file systems do after errors.
func (b *breaker) readOnly() (bool, error) { return b.broken(disk.Fault{Write: syscall.EROFS}) }

// io makes reads, writes and flushes fail for a while: all, or some.
func (b *breaker) io() (bool, error) {
	f := disk.Fault{OneOf: 1 + b.IntN(20)}
	which := 1 + b.IntN(7)
	for bit, errno := range []*syscall.Errno{&f.Write, &f.Flush, &f.Read} {
		if which&(1<<bit) != 0 {
			*errno = syscall.EIO
		}
	}
	return b.broken(f)
}

// slow makes each read, write and flush take longer for a while.
func (b *breaker) slow() (bool, error) {
	return b.broken(disk.Fault{Delay: time.Millisecond << b.IntN(8)})
}

// broken breaks the disk for a while. The server has to keep running, and to be ready soon after.
func (b *breaker) broken(f disk.Fault) (bool, error) {
	b.disk.Break(f)
	b.wait(100*time.Millisecond, 2*time.Second)
	b.disk.Break(disk.Fault{})
	return true, b.recovers(0)
}

// recovers waits until a server is ready.
func (b *breaker) recovers(i int) error {
	targets, err := b.targets()
	if err != nil {
		return err
	}
	ended := b.running[i].Ended()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		select {
		case <-ended:
			return errors.New("the server has ended by itself")
		default:
		}
		request, err := http.NewRequestWithContext(b.ctx, http.MethodGet, targets[i].URL+"/readyz?verbose", nil)
		if err != nil {
			return err
		}
		response, err := targets[i].Client.Do(request)
		if err == nil {
			err = response.Body.Close()
			if err == nil && response.StatusCode != http.StatusOK {
				err = errors.New(response.Status)
			}
		}
		if err == nil {
			return nil
		}
		if time.Since(began) > recoverWithin {
			return fmt.Errorf("nothing is broken for %v, and the server is not ready: %w", recoverWithin, err)
		}
	}
}

// damaged is the last message of a server that ends because its file is damaged.
var damaged = regexp.MustCompile(`Error: [^\n]*(malformed|corrupt|damaged|not a database)[^\n]*\s*$`)

// pageSize is SQLite's page size from the beginning of a file; 0 if the file has none yet.
func pageSize(start []byte) int {
	if len(start) < 18 {
		return 0
	}
	if size := int(binary.BigEndian.Uint16(start[16:])); size != 1 {
		return size
	}
	return 65536
}

// corrupt replaces a page of the database by zeros or by random bytes. The server may refuse to start, and then has to say why; if it starts, it must
// not show anything that was not written. Later the page is restored.
func (b *breaker) corrupt() (bool, error) {
	b.running[0].Kill()
	page := make([]byte, pageSize(b.disk.Start(databaseFile, 18)))
	if b.IntN(2) == 0 {
		for i := range page {
			page[i] = byte(b.Uint32())
		}
	}
	if len(page) == 0 || !b.disk.Spoil(databaseFile, b.IntN(max(1, int(b.disk.Size(databaseFile))/len(page))), page) {
		return false, b.restart(b.ctx, 0, func() {})
	}
	server, err := harness.StartRowlock(b.ctx, b.options[0])
	switch {
	case err == nil:
		b.running[0] = server
		b.wait(500*time.Millisecond, 2*time.Second)
		server.Kill()
	case !damaged.MatchString(err.Error()):
		return true, fmt.Errorf("the server does not say what is wrong with its file: %w", err)
	}
	b.disk.Mend(databaseFile)
	return true, b.restart(b.ctx, 0, func() {})
}
