package main

import (
	"bytes"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Logging an error whose Error method panics, such as a nil pointer, does not end the program.
func TestErrorsThatPanicAreLogged(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var log bytes.Buffer
		options := &logOptions{level: "warn", format: format}
		var none *apierrors.StatusError
		options.logger(&log).Error("it failed", "error", none)
		if s := log.String(); !strings.Contains(s, "it failed") || !strings.Contains(s, "<nil>") {
			t.Errorf("%s: %s", format, s)
		}
	}
}
