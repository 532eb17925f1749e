//go:build !linux

package main

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"os/exec"
)

var errOnlyOnLinux = errors.New("network namespaces, in which Pods run, exist only on Linux")

func runInOwnNetwork(context.Context, ...string) error { return errOnlyOnLinux }
func newNetwork(netip.Prefix) (*os.File, error)        { return nil, errOnlyOnLinux }
func inNetwork(*os.File, func() error) error           { return errOnlyOnLinux }
func addAddress(netip.Prefix) error                    { return errOnlyOnLinux }
func runInContainer(string, bool, []string) error      { return errOnlyOnLinux }

func containerCommand(ctx context.Context, _ string, _ bool, _, command []string) *exec.Cmd {
	return exec.CommandContext(ctx, command[0], command[1:]...)
}
