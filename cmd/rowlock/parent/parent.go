// Package parent remembers the parent of the process. The package imports only syscall, so it is initialised before the packages of Kubernetes, which
// take a tenth of a second, or seconds on a busy machine: the parent may end in that time.
package parent

import "syscall"

// ID is the process ID of the parent when this process began.
var ID = syscall.Getppid()
