package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// line is a line of a file: the first has the history, each other an operation or a watch.
type line struct {
	History   *History   `json:"history,omitempty"`
	Operation *Operation `json:"operation,omitempty"`
	Watch     *Watch     `json:"watch,omitempty"`
}

// Write writes a history as lines of JSON, which Read reads.
func Write(w io.Writer, h *History) error {
	buffer := bufio.NewWriter(w)
	e := json.NewEncoder(buffer)
	errs := []error{e.Encode(line{History: h})}
	for i := range h.Operations {
		errs = append(errs, e.Encode(line{Operation: &h.Operations[i]}))
	}
	for i := range h.Watches {
		errs = append(errs, e.Encode(line{Watch: &h.Watches[i]}))
	}
	return errors.Join(append(errs, buffer.Flush())...)
}

// Read reads a history that Write has written.
func Read(r io.Reader) (*History, error) {
	var h *History
	for d := json.NewDecoder(bufio.NewReader(r)); ; {
		var l line
		if err := d.Decode(&l); errors.Is(err, io.EOF) && h != nil {
			return h, nil
		} else if err != nil {
			return nil, fmt.Errorf("history: %w", err)
		}
		switch {
		case l.History != nil:
			h = l.History
		case h == nil:
			return nil, errors.New("history: the first line is not the header")
		case l.Operation != nil:
			h.Operations = append(h.Operations, *l.Operation)
		case l.Watch != nil:
			h.Watches = append(h.Watches, *l.Watch)
		}
	}
}
