//go:build !linux

package disk

import "errors"

// Mount returns that this platform has no such mount.
func (d *Disk) Mount(string) (unmount func() error, err error) { return nil, Available() }

// Available returns why no disk can be mounted.
func Available() error { return errors.New("disks that break need FUSE, on Linux") }
