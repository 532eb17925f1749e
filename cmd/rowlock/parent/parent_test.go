package parent

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// A process knows the process that started it.
func TestID(t *testing.T) {
	if os.Getenv("SAY_PARENT") != "" {
		t.Log("parent=" + strconv.Itoa(ID))
		return
	}
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestID$", "-test.v")
	c.Env = append(os.Environ(), "SAY_PARENT=1")
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "parent="+strconv.Itoa(os.Getpid())+"\n") {
		t.Errorf("%v\n%s\nwant %d", err, out, os.Getpid())
	}
}
