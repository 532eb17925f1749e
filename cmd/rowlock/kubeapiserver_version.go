package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/rowlock/rowlock/resources/upstream"
)

// versionFlag is kube-apiserver's --version: true and raw print the version and exit; the server reports vX.Y.Z-own as its own
// version (k8s.io/component-base/version/verflag, whose flag is global to the process).
type versionFlag string

// The values of versionFlag besides a version.
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

// act prints the version, or makes the server report another one, as the flag says. end: the process has nothing else to do.
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
