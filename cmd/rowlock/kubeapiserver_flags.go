package main

import (
	_ "embed"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/resources/upstream"
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
	case "string":
		flags.String(name, "", "")
	default:
		flags.StringArray(name, nil, "")
	}
}

// checkInert refuses values of flags without an effect that kube-apiserver refuses, with its messages.
func checkInert(inert *pflag.FlagSet) (errs []error) {
	text := func(name string) string { return inert.Lookup(name).Value.String() }
	period := func(name string, otherwise time.Duration) time.Duration {
		if d, err := inert.GetDuration(name); err == nil && inert.Changed(name) {
			return d
		}
		return otherwise
	}
	count, mediaType, overrides := text("apiserver-count"), text("storage-media-type"), text("etcd-servers-overrides")
	n, _ := strconv.Atoi(count)
	lease, renewal, retry := period("coordinated-leadership-lease-duration", 15*time.Second), period("coordinated-leadership-renew-deadline", 10*time.Second),
		period("coordinated-leadership-retry-period", 2*time.Second)
	mediaTypes := []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf, runtime.ContentTypeYAML}
	for _, f := range []struct {
		refused bool
		message string
	}{
		{period("livez-grace-period", 0) < 0, "--livez-grace-period can not be a negative value"},
		{period("storage-initialization-timeout", 0) < 0, "--storage-initialization-timeout can not be negative value"},
		{period("shutdown-watch-termination-grace-period", 0) < 0, "shutdown-watch-termination-grace-period, if provided, can not be a negative value"},
		{text("emulation-forward-compatible") == "true" && !emulates(text("emulated-version")), forwardOf + "EmulationForwardCompatible" + withoutEmulation},
		{text("runtime-config-emulation-forward-compatible") == "true" && !emulates(text("emulated-version")),
			forwardOf + "RuntimeConfigEmulationForwardCompatible" + withoutEmulation},
		{text("storage-backend") != "" && text("storage-backend") != "etcd3", "--storage-backend invalid, allowed values: etcd3. If not specified, it will default to 'etcd3'"},
		{overrides != "[]" && slices.ContainsFunc(strings.Split(overrides[1:len(overrides)-1], ","), isMalformedOverride),
			"--etcd-servers-overrides invalid, must be of format: group/resource#servers, where servers are URLs, semicolon separated"},
		{mediaType != "" && !slices.Contains(mediaTypes, mediaType),
			"--storage-media-type " + strconv.Quote(mediaType) + " invalid, allowed values: " + strings.Join(mediaTypes, ", ")},
		{lease <= renewal, "--coordinated-leadership-lease-duration must be greater than --coordinated-leadership-renew-deadline"},
		{renewal <= retry, "--coordinated-leadership-renew-deadline must be greater than --coordinated-leadership-retry-period"},
		{n <= 0 && inert.Changed("apiserver-count"), "--apiserver-count should be a positive number, but value '" + count + "' provided"},
	} {
		if f.refused {
			errs = append(errs, errors.New(f.message))
		}
	}
	return errs
}

// The parts of kube-apiserver's message about forward compatibility that do not name the option.
const (
	forwardOf        = "ServerRunOptions."
	withoutEmulation = " cannot be set to true if the emulation version is the same as the binary version"
)

// emulates tells whether the value of --emulated-version names another minor version than that of this release.
func emulates(version string) bool {
	return version != "[]" && !strings.Contains(version, upstream.Release[1:strings.LastIndexByte(upstream.Release, '.')])
}

// isMalformedOverride examines a value of --etcd-servers-overrides.
func isMalformedOverride(value string) bool {
	resource, servers, _ := strings.Cut(value, "#")
	return strings.Count(value, "#") != 1 || strings.Count(resource, "/") != 1 || strings.Contains(";"+servers+";", ";;")
}
