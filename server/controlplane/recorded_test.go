package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// notRecording is an audit that does not let the server's own writes begin until it is told to.
type notRecording struct {
	resources.Audit
	takes bool
}

func (a *notRecording) Begin(ctx context.Context) (context.Context, error) {
	if !a.takes {
		return ctx, resources.ErrNotRecorded
	}
	return ctx, nil
}

// A start whose writes the audit does not let begin retries them, logs this once, and ends after a minute, as kube-apiserver's does.
func TestStartNotRecorded(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration // how long the audit accepts nothing
		want  error
	}{"for ever": {time.Hour, resources.ErrNotRecorded}, "for a while": {recordedIn / 2, nil}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				began := time.Now()
				err := untilRecorded(t.Context(), slog.New(slog.NewTextHandler(&log, nil)), func() error {
					if time.Since(began) < c.after {
						return fmt.Errorf("namespaces default: %w", resources.ErrNotRecorded)
					}
					return nil
				})
				if took := time.Since(began); !errors.Is(err, c.want) || took > recordedIn || c.want != nil && took < recordedIn {
					t.Errorf("after %v: %v", took, err)
				}
				if n := strings.Count(log.String(), "\n"); n != 1 {
					t.Errorf("the log has %d lines: %s", n, log.String())
				}
			})
		})
	}
}

// A write of a start that the audit does not accept does not count as refused by a user.
func TestNotRecordedIsNoRefusal(t *testing.T) {
	x := newRepairs(t)
	x.send("DELETE", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:basic-user", "", 200)
	audit := &notRecording{}
	p := New(x.p.Config)
	p.Pipeline = resources.NewPipeline(x.store, resources.PipelineOptions{Audit: audit})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var refused refusals
	if err := p.bootstrapObjects(ctx, &refused); !errors.Is(err, resources.ErrNotRecorded) || len(refused.errs) != 0 {
		t.Errorf("%v, refused %v", err, refused.errs)
	}
}
