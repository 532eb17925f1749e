//go:build !linux

package h2

import "net"

// quiet does nothing on this system.
type quiet struct{}

func newQuiet(net.Conn) *quiet { return nil }

func (*quiet) on()  {}
func (*quiet) off() {}

func (*quiet) pending() bool { return false }
