package handlers

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/codec"
)

// Long YAML texts are decoded a few at a time; short ones, and JSON, do not wait for them.
func TestLongYAMLTakesTurns(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	long := []byte("a:\n" + strings.Repeat("- a\n", codec.LongYAML/4))
	apply := func(ctx context.Context, body []byte) error {
		p := &patcher{q: &request{served: &resources.Served{Type: &resources.Type{Untyped: true}}}, body: body, typ: types.ApplyYAMLPatchType}
		_, _, err := p.configuration(ctx)
		return errors.Join(wellFormed(ctx, body, p.typ), err)
	}
	free := takeTurns()
	if err := apply(gone, long); !errors.Is(err, context.Canceled) {
		t.Errorf("while others are read: %v", err)
	}
	if err := apply(gone, []byte("a: [b]")); err != nil {
		t.Errorf("what is short: %v", err)
	}
	if err := wellFormed(gone, []byte(`{"a":"`+strings.Repeat("b", codec.LongYAML)+`"}`), types.ApplyYAMLPatchType); err != nil {
		t.Errorf("JSON: %v", err)
	}
	free()
	if err := apply(t.Context(), long); err != nil {
		t.Errorf("when nobody is: %v", err)
	}
}

// takeTurns takes all turns of long texts, until free is called.
func takeTurns() (free func()) {
	text, release := make([]byte, codec.LongYAML), make(chan struct{})
	var turns sync.WaitGroup
	for range codec.MostLongYAML {
		began := make(chan struct{})
		turns.Go(func() {
			_ = codec.InTurn(context.Background(), text, func() error {
				close(began)
				<-release
				return nil
			})
		})
		<-began
	}
	return func() {
		close(release)
		turns.Wait()
	}
}
