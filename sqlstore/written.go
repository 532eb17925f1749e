package sqlstore

import "github.com/prometheus/procfs"

// processIO returns Linux's counters of this process (proc_pid_io(5)): WriteBytes, the bytes it had written to disks;
// WChar, the bytes it wrote to files and connections. All are 0 if the system does not provide them.
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
