package handlers

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// Long YAML texts are decoded a few at a time; short ones, and JSON, do not wait for them.
func TestLongYAMLTakesTurns(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	long := []byte("a:\n" + strings.Repeat("- a\n", longYAML/4))
	apply := func(ctx context.Context, body []byte) error {
		p := &patcher{body: body, typ: types.ApplyYAMLPatchType}
		_, _, err := p.configuration(ctx)
		return errors.Join(wellFormed(ctx, body, p.typ), err)
	}
	for range mostLongYAML {
		longYAMLs <- struct{}{}
	}
	if err := apply(gone, long); !errors.Is(err, context.Canceled) {
		t.Errorf("while others are read: %v", err)
	}
	if err := apply(gone, []byte("a: [b]")); err != nil {
		t.Errorf("what is short: %v", err)
	}
	if err := wellFormed(gone, []byte(`{"a":"`+strings.Repeat("b", longYAML)+`"}`), types.ApplyYAMLPatchType); err != nil {
		t.Errorf("JSON: %v", err)
	}
	for range mostLongYAML {
		<-longYAMLs
	}
	if err := apply(t.Context(), long); err != nil || len(longYAMLs) > 0 {
		t.Errorf("when nobody is: %v, and %d are left", err, len(longYAMLs))
	}
}
