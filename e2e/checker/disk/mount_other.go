//go:build !linux

package disk

import "errors"

// Mount says that there is no such mount here.
func (d *Disk) Mount(string) (unmount func() error, err error) { return nil, Available() }

// Available says why no disk can be mounted.
func Available() error { return errors.New("disks that break need FUSE, on Linux") }
