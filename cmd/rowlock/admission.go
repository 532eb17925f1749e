package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/sets"
	apiadmission "k8s.io/apiserver/pkg/admission"

	"github.com/rowlock/rowlock/resources/admission"
	"github.com/rowlock/rowlock/resources/upstream"
)

// admissionOptions say which admission plugins run, and how they are configured.
type admissionOptions struct {
	enable, disable []string
	// only are the plugins that run and no others, as with kube-apiserver's deprecated --admission-control; nil: the flag is not given.
	only []string
	// besides are enabled unless they are in disable, although kube-apiserver disables them by default.
	besides []string

	// notReady and unreachable are the seconds of the plugin DefaultTolerationSeconds.
	notReady, unreachable int64

	configFile    string
	configuration apiadmission.ConfigProvider
}

// nodeRestriction complements the Node authorizer, which allows every kubelet to create Pods and to change Nodes, including those of
// other nodes. With a Pod that a kubelet creates on its own node it could read any Secret.
const nodeRestriction = "NodeRestriction"

// enabled returns the plugins to enable.
func (o *admissionOptions) enabled() []string { return slices.Concat(o.enable, o.only, o.besides) }

// disabled returns the plugins to disable.
func (o *admissionOptions) disabled() []string {
	if o.only == nil {
		return o.disable
	}
	return slices.DeleteFunc(admission.Names(), func(name string) bool { return slices.Contains(o.only, name) })
}

func (o *admissionOptions) addFlags(flags *pflag.FlagSet) {
	o.besides = []string{nodeRestriction}
	flags.StringSliceVar(&o.enable, "enable-admission-plugins", nil, "`names` of admission plugins to turn on")
	flags.StringSliceVar(&o.disable, "disable-admission-plugins", nil, "`names` of admission plugins to turn off, such as ServiceAccount")
	flags.Int64Var(&o.notReady, "default-not-ready-toleration-seconds", 300, "toleration `seconds` for the taint not-ready of a node, for Pods that set none")
	flags.Int64Var(&o.unreachable, "default-unreachable-toleration-seconds", 300, "toleration `seconds` for the taint unreachable of a node, for Pods that set none")
	flags.StringVar(&o.configFile, "admission-control-config-file", "", "`file` with an AdmissionConfiguration for the plugins")
}

// complete reads the configuration.
func (o *admissionOptions) complete() (err error) {
	if errs := o.check(); len(errs) > 0 {
		return usagef("--%w", errs[0])
	}
	if o.configuration, err = admission.ReadConfiguration(o.configFile, o.enabled()); err != nil {
		return usagef("--admission-control-config-file: %w", err)
	}
	return upstream.SetTolerationSeconds(o.notReady, o.unreachable)
}

// check refuses unknown plugins, and those that are both enabled and disabled, with kube-apiserver's messages.
func (o *admissionOptions) check() []error {
	var errs []error
	if o.only != nil && (o.enable != nil || o.disable != nil) {
		errs = append(errs, errors.New("admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive"))
	}
	known := sets.New(admission.Names()...)
	for _, list := range []struct {
		flag    string
		plugins []string
	}{{"admission-control", o.only}, {"enable-admission-plugins", o.enable}, {"disable-admission-plugins", o.disable}} {
		for _, name := range list.plugins {
			if !known.Has(name) {
				errs = append(errs, fmt.Errorf("%s plugin %q is unknown", list.flag, name))
			}
		}
	}
	if both := sets.New(o.enable...).Intersection(sets.New(o.disable...)); len(both) > 0 {
		errs = append(errs, fmt.Errorf("%v in enable-admission-plugins and disable-admission-plugins overlapped", sets.List(both)))
	}
	return errs
}
