package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/rowlock/rowlock/resources/upstream"
	"github.com/rowlock/rowlock/server"
)

// metricsOptions say which metrics and labels are hidden.
type metricsOptions struct {
	server.MetricLimits
	// given is the value of --allow-metric-labels without the manifest, for /flagz.
	given               map[string]string
	manifest, hiddenFor string
}

func (o *metricsOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.Disabled, "disabled-metrics", nil, "`names` of metrics to hide")
	flags.StringToStringVar(&o.given, "allow-metric-labels", nil,
		"allowed `values` of a label of a metric: metric,label=v1,v2; other values are shown as \"unexpected\"")
	flags.StringVar(&o.manifest, "allow-metric-labels-manifest", "", "YAML `file` with the same for several labels, one per line: metric,label: v1,v2")
	flags.StringVar(&o.hiddenFor, "show-hidden-metrics-for-version", "",
		"previous minor `version` of Kubernetes, whose metrics that this version hides are shown")
}

// The syntax of the names of metrics and labels, as in upstream.
const (
	metricName = `[a-zA-Z_:][a-zA-Z0-9_:]*`
	labelName  = `[a-zA-Z_][a-zA-Z0-9_]*`
)

// complete refuses what kube-apiserver refuses, with its messages, and reads the manifest. It may be called again.
func (o *metricsOptions) complete() (errs []error) {
	path := field.NewPath("metrics")
	if want := fmt.Sprintf("%d.%d", upstream.Major, upstream.Minor-1); o.hiddenFor != "" && o.hiddenFor != want {
		errs = append(errs, field.Invalid(path.Child("showHiddenMetricsForVersion"), o.hiddenFor,
			fmt.Sprintf("must be omitted or have the value '%v'; only the previous minor version is allowed", want)))
	}
	for _, name := range o.Disabled {
		if of := "^" + metricName + "$"; !regexp.MustCompile(of).MatchString(name) {
			errs = append(errs, field.Invalid(path.Child("disabledMetrics"), o.Disabled,
				fmt.Sprintf("must be fully qualified metric names matching %q, got %q", of, name)))
			break
		}
	}
	o.Labels = o.given
	if err := checkLabels(path.Child("allowListMapping"), o.given); err != nil {
		errs = append(errs, err)
	}
	switch {
	case o.manifest == "":
		return errs
	case len(o.given) > 0:
		return append(errs, field.Invalid(path, o.manifest, "cannot specify both allowListMapping and allowListMappingManifest"))
	}
	path = path.Child("allowListMappingManifest")
	data, err := os.ReadFile(filepath.Clean(o.manifest))
	if err != nil {
		return append(errs, field.Invalid(path, o.manifest, fmt.Sprintf("failed to read allow list manifest: %v", err)))
	}
	o.Labels = nil // so that Unmarshal creates a map that is not the flag's
	if err := yaml.Unmarshal(data, &o.Labels); err != nil {
		return append(errs, field.Invalid(path, o.manifest, fmt.Sprintf("failed to parse allow list manifest: %v", err)))
	}
	if err := checkLabels(path, o.Labels); err != nil {
		errs = append(errs, field.Invalid(path, o.manifest, fmt.Sprintf("invalid allow list mapping in manifest: %v", err)))
	}
	return errs
}

func checkLabels(path *field.Path, labels map[string]string) error {
	of := regexp.MustCompile("^" + metricName + "," + labelName + "$")
	for key := range labels {
		if !of.MatchString(key) {
			return field.Invalid(path, labels, fmt.Sprintf(
				"must have keys with format `metricName,labelName` where metricName matches %q and labelName matches %q", metricName, labelName))
		}
	}
	return nil
}

// limits limits the metrics of upstream's packages, and returns the limits for the server's own metrics.
func (o *metricsOptions) limits() server.MetricLimits {
	upstream.LimitMetrics(o.Disabled, o.Labels, o.hiddenFor != "")
	limits := o.MetricLimits
	limits.Hidden = o.hiddenFor != ""
	return limits
}
