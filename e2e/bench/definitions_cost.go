package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
)

// exactCPU is the CPU time of all threads of the processes, to the nanosecond: one request costs less than a tick. Threads that have ended are not
// included; Go's seldom end.
func (p processes) exactCPU() (total time.Duration, err error) {
	for _, pid := range p {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid)) // the pattern is right
		for _, thread := range threads {
			text, err := os.ReadFile(thread)
			if err != nil {
				continue // it has ended
			}
			n, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", thread, err)
			}
			total += time.Duration(n)
		}
	}
	return total, nil
}

// anonymous is the resident memory of the processes that belongs to no file, in bytes.
func (p processes) anonymous() (total int64, err error) {
	for _, pid := range p {
		kilobytes, err := memory(pid, "status", "RssAnon:")
		if err != nil {
			return 0, err
		}
		total += kilobytes << 10
	}
	return total, nil
}

// peak runs do and returns the highest resident memory of the processes meanwhile, in bytes, and that before.
func (p processes) peak(do func() error) (before, most int64, err error) {
	for _, pid := range p {
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
			return 0, 0, err
		}
	}
	if before, err = p.resident(); err != nil {
		return 0, 0, err
	}
	if err := do(); err != nil {
		return 0, 0, err
	}
	for _, pid := range p {
		kilobytes, err := memory(pid, "status", "VmHWM:")
		if err != nil {
			return 0, 0, err
		}
		most += kilobytes << 10
	}
	return before, most, nil
}

// goroutines is the number of goroutines of the answering server.
func (b *bench) goroutines(ctx context.Context) (int64, error) {
	if _, err := b.admin.do(ctx, request{method: "GET", path: "/metrics", accept: "text/plain", keep: true}); err != nil {
		return 0, err
	}
	return numberAfter(b.admin.body.Bytes(), []byte("\ngo_goroutines ")), nil
}

// validationAlone is the cost of upstream's validation of definitions by itself, each once, in this process, with as much garbage
// before a collection as in a server.
func validationAlone(all []*defined) (each time.Duration, err error) {
	internal := make([]*apiextensions.CustomResourceDefinition, len(all))
	for i, d := range all {
		crd := d.crd.DeepCopy()
		apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(crd)
		internal[i] = &apiextensions.CustomResourceDefinition{}
		if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, internal[i], nil); err != nil {
			return 0, err
		}
		for _, v := range crd.Spec.Versions {
			if v.Storage {
				internal[i].Status.StoredVersions = []string{v.Name}
			}
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	runtime.GC()
	began, err := ownCPU()
	if err != nil {
		return 0, err
	}
	for _, crd := range internal {
		if errs := validation.ValidateCustomResourceDefinition(context.Background(), crd); len(errs) > 0 {
			return 0, fmt.Errorf("%s: %w", crd.Name, errs.ToAggregate())
		}
	}
	ended, err := ownCPU()
	return (ended - began) / time.Duration(len(internal)), err
}

// ownCPU is the CPU time of this process.
func ownCPU() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, err
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}
