package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// choice is a flag with a few possible values.
type choice struct {
	value *string
	of    []string
}

var _ pflag.Value = (*choice)(nil)

// newChoice makes *value a choice with the first value as its default.
func newChoice(value *string, of ...string) *choice {
	*value = of[0]
	return &choice{value: value, of: of}
}

func (c *choice) String() string { return *c.value }

func (c *choice) Type() string { return strings.Join(c.of, "|") }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.of, s) {
		return fmt.Errorf("must be one of %s", strings.Join(c.of, ", "))
	}
	*c.value = s
	return nil
}
