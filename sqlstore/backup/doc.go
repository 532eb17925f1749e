// Package backup makes backups of a store with the data directory that belongs to it, and stores of backups.
//
//	write.go    one backup, to a stream or a file
//	keep.go     backups at intervals, of which the last ones are kept
//	check.go    what of a backup is refused
//	restore.go  an empty data directory and an empty database become those of a backup
//	unread.go   a backup that is read twice, from a stream too
//
// # Invariants
//
//   - A backup has one state of the database. It has its name only when it is whole and flushed.
//   - Restore reads a backup to its end, and finds it whole, before it writes anything.
//   - While Restore has not ended well, the data directory has the file Unfinished, by which a server refuses to start there, and a
//     Restore of the same backup begins again. The database gets its content in one step, which is the last but that of
//     removing this file.
package backup
