package pgtest

import "syscall"

// attributes lets a process end at once when the test does, however that ends.
func attributes(c *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: c, Pdeathsig: syscall.SIGQUIT}
}
