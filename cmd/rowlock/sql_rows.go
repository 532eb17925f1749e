package main

import (
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"
)

// rowWriter writes the rows of a query.
type rowWriter interface {
	columns(names []string) error
	// row takes values that are nil, int64, float64, string or []byte.
	row(values []any) error
	end() error
}

// nameRows writes one name per line, and nothing else.
type nameRows struct{ w io.Writer }

func (nameRows) columns([]string) error { return nil }

func (n nameRows) row(values []any) error {
	_, err := fmt.Fprintln(n.w, values...)
	return err
}

func (nameRows) end() error { return nil }

func newRowWriter(output string, w io.Writer) rowWriter {
	switch output {
	case "csv":
		return &csvRows{csv.NewWriter(w)}
	case "json":
		return &jsonRows{w: w}
	}
	return &tableRows{w: tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)}
}

// cellText returns a value as text. Bytes that are not valid text are shown in hexadecimal.
func cellText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		switch { // in a form that databases and languages can parse
		case math.IsInf(v, 1):
			return "Infinity"
		case math.IsInf(v, -1):
			return "-Infinity"
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	case []byte:
		if utf8.Valid(v) {
			return string(v)
		}
		return hex.EncodeToString(v)
	}
	return fmt.Sprint(v)
}

const (
	// cellMost is how many characters of a value a table shows.
	cellMost = 100
	// tableBytes is how much of a table shares column widths; it is buffered until the widths are known.
	tableBytes = 4 << 20
)

type tableRows struct {
	w     *tabwriter.Writer
	bytes int // buffered
}

func (t *tableRows) columns(names []string) error {
	titles := make([]string, len(names))
	for i, name := range names {
		titles[i] = shownCell(strings.ToUpper(name))
	}
	return t.line(titles)
}

func (t *tableRows) row(values []any) error {
	cells := make([]string, len(values))
	for i, v := range values {
		if cells[i] = "<none>"; v != nil {
			cells[i] = shownCell(cellText(v))
		}
	}
	return t.line(cells)
}

// harmless makes a text safe for a terminal: text that other users have written into objects must not control it.
func harmless(s string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(harmlessLines(s))
}

// harmlessLines is harmless for a text with line breaks, and tabs within lines.
func harmlessLines(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return ' '
		}
		return r
	}, s)
}

// shownCell shortens a text for a table.
func shownCell(s string) string {
	s = harmless(s[:min(len(s), utf8.UTFMax*cellMost+utf8.UTFMax)]) // the rest is not shown
	if utf8.RuneCountInString(s) > cellMost {
		s = string([]rune(s)[:cellMost-1]) + "…"
	}
	return s
}

func (t *tableRows) line(cells []string) error {
	n, err := fmt.Fprintln(t.w, strings.Join(cells, "\t"))
	if t.bytes += n; err != nil || t.bytes < tableBytes {
		return err
	}
	t.bytes = 0
	return t.w.Flush()
}

func (t *tableRows) end() error { return t.w.Flush() }

type csvRows struct{ w *csv.Writer }

func (c *csvRows) columns(names []string) error { return c.w.Write(names) }

func (c *csvRows) row(values []any) error {
	cells := make([]string, len(values))
	for i, v := range values {
		cells[i] = cellText(v)
	}
	return c.w.Write(cells)
}

func (c *csvRows) end() error {
	c.w.Flush()
	return c.w.Error()
}

// jsonRows writes a list of objects, one per line, with their members in the order of the columns.
type jsonRows struct {
	w     io.Writer
	names [][]byte
	rows  int
}

func (j *jsonRows) columns(names []string) error {
	for _, name := range names {
		quoted, err := json.Marshal(name)
		if err != nil {
			return err
		}
		j.names = append(j.names, quoted)
	}
	return nil
}

func (j *jsonRows) row(values []any) error {
	line := []byte("[\n{")
	if j.rows++; j.rows > 1 {
		line = []byte(",\n{")
	}
	for i, v := range values {
		if i > 0 {
			line = append(line, ',')
		}
		line = append(append(line, j.names[i]...), ':')
		value, err := jsonCell(v)
		if err != nil {
			return err
		}
		line = append(line, value...)
	}
	_, err := j.w.Write(append(line, '}'))
	return err
}

// jsonCell returns a value as JSON. A text with a JSON object or list is written as such, since SQLite has no JSON
// type. A number that JSON does not have is written as a string.
func jsonCell(v any) ([]byte, error) {
	if text, ok := v.(string); ok && text != "" && (text[0] == '{' || text[0] == '[') && json.Valid([]byte(text)) {
		return []byte(text), nil
	}
	if bytes, ok := v.([]byte); ok {
		return json.Marshal(cellText(bytes))
	}
	if number, ok := v.(float64); ok && (math.IsInf(number, 0) || math.IsNaN(number)) {
		return json.Marshal(cellText(number))
	}
	return json.Marshal(v)
}

func (j *jsonRows) end() error {
	last := "\n]\n"
	if j.rows == 0 {
		last = "[]\n"
	}
	_, err := io.WriteString(j.w, last)
	return err
}
