package upstream

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/capabilities"
)

// TestPrivilegedIsReadFromTheVariable: upstream's validation follows SetCapabilities, and has no other such setting.
func TestPrivilegedIsReadFromTheVariable(t *testing.T) {
	var fields []string
	for f := range reflect.TypeFor[capabilities.Capabilities]().Fields() {
		fields = append(fields, f.Name)
	}
	if diff := cmp.Diff([]string{"AllowPrivileged", "PrivilegedSources", "PerConnectionBandwidthLimitBytesPerSec"}, fields); diff != "" {
		t.Errorf("capabilities: %s", diff)
	}
	yes := true
	for _, allowed := range []bool{true, false} { // the variable is set once in a process, except in tests
		capabilities.ResetForTest()
		SetCapabilities(allowed, 7)
		if rate := ConnectionRate(); rate != 7 {
			t.Errorf("the rate is %d", rate)
		}
		errs := validation.ValidateSecurityContext(&core.SecurityContext{Privileged: &yes}, field.NewPath("securityContext"), true, false)
		if (len(errs) == 0) != allowed {
			t.Errorf("allowed is %v: %v", allowed, errs)
		}
	}
}
