package openapi

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// These are the numbers of the large fields of a document of version 2 in gnostic's OpenAPIv2.proto. The fields before them are swagger and info.
const (
	fieldPaths       = 8
	fieldDefinitions = 9
)

// packProtobufV2 converts a compressed document of version 2 to compressed protobuf. gnostic needs fifty times the memory of a text to parse it, so
// paths and definitions are parsed one at a time, each in a document of its own.
func packProtobufV2(packed blocks) ([]byte, error) {
	u, err := newUnpacker(packed)
	if err != nil {
		return nil, err
	}
	var paths, definitions section
	rest := map[string]json.RawMessage{"paths": json.RawMessage("{}")}
	d := json.NewDecoder(u)
	err = eachMember(d, func(name string) error {
		switch name {
		case "paths":
			return paths.fill(d, name, func(doc *openapiv2.Document) proto.Message { return doc.GetPaths() })
		case "definitions":
			return definitions.fill(d, name, func(doc *openapiv2.Document) proto.Message { return doc.GetDefinitions() })
		}
		var text json.RawMessage
		err := d.Decode(&text)
		rest[name] = text
		return err
	})
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(rest)
	if err != nil {
		return nil, err
	}
	tail, err := openapiv2.ParseDocument(text)
	if err != nil {
		return nil, err
	}
	head := &openapiv2.Document{Swagger: tail.Swagger, Info: tail.Info}
	tail.Swagger, tail.Info, tail.Paths = "", nil, nil
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	err = errors.Join(writeMessage(z, head), paths.copyTo(z, fieldPaths), definitions.copyTo(z, fieldDefinitions), writeMessage(z, tail), z.Close())
	return bytes.Clone(out.Bytes()), err
}

func writeMessage(w io.Writer, m proto.Message) error {
	data, err := proto.Marshal(m)
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}

// eachMember reads the names of an object's members; do reads each value.
func eachMember(d *json.Decoder, do func(name string) error) error {
	begin, err := d.Token()
	if err != nil {
		return err
	}
	if begin != json.Delim('{') {
		return fmt.Errorf("%v instead of an object", begin)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		if err := do(name.(string)); err != nil { // the names in an object are strings
			return err
		}
	}
	_, err = d.Token()
	return err
}

// section is an encoded message of many parts, compressed.
type section struct {
	packed bytes.Buffer
	size   int
	there  bool
}

// fill reads the members of an object, each with gnostic, in a document of its own.
func (s *section) fill(d *json.Decoder, name string, of func(*openapiv2.Document) proto.Message) error {
	s.there = true
	z := gzip.NewWriter(&s.packed)
	err := eachMember(d, func(key string) error {
		var text json.RawMessage
		if err := d.Decode(&text); err != nil {
			return err
		}
		head := `{"swagger":"2.0","info":{"title":"","version":""},`
		if name != "paths" {
			head += `"paths":{},`
		}
		doc, err := openapiv2.ParseDocument(fmt.Appendf(nil, `%s%q:{%s:%s}}`, head, name, strconv.Quote(key), text))
		if err != nil {
			return fmt.Errorf("%s %s: %w", name, key, err)
		}
		data, err := proto.Marshal(of(doc))
		if err != nil {
			return err
		}
		s.size += len(data)
		_, err = z.Write(data)
		return err
	})
	return errors.Join(err, z.Close())
}

// copyTo writes the message as a field of another.
func (s *section) copyTo(w io.Writer, field protowire.Number) error {
	if !s.there {
		return nil
	}
	head := protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.BytesType), uint64(s.size))
	if _, err := w.Write(head); err != nil {
		return err
	}
	z, err := gzip.NewReader(&s.packed)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, z)
	return err
}
