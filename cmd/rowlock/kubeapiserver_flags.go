package main

import (
	_ "embed"
	"iter"
	"strings"

	"github.com/spf13/pflag"
)

// kubeAPIServerFlags has a line for each flag of kube-apiserver: its name, and the type that its help shows. `make flags`
// writes it, with the release in the first line.
//
//go:embed kubeapiserver_flags.txt
var kubeAPIServerFlags string

// retiredKubeAPIServerFlags are those that kube-apiserver takes and its help does not show: manifests of past releases have them.
const retiredKubeAPIServerFlags = `
apiserver-count int
default-watch-cache-size int
kubelet-port uint
kubelet-read-only-port uint
`

// addRetired adds to the flags that do nothing those that no help shows.
func addRetired(inert *pflag.FlagSet) {
	for line := range strings.Lines(strings.TrimSpace(retiredKubeAPIServerFlags)) {
		name, kind, _ := strings.Cut(strings.TrimSpace(line), " ")
		addInert(inert, name, kind)
		_ = inert.MarkHidden(name) // the flag is there
	}
}

// eachKubeAPIServerFlag goes over the names of kube-apiserver's flags and their types.
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

// addInert adds a flag that is checked for its form, as kube-apiserver does, and does nothing.
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
