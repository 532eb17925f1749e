package main

import (
	"context"
	"errors"
	"os"
	"testing"
)

// A process ends with the process that started it, even if that has ended before the first look.
func TestEndsWithParent(t *testing.T) {
	ctx, stop := withParent(t.Context(), os.Getppid())
	defer stop()
	if err := ctx.Err(); err != nil {
		t.Fatal(err)
	}
	orphan, stopOrphan := withParent(t.Context(), -1) // no process has this ID
	defer stopOrphan()
	select {
	case <-orphan.Done():
		if err := orphan.Err(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-t.Context().Done():
	}
	if ctx.Err() != nil {
		t.Error("the parent lives")
	}
}
