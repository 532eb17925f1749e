//go:build !linux

package server

// dropCodePages does something on Linux only.
func dropCodePages() {}
