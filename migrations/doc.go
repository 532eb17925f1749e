// Package migrations holds the schema of Rowlock's tables, as numbered steps that are embedded in the binary. A step
// that both databases have has the same name for SQLite and for Postgres. The numbers of each are without gaps: since
// only SQLite has step 3, the next common step is number 4 there and 3 in Postgres, and steps 8 and 9 are SQLite's.
//
// Servers of two consecutive versions of the schema work side by side on one database. So a step only adds: tables,
// indexes, and columns that have a default or may be null. It does not rename, drop or narrow anything that the
// previous version reads or writes. SQLite's step 9 replaces a table. A file has one server, and step 8, which never
// comes without it, makes the previous version refuse the file.
//
//	migrations.go       the steps, their versions and the errors
//	driver.go           running steps, each with its version, in a transaction
//	sqlite.go           bringing a SQLite file up to date
//	postgres.go         bringing a Postgres schema up to date
//	sqlite/, postgres/  the steps
package migrations
