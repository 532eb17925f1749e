package archive

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"strconv"
	"unicode/utf8"
)

// File is a file of the data directory.
type File struct {
	// Name is its path within the data directory, with slashes.
	Name string      `json:"file"`
	Mode fs.FileMode `json:"mode"` // permissions
	Data []byte      `json:"data"`
}

// Table is the beginning of a table, whose rows follow.
type Table struct {
	Name    string   `json:"table"`
	Columns []string `json:"columns"`
}

// end is the last record.
type end struct {
	Files  int            `json:"files"`
	Rows   map[string]int `json:"rows"`
	SHA256 string         `json:"sha256"`
}

// Record is a file, the beginning of a table, or a row of the last table, whose column values are nil, int64, string or
// []byte.
type Record struct {
	File  *File
	Table *Table
	Row   []any
}

// recordMax bounds a row, in bytes: objects have at most 3 MiB, each byte of which may be written as six.
const recordMax = 64 << 20

// bytesValue and textValue are values without a JSON type.
type bytesValue struct {
	Bytes []byte `json:"bytes"`
}

type textValue struct {
	Text string `json:"text"`
}

// appendRow appends the line of a row.
func appendRow(line *bytes.Buffer, values []any) error {
	encoder := json.NewEncoder(line)
	encoder.SetEscapeHTML(false)
	line.WriteByte('[')
	for i, value := range values {
		if i > 0 {
			line.WriteByte(',')
		}
		switch v := value.(type) {
		case nil:
			line.WriteString("null")
			continue
		case int64:
			line.WriteString(strconv.FormatInt(v, 10))
			continue
		case []byte:
			value = bytesValue{v}
		case string:
			if !utf8.ValidString(v) {
				value = textValue{base64.StdEncoding.EncodeToString([]byte(v))}
			}
		default:
			return fmt.Errorf("a value of type %T has no place in a backup", value)
		}
		if err := encoder.Encode(value); err != nil {
			return err
		}
		line.Truncate(line.Len() - 1) // the encoder's line feed
	}
	line.WriteString("]\n")
	return nil
}

// parseRow is the reverse of appendRow.
func parseRow(line []byte) ([]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	var values []any
	if err := decoder.Decode(&values); err != nil {
		return nil, err
	}
	for i, value := range values {
		switch v := value.(type) {
		case nil, string:
		case json.Number:
			n, err := v.Int64()
			if err != nil {
				return nil, err
			}
			values[i] = n
		case map[string]any:
			parsed, err := parseValue(v)
			if err != nil {
				return nil, err
			}
			values[i] = parsed
		default:
			return nil, fmt.Errorf("a value of type %T", value)
		}
	}
	return values, nil
}

func parseValue(object map[string]any) (any, error) {
	for _, kind := range []string{"bytes", "text"} {
		encoded, ok := object[kind].(string)
		if !ok {
			continue
		}
		data, err := base64.StdEncoding.DecodeString(encoded)
		if kind == "text" {
			return string(data), err
		}
		return data, err
	}
	return nil, fmt.Errorf("a value that this rowlock does not know")
}
