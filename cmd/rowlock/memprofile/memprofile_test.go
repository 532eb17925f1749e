package memprofile

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// Samples are rare, unless GODEBUG sets the rate.
func TestRate(t *testing.T) {
	if os.Getenv("SAY_RATE") != "" {
		t.Log("rate=" + strconv.Itoa(runtime.MemProfileRate))
		return
	}
	for debug, want := range map[string]int{"": Rate, "memprofilerate=4096": 4096, "memprofilerate=0": 0} {
		c := exec.Command(os.Args[0], "-test.run=^TestRate$", "-test.v")
		c.Env = append(os.Environ(), "SAY_RATE=1", "GODEBUG="+debug)
		out, err := c.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "rate="+strconv.Itoa(want)+"\n") {
			t.Errorf("GODEBUG=%q: %v\n%s\nwant %d", debug, err, out, want)
		}
	}
}
