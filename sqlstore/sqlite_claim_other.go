//go:build !linux

package sqlstore

import "os"

// claim does nothing: without locks of open file descriptions, only the lock file beside the name protects the
// database.
func claim(*os.File) error { return nil }

// isClaimed is false: nobody claims a file.
func isClaimed(*os.File) bool { return false }

// isElsewhere is false: the system does not tell.
func isElsewhere(*os.File) bool { return false }

// unclaim closes a file that was claimed.
func unclaim(f *os.File) error { return f.Close() }
