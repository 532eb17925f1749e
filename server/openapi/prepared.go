package openapi

import (
	"strings"
)

// prepared is a document that was built before the program was compiled.
type prepared struct{ fingerprint, etag, name string }

// nameV2 is the name of the document of version 2 in the index.
const nameV2 = "v2"

// findPrepared returns the prepared document with a fingerprint. The index has some sixty lines.
func findPrepared(fingerprint string) (prepared, bool) {
	for line := range strings.Lines(preparedIndex) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == fingerprint {
			return prepared{f[0], f[1], f[2]}, true
		}
	}
	return prepared{}, false
}

// json makes a document of version 3 from the archive.
func (p prepared) json() ([]byte, error) {
	found, err := sections(archive, definitionsSection, p.fingerprint)
	if err != nil {
		return nil, err
	}
	definitions, err := parseDefinitions(found[definitionsSection])
	if err != nil {
		return nil, err
	}
	return expand(string(found[p.fingerprint]), definitions)
}
