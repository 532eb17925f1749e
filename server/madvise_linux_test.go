package server

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMappings(t *testing.T) {
	const smaps = `00400000-02ebe000 r-xp 00000000 fe:00 10603730                           /opt/with space/rowlock
Size:              43768 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
02ebe000-059e3000 r--p 02abe000 fe:00 10603730                           /opt/with space/rowlock
Anonymous:             4 kB
c000000000-c004000000 rw-p 00000000 00:00 0
Anonymous:          9000 kB
7ffe-7fff r-xp 00000000 00:00 0                          [vdso]
Anonymous:             0 kB
`
	want := []mapping{
		{from: 0x400000, to: 0x2ebe000, perms: "r-xp", path: "/opt/with space/rowlock", anonymous: "0 kB"},
		{from: 0x2ebe000, to: 0x59e3000, perms: "r--p", path: "/opt/with space/rowlock", anonymous: "4 kB"},
		{from: 0x7ffe, to: 0x7fff, perms: "r-xp", path: "[vdso]", anonymous: "0 kB"},
	}
	got := slices.Collect(mappings([]byte(smaps)))
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(mapping{})); diff != "" {
		t.Error(diff)
	}
}

// The program finds the pages of its own code, and continues after it has dropped them.
func TestDropCode(t *testing.T) {
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(slices.Collect(mappings(smaps)), func(m mapping) bool {
		return m.path == program && m.perms == "r-xp" && m.anonymous == "0 kB"
	}) {
		t.Errorf("no code of %s in %s", program, smaps)
	}
	dropCodePages()
	if got := strings.Repeat("a", 3); got != "aaa" {
		t.Error(got)
	}
}
