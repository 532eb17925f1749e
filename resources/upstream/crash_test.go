package upstream_test

import (
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/rowlock/rowlock/resources/upstream"
)

// HandleCrash ends a panic in upstream's code.
func TestSurvivePanics(t *testing.T) {
	defer func(was bool) { utilruntime.ReallyCrash = was }(utilruntime.ReallyCrash)
	upstream.SurvivePanics()
	handled := false
	func() {
		defer utilruntime.HandleCrash(func(any) { handled = true })
		panic("unforeseen")
	}()
	if !handled {
		t.Error("the panic was not handled")
	}
}
