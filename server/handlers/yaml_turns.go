package handlers

import (
	"context"

	"github.com/rowlock/rowlock/server/codec"
)

// As text of YAML is read, it takes up to a kilobyte of memory for each scalar in it: what is long is read by a few at a time, which is no slower, as
// it is computing alone.
const (
	longYAML     = 128 << 10
	mostLongYAML = 2
)

var longYAMLs = make(chan struct{}, mostLongYAML)

// inTurn reads YAML. Who cannot wait any longer is told so by the error of the context.
func inTurn(ctx context.Context, text []byte, read func() error) error {
	if len(text) >= longYAML {
		select {
		case longYAMLs <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-longYAMLs }()
	}
	return read()
}

// decodeInTurn reads a body of a media type: in turn, where that is YAML.
func (q *request) decodeInTurn(media string, body []byte, read func() error) error {
	if media != codec.YAML {
		return read()
	}
	return inTurn(q.ctx, body, read)
}
