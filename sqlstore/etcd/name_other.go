//go:build !linux

package etcd

import "os"

// unnamed returns nil: only Linux has files without a name that can get one later.
func unnamed(string) (*os.File, string) { return nil, "" }

// giveName gives a file another name. Errors: fs.ErrExist if the name is taken.
func giveName(path, as string) error { return os.Link(path, as) }
