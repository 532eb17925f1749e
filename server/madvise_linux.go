package server

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// dropCodePages drops the pages of the program's file. Most of the code and constants of the packages that describe the built-in types are needed
// at start and never again. A page that is needed again comes from the page cache; the system may reuse the rest.
//
// This is safe because these pages are unmodified: a mapping with private pages (a breakpoint, relocations) is left alone, since those pages would
// be lost.
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
			// After a failure everything stays as it was.
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, m.from, m.to-m.from, syscall.MADV_DONTNEED)
		}
	}
}

// mapping is an entry of /proc/self/smaps; see proc_pid_smaps(5).
type mapping struct {
	from, to  uintptr
	perms     string // "r-xp"
	path      string
	anonymous string // how much of it differs from the file: "0 kB"
}

// mappings parses entries of /proc/self/smaps: a line that describes the mapping, then lines of "Name: value".
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
