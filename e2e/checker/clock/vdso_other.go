//go:build !linux || !amd64

package clock

import (
	"errors"
	"os/exec"
	"time"
)

// Start returns that this platform has no such clocks.
func Start(*exec.Cmd, time.Duration) (*Clock, error) { return nil, Available() }

func (c *Clock) write(time.Duration) error { return Available() }

// Available returns why no process can be given a clock.
func Available() error {
	return errors.New("clocks that jump are put into the vDSO of a process, on Linux on amd64")
}
