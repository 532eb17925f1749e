package upstream

import (
	"strconv"

	"github.com/spf13/pflag"
	"k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds"
)

// SetTolerationSeconds says how long a Pod that does not say so itself stays on a node that is not ready, or cannot be reached, in seconds.
// The plugin DefaultTolerationSeconds, which is made after that, knows it by flags alone.
func SetTolerationSeconds(notReady, unreachable int64) error {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	defaulttolerationseconds.RegisterFlags(flags)
	if err := flags.Set("default-not-ready-toleration-seconds", strconv.FormatInt(notReady, 10)); err != nil {
		return err
	}
	return flags.Set("default-unreachable-toleration-seconds", strconv.FormatInt(unreachable, 10))
}
