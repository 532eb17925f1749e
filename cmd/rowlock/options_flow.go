package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// flowOptions say how many requests may be in flight, and whether priority and fairness orders them when there are more.
type flowOptions struct {
	maxInFlight, maxMutatingInFlight int // 0: no limit
	fair                             bool
}

func (o *flowOptions) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.fair, "enable-priority-and-fairness", true,
		"queue requests by FlowSchemas and PriorityLevelConfigurations when there are too many")
	flags.IntVar(&o.maxInFlight, "max-requests-inflight", 400,
		"most concurrent requests, added to --max-mutating-requests-inflight; without priority and fairness, most concurrent reading requests (0: no limit)")
	flags.IntVar(&o.maxMutatingInFlight, "max-mutating-requests-inflight", 200,
		"most concurrent requests, added to --max-requests-inflight; without priority and fairness, most concurrent writing requests (0: no limit)")
}

// check returns what kube-apiserver refuses, with its messages.
func (o *flowOptions) check(runtimeConfig string) (errs []error) {
	if o.maxInFlight < 0 {
		errs = append(errs, errors.New("--max-requests-inflight can not be negative value"))
	}
	if o.maxMutatingInFlight < 0 {
		errs = append(errs, errors.New("--max-mutating-requests-inflight can not be negative value"))
	}
	if err := o.conflict(runtimeConfig); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// conflict is kube-apiserver's refusal of a --runtime-config without the types of priority and fairness, which it orders requests by.
func (o *flowOptions) conflict(runtimeConfig string) error {
	if !o.fair {
		return nil
	}
	for _, apis := range []string{"flowcontrol.apiserver.k8s.io/v1", "api/ga", "api/all"} { // in the order of precedence
		switch {
		case strings.Contains(runtimeConfig, apis+"=false"):
			return fmt.Errorf("--runtime-config=%s=false conflicts with --enable-priority-and-fairness=true", apis)
		case strings.Contains(runtimeConfig, apis+"=true"):
			return nil
		}
	}
	return nil
}

// inFlight returns the limits in the form of server.Config.
func (o *flowOptions) inFlight() (reading, writing int) {
	bound := func(n int) int {
		if n == 0 {
			return -1
		}
		return n
	}
	return bound(o.maxInFlight), bound(o.maxMutatingInFlight)
}
