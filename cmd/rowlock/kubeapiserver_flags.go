package main

import (
	_ "embed"
	"errors"
	"iter"
	"strings"

	"github.com/spf13/pflag"
)

// kubeAPIServerFlags has a line for each flag of kube-apiserver: its name, and the type that its help shows. `make flags`
// writes it, with the release in the first line.
//
//go:embed kubeapiserver_flags.txt
var kubeAPIServerFlags string

// retiredKubeAPIServerFlags are flags that kube-apiserver accepts but does not show in its help, because manifests of past releases have
// them, with its warnings when they are used.
var retiredKubeAPIServerFlags = []struct{ name, kind, deprecated string }{
	{"apiserver-count", "int", "apiserver-count is deprecated and will be removed in a future version."},
	{"default-watch-cache-size", "int", "Watch caches are sized automatically. This flag is no-op and it will be removed in a future version."},
	{"kubelet-port", "uint", "kubelet-port is deprecated and will be removed."},
	{"kubelet-read-only-port", "uint", "kubelet-read-only-port is deprecated and will be removed."},
}

// addRetired adds these flags to those without an effect; no help shows them.
func addRetired(inert *pflag.FlagSet) {
	for _, f := range retiredKubeAPIServerFlags {
		addInert(inert, f.name, f.kind)
		_ = inert.MarkDeprecated(f.name, f.deprecated) // the flag exists
	}
}

// eachKubeAPIServerFlag yields the names of kube-apiserver's flags and their types.
func eachKubeAPIServerFlag() iter.Seq2[string, string] {
	return func(yield func(name, kind string) bool) {
		for line := range strings.Lines(kubeAPIServerFlags) {
			if strings.HasPrefix(line, "#") {
				continue
			}
			name, kind, _ := strings.Cut(strings.TrimSpace(line), " ")
			if !yield(name, kind) {
				return
			}
		}
	}
}

// addInert adds a flag whose value is validated, as in kube-apiserver, but has no effect.
func addInert(flags *pflag.FlagSet, name, kind string) {
	switch kind {
	case "bool":
		flags.Bool(name, false, "")
	case "int":
		flags.Int(name, 0, "")
	case "uint":
		flags.Uint(name, 0, "")
	case "float", "float32":
		flags.Float64(name, 0, "")
	case "duration":
		flags.Duration(name, 0, "")
	case "ip":
		flags.IP(name, nil, "")
	case "strings":
		flags.StringSlice(name, nil, "")
	case "int32Slice":
		flags.Int32Slice(name, nil, "")
	default:
		flags.StringArray(name, nil, "")
	}
}

// checkInert refuses values of flags without an effect that kube-apiserver refuses, with its messages.
func checkInert(inert *pflag.FlagSet) (errs []error) {
	for _, f := range []struct{ name, refusal string }{
		{"livez-grace-period", "--livez-grace-period can not be a negative value"},
		{"storage-initialization-timeout", "--storage-initialization-timeout can not be negative value"},
		{"shutdown-watch-termination-grace-period", "shutdown-watch-termination-grace-period, if provided, can not be a negative value"},
	} {
		if given, err := inert.GetDuration(f.name); err == nil && given < 0 {
			errs = append(errs, errors.New(f.refusal))
		}
	}
	return errs
}
