// Package migrations holds the schema of Rowlock's tables, as numbered steps that are embedded in the binary. A step that both
// databases have has the same name for SQLite and for Postgres. The numbers of each are without gaps: since SQLite has step 3
// alone, the next one of both is 4 there and 3 in Postgres.
//
// Servers of two versions of the schema that follow each other work side by side on one database. So a step adds: tables,
// indexes, columns that have a default or may be null. It renames, drops and narrows nothing that the version before it
// reads or writes.
//
//	migrations.go       the steps, their versions and the errors
//	driver.go           taking steps, each with its mark, in a transaction
//	sqlite.go           bringing a SQLite file up to date
//	postgres.go         bringing a Postgres schema up to date
//	sqlite/, postgres/  the steps
package migrations
