//go:build !linux

package server

// dropCode is for Linux alone.
func dropCode() {}
