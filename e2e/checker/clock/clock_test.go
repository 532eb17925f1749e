package clock

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// asChild is set in the environment of the process that reports the time.
const asChild = "ROWLOCK_TEST_CLOCK"

func TestMain(m *testing.M) {
	if os.Getenv(asChild) == "" {
		os.Exit(m.Run())
	}
	began := time.Now()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		now := time.Now()
		fmt.Println(now.UnixNano(), int64(now.Sub(began)))
	}
}

// TestClockJumps checks that a process sees its clock jump, to the nanosecond, and not the clock of its timers.
func TestClockJumps(t *testing.T) {
	if err := Available(); err != nil {
		t.Skip(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asChild+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	const first = 90 * time.Minute
	began := time.Now() // The process begins to count before Start returns.
	c, err := Start(cmd, first)
	if err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(out)
	want := func(offset time.Duration) {
		t.Helper()
		before := time.Now()
		if _, err := fmt.Fprintln(in); err != nil {
			t.Fatal(err)
		}
		var wall, passed int64
		if _, err := fmt.Fscanln(answers, &wall, &passed); err != nil {
			t.Fatal(err)
		}
		after := time.Now()
		if shown := time.Unix(0, wall).Add(-offset); shown.Before(before.Round(0)) || shown.After(after.Round(0)) {
			t.Errorf("with an offset of %v, the clock shows %v between %v and %v", offset, time.Unix(0, wall), before, after)
		}
		if most := time.Since(began); passed < 0 || time.Duration(passed) > most {
			t.Errorf("with an offset of %v, %v have passed in %v", offset, time.Duration(passed), most)
		}
	}
	want(first)
	const year = 365 * 24 * time.Hour
	for _, offset := range []time.Duration{0, 1, -1, time.Second - 1, 1 - time.Second, time.Second, -time.Hour, 90 * year, -50 * year, -50*year - 1, 120 * year, 0} {
		if err := c.Set(offset); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			want(offset)
		}
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if c.Set(0) == nil {
		t.Error("the clock of a process that has ended was set")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
