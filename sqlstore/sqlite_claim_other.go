//go:build !linux

package sqlstore

import "os"

// claim is nil: where locks of open file descriptions are not known, the file is locked by its name alone.
func claim(*os.File) error { return nil }

// isElsewhere is false: it is not known.
func isElsewhere(*os.File) bool { return false }

// unclaim closes a file that was claimed.
func unclaim(f *os.File) error { return f.Close() }
