package pgtest

import "syscall"

// attributes makes a process end at once when the test ends, in whatever way.
func attributes(c *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: c, Pdeathsig: syscall.SIGQUIT}
}
