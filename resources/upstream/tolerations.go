package upstream

import (
	"strconv"

	"github.com/spf13/pflag"
	"k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds"
)

// SetTolerationSeconds sets how many seconds a Pod without its own tolerations stays on a node that is not ready, or cannot be reached. It
// comes before the plugin DefaultTolerationSeconds is made, which takes the values only from flags.
func SetTolerationSeconds(notReady, unreachable int64) error {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	defaulttolerationseconds.RegisterFlags(flags)
	if err := flags.Set("default-not-ready-toleration-seconds", strconv.FormatInt(notReady, 10)); err != nil {
		return err
	}
	return flags.Set("default-unreachable-toleration-seconds", strconv.FormatInt(unreachable, 10))
}
