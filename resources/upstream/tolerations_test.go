package upstream

import (
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds"
)

func TestSetTolerationSeconds(t *testing.T) {
	defer func() { _ = SetTolerationSeconds(300, 300) }()
	if err := SetTolerationSeconds(17, 18); err != nil {
		t.Fatal(err)
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	defaulttolerationseconds.RegisterFlags(flags) // the flags' defaults are the values in force
	for name, want := range map[string]string{"not-ready": "17", "unreachable": "18"} {
		if got := flags.Lookup("default-" + name + "-toleration-seconds").DefValue; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
