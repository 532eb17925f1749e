package server

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// dropCodePages lets go of the pages of the program's file. Most of the code and the constants of the packages that describe
// the built-in types is needed at start and never again. Pages that are needed come back from the system's cache of the
// file; the system may use the rest for something else.
//
// It holds because nothing writes to these pages: a mapping that has pages of its own (a breakpoint, relocations) is left
// alone, since those would be lost.
func dropCodePages() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	for m := range mappings(smaps) {
		if m.path == program && m.perms[1] != 'w' && m.anonymous == "0 kB" {
			// A failure leaves things as they are.
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, m.from, m.to-m.from, syscall.MADV_DONTNEED)
		}
	}
}

// mapping is an entry of /proc/self/smaps; see proc_pid_smaps(5).
type mapping struct {
	from, to  uintptr
	perms     string // "r-xp"
	path      string
	anonymous string // how much of it is not as in the file: "0 kB"
}

// mappings reads entries of /proc/self/smaps: a line that describes the mapping, then lines of "Name: value".
func mappings(smaps []byte) func(yield func(mapping) bool) {
	return func(yield func(mapping) bool) {
		var m mapping
		for line := range bytes.Lines(smaps) {
			text := strings.TrimSpace(string(line))
			if value, ok := strings.CutPrefix(text, "Anonymous:"); ok {
				if m.anonymous = strings.TrimSpace(value); m.path != "" && !yield(m) {
					return
				}
				continue
			}
			var offset, device, inode string
			next := mapping{}
			if n, _ := fmt.Sscanf(text, "%x-%x %s %s %s %s", &next.from, &next.to, &next.perms, &offset, &device, &inode); n == 6 {
				_, path, _ := strings.Cut(text, " "+inode+" ")
				next.path = strings.TrimSpace(path)
				m = next
			}
		}
	}
}
