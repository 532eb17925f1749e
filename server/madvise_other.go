//go:build !linux

package server

// dropCodePages is for Linux alone.
func dropCodePages() {}
