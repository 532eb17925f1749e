package resources

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A list of errors that is too long is cut, and says how many are missing; other lists stay unchanged.
func TestAtMost(t *testing.T) {
	errs := make(field.ErrorList, mostErrors+5)
	for i := range errs {
		errs[i] = field.Required(field.NewPath("spec").Index(i), "")
	}
	if got := atMost(errs[:mostErrors]); len(got) != mostErrors || got[mostErrors-1] != errs[mostErrors-1] {
		t.Errorf("%d errors of %d", len(got), mostErrors)
	}
	got := atMost(errs)
	if len(got) != mostErrors+1 || got[mostErrors-1] != errs[mostErrors-1] {
		t.Fatalf("%d errors of %d", len(got), len(errs))
	}
	if want := "...: Internal error: 5 more errors are not shown"; got[mostErrors].Error() != want {
		t.Errorf("the last one is %q, want %q", got[mostErrors].Error(), want)
	}
}
