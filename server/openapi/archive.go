package openapi

import (
	"bytes"
	_ "embed" // the files below
	"fmt"
	"io"
	"slices"
	"strings"
)

// These files are written by `make generate` (openapigen). A test builds them again and compares.
var (
	// preparedIndex has a line for every prepared document: its fingerprint, its ETag and its name.
	//go:embed prepared/index.txt
	preparedIndex string
	// archive has the definitions and, by fingerprint, the templates of the documents of version 3.
	//go:embed prepared/archive.gz
	archive []byte
	// v2JSON is the document of version 2 for the default configuration, as it is sent.
	//go:embed prepared/v2.json.gz
	v2JSON []byte
	//go:embed prepared/v2.pb.gz
	v2Protobuf []byte
)

// definitionsSection is the first section of the archive.
const definitionsSection = "definitions"

// sections returns the named sections of the archive.
func sections(packed []byte, names ...string) (map[string][]byte, error) {
	text, err := unpackArchive(packed)
	if err != nil {
		return nil, err
	}
	found := map[string][]byte{}
	for len(found) < len(names) {
		head, rest, _ := bytes.Cut(text, []byte("\n"))
		var name string
		var size int
		if _, err := fmt.Sscanf(string(head), "%s %d", &name, &size); err != nil {
			return nil, fmt.Errorf("OpenAPI archive, looking for %s: %w", names, err)
		}
		if size > len(rest) {
			return nil, fmt.Errorf("OpenAPI archive, section %s: %w", name, io.ErrUnexpectedEOF)
		}
		if slices.Contains(names, name) {
			found[name] = slices.Clone(rest[:size]) // the rest of the archive is not retained
		}
		text = rest[size:]
	}
	return found, nil
}

// unpackArchive is the inverse of packArchive.
func unpackArchive(packed []byte) ([]byte, error) {
	data, err := unpack(packed)
	if err != nil {
		return nil, fmt.Errorf("OpenAPI archive: %w", err)
	}
	return unpackRepeats(data)
}

// definitionText is a definition in the archive, on a line: its name, its dependencies, its schema in documents of version 3, and its schema of
// version 2 if that differs.
type definitionText struct {
	dependencies []string
	v3, v2       string
}

func parseDefinitions(section []byte) (map[string]definitionText, error) {
	all := map[string]definitionText{}
	for line := range strings.Lines(string(section)) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(parts) != 4 {
			return nil, fmt.Errorf("OpenAPI archive: a definition in %d parts", len(parts))
		}
		all[parts[0]] = definitionText{strings.Fields(parts[1]), parts[2], parts[3]}
	}
	return all, nil
}

// A template is a document in which definitions are replaced. A schema that begins like a definition has the definition's name, between these two
// characters, in place of the common part: all but the last brace, before which a document may add extensions.
const (
	nameBegins = '\x01'
	nameEnds   = '\x02'
)

// expand converts a template to its document.
func expand(template string, definitions map[string]definitionText) ([]byte, error) {
	var out bytes.Buffer
	for {
		plain, rest, more := strings.Cut(template, string(nameBegins))
		out.WriteString(plain)
		if !more {
			return out.Bytes(), nil
		}
		name, after, _ := strings.Cut(rest, string(nameEnds))
		d, ok := definitions[name]
		if !ok {
			return nil, fmt.Errorf("OpenAPI archive: no definition %q", name)
		}
		out.WriteString(d.v3[:len(d.v3)-1])
		template = after
	}
}
