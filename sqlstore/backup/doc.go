// Package backup makes backups of a store and of its data directory, and restores stores from backups.
//
//	write.go    one backup, to a stream or a file
//	keep.go     backups at intervals, of which the last ones are kept
//	check.go    refusing invalid backups
//	restore.go  restoring a backup into an empty data directory and an empty database
//	unread.go   reading a backup twice, also from a stream
//
// # Invariants
//
//   - A backup has one state of the database. It gets its name only when it is complete and flushed.
//   - Restore reads a backup to its end, and finds it complete, before it writes anything.
//   - Until Restore has succeeded, the data directory has the file Unfinished, because of which a server refuses to
//     start there, and another Restore of the same backup starts over. The database gets its content in one step, the
//     last one before this file is removed.
package backup
