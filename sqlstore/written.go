package sqlstore

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/procfs"
)

// writtenBytes is the counter of the bytes that this process had written to disks; nil if the system does not count
// them, because it is not Linux, or /proc is not mounted at proc or hides them.
func writtenBytes(proc string) prometheus.Collector {
	if _, err := processIO(proc); err != nil {
		return nil
	}
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rowlock_store_written_bytes_total",
		Help: "Bytes that the process wrote to disks, for the database and all else. Divide its rate by that of rowlock_store_events_total for the bytes per write."},
		func() float64 {
			counted, _ := processIO(proc) // it could be read before
			return float64(counted.WriteBytes)
		})
}

// processIO returns Linux's counters of this process (proc_pid_io(5)): WriteBytes, the bytes it had written to disks;
// WChar, the bytes it wrote to files and connections.
func processIO(proc string) (procfs.ProcIO, error) {
	fs, err := procfs.NewFS(proc)
	if err != nil {
		return procfs.ProcIO{}, err
	}
	p, err := fs.Self()
	if err != nil {
		return procfs.ProcIO{}, err
	}
	return p.IO()
}
