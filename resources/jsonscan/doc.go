// Package jsonscan reads the tokens of JSON, for packages that process it without making values of everything:
//
//	scan.go     any text, as clients send it: Scanner, which package typedjson decodes with
//	index.go    large texts of our own, of which a part is read: Index
//	plain.go    whether encoding/json would copy a text unchanged
//	printable.go  how much of a string needs no escape
//	token.go    strings, numbers, and where values end: the common part of the above, and of packages that read only texts which they
//	            wrote themselves (the index of package transcode, the sets of fields of package fieldmanager, stored definitions)
//	escape.go   escape sequences (RFC 8259, section 7)
package jsonscan
