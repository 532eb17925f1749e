package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/rowlock/rowlock/resources/upstream"
)

// versionFlag is kube-apiserver's --version: true and raw print the version and end, vX.Y.Z-own is reported by the server as its own
// (k8s.io/component-base/version/verflag, whose flag is one for the whole process).
type versionFlag string

// What versionFlag may be, besides a version.
const (
	versionFalse versionFlag = "false"
	versionTrue  versionFlag = "true"
	versionRaw   versionFlag = "raw"
)

// String implements pflag.Value.
func (v *versionFlag) String() string { return string(*v) }

// Type implements pflag.Value.
func (v *versionFlag) Type() string { return "version" }

// Set implements pflag.Value.
func (v *versionFlag) Set(s string) error {
	switch {
	case s == string(versionRaw):
		*v = versionRaw
		return nil
	case strings.HasPrefix(s, "v"):
		if err := upstream.ValidateVersion(s); err != nil {
			return err
		}
		*v = versionFlag(s)
		return nil
	}
	print, err := strconv.ParseBool(s)
	if *v = versionFalse; print {
		*v = versionTrue
	}
	return err
}

// act does what the flag asks for, and tells whether that was all.
func (v versionFlag) act(out io.Writer) (end bool, err error) {
	switch v {
	case versionFalse:
		return false, nil
	case versionRaw:
		_, err = fmt.Fprintf(out, "%#v\n", upstream.Version())
		return true, err
	case versionTrue:
		_, err = fmt.Fprintf(out, "Kubernetes %s\n", upstream.Version().GitVersion)
		return true, err
	}
	upstream.ReportVersion(string(v))
	return false, nil
}
