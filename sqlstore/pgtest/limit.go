package pgtest

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
)

// LimitFiles bounds the size of each of the cluster's files, in bytes; 0 lifts the bound. For Postgres, reaching it is
// like a full disk, and setting it takes no privilege. A file of the write-ahead log has to fit.
func (c *Cluster) LimitFiles(bytes uint64) error {
	pids, err := c.children()
	if err != nil {
		return err
	}
	prlimit, err := exec.LookPath("prlimit")
	if err != nil {
		return fmt.Errorf("install the package util-linux: %w", err)
	}
	soft := "unlimited"
	if bytes > 0 {
		soft = strconv.FormatUint(bytes, 10)
	}
	var errs []error
	for _, pid := range append([]int{c.cmd.Process.Pid}, pids...) {
		// As the owner of the processes, because root in a container may not be allowed to.
		if out, err := c.program(prlimit, "--pid", strconv.Itoa(pid), "--fsize="+soft+":").CombinedOutput(); err != nil && alive(pid) {
			errs = append(errs, fmt.Errorf("prlimit: %w: %s", err, out))
		}
	}
	return errors.Join(errs...)
}
