package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rowlock/rowlock/resources/admission"
)

// admissionOptions say which admission plugins run.
type admissionOptions struct{ enable, disable []string }

// check refuses plugins that do not exist, and those that are to be both on and off, in kube-apiserver's words.
func (o *admissionOptions) check() []error {
	var errs []error
	known := sets.New(admission.Names()...)
	for _, list := range []struct {
		flag    string
		plugins []string
	}{{"enable-admission-plugins", o.enable}, {"disable-admission-plugins", o.disable}} {
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
