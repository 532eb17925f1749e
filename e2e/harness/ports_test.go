package harness_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/rowlock/rowlock/e2e/harness"
)

// TestFreePort checks that no other process is given a port of a running one: a server that it stops and starts again finds its port free.
func TestFreePort(t *testing.T) {
	const given, asked = 300, 300
	if os.Getenv("TAKE_PORTS") != "" {
		for range given {
			port, err := harness.FreePort()
			if err != nil {
				t.Fatal(err)
			}
			fmt.Println(port)
		}
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFreePort$")
	other.Env, other.Stderr = append(os.Environ(), "TAKE_PORTS=1"), os.Stderr
	stdin, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	var theirs []int
	for lines := bufio.NewScanner(stdout); len(theirs) < given && lines.Scan(); {
		var port int
		if _, err := fmt.Sscan(lines.Text(), &port); err != nil {
			t.Fatal(lines.Text())
		}
		theirs = append(theirs, port)
	}
	if len(theirs) != given {
		t.Fatalf("the other process was given %d ports", len(theirs))
	}
	for range asked {
		port, err := harness.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(theirs, port) {
			t.Fatalf("%d was given twice", port)
		}
	}
	_ = stdin.Close()
	if err := other.Wait(); err != nil {
		t.Error(err)
	}
}
