// Package archive is the format of Rowlock's backups. It does not depend on databases: a backup consists of files and
// rows of tables.
//
//	header.go  the first line of a backup
//	seal.go    encryption with a passphrase
//	record.go  a record as a line of JSON
//	write.go, read.go
//
// # Format 1
//
// A backup begins with a line of JSON, the Header. The rest is a stream that is compressed with gzip (RFC 1952) and, if
// the header has an encryption, then encrypted. So a backup without a passphrase can be read with other tools:
//
//	tail -n +2 FILE | gunzip
//
// The stream consists of lines of JSON, each a record:
//
//	{"file":"pki/ca.crt","mode":420,"data":"…"}         a file of the data directory: permissions, content in base64
//	{"table":"objects","columns":["resource",…]}        a table begins
//	["pods","default","web",17,null,null,"{…}"]         a row of it, as it is stored
//	{"end":{"files":7,"rows":{"objects":1},"sha256":"…"}}
//
// A value of a row is null, an integer, a text, or {"bytes":"…"} in base64; {"text":"…"} in base64 is a text that is
// not UTF-8. There are at most 64 tables, with names of at most 63 bytes. The last record, of at most 64 KiB, has the
// SHA-256 of the header's line and all records before it, with their line feeds.
// Nothing follows it. A backup without a last record was cut off.
//
// # Encryption
//
// The key is derived by scrypt (RFC 7914) from the passphrase and the salt in the header, which is new for every
// backup. That takes 64 MiB; a header that asks for more than twice that is refused. The stream is cut into chunks of
// 64 KiB, of which only the last may be shorter, each sealed with ChaCha20-Poly1305 (RFC 8439) and the header's line as
// additional data. The nonce is the number of the chunk in 11 bytes, big-endian, and a byte that is 1 for the last
// chunk and otherwise 0 (the construction STREAM, as in age), so that no chunk can be left out, moved, or taken for the
// last.
package archive
