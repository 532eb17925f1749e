package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// tick is the unit of CPU time in /proc/<pid>/stat. Linux has shown it as 1/100 s to programs on every architecture that Go supports, whatever the
// kernel's own unit.
const tick = 10 * time.Millisecond

// processes are the processes of one server, each with its descendants; none, when the server runs elsewhere.
type processes []int

// cpu returns the user and system time of the processes since their start, and of their child processes, whether these still run or have ended.
func (p processes) cpu() (time.Duration, error) {
	var total time.Duration
	for _, pid := range p {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, fmt.Errorf("CPU time: %w", err)
		}
		// The second field is the program's name in parentheses and may hold anything, so count from its end: utime and
		// stime are fields 14 and 15, those of children that have ended 16 and 17.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		for _, field := range fields[11:15] {
			ticks, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
			}
			total += time.Duration(ticks) * tick
		}
		below, err := childrenOf(pid).cpu()
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH) { // a process has ended meanwhile
			return 0, err
		}
		total += below
	}
	return total, nil
}

// childrenOf returns the processes that a process has started.
func childrenOf(pid int) (children processes) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is right
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // of a thread that has ended
		}
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// resident returns the resident memory of the processes in bytes. Memory that a process shares with its children is counted once.
func (p processes) resident() (int64, error) {
	var total int64
	for _, pid := range p {
		children := childrenOf(pid)
		if len(children) == 0 {
			kilobytes, err := memory(pid, "status", "VmRSS:")
			if err != nil {
				return 0, err
			}
			total += kilobytes << 10
			continue
		}
		for _, member := range append(children, pid) {
			kilobytes, err := memory(member, "smaps_rollup", "Pss:")
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH) { // a process has ended meanwhile
				return 0, err
			}
			total += kilobytes << 10
		}
	}
	return total, nil
}

// writes returns the number of write system calls of the processes, without those of their children.
func (p processes) writes() (total int64, err error) {
	for _, pid := range p {
		var counted procfs.ProcIO
		p, err := procfs.NewProc(pid)
		if err == nil {
			counted, err = p.IO()
		}
		if err != nil {
			return 0, fmt.Errorf("system calls of %d: %w", pid, err)
		}
		total += int64(counted.SyscW)
	}
	return total, nil
}

// memory reads a number of kilobytes from a file of /proc.
func memory(pid int, file, name string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0, fmt.Errorf("resident memory: %w", err)
	}
	_, rest, found := strings.Cut(string(text), name)
	if !found {
		return 0, fmt.Errorf("/proc/%d/%s has no %s", pid, file, name)
	}
	kilobytes, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("/proc/%d/%s: %w", pid, file, err)
	}
	return kilobytes, nil
}

// diskUsage returns the bytes that the files under a directory take.
func diskUsage(dir string) (int64, error) {
	if dir == "" {
		return 0, nil
	}
	var total int64
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return ignoreGone(err)
		}
		info, err := entry.Info()
		if err != nil {
			return ignoreGone(err)
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			total += stat.Blocks * 512 // the allocated size, not the length: stores preallocate and punch holes
		}
		return nil
	})
	return total, err
}

// ignoreGone ignores that a file vanished while its directory was read: stores remove their own files.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
