package sqlstore

import "github.com/prometheus/procfs"

// processIO is what Linux has counted of this process (proc_pid_io(5)): WriteBytes, what it had written to disks; WChar, what it gave to
// be written, to files and connections. All is 0 where the system does not say.
func processIO() procfs.ProcIO {
	p, err := procfs.Self()
	if err != nil {
		return procfs.ProcIO{}
	}
	counted, err := p.IO()
	if err != nil {
		return procfs.ProcIO{}
	}
	return counted
}
