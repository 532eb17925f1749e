package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rowlock/rowlock/resources/behind"
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

// routingFlag is kube-apiserver's --enable-aggregator-routing. Its default need not be one of the two values of that flag.
type routingFlag behind.Routing

var _ pflag.Value = (*routingFlag)(nil)

func (r *routingFlag) String() string {
	switch behind.Routing(*r) {
	case behind.ToEndpoints:
		return "true"
	case behind.ToCluster:
		return "false"
	default:
		return ""
	}
}

func (r *routingFlag) Type() string { return "bool" }

func (r *routingFlag) Set(s string) error {
	toEndpoints, err := strconv.ParseBool(s)
	if *r = routingFlag(behind.ToCluster); toEndpoints {
		*r = routingFlag(behind.ToEndpoints)
	}
	return err
}
