package server

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// ownFlags are flags whose values Start gives, or which Gates gives, and those of etcd.
var ownFlags = []string{"bind-address", "secure-port", "cert-dir", "tls-cert-file", "tls-private-key-file", "feature-gates", "emulated-version"}

// Flags returns the arguments that make a server's options from the defaults: kube-apiserver's options are bound to flags, and the value of each flag can
// be compared with the default. Options without a flag, of which there are few, have no effect.
func Flags(o *options.ServerRunOptions) []string {
	defaults := values(options.NewServerRunOptions())
	var args []string
	set := values(o)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		value := set[name]
		if slices.Contains(ownFlags, name) || strings.HasPrefix(name, "etcd-") || value.String() == defaults[name].String() {
			continue
		}
		list, ok := value.(pflag.SliceValue)
		if !ok {
			args = append(args, "--"+name+"="+value.String())
			continue
		}
		items := list.GetSlice()
		if len(items) == 0 {
			items = []string{""}
		}
		for _, item := range items {
			args = append(args, "--"+name+"="+item)
		}
	}
	return args
}

// values returns the values of all flags.
func values(o *options.ServerRunOptions) map[string]pflag.Value {
	found := map[string]pflag.Value{}
	for _, set := range o.Flags().FlagSets {
		set.VisitAll(func(f *pflag.Flag) { found[f.Name] = f.Value })
	}
	return found
}

// Gates returns the argument that gives a server the features that are not as by default. Upstream's tests set these in variables of the process.
func Gates(gate featuregate.MutableVersionedFeatureGate) []string {
	var changed []string
	for name, spec := range gate.GetAll() {
		if on := gate.Enabled(name); on != spec.Default && !strings.HasPrefix(string(name), "All") {
			changed = append(changed, string(name)+"="+map[bool]string{true: "true", false: "false"}[on])
		}
	}
	if len(changed) == 0 {
		return nil
	}
	slices.Sort(changed)
	return []string{"--feature-gates=" + strings.Join(changed, ",")}
}
