package codec

import "context"

// Reading YAML, and writing it, takes up to a kilobyte of memory for each scalar. Therefore only a few long texts are converted at a time. This is no
// slower, because the conversion is pure computation.
const (
	// LongYAML is the length in bytes from which a text waits for its turn, MostLongYAML the number of turns at a time.
	LongYAML     = 128 << 10
	MostLongYAML = 2
)

var longYAMLs = make(chan struct{}, MostLongYAML)

// InTurn calls convert, which converts a text from or to YAML. If the context ends while it waits for its turn, it returns the context's error.
// convert must not wait for anything.
func InTurn(ctx context.Context, text []byte, convert func() error) error {
	if len(text) >= LongYAML {
		select {
		case longYAMLs <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-longYAMLs }()
	}
	return convert()
}
