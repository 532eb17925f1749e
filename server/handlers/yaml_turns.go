package handlers

import (
	"context"

	"github.com/rowlock/rowlock/server/codec"
)

// Decoding YAML takes up to a kilobyte of memory for each scalar. Therefore only a few long texts are decoded at a time. This is no slower, because
// decoding is pure computation.
const (
	longYAML     = 128 << 10
	mostLongYAML = 2
)

var longYAMLs = make(chan struct{}, mostLongYAML)

// inTurn decodes YAML. If the context ends while it waits, it returns the context's error.
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

// decodeInTurn decodes a body; if it is YAML, in turn.
func (q *request) decodeInTurn(media string, body []byte, read func() error) error {
	if media != codec.YAML {
		return read()
	}
	return inTurn(q.ctx, body, read)
}
