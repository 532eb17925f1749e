package aggregate

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resolve returns the URL to which a request for a group version is sent.
func (a *Aggregator) Resolve(ctx context.Context, group, version string) (string, error) {
	b, err := a.Find(ctx, schema.GroupVersion{Group: group, Version: version})
	if err != nil {
		return "", err
	}
	at, err := b.resolve(ctx)
	if err != nil {
		return "", err
	}
	return at.String(), nil
}

// AskWithin sets the time that other servers have for an answer. It comes before the first request.
func (a *Aggregator) AskWithin(d time.Duration) { a.askWithin = d }
