// Package jsonscan reads the tokens of JSON, for all who go through it without making values of everything:
//
//	scan.go     any text, as it comes from clients: Scanner, along which package typedjson decodes
//	index.go    large texts of our own, of which a part is read: Index
//	plain.go    whether a text is one that encoding/json would copy
//	printable.go  how much of a string stands for itself
//	token.go    strings, numbers, and where values end: what all of them have in common, and those who read only what they wrote
//	            themselves (the index of package transcode, the sets of fields of package fieldmanager, stored definitions)
//	escape.go   escape sequences (RFC 8259, section 7)
package jsonscan
